"""The unary conditionals of a block, as k log-probability tables over the values of the block.

For a block of k positions and candidate sets C_1..C_k of tokens, table t holds log q_t(x_t |
x_{S\t}, rest) for all x in C_1 x ... x C_k, normalised along axis t *within* C_t. For a pair
these are A and B of Torroba Hennigen & Kim (2023). They take |C|^(k-1) passes of the model per
table, one with the whole block masked, and for k > 2 those of the chain between.

The candidates are tokens of a support (`unmask.tables.conditionals`), which may have more of
them. q is normalised over the support; beside its cells a table has the mass that q puts on the
candidates.

A `ConditionalTable` is one conditional of a block, for all values of some of its positions. The
model fills it row by row. Rows of small tables of texts of one length share batches: their
numbers differ from those of single calls in the last bits at most. A table with many rows has
batches of its own: its bits do not depend on other tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, combinations, groupby, islice
from math import inf, prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy
import torch
from torch import Tensor

from unmask.common import checks
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.common.signature import checked
from unmask.models.batching import on_device, triton_wanted
from unmask.models.conditional_model import ConditionalModel
from unmask.models.text.text_tokenizer import refuse_too_long
from unmask.runs.progress import Progress
from unmask.tables.conditionals import lost_nats, outside, regular_tokens, token_sets

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
else:
    ArrayLike = Any  # `Tables.from_conditionals` checks it

Item = TypeVar("Item")
ROWS = 256  # Rows of a batch of a model that does not say how many are best
ENOUGH = 2048
"""Rows of a table that fill a device by themselves: sharing batches would gain less than what
its rows share with each other.
"""


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
        excluded = outside(model, support)
        if len(wrong := tokens[torch.isin(tokens, excluded)]):
            raise InputError(
                f"candidate {int(wrong[0])} is outside the support of the model's conditionals:"
                " take it out"
            )
        whole = torch.equal(tokens, torch.arange(model.vocab_size, device=model.device))
        return cls(
            tokens, whole, torch.equal(tokens.sort().values, support.sort().values), excluded
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def inside(self, logits: Tensor) -> Tensor:
        """The logits over the support; -inf elsewhere."""
        return logits.index_fill(-1, self.outside, -torch.inf) if len(self.outside) else logits


class ConditionalTable:
    """log q(x_t | x_revealed; the block's other positions masked), for all values of
    `revealed`, to be filled by the model.

    One table for each of several clozes of one length with the same candidates; the rows of one
    cloze follow those of another. The tables have k axes; an axis that is neither t nor in
    `revealed` has size 1, and those of mass and total also at t.
    """

    def __init__(
        self,
        clozes: Sequence[Cloze],
        axes: tuple[Axis, ...],
        t: int,
        revealed: list[int],
        dtype: torch.dtype,
    ) -> None:
        self.clozes, self.revealed = clozes, revealed
        self.t, self.axis, self.tokens = t, axes[t], axes[t].tokens
        self.values = (
            torch.cartesian_prod(*[axes[s].tokens for s in revealed]).reshape(-1, len(revealed))
            if revealed
            else self.tokens.new_empty((1, 0))
        )
        self.shape = [len(axes[s]) if s in revealed else 1 for s in range(len(axes))]
        before = prod(len(axes[s]) for s in revealed if s < t)
        shape = (len(clozes) * before, len(axes[t]), len(self.values) // before)
        self.log_q = torch.empty(shape, dtype=dtype, device=self.tokens.device)
        self.total = torch.empty(
            len(clozes) * len(self.values), dtype=dtype, device=self.tokens.device
        )
        self.mass = torch.zeros_like(self.total)

    def write(self, rows: slice, logits: Tensor) -> None:
        """Write these rows of the table, from their logits."""
        if not self.axis.is_support:
            logits = self.axis.inside(logits)
        if self.log_q.dtype == torch.float32 and logits.stride(-1) == 1 and triton_wanted(logits):
            from unmask.tables.triton_cells import fill

            self.total[rows], mass = fill(
                self.log_q, rows.start, logits, self.tokens, self.axis.is_vocabulary
            )
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

    def clear_impossible(self) -> None:
        """Set q to 0 in the contexts where the model rules out all candidates: no distribution
        over them exists there.
        """
        parts, _, after = self.log_q.shape
        impossible = (self.mass == -torch.inf).reshape(parts, 1, after)
        self.log_q.masked_fill_(impossible, -torch.inf)

    def texts(self, rows: slice) -> tuple[Tensor, Tensor]:
        """The rows written out, as token ids, and the position that each predicts."""
        number = torch.arange(rows.start, rows.stop, device=self.tokens.device)
        which = number // len(self.values)
        texts, vary, predict = (part[which] for part in self._places)
        return texts.scatter_(1, vary, self.values[number % len(self.values)]), predict

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor, Tensor]:
        device, blocks = self.tokens.device, [cloze.block for cloze in self.clozes]
        vary = on_device(
            [[block[s] for s in self.revealed] for block in blocks], device, torch.long
        )
        ids, predict = [cloze.ids for cloze in self.clozes], [[block[self.t]] for block in blocks]
        return on_device(ids, device), vary, on_device(predict, device)

    def by_cloze(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For each cloze, (log q, log of the mass on the candidates, logsumexp of the logits
        over them).
        """
        cells = [*self.shape[: self.t], len(self.tokens), *self.shape[self.t + 1 :]]
        parts = ((self.log_q, cells), (self.mass, self.shape), (self.total, self.shape))
        return list(
            zip(
                *(part.reshape(len(self.clozes), *shape).unbind() for part, shape in parts),
                strict=True,
            )
        )


def fill_tables(model: ConditionalModel, tables: Sequence[ConditionalTable]) -> Iterator[int]:
    """Fill all tables: a large one in batches of its own (`substitutions`), small ones of one
    length in common batches.

    Yields the number of passes of each batch. NaN logits raise an error at the end, so that a
    GPU is waited for once.
    """
    for members in grouped(tables, lambda table: len(table.clozes[0].ids)):
        group = [tables[i] for i in members]
        length = len(group[0].clozes[0].ids)
        small = [table for table in group if len(table.values) < enough_rows(model, length)]
        several = (
            any(len(table.clozes) > 1 for table in small)
            or len({table.clozes[0].ids for table in small}) > 1
        )
        together = {id(table): table for table in small if several}
        for table in [table for table in group if id(table) not in together]:
            cloze = table.clozes[0]
            vary, predict = [cloze.block[s] for s in table.revealed], cloze.block[table.t]
            for rows, logits in model.substitutions(cloze.ids, vary, table.values, predict):
                table.write(rows, logits)
                yield len(logits)
        for batch in cut(
            ((table, len(table.total)) for table in together.values()), rows_at_once(model, length)
        ):
            texts, places = (
                torch.cat(part)
                for part in zip(*(table.texts(rows) for table, rows in batch), strict=True)
            )
            sizes = [rows.stop - rows.start for _, rows in batch]
            logits = model.logits(texts, places)[:, 0]
            for (table, rows), part in zip(batch, logits.split(sizes), strict=True):
                table.write(rows, part)
            yield len(texts)
    if not tables:
        return
    has_nan = torch.cat([table.total + table.mass for table in tables]).isnan().any()
    has_impossible = torch.cat([table.mass for table in tables]).isneginf().any()
    nan_logits, impossible = torch.stack([has_nan, has_impossible]).tolist()  # one wait for a GPU
    if nan_logits:
        raise model.not_finite()
    if impossible:
        for table in tables:
            table.clear_impossible()


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
    """The number of rows from which on a table has batches of its own."""
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


def of_one_key(
    items: Iterable[Item], key: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """The items by rising key, such as a length: those of one key in lists of at most `most`."""
    for _, same in groupby(sorted(items, key=key), key):
        while part := list(islice(same, most)):
            yield part


def _write(table: Tensor, rows: slice, values: Tensor) -> None:
    """Row r of `values` to table[r // after, :, r % after], for a table of shape (before, n,
    after) in memory order.
    """
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


ROUNDING = 1e-6  # How far sums of probabilities that a user gives may be from 1


@dataclass(frozen=True)
class Tables:
    """The tables that every construction is a rule over. Shapes: n_t = |C_t|; a tensor "without
    axis t" has size 1 there.

    candidates      k vectors of token ids: the values of each axis
    log_q           k tensors (n_1..n_k): log q_t, normalised along axis t within the
                    candidates; -inf in a context in which the model rules all of them out
    log_inside      k tensors without axis t: log of the mass that q_t puts on the candidates (0
                    if they are the support)
    log_total k tensors without axis t: logsumexp of the logits over the candidates, so logits =
            log_q + log_total
    log_masked      k vectors: log m_t, the whole block masked, normalised within the candidates
    log_masked_inside  k numbers: log of the mass that m_t puts on the candidates
    log_masked_support  k numbers: log of the mass that m_t, over the whole vocabulary, puts on
                        the support
    log_between     by (S, t): log q(x_t | x_S; the other positions masked), for S neither empty
                    nor all others; shape n_s for s in S and t, else 1; the mass outside the
                    candidates is not renormalised away. Empty for a pair
    label           how a token id is shown to people: as the model spells it, or the number itself
    labels          k lists of names, of the values of each blank from id 0 on, where these are
                    not tokens of a model; else empty

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> sums = [table.exp().sum(axis) for axis, table in enumerate(tables.log_q)]
    >>> [bool(torch.allclose(one, torch.ones(16))) for one in sums]
    [True, True]
    """

    candidates: tuple[Tensor, ...]
    log_q: tuple[Tensor, ...]
    log_inside: tuple[Tensor, ...]
    log_total: tuple[Tensor, ...]
    log_masked: tuple[Tensor, ...]
    log_masked_inside: tuple[float, ...]
    log_masked_support: tuple[float, ...] = ()
    log_between: Mapping[tuple[tuple[int, ...], int], Tensor] = field(
        default_factory=dict, compare=False
    )
    label: Callable[[int], str] = str
    labels: tuple[tuple[str, ...], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(c) for c in self.candidates)

    @cached_property
    def sites(self) -> int:
        return len(self.candidates)

    @cached_property
    def some_context_is_impossible(self) -> bool:
        """Whether the model rules out all candidates of a blank in some context; q is 0 there,
        and does not sum to 1.
        """
        return any(bool((inside == -inf).any()) for inside in self.log_inside)

    def __repr__(self) -> str:
        return f"Tables(shape={self.shape})"

    @classmethod
    @checked
    def from_conditionals(
        cls,
        first: ArrayLike,
        second: ArrayLike,
        masked: Sequence[ArrayLike] | None = None,
        labels: Sequence[Sequence[str]] | None = None,
    ) -> Tables:
        """Tables of a pair of your own.

        first    first[x, y] = q(x | y); its columns sum to 1
        second   second[x, y] = q(y | x); its rows sum to 1
        masked   the two distributions with both positions masked, which product, chain and
                 restarted use; by default the u and v with u = first v and v = second' u, so
                 that chain is pseudo_gibbs
        labels   how the values are shown, x's and y's; a value's id is its place, from 0 on,
                 with and without labels

        >>> q_a, q_b = [[0.9, 0.2], [0.1, 0.8]], [[0.7, 0.3], [0.1, 0.9]]
        >>> tables = unmask.Tables.from_conditionals(q_a, q_b)
        >>> unmask.derive(tables, "arnold_gokhale").shape
        (2, 2)
        """
        a, b = _distributions("first", first, 2, 0), _distributions("second", second, 2, 1)
        if a.shape != b.shape:
            raise InputError(
                f"first is {_size(a)} and second {_size(b)}: both are indexed by x, then y"
            )
        if masked is not None and len(masked) != 2:
            raise InputError(
                f"{len(masked)} masked distributions were given: give two, of x and of y"
            )
        m = (
            _stationary(a, b)
            if masked is None
            else [_distributions(f"masked of {'xy'[t]}", masked[t], 1, 0) for t in range(2)]
        )
        if (len(m[0]), len(m[1])) != tuple(a.shape):
            raise InputError(
                f"masked has {len(m[0])} and {len(m[1])} values, and the tables are {_size(a)}:"
                " give one per value"
            )
        if labels is not None and [len(names) for names in labels] != list(a.shape):
            counts = [len(names) for names in labels]
            raise InputError(
                f"labels have {counts} names, and the tables are {_size(a)}: give one per value"
            )
        for name in (name for names in labels or () for name in names):
            try:
                name.encode()
            except UnicodeEncodeError:
                raise InputError(
                    f"the label {name!r} has half of a surrogate pair: give texts of whole"
                    " characters"
                ) from None
        nothing = (
            torch.zeros(1, a.shape[1], dtype=torch.float64),
            torch.zeros(len(a), 1, dtype=torch.float64),
        )
        return cls(
            candidates=(torch.arange(len(a)), torch.arange(a.shape[1])),
            log_q=(a.log(), b.log()),
            log_inside=nothing,
            log_total=nothing,
            log_masked=(m[0].log(), m[1].log()),
            log_masked_inside=(0.0, 0.0),
            log_masked_support=(0.0, 0.0),
            labels=tuple(tuple(names) for names in labels or ()),
        )

    def spelled(self, site: int, token: int) -> str:
        """How a candidate of a blank is shown, given its id."""
        return self.labels[site][token] if self.labels else self.label(token)

    def ids_of(self, tokens: Sequence[int] | Sequence[str], sites: Sequence[int]) -> list[int]:
        """The ids of tokens at these blanks, one for each; a text is a candidate as `spelled`
        shows it.
        """
        each: Sequence[int | str] = tokens
        return [self._id_of(token, site) for token, site in zip(each, sites, strict=True)]

    def _id_of(self, token: int | str, site: int) -> int:
        if not isinstance(token, str):
            return token
        ids = [i for i in self.candidates[site].tolist() if self.spelled(site, i) == token]
        if not ids:
            label = str if self.labels else self.label  # names of values are not tokens of a model
            raise InputError(not_a_candidate(label, token, site + 1))
        if len(ids) > 1:
            raise InputError(
                f"{token!r} is how {len(ids)} candidates of blank {site + 1} are spelled: give"
                " token ids"
            )
        return ids[0]

    @property
    def log_mass(self) -> float:
        """Log of the mass that the product joint over the whole vocabulary puts on the
        candidate sets.
        """
        return min(0.0, sum(self.log_masked_inside) + sum(self.log_masked_support))


@checked
def unary_tables(
    model: ConditionalModel,
    cloze: Cloze,
    candidates: Sequence[Tensor | Sequence[int]] | None = None,
    dtype: torch.dtype | None = None,
    progress: Progress | None = None,
    support: Sequence[Tensor | Sequence[int]] | None = None,
) -> Tables:
    """The tables of a cloze's block over candidates of each of its k blanks.

    model        a `MaskedLM`, or another `ConditionalModel`
    cloze        the text as token ids, and its block
    candidates   k vectors of token ids, the values of each axis [default: the whole vocabulary]
    dtype        of the tables, torch.float32 or torch.float64 [default: float32, or that of
                 finer logits]
    progress     called with (done, in all, what is counted)
    support      k vectors of token ids that q is normalised over [default: the regular tokens,
                 or the whole vocabulary where that is what the tables are over]

    >>> model = unmask.MaskedLM.load()
    >>> cloze = model.cloze("A [MASK] [MASK] here.")
    >>> words = [model.words.encode("man dog")[1:3], model.words.encode("is was")[1:3]]
    >>> tables = unmask.unary_tables(model, cloze, [torch.tensor(ids) for ids in words])
    >>> [tuple(table.shape) for table in tables.log_q]
    [(2, 2), (2, 2)]
    """
    for token in cloze.ids:
        checks.whole("token id of the cloze", token, 0, model.input_size - 1)
    refuse_too_long(len(cloze.ids), model.max_length, "the cloze")
    if dtype is not None and (not dtype.is_floating_point or dtype.itemsize < 2):
        raise InputError(
            f"dtype {dtype} does not hold log-probabilities: give torch.float32 or torch.float64"
        )

    def sets(what: str, tokens: Sequence[Tensor | Sequence[int]] | None) -> list[Tensor] | None:
        def check(blank: int, token: int) -> int:
            return checks.whole(f"the {what}s of blank {blank}", token, 0, model.vocab_size - 1)

        return None if tokens is None else token_sets(what, tokens, len(cloze.block), check)

    return tables_of(
        model, [cloze], [sets("candidate", candidates)], dtype, progress, [sets("support", support)]
    )[0]


def tables_of(
    model: ConditionalModel,
    clozes: Sequence[Cloze],
    candidates: Sequence[Sequence[Tensor] | None],
    dtype: torch.dtype | None = None,
    progress: Progress | None = None,
    supports: Sequence[Sequence[Tensor] | None] | None = None,
) -> list[Tables]:
    """The tables of several blocks, whose passes run together; one entry of `candidates`, and
    of `supports`, per cloze.
    """
    vocabulary, regular = torch.arange(model.vocab_size), regular_tokens(model)
    axis_of: dict[tuple[int, int], Axis] = {}
    axes: list[tuple[Axis, ...]] = []
    for cloze, chosen, support in zip(
        clozes, candidates, supports or [None] * len(clozes), strict=True
    ):
        sets = chosen or [vocabulary] * len(cloze.block)
        pairs = list(
            zip(sets, support or [regular if chosen else vocabulary] * len(sets), strict=True)
        )
        for c, s in pairs:
            if (id(c), id(s)) not in axis_of:
                axis_of[id(c), id(s)] = Axis.of(model, c, s)
        axes.append(tuple(axis_of[id(c), id(s)] for c, s in pairs))
    counts = [pass_count([len(axis) for axis in sets]) for sets in axes]
    masked = [
        logits.to(dtype or torch.promote_types(logits.dtype, torch.float32))
        for logits in masked_logits(model, clozes, [count >= ENOUGH for count in counts])
    ]

    def kind(i: int) -> object:
        rows, sizes = enough_rows(model, len(clozes[i].ids)), [len(axis) for axis in axes[i]]
        large = prod(sizes) // min(sizes) >= rows
        return i if large else (len(clozes[i].ids), tuple(map(id, axes[i])))

    groups = grouped(range(len(clozes)), kind)
    blocks = [
        _Blocks([clozes[i] for i in group], axes[group[0]], torch.stack([masked[i] for i in group]))
        for group in groups
    ]
    done = 0
    for passed in chain(
        [len(clozes)], fill_tables(model, [table for block in blocks for table in block.unfilled])
    ):
        done += passed
        if progress:
            progress(done, sum(counts), "passes of the model")
    masses = iter(
        torch.cat([block.masses.flatten() for block in blocks]).tolist() if blocks else ()
    )
    in_groups = [tables for block in blocks for tables in block.tables(masses, model.token)]
    tables = dict(zip((i for group in groups for i in group), in_groups, strict=True))
    return [tables[i] for i in range(len(clozes))]


def masked_logits(
    model: ConditionalModel, clozes: Sequence[Cloze], alone: Sequence[bool] = ()
) -> list[Tensor]:
    """For each cloze the logits (k, V) at its block, with all of it masked; texts and blocks of
    one size pass together.

    `alone`: which pass by themselves, so that their last bits do not depend on the others.
    """
    of_cloze: dict[int, Tensor] = {}
    apart = [i if i < len(alone) and alone[i] else -1 for i in range(len(clozes))]
    for members in grouped(
        range(len(clozes)), lambda i: (len(clozes[i].ids), len(clozes[i].block), apart[i])
    ):
        ids = on_device([clozes[i].ids for i in members], model.device)
        block = on_device([clozes[i].block for i in members], model.device)
        of_cloze.update(zip(members, model.logits(ids, block), strict=True))
    return [of_cloze[i] for i in range(len(clozes))]


def pass_count(sizes: Sequence[int]) -> int:
    """Passes of the model that the tables of candidate sets of these sizes take: (k - |S|) for
    every S and values of it.

    With e_j the sum over sets S of j positions of the product of their sizes, 1 + sum_{j =
    1..k-1} (k - j) e_j.
    """
    k = len(sizes)
    symmetric = [1, *[0] * k]
    for size in sizes:
        symmetric = [1, *[symmetric[j] + size * symmetric[j - 1] for j in range(1, k + 1)]]
    return 1 + (sum((k - j) * symmetric[j] for j in range(1, k)) if k > 1 else 1)


class _Blocks:
    """Blocks of one length with the same candidates: the conditional tables that the model
    fills, and the `Tables` of each.
    """

    def __init__(self, clozes: Sequence[Cloze], axes: tuple[Axis, ...], logits: Tensor) -> None:
        k = len(axes)
        self.axes = axes
        self.log_masked, masses = [], list[Tensor]()
        for axis, rows in zip(axes, logits.unbind(1), strict=True):
            inside = axis.inside(rows)
            total, log_m = inside.double().logsumexp(-1), inside[:, axis.tokens]
            self.log_masked.append(log_m.log_softmax(-1).unbind())
            on_candidates = (
                torch.zeros_like(total)
                if axis.is_support
                else (log_m.double().logsumexp(-1) - total).clamp(max=0)
            )
            masses += [
                on_candidates,
                -lost_nats(rows.double(), axis.outside, rows.double().logsumexp(-1)),
            ]
        self.masses = torch.stack(masses, 1)

        def table(t: int, revealed: Iterable[int]) -> ConditionalTable:
            return ConditionalTable(clozes, axes, t, list(revealed), logits.dtype)

        self.unary = [table(t, [s for s in range(k) if s != t]) for t in range(k)]
        sets = [revealed for size in range(1, k - 1) for revealed in combinations(range(k), size)]
        self.between = {
            (revealed, t): table(t, revealed)
            for revealed in sets
            for t in range(k)
            if t not in revealed
        }
        self.unfilled = [*self.unary, *self.between.values()]

    def tables(self, masses: Iterator[float], label: Callable[[int], str]) -> Iterator[Tables]:
        """The tables of each block, once all are filled; `masses` has the numbers of
        `self.masses`.
        """
        unary = list(zip(*(table.by_cloze() for table in self.unary), strict=True))
        between = {place: table.by_cloze() for place, table in self.between.items()}
        for i, of_block in enumerate(unary):
            log_q, log_inside, log_total = zip(*of_block, strict=True)
            inside_and_support = [next(masses) for _ in range(2 * len(self.axes))]
            for blank, log_inside_masked in enumerate(inside_and_support[0::2], 1):
                if log_inside_masked == -inf:
                    raise InputError(
                        f"the model rules out every candidate of blank {blank}: give others"
                    )
            yield Tables(
                candidates=tuple(axis.tokens for axis in self.axes),
                log_q=log_q,
                log_inside=log_inside,
                log_total=log_total,
                log_masked=tuple(rows[i] for rows in self.log_masked),
                log_masked_inside=tuple(inside_and_support[0::2]),
                log_masked_support=tuple(inside_and_support[1::2]),
                log_between={place: parts[i][0] + parts[i][1] for place, parts in between.items()},
                label=label,
            )


def _distributions(name: str, probabilities: ArrayLike, dimensions: int, axis: int) -> Tensor:
    """Probabilities that sum to 1 along an axis, in float64; sums that are off by rounding only
    are made exact.
    """
    try:
        if isinstance(probabilities, Tensor):
            probabilities = probabilities.detach().cpu().double().numpy()
        values = torch.from_numpy(numpy.array(probabilities, dtype=numpy.float64))
    except (OverflowError, RuntimeError, TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers: give probabilities") from None
    if values.dim() != dimensions or 0 in values.shape:
        raise InputError(
            f"{name} has the shape {tuple(values.shape)}: give"
            f" {'a matrix' if dimensions == 2 else 'a vector'}"
        )
    if not bool((values >= 0).all()):
        raise InputError(f"{name} has an entry that is negative or NaN: give probabilities")
    sums = values.sum(axis, keepdim=True)
    worst = sums.flatten()[int((sums - 1).abs().argmax())].item()
    if abs(worst - 1) > ROUNDING:
        along = "" if dimensions == 1 else f" of a {('column', 'row')[axis]}"
        raise InputError(f"{name} has a sum{along} of {worst:.6g}: each must sum to 1")
    return values / sums


def _stationary(a: Tensor, b: Tensor) -> list[Tensor]:
    """u and v with u = A v, v = B' u and sum u = 1."""
    n = len(a)
    equations = torch.cat(
        [a @ b.T - torch.eye(n, dtype=torch.float64), torch.ones(1, n, dtype=torch.float64)]
    )
    if int(torch.linalg.matrix_rank(equations[:-1], rtol=1e-12)) < n - 1:
        raise InputError(
            "the conditionals split the values into parts that never meet: give masked, to weigh"
            " the parts"
        )
    right = torch.zeros(n + 1, dtype=torch.float64)
    right[-1] = 1
    u = torch.linalg.lstsq(equations, right).solution.clamp_min(0)
    u = u / u.sum()
    return [u, b.T @ u]


def _size(table: Tensor) -> str:
    return f"{table.shape[0]} x {table.shape[1]}"


def not_a_candidate(label: Callable[[int], str], word: str, blank: int) -> str:
    """The message about a word that no candidate of a blank is spelled as; `label` is the
    method `token` of a model, or str.
    """
    missing = f"{word!r} is not among the candidates of blank {blank}"
    words = getattr(getattr(label, "__self__", None), "words", None)  # the model's tokenizer
    if words is None or any(words.token(i) == word for i in words.regular_tokens.values()):
        return f"{missing}: give more candidates, or targets"
    try:
        tokens = [words.token(i) for i in words.encode_word(word, False, True)]
    except InputError:
        return f"{missing}: it is not a word of the model, so give another"
    if len(tokens) == 1:
        return f"{missing}: the model has no such token; it reads {tokens[0]!r}, so give that"
    cut = " ".join(map(repr, tokens))
    return (
        f"{missing}: it is {len(tokens)} tokens of the model ({cut}), so use [WORD] or [GAP] in the"
        " text, and answers"
    )
