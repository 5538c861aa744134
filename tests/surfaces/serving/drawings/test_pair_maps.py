"""The map of two blanks, which the page draws, against the enumerated joint."""

from dataclasses import replace

import pytest
from numpy.testing import assert_allclose

from unmask.common.cloze import Cloze
from unmask.common.formats import percent
from unmask.joints.deriving import derive
from unmask.models.tabular import TabularMLM
from unmask.surfaces.serving.drawings.pair_maps import pair_map
from unmask.surfaces.serving.drawings.shapes import percent_of
from unmask.tables.unary import unary_tables


def joints(model, construction):
    tables = unary_tables(model, Cloze((model.mask_id,) * 2, (0, 1)))
    return derive(tables, construction), derive(tables, "product")


@pytest.mark.parametrize("construction", ["balanced", "chain", "mrf"])
def test_the_whole_map_is_the_joint(construction):
    joint, product = joints(TabularMLM.random(5, 2, seed=4), construction)
    drawn = pair_map(joint, product, cells=5)
    rows, columns = (axis.ids for axis in drawn.axes)
    assert_allclose(drawn.joint, joint.dense().exp()[rows][:, columns])
    assert_allclose(drawn.product, product.dense().exp()[rows][:, columns])
    for t, axis in enumerate(drawn.axes):
        assert_allclose(axis.marginal, joint.dense().exp().sum(1 - t)[axis.ids])
        assert_allclose(axis.independent, product.dense().exp().sum(1 - t)[axis.ids])
        assert axis.marginal == sorted(axis.marginal, reverse=True)
    assert drawn.note() == "The map shows all tokens considered."


def test_a_small_map_has_the_tokens_that_are_likely_on_average_of_both_laws():
    """As the page says; they are not those that are likeliest under the joint alone."""
    other = 0
    for seed in range(20):
        joint, product = joints(TabularMLM.random(9, 2, seed=seed), "chain")
        drawn = pair_map(joint, product, cells=4, gold=[0, 1])
        assert drawn.note().startswith("The map shows 4 x 4 of the tokens considered: ")
        assert drawn.note().endswith("; what stood there is underlined.")
        for t, axis in enumerate(drawn.axes):
            own, apart = joint.dense().exp().sum(1 - t), product.dense().exp().sum(1 - t)
            by_average = (own + apart).argsort(descending=True).tolist()
            others = [token for token in by_average if token != axis.gold][:3]
            assert sorted(axis.ids) == sorted([axis.gold, *others])
            other += sorted(axis.ids) != sorted(own.topk(4).indices.tolist())
    assert other > 20


@pytest.fixture
def pair():
    return joints(TabularMLM.random(5, 2, seed=4), "balanced")


def test_layers_have_the_square_roots_of_probabilities(pair):
    joint, product = (one.dense().exp() for one in pair)
    drawn = pair_map(*pair, cells=5)
    rows, columns = (axis.ids for axis in drawn.axes)
    grid = drawn.grid()
    largest = max(joint.max(), product.max())
    apart = joint - product
    expected = {
        "joint": (joint / largest).sqrt(),
        "product": (product / largest).sqrt(),
        "difference": apart.sign() * (apart.abs() / apart.abs().max()).sqrt(),
    }
    assert [layer["name"] for layer in grid["layers"]] == list(expected)
    assert grid["shown"] == "joint"
    for layer in grid["layers"]:
        shares = expected[layer["name"]][rows][:, columns]
        assert_allclose(layer["shares"], shares, atol=5e-5 + 1e-9)
        assert layer["signed"] == (layer["name"] == "difference")


def test_the_ticks_are_the_numbers_at_their_colours(pair):
    """Of a probability p the share is the root of p by the largest: a half at a quarter of it."""
    joint, product = (one.dense().exp() for one in pair)
    largest = float(max(joint.max(), product.max()))
    of_joint, of_product, of_difference = pair_map(*pair, cells=5).grid()["layers"]
    ticks = [(0.0, "0"), (0.5, percent_of(largest / 4)), (1.0, percent_of(largest))]
    assert of_joint["ticks"] == of_product["ticks"] == ticks
    apart = percent_of(float((joint - product).abs().max()))
    assert of_difference["ticks"] == [(0.0, f"-{apart}"), (0.5, "0"), (1.0, f"+{apart}")]


def test_rounding_errors_of_a_difference_have_no_colour():
    _, product = joints(TabularMLM.random(5, 2, seed=4), "balanced")
    drawn = pair_map(product, product, cells=5)
    first = drawn.joint[0]
    rounded = [[first[0] * (1 + 1e-7), *first[1:]], *drawn.joint[1:]]
    (layer,) = replace(drawn, joint=rounded).grid(layers=["difference"])["layers"]
    assert {share for row in layer["shares"] for share in row} == {0.0}


def test_every_cell_and_head_says_its_numbers(pair):
    joint, product = (one.dense() for one in pair)
    drawn = pair_map(*pair, cells=5, gold=[2, 3])
    grid = drawn.grid(("blank 1", "residue 7"))
    assert grid["corner"] == ("blank 1", "residue 7")
    for i, first in enumerate(drawn.axes[0].ids):
        for j, second in enumerate(drawn.axes[1].ids):
            cell = grid["cells"][i][j]
            assert cell["name"] == f"{pair[0].tables.label(first)} … {pair[0].tables.label(second)}"
            own, apart = float(joint[first, second]), float(product[first, second])
            numbers = f"{percent(own)} under balanced, {percent(apart)} if independent ("
            assert cell["numbers"].startswith(numbers)
            times = float(cell["numbers"].removeprefix(numbers).removesuffix(" times)"))
            ratio = 2.718281828 ** (own - apart)
            assert times == pytest.approx(ratio, rel=0.06), "two digits"
    marginals = [joint.exp().sum(1), joint.exp().sum(0)]
    products = [product.exp().sum(1), product.exp().sum(0)]
    longest = max(float(one.max()) for one in (*marginals, *products))
    for t, heads in enumerate((grid["rows"], grid["columns"])):
        for head in heads:
            own = float(marginals[t][head["id"]])
            assert head["title"] == f"{head['label']} in {grid['corner'][t]}: {percent_of(own)}"
            assert head["share"] == pytest.approx(own / longest, abs=1e-4)
            assert head["mark"] == pytest.approx(float(products[t][head["id"]]) / longest, abs=1e-4)
            assert head["stands"] == (head["id"] == [2, 3][t])


@pytest.mark.parametrize(
    ("product", "times"),
    [(0.1, "5"), (0.04, "12"), (1e-5, "50,000"), (1e-28, "5e+27")],
)
def test_a_ratio_has_the_digits_that_its_probabilities_have(pair, product, times):
    drawn = replace(pair_map(*pair, cells=1), joint=[[0.5]], product=[[product]])
    ((cell,),) = drawn.grid()["cells"]
    assert cell["numbers"].endswith(f"({times} times)")


def test_a_map_without_edges_has_no_bars_and_the_layers_asked_for(pair):
    assert pair_map(*pair, cells=3).grid(layers=["difference", "joint"])["shown"] == "difference"
    grid = pair_map(*pair, cells=3).grid(layers=["joint"], has_edges=False)
    assert [layer["name"] for layer in grid["layers"]] == ["joint"]
    assert grid["edges"] == []
    assert {head["share"] for head in (*grid["rows"], *grid["columns"])} == {None}


def test_the_table_of_a_map_has_its_probabilities(pair):
    drawn = pair_map(*pair, cells=5)
    table = drawn.table().to_dict()
    assert [column["head"] for column in table["columns"]] == [
        "first",
        "second",
        "balanced",
        "product",
    ]
    cells = [cell for row in drawn.joint for cell in row]
    assert [row[2] for row in table["rows"]] == cells
    assert [row[2] for row in table["shown"]] == [percent_of(cell) for cell in cells]


def test_a_probability_of_0_is_written():
    assert percent_of(0.0) == "0.00 %"
    assert percent_of(0.25) == "25.00 %"
