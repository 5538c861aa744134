"""Verified sets: several blanks are drafted together, and each token still comes from its
conditional given all tokens before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from unmask.common.lazy import torch
from unmask.common.methods.method import method
from unmask.sampling.decoders.decoder import OWN_LAW, DecodeState, Steps, blank_sites
from unmask.sampling.decoders.least_dependent import LeastDependent, Profiled
from unmask.sampling.decoders.revealing import Law, Observed, Revealing, Tokens

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
    from torch import Tensor

    from unmask.sampling.engine.randomness import Randomness
    from unmask.sampling.engine.token_draw import Categoricals, Drawn
    from unmask.sampling.on_target import DecoderOnTarget

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


@method
class Verified(Profiled, Revealing):
    """A new text: sets of blanks drafted together, verified, and drawn again from the first
    rejection on.

        draft    x_{i_j} ~ d_{i_j} independently; d: the conditionals of the last row that holds
        row j    reveals what is accepted and the first j drafts; p_j: its conditionals
        accept   x_{i_j} with probability min(1, p_{j-1}(x) / d(x)), up to the first rejection;
                 that token is drawn again from (p_{j-1} - d)_+, normalised, and the rest of the set
                     is left to the next round

    The decoder `least-dependent` chooses a set K of blanks and their order i_1 ... i_m from the
    revealed tokens. A round drafts those that are left and verifies all drafts as rows of one call
    of the network. By the identity of speculative sampling (Leviathan, Kalman & Matias 2023) each
    token is drawn from p_{j-1}, whatever d is:

        law(x) = prod_t prod_j q(x_{i_j} | x_{S_t}, x_{i_1} ... x_{i_{j-1}}),

    a chain rule in an order that depends on revealed tokens only. It sums to 1, and no total
    correlation is lost. P(reject j) is the total variation between p_{j-1} and d, so that sets of
    little dependence are accepted nearly whole. The last row of a set that is accepted whole
    chooses the next set. Where the last token of a set is rejected, a round of one row looks at the
    text first.

    Sets that are verified lose nothing by dependence and need no plan: each begins with the surest
    blank and goes on with those that depend least on it. Their order loses less than that of the
    plan's sets. At temperature 0 a draft is accepted if it is the likeliest token of its row: the
    text is that of one token per pass.

    Parameters:
        sets: Of verified: sets that a whole text is drafted in.

    >>> decoder = unmask.Verified(sets=2)
    >>> generation = unmask.generate("A [MASK] [MASK] sat.", decoder=decoder, n_texts=2)
    >>> generation.settings.decoder.name, len(generation.texts)
    ('verified', 2)
    """

    name = "verified"
    label = "verified sets"
    colour = "#225522"
    place = 14
    step_passes = "about 2 T rows in T / 3 rounds"
    law = OWN_LAW
    verdict = (
        "Independent draws with exact log-probabilities (at temperature 0 the law is one text); no"
        " chain, so nothing has to mix. The law is that of one token per pass, in the order of the"
        " sets: nothing is lost by drafting together."
    )
    chooses = "one token, in the order of sets that are drafted together and verified"
    one_by_one = True
    parts = "sets"
    sets: Steps = 4

    def conditionals_at_once(self, sites: int) -> int:
        """Every row of a set has those of all sites."""
        largest = -(-sites // self.sets)
        return sites * (largest + 2)

    def prepare(self, on: DecoderOnTarget) -> DecoderOnTarget:
        """The decoder that chooses sets."""
        return LeastDependent(passes=self.sets, profile=self.profile).on(on.target, on.passes)

    def steps(self, on: DecoderOnTarget) -> int:
        """Every second round, at the latest, fills a blank."""
        return 2 * on.target.sites + 1

    def largest(self, on: DecoderOnTarget) -> int:
        """The most sites that a set has."""
        sets: int = on.prepared.steps
        return -(-on.target.sites // sets)

    def init(self, on: DecoderOnTarget, n: int, rng: Randomness) -> VerifiedState:
        """n blank texts, none of which has been looked at."""
        plain = DecodeState.blank(on.target, n)
        none = torch.zeros_like(plain.rows)
        rank = torch.full_like(plain.order, on.target.sites)
        return VerifiedState(
            **vars(plain), rank=rank, fresh=none.bool(), sets=none, rounds=none.clone()
        )

    def choose(self, on: DecoderOnTarget, observed: Observed) -> Bool[Tensor, "n F"]:
        """The set of the other decoder."""
        chosen: Tensor = on.prepared.method.choose(on.prepared, observed)
        return chosen

    def step(
        self, on: DecoderOnTarget, state: DecodeState, rng: Randomness
    ) -> tuple[DecodeState, Int[Tensor, " n"]]:
        """One round of all texts that have blanks; the rows that it took for each."""
        assert isinstance(state, VerifiedState)
        state.steps += 1
        state.drafts = None
        left = blank_sites(on, state).any(1)
        if not bool(left.any()):
            return state, torch.zeros_like(state.rows)
        sites = torch.arange(on.target.sites, device=left.device)[None]
        draft = rng.uniform(state.rows, sites)
        accept = rng.uniform(state.rows, sites)
        again = rng.uniform(state.rows, sites[:, :1])
        if state.outputs is None:  # the first pass
            positions = on.target.free_positions.expand(len(left), -1)
            state.outputs = on.passes.outputs(state.ids, positions)
            state.fresh = left.clone()
            state.rounds = state.rounds + left
            return state, left.long()
        has_no_set = (state.rank == on.target.sites).all(1)
        ready = (state.fresh & left & has_no_set).nonzero().squeeze(1)
        self._choose(on, state, ready, state.outputs[ready])
        before = Round(*(getattr(state, name) for name in Round._fields))
        if left.is_cuda and len(left) * (self.largest(on) + 1) <= FEW_ROWS:
            every = partial(self._round, on, everywhere=True)
            *after, state.drafts, rows = on.passes.as_one_call(
                ("round", id(on)), every, (*before, draft, accept, again)
            )
        else:
            *after, state.drafts, rows = self._round(on, *before, draft, accept, again)
        for name, value in zip(Round._fields, after, strict=True):
            setattr(state, name, value)
        state.rounds = state.rounds + (rows > 0)
        return state, rows

    def reveal(self, on: DecoderOnTarget, state: DecodeState, tokens: Tokens, part: Law) -> None:
        """One token of each text, in the order that the sets give: one pass."""
        assert isinstance(state, VerifiedState)
        sites = on.target.sites
        texts = blank_sites(on, state).any(1).nonzero().squeeze(1)
        state.steps += 1
        if not len(texts):
            return
        positions = on.target.free_positions.expand(len(texts), -1)
        outputs = on.passes.outputs(state.ids[texts], positions)
        new = (state.rank[texts] == sites).all(1)
        self._choose(on, state, texts[new], outputs[new])
        site = state.rank[texts].argmin(1)
        row = torch.arange(len(texts), device=site.device)
        distributions = self.categoricals(on, outputs[row, site], site)
        drawn = tokens(texts, distributions, site)
        state.write(on.target, texts, site, drawn)
        state.log_prob = state.log_prob.index_add(0, texts, drawn.log_density)
        rank = state.rank[texts]
        state.rank[texts] = torch.where(rank < sites, rank - 1, sites)
        state.rank[texts, site] = sites
        part.passes[texts] += 1
        part.log_q[texts, site] = drawn.log_density
        part.steps[texts, site] = torch.full_like(texts, state.steps - 1)
        part.entropy[texts, site] = distributions.entropy()

    def _choose(
        self,
        on: DecoderOnTarget,
        state: VerifiedState,
        texts: Int[Tensor, " m"],
        outputs: Float[Tensor, "m F W"],
    ) -> None:
        """The next set of each of these texts, from conditionals that see all revealed tokens."""
        if not len(texts):
            return
        chooser = on.prepared
        blank = blank_sites(on, state)[texts]
        entropy = torch.zeros_like(state.confidence[texts])
        row, site = blank.nonzero().unbind(1)
        conditionals = self.categoricals(on, outputs[row, site], site)
        entropy[row, site] = conditionals.entropy().nan_to_num(0.0)
        planned_on = entropy.device
        if len(texts) <= FEW_TEXTS:
            planned_on = torch.device("cpu")
        ids = state.ids[texts].to(planned_on)
        blank = blank.to(planned_on)
        entropy_there = entropy.to(planned_on)
        order = state.order[texts].to(planned_on)
        numbers = state.sets[texts].to(planned_on)
        rank = torch.empty_like(order)
        for number in numbers.unique().tolist():
            rows = (numbers == number).nonzero().squeeze(1)
            observed = Observed(
                ids=ids[rows],
                blank=blank[rows],
                entropy=entropy_there[rows],
                order=order[rows],
                step=number,
                passes_left=chooser.steps - number,
            )
            rank[rows] = chooser.method.ranked(chooser, observed)
        state.rank[texts] = rank.to(entropy.device)
        state.sets[texts] += 1

    def _round(
        self, on: DecoderOnTarget, *parts: Tensor, everywhere: bool = False
    ) -> tuple[Tensor, ...]:
        """A round of all texts, from what it reads and three uniform numbers: what it writes,
        the drafts, the rows of each text.

        everywhere   every draft and row that there may be is computed, and those that are not
                     needed are not used: all shapes are then known beforehand
        """
        state = Round(*parts[:-3])
        draft_u, accept_u, again_u = parts[-3:]
        sites = on.target.sites
        free = on.target.free_positions
        pending = state.rank < sites
        blank = state.ids[:, free] == on.target.model.mask_id
        count = pending.sum(1)
        left = blank.any(1)
        more = (blank & ~pending).any(1)
        most = self.largest(on) if everywhere else int(count.max())
        place = torch.arange(most + 1, device=count.device)
        text, site = _pairs(pending, everywhere)
        j = state.rank[text, site].clamp(max=most)
        drafted = pending[text, site]
        drafting = self.categoricals(on, state.outputs[text, site], site)
        draft = drafting.draw(draft_u[text, site])
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
        if len(ids):
            rows = on.passes.outputs(ids, free.expand(len(ids), -1))
        else:
            rows = state.outputs[:0]
        number = torch.full_like(needed, -1, dtype=torch.long)
        number[owner, revealed] = torch.where(
            needed[owner, revealed], torch.arange(len(owner), device=owner.device), -1
        )

        def distributions(text: Tensor, row: Tensor, site: Tensor) -> Categoricals:
            """The distributions p of a row; where there is no row, those that d came from."""
            outputs = state.outputs[text, site]
            if len(rows):
                has_row = (row >= 0)[:, None]
                outputs = torch.where(has_row, rows[row.clamp_min(0), site], outputs)
            return self.categoricals(on, outputs, site)

        verified = distributions(text, number[text, j], site)
        numbers = verified.at(draft.tokens)
        accepted = numbers.log_density - draft.log_density > accept_u[text, site].log()
        if self.token_temperature == 0:
            any_number = torch.full_like(draft_u[text, site], 0.5)  # the likeliest needs none
            accepted = verified.draw(any_number).tokens == draft.tokens
        first = count.scatter_reduce(
            0, text, torch.where(drafted & ~accepted, j, count[text]), "amin"
        )
        _write(on, state, text, site, numbers, good=drafted & (j < first[text]))
        every = torch.arange(len(count), device=count.device)
        site = (state.rank == first[:, None]).byte().argmax(1)  # of the first rejection
        of_p = distributions(every, number[every, first], site)
        of_d = self.categoricals(on, state.outputs[every, site], site)
        redrawn = of_p.at(self._redrawn(of_p, of_d, again_u[:, 0]))
        _write(on, state, every, site, redrawn, good=first < count)
        holds = number.gather(1, first[:, None]).squeeze(1)
        new = state.outputs
        if len(rows):
            holds_any = (holds >= 0)[:, None, None]
            new = torch.where(holds_any, rows[holds.clamp_min(0)], state.outputs)
        fresh = torch.where(left, (first == count) & (holds >= 0), state.fresh)
        after = pending & (state.rank > first[:, None])
        rank = torch.where(after, state.rank - first[:, None] - 1, sites)
        return (*state[:3], rank, new, fresh, drafts, needed.sum(1))

    def _redrawn(
        self, of_p: Categoricals, of_d: Categoricals, uniform: Float[Tensor, " n"]
    ) -> Int[Tensor, " n"]:
        """Tokens from (p - d)_+; at temperature 0 the likeliest of p."""
        if self.token_temperature == 0:
            return of_p.draw(uniform).tokens
        log_p = of_p.log_weights()
        residual = (log_p.exp() - of_d.log_weights().exp()).clamp_min(0).log()
        lost = residual.isneginf().all(1, keepdim=True)  # p = d up to rounding
        from unmask.sampling.engine.token_draw import Categoricals

        weights = Categoricals.weights(torch.where(lost, log_p, residual))
        return weights.draw(uniform).tokens


def _write(
    on: DecoderOnTarget,
    state: Round,
    text: Int[Tensor, " m"],
    site: Int[Tensor, " m"],
    drawn: Drawn,
    good: Bool[Tensor, " m"],
) -> None:
    """The tokens that are `good`, their confidence and log-probability."""
    at = on.target.free_positions[site]
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
