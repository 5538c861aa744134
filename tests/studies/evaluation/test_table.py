"""The result of an evaluation."""

import json

import numpy as np
import pandas as pd
import pytest

from studies.evaluation.test_summary import NAMES, rows
from unmask.common.errors import InputError
from unmask.verbs.evaluate import Evaluation
from unmask.verbs.study_tables import written


def records(frame):
    """The rows of a frame as dicts; None where there is no number."""
    in_all = frame.assign(seconds=0.5, token_distance=1)
    in_all["syntactic_distance"] = None
    return in_all.astype(object).where(in_all.notna(), None).to_dict("records")


def test_an_evaluation_is_a_table_a_frame_and_plain_values(tmp_path):
    frame = rows(6)
    settings = {
        "data": "a $x$ <b>.txt",
        "scheme": "random",
        "model": "m",
        "seed": 3,
        "constructions": list(NAMES),
    }
    failed = [{"pair": 6, "reason": "first"}, {"pair": 7, "reason": "second"}]
    evaluation = Evaluation(settings, records(frame), failed)
    table = evaluation.to_frame().set_index("construction")
    assert list(table.index) == list(NAMES)
    assert table.loc["mrf", "label"] == "MRF"
    assert table.loc["mrf", "p_ppl"] == pytest.approx(
        np.exp(frame[frame["construction"] == "mrf"]["pair_nll"].mean() / 2)
    )
    assert (table["p_ppl_low"] < table["p_ppl"]).all()
    assert np.isnan(table.loc["product", "difference"])
    plain = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert (plain["n_pairs"], plain["n_failed"], plain["median_seconds_a_pair"]) == (6, 2, 0.5)
    assert plain["settings"] == settings
    assert plain["constructions"] == evaluation.numbers["constructions"]
    assert "<table" in evaluation._repr_html_()
    assert "&lt;b&gt;" in evaluation._repr_html_()
    assert not evaluation.complete
    assert any("2 of 8 pairs failed, the first with first" in one for one in evaluation.notices())
    for ending in ("json", "md", "parquet", "csv", "jsonl"):
        file = evaluation.save(tmp_path / f"table.{ending}")
        assert file.stat().st_size
    assert json.loads((tmp_path / "table.json").read_text()) == plain
    assert (tmp_path / "table.md").read_text() == evaluation.to_markdown()
    assert (
        len(pd.read_csv(tmp_path / "table.csv"))
        == len(pd.read_parquet(file.with_suffix(".parquet")))
        == len(frame)
    )
    with pytest.raises(InputError, match="has no known ending"):
        evaluation.save(tmp_path / "table.xlsx")
    assert evaluation.figure().drawn().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="no pair has a syntactic distance"):
        evaluation.figure("syntactic")


def test_the_verdict_names_what_is_approximate_and_the_table_what_is_lowest():
    frame = rows(5)
    frame.loc[frame["construction"] == "mrf", "pair_nll"] = 19.0
    settings = {
        "data": "x.txt",
        "scheme": "random",
        "model": "m",
        "seed": 3,
        "dtype": "float32",
        "device": "cpu",
        "constructions": list(NAMES),
    }
    settled = Evaluation(settings, records(frame), [{"reason": "no"}] * 2)
    lines = settled.to_markdown().splitlines()
    assert (
        lines[0]
        == settled.about()[0]
        == (
            "5 random pairs of x.txt; model m; seed 3; float32 on cpu; 2 pairs failed and are not"
            " in the table."
        )
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
    assert "**" in settled.to_markdown()
    (table,) = settled.tables()
    assert table.columns[0].head == "5 random pairs"
    assert table.shown()[1][2] == "13,359.73"
    assert "Not converged" not in settled.summary()
    numbers = {row["construction"]: row for row in settled.numbers["constructions"]}
    best = min(numbers, key=lambda name: numbers[name]["p_ppl"]["value"])
    assert best == "balanced"
    assert numbers[best]["difference"]["high"] > 0
    said = "Lowest P-PPL: balanced, not significantly lower than the product's."
    assert said in settled.summary()
    better = frame.copy()
    better.loc[better["construction"] == "balanced", "pair_nll"] = 0.1
    certain = Evaluation(settings, records(better))
    assert "balanced, significantly lower than the product's." in certain.summary()
    frame["converged"] = [
        None if c != "balanced" else p > 1
        for p, c in zip(frame["pair"], frame["construction"], strict=True)
    ]
    doubted = Evaluation(settings, records(frame))
    counts = [row["not_converged"] for row in doubted.numbers["constructions"]]
    assert counts == [0, 0, 2]
    missed = "Not converged, so that these rows are approximate: balanced on 2 of 5 random pairs."
    assert missed in doubted.summary()
    assert missed in doubted.to_markdown()
    stopped = {"name": "balanced", "steps": 50}
    told = Evaluation({**settings, "constructions": [*NAMES[:2], stopped]}, records(frame))
    assert "balanced stopped after 50 steps" in told.summary()
    assert "Not converged" not in told.summary()


def test_without_an_interval_or_a_product_there_are_neither_brackets_nor_differences():
    frame = rows(1)
    settings = {"data": "x.txt", "model": "m", "constructions": ["mrf", "balanced"]}
    table = Evaluation(settings, records(frame[frame["construction"] != "product"])).to_markdown()
    assert "[" not in table
    assert "minus product" not in table


def test_an_incompatibility_without_bound_is_written_as_such():
    frame = rows(7)
    frame.loc[frame["pair"] == 3, "incompatibility"] = np.inf
    settings = {"data": "x.txt", "model": "m", "constructions": list(NAMES)}
    evaluation = Evaluation(settings, records(frame))
    assert "(0: one joint has both): inf." in evaluation.summary()


def test_small_divergences_keep_two_significant_digits():
    assert [written(v, "a_kl") for v in (0.0, 0.00041234, 0.0123, 4.0137)] == [
        "0.000",
        "0.00041",
        "0.012",
        "4.014",
    ]
    assert [written(13359.727, "p_ppl"), written(-0.0004, "difference")] == ["13,359.73", "-0.000"]
