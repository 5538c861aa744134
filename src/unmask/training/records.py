"""Records of a run in its folder: the log, training/log.jsonl, and the checkpoints.

The log has losses every few steps, and every validation. A checkpoint is written whole or not at all and holds finite numbers
only; the last two are kept. It is good if it reads, belongs to this run and holds finite numbers of the right shapes. A resumed
run starts from the newest good one.
"""

from __future__ import annotations

import io
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.errors import InputError, UnmaskError
from unmask.runs.files import as_json, read_bytes, write_atomically, writing
from unmask.runs.progress import Progress
from unmask.training.validation import Validation

KEPT = 2


class RunLog:
    """Writes the events of a run to its log file, and reports them to `progress`."""

    def __init__(self, path: Path, steps: int, start: int = 0, progress: Progress | None = None) -> None:
        self.path, self.steps, self.progress = path, steps, progress
        self.training = self.validation = ""
        self.began = time.monotonic()
        if path.exists():  # steps that a killed run logged after its last checkpoint are made again
            kept = [as_json(record, indent=None) + "\n" for record in read_log(path) if record["step"] <= start]
            write_atomically(path, "".join(kept))

    def begins(self, start: int, plan: str) -> None:
        """Report the plan before the first step."""
        if self.progress:
            self.progress(start, self.steps, plan)

    def trained(self, step: int, loss: float, penalty: float, rate: float, tokens_per_second: float) -> None:
        """The mean training loss since the last note, and the mean compatibility penalty if there is one."""
        self.training = f"training, {tokens_per_second:,.0f} tokens/s, loss {loss:.3f}"
        record = {"step": step, "loss": round(loss, 5), "lr": rate, "tokens_per_second": round(tokens_per_second)}
        if penalty:
            self.training += f", incompatibility {penalty:.2f}"
            record["compatibility"] = round(penalty, 5)
        self._note(record)

    def validated(self, step: int, figures: Validation) -> None:
        """The validation figures."""
        self.validation = f", validation {figures.loss:.3f} nats, {figures.accuracy:.1%}"
        self._note({"step": step, "valid_loss": round(figures.loss, 5), "valid_accuracy": round(figures.accuracy, 5)})

    def _note(self, record: dict[str, float]) -> None:
        if self.progress:
            self.progress(int(record["step"]), self.steps, self.training + self.validation)
        record["seconds"] = round(time.monotonic() - self.began, 2)
        with writing(self.path, "free some space, and give the same command again with --resume"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as stream:
                stream.write(as_json(record, indent=None) + "\n")


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log, without a line that a kill cut short."""
    records = []
    for line in read_bytes(path).decode(errors="replace").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
    return records


class TrainingError(UnmaskError):
    """A number of the run is NaN or infinite."""


class CheckpointFolder:
    """The checkpoints of one run, `step-00001000.pt` and so on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def paths(self) -> list[Path]:
        """Checkpoints, oldest first."""
        return sorted(self.folder.glob("step-*.pt"))

    @property
    def latest(self) -> Path | None:
        """The newest checkpoint."""
        paths = self.paths()
        return paths[-1] if paths else None

    def describe_latest(self) -> str:
        """The place of the last good checkpoint, in words."""
        return f"the last good checkpoint is {self.latest}" if self.latest else "there is no checkpoint yet"

    def save(self, step: int, state: dict[str, Any]) -> Path:
        """Write the state after `step` steps, then delete all except the newest two."""
        wrong = not_finite(state)
        if wrong:
            raise TrainingError(
                f"{wrong} is not finite after step {step}; {self.describe_latest()}; try a lower --lr or a longer --warmup"
            )
        buffer = io.BytesIO()
        torch.save({**state, "step": step}, buffer)
        path = self.folder / f"step-{step:08d}.pt"
        remedy = f"{self.describe_latest()}; make room for the next, and give the same command again with --resume"
        write_atomically(path, buffer.getbuffer(), remedy)
        with writing(self.folder):
            for old in self.paths()[:-KEPT]:
                old.unlink()
        return path

    def restore(self, load: Callable[[dict[str, Any]], None], device: torch.device | str = "cpu") -> int:
        """Pass the newest good checkpoint to `load`, which raises if it does not fit. Returns the steps done, or 0."""
        paths, damaged = self.paths(), ""
        for path in reversed(paths):
            try:
                state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
                if path.name != f"step-{state['step']:08d}.pt":
                    raise ValueError(f"it is of step {state['step']}")
                if wrong := not_finite(state):
                    raise ValueError(f"{wrong} is not finite")
                load(state)
            except Exception as error:
                why = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
                damaged = damaged or f"checkpoint {str(path)!r} is damaged ({why})"
                continue
            if damaged:
                warnings.warn(f"{damaged}: continuing from step {state['step']:,} instead", stacklevel=2)
            return int(state["step"])
        if damaged:
            raise InputError(
                f"{damaged}, and there is no other: delete it to begin again at the first step with the same command, "
                "or name another --out"
            )
        return 0

    def clear(self) -> None:
        """Remove all checkpoints (the run is finished and its model is written)."""
        with writing(self.folder):
            for path in self.paths():
                path.unlink()
            if self.folder.is_dir() and not any(self.folder.iterdir()):
                self.folder.rmdir()


def not_finite(state: object) -> str:
    """The name of a tensor in nested dictionaries and lists that holds an infinity or NaN; empty if all are finite."""
    named = [(name, tensor) for name, tensor in _tensors(state, "") if tensor.is_floating_point()]
    if not named:
        return ""
    good = torch.stack([tensor.isfinite().all() for _, tensor in named]).cpu()
    return "" if bool(good.all()) else named[int((~good).nonzero()[0])][0]


def _tensors(value: object, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _tensors(item, f"{name}.{key}" if name else str(key))
