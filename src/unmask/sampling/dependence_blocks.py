"""Blocks by measured dependence: of the sites that depend most on each other, or least.

    D[a, b] = I(x_a; x_b | the template's held tokens), every other free position masked     (see `unmask.answers.dependence`)

    dependent     for joint proposals (`sequential-block`, `pair-joint`): what holds a chain up is redrawn together
    independent   for product proposals (`block`): what is drawn apart is nearly independent, and mostly accepted

A sweep visits the sites in a random order; a site that is not yet in a block takes the sites, not yet in one, of the largest
(smallest) mean D with the block so far, so that each site is redrawn once. A random scan draws the first site anew for
each step.

Why the chain stays right: D is a function of the template, which no step changes. The law of the blocks is then the same
in every state, and a mixture of kernels that keep pi keeps pi. Had D been measured in the current text, the reverse move
would have to choose its block from another D: without that probability in the ratio, pi is lost (a test shows it).

Why the others are masked: first, so that D needs the template only. Second, given all the rest of a text, tokens that are
tightly coupled look independent, for the rest tells each of them: of three sites that always agree, I(x_a; x_b | x_c) = 0
for every pair, and drawing all three apart is nearly always wrong. With the others masked, what they carry counts.
For pairs the loss of a product proposal is I(x_a; x_b | all the rest), averaged over texts, of which D is a proxy only.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.answers.dependence import PairMatrix, pair_matrix
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.options.sampling import BlockShape, Scan
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.scan import SweepPlan
from unmask.sampling.target import Target
from unmask.tables.kept import kept_with_first


class DependenceBlocks(SweepPlan):
    """Blocks of sites that depend most, or least, on each other, by the matrix `dependence`."""

    def __init__(self, sites: int, scan: Scan, block_size: int, shape: BlockShape, dependence: Float[Tensor, "F F"]) -> None:
        super().__init__(sites, scan, block_size, shape)
        if block_size < 2:
            raise InputError(f"blocks of {block_size} by dependence, which is between two positions: give block_size 2 or more")
        self.preference = (1.0 if shape == "dependent" else -1.0) * dependence.double()

    def draw(self, rng: Randomness, rows: Int[Tensor, " n"]) -> Int[Tensor, "steps n k"]:
        """The sites of each step, for each of the chains `rows`."""
        everything = torch.arange(self.sites, device=rows.device).unsqueeze(0)
        if self.scan == "fixed":
            return self.partition(everything).expand(-1, len(rows), -1)
        if self.scan == "permutation":
            blocks = self.partition(rng.permutation(rows, self.sites))
        else:
            around = self.around(everything[0], everything != everything.T)
            blocks = torch.stack([around[rng.integers(rows, self.sites)] for _ in range(self.steps)])
        shuffled = [block.gather(1, rng.permutation(rows, self.block_size)) for block in blocks]
        return torch.stack(shuffled)

    def partition(self, orders: Int[Tensor, "n F"]) -> Int[Tensor, "steps n k"]:
        """Blocks begun by the sites in each order that are in none yet; the last is filled up with sites of earlier ones."""
        left, blocks = torch.ones_like(orders, dtype=torch.bool), []
        for _ in range(self.steps):
            first = orders.gather(1, left.gather(1, orders).byte().argmax(1, keepdim=True)).squeeze(1)
            blocks.append(self.around(first, left.scatter(1, first.unsqueeze(1), False)))
            left = left.scatter(1, blocks[-1], False)
        return torch.stack(blocks)

    def around(self, first: Int[Tensor, " n"], left: Bool[Tensor, "n F"]) -> Int[Tensor, "n k"]:
        """A block for each of the sites `first`, of sites that are `left` where there are any; among equals the first."""
        block, preference = first.unsqueeze(1), self.preference.to(first.device)
        for _ in range(self.block_size - 1):
            elsewhere = torch.ones_like(left).scatter(1, block, False)
            choice = torch.where(left.any(1, keepdim=True), left, elsewhere)
            mean = torch.where(choice, preference[block].mean(1), -torch.inf)
            block = torch.cat([block, mean.argmax(1, keepdim=True)], 1)
            left = left.scatter(1, block, False)
        return block


@kept_with_first
def template_dependence(target: Target, candidates: int, construction: str) -> PairMatrix:
    """D of the target's sites, over the likeliest `candidates` allowed tokens of each with all sites masked.

    It is measured once per target and kept while the target lives.
    """
    positions = target.free_positions
    logits = target.model.logits(target.template_ids.unsqueeze(0), positions.unsqueeze(0))[0]
    allowed = torch.where(target.support, logits.double(), -torch.inf)
    sets = [row.topk(min(candidates, int(support.sum()))).indices for row, support in zip(allowed, target.support, strict=True)]
    found = pair_matrix(
        target.model, Cloze(target.template, tuple(positions.tolist())), [s.sort().values for s in sets], "masked", construction
    )
    return PairMatrix(found.information, found.mass, found.passes + 1)
