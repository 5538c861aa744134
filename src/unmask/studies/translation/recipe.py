"""How translations are made: the models, and the settings that decide what comes out.

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
from unmask.common.errors import InputError
from unmask.common.methods.method import Method, method
from unmask.common.methods.registry import Registry, Together
from unmask.common.methods.stored import stored_form
from unmask.models.loading_spec import LoadingSpec
from unmask.sampling.decoders.decoder import DECODERS, Decoder
from unmask.sampling.decoders.mask_predict import MaskPredict
from unmask.sampling.energies.energy import ModelEnergy, stored_energy
from unmask.sampling.energies.norm import NormEnergy
from unmask.sampling.kernels.kernel import Kernel

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
SWEEPS = 10  # Of a Markov kernel, unless they are given
LENGTH_BEAM = 5  # Lengths that are decoded, unless their number is given


PAIR_FOLDER = "give a folder that `unmask train` wrote for pairs"


class PairTranslator:
    """Base of the models that `load_translator` returns."""


OF_CAUSAL = Registry("decoder of causal models", folders=("unmask.studies.translation.recipe",))


class CausalDecoder(Method, registry=OF_CAUSAL):
    """What writes a translation with a causal model, token by token."""


@method
class Beam(CausalDecoder):
    """Of a causal model: beam search.

    Parameters:
        beam: Beginnings of a translation that are kept; 1 is greedy.

    >>> unmask.Beam(beam=1)
    Beam(beam=1)
    """

    name = "beam"
    place = 1
    beam: Annotated[int, Interval(ge=1, le=1000)] = 5


WRITERS = Together(DECODERS, OF_CAUSAL)
"""All decoders that write translations."""


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

    decoder      writes a translation; of a causal model beam search; None: tokens drawn uniformly
    kernel       a Markov kernel that moves what the decoder wrote, if any
    sweeps       of the kernel
    length_beam  how many of the likeliest lengths are decoded; the draft with the lowest raw
                 energy per token is taken
    energy       of the kernel, and of the output
    """

    decoder: Decoder | Beam | None = field(default_factory=lambda: MaskPredict(temperature=0.0))
    kernel: Kernel | None = None
    sweeps: int = SWEEPS
    length_beam: int = LENGTH_BEAM
    energy: ModelEnergy = field(default_factory=NormEnergy)
    seed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        if isinstance(self.decoder, Beam):
            return {"decoder": stored_form(self.decoder)}
        values: dict[str, Any] = {}
        if self.decoder is None:
            values["start"] = RANDOM
        else:
            values["decoder"] = stored_form(self.decoder)
        if self.kernel is not None:
            values["kernel"] = stored_form(self.kernel)
            values["sweeps"] = self.sweeps
        values["length_beam"] = self.length_beam
        values["energy"] = stored_energy(self.energy)
        values["seed"] = self.seed
        return values

    def __plain__(self) -> dict[str, Any]:
        """The settings inside the JSON of a result."""
        return self.to_dict()


def settle(
    causal: bool,
    decoder: Decoder | Beam | None = None,
    kernel: Kernel | None = None,
    sweeps: int | None = None,
    start: str | None = None,
    *,
    length_beam: int | None = None,
    energy: ModelEnergy | None = None,
    seed: int | None = None,
    longest: int | None = None,
) -> TranslateSettings:
    """The settings of a call, whose arguments are None where they were left out.

    Raises an error for a decoder that is not for this kind of model, and for a setting that the
    model does not use.

    causal    whether the model is
    longest   tokens of the longest translation that the model makes, which bounds `length_beam`
    """
    if causal:
        given = {"kernel": kernel, "length_beam": length_beam, "energy": energy, "seed": seed}
        _refuse_given(given)
        return TranslateSettings(decoder=_of_causal_model(decoder))
    if isinstance(decoder, Beam):
        raise _other_kind(decoder, "masked model", "another decoder")
    first: Decoder | None = None
    if start != RANDOM:
        first = likeliest(decoder or MaskPredict())
    return TranslateSettings(
        decoder=first,
        kernel=kernel,
        sweeps=sweeps or SWEEPS,
        length_beam=_length_beam(length_beam, longest),
        energy=energy or NormEnergy(),
        seed=seed or 0,
    )


def _refuse_given(values: Mapping[str, object]) -> None:
    """Raise for the first of these settings that was given: a causal model uses none of them."""
    for name, value in values.items():
        if value is not None:
            raise InputError(
                "has no effect, as the model is causal", argument=name, use="leave it out"
            )


def _of_causal_model(decoder: Decoder | Beam | None) -> Beam:
    """The decoder of a causal model: beam search unless another beam was given."""
    if decoder is None:
        return Beam()
    if not isinstance(decoder, Beam):
        raise _other_kind(decoder, "causal model", Beam.name)
    return decoder


def _other_kind(decoder: Decoder | Beam, kind: str, remedy: str) -> InputError:
    """The error of a decoder that is not for the model, which is of this kind."""
    return InputError(
        f"{decoder.name} is not for this model, which is a {kind}",
        argument="decoder",
        use=f"use {remedy}, or leave it out",
    )


def _length_beam(given: int | None, longest: int | None) -> int:
    """How many lengths are decoded: no more than the model has."""
    if longest is None:
        return LENGTH_BEAM if given is None else given
    if given is None:
        return min(LENGTH_BEAM, longest)
    if given > longest:
        raise InputError(
            f"{given} is more than the {longest} that the model takes",
            argument="length_beam",
            use="give fewer",
        )
    return given


def likeliest(decoder: Decoder) -> Decoder:
    """The decoder at temperature 0, unless another one was given."""
    if decoder.temperature is not None:
        return decoder
    return replace(decoder, temperature=0.0)
