"""One read of a block's tables for joints over them: normalisers, marginals and divergences.

For mu proportional to exp(r) and mu_{-t} = mu with t summed out,

    KL_t(x_{-t}) = sum_{x_t} q_t (log q_t - log mu(x) + log mu_{-t})
                 = sum q_t log q_t  -  sum q_t r  +  (sum q_t) log R_{-t},
                         R_{-t} = sum_{x_t} exp r.

In the second line log Z, which log mu(x) and log mu_{-t} have in common, has cancelled. The sums
of q_t log q_t and of q_t do not depend on the joint: all joints over the tables share them. A table
need not be normalised better than to rounding (sum q_t = 1 +- 1e-6), since log R is multiplied by
sum q_t and not by 1.

A token that the model rules out, q_t = 0, adds nothing. A token that the joint alone rules out
makes the divergence infinite, also in a context that the joint rules out altogether.

Every sum is taken over tiles (`_Sums`), or for pairs on a GPU by Triton (`_read_by_triton`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from unmask.common.batches import grouped
from unmask.joints.joint import Joint
from unmask.joints.rules import PairForm, Rule, pair_form
from unmask.joints.stacks import Stack, triton_serves
from unmask.joints.tiles import Tile, at, by_threads, contexts
from unmask.models.batching import on_device
from unmask.tables.unary import Tables

CELLS_AT_ONCE = 1 << 18  # Cells that `_sum_weak_again` sums at a time
WEAK = 1e-28
"""Share of the largest cell. A context that holds less is summed again, in logarithms.

float32 loses exponentials below about 1e-38. In a context that holds WEAK or more, each of them is
at most 1e-38 / WEAK = 1e-10 of the sum.
"""


@dataclass(frozen=True)
class JointReading:
    """The numbers of one read of the tables for a joint.

    Tensors are float64, of the block's shape with size 1 at axis t.

    log_z          log of the rule's normaliser
    log_marginals  log mu_{-t}, for each t
    kl             KL(q_t(. | x_{-t}) || mu(. | x_{-t})) in nats, for each t
    average_kl     A-KL of one block (section 3 of Torroba Hennigen & Kim 2023): the mean of the
                   divergence over sites, and over all contexts of each
    objective      what Arnold-Gokhale minimises (eq. 4 there): the sum of the divergence over all
                   sites and contexts
    """

    log_z: float
    log_marginals: tuple[Tensor, ...]
    kl: tuple[Tensor, ...]
    average_kl: float
    objective: float


_READINGS: WeakKeyDictionary[Rule, JointReading] = WeakKeyDictionary()
"""A rule never changes, so it is read once, by the solver that found it or by the metrics."""


def read_joints(joints: Sequence[Joint]) -> list[JointReading]:
    """The readings of joints over the tables of one block; see `read_rules`."""
    tables = joints[0].tables
    rules = [joint.rule for joint in joints]
    return read_rules([(tables, rules)])[0]


def read_rules(blocks: Sequence[tuple[Tables, Sequence[Rule]]]) -> list[list[JointReading]]:
    """For each block, the readings of the rules over its tables.

    All rules of a block that were not read before share one read of its tables. Blocks have one
    shape, and share launches on a GPU.
    """
    unread = [(tables, _unread(rules)) for tables, rules in blocks]
    tables_of_blocks = [tables for tables, _ in blocks]
    if triton_serves(*tables_of_blocks):
        _READINGS.update(_read_pairs(unread))
    for tables, rules in unread:
        left = _unread(rules)  # those that `_read_pairs` leaves to tiles
        if left:
            _READINGS.update(zip(left, _read_by_tiles(tables, left), strict=True))
    return [_readings(rules) for _, rules in blocks]


def _unread(rules: Sequence[Rule]) -> list[Rule]:
    return [rule for rule in rules if rule not in _READINGS]


def _readings(rules: Sequence[Rule]) -> list[JointReading]:
    return [_READINGS[rule] for rule in rules]


class Weights:
    """q = exp(log_q) of some cells, to weigh other numbers by.

    q r is 0 where q = 0, whatever r is. Where q > 0, however small, an r of -inf gives -inf.

    weights   q; those that are below the smallest normal number are raised to it: 0, to which
              exp may underflow, times -inf would be NaN
    tiny      the smallest normal number
    zeros     which q are 0; None if none is, so that `times` need not look
    """

    def __init__(self, log_q: Tensor) -> None:
        self.tiny: float = torch.finfo(log_q.dtype).tiny
        self.weights: Tensor = log_q.exp().clamp_(min=self.tiny)
        zeros = log_q == -torch.inf
        self.zeros: Tensor | None = zeros if bool(zeros.any()) else None

    @cached_property
    def exact(self) -> bool:
        """Whether all q are above the smallest normal number, so that none was raised to it."""
        return bool(self.weights.amin() > self.tiny)

    def times(self, values: Tensor, out: Tensor | None = None) -> Tensor:
        """q values; written to `out` if it is given."""
        weighed = torch.mul(self.weights, values, out=out)
        if self.zeros is None:
            return weighed
        return weighed.masked_fill_(self.zeros, 0)


class _TableSums(NamedTuple):
    """For each site t and context, the sums that do not depend on the joint.

    weight        sum_{x_t} q_t
    information   sum_{x_t} q_t log q_t
    """

    weight: tuple[Tensor, ...]
    information: tuple[Tensor, ...]


_TABLE_SUMS: WeakKeyDictionary[Tables, _TableSums] = WeakKeyDictionary()


def _sums_of_tables(blocks: Sequence[Tables]) -> list[_TableSums]:
    """The sums of each block, computed once and cached with its tables."""
    missing = [tables for tables in dict.fromkeys(blocks) if tables not in _TABLE_SUMS]
    if missing and triton_serves(*missing):
        from unmask.joints.triton_programs import table_sums

        for tables, (rows, columns) in zip(missing, table_sums(missing), strict=True):
            # A column holds the contexts of site 0, a row those of site 1.
            _TABLE_SUMS[tables] = _TableSums(
                weight=(columns.a[None, :], rows.b[:, None]),
                information=(columns.information[None, :], rows.information[:, None]),
            )
    else:
        for tables in missing:
            _TABLE_SUMS[tables] = _table_sums_by_tiles(tables)
    return [_TABLE_SUMS[tables] for tables in blocks]


def _table_sums_by_tiles(tables: Tables) -> _TableSums:
    def sums_of(part: Sequence[Tile]) -> _TableSums:
        sums = _TableSums(weight=_zeros(tables), information=_zeros(tables))
        for index in part:
            for t, table in enumerate(tables.log_q):
                log_q = at(table, index)
                q = Weights(log_q)
                at(sums.weight[t], index).add_(q.weights.sum(t, keepdim=True))
                terms = q.times(log_q, out=q.weights)  # the weights are not needed any more
                at(sums.information[t], index).add_(terms.sum(t, keepdim=True))
        return sums

    parts = by_threads(tables.log_q[0], sums_of)
    return _TableSums(
        weight=_added([part.weight for part in parts]),
        information=_added([part.information for part in parts]),
    )


def _zeros(tables: Tables) -> tuple[Tensor, ...]:
    """For each site, a float64 zero for every context."""
    return tuple(contexts(tables, t) for t in range(tables.sites))


def _added(parts: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """For each site, the sum of the tensors of all parts."""
    return tuple(torch.stack(of_site).sum(0) for of_site in zip(*parts, strict=True))


def _divergence(information: Tensor, cross: Tensor, weight: Tensor, log_mass: Tensor) -> Tensor:
    """KL_t of each context, from sum q log q, sum q r, sum q and log R.

    It is infinite where the joint alone rules a token out: there sum q r is -inf.
    """
    divergence = information - cross + weight * log_mass
    return divergence.masked_fill(cross == -torch.inf, torch.inf)


def _sum_weak_again(
    rule: Rule, shape: Sequence[int], masses: Sequence[Tensor], log_masses: Sequence[Tensor]
) -> None:
    """Sum the contexts that hold less than WEAK again, in logarithms.

    shape       of the block
    masses      for each site t, sums over x_t of exp(r - largest r), with size 1 at axis t
    log_masses  for each site t, log of the sums of exp(r); changed in place
    """
    for t, (mass, log_mass) in enumerate(zip(masses, log_masses, strict=True)):
        weak = torch.nonzero(mass < WEAK)  # one context per row: its index, 0 at axis t
        if len(weak) == 0:
            continue  # nothing to sum; `split` would still give one part, an empty one
        tokens = torch.arange(shape[t], device=weak.device)
        contexts_at_once = max(1, CELLS_AT_ONCE // shape[t])
        for at_once in weak.split(contexts_at_once):
            places = at_once.repeat_interleave(shape[t], 0)  # one cell per row, by context
            places[:, t] = tokens.repeat(len(at_once))
            cells = rule(tuple(places.T.contiguous())).double()
            by_context = cells.reshape(len(at_once), shape[t])
            log_mass[tuple(at_once.T)] = by_context.logsumexp(1)


def _read_by_tiles(tables: Tables, rules: Sequence[Rule]) -> list[JointReading]:
    """The readings of rules over one block, which share its tiles and their exponentials."""

    def sums_of(part: Sequence[Tile]) -> list[_Sums]:
        sums = [_Sums(tables, rule) for rule in rules]
        for index in part:
            q = [Weights(at(table, index)) for table in tables.log_q]  # shared by all rules
            for of_rule in sums:
                of_rule.add(index, q)
        return sums

    parts = by_threads(tables.log_q[0], sums_of)
    readings = []
    for sums_of_rule in zip(*parts, strict=True):  # those of one rule, from each part
        total = reduce(_Sums.join, sums_of_rule)
        readings.append(total.reading())
    return readings


class _Sums:
    """The sums over tiles for one rule r.

    They are sums of s = r - c, with the constant c that the rule adds to all its cells
    (`FamilyRule`), or 0 for a rule that has none. For each site t and context,

        mass = sum_{x_t} exp(s - shift),   shift: the largest s so far,
        cross = sum_{x_t} q_t s.
    """

    def __init__(self, tables: Tables, rule: Rule) -> None:
        self.tables = tables
        self.rule = rule
        self.c = getattr(rule, "c", 0.0)
        self.mass = _zeros(tables)
        self.cross = _zeros(tables)
        # Not -inf: if all cells are -inf, a difference of two shifts would be NaN. The lowest
        # number of float32, since tiles of this dtype subtract the shift too.
        lowest = torch.finfo(torch.float32).min
        self.shift = torch.full((), lowest, dtype=torch.float64, device=self.mass[0].device)

    def add(self, index: Tile, q: Sequence[Weights]) -> None:
        """Add the cells of a tile; `q` has the tables' cells there."""
        s, exp_s = self._cells(index, q)
        self._rescale(torch.maximum(self.shift, s.amax()))
        # exp(s - shift) = work * factor; later `work` holds q s
        if exp_s is None:
            work = (s - self.shift.to(s.dtype)).exp_()
            factor = torch.ones_like(self.shift)
        else:
            work = exp_s
            factor = (-self.shift).exp()
        for t, mass in enumerate(self.mass):
            at(mass, index).add_(work.sum(t, keepdim=True) * factor)
        for t, cross in enumerate(self.cross):
            terms = q[t].times(s, out=work)  # the masses no longer need exp(s)
            at(cross, index).add_(terms.sum(t, keepdim=True))

    def _cells(self, index: Tile, q: Sequence[Weights]) -> tuple[Tensor, Tensor | None]:
        """s of a tile; and exp(s) if the rule computes it from q without loss, else None."""
        probabilities = getattr(self.rule, "probabilities", None)  # a rule need not have it
        if probabilities is not None and all(of_site.exact for of_site in q):
            exp_s = probabilities(index, [of_site.weights for of_site in q])
            smallest, largest = exp_s.aminmax()
            if smallest > q[0].tiny and largest < torch.inf:
                return exp_s.log(), exp_s
        cells = self.rule(index)
        if self.c:
            cells = cells - self.c
        return cells, None

    def _rescale(self, shift: Tensor) -> None:
        """Take another shift for the masses."""
        for mass in self.mass:
            mass.mul_((self.shift - shift).exp())
        self.shift = shift

    def join(self, other: _Sums) -> _Sums:
        """Add the sums over other tiles. Changes both."""
        shift = torch.maximum(self.shift, other.shift)
        self._rescale(shift)
        other._rescale(shift)
        own = (*self.mass, *self.cross)
        others = (*other.mass, *other.cross)
        for total, part in zip(own, others, strict=True):
            total.add_(part)
        return self

    def reading(self) -> JointReading:
        """The reading, once every tile was added."""
        (of_tables,) = _sums_of_tables([self.tables])
        log_mass = [self.c + self.shift + mass.log() for mass in self.mass]
        _sum_weak_again(self.rule, self.tables.shape, self.mass, log_mass)
        every_axis = tuple(range(self.tables.sites))
        log_z = log_mass[0].logsumexp(every_axis)
        kl = []
        for t, cross in enumerate(self.cross):
            without_constant = log_mass[t] - self.c  # as `cross` is
            information = of_tables.information[t]
            weight = of_tables.weight[t]
            kl.append(_divergence(information, cross, weight, without_constant))
        means = [float(of_site.mean()) for of_site in kl]
        totals = [float(of_site.sum()) for of_site in kl]
        return JointReading(
            log_z=float(log_z),
            log_marginals=tuple(of_contexts - log_z for of_contexts in log_mass),
            kl=tuple(kl),
            average_kl=sum(means) / len(means),
            objective=sum(totals),
        )


class _PairRule(NamedTuple):
    """A rule over the tables of a pair, in the form that a GPU reads.

    likely   the place of each blank's likeliest candidate, with both blanks masked
    """

    tables: Tables
    rule: Rule
    form: PairForm
    likely: tuple[int, int]


def _read_pairs(
    blocks: Sequence[tuple[Tables, Sequence[Rule]]],
) -> dict[Rule, JointReading]:
    """The readings of rules over pairs on a GPU, without those that tiles must read.

    These are the rules without a pair form, and those whose sums leave float32's range.
    """
    likely_x = _likely_places(blocks, 0)
    likely_y = _likely_places(blocks, 1)
    pair_rules = []
    for (tables, rules), x, y in zip(blocks, likely_x, likely_y, strict=True):
        for rule in rules:
            form = pair_form(tables, rule)
            if form is not None:
                pair_rules.append(_PairRule(tables=tables, rule=rule, form=form, likely=(x, y)))
    readings: dict[Rule, JointReading] = {}
    for members in grouped(pair_rules, lambda pair_rule: pair_rule.form.kind):
        readings.update(_read_by_triton([pair_rules[i] for i in members]))
    return readings


def _likely_places(blocks: Sequence[tuple[Tables, Sequence[Rule]]], t: int) -> list[int]:
    """For each block, the place of the likeliest candidate of site t, with all sites masked."""
    log_masked = torch.stack([tables.log_masked[t] for tables, _ in blocks])
    places: list[int] = log_masked.argmax(1).tolist()
    return places


def _read_by_triton(pair_rules: Sequence[_PairRule]) -> dict[Rule, JointReading]:
    """The readings of rules of one kind of form, in one launch.

    Rules whose sums leave float32's range are left out.
    """
    from unmask.joints.triton_programs import pair_sums

    form = PairForm.stacked([pair_rule.form for pair_rule in pair_rules])
    shift = _largest_likely_cells(form, pair_rules)
    sums = pair_sums(
        a=Stack.of([pair_rule.tables.log_q[0] for pair_rule in pair_rules]),
        b=Stack.of([pair_rule.tables.log_q[1] for pair_rule in pair_rules]),
        form=form,
        shift=shift,
        cross=True,
    )
    # By site, with a row per rule: a column holds the contexts of site 0, a row those of site 1.
    masses = (sums.column_mass, sums.row_mass)
    crosses = (sums.column_cross, sums.row_cross)
    finite_at_sites = [torch.isfinite(mass).all(1) for mass in masses]
    strong_at_sites = [(mass >= WEAK).all(1) for mass in masses]
    finite = torch.stack(finite_at_sites).all(0).tolist()  # by rule, as `strong`
    strong = torch.stack(strong_at_sites).all(0).tolist()
    log_masses = [shift.double()[:, None] + mass.log() for mass in masses]
    for i, pair_rule in enumerate(pair_rules):
        if finite[i] and not strong[i]:
            _sum_weak_again(
                rule=pair_rule.rule,
                shape=pair_rule.tables.shape,
                masses=_of_rule(masses, i),
                log_masses=_of_rule(log_masses, i),
            )
    log_z = log_masses[0].logsumexp(1)
    of_tables = _sums_of_tables([pair_rule.tables for pair_rule in pair_rules])
    kl = []
    for t in range(2):
        information = torch.stack([of_pair.information[t].flatten() for of_pair in of_tables])
        weight = torch.stack([of_pair.weight[t].flatten() for of_pair in of_tables])
        kl.append(_divergence(information, crosses[t], weight, log_masses[t]))
    average_kl = (kl[0].mean(1) + kl[1].mean(1)) / 2
    objective = kl[0].sum(1) + kl[1].sum(1)
    numbers = torch.stack([log_z, average_kl, objective], 1).tolist()  # one wait for the GPU
    readings: dict[Rule, JointReading] = {}
    for i, pair_rule in enumerate(pair_rules):
        if not finite[i]:
            continue
        readings[pair_rule.rule] = JointReading(
            log_z=numbers[i][0],
            log_marginals=tuple(log_mass - log_z[i] for log_mass in _of_rule(log_masses, i)),
            kl=_of_rule(kl, i),
            average_kl=numbers[i][1],
            objective=numbers[i][2],
        )
    return readings


def _of_rule(by_site: Sequence[Tensor], i: int) -> tuple[Tensor, ...]:
    """The rows of rule i, as views of the pair's shape with size 1 at axis t, for each site t."""
    return tuple(rows[i].unsqueeze(t) for t, rows in enumerate(by_site))


def _largest_likely_cells(form: PairForm, pair_rules: Sequence[_PairRule]) -> Tensor:
    """Of each rule the largest cell in the row and the column of the likeliest tokens.

    It stands for the largest cell of all, which would take a read of the tables. If the sums
    leave float32's range all the same, tiles read the rule.
    """
    columns_a, columns_b, rows_a, rows_b = [], [], [], []
    for pair_rule in pair_rules:
        log_a, log_b = pair_rule.tables.log_q
        x, y = pair_rule.likely
        columns_a.append(log_a[:, y])
        columns_b.append(log_b[:, y])
        rows_a.append(log_a[x])
        rows_b.append(log_b[x])
    likely = [pair_rule.likely for pair_rule in pair_rules]
    fixed_x, fixed_y = on_device(likely, rows_a[0].device).split(1, dim=1)  # (rules, 1) each
    of_columns = form.along(0, fixed_y, torch.stack(columns_a), torch.stack(columns_b))
    of_rows = form.along(1, fixed_x, torch.stack(rows_a), torch.stack(rows_b))
    return torch.maximum(of_columns.amax(1), of_rows.amax(1))
