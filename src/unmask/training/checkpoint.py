"""Checkpoints of a run: written whole or not at all, the last two kept, so that there is always a good one to resume from."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from unmask.errors import InputError
from unmask.training.files import write_atomic

KEPT = 2


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

    def save(self, step: int, state: dict[str, Any]) -> Path:
        """Write the state after `step` steps, then drop all but the newest two."""
        buffer = io.BytesIO()
        torch.save({**state, "step": step}, buffer)
        path = self.folder / f"step-{step:08d}.pt"
        kept = f"the last good checkpoint is {self.latest}" if self.latest else "there is no earlier checkpoint"
        write_atomic(path, buffer.getbuffer(), f"{kept}; free some space and run again with --resume")
        for old in self.paths()[:-KEPT]:
            old.unlink()
        return path

    def load(self, device: torch.device | str = "cpu") -> dict[str, Any]:
        """The newest checkpoint that reads without error."""
        paths = self.paths()
        for path in reversed(paths):
            try:
                state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
            except Exception:
                continue
            return state
        what = f"{len(paths)} checkpoints, none readable," if paths else "no checkpoint"
        raise InputError(f"{what} in {self.folder}: start a new run in another --out folder")

    def clear(self) -> None:
        """Remove all checkpoints (the run is finished and its model is written)."""
        for path in self.paths():
            path.unlink()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()
