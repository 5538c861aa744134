"""Interactions of pairs of residues behind a monotone curve: global epistasis first, then what it leaves.

A measured value saturates, so that changes which only add up seem to interact. With x_s the letter at site s,

    y(x) = g(phi(x)) + error,   phi(x) = sum_s beta_s(x_s),   g(u) = a + b_0 u + sum_m b_m sigmoid((u - c_m) / h),   b >= 0

is fitted by least squares: an additive latent effect, and a curve that never falls. What it leaves, r = y - g(phi), is explained
by interactions on the latent scale, to first order:

    r(x) = g'(phi(x)) (J_0 + sum_s J_s(x_s) + sum_{s<t} J_st(x_s, x_t)),   least squares with penalty l sum J_st^2.

Variants on a plateau of g have g' = 0 and say nothing. Without a curve g is the identity and g' = 1: so it is for a model's
scores, which are logarithms of probabilities already. The tables J_st are centred: their means over the letters of either site
are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
import torch
from jaxtyping import Float, Int

CENTRES, WIDTH = np.linspace(-3, 3, 9), 0.75
CURVE_STEPS, STEPS = 200, 60
PENALTIES = (1.0, 10.0, 100.0, 1000.0)
FREE = 1e-6
"""The penalty of a constant and of single letters."""
HELD_OUT = 5
MOST_FOR_PENALTY = 20_000


@dataclass(frozen=True)
class Curve:
    """The fit of g and phi: phi, g(phi) and g'(phi) of every variant, and the share of variance that g(phi) explains."""

    latent: Float[np.ndarray, " n"]
    fitted: Float[np.ndarray, " n"]
    slope: Float[np.ndarray, " n"]
    explained: float


def curve(cells: Int[np.ndarray, "n k"], values: Float[np.ndarray, " n"], monotone: bool = True) -> Curve:
    """The additive latent effect and the curve; g is the identity without `monotone`."""
    mean, spread = float(values.mean()), float(values.std()) or 1.0
    y = (values - mean) / spread
    design = Design(cells, pairs=False)
    beta = design.solve(y, np.ones(len(y)), FREE)
    latent = design.times(beta)
    if not monotone:
        return _curve(values, latent * spread + mean, latent * spread + mean, np.ones(len(y)))
    scale = latent.std() or 1.0
    places, target = torch.from_numpy(design.places), torch.from_numpy(y)
    centres = torch.from_numpy(CENTRES)
    weights = torch.from_numpy(beta / scale).requires_grad_()
    heights = torch.cat([torch.tensor([scale]), torch.full((len(centres),), 0.05)]).double().expm1().log().requires_grad_()
    start = torch.zeros((), dtype=torch.float64, requires_grad=True)

    def g(phi: torch.Tensor) -> torch.Tensor:
        up = torch.nn.functional.softplus(heights)
        return start + up[0] * phi + torch.sigmoid((phi[:, None] - centres) / WIDTH) @ up[1:]

    optimizer = torch.optim.LBFGS([weights, heights, start], max_iter=CURVE_STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        error = (g(weights[places].sum(1)) - target).square().mean() + FREE * weights.square().mean()
        error.backward()
        return error

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    phi = weights.detach()[places].sum(1).requires_grad_()
    fitted = g(phi)
    (slope,) = torch.autograd.grad(fitted.sum(), phi)
    return _curve(values, phi.detach().numpy(), fitted.detach().numpy() * spread + mean, slope.numpy() * spread)


def _curve(values: np.ndarray, latent: np.ndarray, fitted: np.ndarray, slope: np.ndarray) -> Curve:
    left = float(((values - fitted) ** 2).mean())
    return Curve(latent, fitted, slope, 1 - left / (float(values.var()) or 1.0))


class Design:
    """Indicators of a constant, of single letters and of pairs of letters: one 1 per row in each block of columns."""

    def __init__(self, cells: Int[np.ndarray, "n k"], pairs: bool = True) -> None:
        self.letters = [np.unique(column) for column in cells.T]
        codes = [np.searchsorted(known, column) for known, column in zip(self.letters, cells.T, strict=True)]
        blocks, sizes = [np.zeros(len(cells), dtype=np.int64)], [1]
        self.pairs = list(combinations(range(cells.shape[1]), 2)) if pairs else []
        for code, known in zip(codes, self.letters, strict=True):
            blocks.append(code)
            sizes.append(len(known))
        for s, t in self.pairs:
            blocks.append(codes[s] * len(self.letters[t]) + codes[t])
            sizes.append(len(self.letters[s]) * len(self.letters[t]))
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.places = np.stack(blocks, 1) + self.starts[:-1]
        self.columns = int(self.starts[-1])
        self.singles = int(self.starts[1 + cells.shape[1]])

    def times(self, coefficients: Float[np.ndarray, " p"]) -> Float[np.ndarray, " n"]:
        """Sums of the coefficients of each row."""
        total: np.ndarray = coefficients[self.places].sum(1)
        return total

    def transposed(self, rows: Float[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
        """Sums of the rows' numbers over each column."""
        return np.bincount(self.places.ravel(), np.repeat(rows, self.places.shape[1]), self.columns)

    def solve(
        self, values: Float[np.ndarray, " n"], slope: Float[np.ndarray, " n"], penalty: float, rows: np.ndarray | None = None
    ) -> Float[np.ndarray, " p"]:
        """Least squares of values = slope * coefficients, by conjugate gradients; `rows`: a mask of those that count."""
        weight = slope if rows is None else slope * rows
        ridge = np.where(np.arange(self.columns) < self.singles, FREE, penalty)
        scale = float((weight**2).mean()) or 1.0
        x, residual = np.zeros(self.columns), self.transposed(weight * (values if rows is None else values * rows)) / scale
        diagonal = self.transposed(weight**2) / scale + ridge
        z = residual / diagonal
        direction, size = z, float(residual @ z)
        begun = size
        for _ in range(STEPS):
            if size <= 1e-16 * begun:
                break
            image = self.transposed(weight**2 * self.times(direction)) / scale + ridge * direction
            step = size / float(direction @ image)
            x, residual = x + step * direction, residual - step * image
            z = residual / diagonal
            size, before = float(residual @ z), size
            direction = z + size / before * direction
        return x

    def tables(self, coefficients: Float[np.ndarray, " p"]) -> list[Float[np.ndarray, "a b"]]:
        """J_st of every pair of sites, centred with the letters' frequencies."""
        found = []
        counts = np.bincount(self.places.ravel(), minlength=self.columns)
        for n, (s, t) in enumerate(self.pairs):
            block = 1 + len(self.letters) + n
            table = coefficients[self.starts[block] : self.starts[block + 1]].reshape(len(self.letters[s]), -1)
            f, g = (self._share(counts, site) for site in (s, t))
            across, down = table @ g, f @ table
            found.append(table - across[:, None] - down[None, :] + float(f @ across))
        return found

    def counts(self) -> list[Int[np.ndarray, "a b"]]:
        """How many variants have each pair of letters, for every pair of sites."""
        total = np.bincount(self.places.ravel(), minlength=self.columns)
        blocks = range(1 + len(self.letters), len(self.starts) - 1)
        return [
            total[self.starts[block] : self.starts[block + 1]].reshape(len(self.letters[s]), -1)
            for block, (s, _) in zip(blocks, self.pairs, strict=True)
        ]

    def _share(self, counts: np.ndarray, site: int) -> np.ndarray:
        mine = counts[self.starts[1 + site] : self.starts[2 + site]]
        share: np.ndarray = mine / mine.sum()
        return share


def choose_penalty(
    cells: Int[np.ndarray, "n k"], left: Float[np.ndarray, " n"], slope: Float[np.ndarray, " n"], seed: int
) -> tuple[float, float]:
    """The penalty with the smallest error on a fifth of the variants, and the share of r that pairs explain there."""
    draw = np.random.default_rng(seed)
    some = draw.permutation(len(cells))[:MOST_FOR_PENALTY]
    design, values, weights = Design(cells[some]), left[some], slope[some]
    fitted = draw.integers(0, HELD_OUT, len(some)) > 0
    best: tuple[float, float] = (PENALTIES[-1], -np.inf)
    total = float((values[~fitted] ** 2).sum()) or 1.0
    for penalty in PENALTIES:
        predicted = weights * design.times(design.solve(values, weights, penalty, fitted))
        explained = 1 - float(((values - predicted)[~fitted] ** 2).sum()) / total
        if explained > best[1]:
            best = (penalty, explained)
    return best


def by_order(
    cells: Int[np.ndarray, "n k"], wild: Int[np.ndarray, " k"], columns: Sequence[Float[np.ndarray, " n"]]
) -> Float[np.ndarray, "c k"] | None:
    """Shares of the variance of each column by order of interaction, 1 to k, in a complete landscape of two letters per site.

    The Walsh transform of the 2^k values; None if the landscape is not complete.
    """
    n, k = cells.shape
    if k > 20 or n != 2**k or any(len(np.unique(column)) != 2 for column in cells.T):
        return None
    place = (cells != wild) @ (1 << np.arange(k))
    if len(np.unique(place)) != n:
        return None
    order = np.array([bin(i).count("1") for i in range(n)])
    found = np.zeros((len(columns), k))
    for row, column in enumerate(columns):
        values = np.empty(n)
        values[place] = column
        for step in 1 << np.arange(k):
            pairs = values.reshape(-1, 2, step)
            values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).ravel()
        power = np.bincount(order, values**2, k + 1)[1:]
        found[row] = power / (power.sum() or 1.0)
    return found


def strength(table: Float[np.ndarray, "a b"], counts: Int[np.ndarray, "a b"]) -> float:
    """The root mean square of J_st over the variants."""
    return sqrt(float((counts * table**2).sum() / counts.sum()))
