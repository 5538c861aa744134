"""Everything that decides which samples a run draws; two runs with equal settings draw the same ones.

Imports no torch, so that the command line can show defaults and choices at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, Self

from unmask.errors import InputError
from unmask.options.sampling import Sampling
from unmask.sampling.registry import Entry, entry_of
from unmask.tables.profile import as_profile

Keeps = Literal["logits", "states", "nothing"]

EXCLUSIVE = (
    ("template", "length", "the template has its own length"),
    ("init", "length", "starts have their own lengths"),
    ("init", "random_start", "a chain has one start"),
)


@dataclass(frozen=True)
class SampleSettings(Sampling):
    """The options of `unmask sample` that decide its samples.

    length      free tokens of each text; chain c takes number c modulo how many there are
    sweeps      how many are run; the first `burn_in` are not kept, then every `thin`-th is
    init        texts to start from; chain c takes text c modulo how many there are
    allow       (position in the template's tokens, tokens allowed there)
    alphabet    tokens allowed at every site; empty: every regular token
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.template is None or isinstance(self.template, str)):
            raise InputError(f"template {self.template!r} is not a text: give one with [MASK] where tokens are sampled")
        if self.burn_in >= self.sweeps:
            raise InputError(f"burn_in {self.burn_in} of {self.sweeps} sweeps leaves no sample: give fewer than the sweeps")
        if self.kept < 1:
            raise InputError(f"thin {self.thin} leaves no sample of {self.sweeps - self.burn_in} sweeps: thin less")
        if not self.length:
            raise InputError("no length was given: ask for texts of at least one token")
        if self.profile is not None:
            object.__setattr__(self, "profile", as_profile("profile", self.profile))
        bound = self.entry.bound
        if bound and self.decoding_steps is not None and getattr(self, bound) is not None:
            raise InputError(
                f"decoding_steps {self.decoding_steps} and {bound} {getattr(self, bound):g} were both given, and each decides "
                "the number of steps: leave one out"
            )
        if any(a >= b for a, b in pairwise(self.delayed)):
            raise InputError(f"delayed acceptance at distances {list(self.delayed)}: give rising numbers, such as 1,3")

    @classmethod
    def given(cls, arguments: Mapping[str, Any] = MappingProxyType({}), /, **more: Any) -> Self:
        """Settings from what a user gave, None where an option was left out; an option that nothing reads is refused."""
        arguments = {**arguments, **more}
        named = {name for name, value in arguments.items() if value is not None and value is not False}
        for one, other, why in EXCLUSIVE:
            if {one, other} <= named:
                raise InputError(f"{one} and {other} were both given, and {why}: leave one out")
        return super().given(arguments)

    @property
    def entry(self) -> Entry:
        """The registry's entry of the kernel."""
        return entry_of(self.kernel)

    @property
    def sites_per_step(self) -> int:
        """How many sites one step redraws."""
        return self.entry.sites or self.block_size

    @property
    def replicas(self) -> int:
        """Rows of the state per chain: one per temperature of a ladder."""
        return len(self.ladder) if "ladder" in self.entry.options else 1

    def conditionals_at_once(self, sites: int) -> int:
        """Conditionals of one text of `sites` free tokens that are drawn from at once."""
        return self.entry.conditionals or (sites if self.entry.decodes else self.sites_per_step)

    @property
    def sampled_temperature(self) -> float:
        """The temperature of the texts that are kept."""
        return self.ladder[0] if self.replicas > 1 else self.temperature

    @property
    def kept(self) -> int:
        """Samples per chain."""
        return self.kept_after(self.sweeps)

    def kept_after(self, sweeps: int) -> int:
        """Samples per chain of the first `sweeps` sweeps."""
        return max(0, sweeps - self.burn_in) // self.thin

    def keeps(self, sweep: int) -> bool:
        """Whether the texts after sweep `sweep`, counted from 1, are kept."""
        return sweep > self.burn_in and (sweep - self.burn_in) % self.thin == 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it: lists for tuples."""
        return dict(json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SampleSettings:
        """The inverse of `to_dict`; names that are not settings are ignored, and a missing one is a KeyError."""
        return cls(**{field.name: _tuples(stored[field.name]) for field in fields(cls)})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
