"""One step of training: the loss of a batch, its gradient and the optimisers; and validation.

Everything random in step t (rows, masks, replacements) is drawn from generators seeded by
(seed, t), so the state of a run is its weights, its optimisers' states and the number of steps
done. Several processes (`processes.py`) share out the rows of a batch. Each of them draws the
masks of the whole batch and keeps those of its rows, so these do not depend on the number of
processes. Dropout and refinement draw for the process' own rows, from its own generators.

Validation has masks of one seed: equal data and seed give equal masks whatever the model, so
figures of several models compare. On another kind of device the random stream differs and with
it the masks, not their law.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt
from torch import Tensor

from unmask.studies.training.batches import BatchPlan, seed_for
from unmask.studies.training.corpus import TrainingData
from unmask.studies.training.encoder import PackedBert, Slots
from unmask.studies.training.fixed_order import one_order
from unmask.studies.training.objectives import (
    FixedRate,
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
"""Of the gradient of all parameters together; a larger one is scaled down."""
VALIDATION_RATE = 0.15
"""Share of held-out tokens that are masked."""
MOST_VALIDATION_ROWS = 64  # at once, without compiled code


class StepNumbers(NamedTuple):
    """Numbers of a step.

    loss     per position, still on the device
    norm     of the gradient, still on the device
    tokens   of the batch, without padding
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
        self.vocabulary = Vocabulary.of(prepared.tokenizer, device, settings.source_length)
        self.packed = prepared.packed
        self.plan = BatchPlan(prepared.packed, settings.batch_tokens, settings.seed)
        if init is None:
            network = new_model(settings, self.vocabulary.size, self.vocabulary.pad)
        else:
            network = init.network
        self.model = network.to(device)
        self.objective = objective_of(settings)
        on_gpu = device.type == "cuda"
        self.bert = PackedBert(
            self.model,
            dtype=torch.bfloat16 if on_gpu else torch.float32,
            compile=on_gpu,
            causal=self.objective.causal,
        )
        self.optimisers = make_optimisers(self.model, settings.optimiser, settings.lr)
        self.loss = processes.reduced(self.model, self._loss)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        most_rows = -(-self.plan.rows // processes.size)  # of one process, rounded up
        self.slots = self._slots(self.objective, most_rows, self.packed)
        self.log_unigram = log_unigram(prepared, self.vocabulary, self.objective.causal)

    def _slots(self, objective: Objective, rows: int, packed: PackedRows) -> int:
        """Slots for the targets of `rows` of the packed rows."""
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
            generator.manual_seed(seed_for(settings.seed, step, 1))
            if settings.dropout:
                torch.manual_seed(seed_for(settings.seed, step, 2 + self.processes.rank))
            loss = self.loss(text, generator)
            for optimiser in self.optimisers:
                optimiser.zero_grad(set_to_none=True)
            # The gradients of N processes are averaged; N times as large, they are the loss'.
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
        """This process' part of the loss: a sum over its rows, by the divisor of the whole batch.

        `text` is the whole batch.
        """
        settings = self.settings
        first, stop = self.processes.rows(len(text.ids))
        task: Task = self.objective.task(text, self.vocabulary, generator).part(first, stop)
        text = text.part(first, stop)
        if self.processes.rank:  # refinement draws for the rows of this process alone
            generator.manual_seed(generator.initial_seed() + self.processes.rank)
        slots = Slots.gather(task.predicted, self.slots)
        answer = task.answer.flatten()[slots.position].long()
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

        Without an objective, of the next token for a causal model, else with 15 % masked. Processes
        share out the rows of each batch.
        """
        compiled = self.bert.compiled  # for the shapes of training, and for gradients
        if objective is None:
            objective = self._validation_objective()
        batch_rows = self.plan.rows if compiled else min(self.plan.rows, MOST_VALIDATION_ROWS)
        first, stop = self.processes.rows(batch_rows)
        slots = self._slots(objective, stop - first, rows)
        if compiled:
            slots = max(self.slots, slots)
        sums = _Sums(self.device)
        with one_order(self.device), torch.set_grad_enabled(compiled):
            if stop > first:
                for start in range(0, len(rows.ids), batch_rows):
                    text = self._padded(rows.ids[start : start + batch_rows], batch_rows)
                    generator = torch.Generator(self.device).manual_seed(seed_for(0, start))
                    task = objective.task(text, self.vocabulary, generator)
                    self._add(text.part(first, stop), task.part(first, stop), slots, sums)
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

    def _add(self, text: PackedText, task: Task, slots: int, sums: _Sums) -> None:
        """Add the targets of some held-out rows to the sums."""
        gathered = Slots.gather(task.predicted, slots)
        answer = task.answer.flatten()[gathered.position].long()
        nll, hit = self.bert.nll(self.bert.hidden(task.shown, text), gathered, answer)
        sums.unigram_loss -= self.log_unigram[answer[gathered.filled]].sum()
        sums.loss += (nll.detach() * gathered.filled).sum()
        sums.hits += (hit & gathered.filled).sum()
        sums.positions += gathered.filled.sum()

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


def _refuse_other_shapes(moments: dict[str, Tensor], place: int, shape: torch.Size) -> None:
    """Raise ValueError for a moment of another shape than its parameter, steps apart."""
    for name, moment in moments.items():
        if moment.dim() and moment.shape != shape:  # AdamW's number of steps has no axis
            raise ValueError(f"{name} of parameter {place} has the shape {tuple(moment.shape)}")
