"""Disentangled attention: scores that depend on contents and on the distance between them (DeBERTa).

    score_ij = (q_i . k_j + q_i . P_(i-j) + k_j . R_(i-j)) / sqrt(parts e)

with P = W_k' D and R = W_q' D for a table D of distances, far ones in buckets; `parts` counts the terms that a network has.
A text of T tokens has 2T - 1 distances. The products q_i . P_d with all of them are line i of a matrix. That of (i, j) lies one
column further left on each line, so the term of all pairs is the same memory read with another step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Relative:
    """D, its norm, the maps that make P and R of it (None: the network has no such term), and the buckets of distances."""

    table: nn.Embedding
    norm: nn.Module | None
    key: nn.Linear | None
    query: nn.Linear | None
    bucket: Callable[[Tensor], Tensor]
    span: int

    def scale(self, width: int) -> float:
        """What scores are multiplied by, with the root in float32 as the network has it."""
        parts = 1 + (self.key is not None) + (self.query is not None)
        return 1 / float(torch.sqrt(torch.tensor(width, dtype=torch.float32) * parts))

    def terms(
        self, queries: Float[Tensor, "n T d"], keys: Float[Tensor, "n T d"], heads: int
    ) -> tuple[Float[Tensor, "h n T u"], Float[Tensor, "h n T u"]]:
        """q_i . P_(i-j), columns by j - i, and k_j . R_(i-j), columns by i - j, not scaled."""
        distances, length = self._distances(keys.shape[1], keys), keys.shape[1]
        found = []
        for x, linear, rows in ((queries, self.key, distances.flip(0)), (keys, self.query, distances)):
            if linear is None:
                found.append(x.new_zeros(()).expand(heads, len(x), length, len(rows)))
                continue
            table = linear(rows).unflatten(-1, (heads, -1)).permute(1, 2, 0)
            per_head = x.flatten(0, 1).unflatten(-1, (heads, -1)).transpose(0, 1)
            found.append(torch.bmm(per_head, table).unflatten(1, (-1, length)))
        return found[0], found[1]

    def bias(self, queries: Float[Tensor, "n T d"], keys: Float[Tensor, "n T d"], heads: int) -> Float[Tensor, "n h T T"]:
        """The scaled terms of all pairs (i, j)."""
        by_query, by_key = (skewed(term) for term in self.terms(queries, keys, heads))
        total = by_query + by_key.transpose(2, 3)
        return total.transpose(0, 1).mul_(self.scale(queries.shape[2] // heads))

    def of_one(
        self, query: Float[Tensor, "n d"], keys: Float[Tensor, "n T d"], places: Int[Tensor, " n"], heads: int
    ) -> Float[Tensor, "n h T"]:
        """The scaled terms of the tokens at `places` with all keys."""
        length = keys.shape[1]
        columns = places[:, None] - torch.arange(length, device=keys.device) + length - 1
        distances, total = self._distances(length, keys), keys.new_zeros(())
        if self.key is not None:
            table = self.key(distances).unflatten(-1, (heads, -1)).permute(1, 2, 0)
            all_of_them = torch.bmm(query.unflatten(-1, (heads, -1)).transpose(0, 1), table).transpose(0, 1)
            total = total + all_of_them.gather(2, columns[:, None].expand(-1, heads, -1))
        if self.query is not None:
            product = keys * functional.embedding(columns, self.query(distances))
            total = total + product.unflatten(-1, (heads, -1)).sum(-1).transpose(1, 2)
        return total * self.scale(keys.shape[2] // heads)

    def _distances(self, length: int, like: Tensor) -> Float[Tensor, "u d"]:
        """D at distances from 1 - T to T - 1."""
        rows: Tensor = self.table(_rows(self.bucket, self.span, length, like.device))
        return rows if self.norm is None else self.norm(rows)


@lru_cache(1024)
def _rows(bucket: Callable[[Tensor], Tensor], span: int, length: int, device: torch.device) -> Int[Tensor, " u"]:
    steps = bucket(torch.arange(1 - length, length)).long()
    return (steps + span).clamp(0, 2 * span - 1).to(device)


def skewed(term: Float[Tensor, "h n T u"]) -> Float[Tensor, "h n T T"]:
    """[i, j] of columns that are numbered by j - i."""
    heads, n, length, columns = term.shape
    if term.stride(-1) == 0:
        return term[..., :length]
    term = term.contiguous()
    steps = (n * length * columns, length * columns, columns - 1, 1)
    return term.as_strided((heads, n, length, length), steps, term.storage_offset() + length - 1)
