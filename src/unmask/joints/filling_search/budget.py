"""The passes that a search may take, and those it has taken."""

from __future__ import annotations

from unmask.runs.progress import Progress
from unmask.tables.conditionals import Conditionals


class PassBudget:
    """The passes of one search. It counts; that the search keeps to it is up to the search.

    most  passes that the search may take
    """

    def __init__(self, conditionals: Conditionals, most: int, progress: Progress | None) -> None:
        self.most = most
        self._conditionals = conditionals
        self._passes_before = conditionals.passes
        self._progress = progress

    @property
    def taken(self) -> int:
        """Passes taken so far."""
        return self._conditionals.passes - self._passes_before

    @property
    def left(self) -> int:
        """Passes that may still be taken. It is negative if more were taken: wanted fillings are
        scored, and the narrowest beams followed, whatever they cost.
        """
        return self.most - self.taken

    def report(self) -> None:
        """Show the progress, if anyone wants to see it."""
        if self._progress is not None:
            self._progress(min(self.taken, self.most), self.most, "passes")
