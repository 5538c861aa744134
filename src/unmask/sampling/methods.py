"""All methods that make texts, Markov kernels and decoders, in one list; and the decoders that have
a law.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, cast

from unmask.common.errors import InputError
from unmask.common.methods.registry import Together
from unmask.common.methods.stored import from_stored, stored_form
from unmask.sampling.decoders.decoder import DECODERS, Decoder
from unmask.sampling.kernels.kernel import KERNELS, Kernel

METHODS = Together(KERNELS, DECODERS)
SampleMethod = Kernel | Decoder


@dataclass(frozen=True)
class OwnMethod:
    """A user's own kernel or decoder as settings.json names it: what is known of it without
    loading its code. It can be shown, and moves no chain.

    stored          as in settings.json: its name, its file and the hash, its options
    label, colour   what tables call it, and its colour in figures
    decodes         whether it is a decoder
    sites_per_step  how many sites one step of a kernel redraws
    verdict         the law of its texts, in a sentence
    """

    stored: Mapping[str, Any]
    label: str
    colour: str
    decodes: bool
    sites_per_step: int
    verdict: str

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self.stored["name"])

    def on(self, target: object, passes: object = None) -> NoReturn:
        """Refuse to move chains."""
        raise InputError(
            f"{self.name} of {self.stored['code']} is code of its user, which no stored setting"
            " loads",
            argument="kernel",
            use="name it again as where the run was started",
        )


def stored_method(method: SampleMethod | OwnMethod) -> dict[str, Any]:
    """A kernel or decoder for settings.json; of an own one also what `OwnMethod` needs."""
    if isinstance(method, OwnMethod):
        return dict(method.stored)
    stored = stored_form(method)
    if "code" in stored:
        stored["shown"] = {
            "label": method.label,
            "colour": method.colour,
            "decodes": method.decodes,
            "sites_per_step": method.sites_per_step,
            "verdict": method.verdict.format_map(_Known(vars(method))),
        }
    return stored


class _Known(dict[str, Any]):
    """The options of a method; other names of a sentence stay as they are."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


def method_of_stored(stored: Mapping[str, Any]) -> SampleMethod | OwnMethod:
    """The kernel or decoder of settings.json. Code of a user is not loaded."""
    if "code" not in stored:
        found: SampleMethod = from_stored(METHODS, stored)
        return found
    shown = stored["shown"]
    return OwnMethod(
        stored=dict(stored),
        label=str(shown["label"]),
        colour=str(shown["colour"]),
        decodes=bool(shown["decodes"]),
        sites_per_step=int(shown["sites_per_step"]),
        verdict=str(shown["verdict"]),
    )


def decoder_class(name: str) -> type[Decoder]:
    """The decoder of a name, which is one of ours."""
    return cast("type[Decoder]", DECODERS[name])


def with_law() -> list[str]:
    """The decoders that choose blanks before they draw their tokens, and so have a law."""
    return [name for name in DECODERS if decoder_class(name).chooses]


def refuse_no_law(argument: str, decoder: str) -> None:
    """Refuse a decoder whose law cannot be computed; `argument`: with its value, as messages
    name it.
    """
    if decoder not in DECODERS:
        return
    if DECODERS[decoder].conditionals == 1:  # type: ignore[attr-defined]
        raise InputError(
            f"{argument}: {decoder} fills one blank per pass, so its law is a chain rule; use"
            " any_order or left_to_right"
        )
    if not decoder_class(decoder).chooses:
        raise InputError(
            f"{argument}: {decoder} has no law that can be computed, because it does not choose"
            f" positions before it draws their tokens; use one of {', '.join(with_law())}"
        )
