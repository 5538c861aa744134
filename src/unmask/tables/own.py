"""Tables of a pair from conditionals that a user gives, rather than a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unmask.errors import InputError
from unmask.tables.unary import Tables

ROUNDING = 1e-6


def own_tables(
    first: ArrayLike, second: ArrayLike, masked: Sequence[ArrayLike] | None, labels: Sequence[Sequence[str]] | None
) -> Tables:
    """See `Tables.from_conditionals`."""
    a, b = _distributions("first", first, 2, 0), _distributions("second", second, 2, 1)
    if a.shape != b.shape:
        raise InputError(f"first is {_size(a)} and second {_size(b)}: both are indexed by x, then y")
    if masked is None:
        m = _stationary(a, b)
    elif len(masked) != 2:
        raise InputError(f"{len(masked)} masked distributions were given: give two, of x and of y")
    else:
        m = (_distributions("masked of x", masked[0], 1, 0), _distributions("masked of y", masked[1], 1, 0))
        if (len(m[0]), len(m[1])) != tuple(a.shape):
            raise InputError(f"masked has {len(m[0])} and {len(m[1])} values, and the tables are {_size(a)}: give one per value")
    if labels is not None and [len(names) for names in labels] != list(a.shape):
        raise InputError(
            f"labels have {[len(names) for names in labels]} names, and the tables are {_size(a)}: give one per value"
        )
    names = None if labels is None else [*labels[0], *labels[1]]
    columns = 0 if names is None else len(a)
    nothing = torch.zeros(1, a.shape[1], dtype=torch.float64), torch.zeros(len(a), 1, dtype=torch.float64)
    return Tables(
        candidates=(torch.arange(len(a)), torch.arange(a.shape[1]) + columns),
        log_q=(a.log(), b.log()),
        log_inside=nothing,
        log_total=nothing,
        log_masked=(m[0].log(), m[1].log()),
        log_masked_inside=(0.0, 0.0),
        log_masked_support=(0.0, 0.0),
        label=str if names is None else names.__getitem__,
    )


def _distributions(name: str, given: ArrayLike, dimensions: int, axis: int) -> Tensor:
    """Probabilities that sum to 1 along an axis, in float64; sums that are off by rounding only are made exact."""
    try:
        values = torch.from_numpy(numpy.array(given, dtype=numpy.float64))
    except (TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers: give probabilities") from None
    if values.dim() != dimensions or 0 in values.shape:
        raise InputError(f"{name} has the shape {tuple(values.shape)}: give {'a matrix' if dimensions == 2 else 'a vector'}")
    if not bool((values >= 0).all()):
        raise InputError(f"{name} has an entry that is negative or NaN: give probabilities")
    sums = values.sum(axis, keepdim=True)
    worst = sums.flatten()[int((sums - 1).abs().argmax())].item()
    if abs(worst - 1) > ROUNDING:
        along = "" if dimensions == 1 else f" of a {('column', 'row')[axis]}"
        raise InputError(f"{name} has a sum{along} of {worst:.6g}: each must sum to 1")
    return values / sums


def _stationary(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """u and v with u = A v, v = B' u and sum u = 1."""
    n = len(a)
    equations = torch.cat([a @ b.T - torch.eye(n, dtype=torch.float64), torch.ones(1, n, dtype=torch.float64)])
    if int(torch.linalg.matrix_rank(equations[:-1], rtol=1e-12)) < n - 1:
        raise InputError("the conditionals split the values into parts that never meet: give masked, to weigh the parts")
    right = torch.zeros(n + 1, dtype=torch.float64)
    right[-1] = 1
    u = torch.linalg.lstsq(equations, right).solution.clamp_min(0)
    u = u / u.sum()
    return u, b.T @ u


def _size(table: Tensor) -> str:
    return f"{table.shape[0]} x {table.shape[1]}"
