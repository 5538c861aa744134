"""The log of a run, training/log.jsonl: losses every few steps, and every validation."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from unmask.runs.files import as_json, read_bytes, write_atomically, writing
from unmask.runs.progress import Progress
from unmask.training.validation import Figures


class RunLog:
    """Notes what happens to a run in its log file, and tells `progress`, step by step."""

    def __init__(self, path: Path, steps: int, start: int = 0, progress: Progress | None = None) -> None:
        self.path, self.steps, self.progress = path, steps, progress
        self.training = self.validation = ""
        self.began = time.monotonic()
        if path.exists():  # what a killed run noted after its last checkpoint happens again
            kept = [as_json(record, indent=None) + "\n" for record in read_log(path) if record["step"] <= start]
            write_atomically(path, "".join(kept))

    def begins(self, start: int, plan: str) -> None:
        """How much there is to do, before the first step."""
        if self.progress:
            self.progress(start, self.steps, plan)

    def trained(self, step: int, loss: float, penalty: float, rate: float, tokens_per_second: float) -> None:
        """The mean training loss since the last note, and the mean compatibility penalty where there is one."""
        self.training = f"training, {tokens_per_second:,.0f} tokens/s, loss {loss:.3f}"
        record = {"step": step, "loss": round(loss, 5), "lr": rate, "tokens_per_second": round(tokens_per_second)}
        if penalty:
            self.training += f", incompatibility {penalty:.2f}"
            record["compatibility"] = round(penalty, 5)
        self._note(record)

    def validated(self, step: int, figures: Figures) -> None:
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
    """The records of a log; a line that a kill cut short is left out."""
    records = []
    for line in read_bytes(path).decode(errors="replace").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
    return records
