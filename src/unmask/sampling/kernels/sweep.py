"""The sites of a sweep."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Literal

from unmask.common.errors import InputError
from unmask.common.lazy import torch

if TYPE_CHECKING:
    from jaxtyping import Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness

Scan = Literal["random", "fixed", "permutation"]


class SweepPlan:
    """Which sites every step of a sweep over `sites` sites redraws; never by looking at the
    current tokens.

        random        every step draws its site uniformly
        fixed         from the first site to the last
        permutation   each site once, in a random order

    Blocks are windows of `block_size` neighbours. A sweep has as many steps as it takes to
    redraw all sites once. Within a block the order of the sites is random, except in fixed
    sweeps.
    """

    def __init__(self, sites: int, scan: Scan = "permutation", block_size: int = 1) -> None:
        if not 1 <= block_size <= sites:
            raise InputError(
                f"{block_size} is not possible in a text of {sites} free positions",
                argument="block_size",
                use=f"give 1 to {sites}",
            )
        self.sites: int = sites
        self.scan: Scan = scan
        self.block_size: int = block_size

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
            return torch.arange(first, first + self.block_size, device=rows.device).expand(
                len(rows), -1
            )
        starts = rng.integers(rows, self.sites - self.block_size + 1)
        return starts.unsqueeze(1) + rng.permutation(rows, self.block_size)
