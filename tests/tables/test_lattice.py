"""The lattice of revealed sets against enumeration of all orders and all texts; what a support
holds of the probability.
"""

from itertools import permutations, product
from math import factorial, log, log1p

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.common.errors import InputError
from unmask.models.tabular import TabularMLM
from unmask.tables.conditionals import Conditionals, lost_nats, outside, regular_tokens
from unmask.tables.lattice import along_orders, lattice, log_mean_of_sampled, random_orders


def by_order(model, text, sites, order, support=None):
    """log p_o of one text, one pass at a time."""
    ids = list(text)
    for site in sites:
        ids[site] = model.mask_id
    total = 0.0
    for i in order:
        logits = model.logits(torch.tensor([ids]), torch.tensor([[sites[i]]]))[0, 0]
        if support is not None:
            logits = torch.where(
                torch.isin(torch.arange(len(logits)), torch.tensor(support)), logits, -torch.inf
            )
        total += float(logits.log_softmax(0)[text[sites[i]]])
        ids[sites[i]] = text[sites[i]]
    return total


@st.composite
def cases(draw):
    """A random model, a few texts over it, and the sites of each."""
    length = draw(st.integers(1, 4))
    vocab = draw(st.integers(2, 4 if length < 4 else 3))
    k = draw(st.integers(1, length))
    n = draw(st.integers(1, 3))
    texts = [[draw(st.integers(0, vocab - 1)) for _ in range(length)] for _ in range(n)]
    sites = [draw(st.permutations(range(length)))[:k] for _ in range(n)]
    return TabularMLM.random(vocab, length, seed=draw(st.integers(0, 999)), scale=2.0), texts, sites


@given(cases())
def test_equals_enumeration_over_all_orders(case):
    model, texts, sites = case
    orders = list(permutations(range(len(sites[0]))))
    of_texts = lattice(Conditionals(model), torch.tensor(texts), torch.tensor(sites))
    expected = torch.tensor(
        [
            [by_order(model, text, places, order) for order in orders]
            for text, places in zip(texts, sites, strict=True)
        ],
        dtype=torch.float64,
    )
    close = {"rtol": 0, "atol": 1e-12}
    torch.testing.assert_close(of_texts.log_mean, expected.logsumexp(1) - log(len(orders)), **close)
    torch.testing.assert_close(of_texts.mean_log, expected.mean(1), **close)
    tensor_orders = torch.tensor(orders).expand(len(texts), -1, -1)
    chained = along_orders(
        Conditionals(model), torch.tensor(texts), torch.tensor(sites), tensor_orders
    )
    torch.testing.assert_close(chained, expected, **close)


def all_texts(vocab, length):
    return torch.tensor(list(product(range(vocab), repeat=length)))


def whole(model, texts):
    """The lattice of texts whose every position is a site."""
    return lattice(Conditionals(model), texts, torch.arange(texts.shape[1]).expand(len(texts), -1))


@settings(max_examples=20)
@given(st.integers(0, 999), st.sampled_from([(2, 4), (3, 3), (5, 2), (4, 3)]))
def test_the_mean_over_orders_sums_to_one_and_the_mean_of_logs_to_less(seed, shape):
    vocab, length = shape
    model = TabularMLM.random(vocab, length, seed)
    texts = all_texts(vocab, length)
    of_texts = whole(model, texts)
    assert float(of_texts.log_mean.exp().sum()) == pytest.approx(1, abs=1e-12)
    assert float(of_texts.mean_log.exp().sum()) < 1 - 1e-6
    assert bool((of_texts.mean_log <= of_texts.log_mean + 1e-12).all())


def test_a_support_is_renormalised_over():
    model = TabularMLM.random(4, 3, seed=5)
    kept = torch.tensor([0, 2, 3])
    texts = kept[all_texts(3, 3)]
    sites = torch.arange(3).expand(len(texts), -1)
    inside = lattice(Conditionals(model, kept), texts, sites).log_mean
    assert float(inside.exp().sum()) == pytest.approx(1, abs=1e-12)
    everywhere = lattice(Conditionals(model), texts, sites).log_mean
    assert float(everywhere.exp().sum()) < 1 - 1e-3
    orders = [
        by_order(model, texts[5].tolist(), [0, 1, 2], order, kept.tolist())
        for order in permutations(range(3))
    ]
    assert float(inside[5].exp()) == pytest.approx(
        sum(torch.tensor(orders).exp().tolist()) / 6, abs=1e-7
    )


class Counting(TabularMLM):
    """Remembers every row that it passes."""

    def logits_at(self, ids, positions):
        self.__dict__.setdefault("seen", []).extend(map(tuple, ids.tolist()))
        return super().logits_at(ids, positions)


def test_passes_are_shared_between_fillings_that_reveal_the_same_tokens():
    model = Counting.random(3, 4, seed=2)
    fillings = torch.tensor([[0, 1, 2, 0], [0, 1, 2, 1], [2, 1, 2, 1]])
    conditionals = Conditionals(model)
    shared = lattice(conditionals, fillings, torch.arange(4).expand(3, -1))
    assert len(model.seen) == len(set(model.seen)) == conditionals.passes < 3 * 15
    alone = torch.cat([whole(model, one[None]).log_mean for one in fillings])
    torch.testing.assert_close(shared.log_mean, alone, rtol=0, atol=1e-12)


def test_sampled_orders_are_unbiased_and_their_error_is_the_spread_of_the_estimate():
    model = TabularMLM.random(3, 4, seed=8, scale=2.0)
    text, sites = torch.tensor([[2, 0, 1, 1]]), torch.arange(4)[None]
    truth = float(lattice(Conditionals(model), text, sites).log_mean.exp())
    repeats, m = 400, 50
    orders = random_orders(1, repeats * m, 4, torch.Generator().manual_seed(0))
    log_probs = along_orders(Conditionals(model), text, sites, orders).reshape(repeats, m)
    estimate, error = log_mean_of_sampled(log_probs)
    mean, spread = float(estimate.exp().mean()), float(estimate.exp().std())
    assert abs(mean - truth) < 3.5 * spread / repeats**0.5
    assert float(error.mean()) == pytest.approx(float(estimate.std()), rel=0.15)
    assert spread / repeats**0.5 < 0.02 * truth
    assert torch.isnan(log_mean_of_sampled(log_probs[:, :1])[1]).all()


def test_orders_are_uniform():
    drawn = random_orders(1, 6000, 3, torch.Generator().manual_seed(4))[0]
    counts = drawn.unique(dim=0, return_counts=True)[1]
    assert len(counts) == factorial(3)
    assert bool(((counts - 1000).abs() < 150).all())


def test_too_many_sites_are_refused(tiny):
    texts, sites = torch.randint(5, 17, (1, 17)), torch.arange(17)[None]
    with pytest.raises(InputError, match="sample orders instead"):
        lattice(Conditionals(tiny), texts, sites)


def test_a_network_agrees_with_one_pass_at_a_time(tiny):
    texts = torch.randint(5, 17, (2, 7), generator=torch.Generator().manual_seed(1))
    sites = torch.tensor([[1, 2, 4, 5], [5, 3, 2, 1]])
    of_texts = lattice(Conditionals(tiny), texts, sites)
    orders = list(permutations(range(4)))
    for n in range(2):
        expected = [by_order(tiny, texts[n].tolist(), sites[n].tolist(), order) for order in orders]
        log_mean = torch.tensor(expected).double().logsumexp(0) - log(len(orders))
        torch.testing.assert_close(of_texts.log_mean[n], log_mean, rtol=0, atol=1e-5)


def test_regular_tokens_and_what_is_outside_make_the_vocabulary():
    model = TabularMLM.random(6, 1, seed=0)
    model.special_ids = (4, 1, 6)
    assert regular_tokens(model).tolist() == [0, 2, 3, 5]
    assert outside(model, regular_tokens(model)).tolist() == [1, 4]
    assert outside(model, torch.tensor([5, 2])).tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("odds", [1e-12, 1e-5, 0.3, 3.0, 1e5, 1e12])
def test_nats_are_right_to_single_precision_whatever_the_share(odds):
    """Four regular tokens of weight 1 and two special ones of weight 2 `odds` each: log(1 +
    odds).
    """
    logits = torch.tensor([[0.0, log(2 * odds), 0, 0, log(2 * odds), 0], [0.0] * 6])
    nats = lost_nats(logits, torch.tensor([1, 4]), logits.logsumexp(1))
    assert nats.tolist() == pytest.approx([log1p(odds), log1p(0.5)], rel=1e-6)
    if odds == 1e12:
        share = logits.double().softmax(1)[0, [1, 4]].sum().float()
        assert -torch.log1p(-share) == torch.inf, "control: of one minus the share nothing is left"
