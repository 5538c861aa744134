"""What decides the numbers: which scores, how long texts are treated, and the options of single scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from unmask.checks import one_of, whole
from unmask.errors import InputError
from unmask.scoring.registry import SCORES, chosen

LONG = ("refuse", "windows")
ENERGIES = ("raw", "norm")
LARGEST_SEED = 2**63 - 1
MOST_EXACT = 16
"""Sites up to which the lattice of revealed sets is offered: 65,535 passes per text."""


@dataclass(frozen=True)
class ScoreSettings:
    """Options that belong to single scores may be given only along with a score that reads them.

    scores         their names
    long           what becomes of a text that is longer than the model takes: "refuse" (a row with a reason), or "windows"
    exact_tokens   any_order and order_bounds: texts up to so many tokens are exact over all orders, longer ones sampled
    orders         and so many orders are sampled per text
    joint          pair: the construction of the pairs' joints
    candidates     pair: tokens considered at each of two sites
    energy         log_prob: raw or norm
    chains         log_prob: runs of annealed importance sampling in each direction
    anneals        log_prob: distributions between the chain rule and exp(-E); more make the bounds tighter
    seed           of sampled orders and of annealing; the same text has the same numbers in every batch
    """

    scores: tuple[str, ...] = ("pll",)
    long: str = "refuse"
    exact_tokens: int = 14
    orders: int = 64
    joint: str = "balanced"
    candidates: int = 64
    energy: str = "norm"
    chains: int = 32
    anneals: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", chosen(self.scores))
        one_of("long", self.long, LONG)
        one_of("energy", self.energy, ENERGIES)
        whole("exact_tokens", self.exact_tokens, 0, MOST_EXACT)
        whole("orders", self.orders, 2, 10**6)
        whole("candidates", self.candidates, 1, 10**6)
        whole("chains", self.chains, 2, 10**6)
        whole("anneals", self.anneals, 1, 10**6)
        whole("seed", self.seed, 0, LARGEST_SEED)

    @classmethod
    def of(cls, score: str | list[str] | tuple[str, ...], long: str = "refuse", **options: Any) -> ScoreSettings:
        """Settings from the options that were given (not None); one that no score asked for reads is refused."""
        names = chosen(score)
        given = {name: value for name, value in options.items() if value is not None}
        for option in given:
            readers = [name for name in SCORES if option in SCORES[name].options]
            if not set(readers) & set(names):
                raise InputError(
                    f"{option} {given[option]!r} has no effect on {', '.join(names)}: it belongs to {', '.join(readers)}; "
                    "leave it out or ask for one of these"
                )
        return cls(names, long, **given)

    def to_dict(self) -> dict[str, Any]:
        """What a run folder keeps: the options that the scores read."""
        read = {"scores", "long", *(option for name in self.scores for option in SCORES[name].options)}
        return {name: value for name, value in asdict(self).items() if name in read}


OPTIONS = tuple(field.name for field in fields(ScoreSettings) if field.name not in ("scores", "long"))
"""The options of single scores."""
