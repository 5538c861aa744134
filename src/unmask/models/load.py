"""`load`: a masked language model from a folder or the hub; `ModelSpec`, a model that is not loaded
yet; and `Model`, the type of every argument that takes one.

The one place that declares how a model is loaded. Nothing here imports torch before a model is
loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from unmask.common.border.calls import checked, settings
from unmask.common.border.marks import Loaded, ShownType, Written
from unmask.common.checks import shown
from unmask.common.errors import ModelError
from unmask.common.warn import warn
from unmask.models.loading_spec import LoadingSpec
from unmask.models.own_loader import (
    load_own,
    load_own_uncached,
    model_of_returned,
    names_loader,
    stored_name,
)

HELP = (
    "Folder or hub name of a masked language model, or a function of your own that loads one, as"
    " loader.py:load [default: the bundled English model]."
)

if TYPE_CHECKING:  # a type checker sees what a user may give
    from unmask.models.masked_lm import MaskedLM

    Model: TypeAlias = (
        "MaskedLM | ModelSpec | str | os.PathLike[str] | Callable[[], MaskedLM] | None"
    )
else:  # at run time `common.border` reads here how it is loaded
    Model = Annotated[
        Any,
        ShownType("MaskedLM | ModelSpec | str | PathLike[str] | Callable[[], MaskedLM] | None"),
        Loaded("unmask.models.load:ModelSpec", kind="unmask.models.masked_lm:MaskedLM"),
        Written(short="-m", named=True, help=HELP),
    ]

CACHED = 2
"""Models given by name that stay loaded: those that were used last. Threads share them."""


@checked
def load(
    name: str | os.PathLike[str] | None = None,
    device: str = "auto",
    dtype: str = "auto",
) -> MaskedLM:
    """Load a masked language model from a folder, or from the hub by name.

    A folder is read without touching the network. A model is loaded once per process; a folder
    whose files have changed is read again.

    Parameters:
        name: Folder or hub name of a masked language model, or a function of your own that loads
            one, as loader.py:load [default: the bundled English model].
        device: auto, cpu, cuda or cuda:N.
        dtype: auto, float32, bfloat16, float16 or float64; auto is float32 everywhere, also for
            weights stored in half precision.

    Returns:
        The model and its tokenizer, in evaluation mode.

    >>> unmask.load().vocab_size
    8192
    """
    return _load_once(name, device, dtype)


@settings
class ModelSpec(LoadingSpec):
    """A masked language model that is not loaded yet.

    Every function that takes a model takes a `ModelSpec`, too. It can be sent to another process,
    and a run that several devices share needs one: each process loads the model by itself.

    Parameters:
        name: Folder or hub name of a masked language model, or a function of your own that loads
            one, as loader.py:load [default: the bundled English model].
        device: auto, cpu, cuda or cuda:N. A list shares the work of score, evaluate, sample and
            translate among processes, one for each device: cuda:0,1,2,3.
        dtype: auto, float32, bfloat16, float16 or float64; auto is float32 everywhere, also for
            weights stored in half precision.

    >>> spec = unmask.ModelSpec(device="cpu", dtype="float64")
    >>> unmask.fill("A [MASK] barked.", spec, top=1).completions[0].text
    'A man barked.'
    """

    name: str | os.PathLike[str] | None = None
    device: str = "auto"
    dtype: str = "auto"

    def load(self) -> MaskedLM:
        """Load the model, once per process, as `unmask.load` does.

        Returns:
            The model and its tokenizer, in evaluation mode.
        """
        return _load_once(self.name, self.device, self.dtype)


def _load_once(
    name: str | os.PathLike[str] | None = None, device: str = "auto", dtype: str = "auto"
) -> MaskedLM:
    """The model, loaded at the first call and when the files of its folder have changed."""
    if isinstance(name, str) and names_loader(name):
        return load_own(name, device, dtype)
    from unmask.models.checkpoint import resolve_dtype
    from unmask.models.checkpoint_files import english_model_path, state_of
    from unmask.models.loading_turns import LOADING
    from unmask.runs.devices import resolve_device

    called = None if name is None else _as_text(name)
    where = str(english_model_path()) if called is None else called
    # `lru_cache` alone would let two threads read the same model twice.
    with LOADING:
        state = state_of(where)
        return _loaded(state, called, resolve_device(device), resolve_dtype(dtype))


def _as_text(name: object) -> str:
    """The name or folder of a model as text."""
    if not isinstance(name, str | os.PathLike):
        raise ModelError(f"model {shown(name)} is not a name or a folder: give one")
    return os.fsdecode(name)


@lru_cache(maxsize=CACHED)
def _loaded(state: object, name: str | None, device: object, dtype: object) -> MaskedLM:
    """The model, read again if the `state` of its files is another."""
    return load_uncached(name, device, dtype)


def load_uncached(name: Any = None, device: Any = "auto", dtype: Any = "auto") -> MaskedLM:
    """`load` without its cache; device and dtype may be torch's own objects."""
    if isinstance(name, str) and names_loader(name):
        return load_own_uncached(name, device, dtype)
    from unmask.models.checkpoint import is_pair_model, load_network, resolve_dtype
    from unmask.models.checkpoint_files import Source, english_model_path
    from unmask.models.float32_logits import widen_output
    from unmask.models.loading_turns import LOADING
    from unmask.models.masked_lm import MaskedLM
    from unmask.models.text.tokenizer_checks import warn_of_few_tokens
    from unmask.models.text.tokenizer_files import load_tokenizer
    from unmask.runs.devices import resolve_device

    if name is None:
        where = str(english_model_path())
        name_in_messages = "the bundled model"
    else:
        where = _as_text(name)
        name_in_messages = where
    source = Source(where)
    if is_pair_model(source.folder):
        warn(
            f"model {where!r} was trained to translate and never saw a text without its source:"
            " use it with unmask translate"
        )
    with LOADING:  # also if the caller does not hold it, as `reload` and `MaskedLM.load`
        network = load_network(source, resolve_device(device), resolve_dtype(dtype))
        tokenizer = load_tokenizer(source)
    widen_output(network)
    model = MaskedLM.of_network(network, tokenizer, name_in_messages)
    if source.local:
        model.folder = source.folder
    if model.caution is not None:
        warn(model.caution)
    warn_of_few_tokens(tokenizer, model.input_size, model.name)
    return model


def as_model(model: Model = None) -> MaskedLM:
    """The model that a name or folder leads to, that is not loaded yet, that a function returns, or
    that is given.
    """
    if model is None or isinstance(model, str | os.PathLike):
        return _load_once(model)
    if isinstance(model, ModelSpec):
        return model.load()
    if callable(model):
        return _returned_by(model)
    return model


def _returned_by(function: Callable[[], Any]) -> MaskedLM:
    """The model that a function returns, or that is made of the network and tokenizer that it
    returns; raises InputError if it returns anything else.
    """
    name = getattr(function, "__name__", type(function).__name__)
    return model_of_returned(function(), f"the function {name}")


def reload(
    model: str | os.PathLike[str] | ModelSpec | Callable[[], MaskedLM] | None,
) -> MaskedLM:
    """The model, read again from its files, with all warnings of loading; a user's function is
    called.
    """
    if model is None or isinstance(model, str | os.PathLike):
        return load_uncached(model)
    if isinstance(model, ModelSpec):
        return load_uncached(model.name, model.device, model.dtype)
    return _returned_by(model)


def model_name(model: Model) -> str:
    """The model's name in the settings of a run: its name or folder, "bundled", or "in memory"; of
    own code the name of its file and its hash.
    """
    if isinstance(model, ModelSpec):
        model = model.name
    if model is None:
        return "bundled"
    if isinstance(model, str) and names_loader(model):
        return stored_name(model)
    if isinstance(model, str | os.PathLike):
        return str(model)
    return "in memory"
