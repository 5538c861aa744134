"""Networks that the fast encoder knows: where each type of transformers keeps its parts, and which kind it is.

A network is recognised by its type and checked by shape: plain linear maps, heads of one width. `MaskedLM` then compares the
encoder's answer with the network's own, so an entry that is wrong for a checkpoint costs speed and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from unmask.models.encoder.encoder import Encoder
from unmask.models.encoder.layers import Layer, Relative, Rotary


@dataclass(frozen=True)
class Architecture:
    """Names of a type's parts. Those of a layer are inside it; names of norms are in the order in which they are applied.

    `before`: norms come before each half of a layer; `final_norm` then follows the last.
    `activation`: its name in a layer; None is GELU, which some types write out.
    """

    projections: tuple[str, ...]
    attention_out: str
    norms: tuple[str, str]
    inner: tuple[str, ...]
    activation: str | None
    outer: str
    layers: str = "layers"
    gates: bool = False
    before: bool = False
    final_norm: str | None = None
    embedding_norm: str | None = "embeddings.LayerNorm"
    projection: str | None = None
    rotary: str | None = None
    key_norms: tuple[str, str] | None = None
    relative: Callable[[Any, Any], Relative | None] | None = None


def deberta_distances(network: Any, module: Any) -> Relative | None:
    """The terms that DeBERTa's attention adds for distances; raises for convolutions and narrow embeddings."""
    own, encoder = module.attention.self, network.base_model.encoder
    if encoder.conv is not None or network.base_model.embeddings.embed_proj is not None:
        raise AttributeError("a convolution, or a projection of the embeddings")
    if not own.relative_attention:
        raise AttributeError("no relative attention")
    buckets = sys.modules[type(network).__module__].make_log_bucket_position
    size, furthest = own.position_buckets, own.max_relative_positions
    return Relative(
        table=encoder.rel_embeddings,
        norm=encoder.LayerNorm if "layer_norm" in encoder.norm_rel_ebd else None,
        key=(own.key_proj if own.share_att_key else own.pos_key_proj) if "c2p" in own.pos_att_type else None,
        query=(own.query_proj if own.share_att_key else own.pos_query_proj) if "p2c" in own.pos_att_type else None,
        bucket=partial(buckets, bucket_size=size, max_position=furthest) if size > 0 and furthest > 0 else torch.clone,
        span=own.pos_ebd_size,
    )


BERT = Architecture(
    projections=("attention.self.query", "attention.self.key", "attention.self.value"),
    attention_out="attention.output.dense",
    norms=("attention.output.LayerNorm", "output.LayerNorm"),
    inner=("intermediate.dense",),
    activation="intermediate.intermediate_act_fn",
    outer="output.dense",
    layers="encoder.layer",
)
LLAMA = Architecture(
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    attention_out="self_attn.o_proj",
    norms=("input_layernorm", "post_attention_layernorm"),
    inner=("mlp.gate_proj", "mlp.up_proj"),
    activation="mlp.act_fn",
    outer="mlp.down_proj",
    gates=True,
    before=True,
    final_norm="norm",
    embedding_norm=None,
    rotary="rotary_emb.inv_freq",
)
ROTARY_BERT = changed(
    LLAMA,
    norms=("post_attention_layernorm", "post_mlp_layernorm"),
    before=False,
    final_norm=None,
    embedding_norm="embeddings.LayerNorm",
)
ARCHITECTURES = {
    "bert": BERT,
    "roberta": BERT,
    "xlm-roberta": BERT,
    "camembert": BERT,
    "data2vec-text": BERT,
    "electra": changed(BERT, projection="embeddings_project"),
    "distilbert": Architecture(
        projections=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        attention_out="attention.out_lin",
        norms=("sa_layer_norm", "output_layer_norm"),
        inner=("ffn.lin1",),
        activation="ffn.activation",
        outer="ffn.lin2",
        layers="transformer.layer",
    ),
    "albert": Architecture(
        projections=("attention.query", "attention.key", "attention.value"),
        attention_out="attention.dense",
        norms=("attention.LayerNorm", "full_layer_layer_norm"),
        inner=("ffn",),
        activation="activation",
        outer="ffn_output",
        layers="encoder.albert_layer_groups",
        projection="encoder.embedding_hidden_mapping_in",
    ),
    "roberta-prelayernorm": changed(
        BERT, norms=("attention.LayerNorm", "intermediate.LayerNorm"), before=True, final_norm="LayerNorm"
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
        inner=("mlp.Wi",),
        activation="mlp.act",
        outer="mlp.Wo",
        gates=True,
        before=True,
        final_norm="final_norm",
        embedding_norm="embeddings.norm",
        rotary="rotary_emb.{attention_type}_inv_freq",
    ),
    "eurobert": LLAMA,
    "esmc": changed(LLAMA, key_norms=("self_attn.q_norm", "self_attn.k_norm")),
    "nomic_bert": ROTARY_BERT,
    "gte": ROTARY_BERT,
    "deberta-v2": changed(
        BERT,
        projections=("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
        relative=deberta_distances,
    ),
}


def find_encoder(network: Any) -> Encoder | None:
    """The parts of `network`'s encoder, or None if its type has no description or its parts are not as described."""
    config = network.config
    described = ARCHITECTURES.get(getattr(config, "model_type", ""))
    other_positions = getattr(config, "position_embedding_type", "absolute") not in ("absolute", "rotary")
    if described is None or other_positions or getattr(config, "is_decoder", False):
        return None
    try:
        found = _encoder(network, described)
    except AttributeError:
        return None
    return found if _sound(found) else None


def layer_of(module: Any, described: Architecture, heads: int, fused: bool = True, **more: Any) -> Layer:
    """A layer whose parts are those of `module` with these names; its norms in the order in which they are applied."""

    def part(name: str) -> Any:
        return attrgetter(name)(module)

    return Layer(
        projections=tuple(map(part, described.projections)),
        attention_out=part(described.attention_out),
        attention_norm=part(described.norms[0]),
        inner=tuple(map(part, described.inner)),
        activation=functional.gelu if described.activation is None else part(described.activation),
        outer=part(described.outer),
        norm=part(described.norms[1]),
        heads=heads,
        gates=described.gates,
        before=described.before,
        window=module.config.sliding_window if getattr(module, "attention_type", None) == "sliding_attention" else None,
        key_norms=described.key_norms and tuple(map(part, described.key_norms)),
        shrink=getattr(module, "scaling_factor", 1.0),
        fused=fused,
        **more,
    )


def _encoder(network: Any, described: Architecture) -> Encoder:
    config, base = network.config, network.base_model
    modules = list(_modules(attrgetter(described.layers)(base), config))
    layers = [
        layer_of(
            module,
            described,
            config.num_attention_heads,
            rotary=_rotary(network, module, described),
            relative=described.relative and described.relative(network, module),
        )
        for module in modules
    ]
    first_norm = None
    if described.before:
        first_norm = layers[0].attention_norm
        after = [*(layer.attention_norm for layer in layers[1:]), _part(base, described.final_norm)]
        layers = [changed(layer, attention_norm=layer.norm, norm=norm) for layer, norm in zip(layers, after, strict=True)]
    embeddings = getattr(base, "embeddings", None)
    position = getattr(embeddings, "position_embeddings", None)
    pad_id = None if position is None else position.padding_idx
    return Encoder(
        word=network.get_input_embeddings(),
        position=position,
        token_type=getattr(embeddings, "token_type_embeddings", None),
        embedding_norm=_part(base, described.embedding_norm),
        projection=_or_none(base, described.projection),
        layers=tuple(layers),
        first_norm=first_norm,
        position_offset=0 if pad_id is None else pad_id + 1,
        pad_id=pad_id,
        dropped=config.mask_token_id if getattr(config, "token_dropout", False) else None,
        unseen=getattr(base, "unseen", None),
    )


def _modules(found: Iterable[Any], config: Any) -> Iterable[Any]:
    """The layers, one after the other; ALBERT runs those of one group several times."""
    if config.model_type != "albert":
        return found
    groups, depth = list(found), config.num_hidden_layers
    return [layer for i in range(depth) for layer in groups[int(i * len(groups) / depth)].albert_layers]


def _rotary(network: Any, module: Any, described: Architecture) -> Rotary | None:
    kind = getattr(network.config, "position_embedding_type", "rotary")
    if described.rotary is None or kind != "rotary":
        return None
    place, _, name = described.rotary.format(attention_type=getattr(module, "attention_type", None)).rpartition(".")
    found = _or_none(network.base_model, place) or attrgetter(f"attention.self.{place}")(module)
    rope_type = str(getattr(found, "rope_type", ""))
    if getattr(found, name) is None or "dynamic" in rope_type or "longrope" in rope_type:
        raise AttributeError(f"{place} changes its frequencies")
    return Rotary(found, name, _rounds(network), early=_or_none(module, "attention.self.scaling") == 1.0)


def _rounds(network: Any) -> bool:
    """Whether this version of the network's code rounds queries and keys to float32 before it turns them."""
    turn = sys.modules[type(network).__module__].apply_rotary_pos_emb
    third, one = torch.full((1, 1, 1, 2), 1 / 3, dtype=torch.float64), torch.ones((1, 1, 2), dtype=torch.float64)
    try:
        return bool((turn(third, third, one, 0 * one)[0] != third).any())
    except TypeError:
        return False


def _part(base: Any, name: str | None) -> Any:
    return None if name is None else attrgetter(name)(base)


def _or_none(base: Any, name: str | None) -> Any:
    try:
        return _part(base, name)
    except AttributeError:
        return None


def _sound(encoder: Encoder) -> bool:
    """Whether there are at least two layers, and all maps are plain (no adapters, no quantisation) and fit the heads' width."""
    for layer in encoder.layers:
        linear = (*layer.projections, layer.attention_out, *layer.inner, layer.outer)
        if any(type(module) is not nn.Linear for module in linear):
            return False
        width, spare = divmod(layer.attention_out.in_features, layer.heads)
        query, *keys = [len(part.weight) for part in layer.projections]
        if spare or query != layer.attention_out.in_features * (1 if keys else 3):
            return False
        if any(size % width or layer.heads % (size // width) for size in keys):
            return False
    return len(encoder.layers) >= 2
