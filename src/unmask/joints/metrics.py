"""How good a joint is, and how faithful to the model: Table 1 of Torroba Hennigen & Kim 2023
(section 3).

For N blocks with gold tokens w, k sites each (2 in the paper), and a joint mu whose
conditionals are mu_t:

    P-PPL          exp( -1/(kN) sum_n log mu(w) )
    U-PPL          exp( -1/(kN) sum_n sum_t log mu_t(w_t | w_{-t}) )
    A-KL           1/N sum_n of the mean, over t and over every context x_{-t}, of
                   KL( q_t(. | x_{-t}) || mu_t(. | x_{-t}) )
    G-KL           the same for the gold context x_{-t} = w_{-t} alone
    objective      sum over t and x_{-t} of the same divergence, for one block (eq. 4)
    incompatibility  of the tables alone, whatever the joint (`unmask.joints.incompatibility`)

The U-PPL of the product is that of the model's own unary conditionals q_t, as in the paper. Its
A-KL and G-KL compare the product's conditionals (its factors) with q_t. In a context that the
joint rules out altogether, mu_t counts as 0 for every token. Over candidate sets every
probability is conditional on the block lying in them.

A-KL and the objective come from one read of the tables (`unmask.joints.reading`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from unmask.common.border.calls import checked
from unmask.common.errors import InputError
from unmask.joints.constructions.construction import all_constructions
from unmask.joints.incompatibility import incompatibilities
from unmask.joints.joint import Joint, no_joint, refuse_impossible_contexts
from unmask.joints.reading import JointReading, Weights, read_joints, read_rules
from unmask.joints.tiles import Tile, at
from unmask.models.batching import on_device
from unmask.tables.unary import Tables, token_ids

if TYPE_CHECKING:
    import pandas

SCORED_BY_THE_MODEL = frozenset(one.name for one in all_constructions() if not one.own_unary)
"""Constructions whose U-PPL is that of the model's unary conditionals q_t, not of their mu_t."""


@dataclass(frozen=True)
class JointMetrics:
    """One construction on one block, in nats: the terms of the means above.

    construction  its name
    unary_nll     -log mu_t(w_t | w_{-t}) of each site t
    joint_nll     -log mu(w)
    a_kl          the block's term of A-KL
    g_kl          the block's term of G-KL
    objective     eq. 4
    """

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
        """One row per construction; `unary_nll` has one column per site, numbered from 1."""
        from unmask.common.lazy import pandas

        rows = pandas.DataFrame([vars(of_joint) for of_joint in self.joints])
        names = rows.pop("construction")
        unary = pandas.DataFrame(rows.pop("unary_nll").tolist())
        unary = unary.rename(columns=lambda t: f"unary_nll_{t + 1}")
        others = rows.assign(incompatibility=self.incompatibility)
        return pandas.concat([names, unary, others], axis=1)


@checked
def block_metrics(joints: Sequence[Joint], gold: Sequence[int] | Sequence[str]) -> BlockMetrics:
    """The metrics of several joints of one block, as `unmask evaluate` has them: the terms of
    U-PPL, P-PPL, A-KL and G-KL.

    joints   rules over the same tables
    gold     the tokens that stood in the blanks, ids or spelled

    Returns:
        The metrics, a row for each joint.

    >>> tables = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint.tables
    >>> gold = [int(ids[0]) for ids in tables.candidates]
    >>> joints = unmask.derive_all(tables, ["product", "chain"])
    >>> unmask.block_metrics(joints, gold).to_frame().shape[0]
    2
    """
    if not joints or any(joint.tables is not joints[0].tables for joint in joints):
        raise InputError(
            f"the {len(joints)} joints are not rules over the same tables: "
            "give joints of one block, one or more"
        )
    tables = joints[0].tables
    _refuse_another_number(tables, gold)
    return metrics_of_block(joints, gold)


def metrics_of_block(joints: Sequence[Joint], gold: Sequence[int] | Sequence[str]) -> BlockMetrics:
    """`block_metrics` for rooms: the joints are of one block, and `gold` has a token per blank."""
    tables = joints[0].tables
    refuse_impossible_contexts(tables, "metrics")
    readings = read_joints(joints)  # `metrics_of_blocks` does not read these rules again
    for joint, reading in zip(joints, readings, strict=True):
        if not isfinite(reading.log_z):
            raise no_joint(joint.name)
    gold_ids = token_ids(tables, gold, range(tables.sites))
    return metrics_of_blocks([joints], [gold_ids])[0]


def metrics_of_blocks(
    blocks: Sequence[Sequence[Joint]], golds: Sequence[Sequence[int]]
) -> list[BlockMetrics]:
    """`block_metrics` of several blocks of one shape, which share launches and transfers on a
    GPU.

    blocks   the joints of each block
    golds    the gold token ids of each block
    """
    tables_of_blocks = [joints[0].tables for joints in blocks]
    places_of_blocks = _places(tables_of_blocks, golds)
    to_read = []
    every_joint: list[Joint] = []
    every_place: list[tuple[int, ...]] = []
    for joints, tables, places in zip(blocks, tables_of_blocks, places_of_blocks, strict=True):
        to_read.append((tables, [joint.rule for joint in joints]))
        every_joint += joints
        every_place += [places] * len(joints)
    readings_of_blocks = read_rules(to_read)
    at_gold = iter(_at_gold(every_joint, every_place))  # one for each joint of each block, in order
    values = incompatibilities(tables_of_blocks)
    metrics = []
    for joints, readings, value in zip(blocks, readings_of_blocks, values, strict=True):
        of_joints = []
        for joint, reading in zip(joints, readings, strict=True):
            of_joints.append(_joint_metrics(joint, reading, next(at_gold)))
        metrics.append(BlockMetrics(joints=tuple(of_joints), incompatibility=value))
    return metrics


class _AtGold(NamedTuple):
    """The numbers of a joint that depend on the gold tokens.

    rule   the rule's cell, log mu(w) + log Z
    nll    -log mu_t(w_t | w_{-t}) of each site t, or that of q_t (SCORED_BY_THE_MODEL)
    kl     the divergence of each site t in the gold context
    """

    rule: float
    nll: tuple[float, ...]
    kl: tuple[float, ...]


def _joint_metrics(joint: Joint, reading: JointReading, at_gold: _AtGold) -> JointMetrics:
    return JointMetrics(
        construction=joint.name,
        unary_nll=at_gold.nll,
        joint_nll=reading.log_z - at_gold.rule,
        a_kl=reading.average_kl,
        g_kl=_mean(at_gold.kl),
        objective=reading.objective,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _at_gold(joints: Sequence[Joint], gold_cells: Sequence[tuple[int, ...]]) -> list[_AtGold]:
    """The numbers at the gold cell of each joint.

    gold_cells  the index of the gold cell in each joint's tables

    All are computed in float64, along one line of cells per site, and come from the device in one
    transfer.
    """
    by_model = [joint.name in SCORED_BY_THE_MODEL for joint in joints]
    # Columns, with one row per joint: one of the rules' gold cells, and one of each kind per site.
    rule_at_gold: list[Tensor] = []
    nll: list[Tensor] = []
    kl: list[Tensor] = []
    sites = joints[0].sites
    for t in range(sites):
        lines = [_line(cell, t) for cell in gold_cells]
        joints_and_lines = list(zip(joints, lines, strict=True))
        cells_of_q = [at(joint.tables.log_q[t], line).flatten() for joint, line in joints_and_lines]
        cells_of_rules = [joint.rule(line).flatten() for joint, line in joints_and_lines]
        log_q = torch.stack(cells_of_q).double()
        rules = torch.stack(cells_of_rules).double()
        gold = on_device([[cell[t]] for cell in gold_cells], rules.device)
        if t == 0:  # the gold cell is on the lines of all sites
            rule_at_gold.append(rules.gather(1, gold))
        log_q = log_q.log_softmax(1)  # it was normalised in the tables' precision
        impossible = rules.amax(1, keepdim=True) == -torch.inf
        log_mu = rules.log_softmax(1).masked_fill(impossible, -torch.inf)  # NaN without the mask
        from_model = on_device(by_model, rules.device)[:, None]
        nll.append(-torch.where(from_model, log_q, log_mu).gather(1, gold))
        # A token that both rule out gives NaN here; `Weights` counts it as 0, since q_t is 0.
        log_ratio = log_q - log_mu
        kl.append(Weights(log_q).times(log_ratio).sum(1, keepdim=True))
    of_joints = []
    for rule, *of_sites in torch.cat([*rule_at_gold, *nll, *kl], 1).tolist():
        of_joints.append(
            _AtGold(rule=rule, nll=tuple(of_sites[:sites]), kl=tuple(of_sites[sites:]))
        )
    return of_joints


def _line(cell: tuple[int, ...], t: int) -> Tile:
    """The index of all cells that differ from `cell` at site t alone."""
    index = [slice(place, place + 1) for place in cell]
    index[t] = slice(None)
    return tuple(index)


def _refuse_another_number(tables: Tables, gold: Sequence[int] | Sequence[str]) -> None:
    if len(gold) != tables.sites:
        raise InputError(
            f"{len(gold)} gold tokens for {tables.sites} blanks: give one token per blank"
        )


def _places(blocks: Sequence[Tables], golds: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """For each block, the places of its gold tokens among the candidates; raises if one is none."""
    for tables, gold in zip(blocks, golds, strict=True):
        _refuse_another_number(tables, gold)
    by_site = []
    for t in range(blocks[0].sites):
        candidates = torch.stack([tables.candidates[t] for tables in blocks])
        tokens = on_device([gold[t] for gold in golds], candidates.device)
        is_gold = candidates == tokens[:, None]
        has_gold = is_gold.any(1).tolist()
        for gold, found in zip(golds, has_gold, strict=True):
            if not found:
                raise InputError(
                    f"gold token {gold[t]} is not among the candidates of blank {t + 1}: "
                    "add it to them"
                )
        places = is_gold.int().argmax(1)  # argmax takes no bools
        by_site.append(places.tolist())
    return list(zip(*by_site, strict=True))
