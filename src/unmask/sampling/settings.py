"""Everything that decides which samples a run draws; two runs with equal settings draw the same ones.

Imports no torch, so that the command line can show defaults and choices at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, Literal, get_args

from unmask.checks import one_of, real, whole
from unmask.errors import InputError
from unmask.joints.registry import named
from unmask.sampling.registry import Entry, entry_of, refuse_unused

EnergyKind = Literal["raw", "norm"]
Scan = Literal["random", "fixed", "permutation"]
BlockShape = Literal["window", "scattered", "dependent", "independent"]
Schedule = Literal["linear", "cosine"]
Order = Literal["random", "left-to-right", "right-to-left"]
Keeps = Literal["logits", "states", "nothing"]

BY_DEPENDENCE = ("dependent", "independent")
"""Block shapes that are chosen by a measured dependence, which takes a construction (`joint`) and `candidates`."""
HOTTEST = 1e6
MOST_CHAINS, MOST_SWEEPS, LONGEST, LARGEST_SEED = 10**6, 10**9, 10**5, 2**63 - 1
CHOICES = {"energy": EnergyKind, "scan": Scan, "block_shape": BlockShape, "schedule": Schedule, "order": Order}
WHOLE = {
    "chains": (1, MOST_CHAINS),
    "sweeps": (1, MOST_SWEEPS),
    "seed": (0, LARGEST_SEED),
    "burn_in": (0, MOST_SWEEPS),
    "thin": (1, MOST_SWEEPS),
    "block_size": (1, LONGEST),
    "top_k": (1, 10**9),
    "candidates": (1, 10**5),
    "decoding_steps": (1, 10**6),
}
POSITIVE = {
    "temperature": HOTTEST,
    "proposal_temperature": HOTTEST,
    "nucleus": 1.0,
    "hot": HOTTEST,
    "cold": HOTTEST,
}
MOST_REFINEMENTS = 1_000
"""Gibbs steps of a refined draw on average; it is not kept, nor reported on, before all of them are done."""


@dataclass(frozen=True)
class SampleSettings:
    """What `unmask sample` takes, checked; see its help.

    length      free tokens of each text; chain c takes number c modulo how many there are
    sweeps      how many are run; the first `burn_in` are not kept, then every `thin`-th is
    init        texts to start from; chain c takes text c modulo how many there are
    template    a text with [MASK] where tokens are sampled; the others are held. Replaces `length`
    allow       (position in the template's tokens, tokens that may stand there)
    alphabet    which tokens may stand at any site, as the user wrote them; empty: every regular token
    restart     of refined draws: the probability of stopping before each Gibbs step
    candidates  tokens per position of the pair-joint kernel, and of the dependence that blocks go by; so is `joint`
    """

    kernel: str = "mh"
    energy: EnergyKind = "norm"
    temperature: float = 1.0
    length: tuple[int, ...] = (12,)
    chains: int = 64
    sweeps: int = 100
    seed: int = 0
    burn_in: int = 0
    thin: int = 1
    init: tuple[str, ...] = ()
    random_start: bool = False
    template: str | None = None
    allow: tuple[tuple[int, tuple[str, ...]], ...] = ()
    alphabet: tuple[str, ...] = ()
    scan: Scan = "permutation"
    block_size: int = 2
    block_shape: BlockShape = "window"
    proposal_temperature: float = 1.0
    top_k: int | None = None
    nucleus: float | None = None
    delayed: tuple[int, ...] = ()
    ladder: tuple[float, ...] = (1.0, 1.5, 2.25)
    hot: float = 2.0
    cold: float = 0.1
    joint: str = "pseudo_gibbs"
    candidates: int = 16
    decoding_steps: int = 10
    schedule: Schedule = "linear"
    decoding_temperature: float = 1.0
    gamma: float = 1.0
    order: Order = "random"
    restart: float = 0.1

    def __post_init__(self) -> None:
        entry_of(self.kernel)
        for name, choices in CHOICES.items():
            one_of(name.replace("_", " "), getattr(self, name), get_args(choices))
        for name, (least, most) in WHOLE.items():
            self._set(name, lambda value, n=name, a=least, b=most: whole(n, value, a, b))
        for name, largest in POSITIVE.items():
            self._set(name, lambda value, n=name, b=largest: real(n, value, 0, b, above=True))
        self._set("restart", checked_restart)
        for name in ("decoding_temperature", "gamma"):
            self._set(name, lambda value, n=name: real(n, value, 0, HOTTEST))
        self._set("length", lambda values: tuple(whole("length", value, 1, LONGEST) for value in values))
        self._set("delayed", lambda values: tuple(whole("delayed", value, 0, LONGEST) for value in values))
        self._set("ladder", lambda values: tuple(real("ladder", value, 0, HOTTEST, above=True) for value in values))
        named(self.joint, "joint")
        if not isinstance(self.random_start, bool):
            raise InputError(f"random_start {self.random_start!r} is neither True nor False: give one of them")
        if not (self.template is None or isinstance(self.template, str)):
            raise InputError(f"template {self.template!r} is no text: give one with [MASK] where tokens are sampled")
        self._refuse_what_leaves_nothing()
        if not self.length:
            raise InputError("no length was given: ask for texts of at least one token")
        if any(a >= b for a, b in pairwise(self.delayed)):
            raise InputError(f"delayed acceptance at distances {list(self.delayed)}: give rising numbers, such as 1,3")
        if self.measures_dependence and self.block_size < 2 and self.entry.sites is None:
            raise InputError(
                f"blocks of {self.block_size} by dependence, which is between two positions: give block_size 2 or more"
            )

    def _set(self, name: str, checked: Any) -> None:
        value = getattr(self, name)
        if value is not None:
            object.__setattr__(self, name, checked(value))

    def _refuse_what_leaves_nothing(self) -> None:
        if self.burn_in >= self.sweeps:
            raise InputError(f"burn_in {self.burn_in} of {self.sweeps} sweeps leaves no sample: give fewer than the sweeps")
        if self.kept < 1:
            raise InputError(f"thin {self.thin} leaves no sample of {self.sweeps - self.burn_in} sweeps: thin less")

    @classmethod
    def given(cls, **options: Any) -> SampleSettings:
        """Settings from the options that a user gave, None where one was left out; one that nothing uses is refused."""
        named = {name: value for name, value in options.items() if value is not None and value is not False}
        kernel = str(named.get("kernel", cls.kernel))
        refuse_unused(kernel, named)
        for one, other, why in (
            ("template", "length", "the template has its own length"),
            ("init", "length", "starts have their own lengths"),
            ("init", "random_start", "a chain has one start"),
        ):
            if one in named and other in named:
                raise InputError(f"{one} and {other} were both given, and {why}: leave one out")
        settings = cls(**named)
        if not settings.measures_dependence and kernel != "pair-joint":
            for option in ("joint", "candidates"):
                if option in named:
                    raise InputError(
                        f"{option} was given, which blocks of shape {settings.block_shape} do not use: leave it out, "
                        f"or use block_shape {' or '.join(BY_DEPENDENCE)}"
                    )
        return settings

    @property
    def entry(self) -> Entry:
        """What the registry knows about the kernel."""
        return entry_of(self.kernel)

    @property
    def measures_dependence(self) -> bool:
        """Whether blocks are chosen by a measured dependence."""
        return self.block_shape in BY_DEPENDENCE

    @property
    def sites_per_step(self) -> int:
        """How many sites one step redraws."""
        return self.entry.sites or self.block_size

    @property
    def sampled_temperature(self) -> float:
        """The temperature of the texts that are kept."""
        return self.ladder[0] if "ladder" in self.entry.options else self.temperature

    @property
    def kept(self) -> int:
        """Samples per chain."""
        return self.kept_after(self.sweeps)

    def kept_after(self, sweeps: int) -> int:
        """Samples per chain of the first so many sweeps."""
        return max(0, sweeps - self.burn_in) // self.thin

    def keeps(self, sweep: int) -> bool:
        """Whether the texts after sweep `sweep`, counted from 1, are kept."""
        return sweep > self.burn_in and (sweep - self.burn_in) % self.thin == 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: lists for tuples."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SampleSettings:
        """The other way round; names that are no settings are left aside, and a missing one is a KeyError."""
        return cls(**{field.name: _tuples(stored[field.name]) for field in fields(cls)})


def checked_restart(given: object) -> float:
    """The probability of stopping before each Gibbs step, if the steps, 1 / restart on average, end in reasonable time."""
    restart = real("restart", given, 0, 1, above=True)
    if restart * MOST_REFINEMENTS < 1:
        raise InputError(
            f"restart {restart:g} takes {1 / restart:.3g} passes per text on average, over the limit of {MOST_REFINEMENTS:,}: "
            f"give {1 / MOST_REFINEMENTS:g} or more"
        )
    return restart


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
