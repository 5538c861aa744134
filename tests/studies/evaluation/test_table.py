"""The result of an evaluation."""

import json

import numpy as np
import pytest

from studies.evaluation.test_summary import NAMES, rows
from unmask.studies.evaluation.table import Evaluation


def test_an_evaluation_is_a_table_a_frame_and_plain_values(tmp_path):
    frame = rows(6).assign(seconds=0.5, token_distance=1, syntactic_distance=np.nan)
    settings = {
        "data": "a $x$ <b>.txt",
        "scheme": "random",
        "model": "m",
        "seed": 3,
        "constructions": list(NAMES),
    }
    evaluation = Evaluation(settings, frame, 8, [{"pair": 6}, {"pair": 7}])
    table = evaluation.to_frame().set_index("construction")
    assert list(table.index) == list(NAMES)
    assert table.loc["mrf", "label"] == "MRF"
    assert table.loc["mrf", "p_ppl"] == pytest.approx(
        np.exp(frame[frame["construction"] == "mrf"]["pair_nll"].mean() / 2)
    )
    assert (table["p_ppl_low"] < table["p_ppl"]).all()
    assert np.isnan(table.loc["product", "difference"])
    plain = json.loads(json.dumps(evaluation.to_dict(), allow_nan=False))
    assert (plain["pairs"], plain["failed"], plain["median_seconds_a_pair"]) == (6, 2, 0.5)
    assert plain["settings"] == settings
    assert plain["constructions"] == evaluation.summary["constructions"]
    assert "<table" in evaluation._repr_html_()
    assert "&lt;b&gt;" in evaluation._repr_html_()
    evaluation.save(tmp_path)
    assert json.loads((tmp_path / "table.json").read_text()) == plain
    assert (tmp_path / "figures" / "token_distance.png").read_bytes().startswith(b"\x89PNG")
