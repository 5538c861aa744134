"""The parts of an encoder with BERT's layer structure, found by type and checked by shape.

Embedding   e_j = P LayerNorm(word[x_j] + position[j + offset] + type[0])          (P: ELECTRA's and ALBERT's projection, else 1)
Layers      see `layers`

BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, DistilBERT and ALBERT differ in names only. An `Encoder` holds the network's own
modules, never copies of their weights, so that a network that is trained further stays in step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.models.encoder.layers import Layer

BERT_NAMED = {"bert", "roberta", "xlm-roberta", "camembert", "electra"}
BERT = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "activation": "intermediate.intermediate_act_fn",
    "outer": "output.dense",
    "norm": "output.LayerNorm",
}
"""The parts of a `Layer`, and their names in the modules of an architecture."""
DISTILBERT = {
    "query": "attention.q_lin",
    "key": "attention.k_lin",
    "value": "attention.v_lin",
    "attention_out": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "inner": "ffn.lin1",
    "activation": "ffn.activation",
    "outer": "ffn.lin2",
    "norm": "output_layer_norm",
}
ALBERT = {
    "query": "attention.query",
    "key": "attention.key",
    "value": "attention.value",
    "attention_out": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "inner": "ffn",
    "activation": "activation",
    "outer": "ffn_output",
    "norm": "full_layer_layer_norm",
}


@dataclass(frozen=True)
class Encoder:
    """Embedding tables and layers of a BERT-like encoder.

    `pad_id`: the token that shifts the positions after it (RoBERTa counts positions over all other tokens), if any.
    `unseen`: the token that no position attends to, if any.
    """

    word: nn.Embedding
    position: nn.Embedding
    token_type: nn.Embedding | None
    embedding_norm: nn.LayerNorm
    projection: nn.Linear | None
    layers: tuple[Layer, ...]
    position_offset: int
    pad_id: int | None
    unseen: int | None = None

    def embed(self, ids: Int[Tensor, "n t"], positions: Sequence[int]) -> Float[Tensor, "n t d"]:
        """The first layer's input for tokens `ids` at `positions` of a text."""
        places = (
            torch.arange(positions.start, positions.stop, positions.step, device=ids.device)
            if isinstance(positions, range)
            else torch.tensor(positions, dtype=torch.long, device=ids.device)
        )
        fixed = self.position(places + self.position_offset)
        if self.token_type is not None:
            fixed = fixed + self.token_type.weight[0]
        embedded: Tensor = self.embedding_norm(self.word(ids) + fixed)
        return embedded if self.projection is None else self.projection(embedded)

    def hidden_at(self, ids: Int[Tensor, "n T"], positions: Int[Tensor, "n p"]) -> Float[Tensor, "n p d"]:
        """Last hidden states at `positions` of each row: what Markov chains over texts and decoders ask for.

        The last layer runs at those positions only. At one position its keys and values are never formed (`Layer.at_one`), which
        leaves about L - 1 of the L layers.
        """
        *before, last = self.layers
        states, seen = self.embed(ids, range(ids.shape[1])), None if self.unseen is None else ids != self.unseen
        for layer in before:
            states = layer(states, seen)
        if positions.shape[1] > 1:
            return last.at(states, positions, seen)
        here = states[torch.arange(len(ids), device=ids.device), positions[:, 0]]
        return last.at_one(states, here, seen).unsqueeze(1)


def find_encoder(network: Any) -> Encoder | None:
    """The parts of `network`'s encoder, or None if it does not have BERT's structure."""
    kind, config, base = getattr(network.config, "model_type", None), network.config, network.base_model
    if getattr(config, "position_embedding_type", "absolute") != "absolute" or getattr(config, "is_decoder", False):
        return None
    try:
        if kind in BERT_NAMED:
            modules, names, projection = base.encoder.layer, BERT, getattr(base, "embeddings_project", None)
        elif kind == "distilbert":
            modules, names, projection = base.transformer.layer, DISTILBERT, None
        elif kind == "albert":
            modules, names = _albert_modules(base.encoder, config), ALBERT
            projection = base.encoder.embedding_hidden_mapping_in
        else:
            return None
        embeddings = base.embeddings
        position = embeddings.position_embeddings
        counts_tokens = position.padding_idx is not None
        found = Encoder(
            word=embeddings.word_embeddings,
            position=position,
            token_type=getattr(embeddings, "token_type_embeddings", None),
            embedding_norm=embeddings.LayerNorm,
            projection=projection,
            layers=tuple(layer_of(module, names, config.num_attention_heads) for module in modules),
            position_offset=position.padding_idx + 1 if counts_tokens else 0,
            pad_id=position.padding_idx if counts_tokens else None,
            unseen=getattr(base, "unseen", None),
        )
    except AttributeError:
        return None
    return found if _square(found) else None


def layer_of(module: Any, names: Mapping[str, str], heads: int, fused: bool = True) -> Layer:
    """A layer whose parts are those of `module` with these names."""
    return Layer(**{part: attrgetter(name)(module) for part, name in names.items()}, heads=heads, fused=fused)


def _albert_modules(encoder: Any, config: Any) -> list[Any]:
    """ALBERT runs the layers of one group several times."""
    groups = [int(depth * config.num_hidden_groups / config.num_hidden_layers) for depth in range(config.num_hidden_layers)]
    return [layer for group in groups for layer in encoder.albert_layer_groups[group].albert_layers]


def _square(encoder: Encoder) -> bool:
    """Whether all projections have the width that the heads need and plain weights (no adapters, no quantisation)."""
    if len(encoder.layers) < 2:
        return False
    for layer in encoder.layers:
        linear = (layer.query, layer.key, layer.value, layer.attention_out)
        if any(type(module) is not nn.Linear or module.weight.shape != (module.in_features,) * 2 for module in linear):
            return False
        if any(type(module) is not nn.Linear for module in (layer.inner, layer.outer)):
            return False
        if layer.query.out_features % layer.heads:
            return False
    return True
