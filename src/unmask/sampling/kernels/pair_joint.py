"""Pair moves drawn from a mixture: nine tenths of a joint that is derived from the model's conditionals of the two positions, and
one tenth of the product of the masked distributions.

    mu: a construction (pseudo_gibbs, arnold_gokhale, ...) over C_a x C_b, the likeliest tokens with both positions masked
    g(y) = 0.9 mu(y) + 0.1 m_a(y_a) m_b(y_b),   accepted with min(1, exp((E(x) - E(x')) / T) g(x_ab) / g(y))

The candidate sets, mu, m_a and m_b depend on the rest of the text only, so forward and reverse density are one function g.
mu alone would not do. It is zero outside the candidates, so the chain could not reach those pairs, and where it is very small the
chain would stay for long. With g >= 0.1 m_a m_b every allowed pair can be proposed, and the ratio pi / g, which says how long a
chain stays at a pair, is at most ten times that of a proposal from the product.
With n candidates per position a move costs 2n + 1 passes besides the energy's; all chains share their calls (`laws`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.joints.deriving import derive_blocks
from unmask.sampling import registry
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import Randomness
from unmask.sampling.engine.token_draw import Proposal
from unmask.sampling.kernels.kernel import ChainState
from unmask.sampling.kernels.metropolis import MetropolisKernel, Proposed
from unmask.sampling.target import Target
from unmask.tables.unary import Tables, grouped

PRODUCT_SHARE = 0.1
"""Share of the product in the mixture g."""
ROWS_AT_ONCE = 2048
"""Rows of logits that are held at once."""


class PairLaws(NamedTuple):
    """g of each text: log mu over its candidates, padded to one shape (tokens with -1, cells with -inf), and the product.

    sizes         how many candidates each of the two positions has
    log_weights   log m_a and log m_b
    """

    first: Int[Tensor, "n a"]
    second: Int[Tensor, "n b"]
    log_mu: Float[Tensor, "n a b"]
    sizes: Int[Tensor, "n 2"]
    log_weights: Float[Tensor, "n 2 V"]

    def draw(self, rng: Randomness) -> Int[Tensor, "n 2"]:
        """A pair for each chain: from mu with probability 1 - PRODUCT_SHARE, else from the product."""
        n, _, high = self.log_mu.shape
        rows = torch.arange(n, device=self.sizes.device)
        shares = torch.tensor([log(1 - PRODUCT_SHARE), log(PRODUCT_SHARE)], dtype=torch.float64, device=rows.device)
        component = rng.categorical(rows, shares.expand(n, -1))
        drawn = torch.empty_like(rows.unsqueeze(1).expand(-1, 2))
        from_mu, from_product = (component == 0).nonzero().squeeze(1), (component == 1).nonzero().squeeze(1)
        cell = rng.categorical(from_mu, self.log_mu[from_mu].flatten(1))
        drawn[from_mu, 0] = self.first[from_mu, cell // high]
        drawn[from_mu, 1] = self.second[from_mu, cell % high]
        for j in range(2):
            drawn[from_product, j] = rng.categorical(from_product, self.log_weights[from_product, j])
        return drawn

    def log_density(self, pairs: Int[Tensor, "n 2"]) -> Float[Tensor, " n"]:
        """log g of each chain's pair."""
        rows = torch.arange(len(pairs), device=pairs.device)
        is_first, is_second = self.first == pairs[:, :1], self.second == pairs[:, 1:]
        derived = self.log_mu[rows, is_first.int().argmax(1), is_second.int().argmax(1)]
        derived = torch.where(is_first.any(1) & is_second.any(1), derived, -torch.inf)
        product = self.log_weights.gather(2, pairs.unsqueeze(2)).squeeze(2).sum(1)
        return torch.logaddexp(log(1 - PRODUCT_SHARE) + derived, log(PRODUCT_SHARE) + product)


@dataclass(frozen=True)
class PairJoint(MetropolisKernel):
    """The construction `joint` over the `candidates` likeliest tokens of each position, mixed with the product."""

    options: registry.PairJoint = registry.PairJoint()

    def propose(self, state: ChainState, rng: Randomness, sites: Int[Tensor, "n 2"]) -> Proposed:
        """A pair of tokens at a pair of sites of each chain."""
        positions = self.target.free_positions[sites]
        masked = state.ids.scatter(1, positions, self.target.model.mask_id)
        logits = self.passes.logits(masked, positions)
        laws = self.laws(masked, positions, logits, proposal_weights(self.target, self.proposal, logits, sites))
        drawn = laws.draw(rng)
        log_ratio = laws.log_density(state.ids.gather(1, positions)) - laws.log_density(drawn)
        return Proposed(drawn, log_ratio, 1 + laws.sizes.sum(1))

    def laws(
        self,
        masked: Int[Tensor, "n T"],
        positions: Int[Tensor, "n 2"],
        logits: Float[Tensor, "n 2 V"],
        log_weights: Float[Tensor, "n 2 V"],
    ) -> PairLaws:
        """g of each chain, mu over the likeliest tokens of `log_weights`, whose finite cells are the support.

        Both tables of every text come from passes that all texts share, stay on the model's device, and are solved side by side
        (`derive_blocks`): texts with the same numbers of candidates share every operation, and no text's numbers depend on
        others.

        masked   the texts with their pair masked;   logits   the model's at the pair
        """
        support = log_weights > -torch.inf
        best = log_weights.topk(min(self.options.candidates, log_weights.shape[2]), -1)
        possible = best.values > -torch.inf
        tokens = torch.where(possible, best.indices, log_weights.shape[2]).sort(-1).values
        sizes = possible.sum(-1)
        listed = sizes.tolist()
        first, second = (torch.full((len(listed), max(column)), -1, device=masked.device) for column in zip(*listed, strict=True))
        log_mu = torch.full((*first.shape, second.shape[1]), -torch.inf, dtype=torch.float64, device=masked.device)
        for members in grouped(listed, tuple):
            a, b = listed[members[0]]
            rows = torch.tensor(members, device=masked.device)
            axes = tokens[rows, 0, :a], tokens[rows, 1, :b]
            tables = _tables(self.passes, masked[rows], positions[rows], logits[rows], support[rows], axes)
            first[rows, :a], second[rows, :b] = axes
            log_mu[rows, :a, :b] = torch.stack([joint.dense() for (joint,) in derive_blocks(tables, [self.options.joint])])
        return PairLaws(first, second, log_mu, sizes, log_weights)


def proposal_weights(
    target: Target, proposal: Proposal, logits: Float[Tensor, "n k V"], sites: Int[Tensor, "n k"]
) -> Float[Tensor, "n k V"]:
    """The proposal's log-probabilities at the block's sites."""
    return proposal.log_weights(logits.flatten(0, 1), target.support[sites.flatten()]).unflatten(0, sites.shape)


def _tables(
    passes: Passes,
    masked: Int[Tensor, "n T"],
    positions: Int[Tensor, "n 2"],
    logits: Float[Tensor, "n 2 V"],
    support: Bool[Tensor, "n 2 V"],
    axes: tuple[Int[Tensor, "n a"], Int[Tensor, "n b"]],
) -> list[Tables]:
    """The tables of each text; all texts have the same numbers of candidates."""
    first, second = (_conditionals(passes, masked, positions, support[:, t], axes, t) for t in range(2))
    log_m = [torch.where(support, logits.double(), -torch.inf)[:, t].log_softmax(-1).gather(1, axes[t]) for t in range(2)]
    inside = torch.stack([m.logsumexp(-1) for m in log_m], 1).tolist()
    log_m = [m.log_softmax(-1) for m in log_m]
    by_column = [part.transpose(1, 2) for part in first]
    return [
        Tables(
            candidates=(axes[0][i], axes[1][i]),
            log_q=(by_column[0][i], second[0][i]),
            log_inside=(by_column[1][i], second[1][i]),
            log_total=(by_column[2][i], second[2][i]),
            log_masked=(log_m[0][i], log_m[1][i]),
            log_masked_inside=tuple(inside[i]),
        )
        for i in range(len(masked))
    ]


def _conditionals(
    passes: Passes,
    masked: Int[Tensor, "n T"],
    positions: Int[Tensor, "n 2"],
    support: Bool[Tensor, "n V"],
    axes: Sequence[Int[Tensor, "n _"]],
    t: int,
) -> tuple[Float[Tensor, "n o c"], Float[Tensor, "n o 1"], Float[Tensor, "n o 1"]]:
    """Of position t given each candidate of the other: log q within its candidates, their log mass, their logits' total."""
    other, n, count = axes[1 - t], len(masked), axes[1 - t].shape[1]
    where = positions[:, 1 - t].reshape(n, 1, 1).expand(-1, count, -1)
    texts = masked.unsqueeze(1).repeat(1, count, 1).scatter(2, where, other.unsqueeze(2)).flatten(0, 1)
    predict, wanted = (value.repeat_interleave(count, 0) for value in (positions[:, t : t + 1], axes[t]))
    text = torch.arange(n, device=masked.device).repeat_interleave(count)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for start in range(0, len(texts), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        logits = torch.where(support[text[part]], passes.logits(texts[part], predict[part])[:, 0].double(), -torch.inf)
        log_p = logits.log_softmax(-1)
        total = logits.amax(-1, keepdim=True) - log_p.amax(-1, keepdim=True)
        chosen = log_p.gather(1, wanted[part])
        mass = chosen.logsumexp(-1, keepdim=True)
        parts.append((chosen - mass, mass, total + mass))
    log_q, mass, total = (torch.cat(column).unflatten(0, (n, count)) for column in zip(*parts, strict=True))
    return log_q, mass, total
