"""Validation: loss in nats and accuracy on held-out segments, where masks are drawn with masks fixed by a seed.

Equal data, scheme and seed give equal masks whatever the model, so figures of several models compare; on another kind of
device the random stream differs and with it the masks, not their law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from unmask.errors import InputError
from unmask.training.batches import seed_for
from unmask.training.encoder import PackedBert, Slots
from unmask.training.layout import PackedText, Vocabulary
from unmask.training.masking import FixedRate
from unmask.training.objectives import Masked, Objective
from unmask.training.packing import PackedRows, pack
from unmask.training.token_store import TokenPart


@dataclass(frozen=True)
class Figures:
    """Mean -log q in nats, share of targets that are the most probable token, and how many targets there were."""

    loss: float
    accuracy: float
    positions: int


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
) -> Figures:
    """Figures on `rows`, with 15 % masked unless another objective is given.

    slots   the number of positions that the head computes at once, if it is to match training's shape
    """
    objective = objective or Masked(FixedRate(0.15))
    device = vocabulary.special.device
    slots = max(slots, objective.slots(batch_rows, rows.length, rows.tokens_per_segment))
    loss, hits, count = (torch.zeros((), dtype=torch.float64, device=device) for _ in range(3))
    for start in range(0, len(rows.ids), batch_rows):
        block = np.full((batch_rows, rows.length), vocabulary.pad, np.int32)
        part = rows.ids[start : start + batch_rows]
        block[: len(part)] = part
        text = PackedText.of(torch.from_numpy(block).to(device), vocabulary)
        generator = torch.Generator(device).manual_seed(seed_for(seed, start))
        task = objective.task(text, vocabulary, generator)
        gathered = Slots.gather(task.asked, slots)
        with torch.set_grad_enabled(bert.compiled):  # with gradients, training's compiled code serves here too
            hidden = bert.hidden(task.shown, text)
            nll, hit = bert.nll(hidden, gathered, task.answer.flatten()[gathered.position].long())
        loss += (nll.detach() * gathered.filled).sum()
        hits += (hit & gathered.filled).sum()
        count += gathered.filled.sum()
    total = max(1, int(count))
    return Figures(float(loss) / total, float(hits) / total, int(count))
