"""Shares: numbers as parts of the largest one that is drawn."""

from math import inf, nan

import pytest

from unmask.surfaces.serving.drawings.shapes import largest_size, part_of


def test_infinities_leave_the_others_their_colours():
    largest = largest_size([[-2.0, None, inf], [-inf, nan, 1.0]])
    assert largest == 2.0
    assert [part_of(value, largest) for value in (-2.0, 1.0, inf, -inf)] == [-1.0, 0.5, 1.0, -1.0]


@pytest.mark.parametrize("rows", [[], [[]], [[None, nan]], [[-0.0, 0.0]]])
def test_without_a_finite_number_but_0_no_colour_is_seen(rows):
    assert largest_size(rows) == 0.0
    assert part_of(0.0, largest_size(rows)) == 0.0


def test_a_scale_of_infinities_alone_does_not_end_at_0():
    """They have the full colour, and a 0 beside them has none."""
    largest = largest_size([[-inf, 0.0], [nan, None]])
    assert largest == inf
    assert [part_of(value, largest) for value in (-inf, 0.0)] == [-1.0, 0.0]
