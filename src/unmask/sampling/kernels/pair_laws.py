"""The derived joints of many pairs at once: one pair of positions in each of n texts.

Both tables of every text, over its own candidates, come from passes that all texts share, stay on the model's device, and are
solved side by side (`unmask.joints.deriving.derive_blocks`): texts with as many candidates share every operation, and no text's
numbers depend on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.joints.deriving import derive_blocks
from unmask.sampling.engine.passes import Passes
from unmask.tables.unary import Tables, alike

ROWS_AT_ONCE = 2048
"""Rows of logits that are held at once."""


class PairLaws(NamedTuple):
    """log mu of each text over its candidates, padded to one shape: tokens with -1, cells with -inf.

    sizes   how many candidates each of the two positions has
    """

    first: Int[Tensor, "n a"]
    second: Int[Tensor, "n b"]
    log_mu: Float[Tensor, "n a b"]
    sizes: Int[Tensor, "n 2"]

    @property
    def passes(self) -> Int[Tensor, " n"]:
        """Passes that each text's tables took."""
        return self.sizes.sum(1)


def pair_laws(
    passes: Passes,
    masked: Int[Tensor, "n T"],
    positions: Int[Tensor, "n 2"],
    logits: Float[Tensor, "n 2 V"],
    log_weights: Float[Tensor, "n 2 V"],
    candidates: int,
    construction: str,
) -> PairLaws:
    """mu of the pair of each text, over the likeliest `candidates` tokens of `log_weights`; its finite cells are the support.

    masked   the texts with their pair masked;   logits   the model's at the pair
    """
    support = log_weights > -torch.inf
    best = log_weights.topk(min(candidates, log_weights.shape[2]), -1)
    possible = best.values > -torch.inf
    tokens = torch.where(possible, best.indices, log_weights.shape[2]).sort(-1).values
    sizes = possible.sum(-1)
    listed = sizes.tolist()
    first, second = (torch.full((len(listed), max(column)), -1, device=masked.device) for column in zip(*listed, strict=True))
    log_mu = torch.full((*first.shape, second.shape[1]), -torch.inf, dtype=torch.float64, device=masked.device)
    for members in alike(listed, tuple):
        a, b = listed[members[0]]
        rows = torch.tensor(members, device=masked.device)
        axes = tokens[rows, 0, :a], tokens[rows, 1, :b]
        tables = _tables(passes, masked[rows], positions[rows], logits[rows], support[rows], axes)
        first[rows, :a], second[rows, :b] = axes
        log_mu[rows, :a, :b] = torch.stack([joint.dense() for (joint,) in derive_blocks(tables, [construction])])
    return PairLaws(first, second, log_mu, sizes)


def _tables(
    passes: Passes,
    masked: Int[Tensor, "n T"],
    positions: Int[Tensor, "n 2"],
    logits: Float[Tensor, "n 2 V"],
    support: Bool[Tensor, "n 2 V"],
    axes: tuple[Int[Tensor, "n a"], Int[Tensor, "n b"]],
) -> list[Tables]:
    """The tables of each text, with as many candidates in all of them."""
    first, second = (_conditionals(passes, masked, positions, support[:, t], axes, t) for t in range(2))
    log_m = [torch.where(support, logits.double(), -torch.inf)[:, t].log_softmax(-1).gather(1, axes[t]) for t in range(2)]
    inside = torch.stack([m.logsumexp(-1) for m in log_m], 1).tolist()
    log_m = [m.log_softmax(-1) for m in log_m]
    by_column = [part.transpose(1, 2) for part in first]
    return [
        Tables(
            candidates=(axes[0][i], axes[1][i]),
            log_q=(by_column[0][i], second[0][i]),
            log_inside=(by_column[1][i], second[1][i]),
            log_total=(by_column[2][i], second[2][i]),
            log_masked=(log_m[0][i], log_m[1][i]),
            log_masked_inside=tuple(inside[i]),
        )
        for i in range(len(masked))
    ]


def _conditionals(
    passes: Passes,
    masked: Int[Tensor, "n T"],
    positions: Int[Tensor, "n 2"],
    support: Bool[Tensor, "n V"],
    axes: Sequence[Int[Tensor, "n _"]],
    t: int,
) -> tuple[Float[Tensor, "n o c"], Float[Tensor, "n o 1"], Float[Tensor, "n o 1"]]:
    """Of position t given each candidate of the other: log q within its candidates, their log mass, their logits' total."""
    other, n, count = axes[1 - t], len(masked), axes[1 - t].shape[1]
    where = positions[:, 1 - t].reshape(n, 1, 1).expand(-1, count, -1)
    texts = masked.unsqueeze(1).repeat(1, count, 1).scatter(2, where, other.unsqueeze(2)).flatten(0, 1)
    predict, wanted = (value.repeat_interleave(count, 0) for value in (positions[:, t : t + 1], axes[t]))
    text = torch.arange(n, device=masked.device).repeat_interleave(count)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, len(texts), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        logits = torch.where(support[text[part]], passes.logits(texts[part], predict[part])[:, 0].double(), -torch.inf)
        log_p = logits.log_softmax(-1)
        total = logits.amax(-1, keepdim=True) - log_p.amax(-1, keepdim=True)
        chosen = log_p.gather(1, wanted[part])
        mass = chosen.logsumexp(-1, keepdim=True)
        parts.append((chosen - mass, mass, total + mass))
    log_q, mass, total = (torch.cat(column).unflatten(0, (n, count)) for column in zip(*parts, strict=True))
    return log_q, mass, total
