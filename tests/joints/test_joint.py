"""The methods of a joint against its dense cells, tiles smaller than the table included."""

from dataclasses import replace

import pytest
import torch
from scipy.stats import chi2

import unmask
from support.constructions import hcb, mrf, product
from support.joint_cases import LARGE, large_tables, random_tables, tables_from
from unmask.common.errors import InputError
from unmask.joints.deriving import derive


def entropy_of(p):
    return float(-(p * p.log()).sum())


SMALL = [
    (size, name)
    for size in [(2, 5), (3, 3), (4, 2)]
    for name in ("mrf", "hcb", "balanced", "chain")
]


@pytest.mark.parametrize(
    ("tables", "name"), [(random_tables(size, 21), name) for size, name in SMALL]
)
def test_reductions_are_those_of_the_dense_cells(tables, name):
    assert_reductions(derive(tables, name))


@pytest.mark.parametrize("name", ["mrf", "hcb", "pseudo_gibbs"])
@pytest.mark.parametrize("shape", LARGE)
def test_tables_of_several_tiles_have_the_same_reductions(shape, name):
    assert_reductions(derive(large_tables(shape, 22), name))


def assert_reductions(joint):
    mu = joint.dense().exp()
    sites = range(joint.sites)
    for t, marginal in enumerate(joint.marginals()):
        torch.testing.assert_close(marginal, mu.sum([s for s in sites if s != t]))
    assert joint.entropy() == pytest.approx(entropy_of(mu), abs=1e-10)
    assert joint.total_correlation() == pytest.approx(
        sum(map(entropy_of, joint.marginals())) - entropy_of(mu), abs=1e-10
    )
    for a in sites:
        for b in sites:
            if a != b:
                away = [s for s in sites if s not in (a, b)]
                pair = mu.sum(away) if away else mu
                expected = entropy_of(pair.sum(0)) + entropy_of(pair.sum(1)) - entropy_of(pair)
                assert joint.mutual_information(a, b) == pytest.approx(expected, abs=1e-10)
    best, where = mu.flatten().sort(descending=True)
    ids, scores = joint.topk(4)
    torch.testing.assert_close(scores.exp(), best[:4])
    torch.testing.assert_close(ids, torch.stack(torch.unravel_index(where[:4], mu.shape), 1))
    assert len(joint.topk(mu.numel() + 1)[0]) == mu.numel()


def p_value(joint, drawn):
    """Of Pearson's chi-square for draws (token ids) from the joint; small where they come from
    another.
    """
    n = len(drawn)
    cells = torch.tensor([int(i) for i in drawn @ torch.tensor([joint.shape[1], 1])])
    counts = torch.bincount(cells, minlength=joint.dense().numel()).double()
    expected = n * joint.dense().exp().flatten()
    keep = expected >= 5
    pooled_counts = torch.cat([counts[keep], counts[~keep].sum()[None]])
    pooled = torch.cat([expected[keep], expected[~keep].sum()[None]])
    used = pooled > 0
    statistic = float(((pooled_counts - pooled)[used] ** 2 / pooled[used]).sum())
    return float(chi2.sf(statistic, int(used.sum()) - 1))


def test_samples_follow_the_joint_and_are_repeatable():
    tables = random_tables((2, 5), 13, scale=0.8)
    joint = derive(tables, "balanced")
    drawn = joint.sample(20_000, seed=5)
    assert drawn.shape == (20_000, 2)
    assert torch.equal(drawn, joint.sample(20_000, seed=5))
    assert not torch.equal(drawn, joint.sample(20_000, seed=6))
    assert p_value(joint, drawn) > 1e-3
    for wrong in (product(tables), hcb(tables)):
        assert p_value(wrong, drawn) < 1e-6


def test_a_seed_is_any_whole_number_of_63_bits():
    joint = derive(random_tables((2, 5), 13), "balanced")
    largest = 2**63 - 1
    assert joint.sample(3, seed=largest).shape == joint.sample(3, seed=0).shape == (3, 2)
    for seed in (largest + 1, -1):
        with pytest.raises(InputError, match=f"^seed {seed} is out of range"):
            joint.sample(3, seed=seed)


def test_tokens_outside_the_candidates_have_no_probability():
    candidates = [torch.tensor([4, 1]), torch.tensor([0, 2, 3])]
    joint = mrf(random_tables((2, 5), 9, candidates=candidates))
    dense = joint.dense()
    log_probs = joint.log_prob([[4, 0], [1, 3], [0, 0], [4, 1]])
    torch.testing.assert_close(log_probs[:2], torch.stack([dense[0, 0], dense[1, 2]]))
    assert log_probs[2:].tolist() == [-torch.inf, -torch.inf]
    assert joint.log_prob([1, 2]).shape == ()
    ids, _ = joint.topk(6)
    assert set(ids[:, 0].tolist()) == {4, 1}
    assert set(ids[:, 1].tolist()) == {0, 2, 3}
    assert set(joint.sample(50, seed=0)[:, 1].tolist()) <= {0, 2, 3}
    with pytest.raises(InputError, match=r"tokens \[1\] are not all among the candidates"):
        joint.conditional(0, [1])
    with pytest.raises(InputError, match="site 2 is out of range: give a whole number from 0 to 1"):
        joint.conditional(2, [0])


def test_tables_for_people():
    candidates = [torch.tensor([4, 1]), torch.tensor([0, 2, 3])]
    joint = derive(
        replace(random_tables((2, 5), 9, candidates=candidates), label="token{}".format), "balanced"
    )
    frame = joint.to_frame(3)
    assert list(frame.columns) == ["blank_1", "blank_2", "log_prob", "prob"]
    assert len(frame) == 3
    assert frame["log_prob"].is_monotonic_decreasing
    assert frame["blank_1"].str.startswith("token").all()
    html = joint._repr_html_()
    assert "<b>balanced</b>" in html
    assert "2 &times; 3 fillings" in html
    assert "% of the product joint" in html
    assert "product joint" not in derive(random_tables((2, 5), 9), "balanced")._repr_html_()
    assert repr(joint) == "Joint(balanced, shape=(2, 3))"


def test_tokens_may_be_named_as_they_are_spelled():
    joint = unmask.fill("The [MASK] [MASK] at the casino.", candidates=16).joint
    ids, scores = joint.topk(1)
    words = [joint.tables.spelled(site, i) for site, i in enumerate(ids[0].tolist())]
    assert joint.log_prob(words) == joint.log_prob(ids[0]) == scores[0]
    assert joint.conditional(1, words[:1]).equal(joint.conditional(1, [int(ids[0, 0])]))
    assert joint.conditional(0, words[1:]).equal(joint.conditional(0, [int(ids[0, 1])]))
    for word, why in [
        (
            "violinist",
            r"it is 2 tokens of the model \('viol' '##inist'\), so use \[WORD\] or \[GAP\]",
        ),
        ("mat ", "the model has no such token; it reads 'mat', so give that"),
        ("", "it is not a word of the model"),
        ("mat", "give more candidates, or targets"),
    ]:
        with pytest.raises(
            InputError, match=f"^'{word}' is not among the candidates of blank 2: {why}"
        ):
            joint.log_prob([words[0], word])


def test_a_spelling_of_two_tokens_is_refused():
    joint = derive(
        replace(random_tables((2, 5), 9), label=lambda i: "same" if i in (1, 3) else str(i)),
        "balanced",
    )
    with pytest.raises(
        InputError, match="'same' is how 2 candidates of blank 1 are spelled: give token ids"
    ):
        joint.log_prob(["same", "0"])
    assert joint.log_prob(["0", "2"]) == joint.log_prob([0, 2])


def test_one_blank_is_labelled_and_its_numbers_are_a_tensor():
    tables = replace(random_tables((2, 5), 9), label="token{}".format)
    joint = derive(tables, "balanced")
    mu = joint.dense().exp()
    for site in range(2):
        marginal = joint.marginal(site)
        assert isinstance(marginal, torch.Tensor)
        assert marginal.equal(joint.marginals()[site])
        torch.testing.assert_close(marginal + 0, mu.sum(1 - site))
        assert marginal.to_frame()["token"].tolist() == [f"token{i}" for i in range(5)]
        assert marginal.to_frame()["prob"].tolist() == marginal.tolist()
    row = joint.conditional(1, ["token3"])
    torch.testing.assert_close(row + 0, mu[3] / mu[3].sum())
    top = row.top(2)
    best = (row + 0).topk(2)
    assert top["token"].tolist() == [f"token{i}" for i in best.indices.tolist()]
    assert top["prob"].tolist() == best.values.tolist()
    assert len(row.top()) == 5
    for computed in (row[:2], row * 2, row.exp(), torch.stack([row, row])):
        assert type(computed) is torch.Tensor, "a slice has other tokens, or none"
    with pytest.raises(InputError, match="site 2 is out of range"):
        joint.marginal(2)
    with pytest.raises(InputError, match="n"):
        row.top(0)


@pytest.mark.parametrize("name", ["product", "chain", "mrf", "balanced", "pseudo_gibbs"])
def test_a_context_of_probability_0_has_no_conditional(name):
    """Token 2 of blank 1 is ruled out by every pass."""
    logits = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits[0, 2] = -torch.inf
    masked = [
        torch.tensor([0.4, 0.6, 0.0], dtype=torch.float64).log(),
        torch.zeros(3, dtype=torch.float64).log_softmax(0),
    ]
    joint = derive(tables_from([f.log_softmax(t) for t, f in enumerate(logits)], masked), name)
    if name in ("product", "chain", "mrf"):
        with pytest.raises(
            InputError,
            match=rf"tokens \[2\] have probability 0 in {name}: give tokens that it allows",
        ):
            joint.conditional(1, [2])
    else:
        assert float(joint.marginal(0)[2]) < 1e-30
        assert not joint.conditional(1, [2]).isnan().any()
    assert not joint.conditional(1, [1]).isnan().any()
    assert joint.log_prob([2, 0]) < -60


def test_a_construction_without_a_joint_has_no_conditional_either():
    logits = torch.zeros(2, 3, 3, dtype=torch.float64)
    logits[1, 0, 0] = -torch.inf
    joint = hcb(tables_from([f.log_softmax(t) for t, f in enumerate(logits)]), [0, 0])
    with pytest.raises(InputError, match="hcb has no joint over these tables"):
        joint.conditional(0, [1])
