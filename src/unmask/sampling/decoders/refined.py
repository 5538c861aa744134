"""A draw by the chain rule, refined by a geometric number of Gibbs steps: the near-compatible family at alpha = 1, by sampling.

    x ~ c, the chain rule in an order drawn uniformly from all of them;
    n with P(n) = lambda (1 - lambda)^n;   n times: a blank at random is drawn again from its conditional

    law   mu = sum_n lambda (1 - lambda)^n c P^n,   that is   mu = lambda c + (1 - lambda) mu P,

P the random-scan Gibbs step: the construction `family:1,LAMBDA`. A text of F blanks costs F + (1 - lambda) / lambda passes on
average, so lambda has a least value (`unmask.options.sampling`).
The draws are independent, so nothing has to mix. For two blanks the probability of each draw is known. It comes from the tables
of the pair over the allowed tokens: two passes per token, once for all draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.joints.arnold_gokhale import family
from unmask.joints.joint import Joint
from unmask.options.sampling import RESTART
from unmask.sampling.decoders.decoder import DecodeInfo, Decoder, DecodeState
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.kernels.proposal import Proposal
from unmask.sampling.target import Target
from unmask.tables.kept import kept_with_first
from unmask.tables.unary import unary_tables

PAIR = 2


@dataclass(frozen=True)
class Refined(Decoder):
    """`restart` is lambda: 1 leaves the chain rule, near 0 the draws follow pseudo-Gibbs."""

    restart: float = 0.1

    def __post_init__(self) -> None:
        RESTART.check("restart", self.restart)

    @property
    def exact(self) -> bool:
        """Whether the probability of a draw is known."""
        return self.target.sites == PAIR and not len(self.target.given)

    @property
    def steps(self) -> int:
        """One for each blank, and one that refines."""
        return self.target.sites + 1

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        state = DecodeState.blank(self.target, n)
        state.order = rng.permutation(state.rows, self.target.sites)
        return state

    def step(self, state: DecodeState, rng: Randomness) -> DecodeInfo:
        """Fill the next blank of each text's order; when all are filled, refine."""
        rows, before = state.rows, state.steps
        state.steps += 1
        if before < self.target.sites:
            site = state.order[:, before]
            self._redraw(state, rows, site, rng)
            return DecodeInfo(torch.nn.functional.one_hot(site, self.target.sites).bool(), torch.ones_like(rows))
        filled, passes = torch.zeros_like(state.confidence, dtype=torch.bool), self.refinements(rows, rng)
        left = passes.clone()
        while len(going := left.nonzero().squeeze(1)):
            filled[going, self.gibbs(state, going, rng)] = True
            left[going] -= 1
        if self.exact:
            state.log_prob = self.log_prob(state.ids)
        return DecodeInfo(filled, passes)

    def refinements(self, rows: Int[Tensor, " m"], rng: Randomness) -> Int[Tensor, " m"]:
        """n with P(n >= j) = (1 - lambda)^j: log u / log(1 - lambda), rounded down."""
        if self.restart == 1:
            return torch.zeros_like(rows)
        return (rng.log_uniform(rows) / log1p(-self.restart)).floor().long()

    def gibbs(self, state: DecodeState, rows: Int[Tensor, " m"], rng: Randomness) -> Int[Tensor, " m"]:
        """Draw one random blank of each of `rows` again; one pass per text."""
        site = rng.integers(rows, self.target.sites)
        self._redraw(state, rows, site, rng)
        return site

    def _redraw(self, state: DecodeState, rows: Int[Tensor, " m"], site: Int[Tensor, " m"], rng: Randomness) -> None:
        position = self.target.free_positions[site]
        ids = state.ids[rows].scatter(1, position.unsqueeze(1), self.target.model.mask_id)
        kept = self.passes.conditionals(ids, position.unsqueeze(1))[:, 0]
        drawn = rng.tokens(rows, self.passes.proposals(kept, self.target, Proposal(), site, torch.zeros_like(site)))
        state.ids[rows, position] = drawn.tokens
        state.confidence[rows, site] = drawn.log_density.exp()

    def log_prob(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        """log mu of given texts, of two blanks."""
        if not self.exact:
            raise InputError(f"the probability of a refined draw is known for 2 blanks, not {self.target.sites}: leave it out")
        self.target.check(ids)
        return _law(self.target, self.restart).log_prob(ids[:, self.target.free_positions]).double()


@kept_with_first
def _law(target: Target, restart: float) -> Joint:
    """`family:1,restart` over the allowed tokens, whose chain draws each token among those allowed."""
    positions = tuple(target.free_positions.tolist())
    allowed = [mask.nonzero().squeeze(1) for mask in target.support]
    tables = unary_tables(target.model, Cloze(tuple(target.template_ids.tolist()), positions), allowed, support=allowed)
    return family(tables, 1.0, restart, tolerance=1e-12 if tables.log_q[0].dtype == torch.float64 else 1e-6)
