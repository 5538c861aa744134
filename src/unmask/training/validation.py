"""Validation: loss in nats and accuracy on held-out segments, and whether the model has learned anything.

A seed fixes the masks: equal data, scheme and seed give equal masks whatever the model, so figures of several models compare.
On another kind of device the random stream differs and with it the masks, not their law.

A model has learned if its loss is below that of the tokens' frequencies,

    unigram loss = - mean over the validation targets x of log c(x) / N,    c: counts of the training targets, N their sum.

A token of the vocabulary that training never shows counts as shown once, so that the loss is finite. A masked model of pairs is
also asked for whole translations: one that has learned nothing of its sources repeats the same token again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.training.corpus import Prepared
from unmask.training.encoder import PackedBert, Slots
from unmask.training.masking import FixedRate
from unmask.training.objectives import MaskedTasks, Objective
from unmask.training.packing import PackedRows, PackedText, Vocabulary, seed_for
from unmask.training.processes import ALONE, Processes

LITTLE = 0.1
"""A model has learned little if its loss is within this share of the unigram loss."""
MOST_STUTTER = 0.2
"""A model of pairs with more equal neighbours than this, beyond those of the references, has not learned."""
_BLOCK = 1 << 22
ROWS = 64
"""Validation rows whose translations `stutter` reads."""
STEPS = 4
"""Steps that they are made in: in one step a model stutters where it knows a word but not its place."""


@dataclass(frozen=True)
class Validation:
    """Mean -log q in nats, share of targets that are the most probable token, and how many targets there were.

    unigram             the loss of predicting each token by its frequency in training, without its context
    stutter             of a masked model of pairs, at the end of a run: the share of equal neighbouring tokens in translations
                        made in STEPS steps
    reference_stutter   the same share in the reference translations
    """

    loss: float
    accuracy: float
    positions: int
    unigram: float | None = None
    stutter: float | None = None
    reference_stutter: float | None = None

    @property
    def learned(self) -> bool | None:
        """Whether the loss is below that of the frequencies, and a model of pairs does not stutter; None without a position."""
        if not self.positions:
            return None
        return (self.unigram is None or self.loss < self.unigram) and not self._stutters

    @property
    def doubt(self) -> str | None:
        """A phrase about a model that has learned nothing or little; None if it has learned."""
        if not self.positions:
            return "was not validated: the held-out texts are too short for a masked token"
        if self._stutters:
            own, reference = f"{self.stutter:.0%}", f"{self.reference_stutter or 0.0:.0%}"
            return f"has not learned to translate: {own} of neighbouring tokens in its translations are equal, not {reference}"
        if self.unigram is None or self.loss < (1 - LITTLE) * self.unigram:
            return None
        verdict = "has learned little" if self.learned else "has not learned"
        return f"{verdict}: validation {self.loss:.3f} nats, and the frequencies of the tokens alone have {self.unigram:.3f}"

    @property
    def _stutters(self) -> bool:
        return self.stutter is not None and self.stutter > (self.reference_stutter or 0.0) + MOST_STUTTER


def validate(
    bert: PackedBert,
    rows: PackedRows,
    vocabulary: Vocabulary,
    objective: Objective | None = None,
    seed: int = 0,
    batch_rows: int = 64,
    slots: int = 0,
    log_unigram: Tensor | None = None,
    processes: Processes = ALONE,
) -> Validation:
    """Validation on `rows`, with 15 % masked unless another objective is given.

    slots         the number of positions that the head computes at once, if it is to match training's shape
    log_unigram   log-frequencies of the tokens, whose loss on the same targets is Validation.unigram
    processes     share out the rows of each batch
    """
    objective = objective or MaskedTasks(FixedRate(0.15))
    device = vocabulary.special.device
    first, stop = processes.rows(batch_rows)
    slots = max(slots, objective.slots(stop - first, rows.length, rows.tokens_per_segment))
    loss, hits, count, plain = (torch.zeros((), dtype=torch.float64, device=device) for _ in range(4))
    for start in range(0, len(rows.ids) if stop > first else 0, batch_rows):
        block = np.full((batch_rows, rows.length), vocabulary.pad, np.int32)
        part = rows.ids[start : start + batch_rows]
        block[: len(part)] = part
        text = PackedText.of(torch.from_numpy(block).to(device), vocabulary)
        generator = torch.Generator(device).manual_seed(seed_for(seed, start))
        task = objective.task(text, vocabulary, generator)
        text, task = text.part(first, stop), task.part(first, stop)
        gathered = Slots.gather(task.asked, slots)
        answer = task.answer.flatten()[gathered.position].long()
        with torch.set_grad_enabled(bert.compiled):  # with gradients, training's compiled code is used here too
            hidden = bert.hidden(task.shown, text)
            nll, hit = bert.nll(hidden, gathered, answer)
        if log_unigram is not None:
            plain -= log_unigram[answer[gathered.filled]].sum()
        loss += (nll.detach() * gathered.filled).sum()
        hits += (hit & gathered.filled).sum()
        count += gathered.filled.sum()
    loss, hits, count, plain = processes.total(torch.stack([loss, hits, count, plain])).unbind()
    total = max(1, int(count))
    unigram = None if log_unigram is None else float(plain) / total
    return Validation(float(loss) / total, float(hits) / total, int(count), unigram)


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
        counts = np.bincount([token for target in prepared.pairs.targets for token in target], minlength=vocabulary.size)
        counts[vocabulary.end] += len(prepared.pairs.targets)
        return counts
    counts = np.zeros(vocabulary.size, np.int64)
    ids = prepared.packed.ids.reshape(-1)
    for first in range(0, len(ids), _BLOCK):
        counts += np.bincount(ids[first : first + _BLOCK], minlength=vocabulary.size)
    return counts


@torch.no_grad()
def stutter(bert: PackedBert, rows: PackedRows, vocabulary: Vocabulary) -> tuple[float, float]:
    """Shares of equal neighbours in translations, and in the references, for the first validation rows.

    Translations have the references' lengths and are made by mask-predict: each of the STEPS steps predicts all masked tokens,
    and then masks those of all that had the lowest probabilities, fewer each time.
    """
    text = PackedText.of(torch.from_numpy(rows.ids[:ROWS].astype(np.int64)).to(vocabulary.special.device), vocabulary)
    task = MaskedTasks(FixedRate(1.0)).task(text, vocabulary, torch.Generator(vocabulary.special.device).manual_seed(0))
    made, sure = task.answer.clone(), torch.zeros(task.asked.shape, device=task.asked.device)
    masked, shown = task.asked, task.shown
    for left in range(STEPS - 1, -1, -1):
        hidden = bert.hidden(shown, text)
        for some in masked.flatten().nonzero()[:, 0].split(1024):
            found = bert.logits(hidden[some]).float().log_softmax(-1).max(-1)
            made.view(-1)[some], sure.view(-1)[some] = found.indices.to(made.dtype), found.values
        masked = task.asked & (text.rank(sure, task.asked) * STEPS < text.count(task.asked) * left)
        shown = torch.where(masked, vocabulary.mask, torch.where(task.asked, made, task.shown))
    both = task.asked[:, 1:] & task.asked[:, :-1] & (text.segment[:, 1:] == text.segment[:, :-1])
    places = max(1, int(both.sum()))
    return tuple(float((both & (ids[:, 1:] == ids[:, :-1])).sum()) / places for ids in (made, task.answer))  # type: ignore[return-value]
