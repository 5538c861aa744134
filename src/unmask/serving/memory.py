"""How the server stays small: joints that are not used move to a temporary file, and free memory goes back to the system."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from math import prod
from tempfile import TemporaryFile
from typing import IO, Any

from unmask.answers.comparison import Comparison
from unmask.serving.worker import SharedLM

MOST_ARENAS = 2
ARENAS = -8
"""glibc's name of the limit, of which the default is eight per core: each keeps what its threads freed."""
PRIMITIVES = 32
"""Programs that oneDNN keeps, one for each shape of a call; its default is 1024."""
KEPT_CELLS = 160_000_000
"""Cells of tables that are kept: an exact pair of 8,000 tokens, and many small ones."""
SECONDS_IN_MEMORY = 20.0
"""After its last use a joint moves to a file; a joint that was read again moves back into memory."""


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


class KeptJoints:
    """Comparisons by question, the latest used last."""

    def __init__(self, model: SharedLM) -> None:
        self._model = model
        self._kept: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def get(self, key: Hashable) -> Comparison | None:
        """The comparison of a question, if it is kept."""
        with self._lock:
            entry = self._kept.get(key)
            if entry is None:
                return None
            self._kept.move_to_end(key)
        found = entry.read(self._model)
        with self._lock:
            self._move_later()
        return found

    def put(self, key: Hashable, found: Comparison) -> None:
        """Keep a comparison, and forget the oldest beyond KEPT_CELLS."""
        with self._lock:
            self._kept[key] = _Entry(found)
            while len(self._kept) > 1 and sum(entry.cells for entry in self._kept.values()) > KEPT_CELLS:
                self._kept.popitem(last=False)
            self._move_later()

    def _move_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(SECONDS_IN_MEMORY, self._move)
            self._timer.daemon = True
            self._timer.start()

    def _move(self) -> None:
        """Move what was not used lately out of memory; nobody waits for the disk but those who ask for the same joint."""
        with self._lock:
            kept = list(self._kept.items())
        for key, entry in kept:
            try:
                entry.write(self._model)
            except (OSError, RuntimeError):  # no room on the disk, or a request changed it: computed again if it is asked for
                with self._lock:
                    self._kept.pop(key, None)
        with self._lock:
            self._timer = None
            if any(entry.found is not None for entry in self._kept.values()):
                self._move_later()
        give_back()


class _Entry:
    """A comparison in memory (`found`) or in a file."""

    def __init__(self, found: Comparison) -> None:
        shape = next(iter(found.joints.values())).shape
        self.cells = len(shape) * prod(shape)
        self.found: Comparison | None = found
        self.file: IO[bytes] | None = None
        self.used = time.monotonic()
        self.lock = threading.Lock()

    def read(self, model: SharedLM) -> Comparison:
        with self.lock:
            if self.found is None:
                assert self.file is not None
                self.file.seek(0)
                self.found = _Reader(self.file, model).load()
            self.used = time.monotonic()
            return self.found

    def write(self, model: SharedLM) -> None:
        """To a file, if it was not used lately; the file is whole, or is not kept."""
        with self.lock:
            if self.found is None or time.monotonic() - self.used < SECONDS_IN_MEMORY:
                return
            if self.file is None:
                file = TemporaryFile()  # noqa: SIM115 - lives as long as the entry, and has no name
                _Writer(file, model).dump(self.found)
                self.file = file
            self.found = None


class _Writer(pickle.Pickler):
    """Writes everything but the model, of which there is one."""

    def __init__(self, file: IO[bytes], model: SharedLM) -> None:
        super().__init__(file, protocol=5)
        self.parts = {id(part): name for name, part in _parts(model).items()}

    def persistent_id(self, found: Any) -> str | None:
        return self.parts.get(id(found))


class _Reader(pickle.Unpickler):
    def __init__(self, file: IO[bytes], model: SharedLM) -> None:
        super().__init__(file)
        self.parts = _parts(model)

    def persistent_load(self, name: str) -> Any:
        return self.parts[name]


def _parts(model: SharedLM) -> dict[str, Any]:
    return {"shared": model, "model": model.model, "words": model.words}
