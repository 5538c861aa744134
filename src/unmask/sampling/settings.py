"""Everything that decides which samples a run draws; two runs with equal settings draw the same
ones. Imports no torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from annotated_types import Interval

from unmask.common.border.calls import changed, checked, settings, trusted
from unmask.common.checks import shown, texts_in_order
from unmask.common.errors import InputError, argument_name
from unmask.common.files import user_path
from unmask.runs.lines import plain_texts
from unmask.runs.unpacking import STANDARD_INPUT, source_name
from unmask.sampling.decoders.decoder import Decoder
from unmask.sampling.energies.energy import (
    ModelEnergy,
    OwnEnergy,
    energy_of_stored,
    stored_energy,
)
from unmask.sampling.energies.norm import NormEnergy
from unmask.sampling.kernels.kernel import LONGEST
from unmask.sampling.kernels.mh import MH
from unmask.sampling.methods import OwnMethod, SampleMethod, method_of_stored, stored_method

MOST_SWEEPS = 10**9
DEFAULT_LENGTH = 12  # free tokens of a text
Lengths = Annotated[int, Interval(ge=1, le=LONGEST)]
Chains = Annotated[int, Interval(ge=1, le=10**6)]
Sweeps = Annotated[int, Interval(ge=1, le=MOST_SWEEPS)]
BurnIn = Annotated[int, Interval(ge=0, le=MOST_SWEEPS)]
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]


STARTS = ("ancestral", "random")
"""Where chains start, besides at texts of the user."""
Starts = str | tuple[str, ...]
"""One of STARTS, or the texts themselves."""


def lengths_of(length: int | Sequence[int] | None) -> tuple[int, ...]:
    """The lengths of texts without a template, which chains take in turn."""
    if length is None:
        return (DEFAULT_LENGTH,)
    if isinstance(length, int):
        return (length,)
    return tuple(length)


def tokens_of_alphabet(alphabet: Any) -> tuple[str, ...]:
    """The tokens of an alphabet: letters, words with commas, a list, or a file."""
    from unmask.models.text.alphabet import alphabet_tokens

    if not isinstance(alphabet, str | os.PathLike):
        alphabet = texts_in_order("alphabet", alphabet, "letters, a list of words, or a file")
    return alphabet_tokens(alphabet)


def starts_of(start: Any) -> Starts:
    """Where chains start: one of STARTS, the texts of a file (one per line, or FASTA), or the
    texts that are given.
    """
    if isinstance(start, str) and start in STARTS:
        return start
    if isinstance(start, str | os.PathLike):
        path = user_path(start, "start")
        if path != STANDARD_INPUT and not path.exists():
            raise InputError(
                f"{shown(str(start))} is no file, and neither ancestral nor random",
                argument="start",
                use="give one of these, a file, or in Python a list of texts",
            )
        texts = list(plain_texts(path))
        where = repr(source_name(path))
    else:
        lines = texts_in_order("start", start, "ancestral, random, a file or a list of texts")
        texts = [line.strip() for line in lines if line.strip()]
        where = "the list"
    if not texts:
        raise InputError(f"no text to start from: {where} has none; give one text per line")
    return tuple(texts)


@dataclass(frozen=True)
class SampleSettings:
    """The arguments of `unmask.sample` that decide its samples, which that call has checked one
    by one; here they are checked together.

    length      free tokens of each text; chain c takes number c modulo how many there are
    sweeps      how many are run; the first `burn_in` are not kept, then every `thin`-th is
    start       "ancestral" (blanks filled one by one), "random" (tokens drawn uniformly), or
                texts, which chains take in turn
    allow       the only tokens of a blank, by its number from 1
    alphabet    tokens allowed in every blank

    >>> unmask.sample("A [MASK] sat.", chains=2, sweeps=4, thin=2).settings.kept_after(4)
    2
    """

    kernel: SampleMethod | OwnMethod = field(default_factory=MH)
    energy: ModelEnergy | OwnEnergy = field(default_factory=NormEnergy)
    template: str | None = None
    length: tuple[Lengths, ...] = (DEFAULT_LENGTH,)
    chains: Chains = 16
    sweeps: Sweeps = 20
    seed: Seed = 0
    burn_in: BurnIn = 0
    thin: Sweeps = 1
    start: Starts = "ancestral"
    allow: Mapping[int, Sequence[str]] | None = None
    alphabet: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.burn_in >= self.sweeps:
            raise InputError(
                f"{self.burn_in} of {self.sweeps} sweeps leaves no sample",
                argument="burn_in",
                use="give fewer than the sweeps",
            )
        if self.kept_after(self.sweeps) < 1:
            raise InputError(
                f"{self.thin} leaves no sample of {self.sweeps - self.burn_in} sweeps",
                argument="thin",
                use="thin less",
            )
        if not self.length:
            raise InputError(
                "is empty", argument="length", use="ask for texts of at least one token"
            )
        if isinstance(self.kernel, Decoder) and self.kernel.temperature is None:
            # settings that are written say every number
            object.__setattr__(self, "kernel", replace(self.kernel, temperature=1.0))
        _refuse_too_many("length", len(self.length), "lengths", self.chains)
        _refuse_too_many("start", len(self.start_texts), "texts to start from", self.chains)

    @property
    def start_texts(self) -> tuple[str, ...]:
        """The texts of the user that chains start from; none if they start elsewhere."""
        return () if isinstance(self.start, str) else self.start

    def kept_after(self, sweeps: int) -> int:
        """Samples per chain of the first `sweeps` sweeps."""
        return max(0, sweeps - self.burn_in) // self.thin

    def keeps(self, sweep: int) -> bool:
        """Whether the texts after sweep `sweep`, counted from 1, are kept."""
        return sweep > self.burn_in and (sweep - self.burn_in) % self.thin == 0

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON has them: the name of the kernel among its options, lists for
        tuples.
        """
        values: dict[str, Any] = dict(vars(self))
        values["kernel"] = stored_method(self.kernel)
        values["energy"] = stored_energy(self.energy)
        values["allow"] = sorted((self.allow or {}).items())
        as_json = json.dumps(values)
        return dict(json.loads(as_json))

    def __plain__(self) -> dict[str, Any]:
        """The settings as part of a result."""
        return self.to_dict()

    @classmethod
    @checked
    def from_dict(cls, stored: Mapping[str, Any]) -> SampleSettings:
        """The inverse of `to_dict`; names that are not settings are ignored, and a missing one
        is a KeyError.
        """
        values = {one.name: stored[one.name] for one in fields(cls)}
        values["kernel"] = method_of_stored(values["kernel"])
        values["energy"] = energy_of_stored(values["energy"])
        values["allow"] = dict(values["allow"]) or None  # JSON has pairs in the place of a mapping
        if not isinstance(values["start"], str):
            values["start"] = tuple(values["start"])
        values["alphabet"] = tuple(values["alphabet"])
        return checked_settings(**values)


@dataclass(frozen=True)
class GenerateSettings:
    """The arguments of `unmask.generate` that decide its texts, which that call has checked one
    by one.

    length      blanks of each text, where there is no template; text c takes number c modulo how
                many there are
    allow       the only tokens of a blank, by its number from 1
    alphabet    tokens allowed in every blank

    >>> unmask.generate("A [MASK] sat.", n_texts=2, seed=3).settings.seed
    3
    """

    decoder: Decoder
    template: str | None = None
    length: tuple[Lengths, ...] = (DEFAULT_LENGTH,)
    n_texts: Chains = 16
    seed: Seed = 0
    allow: Mapping[int, Sequence[str]] | None = None
    alphabet: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.length:
            raise InputError(
                "is empty", argument="length", use="ask for texts of at least one token"
            )
        _refuse_too_many("length", len(self.length), "lengths", self.n_texts, "n_texts")
        if self.decoder.temperature is None:  # settings that are written say every number
            object.__setattr__(self, "decoder", changed(self.decoder, temperature=1.0))

    @property
    def run(self) -> SampleSettings:
        """The texts as one sweep of a run, each of them a chain: its number decides its random
        numbers.
        """
        return SampleSettings(
            kernel=self.decoder,
            energy=trusted(NormEnergy),  # none is computed
            template=self.template,
            length=self.length,
            chains=self.n_texts,
            sweeps=1,
            seed=self.seed,
            allow=self.allow,
            alphabet=self.alphabet,
        )

    def to_dict(self) -> dict[str, Any]:
        """The settings as JSON has them: the name of the decoder among its options, lists for
        tuples.
        """
        as_run = self.run.to_dict()
        return {
            "decoder": as_run["kernel"],
            "template": self.template,
            "length": as_run["length"],
            "n_texts": self.n_texts,
            "seed": self.seed,
            "allow": as_run["allow"],
            "alphabet": as_run["alphabet"],
        }

    def __plain__(self) -> dict[str, Any]:
        """The settings as part of a result."""
        return self.to_dict()


def _refuse_too_many(
    argument: str, count: int, what: str, chains: int, of_chains: str = "chains"
) -> None:
    """Raise if there are more things than chains that take them: the rest would do nothing.

    of_chains   the argument that has the number of chains
    """
    if count > chains:
        raise InputError(
            f"has {count:,} {what}, and {argument_name(of_chains, chains)} takes"
            f" {chains:,} of them",
            argument=argument,
            use=f"give {argument_name(of_chains, count)} or more, or fewer {what}",
        )


@settings
class _Checked(SampleSettings):
    """Settings of which each is held to its annotation."""


def checked_settings(**values: Any) -> SampleSettings:
    """Settings that no public function has checked, such as those of a file."""
    return SampleSettings(**vars(_Checked(**values)))
