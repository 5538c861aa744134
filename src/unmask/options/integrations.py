"""Options of `lm_eval --model unmask`: the names of `--model_args`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unmask.errors import InputError
from unmask.options.kinds import Choice, Whole
from unmask.options.option import Reads, like, option
from unmask.options.sampling import LONGEST, Sampling
from unmask.options.scoring import ScoreNames, Scoring
from unmask.options.shared import Loaded
from unmask.sampling.registry import KERNELS
from unmask.scoring.registry import DEFAULT_OF_HARNESS

DECODERS = {name: entry.options for name, entry in KERNELS.items() if "decoding_temperature" in entry.options}
"""The decoders that can take the likeliest token, which the harness calls greedy."""


class OneScore(ScoreNames):
    """The name of a score."""

    def check(self, name: str, given: Any) -> tuple[str, ...]:
        """One name."""
        found = super().check(name, given)
        if len(found) > 1:
            raise InputError(f"{name} {', '.join(found)} are {len(found)} scores, and the harness takes one number: name one")
        return found


@dataclass(frozen=True)
class HarnessOptions(Loaded, Scoring):
    """What decides the answers to the harness, which calls the model `pretrained`."""

    reads = (*Scoring.reads, Reads("decoder", DECODERS))

    score: tuple[str, ...] = like(Scoring, "score", kind=OneScore(), default=DEFAULT_OF_HARNESS, otherwise="")
    unscored: str = option(
        "refuse", Choice(("refuse", "zero")), "A text without a score: refuse (one line), or zero (probability 0)."
    )
    decoder: str = option("confidence", Choice(tuple(DECODERS)), "What fills the blanks of generated texts")
    decoding_steps: int | None = like(Sampling, "decoding_steps", otherwise="one per blank, or by the decoder's bound")
    max_gen_toks: int = option(32, Whole(1, LONGEST), "Blanks of a generated text, if the task does not say.")

    @classmethod
    def chosen(cls, what: str, given: Any) -> tuple[str, ...]:
        """The score is by default the harness's own."""
        return super().chosen(what, {"score": DEFAULT_OF_HARNESS, **given})
