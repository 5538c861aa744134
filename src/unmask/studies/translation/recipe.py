"""How translations are made: the ways to translate, and the settings that decide what comes out.

This module loads neither torch nor transformers, so that signatures can name what it defines.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

from annotated_types import Interval

from unmask.common.border.calls import checked, settings
from unmask.common.border.marks import Loaded, ShownType, Written
from unmask.common.checks import shown
from unmask.common.errors import InputError, argument_name
from unmask.common.methods.method import Method, method
from unmask.common.methods.own_code import is_ours, names_code
from unmask.common.methods.registry import Registry, Together
from unmask.common.methods.stored import stored_form
from unmask.models.loading_spec import LoadingSpec
from unmask.sampling.decoders.decoder import DECODERS, Decoder
from unmask.sampling.decoders.mask_predict import MaskPredict
from unmask.sampling.energies.energy import ModelEnergy, stored_energy
from unmask.sampling.energies.norm import NormEnergy
from unmask.sampling.kernels.kernel import KERNELS
from unmask.sampling.methods import SampleMethod, decoder_class

if TYPE_CHECKING:
    from unmask.studies.translation.causal_pairs import CausalPairs
    from unmask.studies.translation.masked_pairs import PairModel

    PairModels: TypeAlias = PairModel | CausalPairs
    # one text: pyright reads no joined ones
    Translator: TypeAlias = (
        "PairModels | TranslatorSpec | str | os.PathLike[str] | Callable[[], PairModels]"
    )
else:
    Translator = Annotated[
        Any,
        Loaded(
            "unmask.studies.translation.recipe:TranslatorSpec",
            kind="unmask.studies.translation.recipe:PairTranslator",
        ),
        ShownType(
            "PairModel | CausalPairs | TranslatorSpec | str | PathLike[str]"
            " | Callable[[], PairModel | CausalPairs]"
        ),
        Written(short="-m"),
    ]

RANDOM = "random"  # A start: tokens drawn uniformly.
STEPS = 10  # Of the decoder that a kernel starts from, unless the start names them
MOST_STEPS = 10**6 - 1
SWEEPS = 10  # Of a Markov kernel, unless they are given
LENGTHS = 5  # That are decoded, unless they are given


PAIR_FOLDER = f"give a folder that `unmask train` wrote with {argument_name('parallel')}"


class PairTranslator:
    """Base of the models that `load_translator` returns."""


WAYS = Registry("way to translate", folders=("unmask.studies.translation.recipe",))


class Way(Method, registry=WAYS):
    """A way to translate that is neither a kernel nor a decoder of `sample`."""


@method
class Auto(Way, MaskPredict):
    """The usual way: mask-predict, of a causal model beam search."""

    name = "auto"
    place = 2


@method
class Beam(Way):
    """Of a causal model: beam search.

    Parameters:
        beam: Beginnings of a translation that are kept; 1 is greedy.

    >>> unmask.Beam(beam=1)
    Beam(beam=1)
    """

    name = "beam"
    place = 1
    beam: Annotated[int, Interval(ge=1, le=1000)] = 5


METHODS = Together(KERNELS, DECODERS, WAYS)
"""All ways to translate."""


@checked
def load_translator(
    name: str | os.PathLike[str], device: str = "auto", dtype: str = "auto"
) -> PairModel | CausalPairs:
    """Load a model that translates, from a folder that `unmask.train` wrote for pairs.

    Parameters:
        name: The folder.
        device: auto, cpu, cuda or cuda:N.
        dtype: auto, float32, bfloat16, float16 or float64.

    Returns:
        The model, to be given to `translate`.

    >>> # the folder that `unmask.train(parallel=[english, german], out="numbers")` left
    >>> translator = unmask.load_translator("numbers")
    >>> len(unmask.translate(["two three"], model=translator).texts)
    1
    """
    return _read(name, device, dtype)


@settings
class TranslatorSpec(LoadingSpec):
    """A model that translates and is not loaded yet.

    `translate` takes it in the place of a model. It can be sent to another process, and a run that
    several devices share needs one: each process loads the model by itself.

    Parameters:
        name: The folder.
        device: auto, cpu, cuda or cuda:N.
        dtype: auto, float32, bfloat16, float16 or float64.

    >>> # the folder that `unmask.train(parallel=[english, german], out="numbers")` left
    >>> unmask.TranslatorSpec("numbers", dtype="float64").load().name
    'numbers'
    """

    name: str | os.PathLike[str]
    device: str = "auto"
    dtype: str = "auto"

    def load(self) -> PairModel | CausalPairs:
        """Load the model, as `unmask.load_translator` does.

        Returns:
            The model, to be given to `translate`.
        """
        return _read(self.name, self.device, self.dtype)


def _read(
    name: str | os.PathLike[str], device: str = "auto", dtype: str = "auto"
) -> PairModel | CausalPairs:
    """The model of a folder."""
    from unmask.common.files import user_path
    from unmask.models.pair_layout import is_causal_pair_model
    from unmask.studies.translation.causal_pairs import CausalPairs
    from unmask.studies.translation.masked_pairs import PairModel

    folder = user_path(name, "model")
    if is_causal_pair_model(folder):
        return CausalPairs.load(folder, device, dtype)
    return PairModel.load(folder, device, dtype)


def as_translator(model: Translator) -> PairModel | CausalPairs:
    """The model of a folder, the one that is not loaded yet, the one that a function returns, or
    the model itself.
    """
    if model is None:
        raise InputError("None is not a translator", argument="model", use=PAIR_FOLDER)
    if isinstance(model, str | os.PathLike):
        return _read(model)
    if isinstance(model, TranslatorSpec):
        return model.load()
    if isinstance(model, PairTranslator):
        return model
    returned: Any = model()
    if not isinstance(returned, PairTranslator):
        name = getattr(model, "__name__", type(model).__name__)
        raise InputError(
            f"is the function {name}, which returned {shown(returned)}, no translator",
            argument="model",
            use="return that of unmask.load_translator",
        )
    return cast("PairModel | CausalPairs", returned)


def loader_on(model: Translator, device: str) -> Callable[[], PairModel | CausalPairs]:
    """A function that loads the model on another device, and can be sent to another process.

    Raises InputError for a loaded model, and for a user's function.
    """
    if isinstance(model, str | os.PathLike):
        model = TranslatorSpec(model)
    if not isinstance(model, TranslatorSpec):
        raise InputError(
            "is loaded, and workers load the model themselves",
            argument="model",
            use="give its folder",
        )
    return model.on(device).load


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

    kernel: SampleMethod | Beam = field(default_factory=lambda: MaskPredict(temperature=0.0))
    sweeps: int = SWEEPS
    start: Decoder | None = field(default_factory=lambda: MaskPredict(temperature=0.0))
    lengths: int = LENGTHS
    energy: ModelEnergy = field(default_factory=NormEnergy)
    seed: int = 0

    @property
    def moves(self) -> bool:
        """Whether a Markov kernel moves the translations after they were started."""
        return not isinstance(self.kernel, Beam) and not self.kernel.decodes

    @property
    def first(self) -> Decoder | None:
        """The decoder that fills the blanks of a masked model; None where tokens are drawn
        uniformly.
        """
        if self.moves:
            return self.start
        return self.kernel  # type: ignore[return-value]  # beams are of causal models

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        of_kernel = stored_form(self.kernel)
        values = {"kernel": of_kernel.pop("name"), **of_kernel}
        if isinstance(self.kernel, Beam):
            return values
        if self.moves:
            values["start"] = _stored_start(self.start)
            values["sweeps"] = self.sweeps
        values["lengths"] = self.lengths
        values["energy"] = stored_energy(self.energy)
        values["seed"] = self.seed
        return values


def settle(
    causal: bool,
    kernel: Any,
    sweeps: int | None,
    start: Decoder | str | None,
    lengths: int | None,
    energy: ModelEnergy | None,
    seed: int,
    longest: int | None = None,
) -> TranslateSettings:
    """The settings of a call.

    Raises an error for a kernel that is not of the kind of the model, and for a setting that its
    way of translating does not use.

    causal    whether the model is
    longest   tokens of the longest translation that the model makes, if that bounds `lengths`
    """
    if isinstance(kernel, Auto):
        kernel = _usual_kernel(kernel, causal)
    _refuse_other_kind(kernel, causal)
    moves = not causal and not kernel.decodes  # a Markov kernel
    if causal:
        _refuse_given({"lengths": lengths, "energy": energy}, "the model is causal")
    if not moves:
        of_kernels = {"sweeps": sweeps, "start": start}
        _refuse_given(of_kernels, f"{kernel.name} is no Markov kernel")
    if lengths is None:
        lengths = LENGTHS if longest is None else min(LENGTHS, longest)
    elif longest is not None and lengths > longest:
        raise InputError(
            f"{lengths} is more than the {longest} that the model takes",
            argument="lengths",
            use="give fewer",
        )
    decodes = not causal and not moves
    return TranslateSettings(
        kernel=likeliest(kernel) if decodes else kernel,
        sweeps=sweeps or SWEEPS,
        start=starting(start) if moves else None,
        lengths=lengths,
        energy=energy or NormEnergy(),
        seed=seed,
    )


def _refuse_given(values: Mapping[str, object], why: str) -> None:
    """Raise for the first of these settings that was given; `why` says why it has no effect."""
    for name, value in values.items():
        if value is not None:
            raise InputError(f"has no effect, as {why}", argument=name, use="leave it out")


def _usual_kernel(auto: Auto, causal: bool) -> MaskPredict | Beam:
    """The kernel that `auto` stands for: mask-predict with its options; of a causal model beam
    search, which has none of them.
    """
    options = vars(auto)
    if not causal:
        return MaskPredict(**options)
    defaults = vars(Auto())
    for name, value in options.items():
        if value != defaults[name]:
            raise InputError(
                "has no effect on beam, the usual kernel of a causal model",
                argument=name,
                use="leave it out",
            )
    return Beam()


def _refuse_other_kind(kernel: SampleMethod | Beam, causal: bool) -> None:
    """Raise for a beam with a masked model, and for any other kernel with a causal one."""
    if causal == isinstance(kernel, Beam):
        return
    if causal:
        kind = "causal model"
        remedy = "beam"
    else:
        kind = "masked model"
        remedy = "a decoder or a Markov kernel"
    raise InputError(
        f"{kernel.name} is not for this model, which is a {kind}",
        argument="kernel",
        use=f"use {remedy}, or leave it out",
    )


def starting(start: Decoder | str | None) -> Decoder | None:
    """The decoder that a kernel starts from: an object, NAME, NAME@STEPS, or own code such as
    my.py:Mine; None for tokens drawn uniformly.
    """
    if start == RANDOM:
        return None
    if isinstance(start, Decoder):
        return likeliest(start)
    if start is not None and names_code(start):
        own: Decoder = DECODERS.taken("start", start)
        return likeliest(own)
    name, at, steps = (start or MaskPredict.name).partition("@")
    decoder = decoder_class(name) if name in DECODERS else None
    takes_steps = decoder is not None and decoder.parts != ""
    understood = not at or (takes_steps and _is_number_of_steps(steps))
    if decoder is None or not understood:
        known = ", ".join([*DECODERS, RANDOM])
        raise InputError(
            f"{start!r} is not known",
            argument="start",
            use=f"give one of {known}, with steps as mask-predict@4",
        )
    if takes_steps:
        return likeliest(decoder.in_parts(int(steps or STEPS)))
    return likeliest(decoder())


def _stored_start(start: Decoder | None) -> Any:
    """A start for settings: its name, with its steps if they are not STEPS; of a decoder with other
    options, or of own code, all of it.
    """
    if start is None:
        return RANDOM
    for name in (start.name, f"{start.name}@{start.number}"):
        if is_ours(type(start)) and _spells(name, start):
            return name
    return stored_form(start)


def _spells(text: str, start: Decoder) -> bool:
    """Whether `text` names this start."""
    try:
        return starting(text) == start
    except InputError:
        return False


def _is_number_of_steps(text: str) -> bool:
    return text.isdecimal() and 1 <= int(text) <= MOST_STEPS


def likeliest(decoder: Decoder) -> Decoder:
    """The decoder at temperature 0, unless another one was given."""
    if decoder.temperature is not None:
        return decoder
    return replace(decoder, temperature=0.0)
