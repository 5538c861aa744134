"""What a user sees of a run: a progress bar on a terminal, plain lines elsewhere, and a log in JSON lines."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from unmask.training.files import disk_space_errors
from unmask.training.validation import Figures

_LINE_SECONDS = 15.0


class ConsoleMonitor:
    """Steps, tokens a second, loss, validation loss and accuracy at 15 %."""

    def __init__(self, console: Console, log: Path, steps: int, start: int = 0) -> None:
        self.console, self.log, self.steps = console, log, steps
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, TextColumn("{task.fields[numbers]}"), console=console, disable=not console.is_terminal)
        self.task = self.bar.add_task("training", total=steps, completed=start, numbers="")
        self.training = self.validation = ""
        self.began = self.last_line = time.monotonic()

    def __enter__(self) -> ConsoleMonitor:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def progress(self, step: int, loss: float, penalty: float, rate: float, tokens_per_second: float) -> None:
        """Show and log the training loss, and the compatibility penalty where there is one."""
        self.training = f"{tokens_per_second:,.0f} tokens/s  loss {loss:.3f}" + (
            f"  incompatibility {penalty:.2f}" if penalty else ""
        )
        self.bar.update(self.task, completed=step, numbers=f"{self.training}  {self.validation}")
        if not self.console.is_terminal and time.monotonic() - self.last_line > _LINE_SECONDS:
            self.console.print(f"step {step:,}/{self.steps:,}  {self.training}", highlight=False)
            self.last_line = time.monotonic()
        record = {"step": step, "loss": round(loss, 5), "lr": rate, "tokens_per_second": round(tokens_per_second)}
        self._write(record | ({"compatibility": round(penalty, 5)} if penalty else {}))

    def validated(self, step: int, figures: Figures) -> None:
        """Show and log the validation figures."""
        self.validation = f"validation {figures.loss:.3f} nats, {figures.accuracy:.1%}"
        self.bar.update(self.task, numbers=f"{self.training}  {self.validation}")
        if not self.console.is_terminal:
            self.console.print(f"step {step:,}/{self.steps:,}  {self.training}  {self.validation}", highlight=False)
        self._write({"step": step, "valid_loss": round(figures.loss, 5), "valid_accuracy": round(figures.accuracy, 5)})

    def _write(self, record: dict[str, float]) -> None:
        record["seconds"] = round(time.monotonic() - self.began, 2)
        with disk_space_errors(self.log, "free some space and run again with --resume"), self.log.open("a") as stream:
            stream.write(json.dumps(record) + "\n")
