"""Everything that decides which translations come out; imports no torch, so that the command line can show it at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from unmask.checks import one_of, real, whole
from unmask.errors import InputError
from unmask.sampling.registry import KERNELS, entry_of
from unmask.sampling.settings import HOTTEST, LARGEST_SEED, SampleSettings

AUTOREGRESSIVE = ("greedy", "beam")
DECODERS = tuple(name for name, entry in KERNELS.items() if entry.decodes)
MARKOV = tuple(name for name, entry in KERNELS.items() if not entry.decodes)
SCORES = ("norm", "raw", "any-order")
RANDOM, REVISE = "random", "revise"
STEPS = 10


@dataclass(frozen=True)
class TranslateSettings:
    """What `unmask translate` takes, checked.

    method          a decoder, a kernel, or of a causal model greedy or beam
    steps           of a decoder, or sweeps of a kernel
    start           where a kernel starts: a decoder, after start_steps, or "random"
    lengths         how many of the likeliest lengths are decoded
    choose          by which score the best of them is taken; divided by its tokens, with `per_token`
    orders          random orders that the any-order log-probability averages over
    beam, penalty   of a causal model's search: log p / tokens^penalty
    options         further settings of `SampleSettings`
    """

    method: str = "mask-predict"
    steps: int = STEPS
    start: str = "mask-predict"
    start_steps: int = STEPS
    lengths: int = 5
    choose: str = "raw"
    per_token: bool = True
    orders: int = 1
    beam: int = 5
    penalty: float = 1.0
    energy: str = "norm"
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("decoder or kernel", self.method, (*DECODERS, *MARKOV, *AUTOREGRESSIVE))
        one_of("start", self.start, (*DECODERS, RANDOM))
        one_of("choose", self.choose, SCORES)
        for name, most in (("steps", 10**6), ("start_steps", 10**6), ("lengths", 10**4), ("orders", 10**4), ("beam", 10**3)):
            whole(name, getattr(self, name), 1, most)
        whole("seed", self.seed, 0, LARGEST_SEED - 1)
        real("penalty", self.penalty, 0, HOTTEST)
        for name in self._unused:
            if getattr(self, name) != getattr(type(self), name):
                raise InputError(f"{name} was given, which {self.method} does not use: leave it out")
        if self.autoregressive and self.options:
            raise InputError(f"{next(iter(self.options))} was given, which {self.method} does not use: leave it out")
        if not self.autoregressive:
            _ = self.sampling, self.starting

    @property
    def _unused(self) -> tuple[str, ...]:
        """Settings that this method has no use for."""
        search, beginning = ("beam", "penalty"), ("start", "start_steps")
        if self.autoregressive:
            masked = ("steps", *beginning, "lengths", "choose", "per_token", "orders", "energy")
            return masked if self.method == "beam" else (*masked, *search)
        if self.moves:
            return search if _in_steps(self.start) else (*search, "start_steps")
        return (*search, *beginning) if _in_steps(self.method) else (*search, *beginning, "steps")

    @property
    def autoregressive(self) -> bool:
        """Whether a causal model is asked for."""
        return self.method in AUTOREGRESSIVE

    @property
    def moves(self) -> bool:
        """Whether a Markov kernel moves the translations after they were started."""
        return self.method in MARKOV

    @property
    def sampling(self) -> SampleSettings:
        """The settings of the decoder or the kernel."""
        return _sampling(self.method, self.steps, self.energy, self.seed, self.options)

    @property
    def starting(self) -> SampleSettings | None:
        """The settings of the decoder that translations are started by; None where they start at random."""
        if not self.moves:
            return self.sampling
        return None if self.start == RANDOM else _sampling(self.start, self.start_steps, self.energy, self.seed + 1, {})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def _in_steps(decoder: str) -> bool:
    """Whether a decoder takes a number of steps."""
    return decoder != RANDOM and "decoding_steps" in entry_of(decoder).options


def _sampling(name: str, steps: int, energy: str, seed: int, options: dict[str, Any]) -> SampleSettings:
    """Tokens are the likeliest ones, unless a temperature says otherwise."""
    entry, chosen = entry_of(name), dict(options)
    if not entry.decodes:
        chosen["sweeps"] = steps
    if "decoding_steps" in entry.options:
        chosen["decoding_steps"] = steps
    if "decoding_temperature" in entry.options:
        chosen.setdefault("decoding_temperature", 0.0)
    return SampleSettings.given(kernel=name, energy=energy, seed=seed, **chosen)
