"""Checkpoints from a folder or the hub, refused in one line where they cannot serve as a masked language model."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import nn

from unmask.errors import ModelError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}
UNUSED_BY_LOGITS = ("pooler.", "contact_head.", "seq_relationship.", "position_ids")
UNLIMITED = 10**9
PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.index.json")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "*.model", "*.bpe")


def resolve_device(device: str | torch.device) -> torch.device:
    """The device named; "auto" is CUDA where there is one, else the CPU."""
    if isinstance(device, torch.device):
        return device
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ModelError(f"device {device!r} is not known: use auto, cpu, cuda or cuda:N") from None
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"device {device!r} was asked for, but this torch sees no CUDA device: use cpu")
    return found


def resolve_dtype(dtype: str | torch.dtype) -> torch.dtype:
    """The number format named; "auto" is float32 on every device."""
    if isinstance(dtype, torch.dtype):
        dtype = str(dtype).removeprefix("torch.")
    if dtype == "auto":
        return torch.float32
    if dtype not in DTYPES:
        raise ModelError(f"dtype {dtype!r} is not known: use auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def load_checkpoint(name_or_path: str | Path, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, Any]:
    """The network in evaluation mode on `device`, and its tokenizer. A folder is read without touching the network."""
    source = _Source(str(name_or_path))
    with quiet_transformers():
        _refuse_other_kinds(_load_config(source), source)
        network = _load_network(source, dtype)
        tokenizer = load_tokenizer(source.name, source.local, source.files_only)
    _refuse_unusable_tokenizer(tokenizer, source)
    return network.to(device).eval(), tokenizer


def load_tokenizer(name: str, local: bool, files_only: bool = True) -> Any:
    """The tokenizer of a folder (`local`) or a hub name; a bare vocab.txt in the folder or its parent is enough.

    Such a vocabulary does not say whether text is to be lowered; it is when no token of it has a capital.
    """
    from transformers import AutoTokenizer, BertTokenizer

    make: Any = AutoTokenizer
    where, options = name, {}
    if local:
        folder = Path(name)
        if not any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES):
            beside, above = folder / "vocab.txt", folder.resolve().parent / "vocab.txt"
            vocabulary = beside if beside.is_file() else above
            if not vocabulary.is_file():
                raise ModelError(f"folder {name!r} has no tokenizer: put tokenizer.json (or vocab.txt) beside the weights")
            tokens = vocabulary.read_text(encoding="utf-8").split("\n")
            cased = any(token != token.lower() for token in tokens if not token.startswith(("[", "<")))
            options = {"do_lower_case": not cased}
            if vocabulary is above:
                make, where = BertTokenizer, str(above.parent)
    try:
        return make.from_pretrained(where, local_files_only=files_only, **options)
    except Exception as error:
        raise ModelError(f"the tokenizer of {name!r} cannot be read ({_first_line(error)}): save it beside the model") from None


def longest_text(network: Any, tokenizer: Any) -> int | None:
    """The most tokens a row may have, start and end included; None where nothing limits it.

    RoBERTa and its kin number positions from padding_idx + 1, so their table of 514 positions takes 512 tokens.
    """
    table = getattr(getattr(network.base_model, "embeddings", None), "position_embeddings", None)
    if isinstance(table, nn.Embedding):
        return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    limit = getattr(network.config, "max_position_embeddings", None) or getattr(tokenizer, "model_max_length", None)
    return int(limit) if limit and 0 < limit < UNLIMITED else None


class _Source:
    """Where a checkpoint comes from: a folder on disk, or a name on the hub (its cache, where the hub is out of reach)."""

    def __init__(self, name: str) -> None:
        self.name = os.path.expanduser(name)
        self.local = os.path.isdir(self.name)
        if os.path.isfile(self.name):
            raise ModelError(f"model {name!r} is a file: give the folder that it lies in")
        looks_like_path = self.name.startswith((".", "/", "~", os.sep)) or self.name.count("/") > 1
        if not self.local and (looks_like_path or not self.name):
            raise ModelError(f"model folder {name!r} does not exist: give a folder with config.json and weights, or a hub name")
        self.files_only = self.local or not _hub_has_an_address()


def _hub_has_an_address() -> bool:
    """Whether the hub's name resolves; asked first, because the hub's client tries again for half a minute."""
    from huggingface_hub import constants

    if any(os.environ.get(name) for name in PROXY_VARIABLES):
        return True
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bars and no load reports while a checkpoint is read; the settings come back afterwards."""
    from transformers.utils import logging

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


def _load_config(source: _Source) -> Any:
    from transformers import AutoConfig

    if source.local:
        path = Path(source.name) / "config.json"
        if not path.is_file():
            raise ModelError(f"folder {source.name!r} has no config.json: give a checkpoint saved with save_pretrained")
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise ModelError(f"{str(path)!r} is not valid JSON ({_first_line(error)}): save the checkpoint again") from None
    try:
        return AutoConfig.from_pretrained(source.name, local_files_only=source.files_only)
    except Exception as error:
        if source.local:
            raise ModelError(
                f"config.json of {source.name!r} is not understood ({_first_line(error)}): name a known model_type in it"
            ) from None
        raise ModelError(
            f"model {source.name!r} is neither a folder here nor reachable on the hub: check the name and the network, "
            "or give a folder"
        ) from None


def _refuse_other_kinds(config: Any, source: _Source) -> None:
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"{source.name!r} is an encoder-decoder ({config.model_type}): use a masked language model")
    if getattr(config, "is_decoder", False):
        raise ModelError(f"{source.name!r} is a causal model (is_decoder is true in its config): use a masked language model")
    if config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ModelError(f"{source.name!r} is a {config.model_type} model, which has no masked form: use a masked language model")


def _load_network(source: _Source, dtype: torch.dtype) -> nn.Module:
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


def _why_not_loaded(error: Exception, source: _Source) -> str:
    told = f"{type(error).__name__} {error}".lower()
    if "safetensor" in type(error).__name__.lower():
        return f"the safetensors file of {source.name!r} is truncated or corrupt ({_first_line(error)}): copy it again"
    if "unpickling" in told or "weights_only" in told or "weights only" in told:
        return f"the weights of {source.name!r} are a pickle that holds more than weights: save them as safetensors"
    return f"the weights of {source.name!r} cannot be read ({_first_line(error)}): check the files, or save the checkpoint again"


def _refuse_unusable_tokenizer(tokenizer: Any, source: _Source) -> None:
    if tokenizer.mask_token_id is None:
        raise ModelError(f"the tokenizer of {source.name!r} has no mask token: use a masked language model's tokenizer")


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:160]
