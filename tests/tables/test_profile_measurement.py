"""The measurement of a dependence profile: informations by enumeration, and their sums."""

import itertools
import math

import pytest
import torch

from unmask.models.tabular import TabularMLM
from unmask.tables.profile_measurement import (
    ENOUGH,
    RandomSites,
    SumsByDistance,
    add_pairs,
    random_sites,
)

V, T = 3, 4


def enumerated(model, ids, hidden, i, j, tokens):
    """I_ij and both entropies, token by token."""
    text = [model.mask_id if hidden[t] else int(ids[t]) for t in range(T)]

    def q(at, site=None, token=None):
        row = [token if t == site else text[t] for t in range(T)]
        return model.logits(torch.tensor([row]), torch.tensor([[at]]))[0, 0].softmax(0).tolist()

    own, other = q(i), q(j)
    likeliest = sorted(range(V), key=lambda a: -own[a])[:tokens]
    share = {a: own[a] / sum(own[b] for b in likeliest) for a in likeliest}
    conditional = {a: q(j, i, a) for a in likeliest}
    mean = [sum(share[a] * conditional[a][v] for a in likeliest) for v in range(V)]
    information = sum(
        share[a] * conditional[a][v] * math.log(conditional[a][v] / mean[v])
        for a in likeliest
        for v in range(V)
    )
    entropies = [-sum(p * math.log(p) for p in law) for law in (own, other)]
    return information, min(entropies)


@pytest.mark.parametrize("tokens", [2, V])
def test_sums_are_those_of_plain_loops(tokens):
    """Of several texts with different hidden sets at once; in float64, to 1e-12."""
    model = TabularMLM.random(V, T, seed=1)
    ids = torch.tensor(list(itertools.product(range(V), repeat=T)))[::7]
    every = torch.ones_like(ids, dtype=torch.bool)
    sites = random_sites(every, torch.Generator().manual_seed(2))
    assert sites.hidden.sum(1).min() >= 2
    assert sites.hidden.sum(1).max() == T
    sums = SumsByDistance.zeros(T)
    expected = SumsByDistance.zeros(T)
    add_pairs(sums, model, ids, sites, tokens)
    for text, mask, i in zip(
        ids.tolist(), sites.hidden.tolist(), sites.chosen.tolist(), strict=True
    ):
        for j in range(T):
            if mask[j] and j != i:
                information, entropy = enumerated(model, text, mask, i, j, tokens)
                numbers = torch.tensor([[information], [entropy]], dtype=torch.float64)
                expected.add(torch.tensor([abs(i - j)]), *numbers)
    torch.testing.assert_close(sums.totals, expected.totals, atol=1e-12, rtol=0)
    assert sums.totals[2, 1:].min() > 0
    assert sums.texts == len(ids)


def test_conditionals_of_one_joint_give_its_mutual_information():
    """Everything hidden: I_ij is that of p. Independent sites have none."""
    draw = torch.Generator().manual_seed(0)
    joint = torch.rand((V,) * 3, generator=draw, dtype=torch.float64)
    joint /= joint.sum()
    everything = torch.ones((1, 3), dtype=torch.bool)
    for table, independent in (
        (joint, False),
        (torch.einsum("a,b,c->abc", *[joint.sum((1, 2))] * 3), True),
    ):
        sums = SumsByDistance.zeros(3)
        model, ids = TabularMLM.from_joint(table), torch.zeros((1, 3), dtype=torch.long)
        sites = RandomSites(everything, torch.tensor([0]), torch.rand((1, 3)))
        add_pairs(sums, model, ids, sites, V)
        pairs = [table.sum(2), table.sum(1)]
        true = [float((p * (p / (p.sum(1, keepdim=True) * p.sum(0))).log()).sum()) for p in pairs]
        assert sums.totals[0, 1:].tolist() == pytest.approx(true, abs=1e-12)
        assert independent == (max(true) < 1e-12)


def test_hidden_sites_are_free_ones():
    free = torch.tensor(
        [[False, True, True, True, False], [False, True, True, False, False]]
    ).repeat(200, 1)
    sites = random_sites(free, torch.Generator().manual_seed(0))
    assert not (sites.hidden & ~free).any()
    assert sites.hidden.gather(1, sites.chosen.unsqueeze(1)).all()
    assert set(sites.hidden.sum(1)[::2].tolist()) == {2, 3}
    assert set(sites.hidden.sum(1)[1::2].tolist()) == {2}


def test_a_distance_with_few_pairs_takes_its_neighbours_in():
    """f is a ratio of sums: at distance 3 of the pairs at 2, 3 and 4, at 5 of those at 3 to 7;
    it ends with the last pair.
    """
    sums = SumsByDistance.zeros(9)
    for distance, pairs, information in (
        (1, ENOUGH, 1.0),
        (2, ENOUGH, 0.5),
        (3, ENOUGH - 1, 0.3),
        (4, 1, 0.2),
        (6, 2, 0.1),
    ):
        sums.add(
            torch.full((pairs,), distance),
            torch.full((pairs,), information),
            torch.full((pairs,), 2.0),
        )
    ratios = sums.by_distance()
    third = (ENOUGH * 0.5 + (ENOUGH - 1) * 0.3 + 0.2) / (2 * 2 * ENOUGH)
    fifth = ((ENOUGH - 1) * 0.3 + 0.2 + 2 * 0.1) / (2 * (ENOUGH + 2))
    assert len(ratios) == 6
    assert ratios[:3] == (0.5, 0.25, pytest.approx(third, abs=1e-6))
    assert ratios[4] == pytest.approx(fifth, abs=1e-6)
