"""Checkpoints from a folder or the hub: the one way in for weights and tokenizers.

A BERT's folder goes straight into our own network (config.json and model.safetensors, nothing
of transformers). Everything else, and a folder with any unrecognised setting, is read by
transformers. A checkpoint that is not a masked language model is refused in one line. Code that
lies in a checkpoint is never run: `trust_remote_code=False` wherever a class is chosen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unmask.common.checks import shown
from unmask.common.errors import ModelError
from unmask.common.files import first_line
from unmask.models import checkpoint_files as files
from unmask.models.checkpoint_files import LOADING, Source, quiet_transformers
from unmask.models.encoder.bert import BertMaskedLM, BertShape
from unmask.models.model_types import refuse_type
from unmask.models.probes import refuse_causal
from unmask.models.text.tokenizer_checks import (
    refuse_foreign_tokenizer,
    refuse_other_vocabulary,
    warn_of_few_tokens,
)

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
UNLIMITED = 10**9
WEIGHTS = "model.safetensors"
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
# In the folder of a model that was trained to translate (`unmask.studies.translation.pairs`).
PAIR_FILE = "translation.json"


def resolve_dtype(dtype: object) -> torch.dtype:
    """The number format named; "auto" is float32 on every device."""
    if not isinstance(dtype, str | torch.dtype):
        raise ModelError(f"dtype {shown(dtype)} is not known: use auto, {', '.join(DTYPES)}")
    name = str(dtype).removeprefix("torch.")
    if name != "auto" and name not in DTYPES:
        raise ModelError(f"dtype {name!r} is not known: use auto, {', '.join(DTYPES)}")
    return DTYPES.get(name, torch.float32)


def is_pair_model(folder: Path) -> bool:
    """Whether a folder holds a model that was trained to translate."""
    return os.path.isfile(folder / PAIR_FILE)  # False also for a name that no path can have


def load_network(source: Source, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """The network in evaluation mode on `device`. A folder is read without touching the
    internet.
    """
    with LOADING:
        network: nn.Module = read_own_bert(source, dtype) or _by_transformers(source, dtype)
    files.refuse_non_finite(network, source.name)
    return network.to(device).eval()


def read_own_bert(source: Source, dtype: torch.dtype, decoder: bool = False) -> BertMaskedLM | None:
    """The network, or None if the folder does not hold exactly its tensors: transformers reads
    it then.

    Tensors that logits do not use (pooler, next sentence) may lie beside.
    `decoder`: read a causal model's weights, whose caller does not let positions look ahead.
    """
    config = {
        key: value for key, value in source.config.items() if not (decoder and key == "is_decoder")
    }
    shape = BertShape.of(config) if source.local else None
    if shape is None or not (source.folder / WEIGHTS).is_file():
        return None
    network = BertMaskedLM(shape)
    tensors = _tensors_for(network, source.folder / WEIGHTS)
    if tensors is None:
        return None
    files.refuse_whole_numbers(source.folder)
    tied = network.tied()
    converted = {name: tensor.to(dtype) for name, tensor in tensors.items() if name not in tied}
    network.load_state_dict(
        converted | {name: converted[of] for name, of in tied.items()}, assign=True
    )
    network.tie()
    return network.eval()


def _tensors_for(network: BertMaskedLM, path: Path) -> dict[str, Tensor] | None:
    """The file's tensors, if they are the network's, in number and shape."""
    tensors = {}
    for name, tensor in files.read_tensors(path).items():
        for old, new in OLD_NAMES.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        if not files.unused_by_logits(name):
            tensors[name] = tensor
    for name, of in network.tied().items():
        if of not in tensors:
            return None
        copy = tensors.setdefault(name, tensors[of])
        if copy is not tensors[of] and not torch.equal(
            copy.float(), tensors[of].float()
        ):  # numbers of 8 bits do not compare
            return None
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    return (
        tensors
        if shapes == {name: tensor.shape for name, tensor in network.state_dict().items()}
        else None
    )


def load_causal(name: str) -> tuple[Any, Any]:
    """A causal language model and its tokenizer, from a folder or a hub name, as safely as a
    masked one.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        source = Source(name)
        with quiet_transformers():
            config, local = _load_config(source), source.files_only
            tokenizer = AutoTokenizer.from_pretrained(
                source.name, local_files_only=local, trust_remote_code=False
            )
            network = _load_as(AutoModelForCausalLM, source, config, trust_remote_code=False)
        files.refuse_non_finite(network, source.name)
        embeddings = len(network.get_input_embeddings().weight)
        refuse_foreign_tokenizer(tokenizer, embeddings, source.name, ("bos", "eos"))
        refuse_other_vocabulary(tokenizer, source)
        warn_of_few_tokens(tokenizer, embeddings, source.name)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"causal model {name!r} cannot be loaded ({first_line(error)}): give the name or folder"
            " of a causal language model"
        ) from None
    return network.eval(), tokenizer


def _load_config(source: Source) -> Any:
    """The configuration; raises if it asks for code."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    where = f"config.json of {source.name!r}"
    try:
        config = AutoConfig.from_pretrained(
            source.name, local_files_only=source.files_only, trust_remote_code=False
        )
    except Exception as error:
        if "auto_map" in source.config:
            raise ModelError(
                f"{source.name!r} needs code of its own (auto_map in its config.json), which is"
                " never run: convert it to an architecture that transformers has, or load it"
                " yourself and use unmask.MaskedLM.of"
            ) from None
        if source.local:
            known = source.config.get("model_type") in CONFIG_MAPPING_NAMES
            remedy = (
                "use the config that the weights were saved with"
                if known
                else "name a known model_type in it"
            )
            raise ModelError(f"{where} is not understood ({first_line(error)}): {remedy}") from None
        raise ModelError(
            f"model {source.name!r} is neither a folder here nor reachable on the hub: check the"
            " name and the network, or give a folder"
        ) from None
    for part in (
        config,
        *(getattr(config, name, None) for name in getattr(config, "sub_configs", ())),
    ):
        if "/" in (kernel := str(getattr(part, "_attn_implementation", ""))):
            raise ModelError(
                f"{source.name!r} asks for code from the hub (attn_implementation {kernel!r} in its"
                " config.json), which is never run: take that line out"
            )
    return config


def _refuse_other_kinds(config: Any, source: Source) -> None:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind, other = config.model_type, ""
    if getattr(config, "is_encoder_decoder", False):
        other = f"an encoder-decoder ({kind})"
    elif getattr(config, "is_decoder", False):
        other = "a causal model (is_decoder is true in its config)"
    elif (
        kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    ):
        other = f"a {kind} model, which has no masked form"
    if other:
        raise ModelError(f"{source.name!r} is {other}: use a masked language model")
    if (
        kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and getattr(config, "is_causal", True) is not False
    ):
        raise ModelError(
            f"{source.name!r} is a causal model ({kind}): use a masked language model; a network of"
            ' this architecture that was trained to see all tokens has "is_causal": false in its'
            " config.json"
        )
    refuse_type(config, source.name)


def _by_transformers(source: Source, dtype: torch.dtype) -> nn.Module:
    """The masked language model of a folder or a hub name."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
    )

    with quiet_transformers():
        config = _load_config(source)
        _refuse_other_kinds(config, source)
        masked = type(config) in MODEL_FOR_MASKED_LM_MAPPING
        kind = (MODEL_FOR_MASKED_LM_MAPPING if masked else MODEL_FOR_CAUSAL_LM_MAPPING)[
            type(config)
        ]
        network = _load_as(kind, source, config, dtype=dtype)
        if not masked:
            network.config.use_cache = False
            tokens = network.get_input_embeddings().num_embeddings
            refuse_causal(
                lambda ids: network(input_ids=ids).logits,
                0,
                tokens,
                network.device,
                repr(source.name),
            )
    return network


def _load_as(kind: Any, source: Source, config: Any, **options: Any) -> Any:
    """A network of one of transformers' classes; refused if its tensors are not those of the
    files.
    """
    if source.local:
        files.refuse_no_weights(source.folder)
    safely = {"local_files_only": source.files_only, "weights_only": True}
    checked = {"output_loading_info": True, "ignore_mismatched_sizes": True}
    try:
        network, report = kind.from_pretrained(
            source.name, config=config, **safely, **checked, **options
        )
    except Exception as error:
        if source.local:
            files.refuse_pointers(source.folder, "*.safetensors", "*.bin", "*.index.json")
        raise ModelError(files.why_not_read(error, source.name)) from None
    misshapen = [str(entry[0]) for entry in report["mismatched_keys"]]
    prefix = network.base_model_prefix + "."
    files.refuse_misfit(
        source.name, prefix, report["missing_keys"], report["unexpected_keys"], misshapen
    )
    if source.local:
        files.refuse_whole_numbers(source.folder)
    return network


def longest_text(network: Any, tokenizer: Any) -> int | None:
    """The most tokens a row may have, start and end included; None: no limit.

    RoBERTa and its kin number positions from padding_idx + 1, so their table of 514 positions
    takes 512 tokens. YOSO and Nystromformer number them from 2, in a table that is 2 longer
    than the list of numbers that they read.
    """
    embeddings = getattr(network.base_model, "embeddings", None)
    table: Any = getattr(embeddings, "position_embeddings", None)
    if isinstance(getattr(table, "weight", None), Tensor):
        padding, numbers = (
            getattr(table, "padding_idx", None),
            getattr(embeddings, "position_ids", None),
        )
        rows = len(table.weight) - (0 if padding is None else padding + 1)
        return rows if numbers is None else min(rows, numbers.shape[-1])
    config = (
        network.config.get_text_config()
        if hasattr(network.config, "get_text_config")
        else network.config
    )
    limit = getattr(config, "max_position_embeddings", None) or getattr(
        tokenizer, "model_max_length", None
    )
    return int(limit) if limit and 0 < limit < UNLIMITED else None


def input_size(network: Any) -> int:
    """The number of token ids that the network takes; Perceiver gives its latents for its
    embeddings.
    """
    weight = getattr(network.get_input_embeddings(), "weight", None)
    return int(network.config.vocab_size if weight is None else weight.shape[0])
