"""A causal model of pairs, token by token: the source is read once, and the keys and values of what was read are kept.

    p(y_1 ... y_n, end | s) = prod_t p(y_t | y_<t, s)          position W + t sees the source, whole, and the targets up to itself

The network is our own BERT; what training computes in one pass over a packed row, this computes step by step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from unmask.errors import InputError
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.own_bert import read_own_bert
from unmask.models.pair_layout import PairLayout, read_layout, refuse_other_tokens
from unmask.models.source import Source


class Read:
    """What has been read of n pairs: keys and values of each layer, and which places hold something that may be seen."""

    def __init__(self, keys: list[Tensor], values: list[Tensor], seen: Bool[Tensor, "n L"]) -> None:
        self.keys, self.values, self.seen = keys, values, seen

    def take(self, rows: Int[Tensor, " m"]) -> Read:
        """What has been read of some rows, which may be named several times."""
        return Read([k[rows] for k in self.keys], [v[rows] for v in self.values], self.seen[rows])


class CausalPairs:
    """Next-token log-probabilities of translations; special tokens but the end token are ruled out."""

    def __init__(self, network: BertMaskedLM, layout: PairLayout, special: Int[Tensor, " s"]) -> None:
        self.network, self.layout = network.eval(), layout
        self.device = next(network.parameters()).device
        ruled_out = torch.zeros(network.config.vocab_size, dtype=torch.bool)
        ruled_out[special] = True
        ruled_out[layout.end] = False
        self.ruled_out = ruled_out.to(self.device)

    @torch.no_grad()
    def read(self, rooms: Int[Tensor, "n W"]) -> tuple[Read, Float[Tensor, "n V"]]:
        """Read sources in their rooms; log p(y_1 | s)."""
        bert = self.network.bert
        states, there = bert.embeddings(rooms), rooms != self.layout.pad
        keys, values = [], []
        for layer in bert.encoder.layer:
            keys.append(_split(layer, "key", states))
            values.append(_split(layer, "value", states))
            states = layer(states, there[:, None, None, :])
        last = there.sum(1) - 1
        first = self._log_probs(states[torch.arange(len(rooms), device=self.device), last])
        return Read(keys, values, there), first

    @torch.no_grad()
    def step(self, read: Read, tokens: Int[Tensor, " n"], place: int) -> Float[Tensor, "n V"]:
        """Read one more token of each translation, its `place`-th from 0; log-probabilities of the one after it."""
        embeddings = self.network.bert.embeddings
        states = embeddings.word_embeddings(tokens) + embeddings.token_type_embeddings.weight[0]
        states = embeddings.LayerNorm(states + embeddings.position_embeddings.weight[self.layout.source_length + place])
        states = states.unsqueeze(1)
        read.seen = torch.cat([read.seen, read.seen.new_ones(len(tokens), 1)], 1)
        for number, layer in enumerate(self.network.bert.encoder.layer):
            read.keys[number] = torch.cat([read.keys[number], _split(layer, "key", states)], 2)
            read.values[number] = torch.cat([read.values[number], _split(layer, "value", states)], 2)
            query, mask = _split(layer, "query", states), read.seen[:, None, None, :]
            mixed = functional.scaled_dot_product_attention(query, read.keys[number], read.values[number], attn_mask=mask)
            states = layer.after_attention(states, mixed)
        return self._log_probs(states[:, 0])

    def _log_probs(self, states: Float[Tensor, "n d"]) -> Float[Tensor, "n V"]:
        return self.network.head(states).float().log_softmax(-1).masked_fill(self.ruled_out, -torch.inf)


def load_causal_pairs(folder: Path, tokenizer: Tokenizer, device: torch.device, dtype: torch.dtype) -> CausalPairs:
    """The causal model of pairs that `unmask train --parallel SOURCE TARGET --objective causal` has left in a folder."""
    layout, objective = read_layout(folder, tokenizer.get_vocab())
    if objective != "causal":
        raise InputError(f"model {str(folder)!r} is a masked model: give one that was trained with --objective causal")
    network = read_own_bert(Source(str(folder)), dtype, decoder=True)
    if network is None:
        raise InputError(f"the weights in {str(folder)!r} are not those of its config.json: train the model again")
    refuse_other_tokens(folder, tokenizer.get_vocab(), network.config.vocab_size)
    special = [i for i, token in tokenizer.get_added_tokens_decoder().items() if token.special]
    return CausalPairs(network.to(device), layout, torch.tensor(special))


def _split(layer: Any, name: str, states: Float[Tensor, "n t d"]) -> Float[Tensor, "n h t e"]:
    split: Tensor = layer.attention.self[name](states).unflatten(-1, (layer.heads, -1)).transpose(1, 2)
    return split
