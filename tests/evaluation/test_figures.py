from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.evaluation.table import bins, distance_figure


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 12))
def test_bins_cover_every_distance_once_and_hold_enough(distances, least):
    ranges = bins(distances, least)
    held = [sum(low <= d <= high for d in distances) for low, high in ranges]
    assert sum(held) == len(distances)
    assert all(high < after for (_, high), (after, _) in zip(ranges, ranges[1:], strict=False))
    assert min(held) >= min(least, len(distances))


@pytest.fixture
def rows():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"pair": np.repeat(np.arange(80), 2), "construction": ["product", "hcb"] * 80})
    frame["token_distance"] = np.repeat(draw.integers(0, 6, 80), 2)
    frame["syntactic_distance"] = np.nan
    frame["pair_nll"] = draw.gamma(3.0, size=160)
    return frame


def test_the_figure_shows_means_and_counts_and_the_difference_from_the_product(rows):
    lines, below, bars = distance_figure(rows, "token_distance").axes
    assert [bar.get_height() for bar in bars.patches] == rows.groupby("token_distance")["pair"].nunique().tolist()
    expected = rows[rows["construction"] == "hcb"].groupby("token_distance")["pair_nll"].mean() / 2
    hcb = next(line for line in lines.lines if line.get_label() == "HCB")
    np.testing.assert_allclose(hcb.get_ydata(), expected)
    product = rows[rows["construction"] == "product"].groupby("token_distance")["pair_nll"].mean() / 2
    np.testing.assert_allclose(below.lines[1].get_ydata(), expected - product)
    assert set(below.lines[0].get_ydata()) == {0.0}
    assert below.get_ylim()[0] <= (expected - product).min()


def test_a_pair_that_a_construction_rules_out_leaves_the_figure_drawn(rows, tmp_path):
    label, other = "HCB", "MLM (product)"
    rows.loc[(rows["construction"] == "hcb") & (rows["token_distance"] == 0), "pair_nll"] = np.inf
    figure = distance_figure(rows, "token_distance")
    lines, below, _ = figure.axes
    drawn = {line.get_label(): line.get_ydata() for line in lines.lines}
    assert np.isfinite(drawn[other]).all()
    assert np.isfinite(drawn[label]).tolist() == [False] + [True] * (len(drawn[label]) - 1)
    best = (drawn["HCB"] - drawn["MLM (product)"])[1:].min()
    assert best < -0.1 and below.get_ylim() == pytest.approx((1.1 * best, -1.1 * best))
    figure.savefig(tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000


def test_there_is_a_figure_only_where_distances_are_known(rows):
    assert distance_figure(rows, "syntactic_distance") is None
