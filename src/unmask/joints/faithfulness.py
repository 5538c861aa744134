"""How far the conditionals of joints lie from the model's, for all joints over the same tables in one read of them.

For a joint mu proportional to exp(r), and each site t and context x_{-t} (the block's other tokens),

    KL_t(x_{-t}) = sum_{x_t} q_t (log q_t - log mu(x) + log mu_{-t}),     mu_{-t} = mu with site t summed out
                 = sum q_t log q_t  -  sum q_t r  +  (sum q_t) log R_{-t},    R_{-t} = sum_{x_t} exp r

(J(t, w') in eq. 4 of Torroba Hennigen & Kim 2023). These are four sums of each site: q_t and q_t log q_t, which all joints
over the tables share and which are kept with them, and q_t r and exp r of each joint. A table that is normalised to
rounding only (sum q_t = 1 +- 1e-6) leaves no trace, since log R is weighted by the sum.

A token that the model rules out, q_t = 0, adds nothing, whatever the joint gives it. A token that the joint alone rules out
makes the divergence infinite, also in a context that the joint rules out altogether.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from unmask.errors import InputError
from unmask.joints.joint import Joint, Rule
from unmask.joints.rules import PairForm, Stack, pair_form, stacked, triton_serves
from unmask.joints.tiles import CELLS_ON_CPU, Tile, Weights, at, by_threads, contexts
from unmask.tables.unary import Tables, alike

UNDERFLOW = 1e-28
"""A context that holds less than this share of the largest cell is summed again, in logarithms."""


@dataclass(frozen=True)
class JointReading:
    """The numbers of one read of the tables for a joint; tensors are float64, of the block's shape with size 1 at axis t.

    log_z          log of the rule's normaliser
    log_marginals  log mu_{-t}, for each t
    kl             KL(q_t(. | x_{-t}) || mu(. | x_{-t})) in nats, for each t
    average_kl     A-KL of one block (section 3): the mean over sites, and over all contexts of each, of the divergence
    objective      what Arnold-Gokhale minimises (eq. 4): the sum of the divergences over all sites and contexts
    """

    log_z: float
    log_marginals: tuple[Tensor, ...]
    kl: tuple[Tensor, ...]
    average_kl: float
    objective: float


def read_joints(joints: Sequence[Joint], tile_cells: int | None = None) -> list[JointReading]:
    """One read of the tables for all `joints` that were not read before; they must be rules over the same tables.

    `tile_cells`: read all of them now, this many cells at a time.
    """
    if any(joint.tables is not joints[0].tables for joint in joints):
        raise InputError("these joints are rules over different tables: read the joints of each block by themselves")
    return read_rules([(joints[0].tables, [joint.rule for joint in joints])], tile_cells)[0]


def read_rules(blocks: Sequence[tuple[Tables, Sequence[Rule]]], tile_cells: int | None = None) -> list[list[JointReading]]:
    """The same for rules over the tables of several blocks of one shape; on a GPU the blocks share their launches."""
    unread = [(tables, [rule for rule in rules if rule not in _READ or tile_cells is not None]) for tables, rules in blocks]
    if tile_cells is None and triton_serves(*(tables for tables, _ in blocks)):
        asked = [(tables, rule, pair_form(tables, rule)) for tables, rules in unread for rule in rules]
        _READ.update(_read_by_triton([_Job(tables, rule, form) for tables, rule, form in asked if form is not None]))
    for tables, rules in unread:
        if left := [rule for rule in rules if rule not in _READ or tile_cells is not None]:
            _READ.update(zip(left, _read_by_tiles(tables, left, tile_cells), strict=True))
    return [[_READ[rule] for rule in rules] for _, rules in blocks]


_READ: WeakKeyDictionary[Rule, JointReading] = WeakKeyDictionary()
"""A rule never changes, so it is read once, by the solver that found it or by the metrics."""


def _read_by_tiles(tables: Tables, rules: Sequence[Rule], tile_cells: int | None) -> list[JointReading]:
    def read(part: Sequence[Tile]) -> list[_Sums]:
        sums = [_Sums(tables, rule) for rule in rules]
        for index in part:
            q = [Weights(at(table, index)) for table in tables.log_q]
            for of_rule in sums:
                of_rule.add(index, q)
        return sums

    parts = by_threads(tables.log_q[0], read, tile_cells)
    return [reduce(_Sums.join, of_rule).reading() for of_rule in zip(*parts, strict=True)]


@dataclass(frozen=True)
class _OwnSums:
    """sum q_t and sum q_t log q_t of every context, which no joint enters."""

    weight: tuple[Tensor, ...]
    own: tuple[Tensor, ...]


_OWN: WeakKeyDictionary[Tables, _OwnSums] = WeakKeyDictionary()


def _own_sums(blocks: Sequence[Tables]) -> list[_OwnSums]:
    """Of each block, computed once and kept with its tables."""
    if missing := [tables for tables in dict.fromkeys(blocks) if tables not in _OWN]:
        found = _own_by_triton(missing) if triton_serves(*missing) else [_own_by_tiles(tables) for tables in missing]
        _OWN.update(zip(missing, found, strict=True))
    return [_OWN[tables] for tables in blocks]


def _own_by_tiles(tables: Tables) -> _OwnSums:
    def read(part: Sequence[Tile]) -> list[list[Tensor]]:
        weight, own = ([contexts(tables, t) for t in range(tables.sites)] for _ in range(2))
        for index in part:
            for t, table in enumerate(tables.log_q):
                log_q = at(table, index)
                q = Weights(log_q)
                at(weight[t], index).add_(q.weights.sum(t, keepdim=True))
                at(own[t], index).add_(q.times(log_q, out=q.weights).sum(t, keepdim=True))
        return [weight, own]

    parts = by_threads(tables.log_q[0], read)
    return _OwnSums(*(tuple(torch.stack(same).sum(0) for same in zip(*kind, strict=True)) for kind in zip(*parts, strict=True)))


def _own_by_triton(blocks: Sequence[Tables]) -> list[_OwnSums]:
    from unmask.joints.triton.table_sums import table_sums

    return [
        _OwnSums((s.columns.a[None, :], s.rows.b[:, None]), (s.columns.information[None, :], s.rows.information[:, None]))
        for s in table_sums(blocks)
    ]


@dataclass(frozen=True)
class _Job:
    """A rule over the tables of a pair, in the form that a GPU reads."""

    tables: Tables
    rule: Rule
    form: PairForm


def _read_by_triton(jobs: Sequence[_Job]) -> dict[Rule, JointReading]:
    """The same sums for pairs on a GPU, a read of the tables for each rule; without rules whose sums leave float32's range."""
    if not jobs:
        return {}
    blocks = list(dict.fromkeys(job.tables for job in jobs))
    likely = [torch.stack([tables.log_masked[t] for tables in blocks]).argmax(1).tolist() for t in range(2)]
    places = dict(zip(blocks, zip(*likely, strict=True), strict=True))
    readings: dict[Rule, JointReading] = {}
    for members in alike(jobs, lambda job: job.form.kind):
        group = [jobs[i] for i in members]
        readings |= _read_group(group, [places[job.tables] for job in group])
    return readings


def _read_group(jobs: Sequence[_Job], likely: Sequence[tuple[int, int]]) -> dict[Rule, JointReading]:
    """Rules of one form, in one launch; the largest cell is sought in the row and the column of the likely tokens."""
    from unmask.joints.triton.pair_sums import pair_sums

    form, tables = stacked([job.form for job in jobs]), [job.tables.log_q for job in jobs]
    x, y = torch.tensor(likely, device=tables[0][0].device).split(1, 1)
    columns = (torch.stack([q[t][:, y_] for q, (_, y_) in zip(tables, likely, strict=True)]) for t in range(2))
    rows = (torch.stack([q[t][x_] for q, (x_, _) in zip(tables, likely, strict=True)]) for t in range(2))
    shift = torch.maximum(form.along(0, y, *columns).amax(1), form.along(1, x, *rows).amax(1))
    a, b = (Stack.of([job.tables.log_q[t] for job in jobs]) for t in range(2))
    found = pair_sums(a, b, form, shift, cross=True)
    masses, crosses = (found.column_mass, found.row_mass), (found.column_cross, found.row_cross)
    inside, strong = (
        torch.stack([test(mass).all(1) for mass in masses]).all(0).tolist()
        for test in (torch.isfinite, lambda mass: mass >= UNDERFLOW)
    )
    own = _own_sums([job.tables for job in jobs])
    log_mass = [shift.double()[:, None] + mass.log() for mass in masses]
    for i, (job, finite, is_strong) in enumerate(zip(jobs, inside, strong, strict=True)):
        if finite and not is_strong:
            _repair(job.tables.shape, job.rule, [mass[i].unsqueeze(t) for t, mass in enumerate(masses)],
                  [mass[i].unsqueeze(t) for t, mass in enumerate(log_mass)])  # fmt: skip
    log_z = log_mass[0].logsumexp(1)
    own_of, weight_of = (
        [torch.stack([getattr(sums, name)[t].flatten() for sums in own]) for t in range(2)] for name in ("own", "weight")
    )
    kl = [_divergence(*parts) for parts in zip(own_of, crosses, weight_of, log_mass, strict=True)]
    numbers = torch.stack([log_z, (kl[0].mean(1) + kl[1].mean(1)) / 2, kl[0].sum(1) + kl[1].sum(1)], 1).tolist()
    return {
        job.rule: JointReading(
            z,
            tuple((m[i] - log_z[i]).unsqueeze(t) for t, m in enumerate(log_mass)),
            tuple(k[i].unsqueeze(t) for t, k in enumerate(kl)),
            average,
            objective,
        )
        for i, (job, (z, average, objective)) in enumerate(zip(jobs, numbers, strict=True))
        if inside[i]
    }


def _divergence(own: Tensor, cross: Tensor, weight: Tensor, log_mass: Tensor) -> Tensor:
    """KL_t from its four sums; infinite where the joint alone rules a token out."""
    return (own - cross + weight * log_mass).masked_fill(cross == -torch.inf, torch.inf)


def _repair(shape: Sequence[int], rule: Rule, masses: Sequence[Tensor], log_masses: Sequence[Tensor]) -> None:
    """Compute again, in place, the logarithms of masses that nearly vanish beside the largest cell."""
    for t, (mass, log_mass) in enumerate(zip(masses, log_masses, strict=True)):
        weak = torch.nonzero(mass < UNDERFLOW)
        for some in weak.split(max(1, CELLS_ON_CPU // shape[t])) if len(weak) else ():
            log_mass[tuple(some.T)] = _log_mass(shape, rule, t, some)


def _log_mass(shape: Sequence[int], rule: Rule, t: int, contexts: Tensor) -> Tensor:
    """log sum_{x_t} exp r for each row of `contexts`, places on every axis of which that of t does not matter."""
    tokens = shape[t]
    places = contexts.repeat_interleave(tokens, 0)
    places[:, t] = torch.arange(tokens, device=places.device).repeat(len(contexts))
    return rule(tuple(places.T.contiguous())).double().reshape(len(contexts), tokens).logsumexp(1)


class _Sums:
    """The sums of one rule less its constant, s = r - c: `mass` = sum_{x_t} exp(s - shift), shift = largest s so far, and
    `cross` = sum_{x_t} q_t s.
    """

    def __init__(self, tables: Tables, rule: Rule) -> None:
        self.tables, self.rule, self.c = tables, rule, getattr(rule, "c", 0.0)
        self.mass, self.cross = ([contexts(tables, t) for t in range(tables.sites)] for _ in range(2))
        self.shift = torch.full_like(self.mass[0].flatten()[0], torch.finfo(torch.float32).min)

    def add(self, index: Tile, q: Sequence[Weights]) -> None:
        cells, work = self._cells(index, q)
        shift = torch.maximum(self.shift, cells.amax())
        self._rescale(shift)
        factor = (-shift).exp()
        if work is None:
            work, factor = (cells - shift.to(cells.dtype)).exp_(), torch.ones_like(factor)
        for t, mass in enumerate(self.mass):
            at(mass, index).add_(work.sum(t, keepdim=True) * factor)
        for t, cross in enumerate(self.cross):
            at(cross, index).add_(q[t].times(cells, out=work).sum(t, keepdim=True))

    def _cells(self, index: Tile, q: Sequence[Weights]) -> tuple[Tensor, Tensor | None]:
        """s; and exp(s) where the rule has it from q without loss."""
        probabilities = getattr(self.rule, "probabilities", None)
        if probabilities is not None and all(weights.exact for weights in q):
            found = probabilities(index, [weights.weights for weights in q])
            least, most = found.aminmax()
            if least > q[0].tiny and most < torch.inf:
                return found.log(), found
        cells = self.rule(index)
        return cells - self.c if self.c else cells, None

    def _rescale(self, shift: Tensor) -> None:
        for mass in self.mass:
            mass.mul_((self.shift - shift).exp())
        self.shift = shift

    def join(self, other: _Sums) -> _Sums:
        """Add the sums over other tiles."""
        shift = torch.maximum(self.shift, other.shift)
        for sums in (self, other):
            sums._rescale(shift)
        for own, others in zip((*self.mass, *self.cross), (*other.mass, *other.cross), strict=True):
            own.add_(others)
        return self

    def reading(self) -> JointReading:
        (own,) = _own_sums([self.tables])
        log_mass = [self.c + self.shift + mass.log() for mass in self.mass]
        _repair(self.tables.shape, self.rule, self.mass, log_mass)
        log_z = log_mass[0].logsumexp(tuple(range(log_mass[0].dim())))
        parts = zip(own.own, self.cross, own.weight, log_mass, strict=True)
        kl = tuple(_divergence(own_t, cross, weight, log_m - self.c) for own_t, cross, weight, log_m in parts)
        return JointReading(
            log_z=float(log_z),
            log_marginals=tuple(m - log_z for m in log_mass),
            kl=kl,
            average_kl=sum(float(k.mean()) for k in kl) / len(kl),
            objective=sum(float(k.sum()) for k in kl),
        )
