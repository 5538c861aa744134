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
from jaxtyping import Float, Int
from torch import Tensor

from unmask.answers.dependence import PairMatrix, pair_matrix
from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.sampling.randomness import Randomness
from unmask.sampling.scan import SweepPlan
from unmask.sampling.settings import BlockShape, Scan
from unmask.sampling.target import Target
from unmask.tables.kept import kept_with_first


class DependenceBlocks(SweepPlan):
    """Blocks of sites that depend most, or least, on each other, by the matrix `dependence`."""

    def __init__(self, sites: int, scan: Scan, block_size: int, shape: BlockShape, dependence: Float[Tensor, "F F"]) -> None:
        super().__init__(sites, scan, block_size, shape)
        if block_size < 2:
            raise InputError(f"blocks of {block_size} by dependence, which is between two positions: give block_size 2 or more")
        self.preference = (1.0 if shape == "dependent" else -1.0) * dependence.double().cpu()

    def draw(self, rng: Randomness, rows: Int[Tensor, " n"]) -> Int[Tensor, "steps n k"]:
        """The sites of each step, for each of the chains `rows`."""
        if self.scan == "fixed":
            blocks = torch.tensor(self.partition(range(self.sites)), device=rows.device)
            return blocks.unsqueeze(1).expand(-1, len(rows), -1)
        if self.scan == "permutation":
            orders = rng.permutation(rows, self.sites).tolist()
            blocks = torch.tensor([self.partition(order) for order in orders], device=rows.device).transpose(0, 1)
        else:
            around = torch.tensor([self.partition([site])[0] for site in range(self.sites)], device=rows.device)
            blocks = torch.stack([around[rng.integers(rows, self.sites)] for _ in range(self.steps)])
        shuffled = [block.gather(1, rng.permutation(rows, self.block_size)) for block in blocks]
        return torch.stack(shuffled)

    def partition(self, order: list[int] | range) -> list[list[int]]:
        """Blocks begun by the sites in `order` that are in none yet; the last is filled up with sites of earlier ones."""
        left, blocks = set(range(self.sites)), []
        for site in order:
            if site not in left:
                continue
            block = [site]
            left.discard(site)
            while len(block) < self.block_size:
                choice = sorted(left) or [s for s in range(self.sites) if s not in block]
                mean = self.preference[block][:, choice].mean(0)
                block.append(choice[int(mean.argmax())])
                left.discard(block[-1])
            blocks.append(block)
        return blocks


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
