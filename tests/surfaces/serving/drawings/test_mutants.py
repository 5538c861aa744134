"""Coloured cells of mutants: every cell is the number of the mutant that it names."""

from dataclasses import replace
from json import dumps
from math import inf, nan

import pytest
from numpy.testing import assert_allclose

import unmask
from unmask.common.formats import nats
from unmask.surfaces.serving.drawings.mutants import MUTANT_NUMBERS, drawn_mutants

SEQUENCE = "the cat sat on the mat ."
PLACES = (2, 3)


@pytest.fixture(scope="module")
def doubles(tiny):
    return unmask.mutants(SEQUENCE, positions=PLACES, changes=2, model=tiny)


@pytest.fixture(scope="module")
def singles(tiny):
    return unmask.mutants(SEQUENCE, positions="all", model=tiny)


def number_of(mutants, name):
    """The numbers of each mutant by its name."""
    return dict(zip(mutants.names, mutants.numbers[name], strict=True))


def test_the_cells_of_a_pair_are_its_mutants(doubles):
    drawn = drawn_mutants(doubles, PLACES, changes=2)
    grid = drawn["grid"]
    assert drawn["title"] == "Double mutants of cat2 and sat3"
    assert grid["corner"] == ("cat2 becomes", "sat3 becomes")
    assert [layer["name"] for layer in grid["layers"]] == list(MUTANT_NUMBERS)
    assert grid["shown"] == "epistasis"
    for layer in grid["layers"]:
        known = number_of(doubles, layer["name"])
        largest = max(map(abs, known.values()))
        assert layer["ticks"] == [(0, nats(-largest)), (0.5, "0"), (1, f"+{nats(largest)}")]
        assert layer["meaning"] == f"{layer['name']}: {MUTANT_NUMBERS[layer['name']]}."
        shares = {}
        for row, cells in zip(layer["shares"], grid["cells"], strict=True):
            shares |= {cell["name"]: share for cell, share in zip(cells, row, strict=True)}
        assert shares.pop("the sequence") is None
        assert set(shares) == set(known)
        names = list(known)
        assert_allclose(
            [shares[name] for name in names], [known[name] / largest for name in names], atol=1e-4
        )
    for cell in (cell for row in grid["cells"] for cell in row):
        if cell["name"] == "the sequence":
            assert cell["numbers"] == "as in the sequence"
        else:
            known = [
                f"{name} {nats(number_of(doubles, name)[cell['name']])}" for name in MUTANT_NUMBERS
            ]
            assert cell["numbers"] == f"{', '.join(known)} nats"


def test_the_cells_of_single_changes_are_all_of_the_sequence(singles):
    drawn = drawn_mutants(singles, range(1, 8), changes=1)
    grid = drawn["grid"]
    known = number_of(singles, "effect")
    (layer,) = grid["layers"]
    largest = max(map(abs, known.values()))
    cells = {}
    for row, shares in zip(grid["cells"], layer["shares"], strict=True):
        cells |= {
            cell["name"]: (cell["numbers"], share) for cell, share in zip(row, shares, strict=True)
        }
    assert len(cells) == 7 * len(singles.alphabet)
    for name, (numbers, share) in cells.items():
        if name in known:
            assert numbers == f"effect {nats(known[name])} nats"
            assert share == pytest.approx(known[name] / largest, abs=1e-4)
        else:
            assert (numbers, share) == ("as in the sequence", None)
    assert sum(name in known for name in cells) == len(known)
    assert drawn["residues"] == ["the1", "cat2", "sat3", "on4", "the5", "mat6", ".7"]
    assert [head["number"] for head in grid["columns"]] == ["1", "", "", "", "", "", ""]
    assert drawn["part"] == ""


def test_what_was_not_measured_is_said(tiny):
    part = unmask.mutants(SEQUENCE, positions=[2, 3], model=tiny)
    drawn = drawn_mutants(part, range(1, 8), changes=1)
    assert drawn["part"] == "2 of 7 residues"
    first, second = drawn["grid"]["cells"][0][:2]
    assert first["numbers"] in ("not measured", "as in the sequence")
    assert second["numbers"].endswith("nats")
    column = [row[0]["numbers"] for row in drawn["grid"]["cells"]]
    assert column.count("not measured") == len(part.alphabet) - 1


def test_effects_to_compare_are_largest_first(doubles):
    told = drawn_mutants(doubles, PLACES, changes=2)["told"]
    values = list(told["values"].values())
    assert values == sorted(values, reverse=True)
    assert told["values"] == pytest.approx(number_of(doubles, "effect"), abs=6e-7)


def test_two_changes_among_three_residues_are_the_largest_epistasis_of_each_two(tiny):
    mutants = unmask.mutants(SEQUENCE, positions=[2, 3, 6], changes=2, model=tiny)
    drawn = drawn_mutants(mutants, [6, 2, 3], changes=2)
    assert drawn["title"] == "Double mutants of 3 residues"
    assert drawn["part"] == ""
    grid = drawn["grid"]
    heads = ["cat2", "sat3", "mat6"]
    assert [head["title"] for head in grid["rows"]] == heads
    assert [head["title"] for head in grid["columns"]] == heads
    epistasis = number_of(mutants, "epistasis")
    (layer,) = grid["layers"]
    largest = max(map(abs, epistasis.values()))
    for i, first in enumerate(heads):
        assert layer["shares"][i][i] is None
        for j, second in enumerate(heads[i + 1 :], start=i + 1):
            of_both = [
                name for name in epistasis if name.startswith(first) and f"+{second}" in name
            ]
            assert of_both
            farthest = max(of_both, key=lambda name: abs(epistasis[name]))
            for row, column in ((i, j), (j, i)):
                assert grid["cells"][row][column]["name"] == farthest
                share = pytest.approx(epistasis[farthest] / largest, abs=1e-4)
                assert layer["shares"][row][column] == share


def test_a_pair_whose_epistasis_is_no_number_was_measured(tiny):
    """If no double mutant of two residues has a number, one of them is written with its NaN."""
    mutants = unmask.mutants(SEQUENCE, positions=[2, 3, 6], changes=2, model=tiny)
    epistasis = list(mutants.numbers["epistasis"])
    of_one_pair = [n for n, made in enumerate(mutants.changes) if [at for at, _ in made] == [2, 3]]
    for n in of_one_pair:
        epistasis[n] = nan
    of_other_pair = [
        n for n, made in enumerate(mutants.changes) if [at for at, _ in made] == [2, 6]
    ]
    epistasis[of_other_pair[0]] = nan  # the others of this pair have numbers
    without = replace(mutants, numbers={**mutants.numbers, "epistasis": epistasis})
    grid = drawn_mutants(without, [2, 3, 6], changes=2)["grid"]
    assert grid["cells"][0][1]["name"] == mutants.names[of_one_pair[0]]
    assert "epistasis nan" in grid["cells"][0][1]["numbers"]
    assert grid["cells"][0][2]["name"] != mutants.names[of_other_pair[0]]
    (layer,) = grid["layers"]
    assert layer["shares"][0][1] is None
    assert layer["shares"][0][2] is not None


def test_single_mutants_of_some_residues_are_not_called_every_one(tiny):
    mutants = unmask.mutants(SEQUENCE, positions=[2, 3], model=tiny)
    drawn = drawn_mutants(mutants, [2, 3], changes=1)
    assert drawn["title"] == "Single mutants of cat2 and sat3"
    assert drawn["part"] == ""


def test_the_order_of_the_changes_of_a_mutant_does_not_matter(doubles):
    turned = [tuple(reversed(made)) for made in doubles.changes[-5:]]
    assert all(len(made) == 2 for made in turned)
    mixed = replace(doubles, changes=[*doubles.changes[:-5], *turned])
    assert drawn_mutants(mixed, [2, 3, 6], changes=2)["part"] == "1 of 3 sets of 2 residues"
    drawn = drawn_mutants(mixed, PLACES, changes=2)
    assert drawn["part"] == ""
    assert drawn["grid"] == drawn_mutants(doubles, PLACES, changes=2)["grid"]


def test_infinite_effects_are_drawn_beside_the_finite_ones(singles):
    effects = list(singles.numbers["effect"])
    effects[0] = -inf
    effects[1] = nan
    mutants = replace(singles, numbers={**singles.numbers, "effect": effects})
    drawn = drawn_mutants(mutants, range(1, 8), changes=1)
    dumps(drawn, allow_nan=False)  # raises where a number is not JSON
    largest = max(map(abs, effects[2:]))
    (layer,) = drawn["grid"]["layers"]
    shares = {}
    for cells, shares_of_row in zip(drawn["grid"]["cells"], layer["shares"], strict=True):
        names = [cell["name"] for cell in cells]
        shares |= dict(zip(names, shares_of_row, strict=True))
    assert shares[mutants.names[0]] == -1.0
    assert shares[mutants.names[1]] is None
    assert shares[mutants.names[2]] == pytest.approx(effects[2] / largest, abs=1e-4)
    assert list(drawn["told"]["values"])[-2:] == [mutants.names[0], mutants.names[1]]
