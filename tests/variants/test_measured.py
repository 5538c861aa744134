"""`mutants` with measured variants: columns, verdicts and files, against scores that are known."""

from __future__ import annotations

import json
from inspect import signature
from itertools import product

import numpy as np
import pandas
import pytest
import torch
from tests.variants.all_at_once import variant_scores
from typer.testing import CliRunner

import unmask
from unmask.cli.app import app
from unmask.errors import InputError
from unmask.variants.measured import compared
from unmask.variants.signatures import OfMeasured, OfMutants
from unmask.variants.variant_list import Variants

SEQUENCE = "ACDEGACD"
SITES = (2, 3, 4)
VARIANTS = ["A" + "".join(middle) + "GACD" for middle in product("CDEG", "DGA", "EAG")]


@pytest.fixture(scope="module")
def scored(letters):
    """Every score of VARIANTS, by name."""
    ids = letters.words.encode(SEQUENCE)
    where = [t for t, token in enumerate(ids) if token not in letters.special_ids]
    letter = {letters.token(i): i for i in letters.regular_ids}
    cells = torch.tensor([[letter[v[place - 1]] for place in SITES] for v in VARIANTS])
    found = variant_scores(letters, ids, [where[place - 1] for place in SITES], cells, "all", letters.regular_ids)
    return {name: values.numpy() for name, values in found.items()}


def frame(values):
    return pandas.DataFrame({"sequence": VARIANTS, "y": values})


@pytest.mark.parametrize("name", ["singles", "left_to_right", "pairs:balanced"])
def test_values_that_are_a_score_are_ranked_perfectly_by_it(letters, scored, name):
    found = unmask.mutants(SEQUENCE, measured=frame(np.exp(scored[name])), model=letters)
    best = found.rows[0]
    assert best["score"] == name and best["value"] == pytest.approx(1) and best["best_in"] == 1 and best["low"] > 0.999
    assert found.sentence.startswith(f"Use {name}: Spearman's rho 1.000") and "significantly above" in found.sentence
    assert found.statistic == "spearman" and found.places == SITES and len(found) == len(VARIANTS)
    worst = unmask.mutants(SEQUENCE, measured=frame(np.exp(scored[name])), model=letters, better="lower")
    assert {row["score"]: row["value"] for row in worst.rows}[name] == pytest.approx(-1)


def test_columns_are_effects_per_change_and_fewer_changes(letters, scored):
    found = unmask.mutants(SEQUENCE, measured=frame(scored["pll"]), model=letters).to_frame()
    parent = VARIANTS.index(SEQUENCE)
    changes = np.array([sum(a != b for a, b in zip(v, SEQUENCE, strict=True)) for v in VARIANTS])
    assert found["changes"].tolist() == changes.tolist() and found.loc[parent, "mutant"] == "WT"
    for name in ("singles", "product", "pll", "left_to_right", "any_order", "epistasis", "pairs:balanced"):
        effect = scored[name] - scored[name][parent]
        assert found[name].to_numpy() == pytest.approx(effect, abs=1e-4)
        assert found[f"{name}/change"].to_numpy() == pytest.approx(effect / np.maximum(changes, 1), abs=1e-4)
    assert found["fewer_changes"].tolist() == (-changes).tolist()


def test_columns_that_rank_nothing_or_equal_another_are_left_out(letters):
    singles = [{"mutant": f"C2{letter}", "y": y} for letter, y in zip("ADEG", (1, 2, 3, 5), strict=True)]
    found = unmask.mutants(SEQUENCE, measured=singles, model=letters)
    assert [row["score"] for row in found.rows] == ["singles"]
    assert (
        "epistasis is the same for all variants: left out" in found.notes and "pll equals singles here: left out" in found.notes
    )
    assert "fewer_changes" not in found.to_frame()


def synthetic(effects, values, changes=None, **options):
    """`compared` on made-up scores of variants at four binary sites."""
    n = len(values)
    cells = np.zeros((n, 4), dtype=int)
    for row, m in enumerate(np.full(n, 2) if changes is None else changes):
        cells[row, :m] = 1
    variants = Variants((1, 2, 3, 4), np.zeros(4, dtype=int), cells, np.asarray(values, float), "y")
    given = {"joint": "balanced", "better": "higher", "seed": 0} | options
    return compared("AAAA", [""] * n, variants, effects, **given)


def test_sentences_say_what_the_intervals_show():
    draw = np.random.default_rng(0)
    truth = draw.normal(size=300)
    good, twin, noise = truth + 0.3 * draw.normal(size=300), truth + 0.31 * draw.normal(size=300), draw.normal(size=300)
    assert synthetic({"a": good, "b": noise}, truth).sentence.startswith("Use a: Spearman's rho 0.9")
    assert "significantly above the next, b" in synthetic({"a": good, "b": noise}, truth).sentence
    undecided = synthetic({"a": good, "b": twin}, truth)
    assert "not decided" in undecided.sentence and undecided.behind[0]["low"] < 0 < undecided.behind[0]["high"]
    assert "none is significantly better than chance" in synthetic({"a": noise}, truth).sentence
    anti = synthetic({"a": -good, "b": -twin}, truth).sentence
    assert "all rank y the wrong way" in anti and "--better lower" in anti and "prefers" not in anti
    assert synthetic({"a": -good}, truth, better="lower").sentence.startswith("Use a:")
    classes = synthetic({"a": good}, (truth > 0).astype(float))
    assert classes.statistic == "auc" and "area under the curve 0.9" in classes.sentence


def test_the_model_prefers_the_parent_only_where_that_is_shown():
    draw = np.random.default_rng(1)
    changes = draw.integers(0, 5, 300)
    values = changes + draw.normal(size=300)
    scores = -changes + draw.normal(size=300)
    said = synthetic({"a": scores}, values, changes).sentence
    assert "all rank y the wrong way" in said and "the model prefers the given sequence" in said
    away = synthetic({"a": -scores}, -values, changes).sentence
    assert "the model prefers residues that are not the given sequence's" in away
    knows = synthetic({"a": -3 * changes + (values - changes)}, values, changes).sentence
    assert "prefers the given sequence" in knows and "among variants with as many changes a is best (1.000" in knows
    apart = synthetic({"a": -(values - changes) - 0.3 * values + 0.2 * draw.normal(size=300)}, values - changes, changes).sentence
    assert "wrong way" in apart and "prefers" not in apart
    counted = synthetic({"a": -changes + 3 * draw.normal(size=300)}, -values, changes)
    assert counted.rows[0]["score"] == "fewer_changes" and "as well as the number of changes alone" in counted.sentence


def test_within_the_same_number_of_changes_a_score_of_changes_knows_nothing():
    draw = np.random.default_rng(2)
    changes = draw.integers(1, 4, 400)
    residual = draw.normal(size=400)
    rows = synthetic({"counts": -changes + 1e-3 * draw.normal(size=400), "knows": residual}, residual - changes, changes).rows
    by_name = {row["score"]: row for row in rows}
    assert by_name["counts"]["low"] > 0.4 and abs(by_name["counts"]["within"]) < 0.15
    assert by_name["knows"]["within"] > 0.999 and by_name["fewer_changes"]["within"] == 0


def test_the_command_prints_and_writes_what_python_returns(letters_folder, letters, scored, tmp_path):
    path = tmp_path / "list.csv"
    frame(scored["pll"]).to_csv(path, index=False)
    options = {"scores": "singles,product,any_order"}
    found = unmask.mutants(
        SEQUENCE, measured=path, model=letters, out=tmp_path / "m.parquet", figure=tmp_path / "m.png", **options
    )
    typed = ["--scores", options["scores"], "--measured", str(path)]

    def run(*args: str):
        return CliRunner().invoke(app, ["mutants", SEQUENCE, "--model", str(letters_folder), *args], env={"COLUMNS": "80"})

    assert json.loads(run(*typed, "--json").stdout) == json.loads(json.dumps(found.to_dict()))
    printed = run(*typed)
    assert printed.exit_code == 0, printed.stderr
    assert found.sentence in printed.stdout
    assert max(len(line) for line in printed.stdout.splitlines()[:-3]) <= 80
    assert pandas.read_parquet(tmp_path / "m.parquet").equals(found.to_frame()) and (tmp_path / "m.png").stat().st_size > 5_000
    assert repr(found).startswith("Measured(36 variants at 3 sites, best ") and found.sentence[:20] in found._repr_html_()
    assert found.table()["score"].tolist() == [row["score"] for row in found.rows]
    refused = run("--measured", str(path), "--mutations", "A1C")
    assert refused.exit_code == 2 and "mutations was given, which --measured does not use" in refused.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "y"}, "column was given, which --mutations or --positions does not use"),
        ({"measured": [{"m": "C2D", "y": 1}], "changes": 2}, "changes was given, which --measured does not use"),
        ({"measured": "nowhere.csv"}, "does not exist"),
        ({"measured": [{"m": "C2D", "y": 1}], "scores": "magic"}, "'magic' is unknown"),
        ({"measured": [{"m": "C2D", "y": 1}], "better": "more"}, "'more' is unknown"),
        ({"measured": [{"m": v, "y": i} for i, v in enumerate(VARIANTS)], "out": "m.csv"}, "ends in .parquet"),
    ],
)
def test_what_is_refused(letters, options, message):
    with pytest.raises(InputError, match=message):
        unmask.mutants(SEQUENCE, model=letters, **options)


def test_several_sequences_have_no_common_list(letters):
    with pytest.raises(InputError, match="2 sequences and one list"):
        unmask.mutants([SEQUENCE, SEQUENCE], model=letters, measured=[{"m": "C2D", "y": 1}])


def test_type_checkers_see_every_argument():
    named = set(OfMutants.__annotations__) | set(OfMeasured.__annotations__)
    assert named | {"sequence", "mutations", "measured"} == set(signature(unmask.mutants).parameters)
