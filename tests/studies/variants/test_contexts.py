"""Scores of variants against enumeration on models given by tables, and how many passes they
take.
"""

from itertools import combinations
from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.all_at_once import contexts_of, variant_scores
from unmask.common.cloze import blanked
from unmask.common.errors import ModelError
from unmask.joints.deriving import derive
from unmask.models.tabular import TabularMLM
from unmask.studies.variants.effects import effects
from unmask.studies.variants.scores.score import VARIANT_SCORES
from unmask.tables.lattice import random_orders
from unmask.tables.unary import unary_tables

NAMES = [name for name in VARIANT_SCORES if name != "pairs"]
ALL = [*NAMES, "pairs:balanced", "pairs:mrf"]


def by_hand(
    model: TabularMLM,
    ids: list[int],
    sites: list[int],
    x: tuple[int, ...],
    allowed: list[int],
    orders,
    construction: str,
):
    """Every score of one variant, one conditional at a time."""

    def q(site: int, seen: dict[int, int]) -> torch.Tensor:
        """log q at a site over the alphabet; `seen` are the sites that are revealed."""
        text = [
            seen.get(t, model.mask_id) if t in sites or t in seen else token
            for t, token in enumerate(ids)
        ]
        logits = model.logits(torch.tensor([text]), torch.tensor([[site]]))[0, 0]
        return dict(zip(allowed, logits[allowed].log_softmax(-1).tolist(), strict=True))

    new, old = dict(zip(sites, x, strict=True)), {t: ids[t] for t in sites}
    chain = [
        sum(
            q(sites[s], {sites[r]: new[sites[r]] for r in order[:j]})[new[sites[s]]]
            for j, s in enumerate(order)
        )
        for order in orders
    ]
    others = {t: {s: token for s, token in old.items() if s != t} for t in sites}
    singles = sum(q(t, others[t])[new[t]] - q(t, others[t])[old[t]] for t in sites)
    changed = sorted(t for t in sites if new[t] != old[t])

    def epistasis(construction: str) -> float:
        total = 0.0
        for pair in combinations(changed, 2):
            axes = [torch.tensor(allowed)] * 2
            table = unary_tables(
                model, blanked(ids, pair, model.mask_id), axes, torch.float64, support=axes
            )
            wild = [allowed.index(ids[t]) for t in pair]
            total += float(
                effects(derive(table, construction), wild)["epistasis"][
                    tuple(allowed.index(new[t]) for t in pair)
                ]
            )
        return total

    left = sorted(sites)
    return {
        "singles": singles,
        "product": sum(q(t, {})[new[t]] for t in sites),
        "pll_sites": sum(q(t, {s: new[s] for s in sites if s != t})[new[t]] for t in sites),
        "left_to_right_sites": sum(
            q(t, {s: new[s] for s in left[:j]})[new[t]] for j, t in enumerate(left)
        ),
        "any_order_sites": float(torch.tensor(chain, dtype=torch.float64).logsumexp(0))
        - log(len(chain)),
        "any_order_sites_mean_log": sum(chain) / len(chain),
        "epistasis": epistasis(construction),
        "pairs:balanced": singles + epistasis("balanced"),
        "pairs:mrf": singles + epistasis("mrf"),
    }


def everything(letters: list[int], sites: int) -> torch.Tensor:
    return torch.cartesian_prod(*[torch.tensor(letters)] * sites).reshape(-1, sites)


@settings(max_examples=6, deadline=None)
@given(
    st.integers(0, 10**6),
    st.permutations([0, 1, 2, 3]),
    st.integers(1, 3),
    st.sampled_from(["balanced", "hcb"]),
)
def test_every_score_is_that_summed_by_hand(seed, positions, k, construction):
    model, sites, allowed = TabularMLM.random(3, 4, seed), positions[:k], [2, 0]
    ids = torch.randint(0, 2, (4,), generator=torch.Generator().manual_seed(seed)).mul(2).tolist()
    variants = everything(allowed, k)
    scores = variant_scores(
        model, ids, sites, variants, ALL, allowed, orders=3, seed=seed, construction=construction
    )
    assert [name for name in scores if name != "any_order_sites_mean_log"] == ALL
    drawn = random_orders(1, 3, k, torch.Generator().manual_seed(seed))[0].tolist()
    left = sorted(range(k), key=lambda i: sites[i])
    orders = [[left[s] for s in order] for order in drawn]
    for row, x in enumerate(variants.tolist()):
        expected = by_hand(model, ids, sites, tuple(x), allowed, orders, construction)
        assert {name: float(values[row]) for name, values in scores.items()} == pytest.approx(
            expected, abs=1e-9
        )


def test_probabilities_sum_to_one_and_pseudo_likelihoods_do_not():
    model = TabularMLM.random(3, 4, 7)
    scores = variant_scores(
        model, [0, 1, 2, 0], [3, 0, 2], everything([0, 1, 2], 3), ALL, [0, 1, 2], orders=4
    )
    totals = {name: float(values.logsumexp(0).exp()) for name, values in scores.items()}
    for name in NAMES:
        is_probability = totals[name] == pytest.approx(1, abs=1e-12)
        assert is_probability is VARIANT_SCORES[name].probability, name
    assert totals["any_order_sites_mean_log"] < 1


def test_passes_are_the_distinct_contexts_exactly():
    model, k = TabularMLM.random(2, 6, 3), 5
    rows = []
    logits, substitutions = model.logits_at, model.substitutions
    model.logits_at = lambda ids, positions: rows.append(len(ids)) or logits(ids, positions)
    model.substitutions = lambda ids, vary, values, predict: substitutions(
        ids, vary, values, predict
    )
    variants = everything([0, 1], k)
    expected = {
        "pll_sites": k * 2 ** (k - 1),
        "left_to_right_sites": 2**k - 1,
        "product": 1,
        "singles": k,
        "epistasis": k + 10 * 5,
    }
    for name, passes in expected.items():
        rows.clear()
        contexts = contexts_of(model, [0] * 6, range(k), name, [0, 1])
        assert contexts.pass_count(variants) == passes
        contexts.scores(variants)
        assert contexts.passes == passes
        assert sum(rows) >= passes
    several = contexts_of(model, [0] * 6, range(k), "pll_sites,left_to_right_sites,product", [0, 1])
    shared = (
        k * 2 ** (k - 1) + 2**k - 1 - 2 ** (k - 1)
    )  # the last step of the chain is a term of pll, the first the product's
    rows.clear()
    several.scores(variants)
    assert several.pass_count(variants) == several.passes == sum(rows) == shared


def test_any_orders_share_prefixes():
    k = 4
    contexts = contexts_of(
        TabularMLM.random(2, k, 3), [0] * k, range(k), "any_order_sites", [0, 1], orders=5, seed=2
    )
    prefixes = {
        frozenset(order[:j])
        for order in random_orders(1, 5, k, torch.Generator().manual_seed(2))[0].tolist()
        for j in range(k)
    }
    assert contexts.pass_count(everything([0, 1], k)) == sum(
        2 ** len(prefix) for prefix in prefixes
    )
    assert contexts.pass_count(everything([0, 1], k)[:1]) == len(prefixes)


def test_only_pairs_that_a_variant_changes_are_asked_for():
    contexts = contexts_of(TabularMLM.random(2, 4, 3), [0] * 4, range(4), "pairs", [0, 1])
    assert contexts.pass_count(torch.tensor([[1, 1, 0, 0], [0, 0, 1, 0]])) == 4 + 5


def test_equal_variants_get_the_same_numbers_and_order_does_not_matter():
    model, variants = TabularMLM.random(3, 4, 1), everything([0, 1, 2], 3)
    some = torch.tensor([5, 0, 5, 26, 13, 0])
    whole = variant_scores(model, [0] * 4, [0, 1, 3], variants, ALL, [0, 1, 2])
    part = variant_scores(model, [0] * 4, [0, 1, 3], variants[some], ALL, [0, 1, 2])
    for name in whole:
        assert torch.equal(part[name], whole[name][some])


def test_many_sites_have_keys_too(monkeypatch):
    monkeypatch.setattr("unmask.studies.variants.contexts.LARGEST_KEY", 20)
    test_equal_variants_get_the_same_numbers_and_order_does_not_matter()
    test_any_orders_share_prefixes()


def test_a_parent_outside_the_alphabet_has_its_contexts_still():
    model = TabularMLM.random(3, 3, 1)
    scores = variant_scores(
        model, [2, 0, 0], [0, 1], everything([0, 1], 2), "product,pll_sites", [0, 1]
    )
    assert float(scores["product"].logsumexp(0)) == pytest.approx(0, abs=1e-12)


def test_nan_is_an_error():
    model = TabularMLM.random(2, 3, 1)
    model.table[0] = torch.nan
    with pytest.raises(ModelError, match="not finite"):
        variant_scores(model, [0] * 3, [0, 1], everything([0, 1], 2), "pll_sites", [0, 1])


@pytest.mark.parametrize("enough", [1, 4, 1000])
def test_batches_do_not_change_the_numbers(letters_folder, enough, monkeypatch):
    """Sets that pass by themselves, and sets in common batches, against one forward pass per
    row.
    """
    from unmask.models.masked_lm import MaskedLM

    model = MaskedLM.load(letters_folder, device="cpu", dtype="float64")
    ids = model.words.encode("A C D E G A C")
    monkeypatch.setattr("unmask.studies.variants.contexts.enough_rows", lambda *_: enough)
    monkeypatch.setattr(MaskedLM, "rows_at_once", lambda *_: 7)
    sites, allowed = [2, 5, 6], ids[1:6]
    variants = torch.tensor(ids[1:4])[everything([0, 1, 2], 3)]
    scores = variant_scores(
        model, ids, sites, variants, "pll_sites,left_to_right_sites,product", allowed
    )
    place = {token: i for i, token in enumerate(allowed)}
    for row, x in enumerate(variants.tolist()):
        sums = dict.fromkeys(scores, 0.0)
        for t, site in enumerate(sites):
            for name, shown in {
                "pll_sites": {0, 1, 2} - {t},
                "left_to_right_sites": set(range(t)),
                "product": set(),
            }.items():
                text = list(ids)
                for s in range(3):
                    text[sites[s]] = x[s] if s in shown else model.mask_id
                with torch.no_grad():
                    logits = model.network(input_ids=torch.tensor([text])).logits[0, site, allowed]
                sums[name] += float(logits.log_softmax(-1)[place[x[t]]])
        assert {name: float(values[row]) for name, values in scores.items()} == pytest.approx(
            sums, abs=1e-10
        )
