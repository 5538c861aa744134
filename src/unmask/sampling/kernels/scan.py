"""Which sites a sweep redraws, and in which order; never by looking at the current tokens.

    random        every step draws its site uniformly
    fixed         from the first site to the last
    permutation   each site once, in a random order

Blocks of k sites are windows of k neighbours, or sets of any k. One sweep has as many steps as it takes
to redraw F tokens, F the number of sites. Within a block the order of the sites is random, except in fixed sweeps.
"""

from __future__ import annotations

from math import ceil

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.errors import InputError
from unmask.options.sampling import BlockShape, Scan
from unmask.sampling.engine.randomness import Randomness


class SweepPlan:
    """The sites of every step of a sweep over `sites` sites, in blocks of `block_size`."""

    def __init__(self, sites: int, scan: Scan = "permutation", block_size: int = 1, shape: BlockShape = "window") -> None:
        if not 1 <= block_size <= sites:
            raise InputError(f"blocks of {block_size} in a text of {sites} free positions: give a block size from 1 to {sites}")
        self.sites, self.scan, self.block_size, self.shape = sites, scan, block_size, shape

    @property
    def steps(self) -> int:
        """Steps of one sweep."""
        return ceil(self.sites / self.block_size)

    def draw(self, rng: Randomness, rows: Int[Tensor, " n"]) -> Int[Tensor, "steps n k"]:
        """The sites of each step, for each of the chains `rows`."""
        if self.block_size == 1:
            return self._single(rng, rows).unsqueeze(-1)
        return torch.stack([self._block(rng, rows, step) for step in range(self.steps)])

    def _single(self, rng: Randomness, rows: Int[Tensor, " n"]) -> Int[Tensor, "steps n"]:
        if self.scan == "fixed":
            return torch.arange(self.sites, device=rows.device).unsqueeze(1).expand(-1, len(rows))
        if self.scan == "permutation":
            return rng.permutation(rows, self.sites).T
        return torch.stack([rng.integers(rows, self.sites) for _ in range(self.sites)])

    def _block(self, rng: Randomness, rows: Int[Tensor, " n"], step: int) -> Int[Tensor, "n k"]:
        if self.scan == "fixed":
            first = min(step * self.block_size, self.sites - self.block_size)
            return torch.arange(first, first + self.block_size, device=rows.device).expand(len(rows), -1)
        if self.shape == "scattered":
            return rng.permutation(rows, self.sites)[:, : self.block_size]
        starts = rng.integers(rows, self.sites - self.block_size + 1)
        return starts.unsqueeze(1) + rng.permutation(rows, self.block_size)
