"""One layer of an encoder with BERT's structure: its modules, and every computation with them.

    a = LayerNorm(h + W_o attention(W_q h, W_k h, W_v h)),   h' = LayerNorm(a + W_2 act(W_1 a))

A layer runs at every token, at some of them, at one of each text, or at new tokens that attend to a cache of keys and values.
It does so by fused operations, if there are any (oneDNN on a CPU, Triton on a GPU), or by torch's plain ones: the reference
that the fused ones are checked against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.encoder.fused_linear import MANY, half_precision_on_gpu, linear_plus, linear_then

KINDS = (16, 32, 64)
SHORT = KINDS[-1]
"""Texts of at most SHORT tokens have their own attention on a GPU; KINDS: the lengths that it is compiled for."""
HEAD_WIDTHS = (16, 32, 64, 128)
"""The widths of a head for which it works."""


@dataclass(frozen=True)
class Layer:
    """One layer's modules, the number of its heads, and whether fused operations are used."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    attention_out: nn.Linear
    attention_norm: nn.LayerNorm
    inner: nn.Linear
    activation: Callable[[Tensor], Tensor]
    outer: nn.Linear
    norm: nn.LayerNorm
    heads: int
    fused: bool = True

    def __call__(self, states: Float[Tensor, "n T d"], seen: Bool[Tensor, "n T"] | None = None) -> Float[Tensor, "n T d"]:
        """The states after this layer at every token; each attends to the tokens that are `seen`."""
        return self.after_attention(states, self.attend(*self.project(states), seen))

    def project(self, states: Float[Tensor, "n t d"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values."""
        query, key, value = (linear_plus(part, states, fused=self.fused) for part in (self.query, self.key, self.value))
        return query, key, value

    def attend(
        self,
        queries: Float[Tensor, "n t d"],
        keys: Float[Tensor, "n T d"],
        values: Float[Tensor, "n T d"],
        seen: Bool[Tensor, "n T"] | None = None,
    ) -> Float[Tensor, "n t d"]:
        """softmax(Q K^T / sqrt(e)) V per head, over the keys that are `seen`."""
        if self.fused and seen is None and _short(queries, self.heads) and half_precision_on_gpu(queries):
            from unmask.models.encoder.triton_programs import short_attention

            return short_attention(queries, keys, values, self.heads)
        query, key, value = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (queries, keys, values))
        mask = None if seen is None else seen[:, None, None, :]
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2)

    def at(
        self, states: Float[Tensor, "n T d"], positions: Int[Tensor, "n p"], seen: Bool[Tensor, "n T"] | None = None
    ) -> Float[Tensor, "n p d"]:
        """The states after this layer at some positions of each row; the feed-forward runs there only."""
        mixed = self.attend(*self.project(states), seen)
        where = positions.unsqueeze(-1).expand(-1, -1, states.shape[-1])
        return self.after_attention(states.gather(1, where), mixed.gather(1, where))

    def at_one(
        self, states: Float[Tensor, "n T d"], here: Float[Tensor, "n d"], seen: Bool[Tensor, "n T"] | None = None
    ) -> Float[Tensor, "n d"]:
        """The state after this layer at one token of each row, whose state is `here`; no keys and values are formed.

        With q = W_q here, per head,

            q . (W_k h_j + b_k) = (W_k^T q) . h_j + constant,      sum_j w_j (W_v h_j + b_v) = W_v (sum_j w_j h_j) + b_v.

        The constant drops out of the softmax and the weights w sum to 1, so 2 T d^2 multiplications become 2 d^2 + 2 T d heads.
        """
        query = self.query(here).unflatten(-1, (self.heads, -1)).transpose(0, 1)
        scale = query.shape[-1] ** -0.5
        per_head = self.key.weight.unflatten(0, (self.heads, -1))
        absorbed = torch.bmm(query * scale, per_head).transpose(0, 1)
        scores = torch.bmm(absorbed, states.transpose(1, 2))
        weights = (scores if seen is None else scores.masked_fill(~seen.unsqueeze(1), -torch.inf)).softmax(-1)
        mixed = torch.bmm(weights, states).transpose(0, 1)
        out = torch.bmm(mixed, self.value.weight.unflatten(0, (self.heads, -1)).transpose(1, 2))
        return self.after_attention(here, out.transpose(0, 1).flatten(1) + self.value.bias)

    def after_attention(self, states: Float[Tensor, "*n d"], mixed: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
        """The rest of the layer, on any number of tokens: output projection, feed-forward, and their LayerNorms."""
        attended = self._normed_sum(self.attention_norm, self.attention_out, mixed, states)
        inner = linear_then(self.inner, self.activation, attended, self.fused)
        return self._normed_sum(self.norm, self.outer, inner, attended)

    def launches(self) -> list[Callable[[], Tensor]]:
        """One of each operation for which a GPU may have to compile a program."""
        weight = self.query.weight
        texts = [torch.zeros((1, length, len(weight)), dtype=weight.dtype, device=weight.device) for length in KINDS]
        return [
            *(partial(self.attend, states, states, states) for states in texts),
            partial(self._normed_sum, self.norm, self.attention_out, texts[0], texts[0]),
            partial(linear_then, self.inner, self.activation, texts[0][:, 0].expand(MANY, -1)),
        ]

    def _normed_sum(self, norm: nn.LayerNorm, linear: nn.Linear, x: Tensor, residual: Tensor) -> Tensor:
        """norm(linear(x) + residual)."""
        if self.fused and half_precision_on_gpu(x):
            from unmask.models.encoder.triton_programs import add_norm

            return add_norm(norm, linear(x), residual)
        normed: Tensor = norm(linear_plus(linear, x, residual, self.fused))
        return normed


def _short(queries: Tensor, heads: int) -> bool:
    return queries.shape[1] <= SHORT and queries.shape[2] // heads in HEAD_WIDTHS
