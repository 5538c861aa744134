"""All options that decide the translations; imports no torch, so that the command line can show it at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unmask.errors import InputError
from unmask.options.translation import AUTOREGRESSIVE, MARKOV, RANDOM, USUAL, USUAL_STEPS, Translating, in_steps
from unmask.sampling.registry import entry_of
from unmask.sampling.settings import SampleSettings, flat_settings

DECIDED = ("steps", "start", "start_steps", "lengths", "choose", "beam", "energy", "seed")


@dataclass(frozen=True)
class TranslateSettings(Translating):
    """The options of `unmask translate` that decide its translations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decoder is not None and self.kernel is not None:
            raise InputError(f"decoder {self.decoder} and kernel {self.kernel} were both given: leave one out")
        if self.moves and self.start_steps != type(self).start_steps and (self.start == RANDOM or not in_steps(self.start)):
            raise InputError(f"start_steps was given, which start {self.start} does not use: leave it out")
        if not self.autoregressive:
            _ = self.sampling, self.starting

    @property
    def method(self) -> str:
        """The decoder or the kernel; of a causal model greedy or beam."""
        return self.kernel or self.decoder or USUAL

    @property
    def autoregressive(self) -> bool:
        """Whether a causal model is asked for."""
        return self.method in AUTOREGRESSIVE

    @property
    def width(self) -> int:
        """Of the beam of a causal model; greedy decoding has one of 1."""
        return self.beam if self.method == "beam" else 1

    @property
    def moves(self) -> bool:
        """Whether a Markov kernel moves the translations after they were started."""
        return self.method in MARKOV

    @property
    def corrector(self) -> str | None:
        """The decoder, if it asks the model to correct tokens that the model sees."""
        starting = None if self.autoregressive else self.starting
        return starting.kernel.name if starting is not None and starting.kernel.corrects else None

    @property
    def options(self) -> dict[str, Any]:
        """The options of the kernel or decoder that were given."""
        names = [row.name for row in self.declared() if row.name not in ("decoder", "kernel", *DECIDED)]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

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
        return {"method": self.method, **{name: getattr(self, name) for name in DECIDED}, "options": self.options}


def _sampling(name: str, steps: int | None, energy: str, seed: int, options: dict[str, Any]) -> SampleSettings:
    """Tokens are the likeliest ones, unless a temperature says otherwise."""
    entry, chosen = entry_of(name), dict(options)
    if not entry.decodes:
        chosen["sweeps"] = steps or USUAL_STEPS
    if "decoding_steps" in entry.options():
        chosen["decoding_steps"] = steps or (None if entry.bound else USUAL_STEPS)
    if "decoding_temperature" in entry.options():
        chosen.setdefault("decoding_temperature", 0.0)
    return flat_settings(kernel=name, energy=energy, seed=seed, **chosen)
