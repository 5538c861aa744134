"""Tables of conditionals that a user gives: `Tables.from_conditionals`."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unmask
from unmask.common.errors import InputError


def conditionals(joint):
    return joint / joint.sum(0, keepdims=True), joint / joint.sum(1, keepdims=True)


def drawn(seed: int, rows: int, columns: int):
    joint = np.random.default_rng(seed).dirichlet(np.ones(rows * columns)).reshape(rows, columns)
    return joint + 1e-3 / joint.size


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 5))
def test_conditionals_of_one_joint_give_it_back(seed, rows, columns):
    joint = drawn(seed, rows, columns)
    joint /= joint.sum()
    tables = unmask.Tables.from_conditionals(*conditionals(joint))
    for name in ("hcb", "arnold_gokhale", "balanced", "pseudo_gibbs", "restarted", "chain"):
        assert unmask.derive(tables, name).dense().exp().numpy() == pytest.approx(
            joint, abs=1e-4
        ), name


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_without_masked_the_chain_is_pseudo_gibbs(seed):
    a, b = conditionals(drawn(seed, 4, 3))[0], conditionals(drawn(seed + 1, 4, 3))[1]
    tables = unmask.Tables.from_conditionals(a, b)
    u, v = (masked.exp().numpy() for masked in tables.log_masked)
    assert a @ v == pytest.approx(u, abs=1e-9)
    assert b.T @ u == pytest.approx(v, abs=1e-9)
    chain, gibbs = (unmask.derive(tables, name).dense().exp() for name in ("chain", "pseudo_gibbs"))
    assert torch.allclose(chain, gibbs, atol=2e-4)


def test_masked_distributions_are_used_and_labels_shown():
    a, b = conditionals(drawn(0, 2, 2))
    tables = unmask.Tables.from_conditionals(
        a, b, masked=([0.5, 0.5], [0.9, 0.1]), labels=(["he", "they"], ["is", "are"])
    )
    assert unmask.derive(tables, "product").dense().exp().numpy() == pytest.approx(
        np.outer([0.5, 0.5], [0.9, 0.1])
    )
    assert [tables.spelled(site, i) for site in range(2) for i in range(2)] == [
        "he",
        "they",
        "is",
        "are",
    ]


def test_ids_count_from_0_at_each_site_with_labels_as_without():
    a, b = conditionals(drawn(0, 2, 3))
    plain = unmask.Tables.from_conditionals(a, b)
    labelled = unmask.Tables.from_conditionals(a, b, labels=(["he", "they"], ["is", "are", "they"]))
    for site, size in enumerate((2, 3)):
        assert (
            plain.candidates[site].tolist()
            == labelled.candidates[site].tolist()
            == list(range(size))
        )
    unnamed, joint = (unmask.derive(tables, "balanced") for tables in (plain, labelled))
    assert joint.log_prob([1, 2]) == unnamed.log_prob([1, 2]) == joint.dense()[1, 2] > -torch.inf
    frame = joint.to_frame(1)
    best = joint.topk(1)[0][0].tolist()
    assert frame.iloc[0, :2].tolist() == [["he", "they"][best[0]], ["is", "are", "they"][best[1]]]


def test_every_place_that_takes_a_token_takes_its_name():
    """The name "they" stands at both sites, for two different ids."""
    a, b = conditionals(drawn(1, 2, 3))
    tables = unmask.Tables.from_conditionals(a, b, labels=(["he", "they"], ["is", "are", "they"]))
    joint = unmask.derive(tables, "balanced")
    assert joint.log_prob(["they", "they"]) == joint.log_prob([1, 2]) != joint.log_prob([1, 1])
    assert joint.log_prob([["he", "is"], ["they", "are"]]).equal(joint.log_prob([[0, 0], [1, 1]]))
    assert joint.conditional(0, ["they"]).equal(joint.conditional(0, [2]))
    assert joint.conditional(1, ["they"]).equal(joint.conditional(1, [1]))
    of_names, of_ids = (
        unmask.derive(tables, "hcb", pivot=pivot) for pivot in (["they", "are"], [1, 1])
    )
    assert of_names.report["pivot"] == [1, 1]
    assert of_names.dense().equal(of_ids.dense())
    assert unmask.block_metrics([joint], ["they", "they"]) == unmask.block_metrics([joint], [1, 2])
    for refused in (
        lambda: joint.log_prob(["they", "were"]),
        lambda: joint.conditional(0, ["were"]),
        lambda: unmask.derive(tables, "hcb", pivot=["he", "were"]),
        lambda: unmask.block_metrics([joint], ["he", "were"]),
    ):
        with pytest.raises(InputError, match="'were' is not among the candidates of blank 2"):
            refused()


IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
FAIR = [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.5, 0.5]], [[0.5, 0.5]]), "first has a sum of a column of 0.5: each must sum to 1"),
        ((FAIR, [[0.9, 0.2], [0.5, 0.5]]), "second has a sum of a row of 1.1: each must sum to 1"),
        ((FAIR, [[0.5, 0.5]]), "first is 2 x 2 and second 1 x 2: both are indexed by x, then y"),
        (
            ([[1.5, 0.5], [-0.5, 0.5]], FAIR),
            "first has an entry that is negative or NaN: give probabilities",
        ),
        (([["a"]], FAIR), "first is not an array of numbers: give probabilities"),
        (
            (FAIR,),
            "Tables.from_conditionals: missing a required argument: 'second': give first, second",
        ),
        ((np.array(5.0), FAIR), "first has the shape (): give a matrix"),
        (([0.5, 0.5], FAIR), "first has the shape (2,): give a matrix"),
        (
            (IDENTITY, IDENTITY),
            (
                "the conditionals split the values into parts that never meet: give masked, to"
                " weigh the parts"
            ),
        ),
        ((FAIR, FAIR, [[0.5, 0.5]]), "1 masked distributions were given: give two, of x and of y"),
        (
            (FAIR, FAIR, ([1.0], [0.5, 0.5])),
            "masked has 1 and 2 values, and the tables are 2 x 2: give one per value",
        ),
        (([[10**400, 0], [0, 1]], FAIR), "first is not an array of numbers: give probabilities"),
        ((torch.eye(2).to_sparse(), FAIR), "first is not an array of numbers: give probabilities"),
        (
            (torch.empty(2, 2, device="meta"), FAIR),
            "first is not an array of numbers: give probabilities",
        ),
        (
            (FAIR, FAIR, None, (["a", "\ud800"], ["b", "c"])),
            "the label '\\ud800' has half of a surrogate pair: give texts of whole characters",
        ),
        (
            (FAIR, FAIR, None, (["a"], ["b", "c"])),
            "labels have [1, 2] names, and the tables are 2 x 2: give one per value",
        ),
    ],
)
def test_what_cannot_be_tables_is_refused(arguments, message):
    with pytest.raises(InputError) as error:
        unmask.Tables.from_conditionals(*arguments)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "labels", [torch.eye(2).to_sparse(), torch.empty(2, 2, device="meta")], ids=["sparse", "meta"]
)
def test_tensors_without_plain_numbers_are_refused_in_a_line(labels):
    with pytest.raises(InputError, match="^labels .* is not valid: give "):
        unmask.Tables.from_conditionals(FAIR, FAIR, labels=labels)


def test_tensors_with_gradients_are_their_numbers():
    first = torch.tensor([[0.9, 0.2], [0.1, 0.8]], dtype=torch.float64)
    with_gradient = unmask.Tables.from_conditionals(first.clone().requires_grad_(), FAIR)
    plain = unmask.Tables.from_conditionals(first, FAIR)
    assert torch.equal(with_gradient.log_q[0], plain.log_q[0])
    assert not with_gradient.log_q[0].requires_grad


def test_metrics_of_a_construction_that_has_no_joint_are_refused():
    tables = unmask.Tables.from_conditionals(
        IDENTITY, [[0.3, 0.7], [1, 0]], [[0.4, 0.6], [0.2, 0.8]]
    )
    with pytest.raises(InputError, match="^hcb has no joint over these tables"):
        unmask.block_metrics([unmask.derive(tables, "chain"), unmask.derive(tables, "hcb")], [0, 1])
    (chain,) = unmask.block_metrics([unmask.derive(tables, "chain")], [0, 1]).joints
    assert 0 < chain.a_kl < float("inf")
