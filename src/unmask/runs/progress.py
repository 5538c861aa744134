"""The callback that reports progress, for passes, pairs, sweeps and steps."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """Called now and then with how much is done, how much there is in all (0: not known), and what is being counted."""

    def __call__(self, done: int, total: int, what: str = ...) -> None: ...
