"""The bound on a joint that has not converged: it holds for the fixed point, found by a long
iteration in float64.
"""

from dataclasses import replace
from unittest import mock

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from joints.test_enclosure import ruled_out
from joints.test_family import in_float64, sharp_tables, stationary_point
from joints.test_zeros import hard, made
from support.constructions import family
from support.joint_cases import distance, random_tables, seeds, sizes, without
from unmask.common.errors import UnmaskWarning
from unmask.joints import distance_bound as bounds
from unmask.joints.constructions.arnold_gokhale import Member
from unmask.joints.distance_bound import distance_bound
from unmask.joints.joint import not_converged
from unmask.joints.members import flat, start, unflat

pytestmark = pytest.mark.filterwarnings("ignore::unmask.common.errors.UnmaskWarning")
members = st.sampled_from(
    [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.75, 0.1), (0.0, 0.1), (0.95, 0.01)]
)


def stopped(tables, member, reads):
    """A joint of few reads, its distance from the fixed point (None if that is not found), and
    the bound.
    """
    joint = family(tables, *member, tolerance=1e-12, max_reads=reads)
    wide = replace(
        tables, log_q=tuple(q.double().log_softmax(t) for t, q in enumerate(tables.log_q))
    )
    limit = family(wide, *member, tolerance=1e-11, max_reads=200)
    far = (
        distance(joint.dense().double().exp(), limit.dense().exp())
        if limit.report["converged"]
        else None
    )
    return joint, far, joint.report.get("bound")


slow = st.tuples(seeds, st.sampled_from([5.0, 12.0])).map(
    lambda case: sharp_tables(15, case[0], 10.0, case[1])
)
"""Classes of tokens that hardly ever meet others: what one step moves says little about what is
left.
"""
every_kind = st.one_of(
    st.tuples(sizes, seeds, st.sampled_from([0.5, 1.5, 4.0])).map(
        lambda case: random_tables(*case)
    ),
    hard().filter(lambda case: case[1] == torch.float64).map(lambda case: made(*case)),
    slow,
    slow.map(in_float64),
)


@settings(max_examples=60, deadline=None)
@given(every_kind, members, st.integers(1, 8))
@example(sharp_tables(15, 0, 10.0, 12.0), (0.0, 0.0), 1)
def test_the_bound_holds(tables, member, reads):
    _, far, bound = stopped(tables, member, reads)
    assert far is None or bound is None or far <= bound


def test_the_bound_is_known_and_useful_as_a_rule():
    """A bound of 1, or none, would pass the tests above."""
    runs = [stopped(in_float64(sharp_tables(15, seed, 10.0)), (0.75, 0.1), 1) for seed in range(5)]
    assert all(bound is not None and bound < 50 * far + 1e-6 for _, far, bound in runs)
    message = not_converged([joint for joint, _, _ in runs])
    assert "further than" in message
    assert message.count("%") == 1


@pytest.mark.parametrize("member", [(0.0, 0.0), (0.75, 0.1)])
def test_one_further_step_and_ends_that_are_not_checked_bound_nothing(member):
    """Negative controls: the movement of a step is far below the distance, and so is a bound
    without the balance of flows.
    """
    tables, one = in_float64(sharp_tables(15, 3, 10.0, 12.0)), Member(*member)
    joint = family(tables, *member, steps=3)
    far = distance(joint.dense().exp(), family(tables, *member, tolerance=1e-11).dense().exp())
    if not member[1]:
        mu = joint.dense().exp()
        after = stationary_point([q.exp() for q in tables.log_q], mu, member[0])
        assert distance(mu, after / after.sum()) < far / 10
    before = family(tables, *member, steps=2).dense().exp()
    log_mu = tuple(before.sum(t, keepdim=True).log() for t in range(2))
    bound = distance_bound(tables, one, log_mu)
    assert bound is None or bound >= far

    def taken_unchecked(*given, checked=bounds._ends):
        lack, bound = checked(*given)
        return lack - 100, bound

    with mock.patch.object(bounds, "_ends", taken_unchecked):
        assert distance_bound(tables, one, log_mu) < far


@pytest.mark.parametrize("member", [(0.0, 0.0), (0.5, 0.0), (0.5, 0.9), (1.0, 0.9)])
@pytest.mark.parametrize("blanks", [2, 3])
def test_one_context_is_left_out_if_and_only_if_nothing_restarts(member, blanks):
    """Without restarts marginals have no scale, and no ends are out of balance to one side in
    every context. With them the context that was left out would keep the wrong marginal, and
    the ends would close around what follows from it.
    """
    tables = in_float64(sharp_tables(15, 3, 10.0, 12.0)) if blanks == 2 else ruled_out(())
    mu = family(tables, *member, tolerance=1e-11, max_reads=2000).dense().exp()
    z = flat(tuple(m.log() for m in without(mu)))
    z[z.argmax()] += 0.05
    log_mu = unflat(z, tables.shape)
    far = distance(mu, family(tables, *member, steps=1, initial=log_mu).dense().exp())
    assert far < distance_bound(tables, Member(*member), log_mu) < 60 * far


@pytest.mark.parametrize("member", [(0.0, 0.0), (0.75, 0.1)])
def test_three_blanks_far_from_their_limit_have_a_bound(member):
    joint, far, bound = stopped(ruled_out(()), member, 3)
    assert not joint.report["converged"]
    assert far < bound < 0.7


def test_what_has_no_bound_says_so():
    tables = sharp_tables(15, 1, 10.0)
    with (
        mock.patch("unmask.joints.distance_bound.TRIES", 1),
        pytest.warns(UnmaskWarning, match="from their limit is not known"),
    ):
        family(tables, 0.5, tolerance=1e-12, max_reads=1)
    assert distance_bound(tables, Member(0.5), tuple(m * torch.nan for m in start(tables))) is None
    assert "bound" not in family(tables, 0.5).report


@pytest.mark.parametrize("ratio", [0.1, 800.0])
def test_sums_of_cells_that_fall_where_cells_rise_give_no_bound(ratio):
    """Ends so far away that rounding decides: exp(800) is no float, and 1 - exp(0.1) no bound."""
    tables = random_tables((2, 4), 0)
    nothing_lacks = torch.tensor([[-1.0], [1.0]], dtype=torch.float64).expand(2, 8)
    sums = (nothing_lacks, [0.0, ratio])
    with mock.patch.object(bounds, "imbalance", return_value=sums):
        log_mu = [torch.full((4,), 0.25, dtype=torch.float64).log()] * 2
        assert distance_bound(tables, Member(0.0, 0.0), log_mu) is None
    assert distance_bound(tables, Member(0.0, 0.0), log_mu) != 0
