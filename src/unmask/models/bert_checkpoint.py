"""A BERT's folder, read straight into our own network: config.json and model.safetensors, and
nothing of transformers.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from unmask.models.checkpoint_files import WEIGHTS, Source, read_tensors
from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.weight_checks import refuse_whole_numbers, unused_by_logits

NEW_ENDINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""By the ending of a tensor's name in old checkpoints, that in new ones."""


def read_own_bert(source: Source, dtype: torch.dtype, decoder: bool = False) -> BertMaskedLM | None:
    """The network in evaluation mode; None if the folder does not hold exactly its tensors.

    transformers reads the folder then. Tensors that logits do not use (pooler, next sentence) may
    lie beside.

    decoder   whether a causal model's weights are read, too; the caller does not let positions
              look ahead
    """
    config = dict(source.config)
    if decoder:
        config.pop("is_decoder", None)
    path = source.folder / WEIGHTS
    shape = BertShape.of(config) if source.local else None
    if shape is None or not path.is_file():
        return None
    network = BertMaskedLM(shape)
    tensors = _tensors_for(network, path)
    if tensors is None:
        return None
    refuse_whole_numbers(source.folder)
    tied = network.tied()
    state = {name: tensor.to(dtype) for name, tensor in tensors.items() if name not in tied}
    for name, same in tied.items():
        state[name] = state[same]
    network.load_state_dict(state, assign=True)
    network.tie()
    return network.eval()


def _tensors_for(network: BertMaskedLM, path: Path) -> dict[str, Tensor] | None:
    """The tensors of a file by the network's names; None if they are not the network's in number
    and shape, or if two differ that it ties.
    """
    tensors = {}
    for stored_name, tensor in read_tensors(path).items():
        name = _new_name(stored_name)
        if not unused_by_logits(name):
            tensors[name] = tensor
    for name, same in network.tied().items():
        if same not in tensors:
            return None
        if name not in tensors:
            tensors[name] = tensors[same]
        elif not torch.equal(tensors[name].float(), tensors[same].float()):
            return None  # compared as float32, since numbers of 8 bits do not compare
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    wanted = {name: tensor.shape for name, tensor in network.state_dict().items()}
    return tensors if shapes == wanted else None


def _new_name(name: str) -> str:
    for old, new in NEW_ENDINGS.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name
