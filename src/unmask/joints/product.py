"""The product of the model's marginals with the whole block masked (Torroba Hennigen & Kim 2023, eq. 1).

    mu(x) = prod_t m_t(x_t)

What fill-mask pipelines give: the blanks are taken as independent of each other.
"""

from __future__ import annotations

from unmask.joints.joint import Joint
from unmask.joints.rules import SumRule
from unmask.joints.tiles import along
from unmask.tables.unary import Tables


def product(tables: Tables) -> Joint:
    """The independent joint."""
    factors = tuple(along(m, t, tables.sites) for t, m in enumerate(tables.log_masked))
    return Joint("product", tables, SumRule(factors), known_log_z=0.0)
