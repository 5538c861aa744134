"""The whole evaluation as one call: load, choose, measure or resume, report.

Which pairs are done is read from the folder, so the same call after a kill goes on where the rows end. Rows are kept in
parts that hold whole pairs, those that were measured together in one: often at first, so that a short run loses
nothing, then every two seconds.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.arguments import checked
from unmask.errors import InputError
from unmask.evaluation.batches import InBatches
from unmask.evaluation.evaluation import Evaluation
from unmask.evaluation.measure import Measurer, Row, as_table, load_measurer, schema
from unmask.evaluation.pairs import Pair
from unmask.evaluation.pairs_file import pairs_as_lines
from unmask.evaluation.plan import SAME_CONTENT, Plan, Request, make_plan, support_of
from unmask.models.masked_lm import MaskedLM, as_model
from unmask.options.evaluation import EvaluateOptions
from unmask.options.option import documented
from unmask.runs.engines import Engine, OnRay, ray_has_gpus, start_ray
from unmask.runs.files import as_json, read_bytes, write_atomically, writing
from unmask.runs.folder import RunFolder, read_rows, refuse_foreign
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import pandas
    import pyarrow

KIND = "evaluate"
MOST_ROWS_PER_PART = 4096


@documented(EvaluateOptions)
@checked
def evaluate(
    data: str | os.PathLike[str] | Sequence[str] | None = None,
    *,
    model: MaskedLM | str | Path | None = None,
    pairs_file: str | os.PathLike[str] | None = None,
    scheme: str = "random",
    pairs: int = 1000,
    seed: int = 0,
    joints: str | Sequence[str] = "all",
    arnold_gokhale_steps: int | None = None,
    support: str = "regular",
    alphabet: str | os.PathLike[str] | Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    engine: str = "local",
    workers: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    memory: str | float | None = None,
    rename: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1 of the paper.

    A pair that fails is listed in the result and left out of the table.

    >>> texts, words = ["The cat sat on the mat.", "The dog sat on the bed."], "cat,dog,sat,lay,mat,bed"
    >>> unmask.evaluate(texts, pairs=2, joints="product,chain", alphabet=words).pairs
    2
    """
    request = Request.given(locals())
    folder = None if out is None else output_folder("out", out, (data, pairs_file, alphabet, model))
    if folder is not None:
        refuse_foreign(folder, KIND)
    if isinstance(model, MaskedLM) or engine == "local":
        lm = as_model(model, device, dtype, rename)
        over = support_of(request, lm)
        measurer = Measurer(lm, request.constructions, request.arnold_gokhale_steps, over.joints)
        measurer.rehearse()
        plan = make_plan(request, lm, over, lm.device.type)
        longest = max((len(pair.ids) for pair in plan.pairs), default=0)
        return _run(plan, InBatches(measurer, memory, longest), folder, progress)
    plan, pool = _on_ray(request, model, device, dtype, rename, workers)
    return _run(plan, pool, folder, progress)


def _on_ray(
    request: Request,
    model: str | Path | None,
    device: str,
    dtype: str,
    rename: Mapping[str, str] | None,
    workers: int | None,
) -> tuple[Plan, Engine[Pair, list[Row]]]:
    """The driver loads the model on the CPU, to choose the pairs and to know the weights; the workers measure."""
    start_ray()
    if device.startswith("cuda") and not ray_has_gpus():
        raise InputError(f"device {device!r} was asked for, but the Ray cluster has no GPU: use device cpu")
    gpu = device.startswith("cuda") or (device == "auto" and ray_has_gpus())
    lm = as_model(model, "cpu" if gpu or device == "auto" else device, dtype, rename)
    kind = "cuda" if gpu else lm.device.type
    over = support_of(request, lm)
    plan = make_plan(request, lm, over, kind)
    where = None if model is None else os.fspath(model)
    if where is not None and os.path.isdir(folder := os.path.expanduser(where)):
        where = os.path.realpath(folder)
    names, steps = request.constructions, request.arnold_gokhale_steps
    make = partial(load_measurer, where, kind, plan.settings["dtype"], rename, names, steps, over.joints)
    return plan, OnRay(make, workers, gpu=gpu)


def _run(plan: Plan, engine: Engine[Pair, list[Row]], out: Path | None, progress: Progress | None) -> Evaluation:
    if out is None:
        return _measure(plan, engine, None, progress)
    with RunFolder(out, KIND, plan.settings, model=plan.settings["weights"], same_content=SAME_CONTENT) as folder:
        lines = pairs_as_lines(plan.pairs).encode()
        if not (file := folder.path / "pairs.jsonl").is_file() or read_bytes(file) != lines:
            write_atomically(file, lines)
        found = _measure(plan, engine, folder, progress)
        found.save(folder.path)
    return found


def _measure(plan: Plan, engine: Engine[Pair, list[Row]], folder: RunFolder | None, progress: Progress | None) -> Evaluation:
    """All pairs that are not stored yet; those that fail are tried once and recorded."""
    rows, failures = _Rows(schema(plan.pairs), folder), _Failures(folder)
    pending = [pair for pair in plan.pairs if pair.index not in rows.done]
    if folder and pending and (gaps := folder.gaps()):
        warnings.warn(f"{gaps[0]} is missing among the parts of {str(folder.path)!r}: its pairs are measured again", stacklevel=2)

    def tell() -> None:
        if progress:
            failed = len(failures.found)
            progress(len(rows.done) + failed, len(plan.pairs), f"pairs ({failed} failed)" if failed else "pairs")

    tell()
    try:
        for answer in engine(pending):
            if answer.result is None:
                failures.add(pending[answer.place], answer.failure or "no answer")
            else:
                rows.add(answer.result)
            if not answer.more:
                rows.keep()
            tell()
    finally:
        rows.store()
    return Evaluation(plan.settings, rows.frame(plan.settings["constructions"]), len(plan.pairs), failures.found, plan.skipped)


class _Rows:
    """The rows of whole pairs: those of earlier runs, and those that come now; on the disk where there is a folder."""

    def __init__(self, columns: pyarrow.Schema, folder: RunFolder | None) -> None:
        self.columns, self.folder = columns, folder
        self.tables = [columns.empty_table()]
        self.done: set[int] = set()
        self.came: list[Row] = []
        self.waiting: list[Row] = []
        self.stored = time.monotonic()
        for part in folder.parts() if folder else ():
            self.tables.append(read_rows([part], columns))
            pairs = set(self.tables[-1]["pair"].to_pylist())
            if twice := sorted(pairs & self.done):
                raise InputError(f"pair {twice[0]} of {str(part.path)!r} is in an earlier part too: delete this one")
            self.done |= pairs

    def add(self, rows: list[Row]) -> None:
        """The rows of one pair, which wait for those of the pairs that it was measured with."""
        self.came += rows
        self.done.add(rows[0]["pair"])

    def keep(self) -> None:
        """The pairs that were measured together are there."""
        self.waiting, self.came = self.waiting + self.came, []
        patience = min(2.0, 0.01 * len(self.tables))
        if time.monotonic() - self.stored >= patience or len(self.waiting) >= MOST_ROWS_PER_PART:
            self.store()

    def store(self) -> None:
        """Keep what is waiting."""
        if self.waiting:
            table, self.waiting = as_table(self.waiting, self.columns), []
            self.tables.append(table)
            if self.folder:
                self.folder.store(table)
            self.stored = time.monotonic()

    def frame(self, constructions: Sequence[str]) -> pandas.DataFrame:
        """All rows, in the order of the pairs and, within a pair, of the constructions asked for."""
        import pyarrow

        frame: pandas.DataFrame = pyarrow.concat_tables(self.tables, promote_options="default").to_pandas()
        order = frame["construction"].map({name: place for place, name in enumerate(constructions)})
        in_order = frame.assign(_order=order).sort_values(["pair", "_order"], kind="stable")
        return in_order.drop(columns="_order").reset_index(drop=True)


class _Failures:
    """Pairs that failed in this run, with the reason; in failures.jsonl where there is a folder."""

    def __init__(self, folder: RunFolder | None) -> None:
        self.found: list[dict[str, Any]] = []
        self.file = folder.path / "failures.jsonl" if folder else None
        if self.file:
            with writing(self.file):
                self.file.unlink(missing_ok=True)

    def add(self, pair: Pair, reason: str) -> None:
        """One failed pair."""
        about = {"pair": pair.index, "text_index": pair.text_index, "text": pair.text, "block": list(pair.block)}
        self.found.append({**about, "reason": reason})
        if self.file:
            with writing(self.file), open(self.file, "a", encoding="utf-8") as file:
                file.write(as_json(self.found[-1], indent=None) + "\n")
