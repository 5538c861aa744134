"""One law per name: every code path that claims a law has it, on a model that gives most of its
mass to special tokens.
"""

from dataclasses import replace
from itertools import permutations, product
from math import exp, log

import pytest
import torch

from support.constructions import of_names
from support.named_scores import named_scores
from unmask.common.cloze import Cloze
from unmask.joints.chain_search import search_fillings
from unmask.joints.deriving import derive
from unmask.models.tabular import TabularMLM
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.energies.with_terms import Energy
from unmask.sampling.engine.passes import Passes
from unmask.sampling.target import Target
from unmask.scoring.registry import with_names
from unmask.scoring.scored_batch import score_batch
from unmask.scoring.text_batch import TextBatch
from unmask.studies.evaluation.measure import measure_pairs
from unmask.studies.variants.effects import effects
from unmask.tables.conditionals import Conditionals
from unmask.tables.exploration import Variant
from unmask.tables.unary import unary_tables

SPECIAL = (0, 3)
REGULAR = (1, 2, 4)
LETTERS = (4, 1)
VOCABULARY = 5
EXACT = 1e-10
PROBABILITIES = [name for name, score in with_names().items() if score.probability]


def special_model(length, seed):
    """Random conditionals that give about nine tenths of their mass to special tokens, more or
    less as the context has it.
    """
    model = TabularMLM.random(VOCABULARY, length, seed)
    model.table[..., list(SPECIAL)] += 3
    model.special_ids = SPECIAL
    return model


def log_q(model, text, revealed, site, support):
    """log q(x_site | x_revealed), normalised over `support`, read from the table."""
    row = tuple(token if t in revealed else model.mask_id for t, token in enumerate(text))
    logits = model.table[(site, *row)]
    return float(logits[text[site]] - logits[list(support)].logsumexp(0))


def along(model, text, order, support):
    return sum(log_q(model, text, order[:step], site, support) for step, site in enumerate(order))


def over_orders(model, text, support, orders=None):
    """log of the mean over orders of the chain rule's probability, order by order."""
    orders = orders or list(permutations(range(len(text))))
    return log(sum(exp(along(model, text, order, support)) for order in orders) / len(orders))


def law(model, support, **options):
    """The mean over orders for every text over `support`, one axis per site."""
    length = model.length
    cells = [
        over_orders(model, text, support, **options) for text in product(support, repeat=length)
    ]
    return torch.tensor(cells, dtype=torch.float64).reshape([len(support)] * length).exp()


def blanks(model):
    return Cloze((model.mask_id,) * model.length, tuple(range(model.length)))


def on_grid(model, support, candidates=None):
    """The construction `chain` over candidates, all of the support if left out."""
    sets = [torch.tensor(c) for c in candidates or [support] * model.length]
    tables = unary_tables(
        model, blanks(model), sets, support=[torch.tensor(support)] * model.length
    )
    return derive(tables, "chain")


def searched(model, support):
    """What a search that ends with nothing left finds: the probability of every filling."""
    conditionals = Conditionals(model, torch.tensor(support))
    search = search_fillings(conditionals, [Variant(blanks(model))], top=10**4, passes=10**5)
    assert len(search.fillings) >= len(support) ** model.length
    return {f.tokens: exp(f.log_prob) for f in search.fillings if set(f.tokens) <= set(support)}


def scored(model, name, texts, **options):
    return score_batch(
        model, TextBatch.of(torch.tensor(texts)), [replace(*named_scores(name), **options)]
    )[name]


@pytest.mark.parametrize("name", PROBABILITIES)
@pytest.mark.parametrize("length", [1, 3])
def test_scores_that_are_probabilities_sum_to_one_over_the_texts_of_regular_tokens(name, length):
    model = special_model(length, seed=length)
    scores = scored(model, name, list(product(REGULAR, repeat=length)))
    assert float(scores.values.exp().sum()) == pytest.approx(1, abs=EXACT)


def test_chain_rules_run_over_the_regular_tokens():
    model, texts = special_model(3, seed=2), list(product(REGULAR, repeat=3))
    for name, log_prob in {
        "left_to_right": lambda text: along(model, text, (0, 1, 2), REGULAR),
        "right_to_left": lambda text: along(model, text, (2, 1, 0), REGULAR),
        "any_order": lambda text: over_orders(model, text, REGULAR),
    }.items():
        for options in [{}, {"exact_tokens": 0, "orders": 400}] if name == "any_order" else [{}]:
            expected = torch.tensor([log_prob(text) for text in texts], dtype=torch.float64)
            torch.testing.assert_close(
                scored(model, name, texts, **options).values,
                expected,
                rtol=0,
                atol=0.3 if options else EXACT,
            )


@pytest.mark.parametrize("orders", [{"exact_tokens": 14}, {"exact_tokens": 0, "orders": 3}])
def test_a_text_outside_the_support_has_no_probability_and_its_neighbour_keeps_its_own(orders):
    model = special_model(3, seed=4)
    for name in PROBABILITIES:
        options = orders if name == "any_order" else {}
        scores = scored(model, name, [[1, 2, 4], [1, 3, 4], [2, 2, 1]], **options)
        assert scores.values.isnan().tolist() == [False, True, False], name
        assert set(scores.reasons) == {1}, name
        alone = scored(model, name, [[2, 2, 1]], **options)
        assert float(scores.values[2]) == pytest.approx(float(alone.values[0]), abs=EXACT), name
        none = scored(model, name, [[1, 3, 4]], **options)
        assert none.values.isnan().tolist() == [True], name
        assert set(none.extra) == set(with_names()[name].extra), name


def test_pseudo_likelihoods_and_energies_keep_the_whole_vocabulary():
    model, text = special_model(3, seed=6), (1, 4, 2)
    pll = sum(
        log_q(model, text, [s for s in range(3) if s != t], t, range(VOCABULARY)) for t in range(3)
    )
    for name in ("pll", "pll_word", "energy_norm"):
        (value,) = scored(model, name, [text]).values.tolist()
        assert with_names()[name].better * value == pytest.approx(pll, abs=EXACT), name


@pytest.mark.parametrize("sites", [2, 3, 4])
@pytest.mark.parametrize("support", [REGULAR, LETTERS])
def test_grid_search_and_score_have_the_law_of_the_chain(sites, support):
    model = special_model(sites, seed=10 + sites)
    expected = law(model, support)
    assert float(expected.sum()) == pytest.approx(1, abs=EXACT)
    assert float((on_grid(model, support).dense().exp() - expected).abs().max()) < EXACT
    texts = list(product(support, repeat=sites))
    by_search = searched(model, support)
    values = torch.tensor([by_search[text] for text in texts], dtype=torch.float64)
    assert float((values - expected.flatten()).abs().max()) < EXACT
    if support == REGULAR:
        by_score = scored(model, "any_order", texts).values.exp()
        assert float((by_score - expected.flatten()).abs().max()) < EXACT
    if sites < 4:
        once = law(model, range(VOCABULARY))
        for t in range(sites):
            once = once.index_select(t, torch.tensor(support))
        assert float((once / once.sum() - expected).abs().max()) > 1e-3, (
            "control: restricted once is another law"
        )
    if sites > 2:
        two = [tuple(range(sites)), tuple(reversed(range(sites)))]
        assert float((law(model, support, orders=two) - expected).abs().max()) > 1e-3, (
            "control: two orders are another law"
        )


@pytest.mark.parametrize("sites", [2, 3, 4])
@pytest.mark.parametrize("support", [REGULAR, (*LETTERS, 2)])
def test_over_candidates_the_chain_is_the_same_law_given_them(sites, support):
    model = special_model(sites, seed=20 + sites)
    candidates = [[4, 2], [1], [2, 1], [4, 1]][:sites]
    expected = law(model, sorted(support))
    for t, tokens in enumerate(candidates):
        expected = expected.index_select(
            t, torch.tensor([sorted(support).index(token) for token in tokens])
        )
    joint = on_grid(model, support, candidates)
    assert float((joint.dense().exp() - expected / expected.sum()).abs().max()) < EXACT
    by_search = searched(model, support)
    ratio = [float(joint.log_prob(x)) - log(by_search[x]) for x in product(*candidates)]
    assert max(ratio) - min(ratio) < EXACT


@pytest.mark.parametrize("sites", [2, 3])
def test_one_order_is_the_law_of_ancestral_draws_and_of_the_fixed_orders(sites):
    model = special_model(sites, seed=40 + sites)
    texts = torch.tensor(list(product(REGULAR, repeat=sites)))
    decoder = Ancestral().on(Target(model, [model.mask_id] * sites, Energy()), Passes(model))
    for score, order in (
        ("left_to_right", range(sites)),
        ("right_to_left", reversed(range(sites))),
    ):
        order = tuple(order)
        expected = torch.tensor(
            [along(model, text, order, REGULAR) for text in texts.tolist()], dtype=torch.float64
        )
        in_order = torch.tensor(order).expand(len(texts), -1)
        drawn = decoder.method.log_prob(decoder, texts, in_order)
        for log_probs in (scored(model, score, texts.tolist()).values, drawn):
            torch.testing.assert_close(log_probs, expected, rtol=0, atol=EXACT)


def test_the_rule_that_chooses_the_order_looks_at_the_regular_tokens():
    model = special_model(3, seed=50)
    for text in product(REGULAR, repeat=3):
        revealed, total = [], 0.0
        while len(revealed) < 3:
            row = tuple(token if t in revealed else model.mask_id for t, token in enumerate(text))
            hidden = [t for t in range(3) if t not in revealed]
            q = {t: model.table[(t, *row)][list(REGULAR)].softmax(0) for t in hidden}
            site = min(hidden, key=lambda t: float(torch.special.entr(q[t]).sum()))
            total += log_q(model, text, revealed, site, REGULAR)
            revealed.append(site)
        assert float(scored(model, "decoder:lowest-entropy@3", [text]).values[0]) == pytest.approx(
            total, abs=EXACT
        )


def test_the_chain_of_evaluate_and_mutants_is_that_law():
    model = special_model(2, seed=60)
    expected, gold = law(model, REGULAR), (4, 1)
    ((row,),) = measure_pairs(
        model, [Cloze((5, 5), (0, 1), gold)], of_names(["chain"]), support=torch.tensor(REGULAR)
    )
    assert row["pair_nll"] == pytest.approx(-log(expected[2, 0]), abs=EXACT)
    tables = unary_tables(model, blanks(model), [torch.tensor(REGULAR)] * 2)
    assert (
        float((effects(derive(tables, "chain"), [0, 1])["log_prob"].exp() - expected).abs().max())
        < EXACT
    )
