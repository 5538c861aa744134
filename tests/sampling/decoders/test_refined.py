"""Refined draws: the law of the decoder's own code is family:1,LAMBDA, and its draws have the probabilities that it states."""

from math import exp

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_cases import CachedPairJoint, gap_to_invariance, of, small_target, strictly_positive_joint
from scipy.stats import chi2

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.joints.arnold_gokhale import family
from unmask.models.tabular import TabularMLM
from unmask.sampling.decoders.ancestral import Refined
from unmask.sampling.decoders.decoder import DecodeState, decode
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.enumeration import CERTAIN, ScriptedChoices, all_texts, target_law, transition_matrix
from unmask.sampling.kernels.pair_joint import proposal_weights
from unmask.sampling.target import Target
from unmask.tables.unary import unary_tables

EXACT = 1e-12


def law_of_code(play, starts, target):
    """P[x, y]: `play(state, rng)` run under every outcome of its choices, from each of the texts `starts`."""
    texts = all_texts(target)
    where = {tuple(text): place for place, text in enumerate(texts.tolist())}
    rows, scripts = list(range(len(starts))), [[] for _ in starts]
    while True:
        state = DecodeState.blank(target, len(rows))
        state.ids = starts[torch.tensor(rows)].clone()
        rng = ScriptedChoices(scripts, torch.full((len(rows), 1), CERTAIN, dtype=torch.float64))
        play(state, rng)
        if not rng.open:
            break
        grown = [
            (row, [*script, *outcome])
            for place, (row, script) in enumerate(zip(rows, scripts, strict=True))
            for outcome in ([[o] for o in rng.open[place]] if place in rng.open else [[]])
        ]
        rows, scripts = [row for row, _ in grown], [script for _, script in grown]
    matrix = torch.zeros((len(starts), len(texts)), dtype=torch.float64)
    for row, end, log_prob in zip(rows, state.ids.tolist(), rng.log_prob.tolist(), strict=True):
        matrix[row, where[tuple(end)]] += exp(log_prob)
    return matrix


def law_of(decoder):
    """lambda c (1 - (1 - lambda) P)^-1, c and P from the decoder's own code."""
    target = decoder.target

    def chain_rule(state, rng):
        begun = decoder.init(len(state.ids), rng)
        for _ in range(target.sites):
            begun, _ = decoder.step(begun, rng)
        state.ids = begun.ids

    (start,) = law_of_code(chain_rule, target.template_ids[None], target)
    step = law_of_code(lambda state, rng: decoder.gibbs(state, state.rows, rng), all_texts(target), target)
    system = torch.eye(len(step), dtype=torch.float64) - (1 - decoder.options.restart) * step.T
    return torch.linalg.solve(system, decoder.options.restart * start)


def construction(target, member):
    cloze = Cloze(tuple(target.template_ids.tolist()), tuple(target.free_positions.tolist()))
    return family(unary_tables(target.model, cloze), *member, tolerance=1e-13).dense().exp().flatten()


@settings(max_examples=6)
@given(st.sampled_from([(4, 2), (2, 3)]), st.integers(0, 999), st.sampled_from([0.05, 0.3, 1.0]))
def test_the_law_of_the_code_is_the_family_at_alpha_one(size, seed, restart):
    target = small_target(*size, seed=seed)
    law = law_of(of(Refined, target, restart=restart))
    assert float(law.sum()) == pytest.approx(1, abs=EXACT)
    assert float((law - construction(target, (1.0, restart))).abs().max()) < EXACT
    if restart < 1:
        assert float((law - construction(target, (1.0, restart / 2))).abs().max()) > 1e-6
        assert float((law - construction(target, (0.9, restart))).abs().max()) > 1e-6


def test_of_a_pair_inside_its_text_with_constraints_the_probability_is_that_of_the_code():
    model = TabularMLM.random(5, 3, 9)
    model.special_ids = (0,)
    target = Target(model, [5, 2, 5], allowed={2: [1, 3, 4]})
    decoder = of(Refined, target, restart=0.2)
    stated = decoder.log_prob(all_texts(target)).exp()
    assert len(stated) == 12 and float((stated - law_of(decoder)).abs().max()) < EXACT
    cloze = Cloze((5, 2, 5), (0, 2))
    cut = [torch.tensor([1, 2, 3, 4]), torch.tensor([1, 3, 4])]
    whole_chain = family(unary_tables(model, cloze, cut), 1.0, 0.2, tolerance=1e-13).dense().exp().flatten()
    assert float((stated - whole_chain).abs().max()) > 1e-5, "control: a chain that is restricted at its end is another one"


def test_compatible_conditionals_give_their_joint():
    joint = strictly_positive_joint(3, 3, 2)
    target = small_target(model=TabularMLM.from_joint(joint))
    law = law_of(of(Refined, target, restart=0.3))
    assert float((law - joint.flatten()).abs().max()) < EXACT


def test_draws_follow_the_law_and_state_their_probability():
    """Pearson's chi-square over all texts; the laws of the chain rule and of pseudo-Gibbs are refused."""
    n, target = 8_000, small_target(4, 2, seed=6)
    decoder = of(Refined, target, restart=0.3)
    state, passes = decode(decoder, n, ChainStreams(3, range(n)).at(0, 0))
    assert float(passes.double().mean()) == pytest.approx(2 + 0.7 / 0.3, abs=0.15)
    assert torch.equal(state.log_prob, decoder.log_prob(state.ids))
    seen = torch.bincount(state.ids @ torch.tensor([4, 1]), minlength=16)

    def tail(law):
        return chi2.sf(float(((seen - n * law) ** 2 / (n * law)).sum()), df=15)

    assert tail(decoder.log_prob(all_texts(target)).exp()) > 1e-3
    assert tail(construction(target, (1.0, 1.0))) < 1e-6
    assert tail(construction(target, (1.0, 0.0))) < 1e-6


class StatesTheChain(CachedPairJoint):
    """Wrong: proposes refined pairs, and states the density of the chain rule alone."""

    def propose(self, state, rng, sites):
        move, chain = super().propose(state, rng, sites), of(CachedPairJoint, self.target, joint="chain", candidates=3)
        positions = self.target.free_positions[sites]
        masked = state.ids.scatter(1, positions, self.target.model.mask_id)
        logits = self.passes.logits(masked, positions)
        log_weights = proposal_weights(self.target, self.proposal, logits, sites)
        stated = chain.laws(masked, positions, logits, log_weights)
        return move._replace(log_ratio=stated.log_density(state.ids.gather(1, positions)) - stated.log_density(move.tokens))


def test_refined_pairs_as_a_proposal_keep_the_target_with_their_own_density_only():
    target = small_target(seed=3)
    right, wrong = (
        transition_matrix(of(kernel, target, joint="family:1,0.2", candidates=3), torch.tensor([2, 0]))
        for kernel in (CachedPairJoint, StatesTheChain)
    )
    assert gap_to_invariance(target_law(target), right) < EXACT
    assert gap_to_invariance(target_law(target), wrong) > 1e-4


@pytest.mark.parametrize("restart", [0.0, 1.2, float("nan")])
def test_a_restart_that_is_no_probability_is_refused(restart):
    with pytest.raises(InputError, match="restart"):
        of(Refined, small_target(), restart=restart)


def test_the_probability_of_three_blanks_is_not_known():
    decoder = of(Refined, small_target())
    assert not decoder.exact
    with pytest.raises(InputError, match="2 blanks, not 3"):
        decoder.log_prob(all_texts(decoder.target))
