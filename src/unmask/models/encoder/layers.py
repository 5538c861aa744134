"""One layer of an encoder: its modules, and every computation with them.

    norm after   a = N(h + W_o attention(h)),       h' = N'(a + F(a))
    norm before  s = r + W_o attention(h),  a = N(s),       r' = s + F(a),  h' = N'(r')

with F(a) = W_2 act(W_1 a), or gated, W_2 (act(G a) * U a). N is `attention_norm` and N' is
`norm`.

A network with norms before begins each half with a norm. Here this norm ends the half before: N'
belongs to the next layer, or is the network's last norm. Both kinds of network are then one
computation on a `Stream` (r, h): r is added to, and h is read. With norms after, r = h.

A layer can run at every token, at some tokens, at one token of each text, or at new tokens that
attend to a cache of keys and values. It uses torch's plain operations, which are the reference,
or fused ones (`linear_maps`, `triton_programs`).

Shapes: n texts of T tokens, of which t are computed, or p at given positions; states of d
numbers; h heads of e numbers each, k = h e in all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.encoder import linear_maps
from unmask.models.encoder.linear_maps import (
    HALF_TYPES,
    activated,
    linear_plus,
    on_gpu,
    programs,
    rows_of,
)

COMPILED_LENGTHS = (16, 32, 64)
"""Lengths in tokens for which the program for attention of short texts is compiled on a GPU."""
SHORT = COMPILED_LENGTHS[-1]  # Longest text, in tokens, that this program takes
HEAD_WIDTHS: dict[torch.dtype, tuple[int, ...]] = {
    torch.float32: (16, 32, 64),
    torch.float16: (16, 32, 64, 128),
    torch.bfloat16: (16, 32, 64, 128),
}
"""Numbers per head for which our programs for attention work."""


class Stream(NamedTuple):
    """The sum that a layer adds to, and what it reads; one tensor in a network that has its
    norms after.
    """

    total: Tensor
    normed: Tensor


class Turn(NamedTuple):
    """Rotary positions: cosine and sine of the angles by which each token's queries and keys
    are turned. A head has e / 2 angles, which stand here twice: once for each half of it.
    """

    cos: Float[Tensor, "*t e"]
    sin: Float[Tensor, "*t e"]


@dataclass(frozen=True)
class Rotary:
    """Angles: position times the frequencies that `module` keeps under `name`.

    rounds         whether the network rounds float64 queries and keys to float32 before it turns
                   them
    scales_first   whether the network scales queries before it turns them
    """

    module: Any
    name: str
    rounds: bool = False
    scales_first: bool = False

    def turn(self, positions: Int[Tensor, " t"], dtype: torch.dtype) -> Turn:
        """The turn of each position."""
        frequencies = getattr(self.module, self.name).to(positions.device, torch.float32)
        # transformers stores both under one prefix: full_attention_inv_freq and
        # full_attention_attention_scaling
        name_of_scaling = self.name.replace("inv_freq", "attention_scaling")
        scaling = getattr(self.module, name_of_scaling, 1.0)
        angles_of_half = positions[:, None].float() * frequencies
        angles = angles_of_half.repeat(1, 2)
        return Turn(cos=(angles.cos() * scaling).to(dtype), sin=(angles.sin() * scaling).to(dtype))


@dataclass(frozen=True)
class Layer:
    """One layer's modules, and how they are put together.

    projections  queries, keys, values; or one module for all three
    inner        W_1; or, if `gates`, one module with the rows of G and then those of U
    before       whether the norms come before each half
    window       the largest distance that attention spans, if any
    fused        whether fused operations are used where they work
    """

    projections: tuple[nn.Linear, ...]
    attention_out: nn.Linear
    attention_norm: nn.Module
    inner: nn.Linear
    activation: Callable[[Tensor], Tensor]
    outer: nn.Linear
    norm: nn.Module
    heads: int
    gates: bool = False
    before: bool = False
    rotary: Rotary | None = None
    window: int | None = None
    fused: bool = True

    def __call__(
        self, stream: Stream, seen: Bool[Tensor, "n T"] | None = None, turn: Turn | None = None
    ) -> Stream:
        """The stream after this layer at every token; each attends to the tokens that are
        `seen`.
        """
        queries, keys, values = self.project(stream.normed)
        return self.after_attention(stream, self.attend(queries, keys, values, seen, turn))

    def project(self, normed: Float[Tensor, "n t d"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, not turned."""
        parts = [linear_plus(part, normed, fused=self.fused) for part in self.projections]
        if len(parts) == 1:  # one module for all three
            parts = list(parts[0].chunk(3, -1))
        queries, keys, values = parts
        return queries, keys, values

    def attend(
        self,
        queries: Float[Tensor, "n t k"],
        keys: Float[Tensor, "n T k"],
        values: Float[Tensor, "n T k"],
        seen: Bool[Tensor, "n T"] | None = None,
        turn: Turn | None = None,
    ) -> Float[Tensor, "n t k"]:
        """softmax(Q K^T / sqrt(e)) V per head, over the keys that are `seen` and within the
        window.
        """
        length = keys.shape[1]
        width = queries.shape[2] // self.heads
        window = self._window_within(length)
        takes_programs = (
            self.fused and seen is None and on_gpu(queries) and width in HEAD_WIDTHS[queries.dtype]
        )
        if takes_programs and length <= SHORT:  # turns queries and keys itself
            return programs().short_attention(queries, keys, values, self.heads, turn, window)
        scale = None  # torch's own, 1 / sqrt(e)
        if turn is not None:
            if self._scales_early(queries):
                queries = queries * width**-0.5
                scale = 1.0
            queries = self._turned(queries, turn)
            keys = self._turned(keys, turn)
        if takes_programs and window is not None and queries.dtype in HALF_TYPES:
            return programs().long_attention(queries, keys, values, self.heads, window)
        mixed = functional.scaled_dot_product_attention(
            _heads_first(queries, width),
            _heads_first(keys, width),
            _heads_first(values, width),
            attn_mask=_mask(seen, window, length, keys.device),
            scale=scale,
        )
        return mixed.transpose(1, 2).flatten(2)

    def at(
        self,
        stream: Stream,
        positions: Int[Tensor, "n p"],
        seen: Bool[Tensor, "n T"] | None = None,
        turn: Turn | None = None,
    ) -> Float[Tensor, "n p d"]:
        """Hidden states after this layer at some positions of each row; the feed-forward runs
        there only.
        """
        queries, keys, values = self.project(stream.normed)
        mixed = self.attend(queries, keys, values, seen, turn)
        rows = torch.arange(len(positions), device=positions.device)[:, None]
        there = self._stream_at(stream, rows, positions)
        return self.after_attention(there, mixed[rows, positions]).normed

    def at_one(
        self,
        stream: Stream,
        places: Int[Tensor, " n"],
        seen: Bool[Tensor, "n T"] | None = None,
        turn: Turn | None = None,
    ) -> Float[Tensor, "n d"]:
        """Hidden state after this layer at one token of each row; forms no values, and no keys
        if there are no rotary positions.

        With q = W_q h at that token, per head,

            q . (W_k h_j + b_k) = (W_k^T q) . h_j + constant,
                    sum_j w_j (W_v h_j + b_v) = W_v (sum_j w_j h_j) + b_v.

        The constant drops out of the softmax, and the weights w sum to 1. For each text, keys
        and values of all tokens would take 2 T d^2 multiplications. Instead, W_k^T q and the
        product with W_v take d^2 each; the dot products and the sum over j take T d each for
        every head.
        """
        rows = torch.arange(len(places), device=places.device)
        here = self._stream_at(stream, rows, places)
        scores = self._scores(stream.normed, here.normed, places, turn)
        window = self._window_within(scores.shape[-1])
        if window is not None:
            tokens = torch.arange(scores.shape[-1], device=places.device)
            near = (tokens - places[:, None]).abs() <= window
            seen = near if seen is None else seen & near
        if seen is not None:
            scores = scores.masked_fill(~seen.unsqueeze(1), -torch.inf)
        weights = scores.softmax(-1)
        mixed_states = torch.bmm(weights, stream.normed)  # (n, h, d): sum_j w_j h_j
        of_values = rows_of(self.projections, 2)
        w_v = self._per_head(of_values.weight)
        values = torch.bmm(mixed_states.transpose(0, 1), w_v.transpose(1, 2))  # (h, n, e)
        out = values.transpose(0, 1).flatten(1)  # (n, k)
        if of_values.bias is not None:
            out = out + of_values.bias
        return self.after_attention(here, out).normed

    def after_attention(self, stream: Stream, mixed: Float[Tensor, "*n d"]) -> Stream:
        """The rest of the layer, on any number of tokens: output projection, feed-forward, and
        their norms.
        """
        attended = self._added(self.attention_norm, self.attention_out, mixed, stream.total)
        inner = activated(
            self.inner, self.activation, attended.normed, gates=self.gates, fused=self.fused
        )
        return self._added(self.norm, self.outer, inner, attended.total)

    def launches(self) -> list[Callable[[], object]]:
        """One of each operation for which a GPU may have to compile a program."""
        weight = self.attention_out.weight
        zeros = partial(torch.zeros, dtype=weight.dtype, device=weight.device)
        width = len(weight)
        launches: list[Callable[[], object]] = []
        for length in COMPILED_LENGTHS:
            states = zeros((1, length, width))
            turn = None
            if self.rotary is not None:
                positions = torch.arange(length, device=weight.device)
                turn = self.rotary.turn(positions, weight.dtype)
            launches.append(partial(self, Stream(states, states), None, turn))
        rows = zeros((1, width)).expand(linear_maps.MANY, -1)  # one row of memory
        mixed = zeros((linear_maps.MANY, self.attention_out.in_features))
        launches.append(partial(self.after_attention, Stream(rows, rows), mixed))
        return launches

    def _window_within(self, length: int) -> int | None:
        """The window in a text of `length` tokens; None if all of its tokens see each other."""
        if self.window is None or self.window >= length - 1:
            return None
        return self.window

    def _scores(
        self,
        states: Float[Tensor, "n T d"],
        here: Float[Tensor, "n d"],
        places: Int[Tensor, " n"],
        turn: Turn | None,
    ) -> Float[Tensor, "n h T"]:
        """Scaled dot products of one token's queries with the keys of all tokens, per head."""
        of_queries = rows_of(self.projections, 0)
        query = functional.linear(here, of_queries.weight, of_queries.bias)
        if turn is None:
            return self._scores_without_keys(states, query)
        return self._scores_turned(states, query, places, turn)

    def _scores_without_keys(
        self, states: Float[Tensor, "n T d"], query: Float[Tensor, "n k"]
    ) -> Float[Tensor, "n h T"]:
        """(W_k^T q) . h_j / sqrt(e), without the constant."""
        scale = (query.shape[-1] // self.heads) ** -0.5
        heads_of_query = query.unflatten(-1, (self.heads, -1))  # (n, h, e)
        scaled = heads_of_query.transpose(0, 1) * scale  # (h, n, e)
        w_k = self._per_head(rows_of(self.projections, 1).weight)  # (h, e, d)
        w_k_q = torch.bmm(scaled, w_k).transpose(0, 1)  # (n, h, d)
        return torch.bmm(w_k_q, states.transpose(1, 2))

    def _scores_turned(
        self,
        states: Float[Tensor, "n T d"],
        query: Float[Tensor, "n k"],
        places: Int[Tensor, " n"],
        turn: Turn,
    ) -> Float[Tensor, "n h T"]:
        """q . k_j / sqrt(e), both turned by their positions."""
        width = query.shape[-1] // self.heads
        scale = width**-0.5
        if self._scales_early(query):
            query = query * scale
            scale = 1.0
        keys = linear_plus(rows_of(self.projections, 1), states, fused=self.fused)
        turn_of_query = Turn(cos=turn.cos[places], sin=turn.sin[places])
        # one text whose tokens are the n queries: each is turned by the position of its own
        query = self._turned(query.unsqueeze(0), turn_of_query).squeeze(0)
        keys = self._turned(keys, turn)
        heads_of_query = query.unflatten(-1, (self.heads, 1, width)) * scale  # (n, h, 1, e)
        heads_of_keys = _heads_first(keys, width)  # (n, h, T, e)
        scores = torch.matmul(heads_of_query, heads_of_keys.transpose(2, 3))  # (n, h, 1, T)
        return scores.squeeze(2)

    def _scales_early(self, queries: Tensor) -> bool:
        """Whether queries are scaled before they are turned, as the network does.

        Only in float64: elsewhere the order changes no more than rounding does.
        """
        if self.rotary is None or not self.rotary.scales_first:
            return False
        return queries.dtype == torch.float64

    def _turned(self, x: Float[Tensor, "n t k"], turn: Turn) -> Float[Tensor, "n t k"]:
        """Each head (x_1, x_2) of each token turned: (x_1 cos - x_2 sin, x_2 cos + x_1 sin)."""
        if self.fused and on_gpu(x):
            return programs().turned(x, turn)
        dtype = x.dtype
        rounds = self.rotary is not None and self.rotary.rounds
        if rounds or dtype != torch.float64:
            x = x.float()
        cos = turn.cos.unsqueeze(-2)  # the same for all heads
        sin = turn.sin.unsqueeze(-2)
        x = x.to(torch.promote_types(x.dtype, cos.dtype))
        width = cos.shape[-1]
        half = width // 2
        heads = x.unflatten(-1, (-1, width))
        x_1, x_2 = heads[..., :half], heads[..., half:]
        out = heads * cos
        out[..., :half].addcmul_(x_2, sin[..., :half], value=-1)
        out[..., half:].addcmul_(x_1, sin[..., half:])
        return out.flatten(-2).to(dtype)

    def _per_head(self, weight: Float[Tensor, "k ..."]) -> Float[Tensor, "h e ..."]:
        """The rows of each head's keys or values."""
        return weight.unflatten(0, (self.heads, -1))

    def _stream_at(self, stream: Stream, rows: Tensor, positions: Tensor) -> Stream:
        """The stream at `positions` of each row."""
        total = stream.total[rows, positions]
        if not self.before:  # one tensor
            return Stream(total, total)
        return Stream(total, stream.normed[rows, positions])

    def _added(self, norm: nn.Module, linear: nn.Linear, x: Tensor, residual: Tensor) -> Stream:
        """residual + linear(x), and norm of it."""
        if self.fused and on_gpu(x):
            product = linear_plus(linear, x, fused=True)
            total, normed = programs().add_norm(norm, product, residual, self.before)
            return Stream(total, normed)
        total = linear_plus(linear, x, residual=residual, fused=self.fused)
        normed = norm(total)
        if not self.before:
            return Stream(normed, normed)
        return Stream(total, normed)


def _heads_first(x: Float[Tensor, "n t k"], width: int) -> Float[Tensor, "n h t e"]:
    """The heads, each of `width` numbers, on an axis before the tokens."""
    return x.unflatten(-1, (-1, width)).transpose(1, 2)


def _mask(
    seen: Bool[Tensor, "n T"] | None, window: int | None, length: int, device: torch.device
) -> Bool[Tensor, "*n T"] | None:
    """Which tokens attend to which: (n, 1, 1, T), (T, T) or (n, 1, T, T); None if all to all."""
    of_seen = None if seen is None else seen[:, None, None, :]
    if window is None:
        return of_seen
    places = torch.arange(length, device=device)
    near = (places[:, None] - places).abs() <= window
    return near if of_seen is None else of_seen & near
