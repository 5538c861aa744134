"""Whether a model has learned: its loss on held-out texts, and that of the tokens' frequencies.

A model has learned if its loss is below that of the tokens' frequencies,

    unigram loss = - mean over the validation targets x of log c(x) / N,
            c: counts of the training targets, N their sum.

A token of the vocabulary that training never shows counts as shown once, so that the loss is
finite.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.studies.training.corpus import PairTokens, TrainingData
from unmask.studies.training.packed_text import Vocabulary
from unmask.studies.training.packing import PackedRows

LITTLE = 0.1
"""A model has learned little if its loss is within this share of the unigram loss."""
TOKENS_AT_ONCE = 1 << 22  # counted together, which bounds the copy that counting makes


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


def log_unigram(
    prepared: TrainingData, vocabulary: Vocabulary, causal: bool
) -> Float[Tensor, " V"]:
    """log c(x) / N of every token that may be a target; -inf for the others.

    These are the regular tokens; of a causal model the end token and the unknown one, too.
    """
    if causal:
        may_be_target = np.ones(vocabulary.size, dtype=bool)
    else:
        may_be_target = ~vocabulary.special.cpu().numpy()
    may_be_target[[vocabulary.start, vocabulary.pad, vocabulary.mask]] = False
    if prepared.pairs is None:
        counts = _counts_of_rows(prepared.packed, vocabulary)
    else:
        counts = _counts_of_translations(prepared.pairs, vocabulary)
    at_least_once = np.where(may_be_target, np.maximum(counts, 1), 0)
    with np.errstate(divide="ignore"):  # log 0 is -inf
        log_share = np.log(at_least_once / at_least_once.sum())
    return torch.from_numpy(log_share).to(vocabulary.special.device)


def _counts_of_rows(packed: PackedRows, vocabulary: Vocabulary) -> Int[np.ndarray, " V"]:
    """How often an epoch shows each token."""
    counts = np.zeros(vocabulary.size, np.int64)
    ids = packed.ids.reshape(-1)
    for first in range(0, len(ids), TOKENS_AT_ONCE):
        counts += np.bincount(ids[first : first + TOKENS_AT_ONCE], minlength=vocabulary.size)
    return counts


def _counts_of_translations(pairs: PairTokens, vocabulary: Vocabulary) -> Int[np.ndarray, " V"]:
    """How often an epoch shows each token in translations, with their end tokens."""
    tokens = list(chain.from_iterable(pairs.targets))
    counts = np.bincount(tokens, minlength=vocabulary.size)
    counts[vocabulary.end] += len(pairs.targets)
    return counts
