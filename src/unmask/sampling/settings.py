"""Everything that decides which samples a run draws; two runs with equal settings draw the same
ones. Imports no torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any

from annotated_types import Interval

from unmask.common.border.calls import changed, checked, settings, trusted
from unmask.common.border.marks import ShownType, Written
from unmask.common.checks import texts_in_order
from unmask.common.errors import InputError, argument_name
from unmask.common.files import user_path
from unmask.runs.lines import plain_texts
from unmask.runs.unpacking import source_name
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
Lengths = Annotated[int, Interval(ge=1, le=LONGEST)]
Chains = Annotated[int, Interval(ge=1, le=10**6)]
Sweeps = Annotated[int, Interval(ge=1, le=MOST_SWEEPS)]
BurnIn = Annotated[int, Interval(ge=0, le=MOST_SWEEPS)]
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]


@settings
class Start:
    """Where chains start, and which tokens they may hold.

    Parameters:
        init: Texts to start from, or a file of them (lines or FASTA); chains take them in turn
            [default: blanks filled one by one].
        random_start: Start from tokens drawn uniformly.
        allow: The only tokens at a position of the template's tokens, such as 3=red,green;
            [CLS] is position 0.
        alphabet: Tokens allowed at every site: letters (ACDE), words with commas, a list, or a
            file.

    >>> start = unmask.Start(alphabet=["man", "woman"])
    >>> run = unmask.sample("A [MASK] sat.", chains=2, sweeps=2, start=start)
    >>> set(run.to_frame()["text"]) <= {"A man sat.", "A woman sat."}
    True
    """

    init: Annotated[
        Any, ShownType("Sequence[str] | str | PathLike[str]"), Written(metavar="PATH")
    ] = ()
    random_start: bool = False
    allow: Annotated[Mapping[int, Sequence[str]] | None, Written("POSITION=TOKENS")] = None
    alphabet: Annotated[
        Any, ShownType("Sequence[str] | str | PathLike[str]"), Written(metavar="TOKENS")
    ] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "init", start_texts(self.init))
        if not _left_out(self.alphabet):
            object.__setattr__(self, "alphabet", tokens_of_alphabet(self.alphabet))
        if self.init and self.random_start:
            raise InputError(
                f"and {argument_name('random_start')} were both given, and a chain has one start",
                argument="init",
                use="leave one out",
            )


def _left_out(value: Any) -> bool:
    """Whether a value is the default, an empty tuple; arrays and Series are compared with
    nothing.
    """
    return isinstance(value, tuple) and not value


def tokens_of_alphabet(alphabet: Any) -> tuple[str, ...]:
    """The tokens of an alphabet: letters, words with commas, a list, or a file."""
    from unmask.models.text.alphabet import alphabet_tokens

    if not isinstance(alphabet, str | os.PathLike):
        alphabet = texts_in_order("alphabet", alphabet, "letters, a list of words, or a file")
    return alphabet_tokens(alphabet)


def start_texts(init: Any) -> tuple[str, ...]:
    """Texts to start from: those of a file, one per line or FASTA, or the texts themselves."""
    if _left_out(init):
        return ()
    if isinstance(init, str | os.PathLike):
        path = user_path(init, "init")
        texts = list(plain_texts(path))
        where = repr(source_name(path))
    else:
        lines = texts_in_order("init", init, "a file or a list of texts")
        texts = [line.strip() for line in lines if line.strip()]
        where = "init"
    if not texts:
        raise InputError(f"no text to start from: {where} has none; give one text per line")
    return tuple(texts)


@dataclass(frozen=True)
class SampleSettings:
    """The arguments of `unmask.sample` that decide its samples, which that call has checked one
    by one; here they are checked together.

    length      free tokens of each text; chain c takes number c modulo how many there are
    sweeps      how many are run; the first `burn_in` are not kept, then every `thin`-th is

    >>> unmask.sample("A [MASK] sat.", chains=2, sweeps=4, thin=2).settings.kept_after(4)
    2
    """

    kernel: SampleMethod | OwnMethod = field(default_factory=MH)
    energy: ModelEnergy | OwnEnergy = field(default_factory=NormEnergy)
    template: str | None = None
    length: tuple[Lengths, ...] = (12,)
    chains: Chains = 16
    sweeps: Sweeps = 20
    seed: Seed = 0
    burn_in: BurnIn = 0
    thin: Sweeps = 1
    start: Start = Start()

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
        if self.kernel.decodes and (self.start.init or self.start.random_start):
            name = "init" if self.start.init else "random_start"
            raise InputError(
                f"was given, which {argument_name('kernel')} {self.kernel.name} does not use",
                argument=name,
                use="leave it out, or use a Markov kernel",
            )
        if isinstance(self.kernel, Decoder) and self.kernel.temperature is None:
            # settings that are written say every number
            object.__setattr__(self, "kernel", replace(self.kernel, temperature=1.0))
        if len(self.start.init) > self.chains:  # the rest has no chain
            used = self.start.init[: self.chains]
            object.__setattr__(self, "start", replace(self.start, init=used))

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
        allow = self.start.allow or {}
        values["start"] = {**asdict(self.start), "allow": sorted(allow.items())}
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
        start = dict(values["start"])
        # JSON has an empty list where the default is an empty tuple.
        given = {name: value for name, value in start.items() if value != []}
        if "allow" in given:
            given["allow"] = dict(given["allow"])  # JSON has pairs in the place of a mapping
        values["start"] = Start(**given)
        return checked_settings(**values)


@dataclass(frozen=True)
class GenerateSettings:
    """The arguments of `unmask.generate` that decide its texts, which that call has checked one
    by one.

    length      blanks of each text, where there is no template; text c takes number c modulo how
                many there are
    allow       the only tokens at a position of the template's tokens
    alphabet    tokens allowed in every blank

    >>> unmask.generate("A [MASK] sat.", n_texts=2, seed=3).settings.seed
    3
    """

    decoder: Decoder
    template: str | None = None
    length: tuple[Lengths, ...] = (12,)
    n_texts: Chains = 16
    seed: Seed = 0
    allow: Mapping[int, Sequence[str]] | None = None
    alphabet: Any = ()

    def __post_init__(self) -> None:
        if not self.length:
            raise InputError(
                "is empty", argument="length", use="ask for texts of at least one token"
            )
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
            start=trusted(Start, allow=self.allow, alphabet=self.alphabet),
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
            "allow": as_run["start"]["allow"],
            "alphabet": as_run["start"]["alphabet"],
        }

    def __plain__(self) -> dict[str, Any]:
        """The settings as part of a result."""
        return self.to_dict()


@settings
class _Checked(SampleSettings):
    """Settings of which each is held to its annotation."""


def checked_settings(**values: Any) -> SampleSettings:
    """Settings that no public function has checked, such as those of a file."""
    return SampleSettings(**vars(_Checked(**values)))
