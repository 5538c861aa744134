"""The named members of the near-compatible family: Arnold-Gokhale, balanced, pseudo-Gibbs, and any alpha between.

By default the marginals are found by accelerated sweeps until they are estimated to lie within `tolerance` of the fixed
point in total variation: no event at one blank (or, of k blanks, at k - 1) has a probability that is off by more. With
`steps=n` they are n steps of eq. 5 from the uniform distribution, as published (n = 50 in the paper).
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.conditionals import Tables
from unmask.errors import InputError
from unmask.joints.balance import sweep
from unmask.joints.faithfulness import read_joints
from unmask.joints.family import FamilyRule, Marginals, read, start
from unmask.joints.fixed_point import accelerate
from unmask.joints.joint import Joint
from unmask.joints.likely_tokens import LikelyTokens

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
    if not 0 <= alpha <= 1:
        raise InputError(f"alpha {alpha} is outside 0 to 1: 0 is Arnold-Gokhale, 1 the pseudo-Gibbs law")
    if steps is not None and steps < 1:
        raise InputError(f"{steps} steps: give at least 1, or none to iterate until converged")
    if tables.sites == 1:
        return Joint(name, tables, lambda index: tables.log_q[0][index], log_z=0.0)
    log_mu = start(tables, uniform=steps is not None) if initial is None else initial
    if steps is not None:
        log_mu, found = _published(tables, log_mu, alpha, steps)
    else:
        log_mu, found = _converged(tables, log_mu, alpha, tolerance, max_reads)
    joint = Joint(name, tables, FamilyRule(tables, log_mu, alpha), {"alpha": alpha, **found})
    reading = read_joints([joint])[0]
    joint.log_z = reading.log_z
    joint.report |= {"log_z": reading.log_z, "objective": reading.objective, "objective_mean": reading.average_kl}
    return joint


def _published(tables: Tables, log_mu: Marginals, alpha: float, steps: int) -> tuple[Marginals, dict[str, object]]:
    """The marginals of step `steps` - 1, from which the rule gives step `steps`."""
    change = float("nan")
    for _ in range(steps - 1):
        new, _ = read(tables, log_mu, alpha)
        change = max(0.5 * float((n.exp() - o.exp()).abs().sum()) for n, o in zip(new, log_mu, strict=True))
        log_mu = new
    return log_mu, {"steps": steps, "reads": steps, "change": change, "converged": False}


def _converged(
    tables: Tables, log_mu: Marginals, alpha: float, tolerance: float, max_reads: int
) -> tuple[Marginals, dict[str, object]]:
    """Accelerated sweeps, for a pair with its likely tokens solved after each; a read before chooses those, one after
    is for the objective.
    """
    shapes, sizes = [m.shape for m in log_mu], [m.numel() for m in log_mu]
    likely = LikelyTokens(tables, alpha) if tables.sites == 2 else None

    def marginals(flat: Tensor) -> Marginals:
        return tuple(part.reshape(shape) for part, shape in zip(flat.split(sizes), shapes, strict=True))

    def step(flat: Tensor) -> Tensor:
        swept = sweep(tables, marginals(flat), alpha)
        return torch.cat([m.flatten() for m in (likely.solve(swept) if likely else swept)])

    end = accelerate(step, torch.cat([m.flatten() for m in log_mu]), tolerance, max_reads)
    found: dict[str, object] = {
        "steps": end.reads,
        "reads": 1 + end.reads * (1 + likely.strips.share) + 1 if likely else end.reads + 1,
        "change": end.change,
        "error": end.error,
        "converged": end.converged,
    }
    return marginals(end.log_p), found


def arnold_gokhale(tables: Tables, steps: int | None = None, tolerance: float = TOLERANCE) -> Joint:
    """alpha = 0 (eqs. 4-5): closest conditionals when every context counts alike, however absurd."""
    return near_compatible(tables, 0.0, steps, tolerance, name="arnold_gokhale")


def balanced(tables: Tables, steps: int | None = None, tolerance: float = TOLERANCE) -> Joint:
    """alpha = 1/2: contexts count by the square root of their probability."""
    return near_compatible(tables, 0.5, steps, tolerance, name="balanced")


def pseudo_gibbs(tables: Tables, steps: int | None = None, tolerance: float = TOLERANCE) -> Joint:
    """alpha = 1: contexts count by their probability; the stationary law of random-scan pseudo-Gibbs."""
    return near_compatible(tables, 1.0, steps, tolerance, name="pseudo_gibbs")
