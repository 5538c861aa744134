"""The rows of scored texts, where they are: in memory, in the parts of a run folder, or gone to a
function of the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from unmask.runs.folder import read_parts, read_rows
from unmask.runs.lines import EMPTY
from unmask.scoring.row_shape import Rows, RowShape


@dataclass
class Missing:
    """Why texts lack a number.

    reasons      by the number of the text, from 1; of several rows of a text the first reason
    any_scored   whether a row has all its numbers
    """

    reasons: dict[int, str] = field(default_factory=dict)
    any_scored: bool = False

    def note(self, item: int, reason: str | None) -> None:
        """Take note of a row: the number of its text, and why it lacks a number (None: it has
        all).
        """
        if reason is None:
            self.any_scored = True
        else:
            self.reasons.setdefault(item, reason)

    @property
    def complete(self) -> bool:
        """Whether something was scored, and all texts that are not empty lines were."""
        only_empty = all(reason == EMPTY for reason in self.reasons.values())
        return self.any_scored and only_empty


@dataclass(frozen=True)
class ScoredRows:
    """The rows of scored texts, one per text, word or token, as mappings.

    shape       the scores, what a row is, and its unit
    in_memory   the rows, where there is no folder; none if they went to a function
    folder      where the run is kept, if it is
    file        the file of the rows that the folder has
    noted       why texts lack a number, where it was noted as rows came
    """

    shape: RowShape
    in_memory: tuple[dict[str, Any], ...] = ()
    folder: Path | None = None
    file: Path | None = None
    noted: Missing | None = None

    @cached_property
    def rows(self) -> Rows:
        """All rows, in the order of the texts; those of a folder are read when first used."""
        if self.folder is None:
            return list(self.in_memory)
        table = read_rows(read_parts(self.folder), self.shape.columns)
        return [dict(row) for row in table.to_pylist()]

    @cached_property
    def missing(self) -> Missing:
        """Why texts lack a number."""
        if self.noted is not None:
            return self.noted
        missing = Missing()
        for number, reason in self._reasons():
            missing.note(number, reason)
        return missing

    def leading(self, count: int) -> Rows:
        """The first rows, at most `count`; of a folder only the parts that hold them are read."""
        if self.folder is None:
            return list(self.in_memory[:count])
        leading: Rows = []
        for part in read_parts(self.folder):
            table = read_rows([part], self.shape.columns)
            leading += table.slice(0, count - len(leading)).to_pylist()
            if len(leading) == count:
                break
        return leading

    def _reasons(self) -> Iterator[tuple[int, str | None]]:
        """The number of each row's text, and why it lacks a number; the rows of a folder are read
        part by part, and not kept in memory.
        """
        item = self.shape.own("item")
        reason = self.shape.own("reason")
        if self.folder is None:
            for row in self.in_memory:
                yield row[item], row[reason]
            return
        for part in read_parts(self.folder):
            table = read_rows([part], self.shape.columns)
            yield from zip(table[item].to_pylist(), table[reason].to_pylist(), strict=True)
