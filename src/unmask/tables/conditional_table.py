"""One conditional of a block, for all values of some of its positions: a table that the model
fills row by row.

Rows of small tables of texts of one length share batches: their numbers differ from those of
single calls in the last bits at most. A table with many rows has batches of its own: its bits do
not depend on other tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from unmask.common.batches import cut, grouped
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.models.batching import on_device, triton_wanted
from unmask.models.conditional_model import ConditionalModel
from unmask.tables.conditionals import outside

ROWS = 256  # rows of a batch of a model that does not say how many are best
ENOUGH = 2048
"""A table of one text with this many rows has batches of its own. They fill a device, and sharing
them with other tables would gain less than what its rows share in `substitutions`.
"""


@dataclass(frozen=True)
class Axis:
    """Candidates of a blank on the model's device.

    tokens          their ids
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
        """The axis of these candidates; raises if one is outside the support."""
        tokens = tokens.to(model.device)
        support = support.to(model.device)
        excluded = outside(model, support)
        wrong = tokens[torch.isin(tokens, excluded)]
        if len(wrong):
            raise InputError(
                f"candidate {int(wrong[0])} is outside the support of the model's conditionals:"
                " take it out"
            )
        vocabulary = torch.arange(model.vocab_size, device=model.device)
        return cls(
            tokens=tokens,
            is_vocabulary=torch.equal(tokens, vocabulary),
            is_support=torch.equal(tokens.sort().values, support.sort().values),
            outside=excluded,
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def inside(self, logits: Tensor) -> Tensor:
        """The logits over the support; -inf elsewhere."""
        if len(self.outside) == 0:
            return logits
        return logits.index_fill(-1, self.outside, -torch.inf)


class ConditionalTable:
    """log q(x_t | x_revealed; the block's other positions masked), for all values of `revealed`.

    It holds one table for each of several clozes of one length with the same candidates. A row is
    a pass of the model: a cloze, and a value of its revealed positions. The rows of one cloze
    follow those of another. `fill_tables` writes them.

    clozes     the texts
    t          the site that is predicted
    revealed   the sites whose values vary, in rising order
    contexts   (rows of a cloze, |revealed|) values of the revealed sites, the last one fastest
    log_q      (clozes x B, n_t, A), where the revealed sites before t have B values together, and
               those after t have A: the order of the sites in memory
    total      one number per row: logsumexp of the logits over the candidates
    mass       one number per row: log of the mass that q puts on the candidates
    """

    def __init__(
        self,
        clozes: Sequence[Cloze],
        axes: tuple[Axis, ...],
        t: int,
        revealed: list[int],
        dtype: torch.dtype,
    ) -> None:
        self.clozes = clozes
        self.t = t
        self.revealed = revealed
        self.axis: Axis = axes[t]
        self.tokens: Tensor = self.axis.tokens
        if revealed:
            values = torch.cartesian_prod(*[axes[s].tokens for s in revealed])
            self.contexts: Tensor = values.reshape(
                -1, len(revealed)
            )  # of one site they come as a vector
        else:
            self.contexts = self.tokens.new_empty((1, 0))
        self._sizes = [len(axes[s]) if s in revealed else 1 for s in range(len(axes))]
        before = prod(len(axes[s]) for s in revealed if s < t)  # B
        after = len(self.contexts) // before  # A
        rows = len(clozes) * len(self.contexts)
        device = self.tokens.device
        cells = (len(clozes) * before, len(self.tokens), after)
        self.log_q: Tensor = torch.empty(cells, dtype=dtype, device=device)
        self.total: Tensor = torch.empty(rows, dtype=dtype, device=device)
        self.mass: Tensor = torch.zeros_like(self.total)

    @property
    def length(self) -> int:
        """Tokens of each text."""
        return len(self.clozes[0].ids)

    def write(self, rows: slice, logits: Tensor) -> None:
        """Write these rows from their logits (rows, V)."""
        if not self.axis.is_support:
            logits = self.axis.inside(logits)
        layout_fits = self.log_q.dtype == torch.float32 and logits.stride(-1) == 1
        if layout_fits and triton_wanted(logits):
            from unmask.tables.triton_cells import fill

            total, mass = fill(
                table=self.log_q,
                start=rows.start,
                logits=logits,
                candidates=self.tokens,
                whole=self.axis.is_vocabulary,
            )
        else:
            log_q, total, mass = self._conditionals(logits)
            _write_rows(self.log_q, rows, log_q)
        self.total[rows] = total
        if not self.axis.is_support:  # else it is 0, and a sum would be off by rounding
            self.mass[rows] = mass

    def _conditionals(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(log q, total, mass) of rows from their logits, which are -inf outside the support."""
        log_p = torch.log_softmax(logits, -1, dtype=self.total.dtype)
        # logsumexp of all logits, without another sum over the vocabulary: log_softmax subtracts
        # it from each logit, also from the largest
        log_z = logits.amax(-1).to(self.total.dtype) - log_p.amax(-1)
        if self.axis.is_vocabulary:
            return log_p, log_z, torch.zeros_like(log_z)
        log_p = log_p[:, self.tokens]
        mass = log_p.logsumexp(-1)
        log_p -= mass[:, None]
        return log_p, log_z + mass, mass

    def clear_impossible(self) -> None:
        """Set q to 0 in the contexts where the model rules out all candidates: no distribution
        over them exists there.
        """
        outer, _, after = self.log_q.shape  # row r is at [r // after, :, r % after]
        impossible = (self.mass == -torch.inf).reshape(outer, 1, after)
        self.log_q.masked_fill_(impossible, -torch.inf)

    def texts(self, rows: slice) -> tuple[Tensor, Tensor]:
        """The texts (rows, T) of these rows, and the position (rows, 1) that each predicts."""
        number = torch.arange(rows.start, rows.stop, device=self.tokens.device)
        cloze = number // len(self.contexts)
        context = number % len(self.contexts)
        ids, revealed, predicted = self._positions
        texts = ids[cloze].scatter_(1, revealed[cloze], self.contexts[context])
        return texts, predicted[cloze]

    @cached_property
    def _positions(self) -> tuple[Tensor, Tensor, Tensor]:
        """For each cloze its ids, the positions of its revealed sites, and the position of t."""
        device = self.tokens.device
        ids = [cloze.ids for cloze in self.clozes]
        revealed = [[cloze.block[s] for s in self.revealed] for cloze in self.clozes]
        predicted = [[cloze.block[self.t]] for cloze in self.clozes]
        return (
            on_device(ids, device),
            on_device(revealed, device, torch.long),  # empty lists would become floats
            on_device(predicted, device),
        )

    def by_cloze(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """(log q, log mass on the candidates, total) of each cloze, each with k axes.

        An axis that is neither t nor revealed has size 1. Mass and total also have size 1 at t.
        """
        sizes_with_t = list(self._sizes)
        sizes_with_t[self.t] = len(self.tokens)
        n = len(self.clozes)
        log_q = self.log_q.reshape(n, *sizes_with_t)
        mass = self.mass.reshape(n, *self._sizes)
        total = self.total.reshape(n, *self._sizes)
        return list(zip(log_q, mass, total, strict=True))


def _write_rows(table: Tensor, rows: slice, values: Tensor) -> None:
    """Write row r of a table to table[r // A, :, r % A], for a table of shape (B, n, A).

    values   (rows, n) the rows from `rows.start` on
    """
    after = table.shape[2]
    if after == 1:
        table[rows, :, 0] = values
        return
    written = 0
    while written < len(values):
        outer, inner = divmod(rows.start + written, after)  # of the next row
        places_left = after - inner  # in table[outer]
        part = values[written : written + places_left]
        table[outer, :, inner : inner + len(part)] = part.T.contiguous()
        written += len(part)


def fill_tables(model: ConditionalModel, tables: Sequence[ConditionalTable]) -> Iterator[int]:
    """Fill all tables, and yield the number of passes of each batch."""
    for members in grouped(tables, lambda table: table.length):
        of_length = [tables[i] for i in members]
        sharing = _sharing_batches(model, of_length)
        shares = {id(table) for table in sharing}
        for table in of_length:
            if id(table) not in shares:
                yield from _fill_alone(model, table)
        yield from _fill_together(model, sharing)
    if tables:
        _settle(model, tables)


def _sharing_batches(
    model: ConditionalModel, tables: Sequence[ConditionalTable]
) -> list[ConditionalTable]:
    """Which tables of texts of one length share batches: the small ones, and those of several
    clozes.

    None does if these are of a single text: its rows share more with each other
    (`substitutions`).
    """
    sharing: list[ConditionalTable] = []
    for table in tables:
        is_small = len(table.contexts) < enough_rows(model, table.length)
        if is_small or len(table.clozes) > 1:
            sharing.append(table)
    first_texts = {table.clozes[0].ids for table in sharing}
    if len(first_texts) > 1 or any(len(table.clozes) > 1 for table in sharing):
        return sharing
    return []


def _fill_alone(model: ConditionalModel, table: ConditionalTable) -> Iterator[int]:
    """Fill a table of one cloze in batches of its own."""
    (cloze,) = table.clozes
    revealed = [cloze.block[s] for s in table.revealed]
    predicted = cloze.block[table.t]
    for rows, logits in model.substitutions(cloze.ids, revealed, table.contexts, predicted):
        table.write(rows, logits)
        yield len(logits)


def _fill_together(model: ConditionalModel, tables: Sequence[ConditionalTable]) -> Iterator[int]:
    """Fill tables of texts of one length in batches that they share."""
    if not tables:
        return
    sized = [(table, len(table.total)) for table in tables]
    for batch in cut(sized, rows_at_once(model, tables[0].length)):
        texts, predicted = zip(*[table.texts(rows) for table, rows in batch], strict=True)
        ids = torch.cat(texts)
        logits = model.logits_at(ids, torch.cat(predicted))[:, 0]
        parts = logits.split([rows.stop - rows.start for _, rows in batch])
        for (table, rows), part in zip(batch, parts, strict=True):
            table.write(rows, part)
        yield len(ids)


def _settle(model: ConditionalModel, tables: Sequence[ConditionalTable]) -> None:
    """Raise if logits were NaN, and clear the contexts that are impossible.

    This comes once, when all tables are filled, so that a GPU is waited for once.
    """
    # On a GPU `total` sums over the candidates alone: of a NaN elsewhere only `mass` tells
    has_nan = torch.cat([table.total + table.mass for table in tables]).isnan().any()
    has_impossible = torch.cat([table.mass for table in tables]).isneginf().any()
    nan_logits, impossible = torch.stack([has_nan, has_impossible]).tolist()
    if nan_logits:
        raise model.not_finite()
    if impossible:
        for table in tables:
            table.clear_impossible()


def enough_rows(model: ConditionalModel, tokens: int) -> int:
    """The number of rows from which on a table of texts of `tokens` tokens has batches of its
    own.
    """
    return min(rows_at_once(model, tokens), ENOUGH)


def rows_at_once(model: ConditionalModel, tokens: int) -> int:
    """Rows that fill a batch of the model, for texts of `tokens` tokens."""
    return model.rows_at_once(tokens, 1) or ROWS
