"""A checkpoint's files: a folder on disk or a name on the hub (its cache, if the hub is out of
reach), and the tensors in it.

Loading takes turns: transformers keeps settings of the whole process, which a load changes and
restores. A forked child inherits locks, and OpenMP threads that do not exist in it: a fork
waits for a load under way, and the child computes with one thread.

Tensors are read without running code. A network that lacks a tensor, or that ignores one of its
encoder, is refused.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cached_property
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn

from unmask.common.errors import ModelError, UnmaskWarning
from unmask.common.files import first_line

PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
UNUSED_BY_LOGITS = (
    "pooler.",
    "contact_head.",
    "seq_relationship.",
    "position_ids",
    "token_type_ids",
)
SHOWN = 3
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""How a file of git-lfs begins that has not been downloaded; it states the size and the hash of
the file that it stands for.
"""
TOKENIZER_FILES = (
    "tokenizer*.json",
    "vocab.*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "*.model",
    "*.bpe",
)
OF_ADAPTERS = re.compile(
    r"\b(lora_|loha_|lokr_|ia3_|oft_|vera_|hada_|base_layer\b|modules_to_save\b|adapters?\b)"
)
"""In the names of tensors of adapters, such as LoRA, and of layers that one is wrapped around."""
LOADING = threading.RLock()  # Held while a checkpoint is read


def _in_child() -> None:
    LOADING.release()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(
        before=LOADING.acquire, after_in_parent=LOADING.release, after_in_child=_in_child
    )


class LeftOut(UnmaskWarning):
    """Tensors of other heads lie beside that of the language model; no logit needs them."""


class TokenizerAbove(UnmaskWarning):
    """The tokenizer is that of the folder above; that it is the model's shows on texts."""


class Source:
    """A model's name: a folder, which is read without touching the network, or a name on the
    hub.
    """

    def __init__(self, name: str) -> None:
        self.name = os.path.expanduser(name)
        self.folder, self.local = Path(self.name), os.path.isdir(self.name)
        if os.path.isfile(self.name):
            raise ModelError(f"model {name!r} is a file: give the folder that it lies in")
        looks_like_path = self.name.startswith((".", "/", "~", os.sep)) or self.name.count("/") > 1
        if not self.local and (looks_like_path or not self.name or "\0" in self.name):
            raise ModelError(
                f"model folder {name!r} does not exist: give a folder with config.json and weights,"
                " or a hub name"
            )

    @cached_property
    def files_only(self) -> bool:
        """Whether only files that are here already are read: those of a folder, and of any
        model if the hub has no address.

        The address is looked up first, because the hub's client tries again for half a minute.
        """
        from huggingface_hub import constants

        if self.local or any(os.environ.get(name) for name in PROXY_VARIABLES):
            return self.local
        try:
            socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None)
        except OSError:
            return True
        return False

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of the folder's config.json; empty for a hub name."""
        if not self.local:
            return {}
        path, adapter = self.folder / "config.json", self.folder / "adapter_config.json"
        if adapter.is_file():
            beside = "has an adapter (adapter_config.json)" + (
                " beside its weights" if path.is_file() else " and no model"
            )
            raise ModelError(f"folder {self.name!r} {beside}: {MERGE}")
        if not path.is_file():
            raise ModelError(
                f"folder {self.name!r} has no config.json: give a checkpoint saved with"
                " save_pretrained"
            )
        config = read_json(path, "save the checkpoint again")
        kind = config.get("model_type")
        if kind is not None and not isinstance(kind, str):
            given = f"config.json of {self.name!r} has model_type {kind!r}, which is not a text"
            raise ModelError(f"{given}: name a known model_type")
        return config


def english_model_path() -> Path:
    """The folder of the bundled English checkpoint (config, weights, tokenizer)."""
    return Path(__file__).parent / "bundled" / "english"


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """One thread at a time, without progress bars and load reports; the settings come back
    afterwards.
    """
    from transformers.utils import logging

    hub = getLogger("huggingface_hub")
    with LOADING:
        verbosity, hub_level, bars = (
            logging.get_verbosity(),
            hub.level,
            logging.is_progress_bar_enabled(),
        )
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


def state_of(where: str) -> tuple[object, ...]:
    """A hub name; or a folder, with the size and date of each of its files."""
    folder = os.path.expanduser(where)
    if not os.path.isdir(folder):
        return (where,)
    folder = os.path.realpath(folder)
    above = Path(folder).parent / "vocab.txt"
    files = []
    for entry in os.scandir(folder):
        try:
            if entry.is_file():
                files.append((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns))
        except OSError as error:  # a link to itself, for example
            why = error.strerror or error
            raise ModelError(
                f"{entry.path!r} cannot be read ({why}): copy it again, or remove it"
            ) from None
    files.sort()
    return (folder, *files, above.stat().st_mtime_ns if above.is_file() else None)


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object that a file holds."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it holds no JSON object")
    except (ValueError, OSError, RecursionError) as error:
        refuse_pointer(path)
        raise ModelError(
            f"{str(path)!r} is not valid JSON ({first_line(error)}): {remedy}"
        ) from None
    return content


def refuse_pointers(folder: Path, *patterns: str) -> None:
    """Raise if a file of the folder is a pointer of git-lfs instead of the file that it stands
    for.
    """
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            refuse_pointer(path)


def refuse_pointer(path: Path) -> None:
    """Raise if a file is a pointer of git-lfs; one that cannot be read is left to its reader."""
    try:
        with path.open("rb") as stream:
            begins = stream.read(len(LFS_POINTER))
    except OSError:
        return
    if begins == LFS_POINTER:
        raise ModelError(
            f"{str(path)!r} is a pointer of git-lfs, which stands for a file that was not"
            f" downloaded: run `git lfs pull` in {str(path.parent)!r}"
        )


def refuse_no_weights(folder: Path) -> None:
    """Raise if a folder has none of the files that transformers reads weights from."""
    if not any((folder / name).is_file() for name in WEIGHT_FILES):
        raise ModelError(
            f"folder {str(folder)!r} has no weights: put model.safetensors beside config.json"
        )


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except Exception as error:
        refuse_pointer(path)
        raise ModelError(why_not_read(error, str(path))) from None


def refuse_whole_numbers(folder: Path) -> None:
    """Raise if a weight or a bias of a folder is not stored as floating-point numbers.

    Libraries turn whole numbers into floating-point ones silently; they are a quantised
    model's, without its scales.
    """
    from safetensors import safe_open

    types: dict[str, torch.dtype] = {}
    whole_model = folder / "model.safetensors"  # is read if it is there; others beside it are not
    parts = [whole_model] if whole_model.is_file() else list(folder.glob("model*.safetensors"))
    for path in parts or folder.glob("pytorch_model*.bin"):
        if path.suffix == ".bin":
            types |= {
                name: tensor.dtype
                for name, tensor in torch.load(path, map_location="cpu", weights_only=True).items()
            }
            continue
        with safe_open(path, "pt") as file:  # without reading the numbers
            types |= {
                name: file.get_slice(name)[:0].dtype
                for name in file.keys()
                if file.get_slice(name).get_shape()
            }
    whole = {
        name: kind
        for name, kind in types.items()
        if name.endswith(("weight", "bias")) and not kind.is_floating_point
    }
    if whole:
        stored = f"stored as {str(next(iter(whole.values())))[6:]}, not as floating-point numbers"
        raise ModelError(
            f"{len(whole)} tensors of {str(folder)!r} are {stored} ({_listed(whole)}): save them as"
            " float32"
        )


def why_not_read(error: Exception, name: str) -> str:
    """The message about weights that cannot be read."""
    message = f"{type(error).__name__} {error}".lower()
    if "safetensor" in type(error).__name__.lower():
        return (
            f"the safetensors file of {name!r} is truncated or corrupt ({first_line(error)}): copy"
            " it again"
        )
    if any(sign in message for sign in ("unpickling", "weights_only", "weights only")):
        return (
            f"the weights of {name!r} are a pickle that holds more than weights: save them as"
            " safetensors"
        )
    return (
        f"the weights of {name!r} cannot be read ({first_line(error)}): check the files, or save"
        " the checkpoint again"
    )


def refuse_misfit(
    source: str,
    prefix: str,
    missing: Collection[str],
    unexpected: Collection[str],
    misshapen: Collection[str] = (),
) -> None:
    """Raise if tensors are missing, have another shape, or belong to the encoder and have no
    place in it.

    `prefix` begins the names of the encoder's tensors. Other heads may lie beside; a warning
    names them.
    """
    missing, unexpected = (
        sorted(name for name in names if not unused_by_logits(name))
        for names in (missing, unexpected)
    )
    if adapters := [name for name in unexpected if OF_ADAPTERS.search(name)]:
        raise ModelError(
            f"{len(adapters)} tensors of {source!r} are those of an adapter ({_listed(adapters)}):"
            f" {MERGE}"
        )
    encoder = [name for name in unexpected if name.startswith(prefix)]
    part = "encoder" if any(name.startswith(prefix) for name in missing) else "language-model head"
    beside = (
        f", while {len(unexpected)} of the file have no place ({_listed(unexpected)})"
        if unexpected
        else ""
    )
    saved = "use the config that the weights were saved with"
    for names, wrong, remedy in (
        (misshapen, f"{source!r} do not have the shapes that its config.json states", saved),
        (
            missing,
            f"the {part} of {source!r} are missing",
            "use a checkpoint saved with all of them, or rename its tensors",
        ),
        (
            encoder,
            f"the encoder of {source!r} have no place in the network that its config.json states",
            saved,
        ),
    ):
        if names:
            more = beside if names is missing else ""
            raise ModelError(f"{len(names)} tensors of {wrong} ({_listed(names)}){more}: {remedy}")
    if unexpected:
        others = (
            f"{len(unexpected)} tensors of {source!r} belong to other heads and are left out"
            f" ({_listed(unexpected)})"
        )
        warnings.warn(others, LeftOut, stacklevel=2)


def refuse_non_finite(network: nn.Module, source: str) -> None:
    """Raise if a weight is infinite or NaN, with its tensor's name."""
    for name, tensor in network.named_parameters():
        weights = tensor.detach()
        if not bool(weights.sum().isfinite()) and not bool(weights.isfinite().all()):
            raise ModelError(
                f"{int((~weights.isfinite()).sum()):,} of the {weights.numel():,} numbers of"
                f" {name!r} of {source!r} are not finite: use a checkpoint from before its training"
                " diverged"
            )


MERGE = (
    "merge it into the weights (in peft: model.merge_and_unload(), then save_pretrained), and give"
    " that folder"
)


def unused_by_logits(name: str) -> bool:
    """Whether a tensor is that of another head, or fixed numbers."""
    return any(part in name for part in UNUSED_BY_LOGITS)


def _listed(names: Collection[str]) -> str:
    """The names, those of one layer or one part of a head as one: `bert.encoder.layer.1.* (16)`."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        layer = re.match(r".*?\.\d+(?=\.)", name)
        groups.setdefault(layer.group() if layer else ".".join(name.split(".")[:2]), []).append(
            name
        )
    shown = [
        members[0] if len(members) == 1 else f"{group}.* ({len(members)})"
        for group, members in groups.items()
    ]
    more = len(shown) - SHOWN
    return ", ".join(shown[:SHOWN]) + (f" and {more} more" if more > 0 else "")
