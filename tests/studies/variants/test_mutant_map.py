"""The heat map of mutants: its columns and its colours."""

import pytest

from unmask.studies.variants.mutants import Mutants


def test_residues_with_one_label_have_a_column_each():
    wild = tuple(
        "x" if place == 12 else "x1" for place in range(1, 13)
    )  # x1 at 2 and x at 12 are both written x12
    changes = [((2, "y"),), ((12, "y"),)]
    mutants = Mutants(
        " ".join(wild), wild, ("x", "x1", "y"), "balanced", changes, {"effect": [1.0, -2.0]}
    )
    assert mutants.figure().axes[0].images[0].get_array()[2].tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    ("effects", "limits"), [([1.0, -2.0], (-2.0, 2.0)), ([0.0, 0.0], (-1e-12, 1e-12))]
)
def test_colours_reach_as_far_as_the_largest_effect(effects, limits):
    changes = [((1, "b"),), ((2, "a"),)]
    mutants = Mutants("ab", ("a", "b"), ("a", "b"), "balanced", changes, {"effect": effects})
    assert mutants.figure().axes[0].images[0].get_clim() == limits
