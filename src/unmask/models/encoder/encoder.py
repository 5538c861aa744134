"""Encoders that run fast: where each type of transformers keeps its parts, and the passes that
compute only what is needed.

Embedding   e_j = P N(c word[x_j] + position[j + offset] + type[0])
            (P: ELECTRA's projection, else 1)
Layers      see `layers`

c is 1, except in networks with token dropout (ESM): there a mask's embedding is 0 and c = 0.88
/ (1 - share of masks in a text). A network is recognised by its type and checked by shape:
plain linear maps, heads of one width. An `Encoder` holds the network's own modules, never
copies of their weights. `MaskedLM` compares its answers with those of the network's own forward
pass on the first rows of each length (`agree`), and falls back to the forward pass if they
differ: a wrong entry costs only speed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from operator import attrgetter
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from unmask.models.encoder.layers import Layer, Rotary, Stream, Turn
from unmask.models.encoder.linear_maps import HALF_TYPES

logger = logging.getLogger(__name__)
KEPT_IN_TRAINING = (
    1 - 0.15 * 0.8
)  # The share of tokens that token dropout kept in training, the same for all its models
# In log-probability, between the fast path and the forward pass; above it the fast path is
# given up
LARGEST_DIFFERENCE = 1e-3
ROUNDING_UNITS = 32
"""The same in half precision: the expected difference, in units of rounding. Right paths are
mostly a few units apart.
"""
Turns = dict[Rotary | None, Turn | None]


@dataclass(frozen=True)
class Encoder:
    """Embedding tables and layers.

    `first_norm`: what the first layer reads through, if norms are before. `pad_id`: the token
    that shifts the positions after it (RoBERTa counts positions over all other tokens), if any.
    `dropped`: the mask of a network with token dropout, if it is one. `unseen`: the token that
    no position attends to, if any.
    """

    word: nn.Embedding
    position: nn.Embedding | None
    token_type: nn.Embedding | None
    embedding_norm: nn.Module | None
    projection: nn.Linear | None
    layers: tuple[Layer, ...]
    first_norm: nn.Module | None = None
    position_offset: int = 0
    pad_id: int | None = None
    dropped: int | None = None
    unseen: int | None = None

    def embed(
        self,
        ids: Int[Tensor, "n t"],
        positions: Int[Tensor, " t"],
        masked: Float[Tensor, " n"] | None = None,
    ) -> Stream:
        """The first layer's input for tokens `ids` at `positions`; `masked`: the share of masks
        in each text [that in `ids`].
        """
        states: Tensor = self.word(ids)
        if self.dropped is not None:
            dropped = ids == self.dropped
            masked = dropped.sum(1).float() / ids.shape[1] if masked is None else masked
            states = states.masked_fill(dropped.unsqueeze(-1), 0.0)
            states = (states * KEPT_IN_TRAINING / (1 - masked)[:, None, None]).to(states.dtype)
        kind = None if self.token_type is None else self.token_type.weight[0]
        if self.position is not None:
            fixed = self.position(positions + self.position_offset)
            states = states + (fixed if kind is None else fixed + kind)
        elif kind is not None:
            states = states + kind
        states = states if self.embedding_norm is None else self.embedding_norm(states)
        states = states if self.projection is None else self.projection(states)
        return Stream(states, states if self.first_norm is None else self.first_norm(states))

    def has_padding(self, ids: Tensor) -> bool:
        """Whether `ids` have a padding token that shifts positions."""
        return self.pad_id is not None and bool((ids == self.pad_id).any())

    def turns(self, length: int, like: Tensor) -> Turns:
        """The rotation of queries and keys at every position of a text, by kind of layer; None
        without rotary positions.
        """
        places = torch.arange(length, device=like.device)
        kinds = {layer.rotary for layer in self.layers}
        return {kind: None if kind is None else kind.turn(places, like.dtype) for kind in kinds}

    def hidden_at(
        self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]
    ) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions` of each row."""
        stream = self.embed(ids, torch.arange(ids.shape[1], device=ids.device))
        seen = None if self.unseen is None else ids != self.unseen
        return self.finish(
            stream, self.layers, positions, self.turns(ids.shape[1], stream.total), seen
        )

    def finish(
        self,
        stream: Stream,
        layers: Sequence[Layer],
        positions: Int[Tensor, "n p"],
        turns: Turns,
        seen: Bool[Tensor, "n T"] | None = None,
    ) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions` after the remaining `layers`.

        The last layer runs at those positions only. At one position its values are never
        formed, nor, without rotary positions, its keys (`Layer.at_one`), which leaves about L -
        1 of the L layers.
        """
        *before, last = layers
        for layer in before:
            stream = layer(stream, seen, turns[layer.rotary])
        if positions.shape[1] > 1:
            return last.at(stream, positions, seen, turns[last.rotary])
        return last.at_one(stream, positions[:, 0], seen, turns[last.rotary]).unsqueeze(1)


class Substitution:
    """Last hidden states at `predict` for rows of values at `vary` of the text `ids`: the inner
    loop of a pair table.

    Every row is the same text except for the tokens at `vary`. In the first layer queries, keys
    and values are functions of one token each: those of the tokens that stay are computed once
    for all rows. With token dropout they depend on how many masks a row has, so there is one
    set of them for each number. The last layer runs at one token per row (`Layer.at_one`). With
    6 layers of width d and 16 tokens this leaves 911 of the 1,152 d^2 multiplications.
    """

    def __init__(
        self, encoder: Encoder, ids: Int[Tensor, " T"], vary: Int[Tensor, " v"], predict: int
    ) -> None:
        self.encoder, self.ids, self.vary, self.predict, self.length = (
            encoder,
            ids,
            vary,
            predict,
            len(ids),
        )
        sets = 1 if encoder.dropped is None else len(vary) + 1
        self.mask = -1 if encoder.dropped is None else encoder.dropped
        self.masks = (ids == self.mask).index_fill(0, vary, False).sum()
        masked = (self.masks + torch.arange(sets, device=ids.device)).float() / self.length
        self.embedded = encoder.embed(
            ids.repeat(sets, 1), torch.arange(self.length, device=ids.device), masked
        )
        self.projected = encoder.layers[0].project(self.embedded.normed)
        self.turns = encoder.turns(self.length, self.embedded.total)

    def hidden(self, values: Int[Tensor, "n v"]) -> Float[Tensor, "n d"]:
        """The encoder's last hidden state at `predict`, a row of `values` each."""
        first, *others = self.encoder.layers
        own_masks = (values == self.mask).sum(1)
        varied = self.encoder.embed(
            values, self.vary, (self.masks + own_masks).float() / self.length
        )
        places = self._places(own_masks)
        total = filled(self.embedded.total, varied.total, places)
        query, key, value = (
            filled(x, y, places)
            for x, y in zip(self.projected, first.project(varied.normed), strict=True)
        )
        mixed = first.attend(query, key, value, turn=self.turns[first.rotary])
        stream = first.after_attention(Stream(total, total), mixed)
        predict = torch.full((len(values), 1), self.predict, device=values.device)
        return self.encoder.finish(stream, others, predict, self.turns)[:, 0]

    def _places(self, own_masks: Int[Tensor, " n"]) -> Int[Tensor, "n T"]:
        """For each row and token, the index of its vector in the list of the shared vectors
        followed by those that vary.
        """
        rows, varied, device = len(own_masks), len(self.vary), own_masks.device
        places = torch.arange(self.length, device=device).repeat(rows, 1)
        if self.encoder.dropped is not None:
            places = places + own_masks[:, None] * self.length
        shared = self.embedded.total.shape[:2].numel()
        places[:, self.vary] = torch.arange(shared, shared + rows * varied, device=device).reshape(
            rows, varied
        )
        return places


def filled(
    shared: Float[Tensor, "s T d"], varied: Float[Tensor, "n v d"], places: Int[Tensor, "n T"]
) -> Float[Tensor, "n T d"]:
    """The vectors at `places` of the list of shared and varied ones; each is written once."""
    vectors = torch.cat([shared.flatten(0, 1), varied.flatten(0, 1)])
    return vectors.index_select(0, places.flatten()).unflatten(0, places.shape)


def plain_logits(
    head: Any,
    text: Int[Tensor, " T"],
    vary: Int[Tensor, " v"],
    predict: int,
    values: Int[Tensor, "n v"],
) -> Float[Tensor, "n V"]:
    """Logits at `predict` with rows of `values` at `vary`, by the network's own forward pass;
    for any architecture.
    """
    rows = text.repeat(len(values), 1)
    rows[:, vary] = values
    logits: Tensor = head(rows, torch.full((len(rows), 1), predict, device=text.device))
    return logits[:, 0]


def shared_logits(
    head: Any, shared: Substitution, values: Int[Tensor, "n v"]
) -> Float[Tensor, "n V"]:
    """The logits of `plain_logits`, by the encoder. A padding token shifts positions: its rows
    go through `plain_logits`.
    """
    logits: Tensor = head.of_hidden(shared.hidden(values).unsqueeze(1))[:, 0]
    pad = shared.encoder.pad_id
    if pad is not None and bool((shifted := (values == pad).any(1)).any()):
        logits[shifted] = plain_logits(
            head, shared.ids, shared.vary, shared.predict, values[shifted]
        )
    return logits


def agree(
    fast: Tensor, slow: Tensor, dtype: torch.dtype, name: str, wide: Callable[[], Tensor]
) -> bool:
    """Whether the logits of the fast path give the forward pass's log-probabilities; logs a
    warning if not.

    In half precision both are rounded, by tenths in unlikely tokens, so the expected difference
    counts. If it is too large, the logits of the forward pass in float32, `wide()`, decide: the
    fast path may be ROUNDING_UNITS further from them than twice the forward pass's own
    distance. So the verdict does not depend on the first text, and a resumed run takes the same
    path.
    """
    log_q = slow.log_softmax(-1)
    apart = (fast.log_softmax(-1) - log_q).abs()
    if dtype in HALF_TYPES:
        difference, allowed = _expected(apart, log_q), ROUNDING_UNITS * torch.finfo(dtype).eps
        if difference > allowed:
            exact = wide().to(slow).log_softmax(-1)
            allowed += 2 * _expected((log_q - exact).abs(), exact)
            difference = _expected((fast.log_softmax(-1) - exact).abs(), exact)
    else:
        difference, allowed = float(apart.max()), LARGEST_DIFFERENCE
    if difference > allowed:
        message = (
            "the fast path for %s differs from its forward pass by %.2g in log-probability: using"
            " the forward pass"
        )
        logger.warning(message, name, difference)
    return difference <= allowed


def _expected(apart: Tensor, log_q: Tensor) -> float:
    """The largest expected difference of a row."""
    return float((log_q.exp() * apart).sum(-1).max())


@dataclass(frozen=True)
class Architecture:
    """Names of a type's parts. Those of a layer are inside it; names of norms are in the order
    in which they are applied.

    `before`: norms come before each half of a layer; `final_norm` then follows the last.
    `activation`: its name in a layer; None is GELU, which some types write out.
    """

    projections: tuple[str, ...]
    attention_out: str
    norms: tuple[str, str]
    inner: str
    activation: str | None
    outer: str
    layers: str
    gates: bool = False
    before: bool = False
    final_norm: str | None = None
    embedding_norm: str = "embeddings.LayerNorm"
    projection: str | None = None
    rotary: str | None = None


BERT = Architecture(
    projections=("attention.self.query", "attention.self.key", "attention.self.value"),
    attention_out="attention.output.dense",
    norms=("attention.output.LayerNorm", "output.LayerNorm"),
    inner="intermediate.dense",
    activation="intermediate.intermediate_act_fn",
    outer="output.dense",
    layers="encoder.layer",
)
ARCHITECTURES = dict.fromkeys(
    ("bert", "roberta", "xlm-roberta", "camembert", "data2vec-text"), BERT
) | {
    "electra": changed(BERT, projection="embeddings_project"),
    "distilbert": Architecture(
        projections=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        attention_out="attention.out_lin",
        norms=("sa_layer_norm", "output_layer_norm"),
        inner="ffn.lin1",
        activation="ffn.activation",
        outer="ffn.lin2",
        layers="transformer.layer",
    ),
    "esm": changed(
        BERT,
        norms=("attention.LayerNorm", "LayerNorm"),
        activation=None,
        before=True,
        final_norm="encoder.emb_layer_norm_after",
        embedding_norm="embeddings.layer_norm",
        rotary="rotary_embeddings.inv_freq",
    ),
    "modernbert": Architecture(
        projections=("attn.Wqkv",),
        attention_out="attn.Wo",
        norms=("attn_norm", "mlp_norm"),
        inner="mlp.Wi",
        activation="mlp.act",
        outer="mlp.Wo",
        layers="layers",
        gates=True,
        before=True,
        final_norm="final_norm",
        embedding_norm="embeddings.norm",
        rotary="rotary_emb.{attention_type}_inv_freq",
    ),
}


def find_encoder(network: Any) -> Encoder | None:
    """The parts of `network`'s encoder, or None if its type has no description or its parts are
    not as described.
    """
    config, described = network.config, ARCHITECTURES.get(getattr(network.config, "model_type", ""))
    other_positions = getattr(config, "position_embedding_type", "absolute") not in (
        "absolute",
        "rotary",
    )
    if described is None or other_positions or getattr(config, "is_decoder", False):
        return None
    try:
        encoder = _encoder(network, described)
    except AttributeError:
        return None
    return encoder if _sound(encoder) else None


def layer_of(
    module: Any, described: Architecture, heads: int, fused: bool = True, **more: Any
) -> Layer:
    """A layer whose parts are those of `module` with these names; its norms in the order in
    which they are applied.
    """

    def part(name: str) -> Any:
        return attrgetter(name)(module)

    return Layer(
        projections=tuple(map(part, described.projections)),
        attention_out=part(described.attention_out),
        attention_norm=part(described.norms[0]),
        inner=part(described.inner),
        activation=functional.gelu if described.activation is None else part(described.activation),
        outer=part(described.outer),
        norm=part(described.norms[1]),
        heads=heads,
        gates=described.gates,
        before=described.before,
        window=(
            module.config.sliding_window
            if getattr(module, "attention_type", None) == "sliding_attention"
            else None
        ),
        fused=fused,
        **more,
    )


def _encoder(network: Any, described: Architecture) -> Encoder:
    config, base = network.config, network.base_model
    modules = attrgetter(described.layers)(base)
    layers = [
        layer_of(
            module,
            described,
            config.num_attention_heads,
            rotary=_rotary(network, module, described),
        )
        for module in modules
    ]
    first_norm = None
    if described.before:
        first_norm = layers[0].attention_norm
        after = [
            *(layer.attention_norm for layer in layers[1:]),
            attrgetter(described.final_norm or "")(base),
        ]
        layers = [
            changed(layer, attention_norm=layer.norm, norm=norm)
            for layer, norm in zip(layers, after, strict=True)
        ]
    embeddings = getattr(base, "embeddings", None)
    position = getattr(embeddings, "position_embeddings", None)
    pad_id = None if position is None else position.padding_idx
    return Encoder(
        word=network.get_input_embeddings(),
        position=position,
        token_type=getattr(embeddings, "token_type_embeddings", None),
        embedding_norm=attrgetter(described.embedding_norm)(base),
        projection=_or_none(base, described.projection),
        layers=tuple(layers),
        first_norm=first_norm,
        position_offset=0 if pad_id is None else pad_id + 1,
        pad_id=pad_id,
        dropped=config.mask_token_id if getattr(config, "token_dropout", False) else None,
        unseen=getattr(base, "unseen", None),
    )


def _rotary(network: Any, module: Any, described: Architecture) -> Rotary | None:
    kind = getattr(network.config, "position_embedding_type", "rotary")
    if described.rotary is None or kind != "rotary":
        return None
    place, _, name = described.rotary.format(
        attention_type=getattr(module, "attention_type", None)
    ).rpartition(".")
    turning = _or_none(network.base_model, place) or attrgetter(f"attention.self.{place}")(module)
    rope_type = str(getattr(turning, "rope_type", ""))
    if getattr(turning, name) is None or "dynamic" in rope_type or "longrope" in rope_type:
        raise AttributeError(f"{place} changes its frequencies")
    return Rotary(
        turning, name, _rounds(network), early=_or_none(module, "attention.self.scaling") == 1.0
    )


def _rounds(network: Any) -> bool:
    """Whether this version of the network's code rounds queries and keys to float32 before it
    turns them.
    """
    turn = sys.modules[type(network).__module__].apply_rotary_pos_emb
    third, one = (
        torch.full((1, 1, 1, 2), 1 / 3, dtype=torch.float64),
        torch.ones((1, 1, 2), dtype=torch.float64),
    )
    try:
        return bool((turn(third, third, one, 0 * one)[0] != third).any())
    except TypeError:
        return False


def _or_none(base: Any, name: str | None) -> Any:
    try:
        return None if name is None else attrgetter(name)(base)
    except AttributeError:
        return None


def _sound(encoder: Encoder) -> bool:
    """Whether there are at least two layers, and all maps are plain (no adapters, no
    quantisation) and fit the heads' width.
    """
    for layer in encoder.layers:
        linear, width = (
            (*layer.projections, layer.attention_out, layer.inner, layer.outer),
            layer.attention_out.in_features,
        )
        if any(type(module) is not nn.Linear for module in linear) or width % layer.heads:
            return False
        if any(
            len(part.weight) * len(layer.projections) != 3 * width for part in layer.projections
        ):
            return False
    return len(encoder.layers) >= 2
