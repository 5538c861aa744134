"""Pairs: from texts with two blanks to the numbers of every construction, and the rows that
keep them.

The joints are over the model's regular tokens, or over every output column, as in Torroba
Hennigen & Kim (2023): `support`.

On a GPU several pairs are measured at once, as many as fit into most of its free memory
(`Measurer`). A pair of a small vocabulary is bound by launches, not by arithmetic, so pairs go
through the solver side by side, a row each (`unmask.joints.solver`), and share the launches of
sweeps, Newton steps and sums; the passes of one pair fill the card.

If memory runs out in the passes, the joints or the numbers, that stage continues with half
(`unmask.models.batching`); if one pair's share of a stage is too much beside the tables of the
others, the pairs at once are halved for the rest of the run.

The last digits of a pair's numbers may depend on the pairs it is measured with. So the pairs of
a batch are stored together, and their number depends on the longest text of the whole run: a
run that is killed and continued measures the same batches.

The pairs, and the settings that a resumed run must share, are fixed before the first pass
(`make_plan`). Finished pairs are read from the folder, so the same call after a kill continues
where the rows end.
"""

from __future__ import annotations

import logging
import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import torch

from unmask.common.cloze import Cloze
from unmask.common.errors import InputError, UnmaskError, UnmaskWarning
from unmask.common.files import first_line, read_bytes, write_atomically
from unmask.joints.deriving import derive_blocks
from unmask.joints.metrics import metrics_of_blocks
from unmask.joints.newton import LIKELY
from unmask.joints.precompile import Launch, precompile
from unmask.joints.registry import PUBLISHED_STEPS, named
from unmask.models.batching import halving, is_out_of_memory, release_memory, triton_wanted
from unmask.models.conditional_model import ConditionalModel
from unmask.models.first_look import look_at_first
from unmask.models.load import Model, model_name
from unmask.models.masked_lm import MaskedLM
from unmask.models.sharing import shared_model
from unmask.models.text.blanks import alphabet_ids
from unmask.runs.engine import Workers, each
from unmask.runs.fingerprint import content_hash
from unmask.runs.folder import RunFolder, read_parts, read_rows
from unmask.runs.progress import Progress
from unmask.studies.evaluation.pairs import (
    Parse,
    PositionPair,
    choose_pairs,
    is_pairs_file,
    pairs_as_lines,
    read_pairs,
    read_texts,
)
from unmask.studies.evaluation.table import Evaluation
from unmask.tables.candidates import SPEED
from unmask.tables.unary import tables_of

if TYPE_CHECKING:
    import pandas

KIND = "evaluate"
MOST_ROWS_PER_PART = 4096
COLUMNS: dict[str, str] = {
    "pair": "int64",
    "text_index": "int64",
    "text": "string",
    "first": "int64",
    "second": "int64",
    "first_token": "string",
    "second_token": "string",
    "tokens": "int64",
    "token_distance": "int64",
    "syntactic_distance": "int64",
    "construction": "string",
    "unary_nll_first": "float64",
    "unary_nll_second": "float64",
    "pair_nll": "float64",
    "a_kl": "float64",
    "g_kl": "float64",
    "incompatibility": "float64",
    "objective": "float64",
    "steps": "int64",
    "converged": "bool",
    "seconds": "float64",
}
"""Column: Arrow type. NLL and KL are in nats at the gold tokens; `seconds` is the time of the
whole pair, or its share of that of the pairs that were measured with it."""

METRICS = ("unary_nll_first", "unary_nll_second", "pair_nll", "a_kl", "g_kl")
"""The numbers of a row that are always there and finite."""

logger = logging.getLogger(__name__)
SHARE = 0.7  # Of a GPU's free memory
MOST, ON_A_CPU = (
    128,
    1,
)  # Pairs at once: more gain little, and are lost together when a run is killed
SHARES = 4  # Of each worker, at least: so that none waits long for the last one
Row = dict[str, Any]
Batch = list[tuple[int, list[Row] | str]]
"""The places of pairs that were measured together, and the rows of each, or the reason why it
failed.
"""
Engine = Callable[[Sequence[PositionPair]], Iterator[Batch]]  # Measures every pair once


class Measurer:
    """Measures pairs with one model, in order: several at once on a GPU, else one after the other.

    steps     of Arnold-Gokhale; None: to converge
    support   the token ids of the joints; None: every output column
    longest   tokens of the longest text of the run; by default of the pairs that are measured first
    size      pairs of a batch, decided in the first call
    """

    def __init__(
        self,
        model: MaskedLM,
        constructions: Sequence[str],
        steps: int | None = None,
        support: Sequence[int] | None = None,
        longest: int = 0,
    ) -> None:
        self.model, self.constructions, self.steps, self.longest = (
            model,
            tuple(constructions),
            steps,
            longest,
        )
        self.support = None if support is None else torch.tensor(support)
        self.precompilation: Thread | None = None
        self.size: int | None = None

    @property
    def tokens(self) -> int:
        """How many tokens each blank of a joint has."""
        return self.model.vocab_size if self.support is None else len(self.support)

    def precompile(self) -> None:
        """Begin to compile and load what a GPU needs, where there is one, beside whatever comes
        before the first pair.
        """
        device = self.model.device
        if (
            self.precompilation is None
            and device.type == "cuda"
            and triton_wanted(torch.empty(0, device=device))
        ):
            self.precompilation = precompile(self.tokens, device, self._launches)

    def _launches(self) -> Iterator[Launch]:
        """The launches of passes and tables, beside those of the joints."""
        from unmask.tables import triton_cells

        yield partial(first_pass, self.model)
        if self.model.encoder is not None:
            yield from self.model.encoder.layers[0].launches()
        yield partial(
            triton_cells.precompile, self.model.vocab_size, self.tokens, self.model.device
        )

    def __call__(self, pairs: Sequence[PositionPair]) -> Iterator[Batch]:
        """The numbers of all pairs, batch by batch."""
        if not pairs:
            return
        self.precompile()
        if self.precompilation is not None:
            self.precompilation.join()
        with suppress(Exception):  # what fails here fails its own pair below
            look_at_first(self.model, (pair.ids for pair in pairs))
        self.size, start = self.size or self._fitting(pairs), 0
        while start < len(pairs):
            some = pairs[start : start + self.size]
            batch = self._batch(some, start)
            if batch is None:
                self.size = len(some) // 2
                release_memory()
                logger.warning(
                    "out of memory with %d pairs at once: going on with %d", len(some), self.size
                )
                continue
            yield batch
            start += len(some)

    def _batch(self, pairs: Sequence[PositionPair], first: int) -> Batch | None:
        """The rows of pairs from the place `first` on, one by one if one of several fails; None
        if memory has run out.
        """
        try:
            return list(enumerate(self.together(pairs), first))
        except Exception as error:
            if len(pairs) == 1:
                why = (
                    str(error)
                    if isinstance(error, UnmaskError)
                    else f"{type(error).__name__}: {first_line(error)}"
                )
                return [(first, why)]
            if is_out_of_memory(error):
                return None
            return [
                answer
                for place, pair in enumerate(pairs, first)
                for answer in self._batch([pair], place) or ()
            ]

    def together(self, pairs: Sequence[PositionPair]) -> list[list[Row]]:
        """The rows of several pairs, measured at once: one per construction; numbers that are
        not finite are an error.
        """
        start = time.perf_counter()
        clozes = [pair.cloze(self.model.mask_id) for pair in pairs]
        measured = measure_pairs(self.model, clozes, self.constructions, self.steps, self.support)
        seconds = (time.perf_counter() - start) / len(pairs)
        for row in chain.from_iterable(measured):
            for metric in METRICS:
                if not math.isfinite(row[metric]):
                    raise UnmaskError(f"{metric} of {row['construction']} is {row[metric]}")
        of_pairs = []
        for pair, rows in zip(pairs, measured, strict=True):
            (first, second), tokens = pair.block, self.model.decode(pair.gold)
            about = {
                "pair": pair.index,
                "text_index": pair.text_index,
                "text": pair.text,
                "first": first,
                "second": second,
                "first_token": tokens[0],
                "second_token": tokens[1],
                "tokens": len(pair.ids),
                "token_distance": pair.token_distance,
                "syntactic_distance": pair.syntactic_distance,
            }
            of_pairs.append([{**about, **row, "seconds": seconds} for row in rows])
        return of_pairs

    def _fitting(self, pairs: Sequence[PositionPair]) -> int:
        """The number of pairs to try at once.

        At the peak a pair keeps about two tables, the strips of its likely tokens, and the
        state of its members.
        """
        model, tokens = self.model, self.tokens
        if model.device.type != "cuda":
            return ON_A_CPU
        longest = max(self.longest, *(len(pair.ids) for pair in pairs))
        passes = model.rows_at_once(longest, 1) * model.cost.bytes(longest, 1)
        room = int(SHARE * torch.cuda.mem_get_info(model.device)[0])
        likely, members = (
            min(tokens, 3 * LIKELY),
            sum(named(name).member is not None for name in self.constructions),
        )
        strips, systems, vectors = 4 * 4 * likely * tokens, 16 * 8 * likely**2, 60 * 8 * 2 * tokens
        each = 2 * 4 * tokens**2 + strips + members * (systems + vectors) + tokens**2 // 2
        return max(1, min(MOST, (room - passes) // each))


def first_pass(model: MaskedLM) -> None:
    """A pass over a text of one token again and again: libraries are loaded when a GPU first
    needs them.
    """
    tokens = min(16, model.max_length or 16)
    model.logits(torch.full((1, tokens), model.regular_ids[0]), torch.tensor([[0, tokens - 1]]))


@torch.inference_mode()
def measure_pairs(
    model: ConditionalModel,
    clozes: Sequence[Cloze],
    constructions: Sequence[str],
    arnold_gokhale_steps: int | None = None,
    support: torch.Tensor | None = None,
) -> list[list[Row]]:
    """For each pair one row per construction: the terms of U-PPL and P-PPL, A-KL, G-KL,
    incompatibility, steps and objective.

    First the tables of all pairs, of any texts, then their joints side by side, then the numbers.

    Where memory runs out for the joints or the numbers, those of half the pairs follow the
    other half's.
    """
    golds = [cloze.gold for cloze in clozes if cloze.gold is not None]
    if len(golds) < len(clozes):
        raise InputError(
            "the pair's own tokens are not known: give the text without blanks, and the positions"
        )
    over = [None if support is None else [support, support]] * len(clozes)
    blocks = tables_of(model, clozes, over, supports=over)
    options: dict[str, dict[str, object]] = (
        {PUBLISHED_STEPS: {"steps": arnold_gokhale_steps}} if arnold_gokhale_steps else {}
    )
    derived = halving(lambda some: derive_blocks(some, constructions, options), blocks)
    with_gold = list(zip(derived, golds, strict=True))
    measured = halving(
        lambda some: metrics_of_blocks([joints for joints, _ in some], [gold for _, gold in some]),
        with_gold,
    )
    return [
        [
            {
                "construction": of.construction,
                "unary_nll_first": of.unary_nll[0],
                "unary_nll_second": of.unary_nll[1],
                "pair_nll": of.joint_nll,
                "a_kl": of.a_kl,
                "g_kl": of.g_kl,
                "incompatibility": metrics.incompatibility,
                "objective": of.objective,
                "steps": joint.report.get("steps"),
                "converged": joint.report.get("converged"),
            }
            for of, joint in zip(metrics.joints, joints, strict=True)
        ]
        for metrics, joints in zip(measured, derived, strict=True)
    ]


def measured_by_workers(
    workers: Workers,
    load: Callable[[], MaskedLM],
    arguments: Sequence[Any],
    pairs: Sequence[PositionPair],
) -> Iterator[Batch]:
    """As a `Measurer` with these arguments after the model, by workers, in any order."""
    size = max(1, min(MOST, -(-len(pairs) // (SHARES * workers.count))))
    shares = [pairs[first : first + size] for first in range(0, len(pairs), size)]
    for share, batches in each(_of_share, shares, workers, partial(_of_worker, load, arguments)):
        yield from (
            [(share * size + place, answer) for place, answer in batch] for batch in batches
        )


def _of_worker(load: Callable[[], MaskedLM], arguments: Sequence[Any]) -> Measurer:
    return Measurer(load(), *arguments)


def _of_share(measurer: Measurer, pairs: Sequence[PositionPair]) -> list[Batch]:
    return list(measurer(pairs))


@dataclass(frozen=True)
class Plan:
    """The pairs to measure, the settings that a resumed run must share, and the texts skipped
    by reason.
    """

    pairs: list[PositionPair]
    settings: dict[str, Any]
    skipped: Counter[str]


Data = str | os.PathLike[str] | Sequence[str]


def evaluated(
    data: Data,
    model: Model,
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
    if is_pairs_file(data) and (pairs is not None or scheme != "random"):
        option = "pairs" if pairs is not None else "scheme"
        raise InputError(
            f"{option} was given, and the pairs are those of {str(data)!r}: leave {option} out"
        )
    lm, workers, load = shared_model(model, engine)
    alphabet = settings["alphabet"]
    regular = (
        lm.regular_ids if alphabet is None else tuple(sorted(alphabet_ids(lm.words, alphabet)))
    )
    support = None if settings["support"] == "all" else regular
    measured = (settings["constructions"], settings["arnold_gokhale_steps"], support)
    measurer = Measurer(lm, *measured)
    if workers is None:
        measurer.precompile()
    plan = make_plan(
        data,
        lm,
        regular,
        scheme,
        pairs or usual_pairs(lm, measurer.tokens, workers is not None),
        seed,
    )
    if (
        pairs is None
        and len(plan.pairs) < MOST_USUAL
        and workers is None
        and "scheme" in plan.settings
    ):
        few = (
            f"{len(plan.pairs)} pairs are a first try: numbers to report take --pairs {MOST_USUAL},"
            " best on a GPU"
        )
        warnings.warn(few, UnmaskWarning, stacklevel=3)
    about = {
        "dtype": str(lm.dtype).removeprefix("torch."),
        "device": lm.device.type if workers is None else workers.device,
        "model": model_name(model),
        "weights": lm.fingerprint,
    }
    plan = replace(plan, settings={**about, **settings, **plan.settings})
    measurer.longest = max((len(pair.ids) for pair in plan.pairs), default=0)
    if workers is None or load is None:
        return measure_plan(plan, measurer, folder, progress)
    with suppress(Exception):  # what fails here fails in its worker
        look_at_first(lm, (pair.ids for pair in plan.pairs))  # warnings of workers are dropped
    return measure_plan(
        plan,
        partial(measured_by_workers, workers, load, (*measured, measurer.longest)),
        folder,
        progress,
    )


MOST_USUAL, FEWEST_USUAL = 1000, 2
FIRST_TRY = 70.0
"""Pairs of a run that is not told how many, and the seconds that it may take on a CPU."""
SECONDS_PER_CELL = 8e-8
USUAL_TOKENS = 12


def seconds_per_pair(model: MaskedLM, tokens: int) -> float:
    """About how long a pair over this many tokens takes on two cores, by the size of model and
    tables alone.
    """
    return tokens * (
        2 * (model.multiplications(USUAL_TOKENS) or 0) / SPEED["cpu"] + tokens * SECONDS_PER_CELL
    )


def usual_pairs(model: MaskedLM, tokens: int, shared: bool) -> int:
    """How many pairs a first try has: about a minute's on two cores, which is a function of the
    model alone.
    """
    if shared or model.device.type == "cuda":
        return MOST_USUAL
    return max(
        FEWEST_USUAL, min(MOST_USUAL, int(FIRST_TRY / max(seconds_per_pair(model, tokens), 1e-3)))
    )


def make_plan(
    data: Data, model: MaskedLM, regular: Sequence[int], scheme: str, count: int, seed: int
) -> Plan:
    """Pairs of `data` for `model`, whose tokens are among `regular`: those of a .jsonl file, or
    `count` chosen by `scheme`.
    """
    special = sorted(set(range(model.vocab_size)) - set(regular))
    skipped = Counter[str]()
    if is_pairs_file(data):
        settings: dict[str, Any] = {"data": str(data)}
        pairs = read_pairs(data, model.words.encode, special, model.max_length)
    else:
        texts = read_texts(data)
        chosen, skipped = choose_pairs(
            texts, model.words.encode, special, scheme, count, seed, model.max_length
        )
        pairs = [_with_syntax(pair, texts[pair.text_index].parse, model) for pair in chosen]
        settings = {
            "data": (
                str(data) if isinstance(data, str | os.PathLike) else f"{len(texts)} given texts"
            )
        }
        settings |= {"data_sha256": content_hash("\n".join(text.text for text in texts))}
        settings |= {"scheme": scheme, "pairs": count, "seed": seed}
    settings["pairs_sha256"] = content_hash(pairs_as_lines(pairs))
    return Plan(pairs, settings, skipped)


def _with_syntax(pair: PositionPair, parse: Parse | None, model: MaskedLM) -> PositionPair:
    """The pair with its distance in the dependency tree, if its text has one and the tokenizer
    says which characters a token covers."""
    if (
        parse is None
        or model.words.prepared(pair.text) != pair.text
        or (spans := model.words.spans(pair.text)) is None
    ):
        return pair
    words = parse.words_of(pair.text, spans)
    return replace(
        pair, syntactic_distance=parse.token_distance(words[pair.block[0]], words[pair.block[1]])
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
        if not (file := folder.path / "pairs.jsonl").is_file() or read_bytes(file) != lines:
            write_atomically(file, lines)
        evaluation = _all_measured(plan, engine, folder, progress)
        evaluation.save(folder.path)
    return evaluation


def _all_measured(
    plan: Plan, engine: Engine, folder: RunFolder | None, progress: Progress | None
) -> Evaluation:
    """All pairs that are not stored yet; those that fail are tried once and recorded."""
    rows, failed = StoredRows(folder), list[dict[str, Any]]()
    pending = [pair for pair in plan.pairs if pair.index not in rows.done]

    def report() -> None:
        if progress:
            what = f"pairs ({len(failed)} failed)" if failed else "pairs"
            progress(len(rows.done) + len(failed), len(plan.pairs), what)

    report()
    try:
        for batch in engine(pending):
            for place, answer in batch:
                if isinstance(answer, str):
                    pair = pending[place]
                    about = {
                        "pair": pair.index,
                        "text_index": pair.text_index,
                        "text": pair.text,
                        "block": list(pair.block),
                    }
                    failed.append({**about, "reason": answer})
            rows.add([row for _, answer in batch if not isinstance(answer, str) for row in answer])
            report()
    finally:
        rows.store()
    return Evaluation(
        plan.settings,
        rows.frame(plan.settings["constructions"]),
        len(plan.pairs),
        failed,
        plan.skipped,
    )


class StoredRows:
    """The rows of whole pairs: those of earlier runs, and those that come now; on the disk
    where there is a folder.

    Parts hold whole batches: often at first, so that a short run loses nothing, then every two
    seconds.
    """

    def __init__(self, folder: RunFolder | None) -> None:
        import pyarrow

        self.columns, self.folder = pyarrow.schema([*COLUMNS.items()]), folder
        parts = read_parts(folder.path) if folder else []
        self.tables = [
            self.columns.empty_table(),
            *(read_rows([part], self.columns) for part in parts),
        ]
        self.done = {pair for table in self.tables for pair in table["pair"].to_pylist()}
        self.waiting, self.stored = list[Row](), time.monotonic()

    def add(self, rows: list[Row]) -> None:
        """The rows of pairs that were measured together."""
        self.waiting += rows
        self.done |= {row["pair"] for row in rows}
        patience = min(2.0, 0.01 * len(self.tables))
        if time.monotonic() - self.stored >= patience or len(self.waiting) >= MOST_ROWS_PER_PART:
            self.store()

    def store(self) -> None:
        """Write what is waiting."""
        if self.waiting:
            rows, self.waiting = self.waiting, []
            self.tables.append(type(self.tables[0]).from_pylist(rows, self.columns))
            if self.folder:
                self.folder.store(self.tables[-1])
            self.stored = time.monotonic()

    def frame(self, constructions: Sequence[str]) -> pandas.DataFrame:
        """All rows, in the order of the pairs and, within a pair, of the constructions asked
        for.
        """
        import pyarrow

        frame: pandas.DataFrame = pyarrow.concat_tables(self.tables).to_pandas()
        order = frame["construction"].map({name: place for place, name in enumerate(constructions)})
        in_order = frame.assign(_order=order).sort_values(["pair", "_order"], kind="stable")
        return (
            in_order.drop(columns="_order")
            .drop_duplicates(["pair", "construction"])
            .reset_index(drop=True)
        )
