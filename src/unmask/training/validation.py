"""Validation: loss in nats and accuracy on held-out segments, where masks are drawn with masks fixed by a seed.

Equal data, scheme and seed give equal masks whatever the model, so figures of several models compare; on another kind of
device the random stream differs and with it the masks, not their law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.errors import InputError
from unmask.training.batches import seed_for
from unmask.training.encoder import PackedBert, Slots
from unmask.training.layout import PackedText, Vocabulary
from unmask.training.masking import FixedRate
from unmask.training.objectives import Masked, Objective
from unmask.training.packing import PackedRows, pack
from unmask.training.token_store import TokenPart

LITTLE = 0.1
"""The share of the loss of the frequencies that a model should be below it."""
MOST_STUTTER = 0.2
"""Equal neighbours, beyond those of the references, from which on a model of pairs has not learned."""


@dataclass(frozen=True)
class Figures:
    """Mean -log q in nats, share of targets that are the most probable token, and how many targets there were.

    unigram             the loss of saying each token by its frequency in training, whatever stands around it (see `learned`)
    stutter             of a masked model of pairs, at the end of a run: the share of equal neighbouring tokens in translations
                        that are said at once
    reference_stutter   the same of the translations that they should be
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
        """What to say of a model that has not learned, or little; None of one that has."""
        if not self.positions:
            return "was not validated: the held-out texts are too short for a masked token"
        if self._stutters:
            equal, should = f"{self.stutter:.0%}", f"{self.reference_stutter or 0.0:.0%}"
            return f"has not learned to translate: {equal} of neighbouring tokens that it says at once are equal, not {should}"
        if self.unigram is None or self.loss < (1 - LITTLE) * self.unigram:
            return None
        said = "has learned little" if self.learned else "has not learned"
        return f"{said}: validation {self.loss:.3f} nats, and the frequencies of the tokens alone have {self.unigram:.3f}"

    @property
    def _stutters(self) -> bool:
        return self.stutter is not None and self.stutter > (self.reference_stutter or 0.0) + MOST_STUTTER


def validation_rows(
    parts: Sequence[TokenPart],
    max_tokens: int,
    row_length: int,
    pad: int,
    limit: int = 1_000_000,
    advice: str = "give a --valid file or a larger --valid-share",
) -> PackedRows:
    """Held-out segments of at most `max_tokens`, packed; at most about `limit` tokens of them, from the start.

    `advice`: what helps where there is none.
    """
    kept = []
    for part in parts:
        ends = np.cumsum(part.lengths, dtype=np.int64)
        fits = (part.lengths <= max_tokens) & (ends <= limit)
        spans = zip(ends[fits] - part.lengths[fits], ends[fits], strict=True)
        kept.append(
            TokenPart(np.concatenate([np.empty(0, part.ids.dtype), *(part.ids[a:b] for a, b in spans)]), part.lengths[fits])
        )
    if not any(len(k.lengths) for k in kept):
        raise InputError(f"no held-out segment of at most {max_tokens} tokens: {advice}")
    return pack(kept, [1.0] * len(kept), [row_length], pad)[0]


def validate(
    bert: PackedBert,
    rows: PackedRows,
    vocabulary: Vocabulary,
    objective: Objective | None = None,
    seed: int = 0,
    batch_rows: int = 64,
    slots: int = 0,
    log_unigram: Tensor | None = None,
) -> Figures:
    """Figures on `rows`, with 15 % masked unless another objective is given.

    slots         the number of positions that the head computes at once, if it is to match training's shape
    log_unigram   log-frequencies of the tokens, whose loss on the same targets is Figures.unigram
    """
    objective = objective or Masked(FixedRate(0.15))
    device = vocabulary.special.device
    slots = max(slots, objective.slots(batch_rows, rows.length, rows.tokens_per_segment))
    loss, hits, count, plain = (torch.zeros((), dtype=torch.float64, device=device) for _ in range(4))
    for start in range(0, len(rows.ids), batch_rows):
        block = np.full((batch_rows, rows.length), vocabulary.pad, np.int32)
        part = rows.ids[start : start + batch_rows]
        block[: len(part)] = part
        text = PackedText.of(torch.from_numpy(block).to(device), vocabulary)
        generator = torch.Generator(device).manual_seed(seed_for(seed, start))
        task = objective.task(text, vocabulary, generator)
        gathered = Slots.gather(task.asked, slots)
        answer = task.answer.flatten()[gathered.position].long()
        with torch.set_grad_enabled(bert.compiled):  # with gradients, training's compiled code serves here too
            hidden = bert.hidden(task.shown, text)
            nll, hit = bert.nll(hidden, gathered, answer)
        if log_unigram is not None:
            plain -= log_unigram[answer[gathered.filled]].sum()
        loss += (nll.detach() * gathered.filled).sum()
        hits += (hit & gathered.filled).sum()
        count += gathered.filled.sum()
    total = max(1, int(count))
    unigram = None if log_unigram is None else float(plain) / total
    return Figures(float(loss) / total, float(hits) / total, int(count), unigram)
