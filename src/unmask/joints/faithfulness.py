"""How far the conditionals of joints lie from the model's, for all joints over the same tables in one read of them.

For a joint mu proportional to exp(r), and each site t and context x_{-t} (the block's other tokens),

    KL_t(x_{-t}) = sum_{x_t} q_t (log q_t - log mu(x) + log mu_{-t}),     mu_{-t} = mu with site t summed out
                 = sum q_t log q_t  -  sum q_t r  +  (sum q_t) log R_{-t},    R_{-t} = sum_{x_t} exp r

(J(t, w') in eq. 4 of Torroba Hennigen & Kim 2023). These are four sums of each site: q_t and q_t log q_t, which all joints
over the tables share and which are kept with them, and q_t r and exp r of each joint. A table that is normalised to
rounding only (sum q_t = 1 +- 1e-6) leaves no trace, since log R is weighted by the sum. The tables must be positive, as a
softmax is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from unmask.errors import InputError
from unmask.joints.joint import Joint, Rule
from unmask.joints.tiles import CELLS_ON_CPU, at, contexts, tile_size, tiles
from unmask.joints.triton.pair_form import PairForm, pair_form, table_form, triton_serves
from unmask.tables.kept import kept_with_first
from unmask.tables.unary import Tables

UNDERFLOW = 1e-28
"""A context that holds less than this share of the largest cell is summed again, in logarithms."""


@dataclass(frozen=True)
class Reading:
    """What one read of the tables tells about a joint; tensors are float64, of the block's shape with size 1 at axis t.

    log_z          log of the rule's normaliser
    log_marginals  log mu_{-t}, for each t
    kl             KL(q_t(. | x_{-t}) || mu(. | x_{-t})) in nats, for each t
    """

    log_z: float
    log_marginals: tuple[Tensor, ...]
    kl: tuple[Tensor, ...]

    @property
    def average_kl(self) -> float:
        """A-KL of one block (section 3): the mean over sites, and over all contexts of each, of the divergence."""
        return sum(float(kl.mean()) for kl in self.kl) / len(self.kl)

    @property
    def objective(self) -> float:
        """What Arnold-Gokhale minimises (eq. 4): the sum of the divergences over all sites and contexts."""
        return sum(float(kl.sum()) for kl in self.kl)


def read_joints(joints: Sequence[Joint], tile_cells: int | None = None) -> list[Reading]:
    """One read of the tables for all `joints` that were not read before; they must be rules over the same tables.

    `tile_cells`: read all of them now, so many cells at a time.
    """
    if any(joint.tables is not joints[0].tables for joint in joints):
        raise InputError("these joints are rules over different tables: read the joints of each block by themselves")
    return read_rules(joints[0].tables, [joint.rule for joint in joints], tile_cells)


def read_rules(tables: Tables, rules: Sequence[Rule], tile_cells: int | None = None) -> list[Reading]:
    """The same for rules that are not joints yet, over `tables`."""
    unread = [rule for rule in rules if rule not in _READ or tile_cells is not None]
    if unread:
        _READ.update(zip(unread, _read(tables, unread, tile_cells), strict=True))
    return [_READ[rule] for rule in rules]


_READ: WeakKeyDictionary[Rule, Reading] = WeakKeyDictionary()
"""A rule never changes, so it is read once, by the solver that found it or by the metrics."""


def _read(tables: Tables, rules: Sequence[Rule], tile_cells: int | None) -> list[Reading]:
    forms = [pair_form(tables, rule) for rule in rules] if triton_serves(tables) else [None]
    if all(form is not None for form in forms):
        readings = _read_by_triton(tables, rules, [form for form in forms if form is not None])
        if readings is not None:
            return readings
    sums = [_Sums(tables, rule) for rule in rules]
    for index in tiles(tables.shape, tile_cells or tile_size(tables)):
        q = [at(table, index).exp() for table in tables.log_q]
        for of_rule in sums:
            of_rule.add(index, q)
    return [of_rule.reading(_own_sums(tables)) for of_rule in sums]


@dataclass(frozen=True)
class _OwnSums:
    """sum q_t and sum q_t log q_t of every context, which no joint enters."""

    weight: tuple[Tensor, ...]
    own: tuple[Tensor, ...]


@kept_with_first
def _own_sums(tables: Tables) -> _OwnSums:
    if triton_serves(tables):
        from unmask.joints.triton.pair_sums import pair_sums

        log_a, log_b = tables.log_q
        of_a, of_b = (pair_sums(log_a, log_b, table_form(tables, *powers), cross=True) for powers in ((1, 0), (0, 1)))
        return _OwnSums(
            (of_a.column_mass[None, :], of_b.row_mass[:, None]), (of_a.column_cross[None, :], of_b.row_cross[:, None])
        )
    weight, own = (tuple(contexts(tables, t) for t in range(tables.sites)) for _ in range(2))
    for index in tiles(tables.shape, tile_size(tables)):
        for t, table in enumerate(tables.log_q):
            log_q = at(table, index)
            q = log_q.exp()
            at(weight[t], index).add_(q.sum(t, keepdim=True))
            at(own[t], index).add_(q.mul_(log_q).sum(t, keepdim=True))
    return _OwnSums(weight, own)


def _read_by_triton(tables: Tables, rules: Sequence[Rule], forms: Sequence[PairForm]) -> list[Reading] | None:
    """The same sums for a pair on a GPU, a read of the tables for each rule; None where they leave float32's range."""
    from unmask.joints.triton.pair_sums import pair_sums

    a, b = tables.log_q
    readings = []
    for rule, form in zip(rules, forms, strict=True):
        sums = _Sums(tables, rule)
        likely = [int(m.argmax()) for m in tables.log_masked]
        lines = ((slice(likely[0], likely[0] + 1), slice(None)), (slice(None), slice(likely[1], likely[1] + 1)))
        sums.shift = torch.stack([rule(line).amax() for line in lines]).amax().double()
        found = pair_sums(a, b, form, shift=float(sums.shift), cross=True)
        sums.mass = [found.column_mass[None, :], found.row_mass[:, None]]
        sums.cross = [found.column_cross[None, :], found.row_cross[:, None]]
        if not all(bool(mass.isfinite().all()) for mass in sums.mass):
            return None
        readings.append(sums.reading(_own_sums(tables)))
    return readings


class _Sums:
    """The sums of one rule: `mass` = sum_{x_t} exp(r - shift), shift = largest r so far, and `cross` = sum_{x_t} q_t r."""

    def __init__(self, tables: Tables, rule: Rule) -> None:
        self.shape, self.rule = tables.shape, rule
        self.mass, self.cross = ([contexts(tables, t) for t in range(tables.sites)] for _ in range(2))
        self.shift = torch.full_like(self.mass[0].flatten()[0], -torch.inf)

    def add(self, index: tuple[slice, ...], q: Sequence[Tensor]) -> None:
        cells = self.rule(index)
        shift = torch.maximum(self.shift, cells.amax())
        rescale = (self.shift - shift).exp()
        work = (cells - shift.to(cells.dtype)).exp_()
        for t, mass in enumerate(self.mass):
            at(mass.mul_(rescale), index).add_(work.sum(t, keepdim=True))
        for t, cross in enumerate(self.cross):
            at(cross, index).add_(torch.mul(q[t], cells, out=work).sum(t, keepdim=True))
        self.shift = shift

    def reading(self, tables: _OwnSums) -> Reading:
        log_mass = [self.shift + mass.log() for mass in self.mass]
        for t, mass in enumerate(self.mass):
            weak = torch.nonzero(mass < UNDERFLOW)
            for some in weak.split(max(1, CELLS_ON_CPU // self.shape[t])) if len(weak) else ():
                log_mass[t][tuple(some.T)] = self._log_mass(t, some)
        log_z = log_mass[0].logsumexp(tuple(range(log_mass[0].dim())))
        return Reading(
            log_z=float(log_z),
            log_marginals=tuple(m - log_z for m in log_mass),
            kl=tuple(o - c + w * m for o, c, w, m in zip(tables.own, self.cross, tables.weight, log_mass, strict=True)),
        )

    def _log_mass(self, t: int, contexts: Tensor) -> Tensor:
        """log sum_{x_t} exp r for each row of `contexts`, places on every axis of which that of t does not matter."""
        tokens = self.shape[t]
        places = contexts.repeat_interleave(tokens, 0)
        places[:, t] = torch.arange(tokens, device=places.device).repeat(len(contexts))
        cells = self.rule(tuple(places.T.contiguous()))
        return cells.double().reshape(len(contexts), tokens).logsumexp(1)
