"""The log of a run, training/log.jsonl: losses every few steps, and every validation."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import torch

from unmask.common.files import as_json, read_bytes, write_atomically, writing
from unmask.runs.progress import Progress
from unmask.studies.training.checkpoint import STEADIER, Checkpoint, TrainingError
from unmask.studies.training.optimisers import rate_at
from unmask.studies.training.trainer import StepNumbers, Trainer
from unmask.studies.training.validation import Validation

STEPS_PER_RECORD = 50  # at most
SECONDS_PER_RECORD = 2.0  # about, for slow steps


class RunLog:
    """Writes the losses and validations of a run to its log file, and reports them to `progress`.

    Losses and norms stay on the device and are read every few steps; the first NaN or infinity
    stops the run.
    """

    def __init__(
        self,
        path: Path,
        trainer: Trainer,
        checkpoint: Checkpoint,
        start: int = 0,
        progress: Progress | None = None,
    ) -> None:
        """`start`: steps done of the run that is resumed; 0 for a new one."""
        self.path = path
        self.trainer = trainer
        self.checkpoint = checkpoint
        self.progress = progress
        self.training_in_words: str = "steps"
        self.validation_in_words: str = ""
        self.unwritten: list[tuple[int, StepNumbers]] = []
        self.began: float = time.monotonic()
        self.last_record: float = self.began
        if trainer.processes.leads and path.exists():
            # Steps that a killed run logged after its last checkpoint are made again.
            kept = [record for record in read_log(path) if record["step"] <= start]
            write_atomically(path, "".join(as_json(record, indent=None) + "\n" for record in kept))

    def add(self, step: int, numbers: StepNumbers) -> None:
        """Note the numbers of a step, counted from 0."""
        self.unwritten.append((step, numbers))
        seconds = time.monotonic() - self.last_record
        if len(self.unwritten) >= STEPS_PER_RECORD or seconds > SECONDS_PER_RECORD:
            self.flush()

    def flush(self) -> None:
        """Write the mean loss since the last record."""
        if not self.unwritten:
            return
        seconds = max(time.monotonic() - self.last_record, 1e-9)  # a clock may stand still
        steps = [step for step, _ in self.unwritten]
        numbers = [numbers for _, numbers in self.unwritten]
        on_device = torch.stack([torch.stack([n.loss, n.norm]) for n in numbers])
        losses_and_norms = on_device.double().cpu()  # one transfer for all steps
        for step, (loss, norm) in zip(steps, losses_and_norms.tolist(), strict=True):
            self._refuse_non_finite(step, loss, norm)
        mean_loss, _ = losses_and_norms.mean(0).tolist()
        speed = sum(n.tokens for n in numbers) / seconds
        self.training_in_words = f"steps, {speed:,.0f} tokens/s, loss {mean_loss:.3f}"
        settings = self.trainer.settings
        self._write(
            {
                "step": steps[-1] + 1,
                "loss": round(mean_loss, 5),
                "lr": rate_at(steps[-1], settings.steps, settings.warmup, settings.lr),
                "tokens_per_second": round(speed),
            }
        )
        self.unwritten = []
        self.last_record = time.monotonic()

    def _refuse_non_finite(self, step: int, loss: float, norm: float) -> None:
        """Raise TrainingError for a step whose loss or gradient is NaN or infinite."""
        if math.isfinite(loss) and math.isfinite(norm):
            return
        what = "gradient" if math.isfinite(loss) else "loss"
        rows = ", ".join(map(str, self.trainer.plan.rows_of(step)[:4]))
        raise TrainingError(
            f"the {what} of step {step} is not a finite number (rows {rows}, ... of the packed"
            f" corpus); {self.checkpoint.in_words}; {STEADIER}"
        )

    def validated(self, step: int, figures: Validation) -> None:
        """Write the validation figures."""
        self.flush()
        self.validation_in_words = f", validation {figures.loss:.3f} nats, {figures.accuracy:.1%}"
        self._write(
            {
                "step": step,
                "valid_loss": round(figures.loss, 5),
                "valid_accuracy": round(figures.accuracy, 5),
            }
        )
        self.last_record = time.monotonic()  # the time of validations is not that of steps

    def save(self, step: int) -> None:
        """Write a checkpoint."""
        self.flush()
        if self.trainer.processes.leads:
            self.checkpoint.save(step, self.trainer.state())
        self.last_record = time.monotonic()  # the time of checkpoints is not that of steps

    def _write(self, record: dict[str, Any]) -> None:
        """Report a record and append it to the file, with the seconds since the run began."""
        if not self.trainer.processes.leads:
            return
        if self.progress:
            what = self.training_in_words + self.validation_in_words
            self.progress(int(record["step"]), self.trainer.settings.steps, what)
        record["seconds"] = round(time.monotonic() - self.began, 2)
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8", newline="\n") as stream:
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
