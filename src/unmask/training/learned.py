"""Whether a model has learned anything: more than how frequent each token is, and, of a translation, more than one word.

    unigram loss = - mean over the validation targets x of log c(x) / N,    c: counts of the training targets, N their sum

A token of the vocabulary that training never shows counts as shown once, so that the loss is finite. A model whose validation
loss is no lower has not learned. A masked model of pairs is also asked for whole translations at once: one that has learned
nothing of its sources says the same token again and again.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.training.encoder import PackedBert
from unmask.training.layout import PackedText, Vocabulary
from unmask.training.masking import FixedRate
from unmask.training.objectives import Masked
from unmask.training.packing import PackedRows
from unmask.training.prepare import Prepared

_BLOCK = 1 << 22
ROWS = 64
"""Validation rows whose translations are looked at."""


def log_unigram(prepared: Prepared, vocabulary: Vocabulary, causal: bool) -> Float[Tensor, " V"]:
    """log c(x) / N of every token that may be asked for; -inf for the others."""
    may = _may_be_asked_for(vocabulary, causal)
    shown = np.where(may, np.maximum(_counts(prepared, vocabulary), 1), 0)
    with np.errstate(divide="ignore"):
        return torch.from_numpy(np.log(shown / shown.sum())).to(vocabulary.special.device)


def _may_be_asked_for(vocabulary: Vocabulary, causal: bool) -> Bool[np.ndarray, " V"]:
    """Regular tokens; of a causal model the end token and the unknown one, too."""
    if not causal:
        return ~vocabulary.special.cpu().numpy()
    may = np.ones(vocabulary.size, bool)
    may[[vocabulary.start, vocabulary.pad, vocabulary.mask]] = False
    return may


def _counts(prepared: Prepared, vocabulary: Vocabulary) -> Int[np.ndarray, " V"]:
    """How often an epoch has each token: of pairs, in the translations, each with its end token."""
    counts = np.zeros(vocabulary.size, np.int64)
    if prepared.pairs is not None:
        counts += np.bincount([token for target in prepared.pairs.targets for token in target], minlength=vocabulary.size)
        counts[vocabulary.end] += len(prepared.pairs.targets)
    for packed in [] if prepared.pairs is not None else prepared.packed:
        flat = packed.ids.reshape(-1)
        for first in range(0, len(flat), _BLOCK):
            counts += np.bincount(flat[first : first + _BLOCK], minlength=vocabulary.size)
    return counts


@torch.no_grad()
def stutter(bert: PackedBert, rows: PackedRows, vocabulary: Vocabulary) -> tuple[float, float]:
    """Shares of equal neighbours in translations said at once, and in the references, for the first validation rows."""
    text = PackedText.of(torch.from_numpy(rows.ids[:ROWS].astype(np.int64)).to(vocabulary.special.device), vocabulary)
    task = Masked(FixedRate(1.0)).task(text, vocabulary, torch.Generator(vocabulary.special.device).manual_seed(0))
    said = task.answer.clone()
    asked = task.asked.flatten().nonzero()[:, 0]
    hidden = bert.hidden(task.shown, text)
    for some in asked.split(1024):
        said.view(-1)[some] = bert.logits(hidden[some]).argmax(-1).to(said.dtype)
    both = task.asked[:, 1:] & task.asked[:, :-1] & (text.segment[:, 1:] == text.segment[:, :-1])
    places = max(1, int(both.sum()))
    return tuple(float((both & (ids[:, 1:] == ids[:, :-1])).sum()) / places for ids in (said, task.answer))  # type: ignore[return-value]
