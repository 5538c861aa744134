"""The three named members of the near-compatible family: Arnold-Gokhale, balanced, pseudo-Gibbs."""

from __future__ import annotations

from unmask.conditionals import Tables
from unmask.joints.family import family_rule, read, start
from unmask.joints.joint import Joint


def solve(name: str, tables: Tables, alpha: float, steps: int | None, tolerance: float = 1e-6, max_steps: int = 2000) -> Joint:
    """Iterate to a fixed point by plain steps, `steps` of them from uniform if given."""
    log_mu = start(tables, uniform=steps is not None)
    log_z, taken, change = 0.0, 0, float("inf")
    while taken < (steps if steps is not None else max_steps) and (steps is not None or change > tolerance):
        new, log_z = read(tables, log_mu, alpha)
        change = max(float((n.exp() - o.exp()).abs().sum()) for n, o in zip(new, log_mu, strict=True))
        log_mu, taken = new, taken + 1
    return Joint(name, tables, family_rule(tables, log_mu, alpha), {"steps": taken, "change": change})


def arnold_gokhale(tables: Tables, steps: int | None = None) -> Joint:
    """alpha = 0 (eqs. 4-5): closest conditionals when every context counts alike."""
    return solve("arnold_gokhale", tables, 0.0, steps)


def balanced(tables: Tables, steps: int | None = None) -> Joint:
    """alpha = 1/2."""
    return solve("balanced", tables, 0.5, steps)


def pseudo_gibbs(tables: Tables, steps: int | None = None) -> Joint:
    """alpha = 1: the stationary law of random-scan pseudo-Gibbs."""
    return solve("pseudo_gibbs", tables, 1.0, steps)
