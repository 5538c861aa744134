"""Work shared among processes on Ray, each with its own model; by name or folder, since each of them loads it by itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from unmask.errors import InputError
from unmask.models.load import Model, on_device
from unmask.models.loading import resolve_device
from unmask.models.masked_lm import MaskedLM
from unmask.runs import engine
from unmask.runs.engines import Item, OnRay, Result, ray_has_gpus, start_ray


@dataclass(frozen=True)
class Workers:
    """Workers of a verb.

    load     returns the model, in a worker's process; picklable
    device   cpu or cuda: what they run on
    count    how many; None: one per GPU, or per two CPUs
    """

    load: Callable[[], Any]
    device: str
    count: int | None = None

    def pool(
        self,
        make: Callable[[Any], Callable[[Item], Result]],
        rest: Callable[[Item, Result], Item | None] | None = None,
        most: int | None = None,
    ) -> OnRay[Item, Result]:
        """The pool whose workers do `make(model)(item)`; see `OnRay` for `rest` and `most`."""
        return OnRay(partial(_work, self.load, make), self.count, self.device == "cuda", rest, most)


def _work(load: Callable[[], Any], make: Callable[[Any], Callable[[Item], Result]]) -> Callable[[Item], Result]:
    return make(load())


def on_ray(load: Callable[..., Any], model: object, device: str, *more: Any, count: int | None = None) -> Workers:
    """Starts or joins Ray; a worker's model is `load(model, device, *more)`, a folder given by its absolute path."""
    refuse_loaded(model)
    on = _workers_device(device)
    if isinstance(model, str | os.PathLike) and os.path.isdir(folder := os.path.expanduser(os.fspath(model))):
        model = os.path.realpath(folder)
    return Workers(partial(load, None if model is None else str(model), on, *more), on, count)


def for_workers(model: Model, count: int | None) -> tuple[MaskedLM, Workers]:
    """The model on this process's CPU, for everything but the work, and the workers."""
    here = on_device(model, "cpu")
    on = _workers_device(model.keywords.get("device", "auto") if isinstance(model, partial) else "auto")
    return here(), Workers(on_device(_absolute(model), on), on, count)


def model_on_ray(
    model: Model, count: int | None = None, most: int | None = None
) -> tuple[MaskedLM, engine.Workers, Callable[[], MaskedLM]]:
    """Joins or starts Ray: the model on this process's CPU, the workers, and what loads the model in one of them.

    count   of workers, by default one per GPU or per two CPUs; most: items that there can be
    """
    here = on_device(model, "cpu")
    workers = engine.ray_workers(count, model.keywords.get("device", "auto") if isinstance(model, partial) else "auto", most)
    return here(), workers, on_device(_absolute(model), workers.device)


def _absolute(model: Model) -> Model:
    """The model with a folder by its absolute path: workers have folders of their own."""
    if isinstance(model, partial):
        return partial(model.func, _absolute(model.args[0] if model.args else None), **model.keywords)
    if isinstance(model, str | os.PathLike) and os.path.isdir(folder := os.path.expanduser(os.fspath(model))):
        return os.path.realpath(folder)
    return model


def refuse_loaded(model: object) -> None:
    """A loaded model does not travel."""
    if model is not None and not isinstance(model, str | os.PathLike):
        raise InputError("engine ray loads the model in every worker: give its folder or name, not a loaded model")


def _workers_device(device: str) -> str:
    start_ray()
    if device.startswith("cuda") and not ray_has_gpus():
        raise InputError(f"device {device!r} was asked for, but the Ray cluster has no GPU: use device cpu")
    if device.startswith("cuda") or (device == "auto" and ray_has_gpus()):
        return "cuda"
    return "cpu" if device == "auto" else resolve_device(device).type
