"""A model that is loaded and constructions, ready to measure pairs: chosen or given ones, here or
by workers.

Finished pairs are read from a run's folder, so the same call after a kill continues where the rows
end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from unmask.common.files import read_bytes, write_atomically
from unmask.joints.constructions.construction import Construction
from unmask.joints.registry import name_of_stored
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, model_name
from unmask.models.sharing import shared_model
from unmask.models.text.alphabet import alphabet_ids
from unmask.runs.folder import RunFolder
from unmask.runs.progress import Progress
from unmask.studies.evaluation.measure import Engine, Failed, Measurer, measured_by_workers
from unmask.studies.evaluation.pairs import PositionPair, pairs_as_lines
from unmask.studies.evaluation.plan import (
    ChosenPairs,
    GivenPairs,
    Plan,
    chosen_pairs,
    given_pairs,
    usual_pairs,
)
from unmask.studies.evaluation.stored_rows import Row, StoredRows

KIND = "evaluate"


@dataclass(frozen=True)
class MeasuredPairs:
    """The pairs of a plan after they were measured.

    settings   those of the plan
    rows       one dict per pair and construction, by `stored_rows.COLUMNS`
    failed     a dict per pair that could not be measured: its number, text and block, and why
    skipped    how many texts gave no pair, by reason
    """

    settings: dict[str, Any]
    rows: list[Row]
    failed: list[dict[str, Any]]
    skipped: Counter[str]


class Measuring:
    """A model and constructions, ready to measure pairs.

    With workers each loads the model by itself; here it then plans the pairs alone.
    """

    def __init__(
        self,
        model: Model,
        constructions: Sequence[Construction],
        settings: Mapping[str, Any],
        engine: str,
    ) -> None:
        """settings   what the folder of a run keeps: constructions, support, alphabet"""
        self.model, self.workers, self.load = shared_model(model, engine)
        alphabet = settings["alphabet"]
        if alphabet is None:
            self.regular = self.model.regular_ids
        else:
            self.regular = tuple(sorted(alphabet_ids(self.model.words, alphabet)))
        support = None if settings["support"] == "all" else self.regular
        self.of_measurer = (constructions, support)
        self.measurer = Measurer(self.model, *self.of_measurer)
        if self.workers is None:
            self.measurer.precompile()  # beside the reading of the texts
            device = self.model.device.type
        else:
            device = self.workers.device
        self.settings: dict[str, Any] = {
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": device,
            "model": model_name(model),
            "weights": self.model.fingerprint,
            **settings,
        }

    def plan(self, pairs: ChosenPairs | GivenPairs) -> Plan:
        """The pairs to measure, with all settings of their run."""
        if isinstance(pairs, GivenPairs):
            plan = given_pairs(pairs, self.model, self.regular)
        else:
            is_shared = self.workers is not None
            usual_count = usual_pairs(self.model, self.measurer.tokens, shared=is_shared)
            plan = chosen_pairs(pairs, self.model, self.regular, usual_count)
        return replace(plan, settings={**self.settings, **plan.settings})

    def measured(
        self, plan: Plan, folder: RunFolder | None, progress: Progress | None
    ) -> MeasuredPairs:
        """All pairs of a plan, or those that the folder of its run does not hold yet."""
        if folder is not None:
            lines = pairs_as_lines(plan.pairs).encode()
            file = folder.path / "pairs.jsonl"
            if not file.is_file() or read_bytes(file) != lines:
                write_atomically(file, lines)
        return _measured(plan, self._engine(plan), folder, progress)

    def _engine(self, plan: Plan) -> Engine:
        """What measures the pairs of a plan: this process, or the workers."""
        if self.workers is None or self.load is None:
            self.measurer.longest = plan.longest
            self.measurer.size = None  # the longest text decides how many pairs go at once
            return self.measurer
        with suppress(Exception):  # what fails here fails in its worker
            # here, because warnings of workers are dropped
            look_at_first(self.model, (pair.ids for pair in plan.pairs))
        arguments = (*self.of_measurer, plan.longest)
        return partial(measured_by_workers, self.workers, self.load, arguments)


def _measured(
    plan: Plan, engine: Engine, folder: RunFolder | None, progress: Progress | None
) -> MeasuredPairs:
    """All pairs that are not stored yet; those that fail are tried once and recorded."""
    stored = StoredRows(folder)
    failed: list[dict[str, Any]] = []
    pending = [pair for pair in plan.pairs if pair.index not in stored.done]

    def report() -> None:
        if progress:
            what = f"pairs ({len(failed)} failed)" if failed else "pairs"
            progress(len(stored.done) + len(failed), len(plan.pairs), what)

    report()
    try:
        for batch in engine(pending):
            rows: list[Row] = []
            for place, answer in batch:
                if isinstance(answer, Failed):
                    failed.append(_failure(pending[place], answer))
                else:
                    rows += answer
            stored.add(rows)
            report()
    finally:
        stored.store()
    names = [name_of_stored(one) for one in plan.settings["constructions"]]
    return MeasuredPairs(
        settings=plan.settings, rows=stored.rows(names), failed=failed, skipped=plan.skipped
    )


def _failure(pair: PositionPair, failed: Failed) -> dict[str, Any]:
    """The record of a pair that failed."""
    return {
        "pair": pair.index,
        "text_index": pair.text_index,
        "text": pair.text,
        "block": list(pair.block),
        "reason": failed.reason,
    }
