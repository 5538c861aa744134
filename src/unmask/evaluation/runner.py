"""Runs a plan: measures the pairs that are not stored yet and stores them as it goes.

Which pairs are done is read from the folder, so the same call after a kill goes on where the rows end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.evaluation.engines import Measured
from unmask.evaluation.pairs import Pair
from unmask.evaluation.pairs_file import pairs_as_lines
from unmask.evaluation.plan import Plan
from unmask.evaluation.results import schema
from unmask.evaluation.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas

Engine = Callable[[list[Pair]], Iterable[Measured]]
Progress = Callable[[int, int, int], None]
"""Called with (pairs stored or measured, failed, all)."""

SECONDS_BETWEEN_PARTS = 2.0
MOST_ROWS_A_PART = 4096


def run(
    plan: Plan,
    out: Path | str,
    engine: Engine,
    progress: Progress | None = None,
) -> tuple[pandas.DataFrame, list[dict[str, Any]]]:
    """All rows of the finished run, and the pairs that failed in it."""
    with RunFolder(out, plan.settings, pairs_as_lines(plan.pairs), schema(plan.pairs)) as folder:
        done = folder.done()
        pending = [pair for pair in plan.pairs if pair.index not in done]
        failed: list[dict[str, Any]] = []
        buffer: list[dict[str, Any]] = []
        written = time.monotonic()
        tell = progress or (lambda *_: None)
        tell(len(done), 0, len(plan.pairs))
        try:
            for measured in engine(pending) if pending else ():
                if measured.failure is not None:
                    failed.append(_failure(plan.pairs[measured.pair], measured.failure))
                    folder.record_failure(failed[-1])
                elif measured.pair not in done:
                    done.add(measured.pair)
                    buffer += measured.rows
                tell(len(done), len(failed), len(plan.pairs))
                if buffer and (time.monotonic() - written >= SECONDS_BETWEEN_PARTS or len(buffer) >= MOST_ROWS_A_PART):
                    rows, buffer = buffer, []
                    folder.store(rows)
                    written = time.monotonic()
            for pair in _unanswered(pending, done, failed):
                failed.append(_failure(pair, "the engine ended without an answer for it"))
                folder.record_failure(failed[-1])
        finally:
            if buffer:
                folder.store(buffer)
        return folder.rows(), failed


def _unanswered(pending: list[Pair], done: set[int], failed: list[dict[str, Any]]) -> list[Pair]:
    answered = done | {failure["pair"] for failure in failed}
    return [pair for pair in pending if pair.index not in answered]


def _failure(pair: Pair, reason: str) -> dict[str, Any]:
    return {"pair": pair.index, "text_index": pair.text_index, "text": pair.text, "block": list(pair.block), "reason": reason}
