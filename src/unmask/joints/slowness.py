"""How much farther the fixed point of a map z -> G(z) is than one step shows.

Let f = G(z) - z. A short f does not mean that z is near: along a direction of rate lambda an error
e shows as f = (1 - lambda) e. The slowness of a direction is e / f = 1 / (1 - lambda).

The changes dz_i and df_i that Anderson's method remembers (`unmask.joints.anderson`) show the
slowest direction that the iteration has met so far:

    slowness  =  max_c | sum_i c_i dz_i | / | sum_i c_i df_i | .

The distance that is left is then estimated as the slowness times the length of a step.
"""

from __future__ import annotations

import torch

from unmask.joints.anderson import Products

SLOWEST_AT_LEAST = 10.0
"""Lower bound of the estimate, for when the iteration has not yet met the slow directions."""
FORGET = 0.9
"""The estimate is multiplied by this at each step. So a slow direction that the changes no longer
show is forgotten.
"""
RESOLUTION = 1e-12
"""Total variation. A step that moves z by less is rounding, from which nothing can be learnt about
slow directions.
"""


def updated_slowness(before: float, shown: float, change: float) -> float:
    """The estimate after one more step.

    before  the estimate until then
    shown   the slowness that the changes show now
    change  total variation between z and G(z)
    """
    if change > RESOLUTION:
        learnt = shown
    else:
        learnt = 0.0
    return max(SLOWEST_AT_LEAST, FORGET * before, learnt)


def slowness_shown(products: Products) -> list[float]:
    """The largest |dz c| / |df c| over combinations c of the changes, per row. It is infinite
    where a z moved and its f did not.

    Its square is the largest eigenvalue of dz_dz v = mu df_df v. With df_df = L L^T these are the
    eigenvalues of the symmetric matrix L^-1 dz_dz L^-T.
    """
    lower = torch.linalg.cholesky(products.df_df)
    left_divided = torch.linalg.solve_triangular(lower, products.dz_dz, upper=False)
    matrix = torch.linalg.solve_triangular(lower, left_divided.mT, upper=False)

    # `eigvalsh` fails for all rows where one overflows: that row gets zeros, and then its infinity.
    finite = matrix.isfinite().all(dim=2).all(dim=1)
    matrix = torch.where(finite[:, None, None], matrix, 0.0)
    symmetric = (matrix + matrix.mT) / 2  # but for rounding it was
    eigenvalues = torch.linalg.eigvalsh(symmetric)  # in ascending order
    largest_ratio = eigenvalues[:, -1].clamp_min(0).sqrt()
    slowness: list[float] = torch.where(finite, largest_ratio, torch.inf).tolist()
    return slowness
