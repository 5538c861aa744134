"""Memory that the server no longer needs goes back to the system."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from contextlib import suppress

MOST_ARENAS = 2
ARENAS = -8
"""glibc's name of the limit, of which the default is eight per core: each keeps what its threads freed."""
PRIMITIVES = 32
"""Programs that oneDNN keeps, one for each shape of a call; its default is 1024."""


def stay_small() -> None:
    """Limit what libraries keep for threads and shapes that may not come again; before the model is loaded."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(PRIMITIVES))
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(ARENAS, MOST_ARENAS)


def give_back() -> None:
    """Free what nothing refers to, and return free pages to the system: glibc keeps them otherwise."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


class GiveBackLater:
    """Gives memory back after a quiet time; `again` begins that time from scratch."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._timer: threading.Timer | None = None

    def again(self) -> None:
        """Something has ended just now."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(self.seconds, give_back)
        self._timer.daemon = True
        self._timer.start()
