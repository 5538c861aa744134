"""The table of an evaluation and its figures."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.studies.evaluation.table import (
    Evaluation,
    as_markdown,
    bins,
    distance_figure,
    summarise,
    written,
)

NAMES = ("product", "mrf", "balanced")


def rows(pairs: int, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        [(p, c) for p in range(pairs) for c in NAMES], columns=["pair", "construction"]
    )
    for column in ("unary_nll_first", "unary_nll_second", "pair_nll", "a_kl", "g_kl"):
        frame[column] = draw.gamma(2.0, size=len(frame))
    frame["incompatibility"] = frame.groupby("pair")["a_kl"].transform("first")
    frame["objective"] = frame["a_kl"] * 10
    frame["steps"] = np.where(frame["construction"] == "balanced", 12.0, np.nan)
    return frame


def test_an_infinite_number_has_a_mean_and_no_interval_and_leaves_the_others():
    """The conditionals of one pair may rule out different tokens, so that nothing is near to a
    joint of both.
    """
    frame = rows(7)
    finite = summarise(frame, NAMES, resamples=99)
    frame.loc[frame["pair"] == 3, "incompatibility"] = np.inf
    summary = summarise(frame, NAMES, resamples=99)
    assert summary["incompatibility"] == {"value": np.inf, "low": None, "high": None}
    assert summary["constructions"] == finite["constructions"]
    assert finite["incompatibility"]["low"] < finite["incompatibility"]["high"]
    assert "(0: one joint has both): inf." in as_markdown(summary, {})


def test_values_are_the_paper_s_means():
    frame = rows(7)
    summary = summarise(frame, NAMES, resamples=99)
    assert summary["pairs"] == 7
    of_pairs = frame.drop_duplicates("pair")["incompatibility"]
    assert summary["incompatibility"]["value"] == pytest.approx(of_pairs.sum() / 7)
    for row, name in zip(summary["constructions"], NAMES, strict=True):
        mine = frame[frame["construction"] == name]
        unary = mine["unary_nll_first"].sum() + mine["unary_nll_second"].sum()
        assert row["construction"] == name
        assert row["u_ppl"]["value"] == pytest.approx(np.exp(unary / (2 * 7)))
        assert row["p_ppl"]["value"] == pytest.approx(np.exp(mine["pair_nll"].sum() / (2 * 7)))
        assert row["a_kl"]["value"] == pytest.approx(mine["a_kl"].sum() / 7)
        assert row["g_kl"]["value"] == pytest.approx(mine["g_kl"].sum() / 7)
    product, mrf, _ = summary["constructions"]
    assert "difference" not in product
    assert mrf["difference"]["value"] == pytest.approx(
        np.log(mrf["p_ppl"]["value"] / product["p_ppl"]["value"])
    )
    assert [row["steps"] for row in summary["constructions"]] == [None, None, 12.0]


def test_intervals_cover_the_truth_as_often_as_they_say():
    """300 samples of 60 pairs from a gamma of mean 2: hits of 95 % are between 270 and 297 but
    once in a thousand times.
    """
    hits = sum(
        (found := summarise(rows(60, seed), ("mrf",), resamples=199)["constructions"][0]["a_kl"])[
            "low"
        ]
        <= 2.0
        <= found["high"]
        for seed in range(300)
    )
    assert 270 <= hits <= 297


def test_one_pair_has_no_interval_and_no_product_no_difference():
    summary = summarise(rows(1), ("mrf", "balanced"), resamples=99)
    assert all(
        row["p_ppl"]["low"] is None and "difference" not in row for row in summary["constructions"]
    )
    table = as_markdown(summary, {"data": "x.txt", "model": "m"})
    assert "[" not in table
    assert "minus product" not in table


def test_the_table_is_laid_out_as_the_paper_s():
    frame = rows(5)
    frame.loc[frame["construction"] == "mrf", "pair_nll"] = 19.0
    summary = summarise(frame, NAMES, resamples=99)
    settings = {
        "data": "x.txt",
        "scheme": "random",
        "model": "m",
        "seed": 3,
        "dtype": "float32",
        "device": "cpu",
    }
    table = as_markdown(summary, settings, failed=2)
    lines = table.splitlines()
    assert (
        lines[0]
        == "5 random pairs of x.txt; model m; seed 3; float32 on cpu; 2 pairs failed and are not in"
        " the table."
    )
    assert (
        lines[2]
        == "| construction | U-PPL | P-PPL | A-KL | G-KL | P-NLL per token, minus product |"
    )
    assert [line.split(" | ")[0] for line in lines[4:7]] == [
        "| MLM (product)",
        "| MRF",
        "| balanced",
    ]
    assert "13,359.73" in lines[5]
    assert "**" in table


def test_small_divergences_keep_two_significant_digits():
    assert [written(v, "a_kl") for v in (0.0, 0.00041234, 0.0123, 4.0137)] == [
        "0.000",
        "0.00041",
        "0.012",
        "4.014",
    ]
    assert [written(13359.727, "p_ppl"), written(-0.0004, "difference")] == ["13,359.73", "-0.000"]


def test_an_evaluation_is_a_table_a_frame_and_plain_values(tmp_path):
    frame = rows(6).assign(seconds=0.5, token_distance=1, syntactic_distance=np.nan)
    settings = {
        "data": "a $x$ <b>.txt",
        "scheme": "random",
        "model": "m",
        "seed": 3,
        "constructions": list(NAMES),
    }
    found = Evaluation(settings, frame, 8, [{"pair": 6}, {"pair": 7}])
    table = found.to_frame().set_index("construction")
    assert list(table.index) == list(NAMES)
    assert table.loc["mrf", "label"] == "MRF"
    assert table.loc["mrf", "p_ppl"] == pytest.approx(
        np.exp(frame[frame["construction"] == "mrf"]["pair_nll"].mean() / 2)
    )
    assert (table["p_ppl_low"] < table["p_ppl"]).all()
    assert np.isnan(table.loc["product", "difference"])
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (plain["pairs"], plain["failed"], plain["median_seconds_a_pair"]) == (6, 2, 0.5)
    assert plain["settings"] == settings
    assert plain["constructions"] == found.summary["constructions"]
    assert "<table" in found._repr_html_()
    assert "&lt;b&gt;" in found._repr_html_()
    found.save(tmp_path)
    assert json.loads((tmp_path / "table.json").read_text()) == plain
    assert (tmp_path / "figures" / "token_distance.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_counts_the_pairs_on_which_a_construction_did_not_converge():
    frame = rows(5)
    settled = as_markdown(summarise(frame, NAMES, resamples=9), {})
    frame["converged"] = [
        None if c != "balanced" else p > 1
        for p, c in zip(frame["pair"], frame["construction"], strict=True)
    ]
    summary = summarise(frame, NAMES, resamples=9)
    assert [row["not_converged"] for row in summary["constructions"]] == [0, 0, 2]
    assert (
        "Not converged, so that these rows are approximate: balanced on 2 of 5 pairs."
        in as_markdown(summary, {})
    )
    assert "Not converged" not in settled


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 12))
def test_bins_cover_every_distance_once_and_hold_enough(distances, least):
    ranges = bins(distances, least)
    held = [sum(low <= d <= high for d in distances) for low, high in ranges]
    assert sum(held) == len(distances)
    assert all(high < after for (_, high), (after, _) in itertools.pairwise(ranges))
    assert min(held) >= min(least, len(distances))


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


def test_the_figure_shows_means_and_counts_and_the_difference_from_the_product(by_distance):
    lines, below, bars = distance_figure(by_distance, "token_distance").axes
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
    figure = distance_figure(by_distance, "token_distance")
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
    assert distance_figure(by_distance, "syntactic_distance") is None
