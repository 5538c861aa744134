"""`measure_pair` against the paper's section 3 written out in float64, with the tables from plain forward passes."""

from __future__ import annotations

import pytest
import torch

from unmask.cloze import Cloze
from unmask.errors import InputError
from unmask.evaluation.measure import measure_pair
from unmask.joints import CONSTRUCTIONS

TEXT = [2, 5, 7, 9, 11, 13, 15, 3]
BLOCK = (2, 4)


def plain_tables(network: torch.nn.Module, ids: list[int], a: int, b: int, mask: int):
    """A[x, y] = q(x at a | y at b), B[x, y] = q(y at b | x at a), m_a, m_b, one forward pass per row, all positions computed."""
    network = network.double()
    size = network.config.vocab_size

    def at(position: int, **filled: int) -> torch.Tensor:
        row = list(ids)
        row[a], row[b] = filled.get("x", mask), filled.get("y", mask)
        with torch.no_grad():
            return network(torch.tensor([row])).logits[0, position].log_softmax(-1)

    log_a = torch.stack([at(a, y=y) for y in range(size)], 1)
    log_b = torch.stack([at(b, x=x) for x in range(size)], 0)
    return log_a, log_b, at(a), at(b)


def reference(log_a, log_b, log_ma, log_mb, gold, steps):
    """Rows of the paper's constructions by their equations, everything materialised."""
    pivot = int(log_ma.argmax())
    mu = torch.full_like(log_a, 1.0 / log_a.numel())
    for _ in range(steps):
        mu = (log_a.exp() + log_b.exp()) / (1 / mu.sum(1, keepdim=True) + 1 / mu.sum(0, keepdim=True))
        mu = mu / mu.sum()
    rules = {
        "product": log_ma[:, None] + log_mb[None, :],
        "mrf": log_a + log_b,
        "hcb": log_a - log_a[pivot] + log_b[pivot],
        "arnold_gokhale": mu.log(),
    }
    x, y = gold
    found = {}
    for name, rule in rules.items():
        joint = rule - rule.logsumexp((0, 1))
        first, second = joint.log_softmax(0), joint.log_softmax(1)
        kl_first = (log_a.exp() * (log_a - first)).sum(0)
        kl_second = (log_b.exp() * (log_b - second)).sum(1)
        unary = (log_a, log_b) if name == "product" else (first, second)
        found[name] = {
            "unary_nll_first": -unary[0][x, y],
            "unary_nll_second": -unary[1][x, y],
            "pair_nll": -joint[x, y],
            "a_kl": (kl_first.mean() + kl_second.mean()) / 2,
            "g_kl": (kl_first[y] + kl_second[x]) / 2,
            "objective": kl_first.sum() + kl_second.sum(),
        }
    return found


@pytest.fixture(scope="module")
def tables(tiny_folder):
    from transformers import AutoModelForMaskedLM

    network = AutoModelForMaskedLM.from_pretrained(tiny_folder).eval()
    return plain_tables(network, TEXT, *BLOCK, mask=4)


def masked() -> Cloze:
    ids = tuple(4 if t in BLOCK else token for t, token in enumerate(TEXT))
    return Cloze(ids, BLOCK, (TEXT[BLOCK[0]], TEXT[BLOCK[1]]))


def largest_gap(rows, expected) -> float:
    return max(abs(float(row[k]) - float(v)) for row in rows for k, v in expected[row["construction"]].items())


def test_every_number_is_the_paper_s(tiny, tables):
    gold = (TEXT[BLOCK[0]], TEXT[BLOCK[1]])
    expected = reference(*tables, gold, steps=50)
    rows = measure_pair(tiny, masked(), list(expected), arnold_gokhale_steps=50)
    assert [row["construction"] for row in rows] == list(expected)
    assert {row["construction"]: row["steps"] for row in rows} == {
        "product": None,
        "mrf": None,
        "hcb": None,
        "arnold_gokhale": 50,
    }
    assert largest_gap(rows, expected) < 2e-4
    log_a, log_b, *_ = tables
    ratio = log_a - log_b
    gap = ratio + ratio.logsumexp((0, 1)) - ratio.logsumexp(0, keepdim=True) - ratio.logsumexp(1, keepdim=True)
    assert rows[0]["compatibility"] == pytest.approx(float(gap.square().mean()), abs=1e-4)


def test_a_position_one_off_would_be_seen(tiny, tables):
    expected = reference(*tables, (TEXT[1], TEXT[3]), steps=50)
    rows = measure_pair(tiny, masked(), list(expected), arnold_gokhale_steps=50)
    assert largest_gap(rows, expected) > 0.1


def test_all_constructions_come_back_and_arnold_gokhale_has_the_lowest_objective(tiny):
    rows = measure_pair(tiny, masked(), list(CONSTRUCTIONS))
    objectives = {row["construction"]: row["objective"] for row in rows}
    assert list(objectives) == list(CONSTRUCTIONS)
    assert min(objectives, key=objectives.__getitem__) == "arnold_gokhale"
    assert all(
        row["steps"] > 0 for row in rows if row["construction"] in ("arnold_gokhale", "balanced", "pseudo_gibbs", "restarted")
    )


def test_a_cloze_without_gold_tokens_is_refused(tiny):
    with pytest.raises(InputError, match="own tokens are not known"):
        measure_pair(tiny, Cloze(masked().ids, BLOCK), ["product"])


def test_over_some_tokens_every_number_is_that_of_the_tables_restricted_to_them(tiny, tables):
    """The paper's definitions again, from conditionals that are normalised over the support."""
    support = torch.tensor(tiny.regular_ids)
    log_a, log_b, log_ma, log_mb = tables
    inside = [t[support][:, support] for t in (log_a, log_b)]
    restricted = (inside[0].log_softmax(0), inside[1].log_softmax(1), *(m[support].log_softmax(0) for m in (log_ma, log_mb)))
    gold = tuple(tiny.regular_ids.index(TEXT[t]) for t in BLOCK)
    expected = reference(*restricted, gold, steps=50)
    rows = measure_pair(tiny, masked(), list(expected), 50, support)
    assert largest_gap(rows, expected) < 2e-4
    assert largest_gap(measure_pair(tiny, masked(), list(expected), 50), expected) > 0.01
