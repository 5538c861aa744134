"""The unary conditionals of a block, as k log-probability tables over the values of the block.

For a block of k positions and candidate sets C_1..C_k of tokens, table t holds log q_t(x_t | x_{S\\t}, rest) for all
x in C_1 x ... x C_k, normalised along axis t *within* C_t. For a pair these are A and B of the paper. They take |C|^(k-1)
passes of the model per table, one with the whole block masked, and for k > 2 those of the chain, between these two.

Candidates are tokens of a support (`unmask.tables.support`), which may have more of them. q is normalised over the support, and a
table says beside its cells how much of q lies on the candidates.

Several blocks may be asked about at once (`tables_of`): a question of few rows then shares its batches with those of other
texts of the same length, with the numbers of single calls up to the rounding of the last bits. Questions of many rows
pass by themselves, to the same bits as alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TypeVar

import torch
from torch import Tensor

from unmask import checks
from unmask.arguments import checked
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.models.batching import triton_wanted
from unmask.models.conditional_model import ConditionalModel
from unmask.runs.progress import Progress
from unmask.tables.support import lost_nats, outside, regular_tokens, token_sets

Item = TypeVar("Item")
ROWS = 256
"""Rows of a batch of a model that does not say how many are best."""
ENOUGH = 2048
"""Rows of a question that fill a device by themselves, so that sharing a batch with others gains less than what they share."""


@dataclass(frozen=True)
class Tables:
    """The tables that every construction is a rule over. Shapes: n_t = |C_t|; a tensor "without axis t" has size 1 there.

    candidates      k vectors of token ids: the values of each axis
    log_q           k tensors (n_1..n_k): log q_t, normalised along axis t within the candidates
    log_inside      k tensors without axis t: log of the mass that q_t puts on the candidates (0 if they are the support)
    log_total       k tensors without axis t: logsumexp of the logits over the candidates, so logits = log_q + log_total
    log_masked      k vectors: log m_t, the whole block masked, normalised within the candidates
    log_masked_inside  k numbers: log of the mass that m_t puts on the candidates
    log_masked_support  k numbers: log of the mass that m_t, over the whole vocabulary, puts on the support
    log_between     by (S, t): log q(x_t | x_S; the other positions masked), for S neither empty nor all others; shape n_s for
                    s in S and t, else 1; the mass outside the candidates is not renormalised away. Empty for a pair
    label           how a token id is shown to people: as the model spells it, or the number itself

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> [bool(torch.allclose(table.exp().sum(axis), torch.ones(16))) for axis, table in enumerate(tables.log_q)]
    [True, True]
    """

    candidates: tuple[Tensor, ...]
    log_q: tuple[Tensor, ...]
    log_inside: tuple[Tensor, ...]
    log_total: tuple[Tensor, ...]
    log_masked: tuple[Tensor, ...]
    log_masked_inside: tuple[float, ...]
    log_masked_support: tuple[float, ...] = ()
    log_between: Mapping[tuple[tuple[int, ...], int], Tensor] = field(default_factory=dict, compare=False)
    label: Callable[[int], str] = str

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(c) for c in self.candidates)

    @cached_property
    def sites(self) -> int:
        return len(self.candidates)

    def __repr__(self) -> str:
        return f"Tables(shape={self.shape})"

    @property
    def log_mass(self) -> float:
        """Log of the mass that the product joint over the whole vocabulary puts on the candidate sets."""
        return sum(self.log_masked_inside) + sum(self.log_masked_support)


@checked
def unary_tables(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: Sequence[Tensor | Sequence[int]] | None = None,
    dtype: torch.dtype | None = None,
    progress: Progress | None = None,
    support: Sequence[Tensor | Sequence[int]] | None = None,
) -> Tables:
    """The tables of `cloze`'s block over `candidates` (k vectors of token ids), by default the whole vocabulary.

    support   k vectors of token ids that q is normalised over; by default the regular tokens, or the whole vocabulary where
              that is what the tables are over

    >>> model = unmask.MaskedLM.load()
    >>> cloze = model.cloze("A [MASK] [MASK] here.")
    >>> words = [model.words.encode("man dog")[1:3], model.words.encode("is was")[1:3]]
    >>> tables = unmask.unary_tables(model, cloze, [torch.tensor(ids) for ids in words])
    >>> [tuple(table.shape) for table in tables.log_q]
    [(2, 2), (2, 2)]
    """
    most = model.input_size
    for token in cloze.ids:
        checks.whole("token id of the cloze", token, 0, most - 1)
    if model.max_length is not None and len(cloze.ids) > model.max_length:
        raise InputError(f"the cloze has {len(cloze.ids)} tokens and the model takes {model.max_length}: shorten the text")
    if dtype is not None and not dtype.is_floating_point:
        raise InputError(f"dtype {dtype} does not hold log-probabilities: give torch.float32 or torch.float64")

    def sets(what: str, given: Sequence[Tensor | Sequence[int]] | None) -> list[Tensor] | None:
        def check(blank: int, token: int) -> int:
            return checks.whole(f"the {what}s of blank {blank}", token, 0, model.vocab_size - 1)

        return None if given is None else token_sets(what, given, len(cloze.block), check)

    return tables_of(model, [cloze], [sets("candidate", candidates)], dtype, progress, [sets("support", support)])[0]


def tables_of(
    model: ConditionalModel,
    clozes: Sequence[Cloze],
    candidates: Sequence[Sequence[Tensor] | None],
    dtype: torch.dtype | None = None,
    progress: Progress | None = None,
    supports: Sequence[Sequence[Tensor] | None] | None = None,
) -> list[Tables]:
    """The tables of several blocks, whose passes run together; one entry of `candidates`, and of `supports`, per cloze."""
    every, regular = torch.arange(model.vocab_size), regular_tokens(model)
    known: dict[tuple[int, int], _Axis] = {}
    axes: list[tuple[_Axis, ...]] = []
    for cloze, given, over in zip(clozes, candidates, supports or [None] * len(clozes), strict=True):
        sets = given or [every] * len(cloze.block)
        pairs = list(zip(sets, over or [regular if given else every] * len(sets), strict=True))
        for c, s in pairs:
            if (id(c), id(s)) not in known:
                known[id(c), id(s)] = _Axis.of(model, c, s)
        axes.append(tuple(known[id(c), id(s)] for c, s in pairs))
    counts = [pass_count([len(axis) for axis in sets]) for sets in axes]
    passes = _Passes(sum(counts), progress)
    masked = [
        logits.to(dtype or torch.promote_types(logits.dtype, torch.float32))
        for logits in masked_logits(model, clozes, [count >= ENOUGH for count in counts])
    ]
    passes.add(len(clozes))

    def kind(i: int) -> object:
        rows, sizes = _rows_of_a_batch(model, len(clozes[i].ids)), [len(axis) for axis in axes[i]]
        large = prod(sizes) // min(sizes) >= rows
        return i if large else (len(clozes[i].ids), tuple(map(id, axes[i])))

    groups = alike(range(len(clozes)), kind)
    blocks = [_Blocks([clozes[i] for i in group], axes[group[0]], torch.stack([masked[i] for i in group])) for group in groups]
    _ask(model, [question for block in blocks for question in block.questions], passes)
    masses = iter(torch.cat([block.masses.flatten() for block in blocks]).tolist() if blocks else ())
    made = [table for block in blocks for table in block.tables(masses, model.token)]
    found = dict(zip((i for group in groups for i in group), made, strict=True))
    return [found[i] for i in range(len(clozes))]


def masked_logits(model: ConditionalModel, clozes: Sequence[Cloze], alone: Sequence[bool] = ()) -> list[Tensor]:
    """For each cloze the logits (k, V) at its block, with all of it masked; texts and blocks of one size pass together.

    `alone`: which pass by themselves, so that their last bits do not depend on the others.
    """
    found: list[Tensor | None] = [None] * len(clozes)
    apart = [i if i < len(alone) and alone[i] else -1 for i in range(len(clozes))]
    for members in alike(range(len(clozes)), lambda i: (len(clozes[i].ids), len(clozes[i].block), apart[i])):
        ids = torch.tensor([clozes[i].ids for i in members], device=model.device)
        block = torch.tensor([clozes[i].block for i in members], device=model.device)
        for i, logits in zip(members, model.logits(ids, block), strict=True):
            found[i] = logits
    return [logits for logits in found if logits is not None]


def pass_count(sizes: list[int]) -> int:
    """Passes of the model that the tables of candidate sets of these sizes take: (k - |S|) for every S and values of it.

    With e_j the sum over sets S of j positions of the product of their sizes, 1 + sum_{j = 1..k-1} (k - j) e_j.
    """
    k = len(sizes)
    symmetric = [1, *[0] * k]
    for size in sizes:
        symmetric = [1, *[symmetric[j] + size * symmetric[j - 1] for j in range(1, k + 1)]]
    return 1 + (sum((k - j) * symmetric[j] for j in range(1, k)) if k > 1 else 1)


@dataclass(frozen=True)
class _Axis:
    """Candidates of a blank on the model's device.

    whole     whether they are the whole vocabulary in its order
    all       whether they are the whole support
    outside   tokens that are not in the support
    """

    tokens: Tensor
    whole: bool
    all: bool
    outside: Tensor

    @classmethod
    def of(cls, model: ConditionalModel, tokens: Tensor, support: Tensor) -> _Axis:
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


class _Passes:
    """Counts passes done and reports them."""

    def __init__(self, total: int, report: Progress | None) -> None:
        self.done, self.total, self.report = 0, total, report

    def add(self, n: int) -> None:
        self.done += n
        if self.report:
            self.report(self.done, self.total, "passes of the model")


class _Question:
    """log q(x_t | x_given; the block's other positions masked), for all values of `given`: rows to ask, a table to fill.

    It is asked of several clozes of one length and with the same candidates; rows and tables of one come after those of another.
    The tables have k axes; an axis that is neither t nor in `given` has size 1, and those of mass and total also at t.
    """

    def __init__(self, clozes: Sequence[Cloze], axes: tuple[_Axis, ...], t: int, given: list[int], dtype: torch.dtype) -> None:
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
        if not self.axis.all:
            logits = self.axis.inside(logits)
        if _filled_by_triton(self.log_q, logits):
            from unmask.tables.filling import fill

            self.total[rows], mass = fill(self.log_q, rows.start, logits, self.tokens, self.axis.whole)
        else:
            log_p = torch.log_softmax(logits, -1, dtype=self.total.dtype)
            self.total[rows] = logits.amax(-1).to(self.total.dtype) - log_p.amax(-1)
            if self.axis.whole:
                mass = torch.zeros_like(self.total[rows])
            else:
                log_p = log_p[:, self.tokens]
                mass = log_p.logsumexp(-1)
                self.total[rows] += mass
                log_p -= mass[:, None]
            _write(self.log_q, rows, log_p)
        if not self.axis.all:
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


class _Blocks:
    """The questions of blocks of one length and with the same candidates, and the tables that their answers make."""

    def __init__(self, clozes: Sequence[Cloze], axes: tuple[_Axis, ...], logits: Tensor) -> None:
        k = len(axes)
        self.axes = axes
        self.log_masked, masses = [], list[Tensor]()
        for axis, rows in zip(axes, logits.unbind(1), strict=True):
            inside = axis.inside(rows)
            total, log_m = inside.double().logsumexp(-1), inside[:, axis.tokens]
            self.log_masked.append(log_m.log_softmax(-1).unbind())
            held = torch.zeros_like(total) if axis.all else (log_m.double().logsumexp(-1) - total).clamp(max=0)
            masses += [held, -lost_nats(rows.double(), axis.outside, rows.double().logsumexp(-1))]
        self.masses = torch.stack(masses, 1)

        def question(t: int, given: Iterable[int]) -> _Question:
            return _Question(clozes, axes, t, list(given), logits.dtype)

        self.filled = [question(t, [s for s in range(k) if s != t]) for t in range(k)]
        revealed = [given for size in range(1, k - 1) for given in combinations(range(k), size)]
        self.between = {(given, t): question(t, given) for given in revealed for t in range(k) if t not in given}
        self.questions = [*self.filled, *self.between.values()]

    def tables(self, masses: Iterator[float], label: Callable[[int], str]) -> Iterator[Tables]:
        """Those of each block; `masses` has the numbers of `self.masses`."""
        filled = list(zip(*(question.answers() for question in self.filled), strict=True))
        between = {place: question.answers() for place, question in self.between.items()}
        for i, answers in enumerate(filled):
            log_q, log_inside, log_total = zip(*answers, strict=True)
            own = [next(masses) for _ in range(2 * len(self.axes))]
            yield Tables(
                candidates=tuple(axis.tokens for axis in self.axes),
                log_q=log_q,
                log_inside=log_inside,
                log_total=log_total,
                log_masked=tuple(rows[i] for rows in self.log_masked),
                log_masked_inside=tuple(own[0::2]),
                log_masked_support=tuple(own[1::2]),
                log_between={place: found[i][0] + found[i][1] for place, found in between.items()},
                label=label,
            )


def _ask(model: ConditionalModel, questions: Sequence[_Question], passes: _Passes) -> None:
    """Answer all questions: one that fills batches by itself through what its rows share, small ones of a length together.

    NaN logits raise an error at the end, so that a GPU is waited for once.
    """
    for members in alike(questions, lambda question: len(question.clozes[0].ids)):
        group = [questions[i] for i in members]
        length = len(group[0].clozes[0].ids)
        small = [question for question in group if len(question.values) < _rows_of_a_batch(model, length)]
        several = any(len(question.clozes) > 1 for question in small) or len({question.clozes[0].ids for question in small}) > 1
        together = small if several else []
        shared = {id(question) for question in together}
        for question in [q for q in group if id(q) not in shared]:
            cloze = question.clozes[0]
            vary, predict = [cloze.block[s] for s in question.given], cloze.block[question.t]
            for rows, logits in model.unchecked_substitutions(cloze.ids, vary, question.values, predict):
                question.answer(rows, logits)
                passes.add(len(logits))
        for batch in _batches(together, rows_at_once(model, length)):
            texts, places = (torch.cat(part) for part in zip(*(q.texts(rows) for q, rows in batch), strict=True))
            sizes = [rows.stop - rows.start for _, rows in batch]
            logits = model.logits(texts, places)[:, 0]
            for (question, rows), part in zip(batch, logits.split(sizes), strict=True):
                question.answer(rows, part)
            passes.add(len(texts))
    if questions and bool(torch.cat([question.total + question.mass for question in questions]).isnan().any()):
        raise model.not_finite()


def _batches(questions: Sequence[_Question], at_once: int) -> Iterator[list[tuple[_Question, slice]]]:
    """The rows of all questions in their order, `at_once` at a time."""
    batch: list[tuple[_Question, slice]] = []
    free = at_once
    for question in questions:
        start = 0
        while start < len(question.total):
            rows = slice(start, min(len(question.total), start + free))
            batch.append((question, rows))
            free -= rows.stop - start
            start = rows.stop
            if not free:
                yield batch
                batch, free = [], at_once
    if batch:
        yield batch


def _rows_of_a_batch(model: ConditionalModel, tokens: int) -> int:
    """Rows with which a question passes by itself."""
    return min(rows_at_once(model, tokens), ENOUGH)


def rows_at_once(model: ConditionalModel, tokens: int) -> int:
    """Rows that fill a batch of the model."""
    return model.rows_at_once(tokens, 1) or ROWS


def alike(items: Sequence[Item], key: Callable[[Item], object]) -> list[list[int]]:
    """The indices of items of one key, group by group, in the order of their first."""
    groups: dict[object, list[int]] = {}
    for i, item in enumerate(items):
        groups.setdefault(key(item), []).append(i)
    return list(groups.values())


def _filled_by_triton(table: Tensor, logits: Tensor) -> bool:
    """Whether a GPU writes the table straight from the logits."""
    return table.dtype == torch.float32 and logits.stride(-1) == 1 and triton_wanted(logits)


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
