"""The moves between states of an exploration (`unmask.tables.exploration`), as numbers.

A move leads out of a passed state: it reveals a token at one of the state's h hidden sites. The
moves of one site of one state are a group. The likeliest of a group are listed one by one; of the
others only the probability of the likeliest is known, the group's rest. A level holds the groups
of all states with h hidden sites, so that flows and bounds are computed level by level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST = 1e-300  # stands in the bound for every probability above 0 that is smaller
Numbers = NDArray[np.float64]
Integers = NDArray[np.int64]


class _Column:
    """A vector that grows by parts."""

    def __init__(self) -> None:
        self._parts: list[NDArray[Any]] = []

    def append(self, part: NDArray[Any]) -> None:
        self._parts.append(part)

    def joined(self) -> NDArray[Any]:
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]

    def __len__(self) -> int:
        return sum(map(len, self._parts))


class _Level:
    """The moves out of the passed states with one number of hidden sites.

    One entry per move, group by group:
    parent        number of the state before it
    child         number of the state after it
    probability   of the token that it reveals, at its site

    One entry per group:
    group_size    how many moves are listed
    group_parent  number of the state
    group_rest    probability of the likeliest move that is not listed
    """

    def __init__(self) -> None:
        self.parent = _Column()
        self.child = _Column()
        self.probability = _Column()
        self.group_size = _Column()
        self.group_parent = _Column()
        self.group_rest = _Column()


class Moves:
    """The listed moves, by the number of hidden sites of the states that they lead out of."""

    def __init__(self) -> None:
        self._levels: dict[int, _Level] = defaultdict(_Level)

    def __len__(self) -> int:
        return sum(len(level.child) for level in self._levels.values())

    def add(
        self,
        states: Sequence[int],
        children: Sequence[int],
        probability: Numbers,
        sizes: Integers,
        all_known: bool,
    ) -> None:
        """List the likeliest moves out of newly passed states.

        states       numbers of n states with h hidden sites each
        children     numbers of the states after the listed moves, group by group
        probability  (n, h, m) of the m likeliest tokens of each group, falling
        sizes        (n, h) how many of these are listed in each group, at least one
        all_known    whether the m tokens are the whole vocabulary
        """
        n, hidden, known = probability.shape
        if all_known:
            beyond = np.zeros((n, hidden, 1))
        else:
            beyond = probability[:, :, -1:]  # no token that is not known is likelier
        from_likeliest = np.concatenate([probability, beyond], 2)
        level = self._levels[hidden]
        level.group_size.append(sizes.ravel())
        level.group_parent.append(np.repeat(states, hidden))
        level.group_rest.append(np.take_along_axis(from_likeliest, sizes[:, :, None], 2).ravel())
        level.parent.append(np.repeat(states, sizes.sum(1)))
        level.probability.append(probability[np.arange(known) < sizes[:, :, None]])
        level.child.append(np.array(children))

    def all_listed(self) -> bool:
        """Whether every move that is possible is listed."""
        return not any((level.group_rest.joined() > 0).any() for level in self._levels.values())

    def flows(
        self, states: int, roots: Sequence[int], weights: Sequence[float]
    ) -> tuple[Numbers, Numbers]:
        """(flow, cover) of this many states, from roots of these weights."""
        flow = np.zeros(states)
        flow[roots] = weights
        cover = np.zeros(states)
        cover[roots] = 1
        for hidden in sorted(self._levels, reverse=True):
            level = self._levels[hidden]
            parent = level.parent.joined()
            child = level.child.joined()
            flow_of_move = flow[parent] * level.probability.joined() / hidden
            flow += np.bincount(child, flow_of_move, states)
            cover += np.bincount(child, cover[parent] / hidden, states)
        return flow, cover

    def largest_flow_left_out(self, flow: Numbers) -> float:
        """The largest flow of a move that is not listed, from the flow into every state."""
        largest = 0.0
        for hidden, level in self._levels.items():
            left_out = level.group_rest.joined() * flow[level.group_parent.joined()] / hidden
            largest = max(largest, float(left_out.max()))
        return largest

    def ways(self) -> Integers:
        """For each state, up to the last that a move reaches, how many moves out of states with
        one hidden site lead to it.
        """
        if 1 not in self._levels:
            return np.zeros(0, dtype=np.int64)
        return np.bincount(self._levels[1].child.joined())

    def bounds(self, states: int, aside: Integers) -> Numbers:
        """b of every state: no less than the probability of going on from there to any one
        filling but those set `aside` (their numbers).

        b is 1 at a state that is not passed, and 0 at a filling set aside. At a passed state with
        h hidden sites it is 1/h times the sum over sites of the largest q(v) b(child).
        """
        bound = np.ones(states)
        bound[aside] = 0
        for hidden in sorted(self._levels):
            level = self._levels[hidden]
            sizes = level.group_size.joined()
            parents = level.group_parent.joined()
            probability = level.probability.joined()
            of_child = bound[level.child.joined()]
            is_possible = (probability > 0) & (of_child > 0)
            of_move = np.maximum(probability * of_child, np.where(is_possible, LEAST, 0))
            starts = np.cumsum(sizes) - sizes
            of_listed = np.maximum.reduceat(of_move, starts)
            of_group = np.maximum(of_listed, level.group_rest.joined())
            of_site = np.where(of_group > 0, np.maximum(of_group / hidden, LEAST), 0)
            bound[parents] = 0
            np.add.at(bound, parents, of_site)
        return bound
