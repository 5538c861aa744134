"""Words, gaps, answers and constraints against enumeration of everything that a small model can
write.
"""

import json
from itertools import product
from math import exp, log

import pytest
import torch

import unmask
from support.drawn_models import FEW
from support.small_models import random_bert, tokenizer_of
from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.tables.conditionals import Conditionals, regular_tokens
from unmask.tables.lattice import lattice


def fill_chain(text, model, passes=1000, mass=None, **options):
    """A search over the whole vocabulary; other options go to `fill`."""
    search = unmask.Search(max_passes=passes, mass=mass)
    return unmask.fill(text, model=model, search=search, **options)


@pytest.fixture(scope="module")
def small():
    """A BERT of seven regular tokens, in which words have several spellings: ab is "ab" or "a
    ##b".
    """
    tokenizer = tokenizer_of(FEW, model_max_length=16)
    return MaskedLM(random_bert(len(tokenizer), 16, seed=1, spread=0.6), tokenizer)


def probabilities(model, text, counts):
    """log p of every filling of the text with `counts[b]` masks in place of blank b (written
    [_]).
    """
    for count in counts:
        text = text.replace("[_]", "[MASK]" * count, 1)
    cloze = model.cloze(text)
    every = list(product(regular_tokens(model).tolist(), repeat=len(cloze.block)))
    rows = torch.tensor([cloze.filled(values) for values in every])
    sites = torch.tensor([cloze.block]).expand(len(rows), -1)
    log_p = lattice(Conditionals(model, regular_tokens(model)), rows, sites).log_mean
    assert float(log_p.exp().sum()) == pytest.approx(1, abs=1e-5)
    return dict(zip(every, log_p.exp().tolist(), strict=True))


def spelled(model, ids):
    """The word that pieces spell by the rule of word pieces, or None."""
    tokens = model.decode(ids)
    if (
        tokens[0].startswith("##")
        or not all(token.startswith("##") for token in tokens[1:])
        or "." in tokens
    ):
        return None
    return "".join(token.removeprefix("##") for token in tokens)


def is_word(model, ids):
    """Whether pieces are what the tokenizer makes of the word that they spell."""
    word = spelled(model, ids)
    return (
        word is not None
        and tuple(model.tokenizer(word, add_special_tokens=False)["input_ids"]) == ids
    )


def test_a_word_blank_takes_words_as_the_tokenizer_spells_them(small):
    expected = {}
    for pieces in (1, 2, 3):
        expected |= {
            spelled(small, ids): p / 3
            for ids, p in probabilities(small, "a [_] b", [pieces]).items()
            if is_word(small, ids)
        }
    search = fill_chain("a [WORD] b", small, top=1000, passes=10_000)
    assert {c.parts[0]: exp(c.log_prob) for c in search.completions} == pytest.approx(
        dict(expected), rel=1e-4
    )
    assert 0.999 * sum(expected.values()) < search.search.mass <= sum(expected.values())


@pytest.mark.parametrize("alphabet", [None, "a,ab,b"])
@pytest.mark.parametrize("text", ["a [MASK] [MASK] b", "[MASK] a [MASK] [MASK]"])
def test_a_grid_and_a_search_give_a_filling_one_probability(small, text, alphabet):
    grid = unmask.fill(text, model=small, construction="chain", alphabet=alphabet, top=400)
    search = fill_chain(text, small, passes=10_000, alphabet=alphabet, top=400)
    probs = {c.tokens: exp(c.log_prob) for c in search.completions}
    assert sum(probs.values()) == pytest.approx(1, abs=1e-5)
    assert {c.tokens: exp(c.log_prob) for c in grid.completions} == pytest.approx(probs, rel=1e-4)
    few = unmask.fill(
        text, model=small, construction="chain", candidates=2, alphabet=alphabet, top=400
    )
    held = sum(probs[c.tokens] for c in few.completions)
    assert {c.tokens: held * exp(c.log_prob) for c in few.completions} == pytest.approx(
        {c.tokens: probs[c.tokens] for c in few.completions}, rel=1e-4
    )


def test_a_gap_takes_any_tokens(small):
    expected = {}
    for length in (1, 2):
        expected |= {ids: p / 2 for ids, p in probabilities(small, "a [_] b", [length]).items()}
    search = fill_chain("a [GAP:1-2] b", small, top=1000, passes=10_000)
    by_tokens = {c.tokens: exp(c.log_prob) for c in search.completions}
    assert by_tokens == pytest.approx(
        {tuple(small.decode(ids)): p for ids, p in expected.items()}, rel=1e-4
    )
    assert 0.999 < search.search.mass <= 1


def test_several_blanks_of_several_lengths(small):
    search = fill_chain("[WORD:1-2] a [GAP:1-2]", small, top=5, passes=10_000, mass=0.999)
    best = [
        p / 4
        for word, gap in product((1, 2), (1, 2))
        for ids, p in probabilities(small, "[_] a [_]", [word, gap]).items()
        if is_word(small, ids[:word])
    ]
    expected = sorted(best, reverse=True)[:5]
    assert [exp(c.log_prob) for c in search.completions] == pytest.approx(expected, rel=1e-4)


def test_answers_have_their_probability_rank_and_odds(small):
    p = probabilities(small, "a [_] [_] b", [1, 1])
    places = {ids: 1 + sum(other > value for other in p.values()) for ids, value in p.items()}
    search = fill_chain("a [MASK] [MASK] b", small, passes=10_000, answers=["b ab", "a ."])
    by_name = {a.answer: a for a in search.answers}
    for name in ("b ab", "a ."):
        ids = tuple(small.words.regular_tokens[token] for token in name.split())
        assert exp(by_name[name].log_prob) == pytest.approx(p[ids], rel=1e-4)
        assert by_name[name].rank[0] <= places[ids] <= by_name[name].rank[1]
    best = max(search.answers, key=lambda a: a.log_prob)
    assert [a.odds for a in search.answers] == pytest.approx(
        [exp(a.log_prob - best.log_prob) for a in search.answers]
    )
    assert search.answers[0] == best


@pytest.mark.parametrize(
    ("text", "answer", "tokens"),
    [
        ("He has [GAP:3] here.", "and/or", ["and", "/", "or"]),
        ("He has [GAP:3] [MASK].", "and/or / tea", ["and", "/", "or", "tea"]),
        ("He has [GAP:3] [MASK].", ["and/or", "tea"], ["and", "/", "or", "tea"]),
        ("He has [GAP:3] [GAP:3].", "and/or he/she", ["and", "/", "or", "he", "/", "she"]),
        ("He has [MASK] [MASK].", "hot/tea", ["hot", "tea"]),
        ("He has [MASK] [GAP:2].", "hot / black tea", ["hot", "black", "tea"]),
        ("He has [MASK] [MASK].", ("cat", "/"), ["cat", "/"]),
        ("He has [MASK] [MASK].", "violinist", ["viol", "##inist"]),
    ],
)
def test_the_parts_of_an_answer(english, text, answer, tokens):
    (scored,) = fill_chain(text, english, passes=5, top=1, answers=[answer]).answers
    assert list(scored.tokens) == tokens
    assert scored.answer == (answer if isinstance(answer, str) else " / ".join(answer))


@pytest.mark.parametrize(
    ("text", "answer", "said"),
    [
        ("He has [GAP:1-3] [GAP:1-3].", "and/or tea", "write 'and / or tea' or 'and/or / tea'"),
        ("He has [MASK] [MASK].", "cat / dog / man", "has 3 parts for 2 blanks"),
        ("He has [MASK] [MASK] [MASK].", "cat / dog", "has 2 parts for 3 blanks"),
        ("He has [MASK] [MASK].", ["cat"], "has 1 part for 2 blanks"),
        ("He has [MASK] [MASK].", "/", "has an empty part"),
        ("He has [MASK] [MASK].", "hot//tea", "has an empty part"),
        ("He has [MASK] [MASK].", ["hot", ""], "has an empty part"),
        ("He has [MASK] [MASK].", ["", " "], "is empty"),
        ("He [MASK] has [MASK].", "violinist", "has 1 part for 2 blanks"),
    ],
)
def test_an_answer_whose_parts_are_not_clear_is_refused(english, text, answer, said):
    with pytest.raises(InputError, match=said):
        fill_chain(text, english, answers=[answer])


def test_a_target_with_a_slash_is_one_word(english):
    options = {"targets": ["and/or"], "constructions": "product", "top": 1, "candidates": 8}
    comparison = unmask.compare("He has [MASK] tea.", english, **options)
    assert comparison.completions[-1].tokens == ("and", "/", "or")


def test_rank_bounds_hold_when_little_is_searched(english):
    text, answers = "The [MASK] sat on the [MASK].", ["cat mat", "man chair", "girl bench"]
    few = fill_chain(text, english, top=3, passes=8, answers=answers)
    many = fill_chain(text, english, top=30, passes=600, mass=0.8, answers=answers)
    exact = {a.answer: a for a in many.answers}
    for answer in few.answers:
        low, high = answer.rank
        true_low, true_high = exact[answer.answer].rank
        assert answer.log_prob == pytest.approx(exact[answer.answer].log_prob, abs=1e-4)
        assert low <= true_low
        assert true_high <= high


def test_a_split_word_is_never_cut(english):
    search = fill_chain("She plays the [WORD] in a band.", english, answers=["violin", "guitar"])
    violin = next(a for a in search.answers if a.answer == "violin")
    assert len(violin.tokens) > 1
    assert violin.text == "She plays the violin in a band."
    assert "violin" in [c.parts[0] for c in search.completions]
    assert search.search.certain == 10


def test_a_search_of_one_blank_lists_all_that_is_asked_for(english):
    text = "She drank a cup of [MASK]."
    grid = unmask.fill(text, english, top=10_000)
    search = fill_chain(text, english, top=10_000, forbid=["tea"])
    expected = {c.tokens: c.log_prob for c in grid.completions if c.tokens != ("tea",)}
    assert {c.tokens: c.log_prob for c in search.completions} == pytest.approx(expected, abs=1e-4)
    assert search.search.bound == 0
    assert "there is no other" in search.summary()


def test_a_search_says_that_it_lists_fewer_than_asked_for(english):
    search = fill_chain("The [MASK] [MASK] here.", english, top=500, passes=20)
    assert search.search.stopped == "passes"
    assert (
        f"{len(search.completions)} were found of the 500 asked for: give more passes"
        in search.summary()
    )


def test_constraints_leave_out_and_do_not_change(small):
    free = fill_chain("a [MASK] [MASK] b", small, top=1000, passes=10_000)
    p = {c.tokens: c.log_prob for c in free.completions}
    constraints = {"allow": {1: ["a", "b"]}, "forbid": ["B"]}
    search = fill_chain("a [MASK] [MASK] b", small, top=1000, passes=10_000, **constraints)
    expected = {t: v for t, v in p.items() if t[0] == "a" and t[1] != "b"}
    assert {c.tokens: c.log_prob for c in search.completions} == pytest.approx(expected, rel=1e-4)
    named = fill_chain("a [WORD] b", small, top=1000, passes=10_000, allow={1: ["aba", "bb"]})
    assert {c.parts[0] for c in named.completions} == {"aba", "bb"}


@pytest.mark.parametrize("gap", [1, 4])
def test_readings_without_an_allowed_filling_have_no_probability(small, gap):
    search = fill_chain(f"a [WORD] [GAP:{gap}]", small, top=100, passes=10_000, alphabet="a,b")
    alphabet = torch.tensor(small.words.encode("a b")[1:3])
    cloze = small.cloze("a" + " [MASK]" * (1 + gap))
    every = list(product(alphabet.tolist(), repeat=1 + gap))
    rows = torch.tensor([cloze.filled(values) for values in every])
    sites = torch.tensor([cloze.block]).expand(len(rows), -1)
    log_p = lattice(Conditionals(small, alphabet), rows, sites).log_mean
    expected = {
        tuple(small.decode(values)): p / 3  # no token goes on with a word of 2 or 3 pieces
        for values, p in zip(every, log_p.exp().tolist(), strict=True)
    }
    assert {c.tokens: exp(c.log_prob) for c in search.completions} == pytest.approx(
        expected, rel=1e-4
    )
    assert search.search.passes == 3 ** (1 + gap) - 2 ** (
        1 + gap
    )  # of one piece only: a, b or masked


def test_what_is_printed_as_json_is_plain(small):
    search = fill_chain("a [WORD] b", small, answers=["ab"], passes=200)
    again = json.loads(json.dumps(search.to_dict()))
    assert again["construction"] == "chain"
    assert again["answers"][0]["answer"] == "ab"
    assert "%" in search.summary()
    assert "ab" in search._repr_html_()


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a [MASK] [MASK] b", {"answers": ["a b a"]}, "has 3 parts for 2 blanks"),
        ("a [MASK] b", {"answers": [" "]}, "is empty"),
        ("a [MASK] b", {"answers": "ab"}, "is not valid: give a list"),
        ("a [MASK] b", {"answers": ["zz"]}, "not a word of it"),
        (
            "a [WORD:1] b",
            {"answers": ["abab"]},
            r"has 3 tokens .* takes 1 token: write \[WORD:1-3\]",
        ),
        (
            "a [MASK] [MASK] b",
            {"answers": ["aba b"]},
            r"has 2 tokens .* at blank 1, which takes 1 token: use \[WORD\] or \[GAP\]",
        ),
        ("a [WORD] b" + " a" * 11, {"answers": ["aba"]}, "the text is longer than the model takes"),
        ("a [WORD] b", {"answers": ["a b"]}, "is 2 words"),
        ("a [GAP:3] b", {"answers": ["a b"]}, "has 2 tokens .* takes 3 tokens: widen the gap"),
        ("a [MASK] b", {"allow": {1: ["ab"]}, "forbid": ["AB"]}, "no token of the model passes"),
        (
            "a [WORD] b",
            {"allow": {1: ["aba"]}, "forbid": ["aba"]},
            "no filling within the constraints was found",
        ),
        (
            "a [WORD] [GAP:1-4]",
            {"alphabet": "."},
            "^no token of the alphabet passes the constraints at blank 1: loosen them$",
        ),
        (
            "a [WORD] [GAP:4]",
            {"alphabet": "a,b", "allow": {1: ["aba"]}},
            "^no token of the alphabet passes the constraints at blank 1: loosen them$",
        ),
        (
            "a [WORD] [WORD] b" + " a" * 9,
            {"allow": {1: ["aba"], 2: ["aba"]}},
            "^no filling within the constraints is as short as the model takes: loosen them, or"
            " shorten the text$",
        ),
        ("a [MASK] b", {"allow": {2: ["a"]}}, "names blank 2"),
        ("a [MASK] b", {"allow": {1: ["abab"]}}, r"is 3 tokens, and the blank takes 1 token"),
        ("a [MASK] b", {"allow": {1: []}}, "names no word"),
        ("a [MASK] b", {"mass": 0.0}, "mass"),
        ("a [MASK] b", {"passes": 0}, "passes"),
        ("a [GAP:20-30] b", {}, "the model takes 16"),
    ],
)
def test_bad_input(small, text, options, said):
    with pytest.raises(InputError, match=said):
        fill_chain(text, small, **options)


def test_many_blanks_have_an_error(english):
    search = fill_chain("A [GAP:9] .", english, top=3, passes=300)
    assert all(c.standard_error > 0 for c in search.completions)
    assert search.search.certain == 0
    assert "error" in search.summary()
    assert log(search.search.mass) < 0


def test_a_search_says_what_it_lacks():
    filling = unmask.fill("A [MASK] of [MASK] and [MASK].")
    assert filling.construction == "chain"
    assert type(filling) is type(unmask.fill("A [MASK] cat.", candidates=4))
    with pytest.raises(InputError, match="no table of the joint: give candidates to fill"):
        filling.joint.mutual_information()
