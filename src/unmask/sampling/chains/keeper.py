"""A group's samples and latest snapshot, in memory or written to a folder from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from unmask.sampling.chains.samples import SweepRows
from unmask.sampling.chains.snapshot import DeviceSnapshot, Snapshot, on_host

Write = Callable[[int, Sequence[SweepRows], DeviceSnapshot], None]
"""Writes samples of a group, given by its number, and the snapshot that follows them."""


class Keeper:
    """What is kept of one group. With a folder, it is written every `seconds` seconds and at the
    end; without, all samples stay here.

    group      the number of the group
    sweeps     sweeps of the whole run
    write      writes to the folder; None without a folder
    snapshot   the latest; None before the first sweep
    samples    those that are not written
    gathered   where further samples go, too, for a look at the run so far; None: nowhere
    """

    def __init__(
        self,
        group: int,
        sweeps: int,
        write: Write | None,
        seconds: float,
        snapshot: DeviceSnapshot | None = None,
        gathered: list[SweepRows] | None = None,
    ) -> None:
        self.group = group
        self.sweeps = sweeps
        self.write = write
        self.seconds = seconds
        self.snapshot = snapshot
        self.samples: list[SweepRows] = []
        self.gathered = gathered
        self._written_at = time.monotonic()

    @property
    def done(self) -> int:
        """Sweeps of the latest snapshot."""
        return 0 if self.snapshot is None else int(self.snapshot["done"])

    def add(self, samples: Sequence[SweepRows], snapshot: DeviceSnapshot) -> None:
        """Keep samples of further sweeps, and the snapshot after them."""
        self.samples += samples
        if self.gathered is not None:
            self.gathered += samples
        self.snapshot = snapshot
        seconds_since = time.monotonic() - self._written_at
        if seconds_since > self.seconds or self.done == self.sweeps:
            self.flush()

    def flush(self) -> None:
        """Write what is not written."""
        if self.write is None or self.snapshot is None:
            return
        # After an interrupt within `add` there may be samples beyond the snapshot.
        up_to_snapshot = [rows for rows in self.samples if rows.sweep <= self.done]
        self.write(self.group, up_to_snapshot, self.snapshot)
        self.samples = []
        self._written_at = time.monotonic()

    def last_snapshot(self) -> Snapshot:
        """The snapshot at the end of the run, on the host."""
        assert self.snapshot is not None
        return on_host(self.snapshot)
