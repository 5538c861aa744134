"""Loading takes turns: transformers keeps settings of the whole process, which a load changes and
restores.

A forked child inherits locks, and the memory of OpenMP threads that do not exist in it. So a fork
waits for a load under way, and the child computes with one thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from logging import CRITICAL, getLogger

import torch

LOADING = threading.RLock()
"""Held while a checkpoint is read."""


def _in_child() -> None:
    LOADING.release()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(
        before=LOADING.acquire, after_in_parent=LOADING.release, after_in_child=_in_child
    )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Let one thread at a time read, without progress bars and load reports; the settings are as
    before afterwards.
    """
    from transformers.utils import logging

    hub = getLogger("huggingface_hub")
    with LOADING:
        verbosity = logging.get_verbosity()
        hub_level = hub.level
        had_progress_bars = logging.is_progress_bar_enabled()
        logging.set_verbosity(CRITICAL)
        hub.setLevel(CRITICAL)
        logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            hub.setLevel(hub_level)
            if had_progress_bars:
                logging.enable_progress_bar()
