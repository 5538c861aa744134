"""The conditionals of a pair that a user gives as arrays, checked and read into float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import torch
from torch import Tensor

from unmask.common.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike
else:
    ArrayLike = Any  # `_distributions` checks it, in words of its own

MOST_OFF = 1e-6  # how far sums of probabilities that a user gives may be from 1, by rounding
NEGLIGIBLE = 1e-12  # singular values below this share of the largest count as 0


class OwnConditionals(NamedTuple):
    """Probabilities of a pair x, y.

    first    (n_x, n_y) q(x | y): columns sum to 1
    second   (n_x, n_y) q(y | x): rows sum to 1
    masked   of x (n_x) and of y (n_y), with both positions masked
    """

    first: Tensor
    second: Tensor
    masked: tuple[Tensor, Tensor]


def read_conditionals(
    first: ArrayLike, second: ArrayLike, masked: Sequence[ArrayLike] | None
) -> OwnConditionals:
    """The probabilities in these arrays; `masked` defaults to the stationary distributions."""
    a = _distributions("first", first, dimensions=2, axis=0)
    b = _distributions("second", second, dimensions=2, axis=1)
    if a.shape != b.shape:
        raise InputError(
            f"first is {_size(a.shape)} and second {_size(b.shape)}: both are indexed by x, then y"
        )
    if masked is None:
        return OwnConditionals(a, b, _stationary(a, b))
    if len(masked) != 2:
        raise InputError(f"{len(masked)} masked distributions were given: give two, of x and of y")
    of_x = _distributions("masked of x", masked[0], dimensions=1, axis=0)
    of_y = _distributions("masked of y", masked[1], dimensions=1, axis=0)
    if (len(of_x), len(of_y)) != tuple(a.shape):
        raise InputError(
            f"masked has {len(of_x)} and {len(of_y)} values, and the tables are {_size(a.shape)}:"
            " give one per value"
        )
    return OwnConditionals(a, b, (of_x, of_y))


def read_labels(
    labels: Sequence[Sequence[str]] | None, shape: torch.Size
) -> tuple[tuple[str, ...], ...]:
    """The names of x's and y's values, as tables of this shape have them; none for None."""
    if labels is None:
        return ()
    counts = [len(names) for names in labels]
    if counts != list(shape):
        raise InputError(
            f"labels have {counts} names, and the tables are {_size(shape)}: give one per value"
        )
    for names in labels:
        for name in names:
            try:
                name.encode()
            except UnicodeEncodeError:
                raise InputError(
                    f"the label {name!r} has half of a surrogate pair: give texts of whole"
                    " characters"
                ) from None
    return tuple(tuple(names) for names in labels)


def _distributions(name: str, probabilities: ArrayLike, dimensions: int, axis: int) -> Tensor:
    """Probabilities that sum to 1 along an axis. Sums that are off by rounding are made exact."""
    try:
        if isinstance(probabilities, Tensor):
            probabilities = probabilities.detach().cpu().double().numpy()
        values = torch.from_numpy(numpy.array(probabilities, dtype=numpy.float64))
    except (OverflowError, RuntimeError, TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers: give probabilities") from None
    if values.dim() != dimensions or 0 in values.shape:
        kind = "a matrix" if dimensions == 2 else "a vector"
        raise InputError(f"{name} has the shape {tuple(values.shape)}: give {kind}")
    if not bool((values >= 0).all()):
        raise InputError(f"{name} has an entry that is negative or NaN: give probabilities")
    sums = values.sum(axis, keepdim=True)
    furthest = int((sums - 1).abs().argmax())
    worst = sums.flatten()[furthest].item()
    if abs(worst - 1) > MOST_OFF:
        along = ""
        if dimensions == 2:
            along = " of a column" if axis == 0 else " of a row"
        raise InputError(f"{name} has a sum{along} of {worst:.6g}: each must sum to 1")
    return values / sums


def _stationary(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """u and v with u = A v, v = B' u and sum u = 1.

    u solves (A B' - 1) u = 0 and sum u = 1. It is unique if A B' - 1 has rank n - 1: else x and y
    fall into parts between which no value leads to another, and any weights of these solve it.
    """
    n = len(a)
    fixed = a @ b.T - torch.eye(n, dtype=torch.float64)
    if int(torch.linalg.matrix_rank(fixed, rtol=NEGLIGIBLE)) < n - 1:
        raise InputError(
            "the conditionals split the values into parts that never meet: give masked, to weigh"
            " the parts"
        )
    equations = torch.cat([fixed, torch.ones(1, n, dtype=torch.float64)])
    right = torch.zeros(n + 1, dtype=torch.float64)
    right[-1] = 1
    u = torch.linalg.lstsq(equations, right).solution.clamp_min(0)
    u = u / u.sum()
    return u, b.T @ u


def _size(shape: torch.Size) -> str:
    return " x ".join(map(str, shape))
