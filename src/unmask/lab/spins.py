"""Ising, Curie-Weiss and Potts models: sites on a graph that like to agree.

    Ising   p(x) proportional to exp( beta sum_{i~j} x_i x_j + sum_i h_i x_i ),      x_i in {-1, +1}
    Potts   p(x) proportional to exp( beta sum_{i~j} 1[x_i = x_j] + sum_i h_i 1[x_i = 0] ),   x_i in {0..q-1}

Curie-Weiss is Ising on the complete graph; `beta` is the coupling of one pair. As families, every edge has its own
coupling and every site its own fields, so that N = 6 spins on the complete graph have 15 + 6 parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float

from unmask.checks import one_of
from unmask.errors import InputError
from unmask.lab.model import LabModel, Theta
from unmask.lab.space import Space
from unmask.options.lab import GRAPHS

Fields = Float[np.ndarray, " N"]
"""A number per site."""


def edges(graph: str, sites: int) -> list[tuple[int, int]]:
    """The pairs of sites that `graph` joins."""
    if graph == "complete":
        return list(combinations(range(sites), 2))
    path = [(i, i + 1) for i in range(sites - 1)]
    return path + ([(0, sites - 1)] if one_of("graph", graph, GRAPHS) == "cycle" and sites > 2 else [])


def parse_fields(text: str, sites: int) -> Fields:
    """One field per site, from `0.1` (all alike), `a,b,c,...` (one each), `a:b` (evenly from a to b) or `normal:SD:SEED`."""
    try:
        if text.startswith("normal:"):
            _, sd, seed = text.split(":")
            return float(sd) * np.random.default_rng(int(seed)).normal(size=sites)
        if ":" in text:
            first, last = text.split(":")
            return np.linspace(float(first), float(last), sites)
        numbers = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InputError(f"fields {text!r}: use one number, {sites} numbers with commas, FIRST:LAST, or normal:SD:SEED") from None
    if len(numbers) not in (1, sites):
        raise InputError(f"fields {text!r}: {len(numbers)} numbers for {sites} sites; use one number or {sites}")
    return np.broadcast_to(numbers, (sites,)).copy()


def ising(coupling: float | Sequence[float], fields: Fields, graph: str = "complete", name: str | None = None) -> LabModel:
    """The Ising model on `graph`, with one coupling for all edges or one per edge; parameters: couplings, then fields."""
    sites = len(fields)
    space = Space((2,) * sites)
    pairs = edges(graph, sites)
    spins = 2.0 * space.values - 1.0
    features = np.concatenate([np.stack([spins[:, i] * spins[:, j] for i, j in pairs], 1), spins] if pairs else [spins], axis=1)
    theta = np.concatenate([np.broadcast_to(np.asarray(coupling, dtype=np.float64), (len(pairs),)), fields])
    labels = tuple(f"J{i}{j}" for i, j in pairs) + tuple(f"h{i}" for i in range(sites))
    return _checked(name or f"Ising, {graph} graph, N={sites}", space, features, theta, labels)


def curie_weiss(sites: int, coupling: float, field: float | Fields = 0.0) -> LabModel:
    """Ising on the complete graph: every pair coupled by `coupling`."""
    fields = np.broadcast_to(np.asarray(field, dtype=np.float64), (sites,)).copy()
    return ising(coupling, fields, "complete", f"Curie-Weiss, N={sites}, coupling {coupling:g}")


def potts(states: int, coupling: float, fields: Fields, graph: str = "complete") -> LabModel:
    """The Potts model with q = `states` values; parameters: couplings, then q - 1 fields per site (the last value has none)."""
    sites = len(fields)
    space = Space((states,) * sites)
    pairs = edges(graph, sites)
    values = space.values
    agree = [(values[:, i] == values[:, j]).astype(np.float64) for i, j in pairs]
    takes = [(values[:, i] == a).astype(np.float64) for i in range(sites) for a in range(states - 1)]
    value_fields = np.zeros((sites, max(states - 1, 0)))
    value_fields[:, :1] = np.asarray(fields)[:, None]
    labels = tuple(f"J{i}{j}" for i, j in pairs) + tuple(f"h{i}={a}" for i in range(sites) for a in range(states - 1))
    theta = np.concatenate([np.full(len(pairs), float(coupling)), value_fields.ravel()])
    features = np.stack(agree + takes, 1) if labels else np.zeros((space.states, 0))
    return _checked(f"Potts, q={states}, {graph} graph, N={sites}, coupling {coupling:g}", space, features, theta, labels)


def _checked(name: str, space: Space, features: Float[np.ndarray, "S d"], theta: Theta, labels: tuple[str, ...]) -> LabModel:
    if not np.isfinite(theta).all():
        raise InputError(f"{name}: couplings and fields must be finite numbers")
    model = LabModel(name, space, np.zeros(space.states), features, theta, labels)
    _ = model.log_p
    return model
