"""The fillings of a joint that a filter keeps: the most probable ones, and the place of one.

A filter says which candidates of each blank are kept; a filling is kept if all its tokens are. The
filter comes after the joint: log mu of a filling is read from the same tiles, whatever else is
kept, so it is the same number bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.joints.joint import Joint
from unmask.joints.tiles import Tile, tiles


class Place(NamedTuple):
    """The place of a filling among those that are kept, the most probable being 1.

    first, last   they differ if others have the same log-probability
    """

    log_prob: float
    first: int
    last: int


class KeptFillings:
    """Fillings of `joint`.

    kept   for each blank whether a candidate is kept, in the order of the candidates; None keeps
           all candidates of the blank
    """

    def __init__(
        self, joint: Joint, kept: Sequence[Bool[Tensor, " n"] | None] | None = None
    ) -> None:
        self.joint = joint
        device = joint.tables.candidates[0].device
        masks = [None] * joint.sites if kept is None else kept
        self._places: list[Int[Tensor, " _"]] = []  # of the kept candidates of each axis
        for mask, size in zip(masks, joint.shape, strict=True):
            if mask is None:
                self._places.append(torch.arange(size, device=device))
            else:
                self._places.append(mask.to(device).nonzero().flatten())

    def __len__(self) -> int:
        return prod(len(places) for places in self._places)

    def _tiles_of_joint(self) -> Iterator[Tile]:
        """The tiles of all fillings, kept or not."""
        return tiles(self.joint.tables.log_q[0])

    def _tiles(self) -> Iterator[Tensor]:
        """log mu of the kept fillings, in runs of the first axis: each tile of the joint without
        what is left out.
        """
        first_places = self._places[0]
        for index in self._tiles_of_joint():
            rows = index[0]
            in_tile = (first_places >= rows.start) & (first_places < rows.stop)
            if not bool(in_tile.any()):
                continue
            tile = self.joint.log_tile(index)
            of_axes = [first_places[in_tile] - rows.start, *self._places[1:]]
            for axis, places in enumerate(of_axes):
                if len(places) < tile.shape[axis]:
                    tile = tile.index_select(axis, places)
            yield tile

    def most_probable(self, n: int) -> tuple[Int[Tensor, "n k"], Float[Tensor, " n"]]:
        """The n most probable kept fillings, best first: their token ids and log-probabilities.

        There are fewer if fewer are kept.
        """
        n = min(n, len(self))
        best: Tensor | None = None  # log-probabilities of the n best so far,
        cells = torch.empty(0, dtype=torch.long)  # and where they are among the kept ones
        cells_before = 0
        for tile in self._tiles():
            of_tile, places = tile.flatten().topk(min(n, tile.numel()))
            places = places + cells_before
            cells_before += tile.numel()
            if best is None:  # the first tile
                best = of_tile
                cells = places
                continue
            best = torch.cat([best, of_tile])
            cells = torch.cat([cells, places])
            best, order = best.topk(min(n, len(best)))
            cells = cells[order]
        if best is None:  # nothing is kept
            return torch.empty(0, self.joint.sites, dtype=torch.long), torch.empty(0)
        return self._tokens(cells), best

    def _tokens(self, cells: Int[Tensor, " n"]) -> Int[Tensor, "n k"]:
        """Token ids of kept fillings, numbered from 0 with the last axis fastest."""
        columns: list[Tensor] = []
        for candidates, places in zip(
            reversed(self.joint.tables.candidates), reversed(self._places), strict=True
        ):
            columns.append(candidates[places[cells % len(places)]])
            cells = cells // len(places)
        return torch.stack(columns[::-1], -1)

    def place_of(self, filling: Sequence[int]) -> Place | None:
        """The place of a filling; None if it is not kept, or a token of it is no candidate.

        filling   k token ids
        """
        log_prob = self.log_prob(filling)
        if log_prob is None:
            return None
        above = 0
        equal = 0
        for tile in self._tiles():
            above += int((tile > log_prob).sum())
            equal += int((tile == log_prob).sum())
        return Place(log_prob=log_prob, first=above + 1, last=above + equal)

    def log_prob(self, filling: Sequence[int]) -> float | None:
        """log mu of a filling as its tile has it; None if it is not kept."""
        cell: list[int] = []  # its place on each axis
        for candidates, places, token in zip(
            self.joint.tables.candidates, self._places, filling, strict=True
        ):
            found = (candidates[places] == token).nonzero().flatten()
            if len(found) == 0:
                return None
            cell.append(int(places[found[0]]))
        for index in self._tiles_of_joint():
            rows = index[0]
            if rows.start <= cell[0] < rows.stop:
                tile = self.joint.log_tile(index)
                return float(tile[(cell[0] - rows.start, *cell[1:])])
        return None


def log_mass_of(joint: Joint, given: Mapping[int, int]) -> float | None:
    """log mu of all fillings with given tokens at some axes; None if one is no candidate, and 0
    without any.

    given   the token of each such axis, counted from 0
    """
    if not given:
        return 0.0
    index = [slice(0, size) for size in joint.shape]
    for axis, token in given.items():
        found = (joint.tables.candidates[axis] == token).nonzero().flatten()
        if len(found) == 0:
            return None
        place = int(found[0])
        index[axis] = slice(place, place + 1)
    every_axis = tuple(range(joint.sites))
    log_mu = joint.log_tile(tuple(index)).double()
    return float(log_mu.logsumexp(every_axis))
