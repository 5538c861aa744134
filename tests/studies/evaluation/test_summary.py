"""The numbers of Table 1 and their intervals."""

import numpy as np
import pandas as pd
import pytest

from unmask.studies.evaluation.summary import summarise

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


def test_values_are_the_paper_s_means():
    frame = rows(7)
    summary = summarise(frame, NAMES, resamples=99)
    assert summary["n_pairs"] == 7
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
    hits = 0
    for seed in range(300):
        (row,) = summarise(rows(60, seed), ("mrf",), resamples=199)["constructions"]
        hits += row["a_kl"]["low"] <= 2.0 <= row["a_kl"]["high"]
    assert 270 <= hits <= 297


def test_one_pair_has_no_interval_and_no_product_no_difference():
    summary = summarise(rows(1), ("mrf", "balanced"), resamples=99)
    assert all(
        row["p_ppl"]["low"] is None and "difference" not in row for row in summary["constructions"]
    )
