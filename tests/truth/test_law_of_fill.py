"""What decides the law of `fill` is what it says.

Filters come after the joint: they change no bit over a table, and nothing beyond rounding over a
search. `given` is the joint's conditional. Nothing joins the candidates.
"""

from itertools import product
from math import exp, log

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unmask
from support.constructions import NAMES
from support.drawn_models import FEW, Law, drawn
from unmask.common.errors import InputError
from unmask.joints import kept_fillings
from unmask.tables.rounding import Rounding

WORDS = ["a", "b", "ab", "."]
TEXTS = ["a [MASK] [MASK] b", "[MASK] ab [MASK]", "[MASK] [MASK] [MASK] ."]
NINE = "a" + " [MASK]" * 9
SLOW = settings(
    max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@st.composite
def tables(draw):
    """A model, a text, a construction, and filters on its blanks."""
    model = drawn(FEW, Law(seed=draw(st.integers(0, 10**6)), scale=draw(st.sampled_from([1, 4]))))
    text = draw(st.sampled_from(TEXTS))
    filters = {"top": draw(st.integers(1, 400))}
    if draw(st.booleans()):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
        filters["allow"] = {draw(st.integers(1, text.count("[MASK]"))): words}
    if draw(st.booleans()):
        filters["forbid"] = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2))
    return model, text, draw(st.sampled_from(NAMES)), filters


def passes(filters, tokens):
    """Whether a filling passes the filters, read from their meaning."""
    is_forbidden = any(token in filters.get("forbid", ()) for token in tokens)
    allowed = filters.get("allow", {})
    return not is_forbidden and all(tokens[number - 1] in allowed[number] for number in allowed)


def changed_by_filters(model, text, construction, filters):
    """The fillings of which a filter changes the log-probability, or the place."""
    options = {"model": model, "construction": construction, "candidates": "all"}
    free = unmask.fill(text, top=10**4, **options)
    before = {c.tokens: (c.log_prob, c.product_log_prob) for c in free.completions}
    left = [tokens for tokens in before if passes(filters, tokens)]
    after = unmask.fill(text, **options, **filters).completions
    wrong = [c.tokens for c in after if before[c.tokens] != (c.log_prob, c.product_log_prob)]
    best = sorted((before[tokens][0] for tokens in left), reverse=True)[: filters["top"]]
    if [c.log_prob for c in after] != best or not {c.tokens for c in after} <= set(left):
        wrong.append("the best that pass")
    return wrong


@SLOW
@given(tables())
def test_filters_over_a_table_change_no_probability(question):
    model, text, construction, filters = question
    try:
        assert changed_by_filters(model, text, construction, filters) == []
    except InputError as error:
        assert "loosen them" in str(error)


def test_a_filter_before_the_joint_is_seen(monkeypatch):
    """The negative control: probabilities given that the filter passes."""
    model = drawn(FEW, Law(seed=1, scale=1.0))
    right = kept_fillings.KeptFillings.most_probable

    def renormalised(self, n):
        tokens, log_probs = right(self, n)
        _, every = right(self, len(self))
        return tokens, log_probs - every.logsumexp(0)

    question = (model, TEXTS[0], "mrf", {"top": 5, "allow": {1: ["a", "b"]}})
    assert changed_by_filters(*question) == []
    monkeypatch.setattr(kept_fillings.KeptFillings, "most_probable", renormalised)
    assert len(changed_by_filters(*question)) >= 5


@SLOW
@given(tables())
def test_the_rank_of_an_answer_is_its_place_in_the_table(question):
    model, text, construction, filters = question
    options = {"model": model, "construction": construction, "candidates": 3}
    free = unmask.fill(text, top=10**4, **options)
    left = {c.tokens: c.log_prob for c in free.completions if passes(filters, c.tokens)}
    named = list(left)[::7][:4]
    if not named:
        return
    answers = [" / ".join(tokens) for tokens in named]
    found = unmask.fill(text, answers=answers, **options, **filters).answers
    assert len(found) == len(named)
    highest = max(left[tokens] for tokens in named)
    for answer in found:
        log_prob = left[answer.tokens]
        above = sum(other > log_prob for other in left.values())
        equal = sum(other == log_prob for other in left.values())
        assert answer.log_prob == log_prob
        assert answer.rank == (above + 1, above + equal)
        assert answer.odds == pytest.approx(exp(log_prob - highest))


@SLOW
@given(tables(), st.data())
def test_given_is_the_conditional_of_the_joint(question, data):
    model, text, construction, _ = question
    options = {"model": model, "construction": construction, "candidates": "all", "top": 10**4}
    free = unmask.fill(text, **options)
    blanks = text.count("[MASK]")
    number = data.draw(st.integers(1, blanks))
    word = data.draw(st.sampled_from(WORDS))
    log_mu = {c.tokens: c.log_prob for c in free.completions}
    with_word = {tokens: value for tokens, value in log_mu.items() if tokens[number - 1] == word}
    log_mass = log(sum(exp(value) for value in with_word.values()))
    conditional = unmask.fill(text, given={number: word}, **options)
    assert {c.tokens: c.log_prob for c in conditional.completions} == pytest.approx(
        {tokens: value - log_mass for tokens, value in with_word.items()}, abs=2e-5
    )
    assert sum(exp(c.product_log_prob) for c in conditional.completions) == pytest.approx(
        1, abs=1e-4
    )
    assert f"given {word!r} at blank {number}" in conditional.summary()


def test_given_leaves_the_joint_as_it_is():
    model = drawn(FEW, Law(seed=2, scale=2.0))
    free = unmask.fill(TEXTS[0], model, candidates="all")
    conditional = unmask.fill(TEXTS[0], model, candidates="all", given={1: "a"})
    assert torch.equal(free.joint.dense(), conditional.joint.dense())
    (row,) = [c for c in conditional.joint.tables.candidates[0].tolist() if model.token(c) == "a"]
    of_joint = conditional.joint.conditional(1, [row])
    assert [exp(c.log_prob) for c in conditional.completions[:3]] == pytest.approx(
        of_joint.topk(3).values.tolist(), abs=1e-6
    )


@pytest.mark.parametrize(
    "filters",
    [
        {"top": 3},
        {"top": 40},
        {"allow": {1: ["a", "b"]}},
        {"forbid": ["ab"]},
        {"answers": ["a / b / ab"]},
        {"allow": {3: ["."]}, "forbid": ["b"], "top": 2},
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_filters_over_a_search_keep_probabilities_within_rounding(seed, filters):
    model = drawn(FEW, Law(seed=seed, scale=1.0))
    search = unmask.Search(max_passes=10**4)
    free = unmask.fill(TEXTS[2], model, search=search, top=10**4)
    before = {c.tokens: c.log_prob for c in free.completions}
    filtered = unmask.fill(TEXTS[2], model, search=search, **filters)
    assert filtered.completions
    rounding = Rounding.of(model.dtype)
    for one in [*filtered.completions, *filtered.answers]:
        log_prob = before[one.tokens]
        assert rounding.low(log_prob, 3) <= one.log_prob <= rounding.high(log_prob, 3)


@pytest.mark.parametrize(
    "filters",
    [
        {"top": 1},
        {"top": 30},
        {"allow": {2: ["a", "b"]}},
        {"answers": [" / ".join(["a", "b", "ab"] * 3)]},
        {"forbid": ["."]},
    ],
)
def test_the_orders_of_nine_blanks_follow_the_blanks_and_the_passes_alone(filters):
    model = drawn(FEW, Law(seed=3, scale=2.0))
    named = [" / ".join(tokens) for tokens in product(["a", "b"], repeat=9)][::50]
    free = unmask.fill(NINE, model, answers=named)
    before = {answer.tokens: answer for answer in free.answers}
    answers = [*filters.get("answers", []), *named]
    allowed = filters.get("allow", {}).get(2, WORDS)
    answers = [answer for answer in answers if answer.split(" / ")[1] in allowed]
    filtered = unmask.fill(NINE, model, **{**filters, "answers": answers})
    assert not filtered.search.exact
    compared = [answer for answer in filtered.answers if answer.tokens in before]
    assert len(compared) > 4
    rounding = Rounding.of(model.dtype)
    for answer in compared:
        usual = before[answer.tokens]
        assert rounding.low(usual.log_prob, 9) <= answer.log_prob
        assert answer.log_prob <= rounding.high(usual.log_prob, 9)
        assert answer.standard_error == pytest.approx(usual.standard_error, abs=1e-4)
    more = unmask.fill(NINE, model, answers=named, search=unmask.Search(max_passes=3000))
    assert any(
        abs(answer.log_prob - before[answer.tokens].log_prob) > 0.01 for answer in more.answers
    ), "the negative control: more passes are other orders"


def test_a_filter_that_leaves_no_long_reading_leaves_the_law():
    """[WORD] b would be exact, and [GAP:1-9] is not: words that leave nine tokens out change
    nothing.
    """
    model = drawn(FEW, Law(seed=5, scale=1.0))
    text = "a [GAP:1-9]"
    answers = ["a", "b a"]
    free = unmask.fill(text, model, answers=answers)
    short = unmask.fill(text, model, answers=answers, allow={1: ["a", "b a"]})
    assert not free.search.exact
    assert not short.search.exact
    assert {a.answer: a.log_prob for a in short.answers} == pytest.approx(
        {a.answer: a.log_prob for a in free.answers}, abs=1e-4
    )


def test_a_forbidden_word_that_is_no_candidate_changes_no_bit(english):
    text = "She plays the [MASK] [MASK] in a band."
    free, filtered = unmask.fill(text, english), unmask.fill(text, english, forbid=["xyzzy"])
    assert filtered.to_dict() == free.to_dict()


def test_what_is_not_among_the_candidates_is_said(english):
    text = "She plays the [MASK] [MASK] in a band."
    none_left = unmask.fill(text, english, candidates=8, allow={1: ["zebra"]})
    assert none_left.completions == []
    assert none_left.verdict() == [
        "no filling that is allowed is among the candidates: give more candidates, or search the"
        " whole vocabulary (max_passes)"
    ]
    by_rule = unmask.fill(text, english, candidates=8, construction="mrf", given={1: "zebra"})
    assert by_rule.verdict() == [
        "'zebra' is not among the candidates of blank 1: give more candidates"
    ]
    whole = unmask.fill("A zebra is here.", english, positions=[2], candidates=2)
    assert whole.verdict()[0].startswith("what stood in the blanks is not among the candidates: ")
    assert not any(completion.is_gold for completion in whole.completions)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"text": "a [MASK]", "construction": "mrf"}, "construction does nothing with a single"),
        ({"text": "a [MASK]", "candidates": "all"}, "candidates does nothing with a single blank"),
        ({"text": "a [MASK]", "force": True}, "force does nothing with a single blank"),
        ({"text": TEXTS[2], "force": True}, "force is about tables"),
        ({"text": "a [WORD]", "candidates": 3}, r"candidates is not used with \[WORD\] or \[GAP\]"),
        ({"text": "a [WORD]", "given": {1: "a"}}, r"given is not used with \[WORD\] or \[GAP\]"),
        ({"text": "a [WORD]", "positions": [1]}, "positions name tokens of a whole text"),
        ({"text": TEXTS[2], "given": {1: "a"}}, "given needs a table, and 3 blanks are searched"),
        ({"text": TEXTS[0], "given": {3: "a"}}, "given names blank 3, and the text has 2"),
        ({"text": TEXTS[0], "given": {1: "a", 2: "b"}}, "says what stands in every blank"),
        ({"text": TEXTS[0], "given": {1: "aba"}}, "given at blank 1: .* is 2 tokens"),
        ({"text": TEXTS[0], "given": {1: " "}}, "given names no word at blank 1"),
        ({"text": TEXTS[0], "given": {1: "a"}, "allow": {1: ["b"]}}, "allow names blank 1, and"),
        ({"text": TEXTS[0], "given": {1: "a"}, "answers": ["b / b"]}, "which given does not name"),
        ({"text": TEXTS[0], "alphabet": "a,b", "candidates": "all"}, "all is how an alphabet is"),
        ({"text": NINE, "search": unmask.Search(mass=0.1)}, "mass cannot be found: 9 tokens"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        unmask.fill(model=drawn(FEW, Law(seed=1)), **options)


def test_one_blank_obeys_the_number_of_candidates():
    model = drawn(FEW, Law(seed=1, scale=1.0))
    every, two = (unmask.fill("a [MASK]", model, candidates=n) for n in (None, 2))
    best = every.completions[:2]
    held = sum(exp(c.log_prob) for c in best)
    assert [c.tokens for c in two.completions] == [c.tokens for c in best]
    assert [exp(c.log_prob) for c in two.completions] == pytest.approx(
        [exp(c.log_prob) / held for c in best], abs=1e-6
    )
