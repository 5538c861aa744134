"""How often a group's samples and checkpoint are written while its chains go on."""

from __future__ import annotations

import time
from collections.abc import Sequence

from unmask.sampling.run.result import Mark, SweepRows, Write


class Keeper:
    """A group's samples and latest mark on their way to the folder: every so many seconds, and at the end.

    Without a folder, all samples stay here.
    """

    def __init__(self, number: int, sweeps: int, write: Write | None, seconds: float, mark: Mark | None = None) -> None:
        self.number, self.sweeps, self.write, self.seconds = number, sweeps, write, seconds
        self.rows: list[SweepRows] = []
        self.mark = mark
        self._last = time.monotonic()

    @property
    def done(self) -> int:
        """Sweeps of the mark."""
        return 0 if self.mark is None else int(self.mark["done"])

    def add(self, rows: Sequence[SweepRows], mark: Mark) -> None:
        """Samples of further sweeps, and the mark after them."""
        self.rows += rows
        self.mark = mark
        if time.monotonic() - self._last > self.seconds or self.done == self.sweeps:
            self.flush()

    def flush(self) -> None:
        """Write what is there."""
        if self.write and self.mark is not None:
            self.write(self.number, [row for row in self.rows if row.sweep <= self.done], self.mark)
            self.rows, self._last = [], time.monotonic()
