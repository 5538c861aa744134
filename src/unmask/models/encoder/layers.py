"""One layer of an encoder: its modules, and every computation with them.

    norm after   a = N(h + W_o attention(h)),       h' = N'(a + F(a))
    norm before  s = r + W_o attention(h),  a = N(s),       r' = s + F(a),  h' = N'(r')

with F(a) = W_2 act(W_1 a), or gated, W_2 (act(G a) * U a). A network with norms before is written here with each norm at the end
of the half that makes its argument, so N' is the next layer's, or the network's last. Both kinds are then one computation on a
`Stream` (r, h): what is added to, and what is read. With norms after, both are the same.

A layer runs at every token, at some of them, at one of each text, or at new tokens that attend to a cache of keys and values.
It does so by fused operations, if there are any (oneDNN on a CPU, Triton on a GPU), or by torch's plain ones: the reference
that the fused ones are checked against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.encoder.fused_linear import MANY, gated, half_precision_on_gpu, linear_plus, linear_then, rows_of

KINDS = (16, 32, 64)
SHORT = KINDS[-1]
"""Texts of at most SHORT tokens have their own attention on a GPU; KINDS: the lengths that it is compiled for."""
HEAD_WIDTHS = (16, 32, 64, 128)
"""The widths of a head for which it works."""


class Stream(NamedTuple):
    """The sum that a layer adds to, and what it reads; one tensor in a network that has its norms after."""

    total: Tensor
    normed: Tensor


class Turn(NamedTuple):
    """Rotary positions: cosine and sine of the angles by which each token's queries and keys are turned."""

    cos: Float[Tensor, "*t e"]
    sin: Float[Tensor, "*t e"]


@dataclass(frozen=True)
class Rotary:
    """Angles: position times the frequencies that `module` keeps under `name`.

    `narrow`: the network rounds float64 queries and keys to float32 before it turns them; `early`: it scales queries before that.
    """

    module: Any
    name: str
    narrow: bool = False
    early: bool = False

    def turn(self, positions: Int[Tensor, " t"], dtype: torch.dtype) -> Turn:
        """The turn of each position."""
        frequencies = getattr(self.module, self.name).to(positions.device, torch.float32)
        scaling = getattr(self.module, self.name.replace("inv_freq", "attention_scaling"), 1.0)
        angles = (positions[:, None].float() * frequencies).repeat(1, 2)
        return Turn((angles.cos() * scaling).to(dtype), (angles.sin() * scaling).to(dtype))


@dataclass(frozen=True)
class Relative:
    """Disentangled attention: scores that depend on contents and on the distance between them (DeBERTa).

        score_ij = (q_i . k_j + q_i . P_(i-j) + k_j . R_(i-j)) / sqrt(parts e)

    with P = W_k' D and R = W_q' D for a table D of distances, far ones in buckets; `parts` counts the terms that a network has.
    A text of T tokens has 2T - 1 distances. The products q_i . P_d with all of them are line i of a matrix. That of (i, j) lies
    one column further left on each line, so the term of all pairs is the same memory read with another step.

    table, norm   D, and what it is read through
    key, query    the maps that make P and R of it; None: the network has no such term
    """

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


@dataclass(frozen=True)
class Layer:
    """One layer's modules, and how they are put together.

    projections  queries, keys, values; or one module for all three
    inner        W_1; or, if `gates`, G and U, or one module for both
    window       the largest distance that attention spans, if any
    shrink       what both halves are divided by before they are added
    """

    projections: tuple[nn.Linear, ...]
    attention_out: nn.Linear
    attention_norm: nn.Module
    inner: tuple[nn.Linear, ...]
    activation: Callable[[Tensor], Tensor]
    outer: nn.Linear
    norm: nn.Module
    heads: int
    gates: bool = False
    before: bool = False
    rotary: Rotary | None = None
    window: int | None = None
    key_norms: tuple[nn.Module, nn.Module] | None = None
    relative: Relative | None = None
    shrink: float = 1.0
    fused: bool = True

    def __call__(self, stream: Stream, seen: Bool[Tensor, "n T"] | None = None, turn: Turn | None = None) -> Stream:
        """The stream after this layer at every token; each attends to the tokens that are `seen`."""
        return self.after_attention(stream, self.attend(*self.project(stream.normed), seen, turn))

    def project(self, normed: Float[Tensor, "n t d"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, not turned."""
        found = [linear_plus(part, normed, fused=self.fused) for part in self.projections]
        query, key, value = found if len(found) == 3 else found[0].chunk(3, -1)
        return (query, key, value) if self.key_norms is None else (self.key_norms[0](query), self.key_norms[1](key), value)

    def attend(
        self,
        queries: Float[Tensor, "n t d"],
        keys: Float[Tensor, "n T k"],
        values: Float[Tensor, "n T k"],
        seen: Bool[Tensor, "n T"] | None = None,
        turn: Turn | None = None,
    ) -> Float[Tensor, "n t d"]:
        """softmax(Q K^T / sqrt(e)) V per head, over the keys that are `seen` and within the window."""
        length, window = keys.shape[1], self.window if self.window is not None and self.window < keys.shape[1] - 1 else None
        width, scale = queries.shape[2] // self.heads, None
        programs = self.fused and seen is None and half_precision_on_gpu(queries) and width in HEAD_WIDTHS
        if programs and length <= SHORT:
            from unmask.models.encoder.triton_programs import short_attention

            return short_attention(queries, keys, values, self.heads, turn, window, self.relative)
        if turn is not None:
            if self._early(queries):
                queries, scale = queries * width**-0.5, 1.0
            queries, keys = self._turned(queries, turn), self._turned(keys, turn)
        if programs and (window is not None or self.relative is not None):
            from unmask.models.encoder.triton_programs import long_attention

            return long_attention(queries, keys, values, self.heads, window, self.relative)
        query, key, value = (x.unflatten(-1, (-1, width)).transpose(1, 2) for x in (queries, keys, values))
        if key.shape[1] < self.heads:
            key, value = (x.repeat_interleave(self.heads // x.shape[1], 1) for x in (key, value))
        mask = None if seen is None else seen[:, None, None, :]
        if window is not None:
            places = torch.arange(length, device=keys.device)
            near = (places[:, None] - places).abs() <= window
            mask = near if mask is None else mask & near
        if self.relative is not None:
            bias, scale = self.relative.bias(queries, keys, self.heads), self.relative.scale(width)
            mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        return functional.scaled_dot_product_attention(query, key, value, mask, scale=scale).transpose(1, 2).flatten(2)

    def at(
        self,
        stream: Stream,
        positions: Int[Tensor, "n p"],
        seen: Bool[Tensor, "n T"] | None = None,
        turn: Turn | None = None,
    ) -> Float[Tensor, "n p d"]:
        """What comes after this layer at some positions of each row; the feed-forward runs there only."""
        mixed = self.attend(*self.project(stream.normed), seen, turn)
        at = (torch.arange(len(positions), device=positions.device)[:, None], positions)
        return self.after_attention(self._there(stream, at), mixed[at]).normed

    def at_one(
        self,
        stream: Stream,
        places: Int[Tensor, " n"],
        seen: Bool[Tensor, "n T"] | None = None,
        turn: Turn | None = None,
    ) -> Float[Tensor, "n d"]:
        """What comes after this layer at one token of each row; no values are formed, and no keys if positions do not turn them.

        With q = W_q h at that token, per head,

            q . (W_k h_j + b_k) = (W_k^T q) . h_j + constant,      sum_j w_j (W_v h_j + b_v) = W_v (sum_j w_j h_j) + b_v.

        The constant drops out of the softmax and the weights w sum to 1, so 2 T d^2 multiplications become 2 d^2 + 2 T d heads.
        """
        here = self._there(stream, (torch.arange(len(places), device=places.device), places))
        scores = self._scores(stream.normed, here.normed, places, turn)
        if self.window is not None and self.window < scores.shape[-1] - 1:
            near = (torch.arange(scores.shape[-1], device=places.device) - places[:, None]).abs() <= self.window
            seen = near if seen is None else seen & near
        weights = (scores if seen is None else scores.masked_fill(~seen.unsqueeze(1), -torch.inf)).softmax(-1)
        mixed = torch.bmm(weights, stream.normed).transpose(0, 1)
        weight, bias = rows_of(self.projections, 2)
        out = torch.bmm(mixed, self._per_head(weight).transpose(1, 2)).transpose(0, 1).flatten(1)
        if bias is not None:
            out = out + self._per_head(bias).flatten()
        return self.after_attention(here, out).normed

    def after_attention(self, stream: Stream, mixed: Float[Tensor, "*n d"]) -> Stream:
        """The rest of the layer, on any number of tokens: output projection, feed-forward, and their norms."""
        attended = self._added(self.attention_norm, self.attention_out, mixed, stream.total)
        if self.gates:
            inner = gated(self.inner, self.activation, attended.normed, self.fused)
        else:
            inner = linear_then(self.inner[0], self.activation, attended.normed, self.fused)
        return self._added(self.norm, self.outer, inner, attended.total)

    def launches(self) -> list[Callable[[], object]]:
        """One of each operation for which a GPU may have to compile a program."""
        weight = self.attention_out.weight
        texts = [torch.zeros((1, length, len(weight)), dtype=weight.dtype, device=weight.device) for length in KINDS]
        many = Stream(texts[0][:, 0].expand(MANY, -1), texts[0][:, 0].expand(MANY, -1))
        turns = [
            None if self.rotary is None else self.rotary.turn(torch.arange(len(x[0]), device=x.device), x.dtype) for x in texts
        ]
        return [
            *(partial(self, Stream(x, x), None, turn) for x, turn in zip(texts, turns, strict=True)),
            partial(self.after_attention, many, many.normed.new_zeros(MANY, self.attention_out.in_features)),
        ]

    def _scores(
        self, states: Float[Tensor, "n T d"], here: Float[Tensor, "n d"], places: Int[Tensor, " n"], turn: Turn | None
    ) -> Float[Tensor, "n h T"]:
        """Of one token's queries with the keys of all."""
        query = functional.linear(here, *rows_of(self.projections, 0))
        width = query.shape[-1] // self.heads
        scale = width**-0.5
        if turn is None and self.key_norms is None and self.relative is None:
            absorbed = torch.bmm(
                query.unflatten(-1, (self.heads, -1)).transpose(0, 1) * scale, self._per_head(rows_of(self.projections, 1)[0])
            )
            return torch.bmm(absorbed.transpose(0, 1), states.transpose(1, 2))
        key = linear_plus(rows_of(self.projections, 1), states, fused=self.fused)
        if self.key_norms is not None:
            query, key = self.key_norms[0](query), self.key_norms[1](key)
        if turn is not None:
            if self._early(query):
                query, scale = query * scale, 1.0
            own = Turn(turn.cos[places], turn.sin[places])
            query, key = self._turned(query.unsqueeze(0), own).squeeze(0), self._turned(key, turn)
        bias = None if self.relative is None else self.relative.of_one(query, key, places, self.heads)
        scale = scale if self.relative is None else self.relative.scale(width)
        query, key = query.unflatten(-1, (self.heads, 1, width)), key.unflatten(-1, (-1, width)).transpose(1, 2)
        if key.shape[1] < self.heads:
            key = key.repeat_interleave(self.heads // key.shape[1], 1)
        scores = torch.matmul(query * scale, key.transpose(2, 3)).squeeze(2)
        return scores if bias is None else scores + bias

    def _early(self, queries: Tensor) -> bool:
        return self.rotary is not None and self.rotary.early and queries.dtype == torch.float64

    def _turned(self, x: Float[Tensor, "n t d"], turn: Turn) -> Float[Tensor, "n t d"]:
        """Each head (x_1, x_2) of each token turned: (x_1 cos - x_2 sin, x_2 cos + x_1 sin)."""
        if self.fused and half_precision_on_gpu(x):
            from unmask.models.encoder.triton_programs import turned

            return turned(x, turn)
        cos, sin = turn.cos.unsqueeze(-2), turn.sin.unsqueeze(-2)
        half, dtype = cos.shape[-1] // 2, x.dtype
        x = x.float() if self.rotary and self.rotary.narrow or dtype != torch.float64 else x
        heads = x.to(torch.promote_types(x.dtype, cos.dtype)).unflatten(-1, (-1, 2 * half))
        out = heads * cos
        out[..., :half].addcmul_(heads[..., half:], sin[..., :half], value=-1)
        out[..., half:].addcmul_(heads[..., :half], sin[..., half:])
        return out.flatten(-2).to(dtype)

    def _per_head(self, weight: Float[Tensor, "k ..."]) -> Float[Tensor, "h e ..."]:
        """The rows of each head's keys or values; several heads may share them."""
        found = weight.unflatten(0, (-1, self.attention_out.in_features // self.heads))
        return found if len(found) == self.heads else found.repeat_interleave(self.heads // len(found), 0)

    def _there(self, stream: Stream, at: tuple[Tensor, Tensor]) -> Stream:
        total = stream.total[at]
        return Stream(total, stream.normed[at] if self.before else total)

    def _added(self, norm: nn.Module, linear: nn.Linear, x: Tensor, residual: Tensor) -> Stream:
        """residual + linear(x), and norm of it."""
        if self.fused and half_precision_on_gpu(x):
            from unmask.models.encoder.triton_programs import add_norm

            return Stream(*add_norm(norm, linear(x), residual, self.before, self.shrink))
        if self.shrink == 1.0:
            total = linear_plus(linear, x, residual, self.fused)
        else:
            total = residual + linear_plus(linear, x, fused=self.fused) / self.shrink
        normed = norm(total)
        return Stream(total if self.before else normed, normed)


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
