"""The named members of the near-compatible family: Arnold-Gokhale, balanced, pseudo-Gibbs, and any alpha between.

By default the marginals are found by accelerated sweeps until they are estimated to lie within `tolerance` of the fixed
point in total variation: no event at one blank (or, of k blanks, at k - 1) has a probability that is off by more. With
`steps=n` they are n steps of eq. 5 from the uniform distribution, as published (n = 50 in the paper).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from unmask.errors import InputError
from unmask.joints.faithfulness import read_joints
from unmask.joints.joint import Joint
from unmask.joints.solver.balance import sweep
from unmask.joints.solver.family import FamilyRule, Marginals, read, start
from unmask.joints.solver.fixed_point import Acceleration
from unmask.joints.solver.likely_tokens import LikelyTokens
from unmask.joints.solver.pair_sweep import sweep_pair
from unmask.tables.unary import Tables

MEMBERS = {"arnold_gokhale": 0.0, "balanced": 0.5, "pseudo_gibbs": 1.0}
"""The named members: alpha of each."""
TOLERANCE = 1e-4
MAX_READS = 500


def near_compatible(
    tables: Tables,
    alpha: float,
    steps: int | None = None,
    tolerance: float = TOLERANCE,
    max_reads: int = MAX_READS,
    name: str = "near_compatible",
    initial: Marginals | None = None,
) -> Joint:
    """The member with parameter `alpha`; its report tells steps, reads, change, error, converged, objective and log_z.

    `initial`: log marginals to start from, by default those of the product joint, or uniform ones with `steps`.
    """
    if steps is None:
        return members(tables, {name: alpha}, tolerance, max_reads, initial)[0]
    _check(alpha)
    if steps < 1:
        raise InputError(f"{steps} steps: give at least 1, or none to iterate until converged")
    if tables.sites == 1:
        return _single(tables, name)
    given = start(tables, uniform=True) if initial is None else initial
    return _reported([_joint(tables, name, alpha, *_published(tables, given, alpha, steps))])[0]


def members(
    tables: Tables,
    alphas: Mapping[str, float],
    tolerance: float = TOLERANCE,
    max_reads: int = MAX_READS,
    initial: Marginals | None = None,
) -> list[Joint]:
    """Several members by name, each until converged; those of a pair are found side by side, in shared reads."""
    for alpha in alphas.values():
        _check(alpha)
    if tables.sites == 1:
        return [_single(tables, name) for name in alphas]
    given = start(tables) if initial is None else initial
    sizes = [m.numel() for m in given]
    flat = torch.cat([m.flatten() for m in given])
    runs = {name: Acceleration(flat, tolerance, max_reads) for name in alphas}
    share: float | None = None
    if tables.sites == 2:
        share = _pair(tables, alphas, runs)
    else:
        _sites(tables, alphas, runs, given)
    joints = []
    for name, alpha in alphas.items():
        end = runs[name].end()
        found = {
            "steps": end.reads,
            "reads": end.reads + 1 if share is None else 1 + end.reads * (1 + share) + 1,
            "change": end.change,
            "error": end.error,
            "converged": end.converged,
        }
        log_mu = tuple(part.reshape(m.shape) for part, m in zip(end.log_p.split(sizes), given, strict=True))
        joints.append(_joint(tables, name, alpha, log_mu, found))
    return _reported(joints)


def _pair(tables: Tables, alphas: Mapping[str, float], runs: Mapping[str, Acceleration]) -> float:
    """Sweeps of the members still running, the likely tokens solved after each; a read before chooses those."""
    likely: LikelyTokens | None = None
    while running := [name for name, run in runs.items() if run.running]:
        points = torch.stack([runs[name].z for name in running])
        if likely is None or len(likely.alpha) != len(running):
            likely = LikelyTokens(tables, points.new_tensor([alphas[name] for name in running])[:, None])
        moved = likely.solve(sweep_pair(tables, points, likely.alpha))
        for name, point in zip(running, moved, strict=True):
            runs[name].receive(point)
    return likely.strips.share if likely else 0.0


def _sites(tables: Tables, alphas: Mapping[str, float], runs: Mapping[str, Acceleration], like: Marginals) -> None:
    """Sweeps of one member after the other."""
    sizes = [m.numel() for m in like]
    for name, run in runs.items():
        while run.running:
            log_mu = tuple(part.reshape(m.shape) for part, m in zip(run.z.split(sizes), like, strict=True))
            run.receive(torch.cat([m.flatten() for m in sweep(tables, log_mu, alphas[name])]))


def _published(tables: Tables, log_mu: Marginals, alpha: float, steps: int) -> tuple[Marginals, dict[str, object]]:
    """The marginals of step `steps` - 1, from which the rule gives step `steps`."""
    change = float("nan")
    for _ in range(steps - 1):
        new, _ = read(tables, log_mu, alpha)
        change = max(0.5 * float((n.exp() - o.exp()).abs().sum()) for n, o in zip(new, log_mu, strict=True))
        log_mu = new
    return log_mu, {"steps": steps, "reads": steps, "change": change, "converged": False}


def _check(alpha: float) -> None:
    if not 0 <= alpha <= 1:
        raise InputError(f"alpha {alpha} is outside 0 to 1: 0 is Arnold-Gokhale, 1 the pseudo-Gibbs law")


def _single(tables: Tables, name: str) -> Joint:
    return Joint(name, tables, lambda index: tables.log_q[0][index], log_z=0.0)


def _joint(tables: Tables, name: str, alpha: float, log_mu: Marginals, found: Mapping[str, object]) -> Joint:
    return Joint(name, tables, FamilyRule(tables, log_mu, alpha), {"alpha": alpha, **found})


def _reported(joints: list[Joint]) -> list[Joint]:
    """With normaliser and objective, from one read of the tables for all."""
    for joint, reading in zip(joints, read_joints(joints), strict=True):
        joint.log_z = reading.log_z
        joint.report |= {"log_z": reading.log_z, "objective": reading.objective, "objective_mean": reading.average_kl}
    return joints


def arnold_gokhale(tables: Tables, steps: int | None = None, tolerance: float = TOLERANCE) -> Joint:
    """alpha = 0 (eqs. 4-5): closest conditionals when every context counts alike, however absurd."""
    return near_compatible(tables, MEMBERS["arnold_gokhale"], steps, tolerance, name="arnold_gokhale")


def balanced(tables: Tables, steps: int | None = None, tolerance: float = TOLERANCE) -> Joint:
    """alpha = 1/2: contexts count by the square root of their probability."""
    return near_compatible(tables, MEMBERS["balanced"], steps, tolerance, name="balanced")


def pseudo_gibbs(tables: Tables, steps: int | None = None, tolerance: float = TOLERANCE) -> Joint:
    """alpha = 1: contexts count by their probability; the stationary law of random-scan pseudo-Gibbs."""
    return near_compatible(tables, MEMBERS["pseudo_gibbs"], steps, tolerance, name="pseudo_gibbs")
