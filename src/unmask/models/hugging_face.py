"""Checkpoints that transformers reads: every architecture that our own network is not.

Code that lies in a checkpoint is never run: `trust_remote_code=False` wherever a class is chosen, so nothing is asked on standard
input either.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unmask.errors import InputError, ModelError
from unmask.models.function_network import refuse_causal
from unmask.models.model_types import refuse_type
from unmask.models.source import Source, first_line, quiet_transformers
from unmask.models.text.loading import refuse_foreign_tokenizer, refuse_other_vocabulary, warn_of_few_tokens
from unmask.models.weights import (
    read_tensors,
    refuse_misfit,
    refuse_non_finite,
    refuse_whole_numbers,
    renamed,
    stored_types,
    weight_files,
    why_not_read,
)

COUNTS = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
LEARNED, ROTARY = ("absolute", None), ("rotary", "rope")
"""Values of position_embedding_type that transformers computes; the second only where the architecture has rotary positions."""


def read_network(source: Source, dtype: torch.dtype, rename: Mapping[str, str] | None = None) -> nn.Module:
    """The masked language model of a folder or a hub name; `rename`: see `weights.renamed`."""
    with quiet_transformers():
        config = _load_config(source)
        _refuse_other_kinds(config, source)
        return _load_masked_lm(source, config, dtype, rename or {})


def load_causal(name: str) -> tuple[Any, Any]:
    """A causal language model and its tokenizer, from a folder or a hub name, as safely as a masked one."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    make: Any = AutoModelForCausalLM
    try:
        source = Source(name)
        with quiet_transformers():
            safely: dict[str, Any] = {"local_files_only": source.files_only, "trust_remote_code": False}
            config = _load_config(source)
            tokenizer = AutoTokenizer.from_pretrained(source.name, **safely)
            network, report = make.from_pretrained(source.name, config=config, **safely, output_loading_info=True)
        refuse_misfit(source.name, network.base_model_prefix + ".", report["missing_keys"], report["unexpected_keys"])
        _refuse_whole_numbers(network, source)
        refuse_non_finite(network, source.name)
        embeddings = len(network.get_input_embeddings().weight)
        refuse_foreign_tokenizer(tokenizer, embeddings, source.name, ("bos", "eos"))
        refuse_other_vocabulary(tokenizer, source)
        warn_of_few_tokens(tokenizer, embeddings, source.name)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"causal model {name!r} cannot be loaded ({first_line(error)}): give the name or folder of a causal language model"
        ) from None
    return network.eval(), tokenizer


def _load_config(source: Source) -> Any:
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    try:
        config = AutoConfig.from_pretrained(source.name, local_files_only=source.files_only, trust_remote_code=False)
    except Exception as error:
        if "auto_map" in source.config:
            raise ModelError(
                f"{source.name!r} needs code of its own (auto_map in its config.json), which is never run: "
                "convert it to an architecture that transformers has, or load it yourself and use unmask.MaskedLM.of"
            ) from None
        if source.local:
            known = source.config.get("model_type") in CONFIG_MAPPING_NAMES
            remedy = "use the config that the weights were saved with" if known else "name a known model_type in it"
            raise ModelError(f"config.json of {source.name!r} is not understood ({first_line(error)}): {remedy}") from None
        raise ModelError(
            f"model {source.name!r} is neither a folder here nor reachable on the hub: check the name and the network, "
            "or give a folder"
        ) from None
    for part in (config, *(getattr(config, name, None) for name in getattr(config, "sub_configs", ()))):
        if "/" in (kernel := str(getattr(part, "_attn_implementation", ""))):
            raise ModelError(
                f"{source.name!r} asks for code from the hub (attn_implementation {kernel!r} in its config.json), which is never "
                "run: take that line out"
            )
    _refuse_ignored_settings(config, source)
    return config


def _refuse_ignored_settings(config: Any, source: Source) -> None:
    """Raise for settings that transformers had once, and now passes over: the network would be another than the trained one."""
    positions = getattr(config, "position_embedding_type", None)
    rotary = any(hasattr(config, name) for name in ("rope_theta", "rope_parameters", "rotary_value"))
    if positions not in LEARNED and not (rotary and positions in ROTARY):
        raise ModelError(
            f"config.json of {source.name!r} says position_embedding_type {positions!r}, which transformers does not compute for "
            f"{config.model_type}: use a checkpoint with absolute positions"
        )
    pruned = getattr(config, "pruned_heads", None)
    if pruned:
        raise ModelError(
            f"config.json of {source.name!r} says pruned_heads {pruned!r}, which transformers does not read any more: save the "
            "weights with all heads, zeros for those taken out, and pruned_heads {}"
        )


def _refuse_other_kinds(config: Any, source: Source) -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"{source.name!r} is an encoder-decoder ({config.model_type}): use a masked language model")
    if getattr(config, "is_decoder", False):
        raise ModelError(f"{source.name!r} is a causal model (is_decoder is true in its config): use a masked language model")
    for name in COUNTS:
        count = getattr(config, name, 1)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ModelError(
                f"config.json of {source.name!r} says {name} {count!r}: use the config that the weights were saved with"
            )
    if config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES and config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        if getattr(config, "is_causal", True) is not False:
            raise ModelError(
                f"{source.name!r} is a causal model ({config.model_type}): use a masked language model; a network of this "
                'architecture that was trained to see all tokens has "is_causal": false in its config.json'
            )
    elif config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ModelError(f"{source.name!r} is a {config.model_type} model, which has no masked form: use a masked language model")
    refuse_type(config, source.name)


def _load_masked_lm(source: Source, config: Any, dtype: torch.dtype, rename: Mapping[str, str]) -> nn.Module:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    if source.local:
        weight_files(source.folder)  # raises if there are none
    if rename and not source.local:
        raise InputError(f"rename is for tensors of a folder, and {source.name!r} is a name on the hub: download it to a folder")
    options: dict[str, Any] = {"state_dict": renamed(read_tensors(source.folder), rename)} if rename else {}
    masked = type(config) in MODEL_FOR_MASKED_LM_MAPPING
    kind: Any = (MODEL_FOR_MASKED_LM_MAPPING if masked else MODEL_FOR_CAUSAL_LM_MAPPING)[type(config)]
    try:
        network, report = kind.from_pretrained(
            None if rename else source.name,
            config=config,
            dtype=dtype,
            local_files_only=source.files_only,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            weights_only=True,
            **options,
        )
    except Exception as error:
        raise ModelError(why_not_read(error, source.name)) from None
    misshapen = [str(entry[0]) for entry in report["mismatched_keys"]]
    refuse_misfit(source.name, network.base_model_prefix + ".", report["missing_keys"], report["unexpected_keys"], misshapen)
    _refuse_whole_numbers(network, source, options.get("state_dict"))
    if not masked:
        network.config.use_cache = False
        tokens = network.get_input_embeddings().num_embeddings
        refuse_causal(lambda ids: network(input_ids=ids).logits, 0, tokens, network.device, repr(source.name))
    return network


def _refuse_whole_numbers(network: nn.Module, source: Source, tensors: Mapping[str, Tensor] | None = None) -> None:
    """Of the tensors, or of the files that transformers has just read."""
    if tensors is not None:
        stored = {name: tensor.dtype for name, tensor in tensors.items()}
    elif source.local:
        stored = stored_types(source.folder)
    else:
        from huggingface_hub import try_to_load_from_cache

        stored = stored_types(Path(str(try_to_load_from_cache(source.name, "config.json"))).parent)
    refuse_whole_numbers(stored, [name for name, _ in network.named_parameters(remove_duplicate=False)], source.name)
