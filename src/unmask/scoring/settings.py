"""What decides the numbers: which scores, how long texts are treated, and the options of single scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from unmask.options.scoring import Scoring
from unmask.scoring.registry import SCORES


@dataclass(frozen=True)
class ScoreSettings(Scoring):
    """The options of `unmask score` that decide its numbers; those of single scores go with a score that reads them."""

    @property
    def scores(self) -> tuple[str, ...]:
        """The names of the scores."""
        return self.score

    def to_dict(self) -> dict[str, Any]:
        """What a run folder keeps: the options that the scores read."""
        read = {"long", *(option for name in self.scores for option in SCORES[name].options)}
        return {"scores": self.scores, **{name: value for name, value in asdict(self).items() if name in read}}
