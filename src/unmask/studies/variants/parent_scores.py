"""Scores of variants that need only conditionals of the parent and its neighbours.

mu is the joint of sites s and t by a construction, all other tokens as in the parent w:

    single effect   e_t(x)    = log q_t(x | w) - log q_t(w_t | w)
    epistasis       E_st(x,y) = log mu(x, y) - log mu(w_s, w_t) - e_s(x) - e_t(y),
                    if both change; 0 otherwise

    singles               sum_t e_t(x_t)
    epistasis             sum_{s<t} E_st(x_s, x_t)
    pairs:CONSTRUCTION    singles + epistasis
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.common.cloze import blanked
from unmask.joints.constructions.construction import Construction
from unmask.joints.deriving import derive_blocks
from unmask.joints.joint import Joint
from unmask.models.conditional_model import ConditionalModel
from unmask.studies.variants.effects import effects
from unmask.tables.unary import pass_count, tables_of

TOGETHER = 64
"""Pairs of sites whose passes run together."""
Pair = tuple[int, int]
"""Two sites by number, from left to right."""
EPISTASIS = "epistasis"


class ParentScores:
    """`singles`, and the scores of `construction_of`.

    ids        the parent's token ids
    sites      the positions that vary, from left to right
    allowed    the token ids that q is normalised over, (a,)
    wild       the parent's token at each site, as a place in `allowed`, (k,)
    construction_of   the construction of each score that needs a joint, by the name of the score
    """

    def __init__(
        self,
        model: ConditionalModel,
        ids: Sequence[int],
        sites: Sequence[int],
        allowed: Int[Tensor, " a"],
        wild: Int[Tensor, " k"],
        construction_of: Mapping[str, Construction],
    ) -> None:
        self.model = model
        self.ids = ids
        self.sites = sites
        self.allowed = allowed
        self.wild = wild
        self.construction_of = construction_of
        once = {construction.name: construction for construction in construction_of.values()}
        self.constructions: list[Construction] = list(once.values())

    def pass_count(self, cells: Int[Tensor, "n k"]) -> int:
        """How many passes `scores` takes: one per site, and those of the pairs."""
        return len(self.sites) + len(self._pairs(cells)) * self._passes_per_pair

    def scores(
        self, cells: Int[Tensor, "n k"], add: Callable[[int], None]
    ) -> dict[str, Float[Tensor, " n"]]:
        """The scores by name, in nats.

        cells   the tokens of each variant at the sites, as places in `allowed`
        add     is called with numbers of passes, as they are made
        """
        single_effects = self._single_effects()
        site_numbers = torch.arange(len(self.sites), device=cells.device)
        singles = single_effects[site_numbers, cells].sum(1)
        add(len(self.sites))
        epistasis = self._epistasis(cells, singles, add)
        scores = {"singles": singles}
        for name, construction in self.construction_of.items():
            if name == EPISTASIS:
                scores[name] = epistasis[construction.name]
            else:
                scores[name] = epistasis[construction.name] + singles
        return scores

    @property
    def _passes_per_pair(self) -> int:
        """Passes for the tables of one pair of sites."""
        return pass_count([len(self.allowed)] * 2)

    def _pairs(self, cells: Int[Tensor, "n k"]) -> list[Pair]:
        """The pairs of sites that some variant changes both of, if a score needs pairs."""
        if not self.constructions:
            return []
        changed = (cells != self.wild).float()
        variants_of_pair = changed.T @ changed  # how many variants change both sites, (k, k)
        is_changed = (variants_of_pair > 0).tolist()
        return [(s, t) for s, t in combinations(range(len(self.sites)), 2) if is_changed[s][t]]

    def _single_effects(self) -> Float[Tensor, "k a"]:
        """e_t of each single change."""
        places = torch.tensor(self.sites, device=self.model.device)[:, None]
        parent = torch.tensor([self.ids], device=self.model.device)
        rows = parent.repeat(len(places), 1).scatter_(1, places, self.model.mask_id)
        logits = self.model.logits_at(rows, places)[:, 0, self.allowed]
        log_q = logits.double().log_softmax(-1)
        return log_q - log_q.gather(1, self.wild[:, None])

    def _epistasis(
        self, cells: Int[Tensor, "n k"], singles: Float[Tensor, " n"], add: Callable[[int], None]
    ) -> dict[str, Float[Tensor, " n"]]:
        """The epistasis of each variant, summed over its pairs of sites, by construction.

        singles   gives shape, type and device
        """
        sums = {one.name: torch.zeros_like(singles) for one in self.constructions}
        pairs = self._pairs(cells)
        for start in range(0, len(pairs), TOGETHER):
            group = pairs[start : start + TOGETHER]
            blanks = []
            for s, t in group:
                positions = [self.sites[s], self.sites[t]]
                blanks.append(blanked(self.ids, positions, self.model.mask_id))
            axes = [[self.allowed, self.allowed]] * len(group)
            tables = tables_of(self.model, blanks, axes, torch.float64, supports=axes)
            for (s, t), joints in zip(
                group, derive_blocks(tables, self.constructions), strict=True
            ):
                for joint in joints:
                    table = self._epistasis_of_pair(joint, (s, t))
                    sums[joint.name] += table[cells[:, s], cells[:, t]]
                add(self._passes_per_pair)
        return sums

    def _epistasis_of_pair(self, joint: Joint, pair: Pair) -> Float[Tensor, "a a"]:
        """E_st of all tokens at the two sites; 0 where one of them does not change."""
        first, second = self.wild[list(pair)].tolist()
        table = effects(joint, [first, second])[EPISTASIS].clone()
        table[first] = 0.0
        table[:, second] = 0.0
        return table
