"""Every score against its definition, written out over the entries of a tabular model, and
which of them are probabilities.
"""

from dataclasses import replace
from itertools import permutations, product
from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.named_scores import named_scores
from unmask.common.errors import InputError
from unmask.models.tabular import TabularMLM
from unmask.sampling.methods import with_law
from unmask.scoring.registry import with_names
from unmask.scoring.scored_batch import score_batch
from unmask.scoring.scores.decoder_law import DECODER
from unmask.scoring.text_batch import TextBatch

NAMED = with_names()
LAWS = [f"{DECODER}{decoder}" for decoder in with_law()]
ENUMERATED = [*NAMED, *LAWS, *(f"{name}@2" for name in LAWS)]


def distribution(model, text, hidden, site):
    """q(. | x outside `hidden`) at `site`, read from the table."""
    row = tuple(model.mask_id if t in hidden else token for t, token in enumerate(text))
    return model.table[(site, *row)].softmax(0)


def log_q(model, text, hidden, site):
    return float(distribution(model, text, hidden, site)[text[site]].log())


def chain(model, text, order):
    hidden, total = set(range(len(text))), 0.0
    for site in order:
        total += log_q(model, text, hidden, site)
        hidden.remove(site)
    return total


def orders(model, text):
    return [chain(model, text, order) for order in permutations(range(len(text)))]


def log_mean(values):
    return log(sum(map(exp, values)) / len(values))


def raw(model, text):
    rows = [
        tuple(model.mask_id if t == s else token for t, token in enumerate(text))
        for s in range(len(text))
    ]
    return -sum(float(model.table[(s, *row)][text[s]]) for s, row in enumerate(rows))


def pll(model, text):
    return sum(log_q(model, text, {t}, t) for t in range(len(text)))


DEFINED = {
    "pll": pll,
    "energy_norm": lambda model, text: -pll(model, text),
    "energy_raw": raw,
    "left_to_right": lambda model, text: chain(model, text, range(len(text))),
    "right_to_left": lambda model, text: chain(model, text, reversed(range(len(text)))),
    "any_order": lambda model, text: log_mean(orders(model, text)),
}


def scores(model, texts, names, **options):
    """The scores by name, with those of the options that each has."""
    entries = [
        replace(one, **{name: value for name, value in options.items() if hasattr(one, name)})
        for one in named_scores(names)
    ]
    scored = score_batch(model, TextBatch.of(torch.tensor(texts)), entries)
    return scored if len(names) > 1 else scored[names[0]]


@settings(max_examples=15)
@given(st.integers(2, 4), st.integers(1, 4), st.integers(0, 10**6), st.data())
def test_scores_are_their_definitions(vocabulary, length, seed, data):
    model = TabularMLM.random(vocabulary, length, seed)
    text = data.draw(st.lists(st.integers(0, vocabulary - 1), min_size=length, max_size=length))
    scored = scores(model, [text], list(DEFINED))
    for name, defined in DEFINED.items():
        assert float(scored[name].values[0]) == pytest.approx(defined(model, text), abs=1e-10), name
    ways = orders(model, text)
    assert float(scored["any_order"].extra["mean_log"][0]) == pytest.approx(
        sum(ways) / len(ways), abs=1e-10
    )


@pytest.mark.filterwarnings("ignore:.*no dependence profile")
@pytest.mark.parametrize("name", ENUMERATED)
def test_what_is_a_probability_sums_to_one_and_what_is_none_does_not(name):
    model = TabularMLM.random(3, 3, seed=11)
    texts = list(product(range(3), repeat=3))
    (score,) = named_scores(name)
    total = float((score.better * scores(model, texts, [name]).values).exp().sum())
    assert (abs(total - 1) < 1e-10) == score.probability
    if not score.probability:
        assert abs(total - 1) > 0.01


def test_shares_of_sites_add_up():
    model = TabularMLM.random(3, 4, seed=2)
    names = [name for name in NAMED if NAMED[name].by_token]
    scored = scores(model, [[0, 1, 2, 0], [2, 2, 1, 1]], names)
    for name in names:
        assert torch.allclose(scored[name].by_site.sum(1), scored[name].values)


def test_pieces_of_a_word_are_masked_with_the_earlier_ones():
    model = TabularMLM.random(3, 4, seed=4)
    text = [0, 2, 1, 1]
    batch = TextBatch.of(torch.tensor([text]), word_end=torch.tensor([[1, 3, 3, 4]]))
    scored = score_batch(model, batch, named_scores("pll_word"))["pll_word"]
    expected = [log_q(model, text, hidden, t) for t, hidden in enumerate([{0}, {1, 2}, {2}, {3}])]
    assert scored.by_site[0].tolist() == pytest.approx(expected, abs=1e-12)
    assert abs(float(scored.values[0]) - pll(model, text)) > 1e-3


def test_a_target_is_scored_given_what_stands_around_it():
    model = TabularMLM.random(3, 4, seed=5)
    text = [0, 2, 1, 1]
    batch = TextBatch.of(torch.tensor([text]), sites=torch.tensor([[1, 2]]))
    by_score = score_batch(model, batch, named_scores("pll,left_to_right,right_to_left,any_order"))
    value = {name: float(scored.values[0]) for name, scored in by_score.items()}
    ways = [
        log_q(model, text, {1, 2}, 1) + log_q(model, text, {2}, 2),
        log_q(model, text, {1, 2}, 2) + log_q(model, text, {1}, 1),
    ]
    assert value["pll"] == pytest.approx(log_q(model, text, {1}, 1) + log_q(model, text, {2}, 2))
    assert value["any_order"] == pytest.approx(log_mean(ways))
    assert value["left_to_right"] == pytest.approx(
        log_q(model, text, {1, 2, 3}, 1) + log_q(model, text, {2, 3}, 2)
    )
    assert value["right_to_left"] == pytest.approx(
        log_q(model, text, {0, 1, 2}, 2) + log_q(model, text, {0, 1}, 1)
    )


def test_sampled_orders_come_with_an_error_that_covers_the_truth():
    model = TabularMLM.random(3, 5, seed=7)
    texts = list(product(range(3), repeat=5))[::11]
    exact = scores(model, texts, ["any_order"])
    drawn = scores(model, texts, ["any_order"], exact_tokens=0, orders=40)
    apart, error = (drawn.values - exact.values).abs(), drawn.extra["se"]
    assert bool((error > 0).all())
    assert float((apart < 3 * error).double().mean()) > 0.9
    alone = scores(model, [texts[4]], ["any_order"], exact_tokens=0, orders=40)
    assert float(alone.values[0]) == pytest.approx(float(drawn.values[4]), abs=1e-12)


class CountingMLM(TabularMLM):
    """Counts the rows that pass through it."""

    rows = 0

    def logits_at(self, ids, positions):
        self.rows += len(ids)
        return super().logits_at(ids, positions)


@pytest.mark.parametrize("names", [("pll",), ("any_order",), ("left_to_right",)])
def test_passes_are_those_that_are_made(names):
    model = CountingMLM.random(3, 4, seed=3)
    score_batch(model, TextBatch.of(torch.tensor([[0, 1, 2, 0]])), named_scores(names))
    assert model.rows == sum(score.cost(4) for score in named_scores(names))


def interleaved_in_two(model, text):
    even, odd = range(0, len(text), 2), range(1, len(text), 2)
    every = set(range(len(text)))
    return sum(log_q(model, text, every, t) for t in even) + sum(
        log_q(model, text, set(odd), t) for t in odd
    )


def test_the_law_of_a_decoder_is_its_definition_whatever_is_scored_beside_it():
    model = TabularMLM.random(3, 4, seed=21)
    texts = [[0, 1, 2, 0], [2, 2, 1, 1], [1, 0, 0, 2]]
    scored = scores(model, texts, ["decoder:interleaved@2"])
    assert scored.values.tolist() == pytest.approx(
        [interleaved_in_two(model, text) for text in texts], abs=1e-10
    )
    assert torch.allclose(scored.by_site.sum(1), scored.values)


def test_the_law_of_a_target_is_given_its_own_context():
    model = TabularMLM.random(3, 4, seed=22)
    texts, sites = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 1]]), torch.tensor([[1, 2], [0, 3]])
    name = "decoder:lowest-entropy@1"
    scored = score_batch(model, TextBatch.of(texts, sites), named_scores(name))[name]
    by_hand = [
        sum(log_q(model, text, set(some), t) for t in some)
        for text, some in zip(texts.tolist(), sites.tolist(), strict=True)
    ]
    assert scored.values.tolist() == pytest.approx(by_hand, abs=1e-10)


def test_random_sets_have_one_order_for_all_texts_which_the_seed_draws():
    model = TabularMLM.random(3, 4, seed=23)
    text = [[0, 1, 2, 0]]
    alone = [
        float(scores(model, text, ["decoder:random-sets@2"], seed=seed).values[0])
        for seed in range(6)
    ]
    beside = float(
        scores(model, [[1, 1, 1, 1], *text], ["decoder:random-sets@2"], seed=0).values[1]
    )
    assert beside == alone[0]
    assert len(set(alone)) > 1


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("decoder:leest-dependent@8", "unknown: did you mean decoder:least-dependent"),
        (
            "decoder:ancestral@2",
            (
                "ancestral fills one blank per pass, so its law is a chain rule; use any_order or"
                " left_to_right"
            ),
        ),
        (
            "decoder:mask-predict@4",
            (
                "mask-predict has no law that can be computed, because it does not choose positions"
                " before"
            ),
        ),
        (
            "decoder:random-sets@0",
            "^score decoder:random-sets@0: the number of passes is '0': give a whole number from 1",
        ),
        ("decoder:random-sets@two", "the number of passes is 'two': give a whole number from 1"),
        ("decoder:random-sets@", "^score decoder:random-sets@: the number of passes is ''"),
        ("decoder:verified@0", "^score decoder:verified@0: the number of sets is '0'"),
        ("decoder:mh", "unknown"),
    ],
)
def test_names_of_laws_are_checked(name, wrong):
    with pytest.raises(InputError, match=wrong):
        named_scores(name)
