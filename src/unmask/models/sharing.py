"""One model in several processes: those of the devices that a user lists, or workers of Ray.

Nothing here imports torch before a model is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unmask.common.errors import InputError, argument_name
from unmask.models.load import Model, ModelSpec, as_model
from unmask.models.loading_spec import LoadingSpec
from unmask.models.own_loader import names_loader, sent_loader

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM
    from unmask.runs.engine import Workers


def shared_model(
    model: Model, engine: str, most: int | None = None
) -> tuple[MaskedLM, Workers | None, Callable[[], MaskedLM] | None]:
    """The model in this process, the workers, and what loads the model in one of them.

    With workers, the model of this process is on the CPU. Without, the others are None.

    most   the number of items to work on, if it is known
    """
    if not is_shared(model, engine):
        return as_model(model), None, None
    here = loader_on(model, "cpu")()  # first: a model that cannot be read starts no worker
    workers = workers_for(model, engine, most)
    assert workers is not None
    return here, workers, loader_on(model, workers.device)


def is_shared(model: Any, engine: str) -> bool:
    """Whether workers share the work: those of Ray, or a process for each of several devices of
    this machine.
    """
    if re.fullmatch("local|ray(:[1-9][0-9]{0,3})?", engine) is None:
        raise InputError(
            f"{engine!r} is not understood",
            argument="engine",
            use="give local, ray, or ray:4 with the number of workers",
        )
    return engine != "local" or len(devices_of(model)) > 1


def devices_of(model: Any) -> tuple[str, ...]:
    """The devices that a model will be loaded on."""
    if isinstance(model, LoadingSpec):
        return model.devices
    return ("auto",)


def workers_for(model: Any, engine: str, most: int | None = None) -> Workers | None:
    """The workers; None: this process does the work.

    most   the number of items to work on, if it is known: no more workers than this
    """
    from unmask.runs.processes import Processes
    from unmask.runs.ray_cluster import ray_workers

    devices = devices_of(model)
    if len(devices) == 1:
        if engine == "local":
            return None
        return ray_workers(engine, devices[0], most)
    listed = ",".join(devices)
    if "auto" in devices:
        raise _not_a_list(listed, "auto is one device")
    if engine != "local":
        raise _not_a_list(listed, f"{argument_name('engine', engine)} chooses devices itself")
    from unmask.runs.devices import resolve_device  # imports torch

    kinds = {resolve_device(device).type for device in devices}
    if len(kinds) > 1:
        raise InputError(
            f"{listed!r} mixes kinds, whose numbers differ by rounding",
            argument="device",
            use="use devices of one kind",
        )
    return Processes(devices)


def _not_a_list(listed: str, reason: str) -> InputError:
    return InputError(
        f"{listed!r} is a list, and {reason}",
        argument="device",
        use=f"give cpu, cuda, or a list with {argument_name('engine', 'local')}",
    )


def loader_on(model: Model, device: str) -> Callable[[], MaskedLM]:
    """A function that loads the model on another device, and can be sent to another process.

    Raises InputError for a loaded model, and for a user's function. Of own code that the user
    names, as loader.py:load, the other process gets the sources.
    """
    if model is None or isinstance(model, str | os.PathLike):
        model = ModelSpec(model)
    if not isinstance(model, ModelSpec):
        raise InputError(
            "is loaded, and workers load the model themselves",
            argument="model",
            use="give its folder or name, not a loaded model",
        )
    if isinstance(model.name, str) and names_loader(model.name):
        return sent_loader(model.name, device, model.dtype).load
    return model.on(device).load
