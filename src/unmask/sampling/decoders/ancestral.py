"""Any-order ancestral sampling: fill one blank after the other, each given all that is filled, the rest masked.

    p(x | order s_1 ... s_F) = prod_j q(x_{s_j} | x_{s_<j}; the rest masked)

A proper distribution over the texts, whose log-probability comes with each draw: F independent samples cost F^2 passes and
need no chain. It depends on the order, because no joint has all of these conditionals.

Refined draws go on from there with a geometric number of Gibbs steps: the near-compatible family at alpha = 1, by sampling.

    x ~ c, the chain rule in an order drawn uniformly from all of them;
    n with P(n) = lambda (1 - lambda)^n;   n times: a blank at random is drawn again from its conditional

    law   mu = sum_n lambda (1 - lambda)^n c P^n,   that is   mu = lambda c + (1 - lambda) mu P,

P the random-scan Gibbs step: the construction `family:1,LAMBDA`. A text of F blanks costs F + (1 - lambda) / lambda passes on
average, so lambda has a least value.
The draws are independent, so nothing has to mix. For two blanks the probability of each draw is known. It comes from the tables
of the pair over the allowed tokens: two passes per token, once for all draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log1p

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.joints.arnold_gokhale import family
from unmask.joints.joint import Joint
from unmask.sampling import registry
from unmask.sampling.decoders.decoder import Decoder, DecodeState
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.engine.token_draw import Conditionals, Drawn, Proposal
from unmask.sampling.target import Target
from unmask.tables.revealing import kept_with_first
from unmask.tables.unary import unary_tables

PAIR = 2


@dataclass(frozen=True)
class ChainRule(Decoder):
    """One blank per step, in a random order that is drawn for each text."""

    @cached_property
    def proposal(self) -> Proposal:
        """The distribution that tokens are drawn from."""
        return Proposal()

    @property
    def steps(self) -> int:
        """One for each free position."""
        return self.target.sites

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        state = super().init(n, rng)
        state.order = rng.permutation(state.rows, self.target.sites)
        return state

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill the next site of each text's order; one pass per text."""
        site = state.order[:, state.steps]
        state.log_prob = state.log_prob + self.redraw(state, state.rows, site, rng).log_density
        state.steps += 1
        return state, torch.ones_like(site)

    def redraw(self, state: DecodeState, rows: Int[Tensor, " m"], site: Int[Tensor, " m"], rng: Randomness) -> Drawn:
        """Draw one site of each of the texts `rows`, given their other tokens; one pass per text."""
        drawn = rng.tokens(rows, self.conditionals(state.ids[rows], site))
        state.write(self.target, rows, site, drawn)
        return drawn

    def conditionals(self, ids: Int[Tensor, "m T"], site: Int[Tensor, " m"]) -> Conditionals:
        """The conditional of one site of each text."""
        kept = self.passes.alone(ids, self.target.free_positions[site])
        return self.passes.proposals(kept, self.target, self.proposal, site, torch.zeros_like(site))


@dataclass(frozen=True)
class Ancestral(ChainRule):
    """The chain rule in a random order, or in a fixed one."""

    options: registry.Ancestral = registry.Ancestral()

    @cached_property
    def proposal(self) -> Proposal:
        return Proposal(self.options.proposal_temperature, self.options.top_k)

    @property
    def exact(self) -> bool:
        return True

    def init(self, n: int, rng: Randomness) -> DecodeState:
        """n blank texts and their orders."""
        if self.options.order == "random":
            return super().init(n, rng)
        state = DecodeState.blank(self.target, n)
        if self.options.order == "right-to-left":
            state.order = state.order.flip(1)
        return state

    def log_prob(self, ids: Int[Tensor, "n T"], order: Int[Tensor, "n F"]) -> Float[Tensor, " n"]:
        """log p(x | order) of given texts; F passes per text."""
        self.target.check(ids)
        rows = torch.arange(len(ids), device=ids.device)
        visible = ids.index_fill(1, self.target.free_positions, self.target.model.mask_id)
        total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
        for site in order.T:
            position = self.target.free_positions[site]
            tokens = ids[rows, position]
            total += self.conditionals(visible, site).at(tokens).log_density
            visible[rows, position] = tokens
        return total


@dataclass(frozen=True)
class Refined(ChainRule):
    """`restart` is lambda: 1 leaves the chain rule, near 0 the draws follow pseudo-Gibbs."""

    options: registry.Refined = registry.Refined()

    @property
    def exact(self) -> bool:
        """Whether the probability of a draw is known."""
        return self.target.sites == PAIR and not len(self.target.given)

    @property
    def steps(self) -> int:
        """One for each blank, and one that refines."""
        return self.target.sites + 1

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """Fill the next blank of each text's order; when all are filled, refine."""
        if state.steps < self.target.sites:
            return super().step(state, rng)
        state.steps += 1
        passes = self.refinements(state.rows, rng)
        left = passes.clone()
        while len(going := left.nonzero().squeeze(1)):
            self.gibbs(state, going, rng)
            left[going] -= 1
        if self.exact:
            state.log_prob = self.log_prob(state.ids)
        return state, passes

    def refinements(self, rows: Int[Tensor, " m"], rng: Randomness) -> Int[Tensor, " m"]:
        """n with P(n >= j) = (1 - lambda)^j: log u / log(1 - lambda), rounded down."""
        if self.options.restart == 1:
            return torch.zeros_like(rows)
        return (rng.log_uniform(rows) / log1p(-self.options.restart)).floor().long()

    def gibbs(self, state: DecodeState, rows: Int[Tensor, " m"], rng: Randomness) -> None:
        """Draw one random blank of each of `rows` again; one pass per text."""
        self.redraw(state, rows, rng.integers(rows, self.target.sites), rng)

    def log_prob(self, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
        """log mu of given texts, of two blanks."""
        if not self.exact:
            raise InputError(f"the probability of a refined draw is known for 2 blanks, not {self.target.sites}: leave it out")
        self.target.check(ids)
        return _law(self.target, self.options.restart).log_prob(ids[:, self.target.free_positions]).double()


@kept_with_first
def _law(target: Target, restart: float) -> Joint:
    """`family:1,restart` over the allowed tokens, whose chain draws each token among those allowed."""
    positions = tuple(target.free_positions.tolist())
    allowed = [mask.nonzero().squeeze(1) for mask in target.support]
    tables = unary_tables(target.model, Cloze(tuple(target.template_ids.tolist()), positions), allowed, support=allowed)
    return family(tables, 1.0, restart, tolerance=1e-12 if tables.log_q[0].dtype == torch.float64 else 1e-6)
