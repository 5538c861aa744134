"""Pairwise NLL against the distance of a pair's tokens."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.studies.evaluation.distance import bins, distance_figure


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 12))
def test_bins_cover_every_distance_once_and_hold_enough(distances, least):
    ranges = bins(distances, least)
    in_range = [sum(low <= d <= high for d in distances) for low, high in ranges]
    assert sum(in_range) == len(distances)
    assert all(high < after for (_, high), (after, _) in itertools.pairwise(ranges))
    assert min(in_range) >= min(least, len(distances))


@pytest.fixture
def by_distance():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"pair": np.repeat(np.arange(80), 2), "construction": ["product", "hcb"] * 80}
    )
    frame["token_distance"] = np.repeat(draw.integers(0, 6, 80), 2)
    frame["syntactic_distance"] = np.nan
    frame["pair_nll"] = draw.gamma(3.0, size=160)
    return frame


def records(frame):
    """The rows of a frame as dicts; None where there is no number."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def test_the_figure_shows_means_and_counts_and_the_difference_from_the_product(by_distance):
    lines, below, bars = distance_figure(records(by_distance), "token_distance").axes
    assert [bar.get_height() for bar in bars.patches] == by_distance.groupby("token_distance")[
        "pair"
    ].nunique().tolist()
    expected = (
        by_distance[by_distance["construction"] == "hcb"]
        .groupby("token_distance")["pair_nll"]
        .mean()
        / 2
    )
    hcb = next(line for line in lines.lines if line.get_label() == "HCB")
    np.testing.assert_allclose(hcb.get_ydata(), expected)
    product = (
        by_distance[by_distance["construction"] == "product"]
        .groupby("token_distance")["pair_nll"]
        .mean()
        / 2
    )
    np.testing.assert_allclose(below.lines[1].get_ydata(), expected - product)
    assert set(below.lines[0].get_ydata()) == {0.0}
    assert below.get_ylim()[0] <= (expected - product).min()


def test_a_pair_that_a_construction_rules_out_leaves_the_figure_drawn(by_distance, tmp_path):
    label, other = "HCB", "MLM (product)"
    by_distance.loc[
        (by_distance["construction"] == "hcb") & (by_distance["token_distance"] == 0), "pair_nll"
    ] = np.inf
    figure = distance_figure(records(by_distance), "token_distance")
    lines, below, _ = figure.axes
    drawn = {line.get_label(): line.get_ydata() for line in lines.lines}
    assert np.isfinite(drawn[other]).all()
    assert np.isfinite(drawn[label]).tolist() == [False] + [True] * (len(drawn[label]) - 1)
    best = (drawn["HCB"] - drawn["MLM (product)"])[1:].min()
    assert best < -0.1
    assert below.get_ylim() == pytest.approx((1.1 * best, -1.1 * best))
    figure.savefig(tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_there_is_a_figure_only_where_distances_are_known(by_distance):
    assert distance_figure(records(by_distance), "syntactic_distance") is None
