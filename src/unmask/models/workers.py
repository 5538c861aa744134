"""A model on the workers of a cluster: by name or folder, since each of them loads it by itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM, Reading, as_model
from unmask.runs.engines import ray_has_gpus, start_ray


@dataclass(frozen=True)
class WorkersModel:
    """How a worker loads the model; `device` is cpu or cuda."""

    model: str | None
    device: str
    dtype: str = "auto"
    reading: Reading = (None, None, False, None)

    @property
    def gpu(self) -> bool:
        """Whether each worker takes a GPU."""
        return self.device == "cuda"

    def load(self) -> MaskedLM:
        """The model, in a worker's process."""
        return as_model(self.model, self.device, self.dtype, *self.reading)


def refuse_loaded(model: object) -> None:
    """A loaded model does not travel."""
    if model is not None and not isinstance(model, str | os.PathLike):
        raise InputError("engine ray loads the model in every worker: give its folder or name, not a loaded model")


def for_workers(model: MaskedLM | str | Path | None, device: str, dtype: str, reading: Reading) -> tuple[MaskedLM, WorkersModel]:
    """Starts or joins Ray; the model on this process's CPU, for everything but the work, and as its workers load it."""
    refuse_loaded(model)
    assert not isinstance(model, MaskedLM)
    on = workers_device(device)
    lm = as_model(model, "cpu", dtype, *reading)
    return lm, WorkersModel(absolute(model), on, str(lm.dtype).removeprefix("torch."), reading)


def workers_device(device: str) -> str:
    """Starts or joins Ray; "cpu" or "cuda": what its workers run on."""
    from unmask.models.loading import resolve_device

    start_ray()
    if device.startswith("cuda") and not ray_has_gpus():
        raise InputError(f"device {device!r} was asked for, but the Ray cluster has no GPU: use device cpu")
    if device.startswith("cuda") or (device == "auto" and ray_has_gpus()):
        return "cuda"
    return "cpu" if device == "auto" else resolve_device(device).type


def absolute(model: str | os.PathLike[str] | None) -> str | None:
    """A folder by its absolute path, which workers in another folder find; a hub name as it is."""
    if model is None:
        return None
    folder = os.path.expanduser(os.fspath(model))
    return os.path.realpath(folder) if os.path.isdir(folder) else os.fspath(model)
