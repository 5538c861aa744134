"""Where a checkpoint comes from: a folder on disk, or a name on the hub (its cache, if the hub is out of reach).

Loading takes turns: transformers keeps settings of the whole process, which a load changes and puts back. A child that is forked
(not spawned) inherits locks as they are and a team of OpenMP threads that do not exist in it: its first product of matrices
would wait for them for ever. So a fork waits until no load is under way, and the child computes with one thread of its own.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from logging import CRITICAL, getLogger
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch

from unmask.errors import ModelError

PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
CONVERT = "convert it as docs/bring-your-own-model.md shows (Checkpoints of fairseq)"
LOADING = threading.RLock()
"""Held while a checkpoint is read."""


def _in_child() -> None:
    LOADING.release()
    torch.set_num_threads(1)


os.register_at_fork(before=LOADING.acquire, after_in_parent=LOADING.release, after_in_child=_in_child)


class Source:
    """A model's name: a folder, which is read without touching the network, or a name on the hub."""

    def __init__(self, name: str) -> None:
        self.name = os.path.expanduser(name)
        self.local = os.path.isdir(self.name)
        if os.path.isfile(self.name) and self.name.endswith(".pt"):
            raise ModelError(f"model {name!r} is a pickle, which may run code when it is opened: {CONVERT}")
        if os.path.isfile(self.name):
            raise ModelError(f"model {name!r} is a file: give the folder that it lies in")
        looks_like_path = self.name.startswith((".", "/", "~", os.sep)) or self.name.count("/") > 1
        if not self.local and (looks_like_path or not self.name or "\0" in self.name):
            raise ModelError(f"model folder {name!r} does not exist: give a folder with config.json and weights, or a hub name")

    @property
    def folder(self) -> Path:
        """The folder, if the source is one."""
        return Path(self.name)

    @cached_property
    def files_only(self) -> bool:
        """Whether only files that are here already are read."""
        return self.local or not _hub_has_an_address()

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of the folder's config.json; empty for a hub name."""
        if not self.local:
            return {}
        path = self.folder / "config.json"
        if not path.is_file():
            pickles = sorted(file.name for file in self.folder.glob("*.pt"))
            if pickles and (self.folder / "dict.txt").is_file():
                raise ModelError(f"folder {self.name!r} holds a checkpoint of fairseq ({pickles[0]}, dict.txt): {CONVERT}")
            raise ModelError(f"folder {self.name!r} has no config.json: give a checkpoint saved with save_pretrained")
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError, RecursionError) as error:
            raise ModelError(f"{str(path)!r} is not valid JSON ({first_line(error)}): save the checkpoint again") from None
        if not isinstance(config, dict):
            raise ModelError(f"{str(path)!r} is not understood (it holds no JSON object): save the checkpoint again")
        return config


def english_model_path() -> Path:
    """The folder of the bundled English checkpoint (config, weights, tokenizer)."""
    return Path(__file__).parent / "bundled" / "english"


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """One thread at a time, without progress bars and load reports; the settings come back afterwards."""
    from transformers.utils import logging

    with LOADING:
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


def state_of(where: str) -> tuple[object, ...]:
    """A hub name; or a folder, with the size and date of each of its files."""
    folder = os.path.expanduser(where)
    if not os.path.isdir(folder):
        return (where,)
    folder = os.path.realpath(folder)
    files = [entry for entry in os.scandir(folder) if entry.is_file()]
    above = Path(folder).parent / "vocab.txt"
    dates = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in files)
    return (folder, *dates, above.stat().st_mtime_ns if above.is_file() else None)


def first_line(error: BaseException) -> str:
    """The first line of an error of another library, cut to fit inside a message of one line."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:160]


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
