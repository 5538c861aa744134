"""The best-first search against brute force over all fillings."""

from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.joint_cases import every_filling
from unmask.common.cloze import Cloze
from unmask.joints.chain_search import EXACT_SITES, search_fillings
from unmask.models.tabular import TabularMLM
from unmask.tables.conditionals import Conditionals
from unmask.tables.exploration import MOST_LISTED, Variant
from unmask.tables.lattice import lattice


def blank(vocab, sites):
    """A text of blanks only."""
    return Cloze((vocab,) * sites, tuple(range(sites)))


def brute_force(model, variants):
    """(probability, variant, tokens) of all fillings, best first."""
    return sorted(
        ((p, state[0], state[1:]) for state, p in every_filling(model, variants).items()),
        reverse=True,
    )


SHAPES = [(30, 2, 45), (9, 3, 150), (5, 4, 350), (4, 3, 50)]
"""Tokens, blanks, and the passes allowed: of the 61, 271, 671 and 61 states that there are."""


def test_a_hundred_random_models_have_their_true_top_ten_or_it_is_not_called_certain():
    right = sure = 0
    for seed in range(100):
        vocab, sites, budget = SHAPES[seed % 4]
        model = TabularMLM.random(vocab, sites, seed, scale=[2.0, 4.0, 8.0][seed % 3])
        variants = [Variant(blank(vocab, sites))]
        search = search_fillings(Conditionals(model), variants, top=10, passes=budget)
        expected = brute_force(model, variants)
        p = {tokens: value for value, _, tokens in expected}
        for filling in search.fillings:
            assert exp(filling.log_prob) == pytest.approx(p[filling.tokens], rel=1e-9)
        assert search.mass <= 1 + 1e-12
        assert search.passes <= budget
        certain = search.fillings[: search.certain]
        assert [f.tokens for f in certain] == [
            tokens for _, _, tokens in expected[: search.certain]
        ]
        assert (search.stopped == "passes") == (search.certain < 10)
        sure += search.certain >= 10
        right += [f.tokens for f in search.fillings[:10]] == [
            tokens for _, _, tokens in expected[:10]
        ]
    assert right >= 80
    assert sure >= 45


@settings(max_examples=30)
@given(st.integers(0, 999), st.integers(1, 40), st.integers(1, 6), st.floats(0.1, 0.9))
def test_variants_weights_and_budgets(seed, budget, top, weight):
    model = TabularMLM.random(3, 4, seed, scale=2.0)
    variants = [
        Variant(Cloze((3, 0, 1, 2), (0,)), weight),
        Variant(Cloze((3, 3, 0, 2), (1, 0)), (1 - weight) / 2),
        Variant(Cloze((0, 3, 3, 3), (1, 2, 3)), (1 - weight) / 2),
    ]
    search = search_fillings(Conditionals(model), variants, top=top, passes=budget)
    expected = brute_force(model, variants)
    p = {(variant, tokens): value for value, variant, tokens in expected}
    assert sum(p.values()) == pytest.approx(1, abs=1e-12)
    seen = {(f.variant, f.tokens) for f in search.fillings}
    assert len(seen) == len(search.fillings)
    for f in search.fillings:
        assert exp(f.log_prob) == pytest.approx(p[f.variant, f.tokens], rel=1e-9)
    assert search.mass <= 1 + 1e-12
    assert (
        search.bound
        >= max((value for key, value in p.items() if key not in seen), default=0) - 1e-12
    )


def test_everything_is_found_when_the_passes_suffice():
    model = TabularMLM.random(3, 3, seed=1)
    search = search_fillings(Conditionals(model), [Variant(blank(3, 3))], top=1000, passes=1000)
    assert search.stopped == "exhausted"
    assert search.passes == 1 + 9 + 27
    assert len(search.fillings) == search.certain == 27
    assert search.mass == pytest.approx(1, abs=1e-12)
    assert search.bound == 0


@settings(max_examples=20)
@given(st.integers(0, 999), st.sampled_from([(60, 1), (25, 2), (9, 3)]), st.floats(3.0, 40.0))
def test_every_filling_is_listed_if_all_are_asked_for(seed, shape, scale):
    """Most moves of these models have a flow far below the least that is listed at first."""
    vocab, sites = shape
    model = TabularMLM.random(vocab, sites, seed, scale=scale)
    variants = [Variant(blank(vocab, sites))]
    expected = {tokens: p for p, _, tokens in brute_force(model, variants)}
    search = search_fillings(Conditionals(model), variants, top=vocab**sites + 1, passes=10_000)
    p = {filling.tokens: exp(filling.log_prob) for filling in search.fillings}
    assert p == pytest.approx(expected, rel=1e-9)
    assert (search.stopped, search.bound) == ("exhausted", 0)


def test_all_fillings_of_one_blank_take_one_pass():
    model = TabularMLM.random(2000, 1, seed=4, scale=5.0)
    search = search_fillings(Conditionals(model), [Variant(blank(2000, 1))], top=1500, passes=1)
    p = sorted((p for p, _, _ in brute_force(model, [Variant(blank(2000, 1))])), reverse=True)
    assert search.passes == 1
    assert [exp(filling.log_prob) for filling in search.fillings[:1500]] == pytest.approx(
        p[:1500], rel=1e-9
    )


def test_a_gap_between_likely_and_unlikely_tokens_is_crossed():
    """As many tokens are likely as are listed at first; the next is 22,000 times less so."""
    likely, vocab = MOST_LISTED, MOST_LISTED + 44
    logits = torch.zeros(1, vocab + 1, vocab, dtype=torch.float64)
    logits[..., likely:] = -torch.arange(10.0, 10 * (vocab - likely) + 1, 10)
    rounds = []

    def watched(*_):
        rounds.append(None)
        assert len(rounds) < 500, "the search goes on without finding anything"

    search = search_fillings(
        Conditionals(TabularMLM(logits)), [Variant(blank(vocab, 1))], mass=1.0, progress=watched
    )
    assert (search.stopped, len(search.fillings), search.passes) == ("exhausted", vocab, 1)


def test_a_search_that_may_list_no_more_says_so(monkeypatch):
    monkeypatch.setattr("unmask.tables.exploration.MOST_STATES", 600)
    model = TabularMLM.random(2000, 1, seed=4, scale=5.0)
    search = search_fillings(Conditionals(model), [Variant(blank(2000, 1))], top=2000)
    p = sorted((p for p, _, _ in brute_force(model, [Variant(blank(2000, 1))])), reverse=True)
    assert search.stopped == "memory"
    assert p[len(search.fillings)] <= search.bound * (1 + 1e-9) < 1e-6


def test_a_mass_is_reached_and_not_much_more():
    model = TabularMLM.random(4, 4, seed=6, scale=2.0)
    low = search_fillings(Conditionals(model), [Variant(blank(4, 4))], passes=10_000, mass=0.3)
    high = search_fillings(Conditionals(model), [Variant(blank(4, 4))], passes=10_000, mass=0.9)
    assert low.stopped == high.stopped == "mass"
    assert 0.3 <= low.mass < 0.9 <= high.mass
    assert low.passes < high.passes


def test_only_what_is_accepted_is_found_and_bounded():
    model = TabularMLM.random(4, 3, seed=9, scale=2.0)
    variants = [Variant(blank(4, 3))]
    search = search_fillings(
        Conditionals(model), variants, passes=10_000, accept=lambda _, tokens: sum(tokens) % 2 == 0
    )
    expected = [row for row in brute_force(model, variants) if sum(row[2]) % 2 == 0][:10]
    assert [f.tokens for f in search.fillings[:10]] == [tokens for _, _, tokens in expected]
    assert search.certain >= 10


def test_wanted_fillings_that_no_move_leads_to():
    """So many tokens that the wanted ones are not among the likeliest, and one of them allowed
    nowhere.
    """
    model = TabularMLM.random(40, 2, seed=3, scale=6.0)
    allowed = torch.zeros(40, dtype=torch.bool)
    allowed[:20] = True
    variants = [Variant(blank(40, 2), allowed=(allowed, allowed))]
    truth = {tokens: p for p, _, tokens in brute_force(model, variants)}
    wanted = [min(truth, key=truth.__getitem__), (39, 39)]
    search = search_fillings(
        Conditionals(model), variants, top=3, passes=50, wanted=[(0, *tokens) for tokens in wanted]
    )
    p = {f.tokens: exp(f.log_prob) for f in search.fillings}
    assert p[wanted[0]] == pytest.approx(truth[wanted[0]], rel=1e-9)
    assert p[wanted[1]] == pytest.approx(truth[wanted[1]], rel=1e-9)


def test_many_blanks_are_sampled_with_an_error_that_holds(tiny):
    cloze = Cloze((2, *[4] * (EXACT_SITES + 2), 3), tuple(range(1, EXACT_SITES + 3)))
    conditionals = Conditionals(tiny)
    search = search_fillings(conditionals, [Variant(cloze)], top=3, passes=600, seed=3)
    assert not search.exact
    assert search.certain == 0
    assert len(search.fillings) >= 3
    texts = torch.tensor([cloze.filled(f.tokens) for f in search.fillings])
    exact = lattice(
        conditionals, texts, torch.tensor([cloze.block]).expand(len(texts), -1)
    ).log_mean
    off = [
        (f.log_prob - float(e)) / f.standard_error
        for f, e in zip(search.fillings, exact, strict=True)
    ]
    assert max(map(abs, off)) < 4.5
    assert all(f.standard_error > 0 for f in search.fillings)


def test_sampled_orders_keep_to_their_passes_and_to_the_weights_of_readings():
    """With weights of 0.99 and 0.01, a weight with the wrong sign is off by nine nats."""
    sites, budget = EXACT_SITES + 1, 400
    model = TabularMLM.random(2, sites, seed=4, scale=0.5)
    variants = [Variant(blank(2, sites), 0.99), Variant(blank(2, sites), 0.01)]
    wanted = [(1, *[0] * sites)]
    conditionals = Conditionals(model)
    search = search_fillings(conditionals, variants, top=4, passes=budget, wanted=wanted, seed=1)
    truth = every_filling(model, variants)
    assert not search.exact
    assert {filling.variant for filling in search.fillings} == {0, 1}
    for filling in search.fillings:
        off = filling.log_prob - log(truth[filling.variant, *filling.tokens])
        assert abs(off) < 4.5 * filling.standard_error < 2
    assert budget / 2 < search.passes <= budget


def test_tokens_that_are_ruled_out_have_no_mass_found():
    model = TabularMLM.random(5, 3, seed=8, scale=2.0)
    allowed = torch.tensor([True, True, False, True, False])
    variants = [Variant(blank(5, 3), allowed=(allowed, None, allowed))]
    total = sum(p for p, _, x in brute_force(model, variants) if allowed[x[0]] and allowed[x[2]])
    early = search_fillings(Conditionals(model), variants, top=2, passes=10)
    late = search_fillings(Conditionals(model), variants, top=1000, passes=1000)
    assert early.mass < total
    assert late.mass == pytest.approx(total, abs=1e-10)


def test_enough_passes_make_more_than_eight_blanks_exact():
    model = TabularMLM.random(2, EXACT_SITES + 1, seed=4, scale=2.0)
    variants = [Variant(blank(2, EXACT_SITES + 1))]
    states = 10 * (2 ** (EXACT_SITES + 1) - 1)  # of ten fillings, however many are asked for
    expected = brute_force(model, variants)
    search = search_fillings(Conditionals(model), variants, top=1, passes=states)
    assert search.exact
    truth = {tokens: p for p, _, tokens in expected}
    assert all(exp(f.log_prob) == pytest.approx(truth[f.tokens], rel=1e-9) for f in search.fillings)
    assert not search_fillings(Conditionals(model), variants, top=1, passes=states - 1).exact


def test_the_product_of_a_text_with_several_readings_counts_the_weight_of_its_own():
    model = TabularMLM.random(3, 2, seed=4, scale=2.0)
    variants = [Variant(blank(3, 2), 0.8), Variant(blank(3, 2), 0.2)]
    search = search_fillings(Conditionals(model), variants, top=18, passes=100)
    masked = (
        model.logits(torch.tensor([[3, 3]]), torch.tensor([[0, 1]]))[0].double().log_softmax(-1)
    )
    assert {filling.variant for filling in search.fillings} == {0, 1}
    for filling in search.fillings:
        product = variants[filling.variant].weight * exp(
            sum(float(masked[t, token]) for t, token in enumerate(filling.tokens))
        )
        assert exp(filling.product_log_prob) == pytest.approx(product, rel=1e-9)
