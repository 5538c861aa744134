"""What is said of fillings from some of the passes, against enumeration of all fillings."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.joint_cases import every_filling
from unmask.common.cloze import Cloze
from unmask.models.tabular import TabularMLM
from unmask.tables.conditionals import Conditionals
from unmask.tables.exploration import HIDDEN, Exploration, Variant


@st.composite
def explored(draw):
    """A random model, one or two variants of a text of four tokens, and an exploration of some
    of its states.
    """
    vocab = draw(st.integers(2, 3))
    model = TabularMLM.random(
        vocab, 4, seed=draw(st.integers(0, 999)), scale=draw(st.sampled_from([0.5, 2.0, 4.0]))
    )
    blocks = draw(
        st.lists(
            st.sampled_from([(0,), (2, 1), (0, 1, 3), (3, 2, 1, 0)]),
            min_size=1,
            max_size=2,
            unique=True,
        )
    )
    variants = [
        Variant(Cloze(tuple(vocab if t in b else 0 for t in range(4)), b), weight=1 / len(blocks))
        for b in blocks
    ]
    states = Exploration(Conditionals(model), variants)
    for _ in range(draw(st.integers(0, 12))):
        waiting = [
            s
            for s, passed in zip(states.states, states.passed, strict=True)
            if not passed and HIDDEN in s
        ]
        if waiting:
            states.reveal(draw(st.lists(st.sampled_from(waiting), min_size=1, max_size=3)))
    return model, variants, states


@settings(max_examples=60)
@given(explored(), st.data())
def test_flow_is_below_and_the_bound_above_whatever_has_been_passed(case, data):
    model, variants, states = case
    p = every_filling(model, variants)
    for state, flow in zip(states.states, states.flow, strict=True):
        if HIDDEN not in state:
            assert flow <= p[state] + 1e-12
    leaves = [n for n, s in enumerate(states.states) if not states.passed[n]]
    if len(leaves) < len(states.states) and all(states.passed[root] for root in states.roots):
        assert float(states.flow[leaves].sum()) == pytest.approx(1, abs=1e-12)
    whole = [n for n, s in enumerate(states.states) if HIDDEN not in s]
    aside = data.draw(st.lists(st.sampled_from(whole), unique=True)) if whole else []
    others = [value for state, value in p.items() if state not in {states.states[n] for n in aside}]
    assert states.bound(np.array(aside, dtype=np.int64)) >= max(others, default=0) - 1e-12


@settings(max_examples=30)
@given(explored())
def test_a_filling_whose_states_are_all_passed_has_its_exact_probability(case):
    model, variants, states = case
    p = every_filling(model, variants)
    for filling in list(p)[:: max(1, len(p) // 5)]:
        states.reveal(states.missing(filling))
        assert states.missing(filling) == []
        assert states.log_probs([filling])[0] == pytest.approx(np.log(p[filling]), abs=1e-12)


def test_tokens_that_are_not_allowed_leave_the_bound_and_keep_their_probability():
    model = TabularMLM.random(4, 2, seed=7, scale=2.0)
    allowed = (torch.tensor([True, True, False, False]), None)
    variant = Variant(Cloze((4, 4), (0, 1)), allowed=allowed)
    states = Exploration(Conditionals(model), [variant])
    states.reveal([(0, HIDDEN, HIDDEN)])
    states.reveal([s for s in states.states if HIDDEN in s and s[1] != 2 and s[1] != 3])
    p = every_filling(model, [variant])
    inside = {s: v for s, v in p.items() if s[1] < 2}
    bound = states.bound(np.array([], dtype=np.int64))
    assert bound >= max(inside.values()) - 1e-12
    for filling in inside:
        states.reveal(states.missing(filling))
        assert states.log_probs([filling])[0] == pytest.approx(np.log(p[filling]), abs=1e-12)
    numbers = np.array([states.number(filling) for filling in inside])
    assert states.bound(numbers) == 0
    free = Exploration(Conditionals(model), [Variant(variant.cloze)])
    free.reveal([(0, HIDDEN, HIDDEN)])
    free.reveal([s for s in free.states if HIDDEN in s])
    assert free.bound(np.array([free.number(filling) for filling in inside])) > 0


@pytest.mark.parametrize("most", [1, 3, 6, 9])
def test_the_moves_of_a_state_are_its_likeliest_allowed_tokens(most):
    model = TabularMLM.random(6, 2, seed=5, scale=2.0)
    allowed = torch.tensor([True, True, False, True, True, False])
    variant = Variant(Cloze((6, 6), (0, 1)), allowed=(None, allowed))
    states = Exploration(Conditionals(model), [variant])
    root = (0, HIDDEN, HIDDEN)
    states.reveal([root])
    log_q = model.logits(torch.tensor([[6, 6]]), torch.tensor([[0, 1]]))[0].double().log_softmax(-1)
    for site, tokens in ((0, range(6)), (1, [0, 1, 3, 4])):
        best = sorted(tokens, key=lambda token: -float(log_q[site, token]))[:most]
        moves = states.moves(root, site, most)
        assert [after[site + 1] for _, after in moves] == best
        assert all(after[2 - site] == HIDDEN for _, after in moves)
        values = [float(log_q[site, token]) for token in best]
        assert [value for value, _ in moves] == pytest.approx(values, abs=1e-6)


def test_a_site_without_a_possible_token_is_the_least_sure():
    model = TabularMLM.random(4, 3, seed=7, scale=2.0)
    allowed = (torch.zeros(4, dtype=torch.bool), None, None)
    variant = Variant(Cloze((4, 4, 4), (0, 1, 2)), allowed=allowed)
    states = Exploration(Conditionals(model), [variant])
    root = (0, HIDDEN, HIDDEN, HIDDEN)
    states.reveal([root])
    assert states.moves(root, 0, 1) == []
    best = {site: states.moves(root, site, 1)[0][0] for site in (1, 2)}
    assert states.surest(root) == [*sorted(best, key=best.get, reverse=True), 0]
