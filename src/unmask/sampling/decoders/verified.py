"""Verified sets: several blanks are drafted together, and each token still comes from its conditional given all tokens before it.

Another decoder chooses a set K of blanks from the revealed tokens; i_1 ... i_m are its sites, lowest entropy first. A round
drafts those that are left and verifies all drafts as rows of one call of the network:

    draft    x_{i_j} ~ d_{i_j} independently; d: the conditionals of the last row that holds
    row j    reveals what is accepted and the first j drafts; p_j: its conditionals
    accept   x_{i_j} with probability min(1, p_{j-1}(x) / d(x)), up to the first rejection;
             that token is drawn again from (p_{j-1} - d)_+, normalised, and the rest of the set is left to the next round

By the identity of speculative sampling (Leviathan, Kalman & Matias 2023) each token is drawn from p_{j-1}, whatever d is:

    law(x) = prod_t prod_j q(x_{i_j} | x_{S_t}, x_{i_1} ... x_{i_{j-1}}),

a chain rule in an order that depends on revealed tokens only. It sums to 1, and no total correlation is lost. P(reject j) is the
total variation between p_{j-1} and d, so that sets of little dependence are accepted nearly whole. The last row of a set that is
accepted whole chooses the next set. Where the last token of a set is rejected, a round of one row looks at the text first.

At temperature 0 a draft is accepted if it is the likeliest token of its row: the text is that of one token per pass.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.sampling import registry
from unmask.sampling.decoders.decoder import DecodeState
from unmask.sampling.decoders.revealing import Law, RevealingDecoder, Seen, Tokens
from unmask.sampling.engine.randomness import Drawn, Randomness

FEW_TEXTS = 64
"""Sets of so few texts are planned on the processor: a plan is hundreds of small operations, which a GPU starts one by one."""


@dataclass
class VerifiedState(DecodeState):
    """Texts being decoded, and what the next round drafts.

    rank     place of each site in its text's set, from 0; the number of sites for those that are not in it
    kept     conditionals of every site, of the last row that holds
    fresh    whether that row reveals all that is accepted
    sets     sets chosen so far;   rounds   calls of the network that each text took part in
    drafts   the tokens that the last round drafted, -1 at other sites
    """

    rank: Int[Tensor, "n F"] = None  # type: ignore[assignment]
    kept: Float[Tensor, "n F W"] | None = None
    fresh: Bool[Tensor, " n"] = None  # type: ignore[assignment]
    sets: Int[Tensor, " n"] = None  # type: ignore[assignment]
    rounds: Int[Tensor, " n"] = None  # type: ignore[assignment]
    drafts: Int[Tensor, "n F"] | None = None


@dataclass(frozen=True)
class Verified(RevealingDecoder):
    """Drafts sets of blanks and verifies them."""

    options: registry.Verified = registry.Verified()

    @cached_property
    def chooser(self) -> RevealingDecoder:
        """The decoder that chooses sets."""
        method = registry.KERNELS[self.options.sets]
        own = {field.name for field in fields(method)} & {"profile"}
        options = {"passes": self.options.passes, **{name: getattr(self.options, name) for name in own}}
        chosen = method(**options)  # type: ignore[arg-type]
        decoder: RevealingDecoder = chosen.on(self.target, self.passes)
        return decoder

    @property
    def steps(self) -> int:
        """Every second round, at the latest, fills a blank."""
        return 2 * self.target.sites + 1

    def init(self, n: int, rng: Randomness) -> VerifiedState:
        """n blank texts, none of which has been looked at."""
        plain = self.chooser.init(n, rng)
        none = torch.zeros_like(plain.rows)
        rank = torch.full_like(plain.order, self.target.sites)
        return VerifiedState(**vars(plain), rank=rank, fresh=none.bool(), sets=none, rounds=none.clone())

    def choose(self, seen: Seen) -> Bool[Tensor, "n F"]:
        """The set of the other decoder."""
        return self.chooser.choose(seen)

    def step(self, state: DecodeState, rng: Randomness) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """One round of all texts that have blanks; the rows that it took for each."""
        assert isinstance(state, VerifiedState)
        state.steps += 1
        state.drafts = None
        blank = self.blank(state)
        if not bool(blank.any()):
            return state, torch.zeros_like(state.rows)
        sites = self.target.sites
        if state.kept is not None:
            ready = (state.fresh & blank.any(1) & (state.rank == sites).all(1)).nonzero().squeeze(1)
            self._choose(state, ready, state.kept[ready])
        pending = state.rank < sites
        text, site = pending.nonzero().unbind(1)
        rank = state.rank[text, site]
        kept = (
            torch.zeros((0, self.target.model.vocab_size), device=site.device) if state.kept is None else state.kept[text, site]
        )
        draft = rng.tokens(text, self.conditionals(kept, site), site)
        state.drafts = torch.full_like(state.rank, -1).index_put_((text, site), draft.tokens)
        log_u = rng.log_uniform(text, site)
        index, rows = self._rows(state, blank)
        row, own = index[text, rank], kept  # without a row, d came from the row itself: p = d
        if len(text):
            own = torch.where((row >= 0)[:, None], rows[row.clamp_min(0), site], kept) if len(rows) else kept
        verified = self.conditionals(own, site)
        numbers = verified.at(draft.tokens)
        likeliest = verified.draw(torch.full_like(log_u, 0.5)).tokens if self.options.heat == 0 else None
        accepted = numbers.log_density - draft.log_density > log_u if likeliest is None else likeliest == draft.tokens
        count = pending.sum(1)
        first = count.scatter_reduce(0, text, torch.where(accepted, count[text], rank), "amin")
        good = rank < first[text]
        self._write(state, text[good], site[good], Drawn(*(part[good] for part in numbers)))
        self._redraw(state, rng, text, site, rank == first[text], kept, verified)
        self._hold(state, blank, first, count, index, rows)
        return state, (index >= 0).sum(1)

    def reveal(self, state: DecodeState, tokens: Tokens, part: Law) -> None:
        """One token of each text, in the order that the sets give: one pass."""
        assert isinstance(state, VerifiedState)
        texts = self.blank(state).any(1).nonzero().squeeze(1)
        state.steps += 1
        if not len(texts):
            return
        every = self.target.free_positions.expand(len(texts), -1)
        kept = self.passes.conditionals(state.ids[texts], every)
        new = (state.rank[texts] == self.target.sites).all(1)
        self._choose(state, texts[new], kept[new])
        site = state.rank[texts].argmin(1)
        conditionals = self.conditionals(kept[torch.arange(len(texts), device=site.device), site], site)
        drawn = tokens(texts, conditionals, site)
        self._write(state, texts, site, drawn)
        state.rank[texts] = torch.where(state.rank[texts] < self.target.sites, state.rank[texts] - 1, self.target.sites)
        state.rank[texts, site] = self.target.sites
        part.passes[texts] += 1
        part.log_q[texts, site], part.special[texts, site] = drawn.log_density, drawn.log_all - drawn.log_allowed
        part.steps[texts, site] = torch.full_like(texts, state.steps - 1)
        part.entropy[texts, site] = conditionals.certainty()[0]

    def _choose(self, state: VerifiedState, texts: Int[Tensor, " m"], kept: Float[Tensor, "m F W"]) -> None:
        """The next set of each of these texts, from conditionals that see all revealed tokens, lowest entropy first."""
        if not len(texts):
            return
        blank = self.blank(state)[texts]
        entropy, confidence = torch.zeros_like(state.confidence[texts]), torch.ones_like(state.confidence[texts])
        row, site = blank.nonzero().unbind(1)
        entropy[row, site], confidence[row, site] = self.conditionals(kept[row, site], site).certainty().nan_to_num(0.0)
        planned_on = entropy.device if len(texts) > FEW_TEXTS else torch.device("cpu")
        parts = [one.to(planned_on) for one in (state.ids[texts], blank, entropy, confidence, state.order[texts])]
        chosen, numbers = parts[1].clone(), state.sets[texts].to(planned_on)
        for number in numbers.unique().tolist():
            here = (numbers == number).nonzero().squeeze(1)
            if (left := self.chooser.steps - number) > 1:
                chosen[here] &= self.choose(Seen._make([*(one[here] for one in parts), number, left]))
        chosen = chosen.to(entropy.device)
        rank = torch.where(chosen, entropy, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
        state.rank[texts] = torch.where(chosen, rank, self.target.sites)
        state.sets[texts] += 1

    def _rows(self, state: VerifiedState, blank: Bool[Tensor, "n F"]) -> tuple[Int[Tensor, "n J"], Float[Tensor, "r F W"]]:
        """Row j of each text that this round needs: its number among all rows, -1 for none, and the conditionals of the rows.

        Row 0 is not needed where d came from it, and the last one not where no blank is left.
        """
        assert state.drafts is not None
        pending = state.rank < self.target.sites
        count, more = pending.sum(1), (blank & ~pending).any(1)
        j = torch.arange(self.target.sites + 1, device=count.device)
        needed = (j >= state.fresh.long()[:, None]) & (j < (count + more.long())[:, None]) & blank.any(1)[:, None]
        owner, revealed = needed.nonzero().unbind(1)
        ids = state.ids[owner]
        values = ids[:, self.target.free_positions]
        ids[:, self.target.free_positions] = torch.where(state.rank[owner] < revealed[:, None], state.drafts[owner], values)
        every = self.target.free_positions.expand(len(ids), -1)
        rows = self.passes.conditionals(ids, every) if len(ids) or state.kept is None else state.kept[:0]
        index = torch.full_like(needed, -1, dtype=torch.long)
        index[owner, revealed] = torch.arange(len(owner), device=owner.device)
        state.rounds += needed.any(1)
        return index, rows

    def _redraw(
        self, state: VerifiedState, rng: Randomness, text: Tensor, site: Tensor, rejected: Tensor, kept: Tensor, verified: object
    ) -> None:
        """The first rejected token of each text, from (p - d)_+; at temperature 0 the likeliest of p."""
        at = rejected.nonzero().squeeze(1)
        of_p = self.conditionals(verified.kept[at], site[at])  # type: ignore[attr-defined]
        log_p, log_d = of_p.log_weights(), self.conditionals(kept[at], site[at]).log_weights()
        if self.options.heat == 0:
            tokens = of_p.draw(torch.full_like(site[at], 0.5, dtype=torch.float64)).tokens
            rng.categorical(text[at], log_p)  # the same calls whatever the temperature
        else:
            residual = (log_p.exp() - log_d.exp()).clamp_min(0).log()
            lost = residual.isneginf().all(1, keepdim=True)  # p = d up to rounding
            tokens = rng.categorical(text[at], torch.where(lost, log_p, residual))
        self._write(state, text[at], site[at], of_p.at(tokens))

    def _hold(
        self,
        state: VerifiedState,
        blank: Bool[Tensor, "n F"],
        first: Int[Tensor, " n"],
        count: Int[Tensor, " n"],
        index: Int[Tensor, "n J"],
        rows: Float[Tensor, "r F W"],
    ) -> None:
        """What the next round drafts from, and which sites: those after the first rejection."""
        sites = self.target.sites
        holds = index.gather(1, first[:, None]).squeeze(1)
        if state.kept is None:
            state.kept = rows.new_zeros((len(state.ids), *rows.shape[1:]))
        texts = (holds >= 0).nonzero().squeeze(1)
        state.kept[texts] = rows[holds[texts]]
        state.fresh = torch.where(blank.any(1), (first == count) & (holds >= 0), state.fresh)
        after = (state.rank < sites) & (state.rank > first[:, None])
        state.rank = torch.where(after, state.rank - first[:, None] - 1, sites)

    def _write(self, state: VerifiedState, text: Tensor, site: Tensor, drawn: Drawn) -> None:
        state.write(self.target, text, site, drawn)
        state.log_prob = state.log_prob.index_add(0, text, drawn.log_density)
