"""One evaluation: its model is loaded, its plan made, its pairs measured, and all of it kept in a
folder.

Finished pairs are read from the folder, so the same call after a kill continues where the rows
end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from unmask.common.errors import InputError, argument_name
from unmask.common.files import read_bytes, write_atomically
from unmask.common.warn import warn
from unmask.joints.constructions.construction import Construction
from unmask.joints.registry import name_of_stored
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, model_name
from unmask.models.sharing import shared_model
from unmask.models.text.alphabet import alphabet_ids
from unmask.runs.folder import RunFolder
from unmask.runs.progress import Progress
from unmask.studies.evaluation.measure import Engine, Failed, Measurer, measured_by_workers
from unmask.studies.evaluation.pairs import PositionPair, is_pairs_file, pairs_as_lines
from unmask.studies.evaluation.plan import MOST_USUAL, Data, Plan, make_plan, usual_pairs
from unmask.studies.evaluation.stored_rows import Row, StoredRows
from unmask.studies.evaluation.table import Evaluation, write_evaluation

KIND = "evaluate"


def evaluated(
    data: Data,
    model: Model,
    constructions: Sequence[Construction],
    settings: Mapping[str, Any],
    choice: tuple[str, int | None, int],
    folder: Path | None = None,
    engine: str = "local",
    progress: Progress | None = None,
) -> Evaluation:
    """Load the model, choose the pairs, measure those that the folder does not hold yet.

    settings   constructions, arnold_gokhale_steps, support, alphabet
    choice     scheme, number (None: `usual_pairs`) and seed of the pairs
    """
    scheme, pairs, seed = choice
    if is_pairs_file(data):
        _refuse_choice(data, scheme, pairs)
    lm, workers, load = shared_model(model, engine)
    alphabet = settings["alphabet"]
    if alphabet is None:
        regular = lm.regular_ids
    else:
        regular = tuple(sorted(alphabet_ids(lm.words, alphabet)))
    support = None if settings["support"] == "all" else regular
    arguments = (constructions, support)
    measurer = Measurer(lm, *arguments)
    if workers is None:
        measurer.precompile()  # beside the reading of the texts
    count = pairs or usual_pairs(lm, measurer.tokens, shared=workers is not None)
    plan = make_plan(data, lm, regular, scheme=scheme, count=count, seed=seed)
    chosen_here = pairs is None and not is_pairs_file(data)
    if chosen_here and workers is None and len(plan.pairs) < MOST_USUAL:
        enough = argument_name("pairs", MOST_USUAL)
        few = (
            f"{len(plan.pairs)} pairs are a first try: numbers to report take {enough}, best on a"
            " GPU"
        )
        warn(few)
    about = {
        "dtype": str(lm.dtype).removeprefix("torch."),
        "device": lm.device.type if workers is None else workers.device,
        "model": model_name(model),
        "weights": lm.fingerprint,
    }
    plan = replace(plan, settings={**about, **settings, **plan.settings})
    measurer.longest = plan.longest
    if workers is None or load is None:
        return measure_plan(plan, measurer, folder, progress)
    with suppress(Exception):  # what fails here fails in its worker
        # here, because warnings of workers are dropped
        look_at_first(lm, (pair.ids for pair in plan.pairs))
    by_workers = partial(measured_by_workers, workers, load, (*arguments, plan.longest))
    return measure_plan(plan, by_workers, folder, progress)


def _refuse_choice(data: object, scheme: str, pairs: int | None) -> None:
    """A file of pairs leaves nothing to choose."""
    if pairs is not None:
        option = "pairs"
    elif scheme != "random":
        option = "scheme"
    else:
        return
    raise InputError(
        f"has no effect, as the pairs are those of {str(data)!r}",
        argument=option,
        use="leave it out",
    )


def measure_plan(
    plan: Plan, engine: Engine, out: Path | None, progress: Progress | None
) -> Evaluation:
    """Measure all pairs, or with `out` those that this run folder does not hold yet, and write
    the table and figures there.
    """
    if out is None:
        return _all_measured(plan, engine, None, progress)
    with RunFolder(out, KIND, plan.settings) as folder:
        lines = pairs_as_lines(plan.pairs).encode()
        file = folder.path / "pairs.jsonl"
        if not file.is_file() or read_bytes(file) != lines:
            write_atomically(file, lines)
        evaluation = _all_measured(plan, engine, folder, progress)
        write_evaluation(evaluation, folder.path)
    return evaluation


def _all_measured(
    plan: Plan, engine: Engine, folder: RunFolder | None, progress: Progress | None
) -> Evaluation:
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
    return Evaluation(
        settings=plan.settings,
        rows=stored.frame([name_of_stored(one) for one in plan.settings["constructions"]]),
        pairs=len(plan.pairs),
        failed=failed,
        skipped=plan.skipped,
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
