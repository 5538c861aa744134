"""The heat map of mutants: its columns and its colours."""

import pytest

from unmask.verbs.mutants import Mutants


def mutants_of(wild, alphabet, changes, **numbers):
    """Mutants with made-up numbers."""
    return Mutants(
        sequence=" ".join(wild),
        wild_type=tuple(wild),
        alphabet=tuple(alphabet),
        construction="balanced",
        changes=changes,
        numbers=numbers,
        n_mutants=len(changes),
    )


def test_residues_with_one_label_have_a_column_each():
    wild = tuple(
        "x" if place == 12 else "x1" for place in range(1, 13)
    )  # x1 at 2 and x at 12 are both written x12
    changes = [((2, "y"),), ((12, "y"),)]
    mutants = mutants_of(wild, ("x", "x1", "y"), changes, effect=[1.0, -2.0])
    assert mutants.figure().axes[0].images[0].get_array()[2].tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    ("effects", "limits"), [([1.0, -2.0], (-2.0, 2.0)), ([0.0, 0.0], (-1e-12, 1e-12))]
)
def test_colours_reach_as_far_as_the_largest_effect(effects, limits):
    changes = [((1, "b"),), ((2, "a"),)]
    mutants = mutants_of("ab", "ab", changes, effect=effects)
    assert mutants.figure().axes[0].images[0].get_clim() == limits


def test_of_several_pairs_the_epistasis_of_largest_size_is_drawn():
    changes = [((1, "b"), (2, "a")), ((1, "b"), (3, "a")), ((1, "b"), (3, "b"))]
    mutants = mutants_of("aba", "ab", changes, effect=[0.0] * 3, epistasis=[0.5, 1.0, -2.0])
    drawn = mutants.figure().axes[0].images[0].get_array().filled(0.0).tolist()
    assert drawn == [[0.0, 0.5, -2.0], [0.5, 0.0, 0.0], [-2.0, 0.0, 0.0]]
