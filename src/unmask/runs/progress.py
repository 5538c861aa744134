"""How work tells how far it is: one callback, for passes, pairs, sweeps and steps alike."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called now and then with how much is done, how much there is in all, and what is being counted."""

    def __call__(self, done: int, total: int, what: str = ...) -> None: ...
