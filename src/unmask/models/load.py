"""`load`: a masked language model from a folder or the hub, and `Model`, the type of every
argument that takes one.

The one place that declares how a model is loaded. Nothing here imports torch before a model is
loaded.
"""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from unmask.common.checks import shown
from unmask.common.errors import InputError, ModelError, UnmaskWarning
from unmask.common.signature import Loaded, Written, checked

HELP = "Folder or hub name of a masked language model [default: the bundled English model]."

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.runs.engine import Workers

    Model: TypeAlias = MaskedLM | str | os.PathLike[str] | Callable[[], MaskedLM] | None
else:
    Model = Annotated[
        Any,
        Loaded("unmask.models.load:load", "MaskedLM"),
        Written(short="-m", named=True, help=HELP),
    ]

# Models that were given by name stay loaded: those that were used last, shared between threads
CACHED = 2


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
        name: Folder or hub name of a masked language model [default: the bundled English model].
        device: auto, cpu, cuda or cuda:N. A list shares the work of score, evaluate, sample and
            translate among processes, one for each device: cuda:0,1,2,3.
        dtype: auto, float32, bfloat16, float16 or float64; auto is float32 everywhere, also for
            weights stored in half precision.

    >>> unmask.load().vocab_size
    8192
    """
    from unmask.models.checkpoint import resolve_dtype
    from unmask.models.checkpoint_files import LOADING, english_model_path, state_of
    from unmask.runs.devices import resolve_device

    called = None if name is None else _as_text(name)
    where = str(english_model_path()) if called is None else called
    with LOADING:
        return _loaded(state_of(where), called, resolve_device(device), resolve_dtype(dtype))


def _as_text(name: object) -> str:
    """The name or folder of a model as text."""
    if not isinstance(name, str | os.PathLike):
        raise ModelError(f"model {shown(name)} is not a name or a folder: give one")
    return os.fsdecode(name)


@lru_cache(maxsize=CACHED)
def _loaded(state: object, name: str | None, device: object, dtype: object) -> MaskedLM:
    return load_uncached(name, device, dtype)


def load_uncached(name: Any = None, device: Any = "auto", dtype: Any = "auto") -> MaskedLM:
    """`load` without its cache; device and dtype may be torch's own objects."""
    from unmask.models.checkpoint import is_pair_model, load_network, resolve_dtype
    from unmask.models.checkpoint_files import LOADING, Source, english_model_path
    from unmask.models.float32_logits import widen_output
    from unmask.models.masked_lm import MaskedLM
    from unmask.models.text.tokenizer_checks import warn_of_few_tokens
    from unmask.models.text.tokenizer_files import load_tokenizer
    from unmask.runs.devices import resolve_device

    where = english_model_path() if name is None else _as_text(name)
    if is_pair_model(Path(where)):
        alone = (
            "was trained to translate and never saw a text without its source: use it with unmask"
            " translate"
        )
        warnings.warn(f"model {str(where)!r} {alone}", UnmaskWarning, stacklevel=3)
    source = Source(str(where))
    with LOADING:
        network, tokenizer = (
            load_network(source, resolve_device(device), resolve_dtype(dtype)),
            load_tokenizer(source),
        )
    widen_output(network)
    model = MaskedLM(network, tokenizer, str(name or "the bundled model"))
    model.folder = Path(where) if Path(where).is_dir() else None
    if model.caution:
        warnings.warn(model.caution, UnmaskWarning, stacklevel=3)
    warn_of_few_tokens(tokenizer, model.input_size, model.name)
    return model


def as_model(model: Model = None) -> MaskedLM:
    """The model itself, the one that a function returns, or the one that its name or folder
    leads to.
    """
    if model is None or isinstance(model, str | os.PathLike):
        return load(model)
    return _returned_by(model) if callable(model) else model


def _returned_by(function: Callable[[], Any]) -> MaskedLM:
    """The model that a function returns; raises InputError if it returns anything else."""
    from unmask.models.masked_lm import MaskedLM

    model = function()
    if not isinstance(model, MaskedLM):
        name = getattr(function, "__name__", type(function).__name__)
        raise InputError(
            f"model: the function {name} returned {shown(model)}, which is not a model: "
            "return that of unmask.load or unmask.MaskedLM.of"
        )
    return model


def reload(model: str | os.PathLike[str] | Callable[[], MaskedLM] | None) -> MaskedLM:
    """The model, read again from its files, with all warnings of loading; a function is called."""
    if callable(model) and not (
        isinstance(model, partial) and inspect.unwrap(model.func) is inspect.unwrap(load)
    ):
        return _returned_by(model)
    return load_uncached(**_arguments(model))


def model_name(model: Model) -> str:
    """The model's name in the settings of a run: its name or folder, "bundled", or "in memory"."""
    if isinstance(model, partial):
        model = model.args[0] if model.args else model.keywords.get("name")
    return (
        "bundled"
        if model is None
        else str(model)
        if isinstance(model, str | os.PathLike)
        else "in memory"
    )


def on_device(model: Model, device: str) -> Callable[[], MaskedLM]:
    """A function that loads the model on another device, and can be sent to another process. A
    loaded model is refused.

    A folder is named by its absolute path: other processes may have other working folders.
    """
    named = _arguments(model)
    if isinstance(name := named.get("name"), str | os.PathLike) and os.path.isdir(
        folder := os.path.expanduser(name)
    ):
        named["name"] = os.path.realpath(folder)
    if isinstance(model, partial) or model is None or isinstance(model, str | os.PathLike):
        return partial(
            model.func if isinstance(model, partial) else load, **named | {"device": device}
        )
    raise InputError(
        "workers load the model themselves: give its folder or name, not a loaded model"
    )


def _arguments(model: Any) -> dict[str, Any]:
    """The arguments by which a model will be loaded."""
    if not isinstance(model, partial):
        return {"name": model}
    return dict(inspect.signature(model.func).bind_partial(*model.args, **model.keywords).arguments)


def devices_of(model: Any) -> tuple[str, ...]:
    """The devices that loading names: "cuda:0,1" is ("cuda:0", "cuda:1"), "auto" is itself."""
    parts = [part.strip() for part in str(_arguments(model).get("device", "auto")).split(",")]
    return tuple(
        f"cuda:{part}" if number and part.isdigit() else part for number, part in enumerate(parts)
    )


def is_shared(model: Any, engine: str) -> bool:
    """Whether workers share the work: those of engine ray, or a process for each of several
    devices of this machine.
    """
    if re.fullmatch("local|ray(:[1-9][0-9]{0,3})?", engine) is None:
        raise InputError(
            f"engine {engine!r} is not understood: give local, ray, or ray:4 with the number of"
            " workers"
        )
    return engine != "local" or len(devices_of(model)) > 1


def workers_for(model: Any, engine: str, most: int | None = None) -> Workers | None:
    """The workers; None: this process does the work. `most`: items that there can be."""
    from unmask.runs.engine import Processes, ray_workers

    devices = devices_of(model)
    if len(devices) > 1 and ("auto" in devices or engine != "local"):
        why = (
            "auto is one device" if "auto" in devices else f"engine {engine} chooses devices itself"
        )
        raise InputError(
            f"device {','.join(devices)!r} is a list, and {why}: give cpu, cuda, or a list with"
            " engine local"
        )
    if engine != "local":
        return ray_workers(engine, devices[0], most)
    if len(devices) == 1:
        return None
    from unmask.runs.devices import resolve_device

    if len({resolve_device(device).type for device in devices}) > 1:
        raise InputError(
            f"device {','.join(devices)!r} mixes kinds, whose numbers differ by rounding: use"
            " devices of one kind"
        )
    return Processes(devices)


def shared_model(
    model: Model, engine: str, most: int | None = None
) -> tuple[MaskedLM, Workers | None, Callable[[], MaskedLM] | None]:
    """The model here, `workers_for` it, and what loads the model in one of them: with workers,
    it is here on the CPU.
    """
    if not is_shared(model, engine):
        return as_model(model), None, None
    here, workers = (
        on_device(model, "cpu")(),
        workers_for(model, engine, most),
    )  # a model that cannot be read starts no worker
    assert workers is not None
    return here, workers, on_device(model, workers.device)
