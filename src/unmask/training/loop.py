"""The training loop: one step, and the run around it (checkpoints, validation, interruption, NaN).

Everything random in step t (rows, masks, replacements, pairs) is drawn from generators seeded by (seed, t), so the state
of a run is its weights, its optimisers' states and the number of steps done.

Several processes (`processes.py`) share out the rows of a batch. Each of them draws what is random for the whole batch and keeps
the part of its own rows, so the number of processes changes nothing but the order of sums.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import current_thread, main_thread
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.training.encoder import PackedBert, Slots, one_order
from unmask.training.masking import ExactlyK, capacity
from unmask.training.objectives import SlotShare, Task, compatibility_penalty, draw_pairs, filled_in, objective_of
from unmask.training.optimisers import make_optimisers, rate_at, whole_states
from unmask.training.packing import BatchPlan, PackedRows, PackedText, RowBatch, Rows, Vocabulary, seed_for
from unmask.training.prepare import Prepared
from unmask.training.processes import ALONE, Processes
from unmask.training.result import CheckpointFolder, RunLog, Status, TrainingError
from unmask.training.settings import Start, TrainSettings, new_model
from unmask.training.validation import Validation, log_unigram, stutter, validate

_FLUSH_STEPS = 50
_FLUSH_SECONDS = 2.0


class StepNumbers(NamedTuple):
    """Loss per position, norm of the gradient and compatibility penalty, all still on the device; tokens, padding apart."""

    loss: Float[Tensor, ""]
    norm: Float[Tensor, ""]
    penalty: Float[Tensor, ""]
    tokens: int


@dataclass(frozen=True)
class Pace:
    """How often to validate and to write a checkpoint, and when to pause; none of it changes the numbers.

    0 validates ten times per run and writes twenty checkpoints; without `max_minutes` the run never pauses.
    """

    valid_every: int = 0
    checkpoint_every: int = 0
    max_minutes: float | int | None = None

    def validates(self, done: int, steps: int) -> bool:
        """Whether to validate after `done` steps."""
        return done < steps and done % (self.valid_every or max(1, steps // 10)) == 0

    def keeps(self, done: int, steps: int) -> bool:
        """Whether to write a checkpoint after `done` steps."""
        return done < steps and done % (self.checkpoint_every or max(1, steps // 20)) == 0

    def is_over(self, seconds: float) -> bool:
        """Whether to pause after this many seconds."""
        return self.max_minutes is not None and seconds > 60 * self.max_minutes


class Trainer:
    """Model, optimisers and data of a run; `step(t)` makes step t."""

    def __init__(
        self,
        settings: TrainSettings,
        prepared: Prepared,
        device: torch.device,
        compile: bool,
        init: Start | None = None,
        processes: Processes = ALONE,
        sharded: bool = False,
    ) -> None:
        """`sharded`: each process holds the optimisers' states of its share of the parameters."""
        self.settings = settings
        self.device = device
        self.processes = processes
        self.vocabulary = Vocabulary.of(prepared.tokenizer, device, settings.source_length)
        self.plan = BatchPlan(prepared.packed, settings.batch_tokens, settings.seed)
        network = init.network if init else new_model(settings, self.vocabulary.size, self.vocabulary.pad)
        self.model = network.to(device)
        self.objective = objective_of(settings)
        narrow = settings.precision == "bfloat16" or (settings.precision == "auto" and device.type == "cuda")
        self.bert = PackedBert(self.model, torch.bfloat16 if narrow else torch.float32, compile, self.objective.causal)
        self.optimisers = make_optimisers(
            self.model, settings.optimiser, settings.lr, settings.weight_decay, (0.9, settings.beta2), sharded
        )
        self.losses = processes.reduced(self.model, self._losses, compile)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.slots = {p.length: self._slots(processes.rows(settings.batch_tokens // p.length), p) for p in self.plan.packed}
        self.log_unigram = log_unigram(prepared, self.vocabulary, self.objective.causal)
        self.fill = {p.length: p.tokens / p.ids.size for p in self.plan.packed}

    def step(self, step: int) -> StepNumbers:
        """One optimisation step."""
        with one_order(self.device):
            return self._step(step)

    def _step(self, step: int) -> StepNumbers:
        batch = self.plan.batch(step)
        text = PackedText.of(self._to_device(batch), self.vocabulary)
        generator = torch.Generator(self.device).manual_seed(seed_for(self.settings.seed, step, 1))
        if self.settings.dropout:
            torch.manual_seed(seed_for(self.settings.seed, step, 2))
        loss, penalty = self.losses(text, batch.bucket, generator)
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        objective = loss + self.settings.compatibility * penalty
        (objective if self.processes.alone else objective * self.processes.size).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.clip)
        rate = rate_at(step, self.settings.steps, self.settings.warmup, self.settings.lr)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate
            optimiser.step()
        loss, penalty = loss.detach(), penalty.detach()
        if not self.processes.alone:
            loss, penalty = self.processes.total(torch.stack([loss, penalty])).unbind()
        return StepNumbers(loss, norm, penalty, round(batch.ids.size * self.fill[batch.bucket]))

    def _to_device(self, batch: RowBatch) -> Int[Tensor, "R L"]:
        ids = torch.from_numpy(batch.ids)
        return ids.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else ids

    def _slots(self, rows: Rows, packed: PackedRows, whole: bool = False) -> int:
        """A static upper bound on the asked positions of these rows, or of the whole batch."""
        return self.objective.slots(rows.whole if whole else rows.size, packed.length, packed.tokens_per_segment)

    def _losses(self, text: PackedText, bucket: int, generator: torch.Generator) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        """This process' parts of the loss and of the compatibility penalty."""
        loss = self._loss(text, bucket, generator)
        penalty = torch.zeros((), device=self.device)
        return loss, self._penalty(text, bucket, generator) if self.settings.compatibility else penalty

    def _loss(self, text: PackedText, bucket: int, generator: torch.Generator) -> Float[Tensor, ""]:
        task = self.objective.task(text, self.vocabulary, generator)
        rows, share = None, None
        if not self.processes.alone:
            rows = self.processes.rows(len(text.ids))
            share = SlotShare.of(task.asked, rows, self._slots(rows, self._packed(bucket), whole=True))
            text, task = text.part(*rows[:2]), task.part(*rows[:2])
        slots = Slots.gather(task.asked, self.slots[bucket])
        answer = task.answer.flatten()[slots.position].long()
        hidden = self._hidden(task, text, rows)
        nll, _ = self.bert.nll(hidden, slots, answer, self.settings.label_smoothing)
        if self.settings.refinement:
            first = self.bert.logits(hidden.detach()[slots.position])
            again = filled_in(task, first, slots, self.vocabulary, generator, share)
            corrected, _ = self.bert.nll(self._hidden(again, text, rows), slots, answer, self.settings.label_smoothing)
            nll = nll + self.settings.refinement * corrected
        return (nll * torch.where(slots.filled, task.weight.flatten()[slots.position], 0.0)).sum() / task.total.clamp(min=1)

    def _hidden(self, task: Task, text: PackedText, rows: Rows | None) -> Float[Tensor, "n D"]:
        return self.bert.hidden(task.shown, text, self.settings.dropout, rows)

    def _packed(self, bucket: int) -> PackedRows:
        return next(p for p in self.plan.packed if p.length == bucket)

    def _penalty(self, text: PackedText, bucket: int, generator: torch.Generator) -> Float[Tensor, ""]:
        rows = min(len(text.ids), self.settings.compatibility_rows or max(1, len(text.ids) // 8))
        own = self.processes.rows(rows)
        if not own.size:
            return torch.zeros((), device=self.device)
        whole, segments = (  # a scheme that masks one token of each
            capacity(ExactlyK(1), some, bucket, self._packed(bucket).tokens_per_segment) for some in (rows, own.size)
        )
        part = None if self.processes.alone else own
        pairs = draw_pairs(self.bert, text.part(0, rows), self.vocabulary, segments, generator, part, whole)
        return compatibility_penalty(self.bert, text.part(own.first, own.stop), self.vocabulary, pairs)

    def validate(self, rows: PackedRows) -> Validation:
        """Loss and accuracy on held-out rows: of the next token for a causal model, else with 15 % masked."""
        last = self.plan.packed[-1]
        batch_rows = max(1, self.settings.batch_tokens // rows.length)
        if not self.bert.compiled:
            batch_rows = min(batch_rows, 64)
        slots = self.slots[last.length] if last.length == rows.length and self.bert.compiled else 0
        objective = self.objective if self.objective.causal else None
        with one_order(self.device):
            return validate(self.bert, rows, self.vocabulary, objective, 0, batch_rows, slots, self.log_unigram, self.processes)

    def figures(self, rows: PackedRows) -> Validation:
        """The figures at the end of a run: those of `validate`, and the stutter of a masked model of pairs."""
        found = self.validate(rows)
        if self.objective.causal or not self.settings.parallel:
            return found
        own, reference = stutter(self.bert, rows, self.vocabulary)
        return replace(found, stutter=own, reference_stutter=reference)

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs, except the number of steps done; whole in the first process."""
        return {
            "settings": self.settings.to_dict(),
            "model": self.model.state_dict(),
            "optimisers": whole_states(self.optimisers, self.processes.leads),
        }

    def save(self, step: int, checkpoints: CheckpointFolder) -> None:
        """Write a checkpoint after `step` steps, which any number of processes can continue from."""
        with self.processes.agreed():
            state = self.state()
            if self.processes.leads:
                checkpoints.save(step, state)

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore `state`; raises ValueError or RuntimeError if it is from another run or has other shapes."""
        if state["settings"] != self.settings.to_dict():
            raise ValueError("it belongs to a run with other settings")
        if not 0 < state["step"] <= self.settings.steps:
            raise ValueError(f"it is of step {state['step']} of {self.settings.steps}")
        for optimiser, part in zip(self.optimisers, state["optimisers"], strict=True):
            parameters = [p for group in optimiser.param_groups for p in group["params"]]
            for place, kept in part["state"].items():
                for name, value in kept.items():
                    if value.dim() and value.shape != parameters[place].shape:
                        raise ValueError(f"{name} of parameter {place} has the shape {tuple(value.shape)}")
        self.model.load_state_dict(state["model"])
        for optimiser, part in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(part)


class _Ledger:
    """Losses and norms on the device, read every few steps; the first NaN or infinity stops the run."""

    def __init__(self, trainer: Trainer, log: RunLog, checkpoints: CheckpointFolder) -> None:
        self.trainer, self.log, self.checkpoints = trainer, log, checkpoints
        self.waiting: list[tuple[int, StepNumbers]] = []
        self.tokens = 0
        self.since = time.monotonic()

    def add(self, step: int, numbers: StepNumbers) -> None:
        self.waiting.append((step, numbers))
        self.tokens += numbers.tokens
        if len(self.waiting) >= _FLUSH_STEPS or time.monotonic() - self.since > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        if not self.waiting:
            return
        steps = [s for s, _ in self.waiting]
        numbers = torch.stack([torch.stack([n.loss, n.norm, n.penalty]) for _, n in self.waiting]).double().cpu()
        for step, (loss, norm, _) in zip(steps, numbers.tolist(), strict=True):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                what = "loss" if not math.isfinite(loss) else "gradient"
                raise TrainingError(
                    f"the {what} of step {step} is not a finite number; its batch: {self.trainer.plan.batch(step)}; "
                    f"{self.checkpoints.describe_latest()}; try a lower --lr or a longer --warmup"
                )
        settings = self.trainer.settings
        seconds = time.monotonic() - self.since
        rate = rate_at(steps[-1], settings.steps, settings.warmup, settings.lr)
        loss, _, penalty = numbers.mean(0).tolist()
        self.log.trained(steps[-1] + 1, loss, penalty, rate, self.tokens / max(seconds, 1e-9))
        self.waiting, self.tokens = [], 0
        self.restart_clock()

    def restart_clock(self) -> None:
        self.since = time.monotonic()


def run_steps(
    trainer: Trainer, valid: PackedRows, checkpoints: CheckpointFolder, pace: Pace, log: RunLog, start: int = 0
) -> tuple[Status, int, Validation]:
    """Train from step `start` to the end, or until the first interruption; either way it writes a checkpoint."""
    steps = trainer.settings.steps
    ledger = _Ledger(trainer, log, checkpoints)
    began = time.monotonic()
    done = start
    status: Status = "finished"
    seeded = [trainer.device] if trainer.device.type == "cuda" else []
    with _interrupts(once=trainer.processes.alone) as interrupted, torch.random.fork_rng(seeded):
        while done < steps:
            ledger.add(done, trainer.step(done))
            done += 1
            over = 2 if interrupted else 1 if pace.is_over(time.monotonic() - began) else 0
            if over := trainer.processes.highest(over):
                status = "interrupted" if over == 2 else "paused"
                break
            if pace.validates(done, steps):
                ledger.flush()
                log.validated(done, trainer.validate(valid))
                ledger.restart_clock()
            if pace.keeps(done, steps):
                ledger.flush()
                trainer.save(done, checkpoints)
                ledger.restart_clock()
        ledger.flush()
        if done > start:
            trainer.save(done, checkpoints)
        figures = trainer.figures(valid)
        log.validated(done, figures)
    return "finished" if done == steps else status, done, figures


@contextmanager
def _interrupts(once: bool = True) -> Iterator[list[int]]:
    """A list that becomes non-empty at the first SIGINT, SIGTERM or SIGHUP; with `once`, a second one ends the program as usual.

    Of several processes each gets an interrupt twice, from the terminal and from torchrun, which ends them itself if they linger.
    """
    seen: list[int] = []
    if current_thread() is not main_thread():
        yield seen
        return
    heard = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    former = {s: signal.getsignal(s) for s in heard if signal.getsignal(s) not in (signal.SIG_IGN, None)}

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        for s, handler in former.items() if once else ():
            signal.signal(s, handler)

    for s in former:
        signal.signal(s, note)
    try:
        yield seen
    finally:
        for s, handler in former.items():
            signal.signal(s, handler)
