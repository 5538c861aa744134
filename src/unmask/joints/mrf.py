"""The fully connected Markov random field over the block (Torroba Hennigen & Kim 2023, eq. 2).

    mrf        mu(x) proportional to  prod_t q_t(x_t | x_{S\\t})
    mrf_logit  mu(x) proportional to  exp sum_t f_t(x_t | x_{S\\t})

Its own conditionals differ from q even when the q_t are compatible (appendix B of the paper).
"""

from __future__ import annotations

from unmask.joints.joint import Joint
from unmask.joints.rules import SumRule
from unmask.tables.unary import Tables


def mrf(tables: Tables) -> Joint:
    """Log potential: the sum of the unary log-probabilities."""
    return Joint("mrf", tables, SumRule((*tables.log_q, *tables.log_inside)))


def mrf_logit(tables: Tables) -> Joint:
    """Log potential: the sum of the unary logits."""
    return Joint("mrf_logit", tables, SumRule((*tables.log_q, *tables.log_total)))
