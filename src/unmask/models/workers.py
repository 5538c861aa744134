"""A model on the workers of a Ray cluster; by name or folder, since each of them loads it by itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from unmask.models.load import Model, on_device
from unmask.models.masked_lm import MaskedLM
from unmask.runs.engine import Workers, ray_workers


def model_on_ray(
    model: Model, count: int | None = None, most: int | None = None
) -> tuple[MaskedLM, Workers, Callable[[], MaskedLM]]:
    """Joins or starts Ray: the model on this process's CPU, the workers, and what loads the model in one of them.

    count   of workers, by default one per GPU or per two CPUs; most: items that there can be
    """
    here = on_device(model, "cpu")
    workers = ray_workers(count, model.keywords.get("device", "auto") if isinstance(model, partial) else "auto", most)
    return here(), workers, on_device(_absolute(model), workers.device)


def _absolute(model: Model) -> Model:
    """The model with a folder by its absolute path: workers have folders of their own."""
    if isinstance(model, partial):
        return partial(model.func, _absolute(model.args[0] if model.args else None), **model.keywords)
    if isinstance(model, str | os.PathLike) and os.path.isdir(folder := os.path.expanduser(os.fspath(model))):
        return os.path.realpath(folder)
    return model
