"""The latest joints, kept for what is asked about them next: in memory while they are used, then in a temporary file."""

from __future__ import annotations

import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from math import prod
from tempfile import TemporaryFile
from typing import IO, Any

from unmask.answers.comparison import Comparison
from unmask.serving.memory import give_back
from unmask.serving.worker import SharedLM

KEPT_CELLS = 160_000_000
"""Cells of tables that are kept: an exact pair of 8,000 tokens, and many small ones."""
SECONDS_IN_MEMORY = 20.0
"""After its last use a joint moves to a file; a joint that was read again moves back into memory."""


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
            self._move_later()
        return entry.read(self._model)

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
