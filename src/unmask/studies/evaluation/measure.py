"""Pairs: from texts with two blanks to the numbers of every construction.

The joints are over the token ids of `support`, or, as in Torroba Hennigen & Kim (2023), over
every output column.

On a GPU several pairs are measured at once, as many as fit into most of its free memory
(`Measurer`). A pair of a small vocabulary is bound by launches, not by arithmetic. So pairs go
through the solver side by side, a row each (`unmask.joints.solver`), and share the launches of
sweeps, Newton steps and sums; the passes of one pair fill the card.

Memory may run out in one of three stages: the passes, the joints, the numbers. The stage is then
repeated with half of the pairs (`unmask.models.batching`). If it fails even for a single pair,
because the tables of the other pairs fill the card, the rest of the run measures half as many
pairs at once.

The last digits of a pair's numbers may depend on the pairs it is measured with. A run that is
killed and continued should therefore measure the same batches. So the pairs of a batch are stored
together. And the size of a batch depends on the longest text of the whole run, not of the pairs
that are left.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

import torch
from torch import Tensor

from unmask.common.cloze import Cloze
from unmask.common.errors import InputError, UnmaskError
from unmask.common.files import first_line
from unmask.joints.constructions.arnold_gokhale import NearCompatible
from unmask.joints.constructions.construction import Construction
from unmask.joints.deriving import derive_blocks
from unmask.joints.joint import Joint
from unmask.joints.metrics import BlockMetrics, metrics_of_blocks
from unmask.joints.precompile import Launch, precompile
from unmask.joints.strips import LIKELY
from unmask.models.batching import halving, is_out_of_memory, release_memory, triton_wanted
from unmask.models.conditional_model import ConditionalModel
from unmask.models.first_look import look_at_first
from unmask.models.masked_lm import MaskedLM
from unmask.runs.engine import Workers, each
from unmask.studies.evaluation.pairs import PositionPair
from unmask.studies.evaluation.stored_rows import Row
from unmask.tables.unary import Tables, tables_of

METRICS = ("unary_nll_first", "unary_nll_second", "pair_nll", "a_kl", "g_kl")
"""The numbers of a row that are always there and finite."""

SHARE = 0.7
"""The part of a GPU's free memory that pairs may take."""
MOST_AT_ONCE = 128
"""Pairs: more gain little, and are lost together when a run is killed."""
ON_A_CPU = 1
"""Pairs at once on a CPU."""
SHARES_PER_WORKER = 4
"""Each worker gets at least this many shares of the pairs, so that none waits long for the last.
"""
FLOAT32 = 4
"""Bytes of a float32."""
FLOAT64 = 8
"""Bytes of a float64."""

logger: logging.Logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Failed:
    """A pair that could not be measured, and why."""

    reason: str


Batch = list[tuple[int, "list[Row] | Failed"]]
"""The places of pairs that were measured together, and the rows of each, or why it failed."""
Engine = Callable[[Sequence[PositionPair]], Iterator[Batch]]
"""Measures every pair once: a `Measurer`, or `measured_by_workers`."""


class NoRoom(Exception):
    """Memory ran out with several pairs at once."""


class Measurer:
    """Measures pairs with one model, in order: several at once on a GPU, else one after the other.

    support   the token ids of the joints; None: every output column
    longest   tokens of the longest text of the run; by default of the pairs of the first call
    size      how many pairs are measured at once; None until the first call decides it
    """

    def __init__(
        self,
        model: MaskedLM,
        constructions: Sequence[Construction],
        support: Sequence[int] | None = None,
        longest: int = 0,
    ) -> None:
        self.model = model
        self.constructions: tuple[Construction, ...] = tuple(constructions)
        self.support: Tensor | None = None if support is None else torch.tensor(support)
        self.longest = longest
        self.size: int | None = None
        self.precompilation: Thread | None = None

    @property
    def tokens(self) -> int:
        """How many tokens each blank of a joint has."""
        if self.support is None:
            return self.model.vocab_size
        return len(self.support)

    def precompile(self) -> None:
        """If the model is on a GPU, begin to compile and load the programs that pairs need, in a
        thread of its own: the first pair waits for it.
        """
        device = self.model.device
        if self.precompilation is not None or device.type != "cuda":
            return
        if triton_wanted(torch.empty(0, device=device)):
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
        if self.size is None:
            self.size = self._fitting(pairs)
        start = 0
        while start < len(pairs):
            some = pairs[start : start + self.size]
            try:
                batch = self._batch(some, start)
            except NoRoom:
                self.size = len(some) // 2
                release_memory()
                logger.warning(
                    "out of memory with %d pairs at once: going on with %d", len(some), self.size
                )
                continue  # with the same pairs, fewer at once
            yield batch
            start += len(some)

    def _batch(self, pairs: Sequence[PositionPair], start: int) -> Batch:
        """The rows of some pairs, whose places begin at `start`.

        If several pairs run out of memory together, raises `NoRoom`. If they fail otherwise, each
        is measured alone, and only a pair that fails alone is a `Failed`.
        """
        try:
            return list(enumerate(self.together(pairs), start))
        except Exception as error:
            if len(pairs) == 1:
                return [(start, Failed(_reason(error)))]
            no_room = is_out_of_memory(error)
        if no_room:
            raise NoRoom  # here, where the error no longer keeps the tensors of its frames
        alone: Batch = []
        for place, pair in enumerate(pairs, start):
            alone += self._batch([pair], place)
        return alone

    def together(self, pairs: Sequence[PositionPair]) -> list[list[Row]]:
        """The rows of several pairs, measured at once: one per construction; numbers that are
        not finite are an error.
        """
        start = time.perf_counter()
        clozes = [pair.cloze(self.model.mask_id) for pair in pairs]
        measured = measure_pairs(self.model, clozes, self.constructions, self.support)
        seconds = (time.perf_counter() - start) / len(pairs)
        for rows in measured:
            for row in rows:
                _refuse_infinite(row)
        of_pairs: list[list[Row]] = []
        for pair, rows in zip(pairs, measured, strict=True):
            about = self._about(pair)
            of_pairs.append([{**about, **row, "seconds": seconds} for row in rows])
        return of_pairs

    def _about(self, pair: PositionPair) -> Row:
        """What every row of a pair says of it."""
        first, second = pair.block
        first_token, second_token = self.model.words.tokens(pair.gold)
        return {
            "pair": pair.index,
            "text_index": pair.text_index,
            "text": pair.text,
            "first": first,
            "second": second,
            "first_token": first_token,
            "second_token": second_token,
            "tokens": len(pair.ids),
            "token_distance": pair.token_distance,
            "syntactic_distance": pair.syntactic_distance,
        }

    def _fitting(self, pairs: Sequence[PositionPair]) -> int:
        """The number of pairs to try at once: as many as `_bytes_per_pair` lets fit beside the
        passes. It is an estimate; where it is too high, `__call__` halves it.
        """
        model = self.model
        if model.device.type != "cuda":
            return ON_A_CPU
        lengths = [len(pair.ids) for pair in pairs]
        longest = max(self.longest, max(lengths))
        rows = model.rows_at_once(longest, predicted=1)
        bytes_of_passes = rows * model.cost.bytes(longest, predicted=1)
        free, _ = torch.cuda.mem_get_info(model.device)
        room = int(SHARE * free)
        fitting = (room - bytes_of_passes) // self._bytes_per_pair()
        return max(1, min(MOST_AT_ONCE, fitting))

    def _bytes_per_pair(self) -> int:
        """About what a pair keeps at the peak: its two tables, strips of them at its likely
        tokens, and the solver's state of each member of the family.
        """
        tokens = self.tokens
        likely = min(tokens, 3 * LIKELY)
        members = sum(isinstance(one, NearCompatible) for one in self.constructions)
        tables = 2 * FLOAT32 * tokens**2
        strips = 4 * FLOAT32 * likely * tokens  # along both axes of both tables
        systems = 16 * FLOAT64 * likely**2  # Newton's linear systems and what solving them takes
        vectors = 60 * FLOAT64 * 2 * tokens  # over the tokens of both blanks
        reserve = tokens**2 // 2
        return tables + strips + members * (systems + vectors) + reserve


def _reason(error: Exception) -> str:
    """Why a pair failed: our own errors are sentences, those of others need their class."""
    if isinstance(error, UnmaskError):
        return str(error)
    return f"{type(error).__name__}: {first_line(error)}"


def _refuse_infinite(row: Row) -> None:
    for metric in METRICS:
        if not math.isfinite(row[metric]):
            raise UnmaskError(f"{metric} of {row['construction']} is {row[metric]}")


def first_pass(model: MaskedLM) -> None:
    """A pass over a text of one token again and again: libraries are loaded when a GPU first
    needs them.
    """
    tokens = min(16, model.max_length or 16)
    text = torch.full((1, tokens), model.regular_ids[0])
    both_ends = torch.tensor([[0, tokens - 1]])
    model.logits_at(text, both_ends)


@torch.inference_mode()
def measure_pairs(
    model: ConditionalModel,
    clozes: Sequence[Cloze],
    constructions: Sequence[Construction],
    support: torch.Tensor | None = None,
) -> list[list[Row]]:
    """For each pair one row per construction: the terms of U-PPL and P-PPL, A-KL, G-KL,
    incompatibility, steps and objective.

    Three stages follow each other: the tables of all pairs, their joints side by side, the
    numbers. If memory runs out for the joints or the numbers, that stage works on one half of the
    pairs and then on the other. The pairs may be of different texts.
    """
    golds: list[tuple[int, ...]] = []
    for cloze in clozes:
        if cloze.gold is None:
            raise InputError(
                "the pair's own tokens are not known: give the text without blanks, and the"
                " positions"
            )
        golds.append(cloze.gold)
    axes = None  # every output column, for both blanks
    if support is not None:
        axes = [support, support]
    axes_of_pairs = [axes] * len(clozes)
    blocks = tables_of(model, clozes, candidates=axes_of_pairs, supports=axes_of_pairs)

    def derive_some(some: Sequence[Tables]) -> list[list[Joint]]:
        return derive_blocks(some, constructions)

    derived = halving(derive_some, blocks)
    with_gold = list(zip(derived, golds, strict=True))
    measured = halving(_metrics, with_gold)
    return [_rows(metrics, joints) for metrics, joints in zip(measured, derived, strict=True)]


def _metrics(blocks: Sequence[tuple[Sequence[Joint], tuple[int, ...]]]) -> list[BlockMetrics]:
    """The numbers of blocks, each given as its joints and its gold tokens."""
    joints = [joints for joints, _ in blocks]
    golds = [gold for _, gold in blocks]
    return metrics_of_blocks(joints, golds)


def _rows(metrics: BlockMetrics, joints: Sequence[Joint]) -> list[Row]:
    """The numbers of one pair, a row for each joint."""
    rows: list[Row] = []
    for numbers, joint in zip(metrics.joints, joints, strict=True):
        first_nll, second_nll = numbers.unary_nll
        rows.append(
            {
                "construction": numbers.construction,
                "unary_nll_first": first_nll,
                "unary_nll_second": second_nll,
                "pair_nll": numbers.joint_nll,
                "a_kl": numbers.a_kl,
                "g_kl": numbers.g_kl,
                "incompatibility": metrics.incompatibility,
                "objective": numbers.objective,
                "steps": joint.report.get("steps"),
                "converged": joint.report.get("converged"),
            }
        )
    return rows


def measured_by_workers(
    workers: Workers,
    load: Callable[[], MaskedLM],
    arguments: Sequence[Any],
    pairs: Sequence[PositionPair],
) -> Iterator[Batch]:
    """The batches of all pairs, from workers, in any order.

    load        loads the model, in each worker
    arguments   of a `Measurer`, without the model
    """
    wanted = math.ceil(len(pairs) / (SHARES_PER_WORKER * workers.count))
    size = max(1, min(MOST_AT_ONCE, wanted))
    shares = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    setup = partial(_of_worker, load, arguments)
    for share, batches in each(_of_share, shares, workers, setup):
        start = share * size  # a worker counts places from the start of its share
        for batch in batches:
            yield [(start + place, answer) for place, answer in batch]


def _of_worker(load: Callable[[], MaskedLM], arguments: Sequence[Any]) -> Measurer:
    return Measurer(load(), *arguments)


def _of_share(measurer: Measurer, pairs: Sequence[PositionPair]) -> list[Batch]:
    return list(measurer(pairs))
