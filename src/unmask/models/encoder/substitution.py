"""One text, a few tokens vary, one position is predicted: the inner loop of a pair table.

Every row is the same text but for the tokens at `vary`, and only the logits at `predict` are asked for. Three things
follow, none of which changes the answer:

1.  First layer: queries, keys and values are functions of one token each. Those of the tokens that stay are computed
    once for all rows; each row adds those of its own few tokens.
2.  Last layer: only position p = predict is needed, so query, output projection and feed-forward run on one token per row.
    Its keys and values need never be formed. With q = W_q h_p, per head,
        q . (W_k h_j + b_k) = (W_k^T q) . h_j + constant,      sum_j w_j (W_v h_j + b_v) = W_v (sum_j w_j h_j) + b_v,
    (the constant drops out of the softmax, the weights w sum to 1), which replaces 2 T d^2 multiplications by
    2 d^2 + 2 T d heads.
3.  Head: one position a row.

The layers between run whole. With 6 layers of width d and 16 tokens this leaves 911 of the 1,152 d^2 multiplications
that the encoder costs, and one sixteenth of the head's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.encoder.fused_linear import MANY, linear_plus, linear_then
from unmask.models.encoder.post_norm_encoder import PostNormEncoder, PostNormLayer

KINDS = (16, 32, 64)
SHORT = KINDS[-1]
"""Tokens up to which attention runs in a program a text and head, and those that it is compiled for."""
HEAD_WIDTHS = (16, 32, 64, 128)
"""And the widths of a head for which it does."""


class Substitution:
    """Last hidden states at `predict` for rows of values at `vary` of the text `ids`, everything shared computed once."""

    def __init__(self, encoder: PostNormEncoder, ids: Int[Tensor, " T"], vary: Sequence[int], predict: int) -> None:
        self.encoder, self.vary, self.predict = encoder, list(vary), predict
        first = encoder.layers[0]
        self.embedded = encoder.embed(ids.unsqueeze(0), range(len(ids)))
        self.projected = [linear(self.embedded) for linear in (first.query, first.key, first.value)]

    def hidden(self, values: Int[Tensor, "n v"]) -> Float[Tensor, "n d"]:
        """The encoder's last hidden state at `predict`, a row of `values` each."""
        first, *between, last = self.encoder.layers
        own, places = self.encoder.embed(values, self.vary), self._places(len(values))
        states = filled(self.embedded, own, places)
        queries, keys, keyed_values = (
            filled(shared, linear(own), places)
            for shared, linear in zip(self.projected, (first.query, first.key, first.value), strict=True)
        )
        heads = self.encoder.heads
        states = after_attention(first, states, attend(queries, keys, keyed_values, heads))
        for layer in between:
            states = whole_layer(layer, states, heads)
        here = states[:, self.predict]
        return after_attention(last, here, attend_from_one(last, states, here, heads))

    def _places(self, rows: int) -> Int[Tensor, "n T"]:
        """Where the vectors of each row's tokens are in the list of the shared ones and, after them, of each row's own."""
        tokens, varied, device = self.embedded.shape[1], len(self.vary), self.embedded.device
        places = torch.arange(tokens, device=device).repeat(rows, 1)
        places[:, self.vary] = torch.arange(tokens, tokens + rows * varied, device=device).reshape(rows, varied)
        return places


def filled(shared: Float[Tensor, "1 T d"], own: Float[Tensor, "n v d"], places: Int[Tensor, "n T"]) -> Float[Tensor, "n T d"]:
    """The vectors at `places` of both, in one pass over what is written."""
    vectors = torch.cat([shared.flatten(0, 1), own.flatten(0, 1)])
    return vectors.index_select(0, places.flatten()).unflatten(0, places.shape)


def attend(
    queries: Float[Tensor, "n T d"],
    keys: Float[Tensor, "n T d"],
    values: Float[Tensor, "n T d"],
    heads: int,
    seen: Bool[Tensor, "n T"] | None = None,
) -> Float[Tensor, "n T d"]:
    """Attention of every row over itself, or over what is `seen` of it."""
    short = queries.shape[1] <= SHORT and queries.shape[2] // heads in HEAD_WIDTHS
    if seen is None and short and half_precision_on_gpu(queries):
        from unmask.models.encoder.short_attention import short_attention

        return short_attention(queries, keys, values, heads)
    query, key, value = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (queries, keys, values))
    mask = None if seen is None else seen[:, None, None, :]
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2)


def whole_layer(
    layer: PostNormLayer, states: Float[Tensor, "n T d"], heads: int, seen: Bool[Tensor, "n T"] | None = None
) -> Float[Tensor, "n T d"]:
    """A layer at every token."""
    queries, keys, values = (linear_plus(part, states) for part in (layer.query, layer.key, layer.value))
    return after_attention(layer, states, attend(queries, keys, values, heads, seen))


def attend_from_one(
    layer: PostNormLayer,
    states: Float[Tensor, "n T d"],
    here: Float[Tensor, "n d"],
    heads: int,
    seen: Bool[Tensor, "n T"] | None = None,
) -> Float[Tensor, "n d"]:
    """Attention from one token of each row, `here`, over the row, without its keys and values."""
    query = layer.query(here).unflatten(-1, (heads, -1)).transpose(0, 1)
    scale = query.shape[-1] ** -0.5
    per_head = layer.key.weight.unflatten(0, (heads, -1))
    absorbed = torch.bmm(query * scale, per_head).transpose(0, 1)
    scores = torch.bmm(absorbed, states.transpose(1, 2))
    weights = (scores if seen is None else scores.masked_fill(~seen.unsqueeze(1), -torch.inf)).softmax(-1)
    mixed = torch.bmm(weights, states).transpose(0, 1)
    out = torch.bmm(mixed, layer.value.weight.unflatten(0, (heads, -1)).transpose(1, 2))
    return out.transpose(0, 1).flatten(1) + layer.value.bias


def launches(encoder: PostNormEncoder) -> list[Callable[[], Tensor]]:
    """One of each operation of a layer for which a GPU may have to compile a program."""
    layer = encoder.layers[0]
    weight = layer.query.weight
    texts = [torch.zeros((1, length, len(weight)), dtype=weight.dtype, device=weight.device) for length in KINDS]
    return [
        *(partial(attend, states, states, states, encoder.heads) for states in texts),
        partial(_normed_sum, layer.norm, layer.attention_out, texts[0], texts[0]),
        partial(linear_then, layer.inner, layer.activation, texts[0][:, 0].expand(MANY, -1)),
    ]


def half_precision_on_gpu(states: Tensor) -> bool:
    """Whether the kernels of `short_attention` and `add_norm` serve."""
    return states.is_cuda and states.dtype in (torch.bfloat16, torch.float16) and find_spec("triton") is not None


def after_attention(layer: PostNormLayer, states: Tensor, mixed: Tensor) -> Tensor:
    """The rest of a layer, on any number of tokens: output projection, feed-forward, and their LayerNorms."""
    attended = _normed_sum(layer.attention_norm, layer.attention_out, mixed, states)
    inner = linear_then(layer.inner, layer.activation, attended)
    return _normed_sum(layer.norm, layer.outer, inner, attended)


def _normed_sum(norm: nn.LayerNorm, linear: nn.Linear, x: Tensor, residual: Tensor) -> Tensor:
    if half_precision_on_gpu(x):
        from unmask.models.encoder.add_norm import add_norm

        return add_norm(norm, linear(x), residual)
    normed: Tensor = norm(linear_plus(linear, x, residual))
    return normed
