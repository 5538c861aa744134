"""Threads and forked children.

Loading takes turns: transformers keeps settings of the whole process, which a load changes and puts back. A child that is forked
(not spawned) inherits locks as they stand and a team of OpenMP threads that do not exist in it: the first product of matrices in
it would wait for them for ever. So a fork waits until no load is under way, and the child computes with one thread of its own.
"""

from __future__ import annotations

import os
import threading

import torch

LOADING = threading.RLock()
"""Held while a checkpoint is read."""


def _in_child() -> None:
    LOADING.release()
    torch.set_num_threads(1)


os.register_at_fork(before=LOADING.acquire, after_in_parent=LOADING.release, after_in_child=_in_child)
