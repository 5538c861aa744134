"""One step of training: the loss of a batch, its gradient, the optimisers and their learning
rate; and validation.

Everything random in step t (rows, masks, replacements) is drawn from generators seeded by
(seed, t), so the state of a run is its weights, its optimisers' states and the number of steps
done. Several processes (`processes.py`) share out the rows of a batch. Each of them draws the
masks of the whole batch and keeps those of its rows, so these do not depend on the number of
processes. Dropout and refinement draw for the process' own rows, from its own generators.

The rate rises linearly over the warm-up steps and falls by a cosine to zero at the last step.
`adamw` is the fused AdamW of torch, weight decay on matrices only. `muon` keeps AdamW for
embeddings, norms and biases, and moves each weight matrix of the layers along its
orthogonalised momentum (`torch.optim.Muon`, Jordan 2024): with M = U S V', the step is U V'
scaled by 0.2 sqrt(longer side), which gives it the root mean square of an AdamW step, so both
kinds share one rate. U V' comes from five Newton-Schulz steps on all matrices of one shape
together.

Validation has masks of one seed: equal data and seed give equal masks whatever the model, so
figures of several models compare. On another kind of device the random stream differs and with
it the masks, not their law. A model has learned if its loss is below that of the tokens'
frequencies,

    unigram loss = - mean over the validation targets x of log c(x) / N,
            c: counts of the training targets, N their sum.

A token of the vocabulary that training never shows counts as shown once, so that the loss is
finite.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import cos, pi
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from unmask.studies.training.batches import BatchPlan, seed_for
from unmask.studies.training.corpus import Prepared
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
from unmask.studies.training.packed_text import PackedText, Vocabulary
from unmask.studies.training.packing import PackedRows
from unmask.studies.training.processes import ALONE, Processes
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.start import Start, new_model

BETAS, WEIGHT_DECAY = (0.9, 0.98), 0.01
"""Of AdamW; of all matrices."""
LARGEST_NORM = 1.0
"""Of the gradient of all parameters together; a larger one is scaled down."""
LITTLE = 0.1
"""A model has learned little if its loss is within this share of the unigram loss."""
_BLOCK = 1 << 22


def rate_at(step: int, steps: int, warmup: int, peak: float) -> float:
    """The learning rate of a step, counted from 0."""
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + cos(pi * (step - warmup) / max(1, steps - warmup)))


def orthogonalise(matrices: Float[Tensor, "n rows columns"]) -> Float[Tensor, "n rows columns"]:
    """U V' of each matrix's singular value decomposition, to within the scheme's +-30 % per
    value.
    """
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return (x.mT if tall else x).to(matrices.dtype)


class StackedMuon(Muon):
    """`torch.optim.Muon` for matrices that all have gradients; those of one shape are stepped
    together.

    Torch steps them one by one: on an H200 a step of training then takes 2.0 times as long (5
    layers of width 320), or 1.7 (BERT-base).
    """

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                shapes[p.shape].append(p)
            for (rows, columns), params in shapes.items():
                grads = [p.grad for p in params if p.grad is not None]
                buffers = [
                    self.state[p].setdefault("momentum_buffer", torch.zeros_like(p)) for p in params
                ]
                torch._foreach_lerp_(buffers, grads, 1 - group["momentum"])
                ahead = torch._foreach_lerp(grads, buffers, group["momentum"])
                update = orthogonalise(torch.stack(ahead)) * (0.2 * max(rows, columns) ** 0.5)
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(params, list(update.unbind()), alpha=-group["lr"])


def make_optimisers(model: nn.Module, name: str, lr: float) -> list[Optimizer]:
    """The optimisers of a BertForMaskedLM, `muon` or `adamw`; tied weights are stepped once."""
    named = list(model.named_parameters())
    matrices = (
        [] if name == "adamw" else [p for n, p in named if p.dim() == 2 and "embeddings" not in n]
    )
    by_muon = {id(p) for p in matrices}
    decayed = [p for _, p in named if p.dim() == 2 and id(p) not in by_muon]
    rest = [p for _, p in named if p.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": WEIGHT_DECAY},
        {"params": rest, "weight_decay": 0.0},
    ]
    adamw = AdamW(groups, lr=lr, betas=BETAS, fused=True)
    return [StackedMuon(matrices, lr=lr, weight_decay=WEIGHT_DECAY), adamw] if matrices else [adamw]


class StepNumbers(NamedTuple):
    """Loss per position and norm of the gradient, both still on the device; tokens, padding
    apart.
    """

    loss: Float[Tensor, ""]
    norm: Float[Tensor, ""]
    tokens: int


@dataclass(frozen=True)
class Validation:
    """Mean -log q in nats, share of targets that are the most probable token, and how many
    targets there were.

    unigram   the loss of predicting each token by its frequency in training, without its context
    """

    loss: float
    accuracy: float
    positions: int
    unigram: float

    @property
    def learned(self) -> bool | None:
        """Whether the loss is below that of the frequencies; None without a position."""
        return self.loss < self.unigram if self.positions else None

    @property
    def doubt(self) -> str | None:
        """A phrase about a model that has learned nothing or little; None if it has learned."""
        if not self.positions:
            return "was not validated: the held-out texts are too short for a masked token"
        if self.loss < (1 - LITTLE) * self.unigram:
            return None
        verdict = "has learned little" if self.learned else "has not learned"
        return (
            f"{verdict}: validation {self.loss:.3f} nats, and the frequencies of the tokens alone"
            f" have {self.unigram:.3f}"
        )


def log_unigram(prepared: Prepared, vocabulary: Vocabulary, causal: bool) -> Float[Tensor, " V"]:
    """log c(x) / N of every token that may be asked for; -inf for the others.

    These are the regular tokens; of a causal model the end token and the unknown one, too.
    """
    may = causal | ~vocabulary.special.cpu().numpy()
    may[[vocabulary.start, vocabulary.pad, vocabulary.mask]] = False
    shown = np.where(may, np.maximum(_counts(prepared, vocabulary), 1), 0)
    with np.errstate(divide="ignore"):
        return torch.from_numpy(np.log(shown / shown.sum())).to(vocabulary.special.device)


def _counts(prepared: Prepared, vocabulary: Vocabulary) -> Int[np.ndarray, " V"]:
    """Counts of each token in an epoch; of pairs, in the translations with their end tokens."""
    if prepared.pairs is not None:
        counts = np.bincount(
            [token for target in prepared.pairs.targets for token in target],
            minlength=vocabulary.size,
        )
        counts[vocabulary.end] += len(prepared.pairs.targets)
        return counts
    counts = np.zeros(vocabulary.size, np.int64)
    ids = prepared.packed.ids.reshape(-1)
    for first in range(0, len(ids), _BLOCK):
        counts += np.bincount(ids[first : first + _BLOCK], minlength=vocabulary.size)
    return counts


class Trainer:
    """Model, optimisers and data of a run; `step(t)` makes step t."""

    def __init__(
        self,
        settings: TrainSettings,
        prepared: Prepared,
        device: torch.device,
        init: Start | None = None,
        processes: Processes = ALONE,
    ) -> None:
        self.settings, self.device, self.processes = settings, device, processes
        self.vocabulary = Vocabulary.of(prepared.tokenizer, device, settings.source_length)
        self.packed = prepared.packed
        self.plan = BatchPlan(prepared.packed, settings.batch_tokens, settings.seed)
        network = (
            init.network if init else new_model(settings, self.vocabulary.size, self.vocabulary.pad)
        )
        self.model = network.to(device)
        self.objective = objective_of(settings)
        on_gpu = device.type == "cuda"
        self.bert = PackedBert(
            self.model, torch.bfloat16 if on_gpu else torch.float32, on_gpu, self.objective.causal
        )
        self.optimisers = make_optimisers(self.model, settings.optimiser, settings.lr)
        self.loss = processes.reduced(self.model, self._loss)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        rows = -(-self.plan.rows // processes.size)
        self.slots = self.objective.slots(rows, self.packed.length, self.packed.tokens_per_segment)
        self.log_unigram = log_unigram(prepared, self.vocabulary, self.objective.causal)

    def step(self, step: int) -> StepNumbers:
        """One optimisation step."""
        with one_order(self.device):
            ids = torch.from_numpy(self.plan.batch(step))
            if self.device.type == "cuda":
                ids = ids.pin_memory().to(self.device, non_blocking=True)
            text = PackedText.of(ids, self.vocabulary)
            generator = torch.Generator(self.device).manual_seed(
                seed_for(self.settings.seed, step, 1)
            )
            if self.settings.dropout:
                torch.manual_seed(seed_for(self.settings.seed, step, 2 + self.processes.rank))
            loss = self.loss(text, generator)
            for optimiser in self.optimisers:
                optimiser.zero_grad(set_to_none=True)
            (loss * self.processes.size).backward()
            norm = torch.nn.utils.clip_grad_norm_(self.parameters, LARGEST_NORM)
            rate = rate_at(step, self.settings.steps, self.settings.warmup, self.settings.lr)
            for optimiser in self.optimisers:
                for group in optimiser.param_groups:
                    group["lr"] = rate
                optimiser.step()
            return StepNumbers(
                self.processes.total(loss.detach()), norm, round(ids.numel() * self.packed.fill)
            )

    def _loss(self, text: PackedText, generator: torch.Generator) -> Float[Tensor, ""]:
        """This process' part of the loss."""
        first, stop = self.processes.rows(len(text.ids))
        task: Task = self.objective.task(text, self.vocabulary, generator).part(first, stop)
        text = text.part(first, stop)
        if self.processes.rank:
            generator.manual_seed(generator.initial_seed() + self.processes.rank)
        slots = Slots.gather(task.predicted, self.slots)
        answer = task.answer.flatten()[slots.position].long()
        hidden = self.bert.hidden(task.shown, text, self.settings.dropout)
        nll, _ = self.bert.nll(hidden, slots, answer, self.settings.label_smoothing)
        if self.settings.refinement:
            logits = self.bert.logits(hidden.detach()[slots.position])
            again = filled_in(task, logits, slots, self.vocabulary, generator)
            seen = self.bert.hidden(again.shown, text, self.settings.dropout)
            corrected, _ = self.bert.nll(seen, slots, answer, self.settings.label_smoothing)
            nll = nll + self.settings.refinement * corrected
        return (
            nll * torch.where(slots.filled, task.weight.flatten()[slots.position], 0.0)
        ).sum() / task.total.clamp(min=1)

    def validate(self, rows: PackedRows, objective: Objective | None = None) -> Validation:
        """Loss and accuracy on held-out rows: of the next token for a causal model, else with
        15 % masked.

        Compiled code has the shapes of training. Processes share out the rows of each batch.
        """
        compiled, vocabulary = self.bert.compiled, self.vocabulary
        objective = objective or (
            self.objective if self.objective.causal else MaskedTasks(FixedRate(0.15))
        )
        batch_rows = self.plan.rows if compiled else min(self.plan.rows, 64)
        first, stop = self.processes.rows(batch_rows)
        slots = max(
            self.slots * compiled,
            objective.slots(stop - first, rows.length, rows.tokens_per_segment),
        )
        loss, hits, count, plain = (
            torch.zeros((), dtype=torch.float64, device=self.device) for _ in range(4)
        )
        with (
            one_order(self.device),
            torch.set_grad_enabled(compiled),
        ):  # with gradients, training's compiled code is used
            for start in range(0, len(rows.ids) if stop > first else 0, batch_rows):
                block = np.full((batch_rows, rows.length), vocabulary.pad, np.int32)
                part = rows.ids[start : start + batch_rows]
                block[: len(part)] = part
                text = PackedText.of(torch.from_numpy(block).to(self.device), vocabulary)
                task = objective.task(
                    text, vocabulary, torch.Generator(self.device).manual_seed(seed_for(0, start))
                )
                text, task = text.part(first, stop), task.part(first, stop)
                gathered = Slots.gather(task.predicted, slots)
                answer = task.answer.flatten()[gathered.position].long()
                nll, hit = self.bert.nll(self.bert.hidden(task.shown, text), gathered, answer)
                plain -= self.log_unigram[answer[gathered.filled]].sum()
                loss += (nll.detach() * gathered.filled).sum()
                hits += (hit & gathered.filled).sum()
                count += gathered.filled.sum()
        loss, hits, count, plain = self.processes.total(
            torch.stack([loss, hits, count, plain])
        ).unbind()
        total = max(1, int(count))
        return Validation(
            float(loss) / total, float(hits) / total, int(count), float(plain) / total
        )

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
        for optimiser, part in zip(self.optimisers, state["optimisers"], strict=True):
            parameters = [p for group in optimiser.param_groups for p in group["params"]]
            for place, moments in part["state"].items():
                for name, value in moments.items():
                    if value.dim() and value.shape != parameters[place].shape:
                        raise ValueError(
                            f"{name} of parameter {place} has the shape {tuple(value.shape)}"
                        )
        self.model.load_state_dict(state["model"])
        for optimiser, part in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(part)
