"""What a transition matrix does in the long run: stationary law, spectral gap, mixing time, Dirichlet form.

For a chain P reversible with respect to pi,

    E(f, f) = <f, (I - P) f>_pi = 1/2 sum_{x,y} pi(x) P(x,y) (f(x) - f(y))^2
    gap     = min E(f, f) / Var(f) = 1 - lambda_2,         Poincare constant = 1 / gap
    t_mix   = min { t : max_x TV(P^t(x, .), pi) <= 1/4 }
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

from unmask.errors import InputError
from unmask.lab.dynamics import Transition, dense
from unmask.lab.space import Vector

Square = Float[np.ndarray, "S S"]
DENSE_STATES = 1500
ELIMINATED_STATES = 512
LONGEST = 1 << 40
"""Mixing times above this many steps are reported as infinite: rounding errors of the powers would decide them."""


def total_variation(p: Vector, q: Vector) -> float:
    """TV(p, q) = 1/2 sum |p - q|."""
    return 0.5 * float(np.abs(p - q).sum())


def stationary_law(transition: Transition) -> Vector:
    """The law pi with pi P = pi, zero on states that the chain leaves for good.

    By elimination without subtractions (Grassmann, Taksar and Heyman), or LU on large spaces.
    """
    matrix = dense(transition)
    kept = _closed_class(matrix)
    part = matrix[np.ix_(kept, kept)]
    law = np.zeros(len(matrix))
    law[kept] = _eliminated(part.copy()) if len(kept) <= ELIMINATED_STATES else _solved(part)
    return law


def _closed_class(matrix: Square) -> Int[np.ndarray, " kept"]:
    """The states of the one class that the chain cannot leave."""
    classes, member = connected_components(csr_array(matrix > 0), directed=True, connection="strong")
    rows, columns = np.nonzero(matrix > 0)
    leaves = np.zeros(classes, dtype=bool)
    leaves[member[rows[member[rows] != member[columns]]]] = True
    closed = np.flatnonzero(~leaves)
    if len(closed) != 1:
        raise InputError(f"the chain has {len(closed)} classes of states that it cannot leave: it has no single stationary law")
    return np.flatnonzero(member == closed[0])


def _eliminated(work: Square) -> Vector:
    states = len(work)
    for n in range(states - 1, 0, -1):
        work[:n, n] /= work[n, :n].sum()
        work[:n, :n] += np.outer(work[:n, n], work[n, :n])
    law = np.ones(states)
    for n in range(1, states):
        law[n] = law[:n] @ work[:n, n]
    return np.asarray(law / law.sum())


def _solved(matrix: Square) -> Vector:
    equations = matrix.T - np.eye(len(matrix))
    equations[-1] = 1.0
    right = np.zeros(len(matrix))
    right[-1] = 1.0
    law = np.maximum(np.linalg.solve(equations, right), 0.0)
    return np.asarray(law / law.sum())


def dirichlet_form(transition: Transition, law: Vector, f: Vector) -> float:
    """E(f, f) = 1/2 sum pi(x) P(x, y) (f(x) - f(y))^2: a sum of squares, so that it loses nothing to cancellation."""
    if isinstance(transition, np.ndarray):
        return 0.5 * float((law[:, None] * transition * (f[:, None] - f) ** 2).sum())
    cells = transition.tocoo()
    rows, columns = cells.coords
    return 0.5 * float((law[rows] * cells.data * (f[rows] - f[columns]) ** 2).sum())


def slowest(transition: Transition, law: Vector) -> tuple[float, Vector]:
    """The gap 1 - lambda_2 of a reversible chain, and its eigenfunction with E f = 0 and Var f = 1."""
    live = np.flatnonzero(law > 0)
    if len(live) < 2:
        raise InputError("a space with a single possible state has no spectral gap: use at least two states")
    root = np.sqrt(law[live])
    part = transition[live][:, live]
    if len(live) <= DENSE_STATES:
        symmetric = root[:, None] * dense(part) / root
        last = len(live) - 1
        _, vectors = eigh((symmetric + symmetric.T) / 2 - 2 * np.outer(root, root), subset_by_index=[last, last])
    else:

        def constant_sent_below(v: Float[np.ndarray, ...]) -> Float[np.ndarray, " n"]:
            return np.asarray(root * (part @ (v.ravel() / root)) - 2 * root * (root @ v.ravel()))

        start = np.random.default_rng(0).normal(size=len(live))
        operator = LinearOperator((len(live), len(live)), matvec=constant_sent_below, dtype=np.float64)
        _, vectors = eigsh(operator, k=1, which="LA", v0=start)
    f = np.zeros(len(law))
    f[live] = vectors[:, 0] / root
    f[live] -= law[live] @ f[live]
    gap = dirichlet_form(transition, law, f) / float(law @ f**2)
    f *= np.sign(f[np.abs(f).argmax()]) / math.sqrt(float(law @ f**2))
    return gap, f


def spectral_gap(transition: Transition, law: Vector) -> float:
    """1 - lambda_2 of a chain reversible with respect to `law`."""
    return slowest(transition, law)[0]


def eigenvalues(transition: Transition, law: Vector) -> Float[np.ndarray, " possible"]:
    """All eigenvalues of a reversible chain on the support of `law`, ascending."""
    live = np.flatnonzero(law > 0)
    root = np.sqrt(law[live])
    symmetric = root[:, None] * dense(transition[live][:, live]) / root
    return np.asarray(eigh((symmetric + symmetric.T) / 2, eigvals_only=True))


def distance(transition: Square, law: Vector) -> float:
    """max_x TV(P(x, .), pi)."""
    return 0.5 * float(np.abs(transition - law).sum(1).max())


def mixing_time(transition: Transition, law: Vector, within: float = 0.25) -> int | float:
    """Least t with max_x TV(P^t(x, .), pi) <= within, from possible states x; infinite beyond about 10^12 steps."""
    live = np.flatnonzero(law > 0)
    pi = law[live]
    powers = [dense(transition)[np.ix_(live, live)]]
    while distance(powers[-1], pi) > within:
        if 1 << len(powers) > LONGEST:
            return math.inf
        powers.append(_stochastic(powers[-1] @ powers[-1]))
    too_few, reached = 0, np.eye(len(live))
    for exponent in range(len(powers) - 1, -1, -1):
        further = reached @ powers[exponent]
        if distance(further, pi) > within:
            too_few, reached = too_few + (1 << exponent), further
    return too_few + 1


def _stochastic(matrix: Square) -> Square:
    return matrix / matrix.sum(1, keepdims=True)
