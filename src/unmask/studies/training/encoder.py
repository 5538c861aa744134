"""The training forward pass: packed rows, head only where needed.

Post-norm layers as in BERT:

    h = LN(x + attention(x)),    out = LN(h + W_2 gelu(W_1 h))
    logits = E LN(gelu(W h)) + bias,    E the word embeddings

It computes the same as the plain definition in `models/encoder/bert.py`, in another way:

1. A bias limits attention to the segment.
2. The head runs on a static number of gathered positions only.
3. Each stage (embed, one layer, head, head and loss) is compiled once, with weights cast to `dtype`
   inside. The compiled layer serves all layers.

The gradient of a lookup adds up what comes from equal indices, which is slow in a fixed order
(`fixed_order`). So embeddings are looked up outside compiled code, where torch sorts the
indices. For hidden states `_Gathered` needs no sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from unmask.studies.training.fixed_order import compile_options
from unmask.studies.training.packed_text import PackedText


class Affine(NamedTuple):
    """Weight and bias of a linear map or a layer norm."""

    weight: Float[Tensor, ...]
    bias: Float[Tensor, " out"]

    @classmethod
    def of(cls, module: nn.Module) -> Affine:
        """The weight and bias of a module."""
        return cls(module.weight, module.bias)  # type: ignore[arg-type]


class LayerWeights(NamedTuple):
    """One encoder layer: attention, then the feed-forward network W_2 gelu(W_1 h).

    attended        linear map of what the heads attended to
    attended_norm   LN whose output is h
    widen           W_1
    narrow          W_2
    out_norm        LN whose output is that of the layer
    """

    query: Affine
    key: Affine
    value: Affine
    attended: Affine
    attended_norm: Affine
    widen: Affine
    narrow: Affine
    out_norm: Affine

    @classmethod
    def of(cls, layer: Any) -> LayerWeights:
        """The weights of a layer of BERT."""
        attention = layer.attention
        return cls(
            query=Affine.of(attention.self.query),
            key=Affine.of(attention.self.key),
            value=Affine.of(attention.self.value),
            attended=Affine.of(attention.output.dense),
            attended_norm=Affine.of(attention.output.LayerNorm),
            widen=Affine.of(layer.intermediate.dense),
            narrow=Affine.of(layer.output.dense),
            out_norm=Affine.of(layer.output.LayerNorm),
        )


class HeadWeights(NamedTuple):
    """The prediction head; the weight of `words` is tied to the word embeddings."""

    dense: Affine
    norm: Affine
    words: Affine

    @classmethod
    def of(cls, model: Any) -> HeadWeights:
        """The head's weights in a masked language model."""
        predictions = model.cls.predictions
        return cls(
            dense=Affine.of(predictions.transform.dense),
            norm=Affine.of(predictions.transform.LayerNorm),
            words=Affine(model.bert.embeddings.word_embeddings.weight, predictions.bias),
        )


def _linear(x: Float[Tensor, "*n D"], w: Affine) -> Float[Tensor, "*n out"]:
    return F.linear(x, w.weight.to(x.dtype), w.bias.to(x.dtype))


def _norm(x: Float[Tensor, "*n D"], w: Affine, eps: float) -> Float[Tensor, "*n D"]:
    """LN(x), computed in the type of the weights, float32."""
    precise = x.to(w.weight.dtype)
    normed = F.layer_norm(precise, w.weight.shape, w.weight, w.bias, eps)
    return normed.to(x.dtype)


def _dropped(x: Float[Tensor, "R L D"], share: float) -> Float[Tensor, "R L D"]:
    return F.dropout(x, share) if share else x


def embed(
    word: Float[Tensor, "R L D"],
    position: Float[Tensor, "R L D"],
    seen: Bool[Tensor, "R L L"],
    kind: Float[Tensor, "types D"],
    norm: Affine,
    dtype: torch.dtype,
    eps: float,
) -> tuple[Float[Tensor, "R L D"], Float[Tensor, "R 1 L L"]]:
    """Input of the first layer, and the attention bias: 0 where a token is seen, else -inf.

    seen   seen[r, i, j]: i may attend to j
    kind   embeddings of types of segments; all tokens have the first
    """
    zeros = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    bias = zeros.masked_fill(~seen, -torch.inf)
    x = _norm(word + position + kind[0], norm, eps).to(dtype)
    return x, bias.unsqueeze(1)  # an axis for the heads


def encoder_layer(
    x: Float[Tensor, "R L D"],
    bias: Float[Tensor, "R 1 L L"],
    w: LayerWeights,
    heads: int,
    eps: float,
    dropout: float = 0.0,
) -> Float[Tensor, "R L D"]:
    """One post-norm layer; `dropout` acts on what the layer adds to its input."""
    rows, length, width = x.shape
    all_three = Affine(  # one matrix product for queries, keys and values
        torch.cat([w.query.weight, w.key.weight, w.value.weight]),
        torch.cat([w.query.bias, w.key.bias, w.value.bias]),
    )
    by_head = _linear(x, all_three).view(rows, length, 3, heads, width // heads)
    q, k, v = by_head.permute(2, 0, 3, 1, 4)  # each of shape (R, heads, L, D / heads)
    attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    joined_heads = attended.transpose(1, 2).reshape(rows, length, width)
    mixed = _linear(joined_heads, w.attended)
    h = _norm(x + _dropped(mixed, dropout), w.attended_norm, eps)
    widened = F.gelu(_linear(h, w.widen))
    narrowed = _linear(widened, w.narrow)
    return _norm(h + _dropped(narrowed, dropout), w.out_norm, eps)


def head(hidden: Float[Tensor, "m D"], w: HeadWeights, eps: float) -> Float[Tensor, "m V"]:
    """Logits over the vocabulary."""
    transformed = _norm(F.gelu(_linear(hidden, w.dense)), w.norm, eps)
    return _linear(transformed, w.words)


def head_loss(
    gathered: Float[Tensor, "m D"],
    target: Int[Tensor, " m"],
    w: HeadWeights,
    eps: float,
    smoothing: float = 0.0,
) -> tuple[Float[Tensor, " m"], Bool[Tensor, " m"]]:
    """-log q of the targets at gathered positions, and whether each is the most probable token."""
    logits = head(gathered, w, eps).to(w.words.weight.dtype)
    nll = F.cross_entropy(logits, target, reduction="none", label_smoothing=smoothing)
    return nll, logits.argmax(-1) == target


class Slots(NamedTuple):
    """A static number of slots for positions of packed rows.

    position   the flat position in each slot; 0 in those that are not filled
    filled     whether a slot has a position
    slot_of    the way back: the slot of each flat position, or the number of slots if it has none
    """

    position: Int[Tensor, " m"]
    filled: Bool[Tensor, " m"]
    slot_of: Int[Tensor, " n"]

    @classmethod
    def gather(cls, mask: Bool[Tensor, "R L"], capacity: int) -> Slots:
        """The first `capacity` positions in the mask, in their order. The others have no slot."""
        flat = mask.flatten()
        count = flat.cumsum(0)  # of the mask's positions, up to and with each flat position
        slot = torch.arange(capacity, device=mask.device)
        filled = slot < count[-1]
        # Slot s has the first position at which s + 1 of the mask have been counted.
        position = torch.where(filled, torch.searchsorted(count, slot + 1), 0)
        slot_of = torch.where(flat, count - 1, capacity).clamp(max=capacity)
        return cls(position=position, filled=filled, slot_of=slot_of)


class _Gathered(torch.autograd.Function):
    """hidden[position], with a gradient that is a gather, too.

    A position has at most one filled slot, so nothing is summed. The gradient of a slot that is not
    filled is left out: it is zero, because the loss there has weight zero.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Float[Tensor, "n D"], slots: Slots) -> Float[Tensor, "m D"]:
        ctx.save_for_backward(slots.slot_of)
        return hidden[slots.position]

    @staticmethod
    def backward(ctx: Any, gradient: Float[Tensor, "m D"]) -> tuple[Float[Tensor, "n D"], None]:  # type: ignore[override]
        (slot_of,) = ctx.saved_tensors
        zero = gradient.new_zeros(1, gradient.shape[1])  # of the positions without a slot
        return torch.cat([gradient, zero])[slot_of], None


class PackedBert:
    """The forward pass of this module, with the weights of a network."""

    def __init__(
        self,
        model: Any,
        dtype: torch.dtype = torch.float32,
        compile: bool = False,
        causal: bool = False,
    ) -> None:
        """`causal`: no position sees those after it, except a source, which every position of
        its pair sees.
        """
        self.model = model
        self.dtype = dtype
        self.compiled = compile
        self.causal = causal
        self.heads: int = int(model.config.num_attention_heads)
        self.eps: float = float(model.config.layer_norm_eps)
        self._embed: Callable[..., Any] = embed
        self._layer: Callable[..., Any] = encoder_layer
        self._head: Callable[..., Any] = head
        self._head_loss: Callable[..., Any] = head_loss
        if compile:
            compiled: Any = torch.compile(dynamic=False, options=compile_options())
            self._embed = compiled(embed)
            self._layer = compiled(encoder_layer)
            self._head = compiled(head)
            self._head_loss = compiled(head_loss)
        self.layer_weights: list[LayerWeights] = [
            LayerWeights.of(layer) for layer in model.bert.encoder.layer
        ]
        self.head_weights: HeadWeights = HeadWeights.of(model)

    def hidden(
        self, ids: Int[Tensor, "R L"], text: PackedText, dropout: float = 0.0
    ) -> Float[Tensor, "n D"]:
        """Last hidden states of all tokens, flattened; `ids` is what the model sees of `text`."""
        embeddings = self.model.bert.embeddings
        x, bias = self._embed(
            word=F.embedding(ids, embeddings.word_embeddings.weight),
            position=F.embedding(text.position, embeddings.position_embeddings.weight),
            seen=self._seen(text),
            kind=embeddings.token_type_embeddings.weight,
            norm=Affine.of(embeddings.LayerNorm),
            dtype=self.dtype,
            eps=self.eps,
        )
        x = _dropped(x, dropout)
        for weights in self.layer_weights:
            x = self._layer(x, bias, weights, heads=self.heads, eps=self.eps, dropout=dropout)
        return x.flatten(0, 1)

    def _seen(self, text: PackedText) -> Bool[Tensor, "R L L"]:
        """seen[r, i, j]: i may attend to j. A causal model sees sources whole."""
        if not self.causal:
            return text.same
        before = text.same.tril()
        sources = text.same & text.source.unsqueeze(1)
        return before | sources

    def nll(
        self,
        hidden: Float[Tensor, "n D"],
        slots: Slots,
        target: Int[Tensor, " m"],
        smoothing: float = 0.0,
    ) -> tuple[Float[Tensor, " m"], Bool[Tensor, " m"]]:
        """-log q(target) at the positions in the slots, and whether the target is the most
        probable token.
        """
        gathered = _Gathered.apply(hidden, slots)  # type: ignore[no-untyped-call]
        out: tuple[Tensor, Tensor] = self._head_loss(
            gathered, target, self.head_weights, self.eps, smoothing
        )
        return out

    def logits(self, hidden: Float[Tensor, "m D"]) -> Float[Tensor, "m V"]:
        """Logits of gathered hidden states."""
        out: Tensor = self._head(hidden, self.head_weights, self.eps)
        return out
