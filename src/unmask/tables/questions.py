"""Questions to a model: a conditional of a block for all values of some of its positions, and how questions share batches.

Small questions of texts of one length pass together, with the numbers of single calls up to the rounding of the last bits. A
question of many rows passes by itself, to the same bits as alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from math import prod
from typing import TypeVar

import torch
from torch import Tensor

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.models.batching import triton_wanted
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.tables.revealing import outside

Item = TypeVar("Item")
ROWS = 256
"""Rows of a batch of a model that does not say how many are best."""
ENOUGH = 2048
"""Rows of a question that fill a device by themselves, so that sharing a batch with others gains less than what they share."""


@dataclass(frozen=True)
class Axis:
    """Candidates of a blank on the model's device.

    is_vocabulary   whether they are the whole vocabulary in its order
    is_support      whether they are the whole support
    outside         tokens that are not in the support
    """

    tokens: Tensor
    is_vocabulary: bool
    is_support: bool
    outside: Tensor

    @classmethod
    def of(cls, model: ConditionalModel, tokens: Tensor, support: Tensor) -> Axis:
        tokens, support = tokens.to(model.device), support.to(model.device)
        left = outside(model, support)
        if len(wrong := tokens[torch.isin(tokens, left)]):
            raise InputError(f"candidate {int(wrong[0])} is outside the support of the model's conditionals: take it out")
        whole = torch.equal(tokens, torch.arange(model.vocab_size, device=model.device))
        return cls(tokens, whole, torch.equal(tokens.sort().values, support.sort().values), left)

    def __len__(self) -> int:
        return len(self.tokens)

    def inside(self, logits: Tensor) -> Tensor:
        """The logits over the support; -inf elsewhere."""
        return logits.index_fill(-1, self.outside, -torch.inf) if len(self.outside) else logits


class PassCounter:
    """Counts passes done and reports them."""

    def __init__(self, total: int, report: Progress | None) -> None:
        self.done, self.total, self.report = 0, total, report

    def add(self, n: int) -> None:
        self.done += n
        if self.report:
            self.report(self.done, self.total, "passes of the model")


class Question:
    """log q(x_t | x_given; the block's other positions masked), for all values of `given`: rows to ask, a table to fill.

    It is asked of several clozes of one length and with the same candidates; rows and tables of one come after those of another.
    The tables have k axes; an axis that is neither t nor in `given` has size 1, and those of mass and total also at t.
    """

    def __init__(self, clozes: Sequence[Cloze], axes: tuple[Axis, ...], t: int, given: list[int], dtype: torch.dtype) -> None:
        self.clozes, self.given = clozes, given
        self.t, self.axis, self.tokens = t, axes[t], axes[t].tokens
        self.values = (
            torch.cartesian_prod(*[axes[s].tokens for s in given]).reshape(-1, len(given))
            if given
            else self.tokens.new_empty((1, 0))
        )
        self.shape = [len(axes[s]) if s in given else 1 for s in range(len(axes))]
        before = prod(len(axes[s]) for s in given if s < t)
        shape = (len(clozes) * before, len(axes[t]), len(self.values) // before)
        self.log_q = torch.empty(shape, dtype=dtype, device=self.tokens.device)
        self.total = torch.empty(len(clozes) * len(self.values), dtype=dtype, device=self.tokens.device)
        self.mass = torch.zeros_like(self.total)

    def answer(self, rows: slice, logits: Tensor) -> None:
        """Write the logits of these rows to the table."""
        if not self.axis.is_support:
            logits = self.axis.inside(logits)
        if self.log_q.dtype == torch.float32 and logits.stride(-1) == 1 and triton_wanted(logits):
            from unmask.tables.filling import fill

            self.total[rows], mass = fill(self.log_q, rows.start, logits, self.tokens, self.axis.is_vocabulary)
        else:
            log_p = torch.log_softmax(logits, -1, dtype=self.total.dtype)
            self.total[rows] = logits.amax(-1).to(self.total.dtype) - log_p.amax(-1)
            if self.axis.is_vocabulary:
                mass = torch.zeros_like(self.total[rows])
            else:
                log_p = log_p[:, self.tokens]
                mass = log_p.logsumexp(-1)
                self.total[rows] += mass
                log_p -= mass[:, None]
            _write(self.log_q, rows, log_p)
        if not self.axis.is_support:
            self.mass[rows] = mass

    def texts(self, rows: slice) -> tuple[Tensor, Tensor]:
        """The rows written out, as token ids, and the position that each predicts."""
        number = torch.arange(rows.start, rows.stop, device=self.tokens.device)
        which = number // len(self.values)
        texts, vary, predict = (part[which] for part in self._places)
        return texts.scatter_(1, vary, self.values[number % len(self.values)]), predict

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor, Tensor]:
        device, blocks = self.tokens.device, [cloze.block for cloze in self.clozes]
        vary = torch.tensor([[block[s] for s in self.given] for block in blocks], dtype=torch.long, device=device)
        ids, predict = [cloze.ids for cloze in self.clozes], [[block[self.t]] for block in blocks]
        return torch.tensor(ids, device=device), vary, torch.tensor(predict, device=device)

    def answers(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Of each cloze log q, its log mass inside the candidates, and its logits' total."""
        cells = [*self.shape[: self.t], len(self.tokens), *self.shape[self.t + 1 :]]
        parts = ((self.log_q, cells), (self.mass, self.shape), (self.total, self.shape))
        return list(zip(*(part.reshape(len(self.clozes), *shape).unbind() for part, shape in parts), strict=True))


def ask(model: ConditionalModel, questions: Sequence[Question], passes: PassCounter) -> None:
    """Answer all questions: one that fills batches by itself through what its rows share, small ones of a length together.

    NaN logits raise an error at the end, so that a GPU is waited for once.
    """
    for members in grouped(questions, lambda question: len(question.clozes[0].ids)):
        group = [questions[i] for i in members]
        length = len(group[0].clozes[0].ids)
        small = [question for question in group if len(question.values) < enough_rows(model, length)]
        several = any(len(question.clozes) > 1 for question in small) or len({question.clozes[0].ids for question in small}) > 1
        together = {id(question): question for question in small if several}
        for question in [question for question in group if id(question) not in together]:
            cloze = question.clozes[0]
            vary, predict = [cloze.block[s] for s in question.given], cloze.block[question.t]
            for rows, logits in model.unchecked_substitutions(cloze.ids, vary, question.values, predict):
                question.answer(rows, logits)
                passes.add(len(logits))
        for batch in cut(((question, len(question.total)) for question in together.values()), rows_at_once(model, length)):
            texts, places = (torch.cat(part) for part in zip(*(q.texts(rows) for q, rows in batch), strict=True))
            sizes = [rows.stop - rows.start for _, rows in batch]
            logits = model.logits(texts, places)[:, 0]
            for (question, rows), part in zip(batch, logits.split(sizes), strict=True):
                question.answer(rows, part)
            passes.add(len(texts))
    if questions and bool(torch.cat([question.total + question.mass for question in questions]).isnan().any()):
        raise model.not_finite()


def cut(sized: Iterable[tuple[Item, int]], at_once: int) -> Iterator[list[tuple[Item, slice]]]:
    """The rows of all items in their order, given with how many each has, `at_once` at a time."""
    batch: list[tuple[Item, slice]] = []
    free = at_once
    for item, total in sized:
        start = 0
        while start < total:
            rows = slice(start, min(total, start + free))
            batch.append((item, rows))
            free -= rows.stop - start
            start = rows.stop
            if not free:
                yield batch
                batch, free = [], at_once
    if batch:
        yield batch


def enough_rows(model: ConditionalModel, tokens: int) -> int:
    """The number of rows from which on a question passes by itself."""
    return min(rows_at_once(model, tokens), ENOUGH)


def rows_at_once(model: ConditionalModel, tokens: int) -> int:
    """Rows that fill a batch of the model."""
    return model.rows_at_once(tokens, 1) or ROWS


def grouped(items: Sequence[Item], key: Callable[[Item], object]) -> list[list[int]]:
    """The indices of items of one key, group by group, in the order of their first."""
    groups: dict[object, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(key(item), []).append(i)
    return list(groups.values())


def of_one_key(items: Iterable[Item], key: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """The items by rising key, such as a length: those of one key in lists of at most `most`."""
    for _, same in groupby(sorted(items, key=key), key):
        while part := list(islice(same, most)):
            yield part


def _write(table: Tensor, rows: slice, values: Tensor) -> None:
    """Row r of `values` to table[r // after, :, r % after], for a table of shape (before, n, after) in memory order."""
    after = table.shape[2]
    if after == 1:
        table[rows, :, 0] = values
        return
    taken = 0
    while taken < len(values):
        outer, inner = divmod(rows.start + taken, after)
        part = values[taken : taken + after - inner]
        table[outer, :, inner : inner + len(part)] = part.T.contiguous()
        taken += len(part)
