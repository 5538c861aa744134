"""The parts of an encoder with BERT's layer structure, found by type and checked by shape.

Embedding   e_j = P LayerNorm(word[x_j] + position[j + offset] + type[0])          (P: ELECTRA's and ALBERT's projection, else 1)
Layers      see `layers`

BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA, DistilBERT and ALBERT differ in names only. An `Encoder` holds the network's own
modules, never copies of their weights, so that a network that is trained further stays in step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.models.encoder.layers import Layer

BERT_NAMED = {"bert", "roberta", "xlm-roberta", "camembert", "electra"}


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
        heads = config.num_attention_heads
        if kind in BERT_NAMED:
            layers = [bert_layer(layer, heads) for layer in base.encoder.layer]
            projection = getattr(base, "embeddings_project", None)
        elif kind == "distilbert":
            layers, projection = [_distilbert_layer(layer, heads) for layer in base.transformer.layer], None
        elif kind == "albert":
            layers, projection = _albert_layers(base.encoder, config), base.encoder.embedding_hidden_mapping_in
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
            layers=tuple(layers),
            position_offset=position.padding_idx + 1 if counts_tokens else 0,
            pad_id=position.padding_idx if counts_tokens else None,
            unseen=getattr(base, "unseen", None),
        )
    except AttributeError:
        return None
    return found if _square(found) else None


def bert_layer(layer: Any, heads: int, fused: bool = True) -> Layer:
    """A layer whose parts have the names of Hugging Face's BERT."""
    attention, out = layer.attention.self, layer.attention.output
    return Layer(
        query=attention.query,
        key=attention.key,
        value=attention.value,
        attention_out=out.dense,
        attention_norm=out.LayerNorm,
        inner=layer.intermediate.dense,
        activation=layer.intermediate.intermediate_act_fn,
        outer=layer.output.dense,
        norm=layer.output.LayerNorm,
        heads=heads,
        fused=fused,
    )


def _distilbert_layer(layer: Any, heads: int) -> Layer:
    attention = layer.attention
    return Layer(
        query=attention.q_lin,
        key=attention.k_lin,
        value=attention.v_lin,
        attention_out=attention.out_lin,
        attention_norm=layer.sa_layer_norm,
        inner=layer.ffn.lin1,
        activation=layer.ffn.activation,
        outer=layer.ffn.lin2,
        norm=layer.output_layer_norm,
        heads=heads,
    )


def _albert_layers(encoder: Any, config: Any) -> list[Layer]:
    """ALBERT runs the layers of one group several times."""
    layers = []
    for depth in range(config.num_hidden_layers):
        group = encoder.albert_layer_groups[int(depth * config.num_hidden_groups / config.num_hidden_layers)]
        for layer in group.albert_layers:
            attention = layer.attention
            layers.append(
                Layer(
                    query=attention.query,
                    key=attention.key,
                    value=attention.value,
                    attention_out=attention.dense,
                    attention_norm=attention.LayerNorm,
                    inner=layer.ffn,
                    activation=layer.activation,
                    outer=layer.ffn_output,
                    norm=layer.full_layer_layer_norm,
                    heads=config.num_attention_heads,
                )
            )
    return layers


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
