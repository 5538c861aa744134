from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from unmask.evaluation.table import as_json, as_markdown, summarise, written
from unmask.joints.metrics import BlockMetrics, JointMetrics
from unmask.joints.metrics import summarise as plain_summary

NAMES = ("product", "mrf", "balanced")


def rows(pairs: int, seed: int = 0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame([(p, c) for p in range(pairs) for c in NAMES], columns=["pair", "construction"])
    for column in ("unary_nll_first", "unary_nll_second", "pair_nll", "a_kl", "g_kl"):
        frame[column] = draw.gamma(2.0, size=len(frame))
    frame["compatibility"] = frame.groupby("pair")["a_kl"].transform("first")
    frame["objective"] = frame["a_kl"] * 10
    frame["steps"] = np.where(frame["construction"] == "balanced", 12.0, np.nan)
    return frame


def test_values_are_those_of_the_metrics():
    frame = rows(7)
    blocks = [
        BlockMetrics(
            tuple(
                JointMetrics(r.construction, (r.unary_nll_first, r.unary_nll_second), r.pair_nll, r.a_kl, r.g_kl, r.objective)
                for r in group.itertuples()
            ),
            group["compatibility"].iloc[0],
        )
        for _, group in frame.groupby("pair")
    ]
    expected = plain_summary(blocks)
    summary = summarise(frame, NAMES, resamples=99)
    assert summary["pairs"] == 7
    assert summary["compatibility"]["value"] == pytest.approx(expected.compatibility)
    for row, plain in zip(summary["constructions"], expected.summaries, strict=True):
        assert row["construction"] == plain.construction
        for measure in ("u_ppl", "p_ppl", "a_kl", "g_kl"):
            assert row[measure]["value"] == pytest.approx(getattr(plain, measure))
    product, mrf, _ = summary["constructions"]
    assert "difference" not in product
    assert mrf["difference"]["value"] == pytest.approx(np.log(mrf["p_ppl"]["value"] / product["p_ppl"]["value"]))
    assert [row["steps"] for row in summary["constructions"]] == [None, None, 12.0]


def test_the_order_of_the_rows_does_not_matter():
    frame = rows(9)
    assert summarise(frame.sample(frac=1, random_state=1), NAMES, resamples=99) == summarise(frame, NAMES, resamples=99)


def test_intervals_cover_the_truth_as_often_as_they_say():
    """300 samples of 60 pairs from a gamma of mean 2: hits of 95 % are between 270 and 297 but once in a thousand times."""
    hits = sum(
        (found := summarise(rows(60, seed), ("mrf",), resamples=199)["constructions"][0]["a_kl"])["low"] <= 2.0 <= found["high"]
        for seed in range(300)
    )
    assert 270 <= hits <= 297


def test_paired_differences_are_tighter_than_unpaired_ones():
    frame = rows(200)
    product = frame[frame["construction"] == "product"]["pair_nll"].to_numpy()
    frame.loc[frame["construction"] == "mrf", "pair_nll"] = product + 0.2
    found = summarise(frame, NAMES, resamples=199)["constructions"][1]
    assert found["difference"] == {"value": pytest.approx(0.1), "low": pytest.approx(0.1), "high": pytest.approx(0.1)}
    assert np.log(found["p_ppl"]["high"] / found["p_ppl"]["low"]) > 0.1


def test_one_pair_has_no_interval_and_no_product_no_difference():
    summary = summarise(rows(1), ("mrf", "balanced"), resamples=99)
    assert all(row["p_ppl"]["low"] is None and "difference" not in row for row in summary["constructions"])
    table = as_markdown(summary, {"data": "x.txt", "model": "m"})
    assert "[" not in table and "minus product" not in table


def test_the_table_is_laid_out_as_the_paper_s():
    frame = rows(5)
    frame.loc[frame["construction"] == "mrf", "pair_nll"] = 19.0
    summary = summarise(frame, NAMES, resamples=99)
    settings = {"data": "x.txt", "scheme": "random", "model": "m", "seed": 3, "dtype": "float32", "device": "cpu"}
    table = as_markdown(summary, settings, failed=2)
    lines = table.splitlines()
    assert lines[0] == "5 random pairs of x.txt; model m; seed 3; float32 on cpu; 2 pairs failed and are not in the table."
    assert lines[2] == "| construction | U-PPL | P-PPL | A-KL | G-KL | P-NLL a token, minus product |"
    assert [line.split(" | ")[0] for line in lines[4:7]] == ["| MLM (product)", "| MRF", "| balanced"]
    assert "13,359.73" in lines[5] and "**" in table
    loaded = json.loads(as_json(summary, settings, {"failed": 2}))
    assert loaded["settings"] == settings and loaded["failed"] == 2 and loaded["constructions"] == summary["constructions"]


def test_small_divergences_keep_two_significant_digits():
    assert [written(v, "a_kl") for v in (0.0, 0.00041234, 0.0123, 4.0137)] == ["0.000", "0.00041", "0.012", "4.014"]
    assert [written(13359.727, "p_ppl"), written(-0.0004, "difference")] == ["13,359.73", "-0.000"]
