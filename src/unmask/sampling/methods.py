"""All methods that make texts, Markov kernels and decoders, in one list; and the decoders that have
a law.
"""

from __future__ import annotations

from typing import cast

from unmask.common.errors import InputError
from unmask.common.methods.registry import Together
from unmask.sampling.decoders.decoder import DECODERS, Decoder
from unmask.sampling.kernels.kernel import KERNELS, Kernel

METHODS = Together(KERNELS, DECODERS)
SampleMethod = Kernel | Decoder


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
