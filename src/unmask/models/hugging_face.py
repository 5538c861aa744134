"""Checkpoints that transformers reads: every architecture that our own network is not.

Loading changes global state of transformers (its verbosity, its progress bars), so it happens under one lock. Code that lies
in a checkpoint is never run: `trust_remote_code=False` in every call, which also means that nothing is asked on standard input.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unmask.errors import ModelError
from unmask.models.source import Source, first_line

UNUSED_BY_LOGITS = ("pooler.", "contact_head.", "seq_relationship.", "position_ids")
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.index.json")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "*.model", "*.bpe")
_LOADING = threading.RLock()


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """One thread at a time, without progress bars and load reports; the settings come back afterwards."""
    from transformers.utils import logging

    with _LOADING:
        hub = getLogger("huggingface_hub")
        verbosity, hub_level, bars = logging.get_verbosity(), hub.level, logging.is_progress_bar_enabled()
        logging.set_verbosity(CRITICAL)
        hub.setLevel(CRITICAL)
        logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            hub.setLevel(hub_level)
            if bars:
                logging.enable_progress_bar()


def load_network(source: Source, dtype: torch.dtype) -> nn.Module:
    """The masked language model of a folder or a hub name."""
    with quiet_transformers():
        _refuse_other_kinds(_load_config(source), source)
        return _load_masked_lm(source, dtype)


def load_tokenizer(source: Source) -> Any:
    """The tokenizer of a folder or a hub name; a bare vocab.txt in the folder or its parent is enough.

    Such a vocabulary does not say whether text is to be lowered; it is when no token of it has a capital.
    """
    with quiet_transformers():
        return _load_tokenizer(source)


def _load_tokenizer(source: Source) -> Any:
    from transformers import AutoTokenizer, BertTokenizer

    make: Any = AutoTokenizer
    where, options = source.name, {}
    if source.local:
        folder = source.folder
        if not any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES):
            beside, above = folder / "vocab.txt", folder.resolve().parent / "vocab.txt"
            vocabulary = beside if beside.is_file() else above
            if not vocabulary.is_file():
                raise ModelError(f"folder {source.name!r} has no tokenizer: put tokenizer.json (or vocab.txt) beside the weights")
            tokens = vocabulary.read_text(encoding="utf-8").split("\n")
            cased = any(token != token.lower() for token in tokens if not token.startswith(("[", "<")))
            options = {"do_lower_case": not cased}
            if vocabulary is above:
                make, where = BertTokenizer, str(above.parent)
    try:
        return make.from_pretrained(where, local_files_only=source.files_only, trust_remote_code=False, **options)
    except Exception as error:
        raise ModelError(
            f"the tokenizer of {source.name!r} cannot be read ({first_line(error)}): save it beside the model"
        ) from None


def _load_config(source: Source) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(source.name, local_files_only=source.files_only, trust_remote_code=False)
    except Exception as error:
        if source.local:
            raise ModelError(
                f"config.json of {source.name!r} is not understood ({first_line(error)}): name a known model_type in it"
            ) from None
        raise ModelError(
            f"model {source.name!r} is neither a folder here nor reachable on the hub: check the name and the network, "
            "or give a folder"
        ) from None


def _refuse_other_kinds(config: Any, source: Source) -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"{source.name!r} is an encoder-decoder ({config.model_type}): use a masked language model")
    if getattr(config, "is_decoder", False):
        raise ModelError(f"{source.name!r} is a causal model (is_decoder is true in its config): use a masked language model")
    if config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ModelError(f"{source.name!r} is a {config.model_type} model, which has no masked form: use a masked language model")


def _load_masked_lm(source: Source, dtype: torch.dtype) -> nn.Module:
    from transformers import AutoModelForMaskedLM

    if source.local and not any(any(Path(source.name).glob(pattern)) for pattern in WEIGHT_FILES):
        raise ModelError(f"folder {source.name!r} has no weights: put model.safetensors beside config.json")
    try:
        network, report = AutoModelForMaskedLM.from_pretrained(
            source.name,
            dtype=dtype,
            local_files_only=source.files_only,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            trust_remote_code=False,
        )
    except Exception as error:
        raise ModelError(_why_not_loaded(error, source)) from None
    misshapen = sorted(str(entry[0]) for entry in report["mismatched_keys"])
    if misshapen:
        raise ModelError(
            f"{len(misshapen)} tensors of {source.name!r}, {misshapen[0]!r} first, do not have the shapes that its config.json "
            "states: use the config that the weights were saved with"
        )
    missing = sorted(key for key in report["missing_keys"] if not any(part in key for part in UNUSED_BY_LOGITS))
    if missing:
        prefix = network.base_model_prefix + "."
        part = "encoder" if any(key.startswith(prefix) for key in missing) else "masked-language-model head"
        raise ModelError(
            f"the {part} of {source.name!r} is missing ({len(missing)} tensors, {missing[0]!r} first): "
            "use a checkpoint saved with its masked-language-model head"
        )
    return network


def _why_not_loaded(error: Exception, source: Source) -> str:
    told = f"{type(error).__name__} {error}".lower()
    if "safetensor" in type(error).__name__.lower():
        return f"the safetensors file of {source.name!r} is truncated or corrupt ({first_line(error)}): copy it again"
    if "unpickling" in told or "weights_only" in told or "weights only" in told:
        return f"the weights of {source.name!r} are a pickle that holds more than weights: save them as safetensors"
    return f"the weights of {source.name!r} cannot be read ({first_line(error)}): check the files, or save the checkpoint again"
