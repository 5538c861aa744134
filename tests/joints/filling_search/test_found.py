"""How many of the fillings found are certain to be the best."""

import pytest

from unmask.joints.filling_search.found import ChainSearch, ScoredFilling, best_first
from unmask.tables.rounding import Rounding


def found(log_probs, bound=0.0, rounding=0.0, exact=True):
    fillings = [
        ScoredFilling(variant=0, tokens=(number,), log_prob=log_prob, product_log_prob=0.0)
        for number, log_prob in enumerate(log_probs)
    ]
    return ChainSearch(
        fillings=best_first(fillings),
        bound=bound,
        passes=0,
        stopped="passes",
        exact=exact,
        rounding=Rounding(factor=rounding, relative=0.0),
    )


@pytest.mark.parametrize(
    ("bound", "rounding", "certain"),
    [
        (0.0, 0.0, 4),
        (0.1, 0.0, 2),  # e^-2 is above it, e^-3 is not
        (0.0, 0.4, 4),  # the intervals do not meet
        (0.0, 0.6, 0),  # those of the first two do
        (1.0, 0.0, 0),
    ],
)
def test_fillings_above_the_bound_and_apart_are_certain(bound, rounding, certain):
    assert found([-2.0, -1.0, -4.0, -3.0], bound, rounding).certain == certain


def test_the_first_place_that_is_in_doubt_ends_the_certain_ones():
    """The second and the third are too close; the last two are far apart again."""
    assert found([-1.0, -3.0, -3.1, -9.0, -20.0], rounding=0.2).certain == 1


def test_a_list_in_another_order_is_certain_up_to_its_first_inversion():
    search = found([-1.0, -2.0, -3.0])
    first, second, third = search.fillings
    assert search.certain_among([first, third, second]) == 1
    assert search.certain_among([]) == 0


def test_estimates_are_never_certain():
    assert found([-1.0, -20.0], exact=False).certain == 0
