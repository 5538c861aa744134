"""Where each type of transformers keeps the parts of its encoder.

A network is recognised by its type, described by the names of its parts (`ARCHITECTURES`), and
checked by shape: plain linear maps, heads of one width.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from unmask.models.encoder.encoder import Encoder
from unmask.models.encoder.layers import Layer, Rotary


@dataclass(frozen=True)
class Architecture:
    """Names of a type's parts.

    layers                      the list of layers in the network
    projections, attention_out, inner, outer
                                linear maps inside a layer
    norms                       inside a layer, in the order in which they are applied
    activation                  inside a layer; None is GELU, which some types write out
    gates                       whether `inner` has gates
    before                      whether norms come before each half of a layer
    final_norm                  of the network, if norms come before: it follows the last layer
    embedding_norm, projection  of the network: what the embeddings go through
    rotary                      of the network, or of attention.self in a layer: the frequencies
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
ARCHITECTURES = {
    "bert": BERT,
    "roberta": BERT,
    "xlm-roberta": BERT,
    "camembert": BERT,
    "data2vec-text": BERT,
    "electra": replace(BERT, projection="embeddings_project"),
    "distilbert": Architecture(
        projections=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        attention_out="attention.out_lin",
        norms=("sa_layer_norm", "output_layer_norm"),
        inner="ffn.lin1",
        activation="ffn.activation",
        outer="ffn.lin2",
        layers="transformer.layer",
    ),
    "esm": replace(
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
"""By `model_type`. A wrong description costs only speed: see `agreement`."""


def find_encoder(network: Any) -> Encoder | None:
    """The parts of `network`'s encoder, or None if its type has no description or its parts are
    not as described.
    """
    config = network.config
    described = ARCHITECTURES.get(getattr(config, "model_type", ""))
    if described is None or getattr(config, "is_decoder", False):
        return None
    positions = getattr(config, "position_embedding_type", "absolute")
    if positions not in ("absolute", "rotary"):
        return None
    try:
        encoder = _encoder(network, described)
    except AttributeError:  # a part is missing
        return None
    return encoder if _fits(encoder) else None


def _encoder(network: Any, described: Architecture) -> Encoder:
    """The encoder of a described type. Raises AttributeError if a part is missing."""
    config = network.config
    base = network.base_model
    heads = config.num_attention_heads
    layers = [
        layer_of(module, described, heads, rotary=_rotary(network, module, described))
        for module in attrgetter(described.layers)(base)
    ]
    first_norm = None
    if described.before:
        first_norm = layers[0].attention_norm
        final_norm = attrgetter(described.final_norm or "")(base)
        layers = _with_norms_after(layers, final_norm)
    embeddings = getattr(base, "embeddings", None)
    position = getattr(embeddings, "position_embeddings", None)
    pad_id = None if position is None else position.padding_idx
    position_offset = 0 if pad_id is None else pad_id + 1  # RoBERTa's first is after padding's
    projection = None
    if described.projection is not None:
        projection = _part(base, described.projection)
    has_token_dropout = getattr(config, "token_dropout", False)
    return Encoder(
        word=network.get_input_embeddings(),
        position=position,
        token_type=getattr(embeddings, "token_type_embeddings", None),
        embedding_norm=attrgetter(described.embedding_norm)(base),
        projection=projection,
        layers=tuple(layers),
        first_norm=first_norm,
        position_offset=position_offset,
        pad_id=pad_id,
        dropped=config.mask_token_id if has_token_dropout else None,
        unseen=getattr(base, "unseen", None),
    )


def layer_of(
    module: Any,
    described: Architecture,
    heads: int,
    fused: bool = True,
    rotary: Rotary | None = None,
) -> Layer:
    """A layer whose parts are those of `module` with these names; its norms in the order in
    which they are applied.
    """

    def part(name: str) -> Any:
        return attrgetter(name)(module)

    activation = functional.gelu
    if described.activation is not None:
        activation = part(described.activation)
    has_window = getattr(module, "attention_type", None) == "sliding_attention"
    return Layer(
        projections=tuple(map(part, described.projections)),
        attention_out=part(described.attention_out),
        attention_norm=part(described.norms[0]),
        inner=part(described.inner),
        activation=activation,
        outer=part(described.outer),
        norm=part(described.norms[1]),
        heads=heads,
        gates=described.gates,
        before=described.before,
        rotary=rotary,
        window=module.config.sliding_window if has_window else None,
        fused=fused,
    )


def _with_norms_after(layers: list[Layer], final_norm: nn.Module) -> list[Layer]:
    """Layers whose norms come before each half, as `layers` writes them: each norm ends the
    half before it.
    """
    next_norms = [*(layer.attention_norm for layer in layers[1:]), final_norm]
    return [
        replace(layer, attention_norm=layer.norm, norm=next_norm)
        for layer, next_norm in zip(layers, next_norms, strict=True)
    ]


def _rotary(network: Any, module: Any, described: Architecture) -> Rotary | None:
    """The rotary positions of the layer `module`, if it has any. Raises AttributeError if its
    frequencies change with the length of the text.
    """
    kind = getattr(network.config, "position_embedding_type", "rotary")
    if described.rotary is None or kind != "rotary":
        return None
    attention_type = getattr(module, "attention_type", None)
    path = described.rotary.format(attention_type=attention_type)
    place, _, name = path.rpartition(".")
    turning = _part(network.base_model, place)
    if turning is None:
        turning = attrgetter(f"attention.self.{place}")(module)
    rope_type = str(getattr(turning, "rope_type", ""))
    if getattr(turning, name) is None or "dynamic" in rope_type or "longrope" in rope_type:
        raise AttributeError(f"{place} changes its frequencies")
    return Rotary(
        module=turning,
        name=name,
        rounds=_rounds(network),
        scales_first=_part(module, "attention.self.scaling") == 1.0,
    )


def _rounds(network: Any) -> bool:
    """Whether this version of the network's code rounds queries and keys to float32 before it
    turns them.
    """
    turn = sys.modules[type(network).__module__].apply_rotary_pos_emb
    third = torch.full((1, 1, 1, 2), 1 / 3, dtype=torch.float64)
    cos = torch.ones((1, 1, 2), dtype=torch.float64)  # turned by nothing
    try:
        turned = turn(third, third, cos, 0 * cos)[0]
    except TypeError:  # a version with other parameters
        return False
    return bool((turned != third).any())


def _part(module: Any, name: str) -> Any:
    """A part by its name, which may have dots; None if it is missing."""
    try:
        return attrgetter(name)(module)
    except AttributeError:
        return None


def _fits(encoder: Encoder) -> bool:
    """Whether there are at least two layers, and all maps are plain (no adapters, no
    quantisation) and fit the heads' width.
    """
    return len(encoder.layers) >= 2 and all(_layer_fits(layer) for layer in encoder.layers)


def _layer_fits(layer: Layer) -> bool:
    width = layer.attention_out.in_features
    maps = (*layer.projections, layer.attention_out, layer.inner, layer.outer)
    if any(type(module) is not nn.Linear for module in maps):  # nor a class derived from it
        return False
    if width % layer.heads:
        return False
    rows_of_all = 3 * width  # queries, keys and values
    return all(
        len(part.weight) * len(layer.projections) == rows_of_all for part in layer.projections
    )
