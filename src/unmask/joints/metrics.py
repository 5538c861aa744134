"""How good a joint is, and how faithful to the model: Table 1 of Torroba Hennigen & Kim 2023 (section 3).

For N blocks with gold tokens w, k sites each (2 in the paper), and a joint mu whose conditionals are mu_t:

    P-PPL          exp( -1/(kN) sum_n log mu(w) )
    U-PPL          exp( -1/(kN) sum_n sum_t log mu_t(w_t | w_{-t}) )
    A-KL           1/N sum_n mean over t and over every context x_{-t} of KL(q_t(. | x_{-t}) || mu_t(. | x_{-t}))
    G-KL           the same for the gold context x_{-t} = w_{-t} alone
    objective      sum over t and x_{-t} of the same divergence, for one block (eq. 4)
    compatibility  of the tables alone, whatever the joint

The U-PPL of the product is that of the model's own unary conditionals q_t, as in the paper; its A-KL and G-KL compare
the product's conditionals (its factors) with q_t. Over candidate sets everything is given that the block lies in them.

Where a model rules tokens out (q_t = 0), a divergence is infinite if the joint rules out more, and a token's probability given a
context that the joint rules out counts as 0.

Compatibility: whether the tables can be the conditionals of one joint at all. With L = log A - log B for a pair, and lse_x,
lse_y, lse its log-sums over x, over y and over both,

    compatibility = mean over all (x, y) of (L + lse - lse_x - lse_y)^2,

zero if and only if the tables are compatible (Arnold & Press 1989): then A/B = mu_a(x) / mu_b(y), a product, and the
bracket is the pointwise mutual information of the distribution proportional to A/B. Swapping the positions turns A/B
into B/A, so that incompatible tables have one value in each order. For k > 2 sites the mean runs over all pairs of
sites too, in the block's order, the other tokens held fixed. That is zero if and only if all k tables are compatible:
log-ratios along the axes then add up to zero around every square of cells, hence around every closed path. Cells that a table
rules out (probability 0) are left out of the sums and of the mean: tables are compared where both allow a token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, isfinite, nan
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unmask import checks
from unmask.errors import InputError
from unmask.joints.faithfulness import JointReading, read_rules
from unmask.joints.joint import Joint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.joints.rules import Linear, PairForm, Stack, triton_serves
from unmask.joints.tiles import Tile, Weights, at, by_threads
from unmask.signature import checked
from unmask.tables.unary import Tables

if TYPE_CHECKING:
    import pandas


SCORED_BY_THE_MODEL = frozenset(name for name, construction in CONSTRUCTIONS.items() if not construction.own_unary)


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
    """All constructions on one block, and the compatibility of its tables."""

    joints: tuple[JointMetrics, ...]
    compatibility: float

    def to_frame(self) -> pandas.DataFrame:
        """One row per construction."""
        import pandas

        rows = [
            {
                "construction": m.construction,
                **{f"unary_nll_{t + 1}": nll for t, nll in enumerate(m.unary_nll)},
                "joint_nll": m.joint_nll,
                "a_kl": m.a_kl,
                "g_kl": m.g_kl,
                "objective": m.objective,
                "compatibility": self.compatibility,
            }
            for m in self.joints
        ]
        return pandas.DataFrame(rows)


@checked
def block_metrics(joints: Sequence[Joint], gold: Sequence[int], tile_cells: int | None = None) -> BlockMetrics:
    """The metrics of several joints of one block, as `unmask evaluate` has them: U-NLL, P-NLL, A-KL and G-KL.

    joints       rules over the same tables
    gold         the token ids that stood in the blanks
    tile_cells   how many cells of a joint are read at once [default: as many as fit]

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> gold = [int(ids[0]) for ids in tables.candidates]
    >>> unmask.block_metrics(unmask.derive_all(tables, ["product", "chain"]), gold).to_frame().shape[0]
    2
    """
    if not joints or any(joint.tables is not joints[0].tables for joint in joints):
        raise InputError(f"the {len(joints)} joints are not rules over the same tables: give joints of one block, one or more")
    if tile_cells is not None:
        checks.whole("tile_cells", tile_cells, 1, 2**40)
    return metrics_of_blocks([joints], [gold], tile_cells)[0]


def metrics_of_blocks(
    blocks: Sequence[Sequence[Joint]], golds: Sequence[Sequence[int]], tile_cells: int | None = None
) -> list[BlockMetrics]:
    """The same for the joints of several blocks of one shape, which share launches and transfers on a GPU."""
    tables = [joints[0].tables for joints in blocks]
    places = _places(tables, golds)
    readings = read_rules([(joints[0].tables, [joint.rule for joint in joints]) for joints in blocks], tile_cells)
    numbers = iter(_numbers([(joint, at_gold) for joints, at_gold in zip(blocks, places, strict=True) for joint in joints]))
    measured = [
        tuple(_joint_metrics(joint, reading, next(numbers)) for joint, reading in zip(joints, of_block, strict=True))
        for joints, of_block in zip(blocks, readings, strict=True)
    ]
    return [BlockMetrics(*of_block) for of_block in zip(measured, compatibilities(tables), strict=True)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _gold_line(joint: Joint, places: tuple[int, ...], t: int) -> tuple[Tensor, Tensor]:
    """log q_t and the rule along site t, all other sites at their gold token."""
    line = tuple(slice(0, n) if s == t else slice(p, p + 1) for s, (p, n) in enumerate(zip(places, joint.shape, strict=True)))
    return at(joint.tables.log_q[t], line).flatten(), joint.rule(line).flatten()


def _numbers(asked: Sequence[tuple[Joint, tuple[int, ...]]]) -> list[list[float]]:
    """For each joint the rule at the gold cell, then of each site -log of the gold token's probability and the divergence.

    All in float64, and in one transfer.
    """
    by_model = [joint.name in SCORED_BY_THE_MODEL for joint, _ in asked]
    columns: list[Tensor] = []
    for t in range(asked[0][0].sites):
        log_q, rules = (torch.stack(part).double() for part in zip(*(_gold_line(*one, t) for one in asked), strict=True))
        gold = torch.tensor([[places[t]] for _, places in asked], device=rules.device)
        if t == 0:
            columns.append(rules.gather(1, gold))
        log_q, impossible = log_q.log_softmax(1), rules.amax(1, keepdim=True) == -torch.inf
        log_mu = rules.log_softmax(1).masked_fill(impossible, -torch.inf)
        own = torch.tensor(by_model, device=rules.device)[:, None]
        columns.append(-torch.where(own, log_q, log_mu).gather(1, gold))
        columns.append(Weights(log_q).times(log_q - log_mu).sum(1, keepdim=True))
    numbers: list[list[float]] = torch.cat(columns, 1).tolist()
    return numbers


def _joint_metrics(joint: Joint, reading: JointReading, numbers: Sequence[float]) -> JointMetrics:
    """The reading gives what runs over all contexts; the gold contexts, one line of cells per site, are summed in float64."""
    cell, *of_sites = numbers
    return JointMetrics(
        construction=joint.name,
        unary_nll=tuple(of_sites[::2]),
        joint_nll=reading.log_z - cell,
        a_kl=reading.average_kl,
        g_kl=_mean(of_sites[1::2]),
        objective=reading.objective,
    )


def _places(blocks: Sequence[Tables], golds: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Places of the gold tokens among the candidates."""
    for tables, gold in zip(blocks, golds, strict=True):
        if len(gold) != tables.sites:
            raise InputError(f"{len(gold)} gold tokens for {tables.sites} blanks: give one token per blank")
    found = []
    for t in range(blocks[0].sites):
        tokens = torch.tensor([gold[t] for gold in golds], device=blocks[0].candidates[t].device)
        same = torch.stack([tables.candidates[t] for tables in blocks]) == tokens[:, None]
        found.append(
            [place if there else None for place, there in zip(same.int().argmax(1).tolist(), same.any(1).tolist(), strict=True)]
        )
        for gold, place in zip(golds, found[t], strict=True):
            if place is None:
                raise InputError(f"gold token {gold[t]} is not among the candidates of blank {t + 1}: add it to them")
    return list(zip(*found, strict=True))


def compatibility(tables: Tables) -> float:
    """Mean squared log-ratio in nats^2, in two reads of the tables for each pair of sites; zero for a single site."""
    return compatibilities([tables])[0]


def compatibilities(blocks: Sequence[Tables]) -> list[float]:
    """The same for several blocks of one shape."""
    found = _pairs_by_triton(blocks) if triton_serves(*blocks) else [nan] * len(blocks)
    return [number if isfinite(number) else _by_tiles(tables) for number, tables in zip(found, blocks, strict=True)]


def _by_tiles(tables: Tables) -> float:
    pairs = list(combinations(range(tables.sites), 2))
    return sum(_pair(tables, s, t) for s, t in pairs) / max(1, len(pairs))


def _pairs_by_triton(blocks: Sequence[Tables]) -> list[float]:
    """Both reads of each pair on a GPU; not finite where a ratio leaves float32's range."""
    from unmask.joints.triton.pair_sums import pair_sums
    from unmask.joints.triton.table_sums import table_sums

    sums = table_sums(blocks)
    over_y, over_x = torch.stack([s.rows.ratio for s in sums]).log(), torch.stack([s.columns.ratio for s in sums]).log()
    form = PairForm(Linear(1, -1, over_x.logsumexp(1, keepdim=True) - over_y, -over_x))
    a, b = (Stack.of([tables.log_q[t] for tables in blocks]) for t in range(2))
    gaps = pair_sums(a, b, form, square=True)
    means: list[float] = (gaps.row_mass.sum(1) / a.first.numel()).tolist()
    return means


def _pair(tables: Tables, s: int, t: int) -> float:
    def ratio(index: Tile) -> Tensor:
        cells = at(tables.log_q[s], index) - at(tables.log_q[t], index)
        return cells.masked_fill_(~cells.isfinite(), -torch.inf)

    def log_sums(part: Sequence[Tile]) -> list[Tensor]:
        found = [_log_sums(tables, s), _log_sums(tables, t)]
        for index in part:
            cells = ratio(index)
            for axis, sums in zip((s, t), found, strict=True):
                here = at(sums, index)
                torch.logaddexp(here, cells.logsumexp(axis, keepdim=True).double(), out=here)
        return found

    def squares(part: Sequence[Tile]) -> Tensor:
        found = torch.zeros((2,), dtype=torch.float64, device=first.device)
        for index in part:
            cells = ratio(index)
            left_out = cells == -torch.inf
            gap = (cells - at(first, index) - at(second, index)).masked_fill_(left_out, 0)
            found[0] += gap.square_().sum(dtype=torch.float64)
            found[1] += cells.numel() - left_out.sum()
        return found

    parts = by_threads(tables.log_q[0], log_sums)
    over_s, over_t = (torch.stack(same).logsumexp(0) for same in zip(*parts, strict=True))
    over_both = over_s.logsumexp(t, keepdim=True)
    first, second = (over_s - over_both).to(tables.log_q[0].dtype), over_t.to(tables.log_q[0].dtype)
    total, count = torch.stack(by_threads(tables.log_q[0], squares)).sum(0)
    return float(total / count)


def _log_sums(tables: Tables, axis: int) -> Tensor:
    shape = [1 if s == axis else n for s, n in enumerate(tables.shape)]
    return torch.full(shape, -torch.inf, dtype=torch.float64, device=tables.log_q[0].device)
