"""Verified sets: several blanks are drafted together, and each token still comes from its
conditional given all tokens before it.

The decoder `least-dependent` chooses a set K of blanks and their order i_1 ... i_m from the
revealed tokens. A round drafts those that are left and verifies all drafts as rows of one call
of the network:

    draft    x_{i_j} ~ d_{i_j} independently; d: the conditionals of the last row that holds
    row j    reveals what is accepted and the first j drafts; p_j: its conditionals
    accept   x_{i_j} with probability min(1, p_{j-1}(x) / d(x)), up to the first rejection;
             that token is drawn again from (p_{j-1} - d)_+, normalised, and the rest of the set
                 is left to the next round

By the identity of speculative sampling (Leviathan, Kalman & Matias 2023) each token is drawn
from p_{j-1}, whatever d is:

    law(x) = prod_t prod_j q(x_{i_j} | x_{S_t}, x_{i_1} ... x_{i_{j-1}}),

a chain rule in an order that depends on revealed tokens only. It sums to 1, and no total
correlation is lost. P(reject j) is the total variation between p_{j-1} and d, so that sets of
little dependence are accepted nearly whole. The last row of a set that is accepted whole
chooses the next set. Where the last token of a set is rejected, a round of one row looks at the
text first.

At temperature 0 a draft is accepted if it is the likeliest token of its row: the text is that
of one token per pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling import registry
from unmask.sampling.decoders.decoder import DecodeState
from unmask.sampling.decoders.revealing import (
    Law,
    LeastDependent,
    Observed,
    RevealingDecoder,
    Tokens,
)
from unmask.sampling.engine.randomness import Number, Randomness
from unmask.sampling.engine.token_draw import Categoricals, Drawn

FEW_TEXTS = 64
"""Sets of so few texts are planned on the processor: a plan is hundreds of small operations,
which a GPU starts one by one.
"""
FEW_ROWS = 256
"""Of texts with so few rows a GPU computes every row that a round may need, so that a round has
one shape and is recorded whole: its two hundred small operations take longer to start than to
run."""


@dataclass
class VerifiedState(DecodeState):
    """Texts being decoded, and what the next round drafts.

    rank     place of each site in its text's set, from 0; the number of sites for those that
             are not in it
    outputs  of the network at every site, from the last row that holds; None before the first pass
    fresh    whether that row reveals all that is accepted
    sets     sets chosen so far;   rounds   calls of the network that each text took part in
    drafts   the tokens that the last round drafted, -1 at other sites
    """

    rank: Int[Tensor, "n F"] = None  # type: ignore[assignment]
    outputs: Float[Tensor, "n F W"] | None = None
    fresh: Bool[Tensor, " n"] = None  # type: ignore[assignment]
    sets: Int[Tensor, " n"] = None  # type: ignore[assignment]
    rounds: Int[Tensor, " n"] = None  # type: ignore[assignment]
    drafts: Int[Tensor, "n F"] | None = None


class Round(NamedTuple):
    """The part of a `VerifiedState` that a round reads and writes."""

    ids: Int[Tensor, "n T"]
    confidence: Float[Tensor, "n F"]
    log_prob: Float[Tensor, " n"]
    rank: Int[Tensor, "n F"]
    outputs: Float[Tensor, "n F W"]
    fresh: Bool[Tensor, " n"]


@dataclass(frozen=True)
class Verified(RevealingDecoder):
    """Drafts sets of blanks and verifies them."""

    options: registry.Verified = registry.Verified()

    @cached_property
    def chooser(self) -> LeastDependent:
        """The decoder that chooses sets."""
        options = registry.LeastDependent(passes=self.options.sets, profile=self.options.profile)
        return LeastDependent(self.target, self.passes, options)

    @property
    def steps(self) -> int:
        """Every second round, at the latest, fills a blank."""
        return 2 * self.target.sites + 1

    @property
    def largest(self) -> int:
        """The most sites that a set has."""
        return -(-self.target.sites // self.chooser.steps)

    def init(self, n: Number, rng: Randomness) -> VerifiedState:
        """n blank texts, none of which has been looked at."""
        plain = self.chooser.init(n, rng)
        none = torch.zeros_like(plain.rows)
        rank = torch.full_like(plain.order, self.target.sites)
        return VerifiedState(
            **vars(plain), rank=rank, fresh=none.bool(), sets=none, rounds=none.clone()
        )

    def choose(self, observed: Observed) -> Bool[Tensor, "n F"]:
        """The set of the other decoder."""
        return self.chooser.choose(observed)

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """One round of all texts that have blanks; the rows that it took for each."""
        assert isinstance(state, VerifiedState)
        state.steps += 1
        state.drafts = None
        blank = self.blank(state)
        left = blank.any(1)
        if not bool(left.any()):
            return state, torch.zeros_like(state.rows)
        sites = torch.arange(self.target.sites, device=left.device)[None]
        draft, accept = rng.uniform(state.rows, sites), rng.uniform(state.rows, sites)
        again = rng.uniform(state.rows, sites[:, :1])
        if state.outputs is None:  # the first pass
            state.outputs = self.passes.outputs(
                state.ids, self.target.free_positions.expand(len(left), -1)
            )
            state.fresh, state.rounds = left.clone(), state.rounds + left
            return state, left.long()
        ready = (state.fresh & left & (state.rank == self.target.sites).all(1)).nonzero().squeeze(1)
        self._choose(state, ready, state.outputs[ready])
        before = Round(*(getattr(state, name) for name in Round._fields))
        if left.is_cuda and len(left) * (self.largest + 1) <= FEW_ROWS:
            every = partial(self._round, everywhere=True)
            *after, state.drafts, rows = self.passes.as_one_call(
                ("round", id(self)), every, (*before, draft, accept, again)
            )
        else:
            *after, state.drafts, rows = self._round(*before, draft, accept, again)
        for name, value in zip(Round._fields, after, strict=True):
            setattr(state, name, value)
        state.rounds = state.rounds + (rows > 0)
        return state, rows

    def reveal(self, state: DecodeState, tokens: Tokens, part: Law) -> None:
        """One token of each text, in the order that the sets give: one pass."""
        assert isinstance(state, VerifiedState)
        texts = self.blank(state).any(1).nonzero().squeeze(1)
        state.steps += 1
        if not len(texts):
            return
        positions = self.target.free_positions.expand(len(texts), -1)
        outputs = self.passes.outputs(state.ids[texts], positions)
        new = (state.rank[texts] == self.target.sites).all(1)
        self._choose(state, texts[new], outputs[new])
        site = state.rank[texts].argmin(1)
        distributions = self.categoricals(
            outputs[torch.arange(len(texts), device=site.device), site], site
        )
        drawn = tokens(texts, distributions, site)
        state.write(self.target, texts, site, drawn)
        state.log_prob = state.log_prob.index_add(0, texts, drawn.log_density)
        state.rank[texts] = torch.where(
            state.rank[texts] < self.target.sites, state.rank[texts] - 1, self.target.sites
        )
        state.rank[texts, site] = self.target.sites
        part.passes[texts] += 1
        part.log_q[texts, site] = drawn.log_density
        part.steps[texts, site] = torch.full_like(texts, state.steps - 1)
        part.entropy[texts, site] = distributions.entropy()

    def _choose(
        self, state: VerifiedState, texts: Int[Tensor, " m"], outputs: Float[Tensor, "m F W"]
    ) -> None:
        """The next set of each of these texts, from conditionals that see all revealed tokens."""
        if not len(texts):
            return
        blank = self.blank(state)[texts]
        entropy = torch.zeros_like(state.confidence[texts])
        row, site = blank.nonzero().unbind(1)
        entropy[row, site] = self.categoricals(outputs[row, site], site).entropy().nan_to_num(0.0)
        planned_on = entropy.device if len(texts) > FEW_TEXTS else torch.device("cpu")
        parts = [
            part.to(planned_on) for part in (state.ids[texts], blank, entropy, state.order[texts])
        ]
        rank, numbers = torch.empty_like(parts[-1]), state.sets[texts].to(planned_on)
        for number in numbers.unique().tolist():
            rows = (numbers == number).nonzero().squeeze(1)
            observed = Observed._make(
                [*(part[rows] for part in parts), number, self.chooser.steps - number]
            )
            rank[rows] = self.chooser.ranked(observed)
        state.rank[texts] = rank.to(entropy.device)
        state.sets[texts] += 1

    def _round(self, *parts: Tensor, everywhere: bool = False) -> tuple[Tensor, ...]:
        """A round of all texts, from what it reads and three uniform numbers: what it writes,
        the drafts, the rows of each text.

        everywhere   every draft and row that there may be is computed, and those that are not
                     needed are not used: all shapes are then known beforehand
        """
        state, (draft_u, accept_u, again_u) = Round(*parts[:-3]), parts[-3:]
        sites, free = self.target.sites, self.target.free_positions
        pending, blank = state.rank < sites, state.ids[:, free] == self.target.model.mask_id
        count, left, more = pending.sum(1), blank.any(1), (blank & ~pending).any(1)
        most = self.largest if everywhere else int(count.max())
        place = torch.arange(most + 1, device=count.device)
        text, site = _pairs(pending, everywhere)
        j, drafted = state.rank[text, site].clamp(max=most), pending[text, site]
        draft = self.categoricals(state.outputs[text, site], site).draw(draft_u[text, site])
        drafts = torch.full_like(state.rank, -1)
        drafts[text, site] = torch.where(drafted, draft.tokens, -1)
        # Row j reveals j drafts. Row 0 is not needed where d came from it, and the last one not
        # where no blank is left.
        needed = (
            (place >= state.fresh.long()[:, None])
            & (place < (count + more)[:, None])
            & left[:, None]
        )
        owner, revealed = _pairs(needed, everywhere)
        ids = state.ids[owner]
        ids[:, free] = torch.where(
            state.rank[owner] < revealed[:, None], drafts[owner], ids[:, free]
        )
        rows = (
            self.passes.outputs(ids, free.expand(len(ids), -1)) if len(ids) else state.outputs[:0]
        )
        number = torch.full_like(needed, -1, dtype=torch.long)
        number[owner, revealed] = torch.where(
            needed[owner, revealed], torch.arange(len(owner), device=owner.device), -1
        )

        def distributions(text: Tensor, row: Tensor, site: Tensor) -> Categoricals:
            """The distributions p of a row; where there is no row, those that d came from."""
            old = state.outputs[text, site]
            return self.categoricals(
                (
                    torch.where((row >= 0)[:, None], rows[row.clamp_min(0), site], old)
                    if len(rows)
                    else old
                ),
                site,
            )

        verified = distributions(text, number[text, j], site)
        numbers = verified.at(draft.tokens)
        accepted = numbers.log_density - draft.log_density > accept_u[text, site].log()
        if self.options.token_temperature == 0:
            accepted = (
                verified.draw(torch.full_like(draft_u[text, site], 0.5)).tokens == draft.tokens
            )
        first = count.scatter_reduce(
            0, text, torch.where(drafted & ~accepted, j, count[text]), "amin"
        )
        self._write(state, text, site, numbers, drafted & (j < first[text]))
        every, site = (
            torch.arange(len(count), device=count.device),
            (state.rank == first[:, None]).byte().argmax(1),
        )
        of_p, of_d = (
            distributions(every, number[every, first], site),
            self.categoricals(state.outputs[every, site], site),
        )
        self._write(
            state, every, site, of_p.at(self._redrawn(of_p, of_d, again_u[:, 0])), first < count
        )
        holds = number.gather(1, first[:, None]).squeeze(1)
        new = (
            torch.where((holds >= 0)[:, None, None], rows[holds.clamp_min(0)], state.outputs)
            if len(rows)
            else state.outputs
        )
        fresh = torch.where(left, (first == count) & (holds >= 0), state.fresh)
        after = pending & (state.rank > first[:, None])
        rank = torch.where(after, state.rank - first[:, None] - 1, sites)
        return (*state[:3], rank, new, fresh, drafts, needed.sum(1))

    def _redrawn(
        self, of_p: Categoricals, of_d: Categoricals, uniform: Float[Tensor, " n"]
    ) -> Int[Tensor, " n"]:
        """Tokens from (p - d)_+; at temperature 0 the likeliest of p."""
        if self.options.token_temperature == 0:
            return of_p.draw(uniform).tokens
        log_p = of_p.log_weights()
        residual = (log_p.exp() - of_d.log_weights().exp()).clamp_min(0).log()
        lost = residual.isneginf().all(1, keepdim=True)  # p = d up to rounding
        return Categoricals.weights(torch.where(lost, log_p, residual)).draw(uniform).tokens

    def _write(
        self, state: Round, text: Tensor, site: Tensor, drawn: Drawn, good: Bool[Tensor, " m"]
    ) -> None:
        """The tokens that are `good`, their confidence and log-probability."""
        at = self.target.free_positions[site]
        state.ids[text, at] = torch.where(good, drawn.tokens, state.ids[text, at])
        sure = (drawn.logit - drawn.log_allowed).exp()
        state.confidence[text, site] = torch.where(good, sure, state.confidence[text, site])
        state.log_prob.index_add_(0, text, torch.where(good, drawn.log_density, 0.0))


def _pairs(
    wanted: Bool[Tensor, "n k"], everywhere: bool
) -> tuple[Int[Tensor, " m"], Int[Tensor, " m"]]:
    """The rows and columns of what is wanted, or of everything."""
    if not everywhere:
        row, column = wanted.nonzero().unbind(1)
        return row, column
    n, k = wanted.shape
    each = torch.arange(n * k, device=wanted.device)
    return each // k, each % k
