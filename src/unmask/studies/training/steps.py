"""The steps of a run until the end, an interrupt or the end of its time.

A run validates ten times and writes its checkpoint twenty times.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any, Literal, NamedTuple

import torch

from unmask.runs.progress import stopping_signals
from unmask.studies.training.log import RunLog
from unmask.studies.training.packing import PackedRows
from unmask.studies.training.trainer import Trainer
from unmask.studies.training.validation import Validation

Status = Literal["finished", "interrupted", "paused"]
VALIDATIONS = 10  # of a run
CHECKPOINTS = 20  # of a run
GOES_ON, IS_LATE, IS_INTERRUPTED = range(3)
"""What a process has to say after a step; the highest of all processes counts."""


class Outcome(NamedTuple):
    """How the steps of a run ended, how many are done, and the last validation."""

    status: Status
    step: int
    validation: Validation


class Interrupts:
    """Whether a signal to stop was seen."""

    def __init__(self) -> None:
        self.seen = False


def run_steps(
    trainer: Trainer, valid: PackedRows, log: RunLog, max_minutes: float | None, start: int = 0
) -> Outcome:
    """Train from step `start` to the end, an interrupt or the end of the time.

    Each of them writes a checkpoint, and validates.
    """
    steps = trainer.settings.steps
    validate_every = max(1, steps // VALIDATIONS)
    save_every = max(1, steps // CHECKPOINTS)
    processes = trainer.processes
    began = time.monotonic()
    seeded = [trainer.device] if trainer.device.type == "cuda" else []
    done = start
    status: Status = "finished"
    with _interrupts(once=processes.alone) as interrupts, torch.random.fork_rng(seeded):
        while done < steps:
            log.add(done, trainer.step(done))
            done += 1
            state = GOES_ON
            if interrupts.seen:
                state = IS_INTERRUPTED
            elif max_minutes is not None and time.monotonic() - began > 60 * max_minutes:
                state = IS_LATE
            state = processes.highest(state)
            if state != GOES_ON:
                status = "interrupted" if state == IS_INTERRUPTED else "paused"
                break
            if done < steps and done % validate_every == 0:
                log.validated(done, trainer.validate(valid))
            if done < steps and done % save_every == 0:
                log.save(done)
        if done > start:
            log.save(done)
        figures = trainer.validate(valid)
        log.validated(done, figures)
    if done == steps:  # also if it was interrupted in its last step
        status = "finished"
    return Outcome(status=status, step=done, validation=figures)


@contextmanager
def _interrupts(once: bool = True) -> Iterator[Interrupts]:
    """Notes a signal to stop; with `once`, a second one ends the program as usual.

    Of several processes each gets an interrupt twice, from the terminal and from torchrun,
    which ends them itself if they linger.
    """
    interrupts = Interrupts()
    if current_thread() is not main_thread():  # only the main thread may handle signals
        yield interrupts
        return
    former = {}
    for number in stopping_signals():
        handler = signal.getsignal(number)
        if handler not in (signal.SIG_IGN, None):  # neither ignored nor handled by C code
            former[number] = handler

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    def note(number: int, frame: Any) -> None:
        interrupts.seen = True
        if once:
            restore()

    for number in former:
        signal.signal(number, note)
    try:
        yield interrupts
    finally:
        restore()
