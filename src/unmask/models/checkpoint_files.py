"""A checkpoint's files: where they are, and how they are read.

A checkpoint is a folder on disk, or a name on the hub; if the hub is out of reach, its cache is
read. Tensors are read without running code.
"""

from __future__ import annotations

import json
import os
import socket
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from torch import Tensor

from unmask.common.errors import ModelError, UnmaskWarning
from unmask.common.files import first_line

WEIGHTS = "model.safetensors"
PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
WEIGHT_FILES = (
    WEIGHTS,
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
TOKENIZER_FILES = (
    "tokenizer*.json",
    "vocab.*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "*.model",
    "*.bpe",
)
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""The beginning of a file that git-lfs has not downloaded; it states the size and the hash of the
file that it stands for.
"""
MERGE_ADAPTER = (
    "merge it into the weights (in peft: model.merge_and_unload(), then save_pretrained), and give"
    " that folder"
)


class TokenizerAbove(UnmaskWarning):
    """The tokenizer is that of the folder above; texts show whether it is the model's."""


class Source:
    """Where a model comes from: a folder, or a name on the hub.

    name     as the user wrote it, with ~ expanded
    local    whether it is a folder; then the hub is never asked
    folder   `name` as a path, also if it is a hub name: then nothing need lie there
    """

    def __init__(self, name: str) -> None:
        self.name: str = os.path.expanduser(name)
        self.folder: Path = Path(self.name)
        self.local: bool = os.path.isdir(self.name)
        if self.local:
            return
        if os.path.isfile(self.name):
            raise ModelError(f"model {name!r} is a file: give the folder that it lies in")
        is_empty = not self.name
        has_null = "\0" in self.name
        begins_as_path = self.name.startswith((".", "/", "~", os.sep))
        is_deep_path = self.name.count("/") > 1  # a hub name is "owner/name" or "name"
        if is_empty or has_null or begins_as_path or is_deep_path:
            raise ModelError(
                f"model folder {name!r} does not exist: give a folder with config.json and weights,"
                " or a hub name"
            )

    @cached_property
    def files_only(self) -> bool:
        """Whether only files on this machine are read: those of a folder, or those of the hub's
        cache if the address of the hub cannot be found.
        """
        if self.local:
            return True
        if any(os.environ.get(name) for name in PROXY_VARIABLES):
            return False  # the proxy looks up the address
        from huggingface_hub import constants

        # If the address cannot be found, the hub's client repeats its requests for half a minute.
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
        path = self.folder / "config.json"
        if (self.folder / "adapter_config.json").is_file():
            what_else = "beside its weights" if path.is_file() else "and no model"
            raise ModelError(
                f"folder {self.name!r} has an adapter (adapter_config.json) {what_else}:"
                f" {MERGE_ADAPTER}"
            )
        if not path.is_file():
            raise ModelError(
                f"folder {self.name!r} has no config.json: give a checkpoint saved with"
                " save_pretrained"
            )
        config = read_json(path, "save the checkpoint again")
        kind = config.get("model_type")
        if kind is not None and not isinstance(kind, str):
            raise ModelError(
                f"config.json of {self.name!r} has model_type {kind!r}, which is not a text:"
                " name a known model_type"
            )
        return config


def english_model_path() -> Path:
    """The folder of the bundled English checkpoint (config, weights, tokenizer)."""
    return Path(__file__).parent / "bundled" / "english"


def state_of(name: str) -> tuple[object, ...]:
    """A value that changes if a file of the model changes: for a hub name the name alone; for a
    folder its path, with the name, size and date of each file in it.

    The date of the vocab.txt of the folder above is in it, too: that may be the tokenizer's file.
    """
    folder = os.path.expanduser(name)
    if not os.path.isdir(folder):
        return (name,)
    folder = os.path.realpath(folder)
    files = []
    for entry in os.scandir(folder):
        try:
            if entry.is_file():
                stat = entry.stat()
                files.append((entry.name, stat.st_size, stat.st_mtime_ns))
        except OSError as error:  # a link to itself, for example
            why = error.strerror or error  # not every OSError has a strerror
            raise ModelError(
                f"{entry.path!r} cannot be read ({why}): copy it again, or remove it"
            ) from None
    files.sort()
    above = Path(folder).parent / "vocab.txt"
    date_of_above = above.stat().st_mtime_ns if above.is_file() else None
    return (folder, *files, date_of_above)


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The JSON object that a file holds."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        refuse_pointer(path)  # its error says more
        raise _not_json(path, first_line(error), remedy) from None
    if not isinstance(content, dict):
        raise _not_json(path, "it holds no JSON object", remedy)
    return content


def _not_json(path: Path, why: str, remedy: str) -> ModelError:
    return ModelError(f"{str(path)!r} is not valid JSON ({why}): {remedy}")


def refuse_pointers(folder: Path, *patterns: str) -> None:
    """Raise if a file of the folder is a pointer of git-lfs instead of the file that it stands
    for.
    """
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            refuse_pointer(path)


def refuse_pointer(path: Path) -> None:
    """Raise if a file is a pointer of git-lfs.

    A file that cannot be opened passes: whoever reads it next raises the error for it.
    """
    try:
        with path.open("rb") as stream:
            beginning = stream.read(len(LFS_POINTER))
    except OSError:
        return
    if beginning == LFS_POINTER:
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
        refuse_pointer(path)  # its error says more
        raise unreadable_weights(error, str(path)) from None


def unreadable_weights(error: Exception, name: str) -> ModelError:
    """The error for weights that a library could not read.

    error   what the library raised
    name    the model, or the file
    """
    kind = type(error).__name__
    if "safetensor" in kind.lower():
        return ModelError(
            f"the safetensors file of {name!r} is truncated or corrupt ({first_line(error)}): copy"
            " it again"
        )
    message = f"{kind} {error}".lower()
    signs_of_other_objects = ("unpickling", "weights_only", "weights only")
    if any(sign in message for sign in signs_of_other_objects):
        return ModelError(
            f"the weights of {name!r} are a pickle that holds more than weights: save them as"
            " safetensors"
        )
    return ModelError(
        f"the weights of {name!r} cannot be read ({first_line(error)}): check the files, or save"
        " the checkpoint again"
    )
