"""Networks from a folder or the hub.

A BERT's folder goes straight into our own network (`bert_checkpoint`). Everything else, and a
folder with any unrecognised setting, is read by transformers. A checkpoint that is not a masked
language model is refused in one line. Code that lies in a checkpoint is never run:
`trust_remote_code=False` wherever a class is chosen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unmask.common.checks import shown
from unmask.common.errors import ModelError, argument_name
from unmask.common.files import first_line
from unmask.models.bert_checkpoint import read_own_bert
from unmask.models.checkpoint_files import (
    Source,
    refuse_no_weights,
    refuse_pointers,
    unreadable_weights,
)
from unmask.models.loading_turns import LOADING, quiet_transformers
from unmask.models.model_types import refuse_type
from unmask.models.probes import refuse_causal
from unmask.models.text.tokenizer_checks import (
    refuse_foreign_tokenizer,
    refuse_other_vocabulary,
    warn_of_few_tokens,
)
from unmask.models.weight_checks import refuse_misfit, refuse_non_finite, refuse_whole_numbers

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
PAIR_FILE = "translation.json"
"""In the folder of a model that was trained to translate (`unmask.models.pair_layout`)."""


def resolve_dtype(dtype: object) -> torch.dtype:
    """The number format that a name stands for; "auto" is float32 on every device."""
    remedy = f"use auto, {', '.join(DTYPES)}"
    if not isinstance(dtype, str | torch.dtype):
        raise ModelError(f"{argument_name('dtype')} {shown(dtype)} is not known: {remedy}")
    name = str(dtype).removeprefix("torch.")
    if name == "auto":
        return torch.float32
    if name not in DTYPES:
        raise ModelError(f"{argument_name('dtype')} {name!r} is not known: {remedy}")
    return DTYPES[name]


def is_pair_model(folder: Path) -> bool:
    """Whether a folder holds a model that was trained to translate."""
    # Not `Path.is_file`, which raises OSError for a name that is too long for a path.
    return os.path.isfile(folder / PAIR_FILE)


def load_network(source: Source, device: torch.device, dtype: torch.dtype) -> nn.Module:
    """The masked language model in evaluation mode on `device`."""
    with LOADING:
        network: nn.Module | None = read_own_bert(source, dtype)
        if network is None:
            network = _by_transformers(source, dtype)
    refuse_non_finite(network, source.name)
    return network.to(device).eval()


def _by_transformers(source: Source, dtype: torch.dtype) -> nn.Module:
    """The masked language model of a folder or a hub name, as transformers reads it."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
    )

    with quiet_transformers():
        config = _load_config(source)
        _refuse_other_kinds(config, source)
        kind = type(config)
        if kind in MODEL_FOR_MASKED_LM_MAPPING:
            return _load_as(MODEL_FOR_MASKED_LM_MAPPING[kind], source, config, dtype=dtype)
        # The architecture is that of causal models, but config.json says that this network sees all
        # tokens ("is_causal": false). Its logits show whether this is so.
        network: Any = _load_as(MODEL_FOR_CAUSAL_LM_MAPPING[kind], source, config, dtype=dtype)
        network.config.use_cache = False
        refuse_causal(
            lambda ids: network(input_ids=ids).logits,
            mask_id=0,  # the tokenizer is not read yet, and every network knows this id
            vocab_size=network.get_input_embeddings().num_embeddings,
            device=network.device,
            name=repr(source.name),
        )
        return network


def load_causal(name: str) -> tuple[Any, Any]:
    """A causal language model and its tokenizer, from a folder or a hub name, as safely as a
    masked one.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        source = Source(name)
        with quiet_transformers():
            config = _load_config(source)
            tokenizer = AutoTokenizer.from_pretrained(
                source.name, local_files_only=source.files_only, trust_remote_code=False
            )
            network = _load_as(AutoModelForCausalLM, source, config, trust_remote_code=False)
        refuse_non_finite(network, source.name)
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
    """The configuration as transformers reads it; raises ModelError if it asks for code."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(
            source.name, local_files_only=source.files_only, trust_remote_code=False
        )
    except Exception as error:
        raise _unreadable_config(source, error) from None
    parts = [config]
    for name in getattr(config, "sub_configs", ()):
        parts.append(getattr(config, name, None))
    for part in parts:
        kernel = str(getattr(part, "_attn_implementation", ""))
        if "/" in kernel:  # the name of a repository on the hub
            raise ModelError(
                f"{source.name!r} asks for code from the hub (attn_implementation {kernel!r} in its"
                " config.json), which is never run: take that line out"
            )
    return config


def _unreadable_config(source: Source, error: Exception) -> ModelError:
    """The error for a configuration that transformers could not read."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if "auto_map" in source.config:
        return ModelError(
            f"{source.name!r} needs code of its own (auto_map in its config.json), which is"
            " never run: convert it to an architecture that transformers has, or load it"
            " yourself and use unmask.MaskedLM.of"
        )
    if not source.local:
        return ModelError(
            f"model {source.name!r} is neither a folder here nor reachable on the hub: check the"
            " name and the network, or give a folder"
        )
    if source.config.get("model_type") in CONFIG_MAPPING_NAMES:
        remedy = "use the config that the weights were saved with"
    else:
        remedy = "name a known model_type in it"
    return ModelError(
        f"config.json of {source.name!r} is not understood ({first_line(error)}): {remedy}"
    )


def _refuse_other_kinds(config: Any, source: Source) -> None:
    """Raise ModelError unless a configuration is that of a masked language model."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = config.model_type
    has_masked_form = kind in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    has_causal_form = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    sees_all_tokens = getattr(config, "is_causal", True) is False
    if getattr(config, "is_encoder_decoder", False):
        raise _not_masked(source, f"an encoder-decoder ({kind})")
    if getattr(config, "is_decoder", False):
        raise _not_masked(source, "a causal model (is_decoder is true in its config)")
    if not has_masked_form and not has_causal_form:
        raise _not_masked(source, f"a {kind} model, which has no masked form")
    if not has_masked_form and not sees_all_tokens:
        raise ModelError(
            f"{source.name!r} is a causal model ({kind}): use a masked language model; a network of"
            ' this architecture that was trained to see all tokens has "is_causal": false in its'
            " config.json"
        )
    refuse_type(config, source.name)


def _not_masked(source: Source, what: str) -> ModelError:
    return ModelError(f"{source.name!r} is {what}: use a masked language model")


def _load_as(network_class: Any, source: Source, config: Any, **options: Any) -> Any:
    """A network of one of transformers' classes.

    Raises ModelError if its tensors are not those of the files.
    """
    if source.local:
        refuse_no_weights(source.folder)
    try:
        network, report = network_class.from_pretrained(
            source.name,
            config=config,
            local_files_only=source.files_only,
            weights_only=True,  # a pickle that holds anything else is refused
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are refused below, by name
            **options,
        )
    except Exception as error:
        if source.local:
            refuse_pointers(source.folder, "*.safetensors", "*.bin", "*.index.json")
        raise unreadable_weights(error, source.name) from None
    misshapen = []
    for name, *_shapes in report["mismatched_keys"]:
        misshapen.append(str(name))
    refuse_misfit(
        source.name,
        prefix=network.base_model_prefix + ".",
        missing=report["missing_keys"],
        unexpected=report["unexpected_keys"],
        misshapen=misshapen,
    )
    if source.local:
        refuse_whole_numbers(source.folder)
    return network
