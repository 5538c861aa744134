"""How good a joint is, and how faithful to the model: Table 1 of Torroba Hennigen & Kim 2023
(section 3).

For N blocks with gold tokens w, k sites each (2 in the paper), and a joint mu whose
conditionals are mu_t:

    P-PPL          exp( -1/(kN) sum_n log mu(w) )
    U-PPL          exp( -1/(kN) sum_n sum_t log mu_t(w_t | w_{-t}) )
    A-KL           1/N sum_n mean over t and over every context x_{-t} of KL(q_t(. | x_{-t}) ||
                   mu_t(. | x_{-t}))
    G-KL           the same for the gold context x_{-t} = w_{-t} alone
    objective      sum over t and x_{-t} of the same divergence, for one block (eq. 4)
    incompatibility  of the tables alone, whatever the joint (`unmask.joints.incompatibility`)

The U-PPL of the product is that of the model's own unary conditionals q_t, as in the paper; its
A-KL and G-KL compare the product's conditionals (its factors) with q_t. Over candidate sets
everything is given that the block lies in them.

One read of the tables gives the divergences of all joints over them. For mu proportional to
exp(r) and mu_{-t} = mu with t summed out,

    KL_t(x_{-t}) = sum_{x_t} q_t (log q_t - log mu(x) + log mu_{-t})
                 = sum q_t log q_t  -  sum q_t r  +  (sum q_t) log R_{-t},
                         R_{-t} = sum_{x_t} exp r.

Two of these four sums, q_t and q_t log q_t, are shared by all joints over the tables and
cached. A table that is normalised to rounding only (sum q_t = 1 +- 1e-6) leaves no trace, since
log R is weighted by the sum. A token that the model rules out, q_t = 0, adds nothing. A token
that the joint alone rules out makes the divergence infinite, also in a context that the joint
rules out altogether; a token's probability given such a context counts as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import exp, isfinite
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from unmask.common.batches import grouped
from unmask.common.errors import InputError
from unmask.common.signature import checked
from unmask.joints.incompatibility import incompatibilities
from unmask.joints.joint import Joint, no_joint, refuse_impossible_contexts
from unmask.joints.registry import CONSTRUCTIONS
from unmask.joints.rules import (
    Linear,
    PairForm,
    Rule,
    Stack,
    Tile,
    at,
    by_threads,
    contexts,
    pair_form,
    triton_serves,
)
from unmask.models.batching import on_device
from unmask.tables.unary import Tables

if TYPE_CHECKING:
    import pandas

CELLS = 1 << 18  # Summed at a time in logarithms
# A context that holds less than this share of the largest cell is summed again, in logarithms
UNDERFLOW = 1e-28


@dataclass(frozen=True)
class JointReading:
    """The numbers of one read of the tables for a joint; tensors are float64, of the block's
    shape with size 1 at axis t.

    log_z          log of the rule's normaliser
    log_marginals  log mu_{-t}, for each t
    kl             KL(q_t(. | x_{-t}) || mu(. | x_{-t})) in nats, for each t
    average_kl     A-KL of one block (section 3): the mean over sites, and over all contexts of
                   each, of the divergence
    objective      what Arnold-Gokhale minimises (eq. 4): the sum of the divergences over all
                   sites and contexts
    """

    log_z: float
    log_marginals: tuple[Tensor, ...]
    kl: tuple[Tensor, ...]
    average_kl: float
    objective: float


def read_joints(joints: Sequence[Joint]) -> list[JointReading]:
    """One read of the tables for all joints of one block."""
    return read_rules([(joints[0].tables, [joint.rule for joint in joints])])[0]


def read_rules(blocks: Sequence[tuple[Tables, Sequence[Rule]]]) -> list[list[JointReading]]:
    """One read of the tables for all rules over them that were not read before; blocks of one
    shape share launches on a GPU.
    """
    unread = [(tables, [rule for rule in rules if rule not in _READ]) for tables, rules in blocks]
    if triton_serves(*(tables for tables, _ in blocks)):
        forms = [
            (tables, rule, pair_form(tables, rule)) for tables, rules in unread for rule in rules
        ]
        likely = [
            torch.stack([tables.log_masked[t] for tables, _ in blocks]).argmax(1).tolist()
            for t in range(2)
        ]
        places = {
            tables: of_block
            for (tables, _), of_block in zip(blocks, zip(*likely, strict=True), strict=True)
        }
        jobs = [
            _Job(tables, rule, form, places[tables])
            for tables, rule, form in forms
            if form is not None
        ]
        for members in grouped(jobs, lambda job: job.form.kind):
            _READ.update(_read_by_triton([jobs[i] for i in members]))
    for tables, rules in unread:
        if by_tiles := [rule for rule in rules if rule not in _READ]:
            _READ.update(zip(by_tiles, _read_by_tiles(tables, by_tiles), strict=True))
    return [[_READ[rule] for rule in rules] for _, rules in blocks]


_READ: WeakKeyDictionary[Rule, JointReading] = WeakKeyDictionary()
"""A rule never changes, so it is read once, by the solver that found it or by the metrics."""


def _read_by_tiles(tables: Tables, rules: Sequence[Rule]) -> list[JointReading]:
    def read(part: Sequence[Tile]) -> list[_Sums]:
        sums = [_Sums(tables, rule) for rule in rules]
        for index in part:
            q = [Weights(at(table, index)) for table in tables.log_q]
            for of_rule in sums:
                of_rule.add(index, q)
        return sums

    parts = by_threads(tables.log_q[0], read)
    return [reduce(_Sums.join, of_rule).reading() for of_rule in zip(*parts, strict=True)]


class Weights:
    """q = e^log_q of some cells, to weigh other numbers by: q r = 0 where q = 0, whatever r is;
    where q > 0, however small, an r of -inf gives -inf.
    """

    def __init__(self, log_q: Tensor) -> None:
        self.tiny = torch.finfo(log_q.dtype).tiny
        self.weights = log_q.exp().clamp_(min=self.tiny)
        nothing = log_q == -torch.inf
        self.nothing = nothing if bool(nothing.any()) else None

    @cached_property
    def exact(self) -> bool:
        """Whether all q are within the range of normal numbers."""
        return bool(self.weights.amin() > self.tiny)

    def times(self, values: Tensor, out: Tensor | None = None) -> Tensor:
        """q values."""
        weighed = torch.mul(self.weights, values, out=out)
        return weighed if self.nothing is None else weighed.masked_fill_(self.nothing, 0)


class _TableSums(NamedTuple):
    """For each site t and context: weight = sum q_t, information = sum q_t log q_t, which do
    not depend on the joint.
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
            weight = columns.a[None, :], rows.b[:, None]
            _TABLE_SUMS[tables] = _TableSums(
                weight, (columns.information[None, :], rows.information[:, None])
            )
    else:
        _TABLE_SUMS.update((tables, _table_sums_by_tiles(tables)) for tables in missing)
    return [_TABLE_SUMS[tables] for tables in blocks]


def _table_sums_by_tiles(tables: Tables) -> _TableSums:
    def read(part: Sequence[Tile]) -> list[list[Tensor]]:
        weight, information = ([contexts(tables, t) for t in range(tables.sites)] for _ in range(2))
        for index in part:
            for t, table in enumerate(tables.log_q):
                log_q = at(table, index)
                q = Weights(log_q)
                at(weight[t], index).add_(q.weights.sum(t, keepdim=True))
                at(information[t], index).add_(q.times(log_q, out=q.weights).sum(t, keepdim=True))
        return [weight, information]

    parts = by_threads(tables.log_q[0], read)
    return _TableSums(
        *(
            tuple(torch.stack(same).sum(0) for same in zip(*kind, strict=True))
            for kind in zip(*parts, strict=True)
        )
    )


def stacked(forms: Sequence[PairForm]) -> PairForm:
    """Forms of one kind, of a pair each, as one form of several pairs."""

    def together(vectors: Sequence[Tensor | None]) -> Tensor | None:
        known = [vector for vector in vectors if vector is not None]
        return torch.stack(known) if known else None

    def linear(parts: Sequence[Linear]) -> Linear:
        return Linear(
            parts[0].a,
            parts[0].b,
            together([part.f for part in parts]),
            together([part.e for part in parts]),
        )

    seconds, belows = (
        [form.second for form in forms if form.second],
        [form.below for form in forms if form.below],
    )
    below = (
        (torch.stack([g for g, _ in belows]), torch.stack([h for _, h in belows]))
        if belows
        else None
    )
    return PairForm(
        linear([form.first for form in forms]), linear(seconds) if seconds else None, below
    )


class _Job(NamedTuple):
    """A rule over the tables of a pair, in the form that a GPU reads, and the likeliest token
    of each blank.
    """

    tables: Tables
    rule: Rule
    form: PairForm
    likely: tuple[int, int]


def _read_by_triton(jobs: Sequence[_Job]) -> dict[Rule, JointReading]:
    """The same sums for rules of one form over pairs on a GPU, in one launch; without rules
    whose sums leave float32's range.

    The largest cell is sought in the row and the column of the likely tokens.
    """
    from unmask.joints.triton_programs import pair_sums

    form, tables, likely = (
        stacked([job.form for job in jobs]),
        [job.tables.log_q for job in jobs],
        [job.likely for job in jobs],
    )
    x, y = on_device(likely, tables[0][0].device).split(1, 1)
    columns = (
        torch.stack([q[t][:, y_] for q, (_, y_) in zip(tables, likely, strict=True)])
        for t in range(2)
    )
    rows = (
        torch.stack([q[t][x_] for q, (x_, _) in zip(tables, likely, strict=True)]) for t in range(2)
    )
    shift = torch.maximum(form.along(0, y, *columns).amax(1), form.along(1, x, *rows).amax(1))
    a, b = (Stack.of([q[t] for q in tables]) for t in range(2))
    sums = pair_sums(a, b, form, shift, cross=True)
    masses, crosses = (sums.column_mass, sums.row_mass), (sums.column_cross, sums.row_cross)
    inside, strong = (
        torch.stack([test(mass).all(1) for mass in masses]).all(0).tolist()
        for test in (torch.isfinite, lambda mass: mass >= UNDERFLOW)
    )
    of_tables = _sums_of_tables([job.tables for job in jobs])
    log_mass = [shift.double()[:, None] + mass.log() for mass in masses]
    for i, (job, finite, is_strong) in enumerate(zip(jobs, inside, strong, strict=True)):
        if finite and not is_strong:
            _repair(
                job.tables.shape,
                job.rule,
                [mass[i].unsqueeze(t) for t, mass in enumerate(masses)],
                [mass[i].unsqueeze(t) for t, mass in enumerate(log_mass)],
            )
    log_z = log_mass[0].logsumexp(1)
    information, weight = (
        [torch.stack([getattr(sums, name)[t].flatten() for sums in of_tables]) for t in range(2)]
        for name in ("information", "weight")
    )
    kl = [_divergence(*parts) for parts in zip(information, crosses, weight, log_mass, strict=True)]
    numbers = torch.stack(
        [log_z, (kl[0].mean(1) + kl[1].mean(1)) / 2, kl[0].sum(1) + kl[1].sum(1)], 1
    ).tolist()
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


def _divergence(information: Tensor, cross: Tensor, weight: Tensor, log_mass: Tensor) -> Tensor:
    """KL_t = sum q log q - sum q r + (sum q) log R of each context; infinite where the joint
    alone rules a token out.
    """
    return (information - cross + weight * log_mass).masked_fill(cross == -torch.inf, torch.inf)


def _repair(
    shape: Sequence[int], rule: Rule, masses: Sequence[Tensor], log_masses: Sequence[Tensor]
) -> None:
    """Compute again, in place, the logarithms of masses that nearly vanish beside the largest
    cell.
    """
    for t, (mass, log_mass) in enumerate(zip(masses, log_masses, strict=True)):
        weak = torch.nonzero(mass < UNDERFLOW)
        for contexts_at in weak.split(max(1, CELLS // shape[t])) if len(weak) else ():
            places = contexts_at.repeat_interleave(shape[t], 0)
            places[:, t] = torch.arange(shape[t], device=places.device).repeat(len(contexts_at))
            cells = rule(tuple(places.T.contiguous())).double()
            log_mass[tuple(contexts_at.T)] = cells.reshape(len(contexts_at), shape[t]).logsumexp(1)


class _Sums:
    """The sums of one rule less its constant, s = r - c: `mass` = sum_{x_t} exp(s - shift),
    shift = largest s so far, and `cross` = sum_{x_t} q_t s.
    """

    def __init__(self, tables: Tables, rule: Rule) -> None:
        self.tables, self.rule, self.c = tables, rule, getattr(rule, "c", 0.0)
        self.mass, self.cross = (
            [contexts(tables, t) for t in range(tables.sites)] for _ in range(2)
        )
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
            exp_s = probabilities(index, [weights.weights for weights in q])
            least, most = exp_s.aminmax()
            if least > q[0].tiny and most < torch.inf:
                return exp_s.log(), exp_s
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
        for total, part in zip((*self.mass, *self.cross), (*other.mass, *other.cross), strict=True):
            total.add_(part)
        return self

    def reading(self) -> JointReading:
        (of_tables,) = _sums_of_tables([self.tables])
        log_mass = [self.c + self.shift + mass.log() for mass in self.mass]
        _repair(self.tables.shape, self.rule, self.mass, log_mass)
        log_z = log_mass[0].logsumexp(tuple(range(log_mass[0].dim())))
        parts = zip(of_tables.information, self.cross, of_tables.weight, log_mass, strict=True)
        kl = tuple(
            _divergence(information, cross, weight, log_m - self.c)
            for information, cross, weight, log_m in parts
        )
        return JointReading(
            log_z=float(log_z),
            log_marginals=tuple(m - log_z for m in log_mass),
            kl=kl,
            average_kl=sum(float(k.mean()) for k in kl) / len(kl),
            objective=sum(float(k.sum()) for k in kl),
        )


SCORED_BY_THE_MODEL = frozenset(
    name for name, construction in CONSTRUCTIONS.items() if not construction.own_unary
)


@dataclass(frozen=True)
class JointMetrics:
    """One construction on one block, in nats: the terms of the means above."""

    construction: str
    unary_nll: tuple[float, ...]
    joint_nll: float
    a_kl: float
    g_kl: float
    objective: float

    @property
    def u_ppl(self) -> float:
        """U-PPL of this block alone."""
        return exp(_mean(self.unary_nll))

    @property
    def p_ppl(self) -> float:
        """P-PPL of this block alone."""
        return exp(self.joint_nll / len(self.unary_nll))


@dataclass(frozen=True)
class BlockMetrics:
    """All constructions on one block, and the incompatibility of its tables."""

    joints: tuple[JointMetrics, ...]
    incompatibility: float

    def to_frame(self) -> pandas.DataFrame:
        """One row per construction."""
        import pandas

        rows = pandas.DataFrame([vars(of_joint) for of_joint in self.joints])
        unary = pandas.DataFrame(rows.pop("unary_nll").tolist()).rename(
            columns=lambda t: f"unary_nll_{t + 1}"
        )
        return pandas.concat(
            [rows.pop("construction"), unary, rows.assign(incompatibility=self.incompatibility)],
            axis=1,
        )


@checked
def block_metrics(joints: Sequence[Joint], gold: Sequence[int] | Sequence[str]) -> BlockMetrics:
    """The metrics of several joints of one block, as `unmask evaluate` has them: U-NLL, P-NLL,
    A-KL and G-KL.

    joints   rules over the same tables
    gold     the tokens that stood in the blanks, ids or spelled

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> gold = [int(ids[0]) for ids in tables.candidates]
    >>> joints = unmask.derive_all(tables, ["product", "chain"])
    >>> unmask.block_metrics(joints, gold).to_frame().shape[0]
    2
    """
    if not joints or any(joint.tables is not joints[0].tables for joint in joints):
        raise InputError(
            f"the {len(joints)} joints are not rules over the same tables: give joints of one"
            " block, one or more"
        )
    tables = joints[0].tables
    _one_for_each_blank(tables, gold)
    refuse_impossible_contexts(tables, "metrics")
    for joint, reading in zip(joints, read_joints(joints), strict=True):
        if not isfinite(reading.log_z):
            raise no_joint(joint.name)
    return metrics_of_blocks([joints], [tables.ids_of(gold, range(tables.sites))])[0]


def metrics_of_blocks(
    blocks: Sequence[Sequence[Joint]], golds: Sequence[Sequence[int]]
) -> list[BlockMetrics]:
    """`block_metrics` of several blocks of one shape, which share launches and transfers on a
    GPU.
    """
    tables = [joints[0].tables for joints in blocks]
    places = _places(tables, golds)
    readings = read_rules(
        [(joints[0].tables, [joint.rule for joint in joints]) for joints in blocks]
    )
    numbers = iter(
        _numbers(
            [
                (joint, at_gold)
                for joints, at_gold in zip(blocks, places, strict=True)
                for joint in joints
            ]
        )
    )

    def measured(joint: Joint, reading: JointReading) -> JointMetrics:
        cell, *of_sites = next(numbers)
        mean = reading.average_kl, _mean(of_sites[1::2]), reading.objective
        return JointMetrics(joint.name, tuple(of_sites[::2]), reading.log_z - cell, *mean)

    of_blocks = [tuple(map(measured, *block)) for block in zip(blocks, readings, strict=True)]
    return [
        BlockMetrics(*of_block)
        for of_block in zip(of_blocks, incompatibilities(tables), strict=True)
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _numbers(at_gold: Sequence[tuple[Joint, tuple[int, ...]]]) -> list[list[float]]:
    """For each joint the rule at the gold cell, then of each site -log of the gold token's
    probability and the divergence.

    All in float64, along one line of cells per site, and in one transfer.
    """
    by_model = [joint.name in SCORED_BY_THE_MODEL for joint, _ in at_gold]
    columns: list[Tensor] = []
    for t in range(at_gold[0][0].sites):
        lines = [
            tuple(slice(p, p + 1) if s != t else slice(None) for s, p in enumerate(places))
            for _, places in at_gold
        ]
        both = list(zip([joint for joint, _ in at_gold], lines, strict=True))
        log_q = torch.stack(
            [at(joint.tables.log_q[t], line).flatten() for joint, line in both]
        ).double()
        rules = torch.stack([joint.rule(line).flatten() for joint, line in both]).double()
        gold = on_device([[places[t]] for _, places in at_gold], rules.device)
        if t == 0:
            columns.append(rules.gather(1, gold))
        log_q, impossible = log_q.log_softmax(1), rules.amax(1, keepdim=True) == -torch.inf
        log_mu = rules.log_softmax(1).masked_fill(impossible, -torch.inf)
        from_model = on_device(by_model, rules.device)[:, None]
        columns.append(-torch.where(from_model, log_q, log_mu).gather(1, gold))
        columns.append(Weights(log_q).times(log_q - log_mu).sum(1, keepdim=True))
    numbers: list[list[float]] = torch.cat(columns, 1).tolist()
    return numbers


def _one_for_each_blank(tables: Tables, gold: Sequence[int] | Sequence[str]) -> None:
    if len(gold) != tables.sites:
        raise InputError(
            f"{len(gold)} gold tokens for {tables.sites} blanks: give one token per blank"
        )


def _places(blocks: Sequence[Tables], golds: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Places of the gold tokens among the candidates."""
    for tables, gold in zip(blocks, golds, strict=True):
        _one_for_each_blank(tables, gold)
    places = []
    for t in range(blocks[0].sites):
        tokens = on_device([gold[t] for gold in golds], blocks[0].candidates[t].device)
        same = torch.stack([tables.candidates[t] for tables in blocks]) == tokens[:, None]
        for gold, there in zip(golds, same.any(1).tolist(), strict=True):
            if not there:
                raise InputError(
                    f"gold token {gold[t]} is not among the candidates of blank {t + 1}: add it to"
                    " them"
                )
        places.append(same.int().argmax(1).tolist())
    return list(zip(*places, strict=True))
