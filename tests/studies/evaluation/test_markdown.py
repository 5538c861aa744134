"""Table 1 for people."""

from studies.evaluation.test_summary import NAMES, rows
from unmask.studies.evaluation.markdown import as_markdown, written
from unmask.studies.evaluation.summary import summarise


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
