"""One step of training: the loss of a batch, its gradient and the optimisers; and validation.

Everything random in step t (rows, masks, replacements) is drawn from generators seeded by
(seed, t), so the state of a run is its weights, its optimisers' states and the number of steps
done. Several processes (`processes.py`) share out the rows of a batch. Each of them draws the
masks of the whole batch and keeps those of its rows, so these do not depend on the number of
processes. Dropout and refinement draw for the process' own rows, from its own generators.

Validation seeds its masks by the place of a batch in the held-out rows, not by the run's seed. So
models of any seed get the same masks, if they validate the same rows in batches of the same number
of rows. Another kind of device draws other numbers, so its masks differ, but their distribution is
the same.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt
from torch import Tensor, nn

from unmask.models.encoder.bert import BertMaskedLM
from unmask.studies.training.batches import BatchPlan, seed_for
from unmask.studies.training.corpus import TrainingData
from unmask.studies.training.encoder import PackedBert, Slots
from unmask.studies.training.fixed_order import one_order
from unmask.studies.training.masking.schemes import FixedRate
from unmask.studies.training.objectives import (
    MaskedTasks,
    Objective,
    Task,
    filled_in,
    objective_of,
)
from unmask.studies.training.optimisers import make_optimisers, rate_at
from unmask.studies.training.packed_text import PackedText, Vocabulary
from unmask.studies.training.packing import PackedRows
from unmask.studies.training.processes import ALONE, Processes
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.start import Start, new_model
from unmask.studies.training.validation import Validation, log_unigram

LARGEST_NORM = 1.0
"""The gradient of all parameters together is scaled down to this norm if its norm is larger."""
MASKS = 1
DROPOUT = 2
"""Streams of a step's random numbers, the last part of their seeds. Process p drops out by the
stream DROPOUT + p."""
VALIDATION_RATE = 0.15
"""Share of held-out tokens that are masked."""
MOST_VALIDATION_ROWS = 64  # at once, without compiled code


class StepNumbers(NamedTuple):
    """Numbers of a step.

    loss     per position, still on the device
    norm     of the gradient, still on the device
    tokens   of the batch without padding, estimated from the mean fill of all packed rows
    """

    loss: Float[Tensor, ""]
    norm: Float[Tensor, ""]
    tokens: int


class _Sums:
    """Sums over the positions of held-out texts, in float64 on the device."""

    def __init__(self, device: torch.device) -> None:
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self.unigram_loss = torch.zeros_like(self.loss)
        self.hits = torch.zeros_like(self.loss)
        self.positions = torch.zeros_like(self.loss)

    def figures(self, processes: Processes) -> Validation:
        """The means over the positions of all processes."""
        own = torch.stack([self.loss, self.hits, self.positions, self.unigram_loss])
        loss, hits, positions, unigram_loss = processes.total(own).unbind()
        divisor = max(1, int(positions))
        return Validation(
            loss=float(loss) / divisor,
            accuracy=float(hits) / divisor,
            positions=int(positions),
            unigram=float(unigram_loss) / divisor,
        )


class Trainer:
    """Model, optimisers and data of a run; `step(t)` makes step t."""

    def __init__(
        self,
        settings: TrainSettings,
        prepared: TrainingData,
        device: torch.device,
        init: Start | None = None,
        processes: Processes = ALONE,
    ) -> None:
        self.settings = settings
        self.device = device
        self.processes = processes
        self.vocabulary: Vocabulary = Vocabulary.of(
            prepared.tokenizer, device, settings.source_length
        )
        self.packed: PackedRows = prepared.packed
        self.plan: BatchPlan = BatchPlan(prepared.packed, settings.batch_tokens, settings.seed)
        if init is None:
            network = new_model(settings, self.vocabulary.size, self.vocabulary.pad)
        else:
            network = init.network
        self.model: BertMaskedLM = network.to(device)
        self.objective: Objective = objective_of(settings)
        on_gpu = device.type == "cuda"
        self.bert: PackedBert = PackedBert(
            self.model,
            dtype=torch.bfloat16 if on_gpu else torch.float32,
            compile=on_gpu,
            causal=self.objective.causal,
        )
        self.optimisers: list[torch.optim.Optimizer] = make_optimisers(
            self.model, settings.optimiser, settings.lr
        )
        self.reduced_loss: Callable[..., Any] = processes.reduced(self.model, self._loss)
        """`_loss`, with gradients that are averaged over the processes."""
        self.parameters: list[nn.Parameter] = [
            p for p in self.model.parameters() if p.requires_grad
        ]
        most_rows = -(-self.plan.rows // processes.size)  # of one process, rounded up
        self.capacity: int = self._capacity(self.objective, most_rows, self.packed)
        """Slots for the targets of this process' rows of a training batch."""
        self.log_unigram: Tensor = log_unigram(prepared, self.vocabulary, self.objective.causal)

    def _capacity(self, objective: Objective, rows: int, packed: PackedRows) -> int:
        """The number of slots for the targets of `rows` of the packed rows."""
        return objective.slots(rows, packed.length, packed.tokens_per_segment)

    def step(self, step: int) -> StepNumbers:
        """One optimisation step."""
        settings = self.settings
        with one_order(self.device):
            ids = torch.from_numpy(self.plan.batch(step))
            if self.device.type == "cuda":
                ids = ids.pin_memory().to(self.device, non_blocking=True)
            text = PackedText.of(ids, self.vocabulary)
            generator = torch.Generator(self.device)
            generator.manual_seed(seed_for(settings.seed, step, MASKS))
            if settings.dropout:
                stream = DROPOUT + self.processes.rank
                torch.manual_seed(seed_for(settings.seed, step, stream))
            loss = self.reduced_loss(text, generator)
            for optimiser in self.optimisers:
                optimiser.zero_grad(set_to_none=True)
            # The loss is a sum over N processes. torch averages their gradients; the factor N
            # turns the average into the sum.
            (loss * self.processes.size).backward()
            norm = torch.nn.utils.clip_grad_norm_(self.parameters, LARGEST_NORM)
            rate = rate_at(step, settings.steps, settings.warmup, settings.lr)
            for optimiser in self.optimisers:
                for group in optimiser.param_groups:
                    group["lr"] = rate
                optimiser.step()
            return StepNumbers(
                loss=self.processes.total(loss.detach()),
                norm=norm,
                tokens=round(ids.numel() * self.packed.fill),
            )

    def _loss(self, text: PackedText, generator: torch.Generator) -> Float[Tensor, ""]:
        """This process' part of the loss of the batch `text`.

        It is the sum over the rows of this process, divided by the total of the whole batch.
        """
        settings = self.settings
        first, stop = self.processes.rows(len(text.ids))
        task: Task = self.objective.task(text, self.vocabulary, generator).part(first, stop)
        text = text.part(first, stop)
        if self.processes.rank:
            # From here on only refinement draws, for this process' rows: no two processes may
            # draw the same numbers.
            generator.manual_seed(generator.initial_seed() + self.processes.rank)
        slots = Slots.gather(task.predicted, self.capacity)
        answer = _answers(task, slots)
        hidden = self.bert.hidden(task.shown, text, settings.dropout)
        nll, _ = self.bert.nll(hidden, slots, answer, settings.label_smoothing)
        if settings.refinement:
            logits = self.bert.logits(hidden.detach()[slots.position])
            again = filled_in(task, logits, slots, self.vocabulary, generator)
            seen = self.bert.hidden(again.shown, text, settings.dropout)
            corrected, _ = self.bert.nll(seen, slots, answer, settings.label_smoothing)
            nll = nll + settings.refinement * corrected
        weight = torch.where(slots.filled, task.weight.flatten()[slots.position], 0.0)
        return (nll * weight).sum() / task.total.clamp(min=1)

    def validate(self, rows: PackedRows, objective: Objective | None = None) -> Validation:
        """Loss and accuracy on held-out rows.

        Without an objective, a causal model predicts the next token, and a masked model the
        VALIDATION_RATE of the tokens that are masked. Processes share out the rows of each batch.
        """
        compiled = self.bert.compiled
        if objective is None:
            objective = self._validation_objective()
        if compiled:
            batch_rows = self.plan.rows  # the code is compiled for the shapes of training
        else:
            batch_rows = min(self.plan.rows, MOST_VALIDATION_ROWS)
        first, stop = self.processes.rows(batch_rows)
        capacity = self._capacity(objective, stop - first, rows)
        if compiled:
            capacity = max(self.capacity, capacity)  # the shape of training, if it suffices
        sums = _Sums(self.device)
        with_gradients = compiled  # the code is compiled for gradients, too
        with one_order(self.device), torch.set_grad_enabled(with_gradients):
            if stop > first:  # with more processes than rows, some have none
                for start in range(0, len(rows.ids), batch_rows):
                    text = self._padded(rows.ids[start : start + batch_rows], batch_rows)
                    generator = torch.Generator(self.device).manual_seed(seed_for(0, start))
                    task = objective.task(text, self.vocabulary, generator)
                    self._add(text.part(first, stop), task.part(first, stop), capacity, sums)
        return sums.figures(self.processes)

    def _validation_objective(self) -> Objective:
        if self.objective.causal:
            return self.objective
        return MaskedTasks(FixedRate(VALIDATION_RATE))

    def _padded(self, ids: UInt[np.ndarray, "n L"], rows: int) -> PackedText:
        """Rows of ids, and rows of padding after them up to `rows`."""
        padded: Int[np.ndarray, "R L"] = np.full(
            (rows, ids.shape[1]), self.vocabulary.pad, np.int32
        )
        padded[: len(ids)] = ids
        return PackedText.of(torch.from_numpy(padded).to(self.device), self.vocabulary)

    def _add(self, text: PackedText, task: Task, capacity: int, sums: _Sums) -> None:
        """Add the targets of some held-out rows to the sums."""
        slots = Slots.gather(task.predicted, capacity)
        answer = _answers(task, slots)
        hidden = self.bert.hidden(task.shown, text)
        nll, hit = self.bert.nll(hidden, slots, answer)
        sums.unigram_loss -= self.log_unigram[answer[slots.filled]].sum()
        sums.loss += (nll.detach() * slots.filled).sum()
        sums.hits += (hit & slots.filled).sum()
        sums.positions += slots.filled.sum()

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs, except the number of steps done."""
        return {
            "settings": self.settings.to_dict(),
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore `state`; raises ValueError or RuntimeError if it is from another run or has
        other shapes.
        """
        if state["settings"] != self.settings.to_dict():
            raise ValueError("it belongs to a run with other settings")
        if not 0 < state["step"] <= self.settings.steps:
            raise ValueError(f"it is of step {state['step']} of {self.settings.steps}")
        # Checked here, before anything is loaded: torch takes moments of any shape.
        for optimiser, part in zip(self.optimisers, state["optimisers"], strict=True):
            groups = [group["params"] for group in optimiser.param_groups]
            parameters = list(chain.from_iterable(groups))
            for place, moments in part["state"].items():
                _refuse_other_shapes(moments, place, parameters[place].shape)
        self.model.load_state_dict(state["model"])
        for optimiser, part in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(part)


def _answers(task: Task, slots: Slots) -> Int[Tensor, " m"]:
    """The right answer at each slot's position."""
    return task.answer.flatten()[slots.position].long()


def _refuse_other_shapes(moments: dict[str, Tensor], place: int, shape: torch.Size) -> None:
    """Raise ValueError for a moment of another shape than its parameter."""
    for name, moment in moments.items():
        is_number = moment.dim() == 0  # AdamW's number of steps
        if not is_number and moment.shape != shape:
            raise ValueError(f"{name} of parameter {place} has the shape {tuple(moment.shape)}")
