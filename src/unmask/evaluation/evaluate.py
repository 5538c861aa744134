"""The whole evaluation as one call: load, choose pairs, measure or resume, report.

The pairs, and the settings that a resumed run must share, are fixed before the first pass. Finished pairs are read from
the folder, so the same call after a kill continues where the rows end. Rows are stored in parts of whole pairs, those that were
measured together in one part: often at first, so that a short run loses nothing, then every two seconds.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.arguments import checked
from unmask.errors import InputError
from unmask.evaluation.datasets import Parse, read_texts
from unmask.evaluation.measure import (
    COLUMNS,
    InBatches,
    Measurer,
    Row,
    about_pair,
    as_table,
    measured_on_ray,
    schema,
)
from unmask.evaluation.pairs import PositionPair, choose_pairs, pairs_as_lines, read_pairs
from unmask.evaluation.table import Evaluation
from unmask.joints.registry import PUBLISHED_STEPS, all_named
from unmask.models.masked_lm import MaskedLM, as_model
from unmask.models.text.words import alphabet_ids, alphabet_tokens
from unmask.models.workers import for_workers, refuse_loaded
from unmask.options.option import documented
from unmask.options.scoring import EvaluateOptions
from unmask.runs.engines import Engine
from unmask.runs.files import as_json, read_bytes, write_atomically, writing
from unmask.runs.fingerprint import content_hash
from unmask.runs.folder import RunFolder, read_rows, refuse_foreign
from unmask.runs.outputs import output_folder
from unmask.runs.progress import Progress

if TYPE_CHECKING:
    import pandas
    import pyarrow


SAME_CONTENT = {"model": "weights", "data": "data_sha256", "pairs_file": "pairs_sha256"}
"""Settings that may be written differently as long as what they name is the same: setting, and the one that is compared."""


@dataclass(frozen=True)
class Request(EvaluateOptions):
    """The user's request, checked before a model is loaded."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.data is None) == (self.pairs_file is None):
            given = "neither data nor pairs_file was given" if self.data is None else "data and pairs_file were both given"
            raise InputError(f"{given}: give one of the two")
        if self.alphabet is not None and self.support != "regular":
            raise InputError(f"alphabet and support {self.support} exclude each other: leave one out")
        if self.arnold_gokhale_steps is not None and PUBLISHED_STEPS not in self.constructions:
            raise InputError(
                f"arnold_gokhale_steps was given, but arnold_gokhale is not among {', '.join(self.constructions)}: "
                "add it, or leave the steps out"
            )
        if self.engine == "ray":
            refuse_loaded(self.model)

    @property
    def model_name(self) -> str:
        """The model as settings name it."""
        return (
            "bundled" if self.model is None else "a loaded model" if isinstance(self.model, MaskedLM) else os.fspath(self.model)
        )

    @property
    def constructions(self) -> list[str]:
        """The names of the constructions, in the order asked for."""
        return [construction.name for construction in all_named(self.joints)]

    @cached_property
    def tokens(self) -> list[str] | None:
        """The alphabet, if one was given."""
        return None if self.alphabet is None else list(alphabet_tokens(self.alphabet))

    def regular_ids(self, model: MaskedLM) -> tuple[int, ...]:
        """The ids that pairs are chosen from, and, unless every output column is asked for, that joints run over."""
        return model.regular_ids if self.tokens is None else tuple(sorted(alphabet_ids(model.words, self.tokens)))


@dataclass(frozen=True)
class EvaluationPlan:
    """The pairs to measure, the settings, and the texts skipped by reason."""

    pairs: list[PositionPair]
    settings: dict[str, Any]
    skipped: Counter[str]


def make_plan(request: Request, model: MaskedLM, regular: Sequence[int], device: str) -> EvaluationPlan:
    """The pairs and settings of `request` for `model`; `device` is the kind of device that will measure them."""
    settings: dict[str, Any] = {
        "dtype": str(model.dtype).removeprefix("torch."),
        "device": device,
        "model": request.model_name,
        "weights": model.fingerprint,
        "constructions": request.constructions,
        "arnold_gokhale_steps": request.arnold_gokhale_steps,
        "support": request.support,
        "alphabet": request.tokens,
        "data": None,
        "pairs_file": None,
    }
    special = sorted(set(range(model.vocab_size)) - set(regular))
    encode, limit, skipped = model.words.encode, model.max_length, Counter[str]()
    if request.pairs_file is not None:
        settings["pairs_file"] = str(request.pairs_file)
        pairs = read_pairs(request.pairs_file, encode, special, COLUMNS, limit)
    else:
        assert request.data is not None
        texts = read_texts(request.data)
        chosen, skipped = choose_pairs(texts, encode, special, request.scheme, request.pairs, request.seed, limit)
        pairs = [_with_syntax(pair, texts[pair.text_index].parse, model) for pair in chosen]
        settings["data"] = str(request.data) if isinstance(request.data, str | os.PathLike) else f"{len(texts)} given texts"
        settings["data_sha256"] = content_hash("\n".join(text.text for text in texts))
        settings |= {"scheme": request.scheme, "pairs": request.pairs, "seed": request.seed}
    settings["pairs_sha256"] = content_hash(pairs_as_lines(pairs))
    as_table([about_pair(pair, model.decode(pair.gold)) for pair in pairs], schema(pairs))
    return EvaluationPlan(pairs, settings, skipped)


def _with_syntax(pair: PositionPair, parse: Parse | None, model: MaskedLM) -> PositionPair:
    """The pair with its distance in the dependency tree, if its text has one and the tokenizer says which characters a token
    covers."""
    if parse is None or model.words.prepared(pair.text) != pair.text or (spans := model.words.spans(pair.text)) is None:
        return pair
    words = parse.words_of(pair.text, spans)
    return replace(pair, syntactic_distance=parse.token_distance(words[pair.block[0]], words[pair.block[1]]))


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
    lang: str | None = None,
    shift: bool = False,
    mask_token: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure every construction on pairs of tokens: U-PPL, P-PPL, A-KL and G-KL, as in Table 1 of the paper.

    A pair that fails is listed in the result and left out of the table.

    Arguments: help(unmask.evaluate)

    >>> texts, words = ["The cat sat on the mat.", "The dog sat on the bed."], "cat,dog,sat,lay,mat,bed"
    >>> unmask.evaluate(texts, pairs=2, joints="product,chain", alphabet=words).pairs
    2
    """
    request = Request.given(locals())
    folder = None if out is None else output_folder("out", out, (data, pairs_file, alphabet, model))
    if folder is not None:
        refuse_foreign(folder, KIND)
    reading, on_workers = (rename, lang, shift, mask_token), None
    if engine == "local":
        lm = as_model(model, device, dtype, *reading)
    else:
        lm, on_workers = for_workers(model, device, dtype, reading, workers)
    regular = request.regular_ids(lm)
    measured = (request.constructions, request.arnold_gokhale_steps, None if support == "all" else regular)
    here = Measurer(lm, *measured) if on_workers is None else None
    if here is not None:
        here.rehearse()
    plan = make_plan(request, lm, regular, lm.device.type if on_workers is None else on_workers.device)
    longest = max((len(pair.ids) for pair in plan.pairs), default=0)
    if here is not None:
        return _run(plan, InBatches(here, memory, longest), folder, progress)
    assert on_workers is not None
    return _run(plan, partial(measured_on_ray, on_workers, (*measured, memory, longest)), folder, progress)


def _run(
    plan: EvaluationPlan, engine: Engine[PositionPair, list[Row]], out: Path | None, progress: Progress | None
) -> Evaluation:
    if out is None:
        return _measure(plan, engine, None, progress)
    with RunFolder(out, KIND, plan.settings, model=plan.settings["weights"], same_content=SAME_CONTENT) as folder:
        lines = pairs_as_lines(plan.pairs).encode()
        if not (file := folder.path / "pairs.jsonl").is_file() or read_bytes(file) != lines:
            write_atomically(file, lines)
        found = _measure(plan, engine, folder, progress)
        found.save(folder.path)
    return found


def _measure(
    plan: EvaluationPlan, engine: Engine[PositionPair, list[Row]], folder: RunFolder | None, progress: Progress | None
) -> Evaluation:
    """All pairs that are not stored yet; those that fail are tried once and recorded, in failures.jsonl if a folder is given."""
    rows, failed = _Rows(schema(plan.pairs), folder), list[dict[str, Any]]()
    if folder:
        with writing(file := folder.path / "failures.jsonl"):
            file.unlink(missing_ok=True)
    pending = [pair for pair in plan.pairs if pair.index not in rows.done]
    if folder and pending and (gaps := folder.gaps()):
        warnings.warn(f"{gaps[0]} is missing among the parts of {str(folder.path)!r}: its pairs are measured again", stacklevel=2)

    def report() -> None:
        if progress:
            what = f"pairs ({len(failed)} failed)" if failed else "pairs"
            progress(len(rows.done) + len(failed), len(plan.pairs), what)

    report()
    try:
        for answer in engine(pending):
            if answer.result is None:
                pair = pending[answer.place]
                about = {"pair": pair.index, "text_index": pair.text_index, "text": pair.text, "block": list(pair.block)}
                failed.append({**about, "reason": answer.failure or "no answer"})
                if folder:
                    with writing(file), open(file, "a", encoding="utf-8") as stream:
                        stream.write(as_json(failed[-1], indent=None) + "\n")
            else:
                rows.add(answer.result)
            if not answer.more:
                rows.keep()
            report()
    finally:
        rows.store()
    return Evaluation(plan.settings, rows.frame(plan.settings["constructions"]), len(plan.pairs), failed, plan.skipped)


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
