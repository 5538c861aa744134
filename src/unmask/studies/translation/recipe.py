"""How translations are made: the ways to translate, and the settings that decide what comes
out. Loads nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, cast

from annotated_types import Interval

from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.common.signature import Loaded, Written, checked, settings
from unmask.sampling.registry import KERNELS, EnergyKind, MaskPredict, Method

if TYPE_CHECKING:
    from unmask.studies.translation.causal_pairs import CausalPairs
    from unmask.studies.translation.masked_pairs import PairModel

    Translator: TypeAlias = (
        PairModel | CausalPairs | str | os.PathLike[str] | Callable[[], PairModel | CausalPairs]
    )
else:
    Translator = Annotated[
        Any,
        Loaded("unmask.studies.translation.recipe:load_translator", "PairTranslator"),
        Written(short="-m"),
    ]

RANDOM = "random"  # A start: tokens drawn uniformly. The decoder of this name is not a start.
STEPS = 10  # Of the decoder that a kernel starts from


class PairTranslator:
    """Base of the models that `load_translator` returns."""


@settings
class Auto(MaskPredict):
    """The usual way: mask-predict, of a causal model beam search."""

    name = "auto"


@settings
class Beam:
    """Of a causal model: beam search.

    Parameters:
        beam: Beginnings of a translation that are kept; 1 is greedy.
    """

    name: ClassVar[str] = "beam"
    beam: Annotated[int, Interval(ge=1, le=1000)] = 5


METHODS: dict[str, type] = {**KERNELS, "beam": Beam, "auto": Auto}


@checked
def load_translator(
    name: str | os.PathLike[str], device: str = "auto", dtype: str = "auto"
) -> PairModel | CausalPairs:
    """Load a model that translates, from a folder of `unmask train --parallel`.

    Parameters:
        name: The folder.
        device: auto, cpu, cuda or cuda:N.
        dtype: auto, float32, bfloat16, float16 or float64.
    """
    from unmask.common.files import user_path
    from unmask.studies.translation.causal_pairs import CausalPairs
    from unmask.studies.translation.masked_pairs import PairModel
    from unmask.studies.translation.pairs import is_causal_pair_model

    folder = user_path(name, "model")
    return (CausalPairs if is_causal_pair_model(folder) else PairModel).load(folder, device, dtype)


def as_translator(model: Translator) -> PairModel | CausalPairs:
    """The model itself, the one that a function returns, or the one of a folder."""
    if model is None:
        raise InputError(
            "model None is not a translator: give a folder of `unmask train --parallel`"
        )
    if isinstance(model, str | os.PathLike):
        return load_translator(model)
    if isinstance(model, PairTranslator):
        return model
    translator: Any = model()
    if not isinstance(translator, PairTranslator):
        name = getattr(model, "__name__", type(model).__name__)
        raise InputError(
            f"model: the function {name} returned {shown(translator)}, which is not a translator: "
            "return that of unmask.load_translator"
        )
    return cast("PairModel | CausalPairs", translator)


def in_worker(model: Translator, device: str) -> Callable[[], PairModel | CausalPairs]:
    """A function that loads the model on a device of another process; a loaded model is refused."""
    if isinstance(model, PairTranslator):
        raise InputError("workers load the model themselves: give its folder, not a loaded model")
    where: Any
    where, options = (model.args[0], model.keywords) if isinstance(model, partial) else (model, {})
    folder = os.path.realpath(os.path.expanduser(os.fspath(where)))
    return partial(load_translator, folder, **{**options, "device": device})


@dataclass(frozen=True)
class TranslateSettings:
    """The settings that decide the translations.

    kernel    a decoder, or a Markov kernel, which moves what `start` begins with; of a causal
              model beam search
    start     of a Markov kernel: the decoder that fills the blanks first; None: tokens drawn
              uniformly
    lengths   how many of the likeliest lengths are decoded; the draft with the lowest raw
              energy per token is taken
    energy    of kernels, and of the output
    """

    kernel: Method | Beam = field(default_factory=lambda: MaskPredict(decoding_temperature=0.0))
    sweeps: int = STEPS
    start: Method | None = field(default_factory=lambda: MaskPredict(decoding_temperature=0.0))
    lengths: int = 5
    energy: EnergyKind = "norm"
    seed: int = 0

    @property
    def moves(self) -> bool:
        """Whether a Markov kernel moves the translations after they were started."""
        return isinstance(self.kernel, Method) and not self.kernel.decodes

    @property
    def first(self) -> Method | None:
        """The decoder that fills the blanks; None where tokens are drawn uniformly."""
        return self.start if self.moves else self.kernel  # type: ignore[return-value]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        of_kernel = {"kernel": self.kernel.name, **asdict(self.kernel)}
        if isinstance(self.kernel, Beam):
            return of_kernel
        start = (
            {"start": self.start.name if self.start else RANDOM, "sweeps": self.sweeps}
            if self.moves
            else {}
        )
        return {
            **of_kernel,
            **start,
            "lengths": self.lengths,
            "energy": self.energy,
            "seed": self.seed,
        }


def settle(
    causal: bool,
    kernel: Any,
    sweeps: int | None,
    start: str | None,
    lengths: int | None,
    energy: EnergyKind | None,
    seed: int,
) -> TranslateSettings:
    """The settings of a call; what its way of translating does not use is refused."""
    if isinstance(kernel, Auto):
        for name in (
            name
            for name, value in vars(kernel).items()
            if causal and value != getattr(Auto(), name)
        ):
            raise InputError(
                f"{name} was given, which beam, the usual kernel of a causal model, does not use:"
                " leave it out"
            )
        kernel = Beam() if causal else MaskPredict(**vars(kernel))
    if causal != isinstance(kernel, Beam):
        kind, use = (
            ("causal model", "beam") if causal else ("masked model", "a decoder or a Markov kernel")
        )
        raise InputError(
            f"kernel {kernel.name} was given, and the model is a {kind}: use {use}, or leave it out"
        )
    moves = not causal and not kernel.decodes
    unused = {} if moves else {"sweeps": sweeps, "start": start}
    unused |= {"lengths": lengths, "energy": energy} if causal else {}
    for name, value in unused.items():
        if value is not None:
            raise InputError(
                f"{name} was given, which kernel {kernel.name} does not use: leave it out"
            )
    decided = kernel if causal or moves else likeliest(kernel)
    return TranslateSettings(
        decided,
        sweeps or STEPS,
        starting(start) if moves else None,
        lengths or 5,
        energy or "norm",
        seed,
    )


def starting(start: str | None) -> Method | None:
    """The decoder that NAME or NAME@STEPS names; None for tokens drawn uniformly."""
    name, at, steps = (start or MaskPredict.name).partition("@")
    if start == RANDOM:
        return None
    decoders = {one.name: one for one in KERNELS.values() if one.decodes and one.name != RANDOM}
    in_steps = name in decoders and hasattr(decoders[name], "passes")
    if name not in decoders or (
        at and not (in_steps and steps.isdecimal() and 0 < int(steps) < 10**6)
    ):
        known = ", ".join([*decoders, RANDOM])
        raise InputError(
            f"start {start!r} is not known: give one of {known}, with steps as mask-predict@4"
        )
    return likeliest(decoders[name](**({"passes": int(steps or STEPS)} if in_steps else {})))


def likeliest(decoder: Method) -> Method:
    """The decoder at temperature 0, unless another one was given or the decoder has none
    (ancestral).
    """
    unset = getattr(decoder, "decoding_temperature", 0.0) is None
    return replace(decoder, decoding_temperature=0.0) if unset else decoder  # type: ignore[call-arg]
