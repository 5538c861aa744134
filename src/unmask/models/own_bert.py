"""A BERT checkpoint's folder straight into our own network: config.json and model.safetensors, nothing of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.source import Source
from unmask.models.weights import read_file, refuse_whole_numbers, renamed

WEIGHTS = "model.safetensors"
UNUSED_BY_LOGITS = ("bert.pooler.", "cls.seq_relationship.", "bert.embeddings.position_ids", "bert.embeddings.token_type_ids")
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def read_own_bert(
    source: Source, dtype: torch.dtype, rename: Mapping[str, str] | None = None, decoder: bool = False
) -> BertMaskedLM | None:
    """The network, or None where the folder holds anything else than exactly its tensors: transformers reads it then.

    Tensors that logits do not use (pooler, next sentence) may lie beside. `rename`: see `weights.renamed`.
    `decoder`: read a causal model's weights, whose caller does not let positions look ahead.
    """
    config = {key: value for key, value in source.config.items() if not (decoder and key == "is_decoder")}
    shape = BertShape.of(config) if source.local else None
    if shape is None or not (source.folder / WEIGHTS).is_file():
        return None
    network = BertMaskedLM(shape)
    tensors = _tensors_for(network, source.folder / WEIGHTS, rename or {})
    if tensors is None:
        return None
    tied = network.tied()
    converted = {name: tensor.to(dtype) for name, tensor in tensors.items() if name not in tied}
    network.load_state_dict(converted | {name: converted[of] for name, of in tied.items()}, assign=True)
    network.tie()
    return network.eval()


def _tensors_for(network: BertMaskedLM, path: Path, rename: Mapping[str, str]) -> dict[str, Tensor] | None:
    """The file's tensors, if they are the network's, in number and shape."""
    stored = renamed(read_file(path), rename)
    tensors = {_new_name(name): tensor for name, tensor in stored.items() if not name.startswith(UNUSED_BY_LOGITS)}
    for name, of in network.tied().items():
        if of not in tensors or not torch.equal(tensors.setdefault(name, tensors[of]), tensors[of]):
            return None
    expected = {name: tensor.shape for name, tensor in network.state_dict().items()}
    if expected != {name: tensor.shape for name, tensor in tensors.items()}:
        return None
    refuse_whole_numbers({_new_name(name): tensor.dtype for name, tensor in stored.items()}, expected, str(path.parent))
    return tensors


def _new_name(name: str) -> str:
    for old, new in OLD_NAMES.items():
        name = name.removesuffix(old) + new if name.endswith(old) else name
    return name
