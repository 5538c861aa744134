"""How good a joint is, and how faithful to the model: Table 1 of Torroba Hennigen & Kim 2023 (section 3).

For N blocks with gold tokens w, k sites each (2 in the paper), and a joint mu whose conditionals are mu_t:

    P-PPL          exp( -1/(kN) sum_n log mu(w) )
    U-PPL          exp( -1/(kN) sum_n sum_t log mu_t(w_t | w_{-t}) )
    A-KL           1/N sum_n mean over t and over every context x_{-t} of KL(q_t(. | x_{-t}) || mu_t(. | x_{-t}))
    G-KL           the same for the gold context x_{-t} = w_{-t} alone
    objective      sum over t and x_{-t} of the same divergence, for one block (eq. 4)
    compatibility  of the tables alone, whatever the joint: see `unmask.joints.compatibility`

The U-PPL of the product is that of the model's own unary conditionals q_t, as in the paper; its A-KL and G-KL compare
the product's conditionals (its factors) with q_t. Over candidate sets everything is given that the block lies in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING

import torch

from unmask.errors import InputError
from unmask.joints.compatibility import compatibility
from unmask.joints.faithfulness import Reading, read_joints
from unmask.joints.joint import Joint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.joints.tiles import at
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


def block_metrics(joints: Sequence[Joint], gold: Sequence[int], tile_cells: int | None = None) -> BlockMetrics:
    """The metrics of all `joints`, which are rules over the same tables, for the gold token ids of the block."""
    tables = joints[0].tables
    places = _places(tables, gold)
    readings = read_joints(joints, tile_cells)
    measured = tuple(_joint_metrics(joint, reading, places) for joint, reading in zip(joints, readings, strict=True))
    return BlockMetrics(measured, compatibility(tables))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _joint_metrics(joint: Joint, reading: Reading, places: tuple[int, ...]) -> JointMetrics:
    """The reading gives what runs over all contexts; the gold contexts, one line of cells per site, are summed in float64."""
    unary_nll, gold_kl = [], []
    for t, place in enumerate(places):
        line = tuple(slice(0, n) if s == t else slice(p, p + 1) for s, (p, n) in enumerate(zip(places, joint.shape, strict=True)))
        log_q = at(joint.tables.log_q[t], line).double().flatten().log_softmax(0)
        log_mu = joint.rule(line).double().flatten().log_softmax(0)
        gold_kl.append(float((log_q.exp() * (log_q - log_mu)).sum()))
        unary_nll.append(-float((log_q if joint.name in SCORED_BY_THE_MODEL else log_mu)[place]))
    cell = joint.rule(tuple(slice(p, p + 1) for p in places))
    return JointMetrics(
        construction=joint.name,
        unary_nll=tuple(unary_nll),
        joint_nll=reading.log_z - float(cell),
        a_kl=reading.average_kl,
        g_kl=_mean(gold_kl),
        objective=reading.objective,
    )


def _places(tables: Tables, gold: Sequence[int]) -> tuple[int, ...]:
    if len(gold) != tables.sites:
        raise InputError(f"{len(gold)} gold tokens for {tables.sites} blanks: give one token per blank")
    places = []
    for t, (token, candidates) in enumerate(zip(gold, tables.candidates, strict=True)):
        found = torch.nonzero(candidates == token).flatten()
        if not len(found):
            raise InputError(f"gold token {token} is not among the candidates of blank {t + 1}: add it to them")
        places.append(int(found[0]))
    return tuple(places)
