"""`mutants` with measured variants: columns, verdicts and files against known scores."""

import json
from itertools import product

import numpy as np
import pandas
import pytest
import torch

import unmask
from support.all_at_once import variant_scores
from unmask.common.errors import InputError
from unmask.studies.variants.score_comparison import compared
from unmask.studies.variants.variant_lists import Variants
from unmask.surfaces.cli.app import run

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
    scores = variant_scores(
        letters, ids, [where[place - 1] for place in SITES], cells, "all", letters.regular_ids
    )
    return {name: values.numpy() for name, values in scores.items()}


def frame(values):
    return pandas.DataFrame({"sequence": VARIANTS, "y": values})


@pytest.mark.parametrize("name", ["singles", "left_to_right", "pairs:balanced"])
def test_values_that_are_a_score_are_ranked_perfectly_by_it(letters, scored, name):
    ranked = unmask.mutants(SEQUENCE, measured=frame(np.exp(scored[name])), model=letters)
    best = ranked.scores[0]
    assert best["score"] == name
    assert best["value"] == pytest.approx(1)
    assert best["best_in"] == 1
    assert best["low"] > 0.999
    assert ranked.sentence.startswith(f"Use {name}: Spearman's rho 1.000")
    assert "significantly above" in ranked.sentence
    assert ranked.statistic == "spearman"
    assert ranked.places == SITES
    assert len(ranked) == len(VARIANTS)
    worst = unmask.mutants(
        SEQUENCE,
        measured=frame(np.exp(scored[name])),
        model=letters,
        ranking=unmask.Ranking(better="lower"),
    )
    assert {row["score"]: row["value"] for row in worst.scores}[name] == pytest.approx(-1)


def test_columns_are_effects_per_change_and_fewer_changes(letters, scored):
    columns = unmask.mutants(SEQUENCE, measured=frame(scored["pll"]), model=letters).to_frame()
    parent = VARIANTS.index(SEQUENCE)
    changes = np.array([sum(a != b for a, b in zip(v, SEQUENCE, strict=True)) for v in VARIANTS])
    assert columns["changes"].tolist() == changes.tolist()
    assert columns.loc[parent, "mutant"] == "WT"
    for name in (
        "singles",
        "product",
        "pll",
        "left_to_right",
        "any_order",
        "epistasis",
        "pairs:balanced",
    ):
        effect = scored[name] - scored[name][parent]
        assert columns[name].to_numpy() == pytest.approx(effect, abs=1e-4)
        assert columns[f"{name}/change"].to_numpy() == pytest.approx(
            effect / np.maximum(changes, 1), abs=1e-4
        )
    assert columns["fewer_changes"].tolist() == (-changes).tolist()


def test_columns_that_rank_nothing_or_equal_another_are_left_out(letters):
    singles = [
        {"mutant": f"C2{letter}", "y": y} for letter, y in zip("ADEG", (1, 2, 3, 5), strict=True)
    ]
    ranked = unmask.mutants(SEQUENCE, measured=singles, model=letters)
    assert [row["score"] for row in ranked.scores] == ["singles"]
    assert "epistasis is the same for all variants: left out" in ranked.notes
    assert "pll equals singles here: left out" in ranked.notes
    assert "fewer_changes" not in ranked.to_frame()


def synthetic(effects, values, changes=None, **options):
    """`compared` on made-up scores of variants at four binary sites."""
    n = len(values)
    cells = np.zeros((n, 4), dtype=int)
    for row, m in enumerate(np.full(n, 2) if changes is None else changes):
        cells[row, :m] = 1
    variants = Variants((1, 2, 3, 4), np.zeros(4, dtype=int), cells, np.asarray(values, float), "y")
    settings = {"construction": "balanced", "better": "higher"} | options
    return compared("AAAA", [""] * n, variants, effects, **settings)


def test_sentences_say_what_the_intervals_show():
    draw = np.random.default_rng(0)
    truth = draw.normal(size=300)
    good, twin, noise = (
        truth + 0.3 * draw.normal(size=300),
        truth + 0.31 * draw.normal(size=300),
        draw.normal(size=300),
    )
    assert synthetic({"a": good, "b": noise}, truth).sentence.startswith(
        "Use a: Spearman's rho 0.9"
    )
    assert "significantly above the next, b" in synthetic({"a": good, "b": noise}, truth).sentence
    undecided = synthetic({"a": good, "b": twin}, truth)
    assert "not decided" in undecided.sentence
    assert undecided.behind[0]["low"] < 0 < undecided.behind[0]["high"]
    assert "none is significantly better than chance" in synthetic({"a": noise}, truth).sentence
    anti = synthetic({"a": -good, "b": -twin}, truth).sentence
    assert "all rank y the wrong way" in anti
    assert "check which values are better" in anti
    assert synthetic({"a": -good}, truth, better="lower").sentence.startswith("Use a:")
    classes = synthetic({"a": good}, (truth > 0).astype(float))
    assert classes.statistic == "auc"
    assert "area under the curve 0.9" in classes.sentence


def test_the_number_of_changes_alone_can_be_better():
    draw = np.random.default_rng(1)
    changes = draw.integers(0, 5, 300)
    values = changes + draw.normal(size=300)
    assert (
        "all rank y the wrong way"
        in synthetic({"a": -changes + draw.normal(size=300)}, values, changes).sentence
    )
    counted = synthetic({"a": -changes + 3 * draw.normal(size=300)}, -values, changes)
    assert counted.scores[0]["score"] == "fewer_changes"
    assert "as well as the number of changes alone" in counted.sentence


def test_within_the_same_number_of_changes_a_score_of_changes_knows_nothing():
    draw = np.random.default_rng(2)
    changes = draw.integers(1, 4, 400)
    residual = draw.normal(size=400)
    rows = synthetic(
        {"counts": -changes + 1e-3 * draw.normal(size=400), "knows": residual},
        residual - changes,
        changes,
    ).scores
    by_name = {row["score"]: row for row in rows}
    assert by_name["counts"]["low"] > 0.4
    assert abs(by_name["counts"]["within"]) < 0.15
    assert by_name["knows"]["within"] > 0.999
    assert by_name["fewer_changes"]["within"] == 0


def test_the_command_prints_and_writes_what_python_returns(
    letters_folder, letters, scored, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "list.csv"
    frame(scored["pll"]).to_csv(path, index=False)
    ranking = unmask.Ranking(scores="singles,product,any_order")
    ranked = unmask.mutants(
        SEQUENCE, measured=path, model=letters, ranking=ranking, save=tmp_path / "m.parquet"
    )
    typed = ["mutants", SEQUENCE, "--model", str(letters_folder), "--measured", str(path)]
    scores = ["--scores", "singles,product,any_order"]
    assert run([*typed, *scores, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(ranked.to_dict()))
    assert run([*typed, *scores]) == 0
    printed = capsys.readouterr().out
    assert ranked.sentence in printed
    assert max(len(line) for line in printed.splitlines()[:-3]) <= 80
    assert pandas.read_parquet(tmp_path / "m.parquet").equals(ranked.to_frame())
    assert repr(ranked).startswith("Measured(36 variants at 3 sites, best ")
    assert ranked.sentence[:20] in ranked._repr_html_()
    assert run([*typed, "--mutations", "A1C"]) == 2
    assert "--mutations is not used with --measured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"positions": [1], "ranking": {"column": "y"}},
            "column is used only with measured",
        ),
        (
            {"measured": [{"m": "C2D", "y": 1}], "changes": 2},
            "changes is not used with measured",
        ),
        (
            {"measured": [{"m": "C2D", "y": 1}], "ranking": {"scores": "magic"}},
            "'magic' is unknown",
        ),
        (
            {"measured": [{"m": "C2D", "y": 1}], "ranking": {"scores": "pairs:zzz"}},
            "^scores 'pairs:zzz': construction 'zzz' is unknown: use one of product",
        ),
        (
            {"measured": [{"m": v, "y": i} for i, v in enumerate(VARIANTS)], "save": "m.txt"},
            "ends in .parquet, .csv, .tsv",
        ),
    ],
)
def test_what_is_refused(letters, options, message):
    with pytest.raises(InputError, match=message):
        unmask.mutants(
            SEQUENCE,
            model=letters,
            **options | {"ranking": unmask.Ranking(**options.get("ranking", {}))},
        )


def test_too_many_passes_are_refused_with_their_count(letters, monkeypatch):
    rows, options = (
        [{"mutant": m, "y": y} for y, m in enumerate(("A1C", "C2D", "A1D+C2A"))],
        {"ranking": unmask.Ranking(scores="pll")},
    )
    monkeypatch.setattr("unmask.studies.variants.score_comparison.MAX_PASSES", 3)
    with pytest.raises(
        InputError,
        match=(
            r"scores of 4 variants need 6 passes of the model \(limit 3\): ask for"
            r" fewer.*force=True"
        ),
    ):
        unmask.mutants("A C D", model=letters, measured=rows, **options)
    assert len(unmask.mutants("A C D", model=letters, measured=rows, force=True, **options)) == 3


def test_several_sequences_have_no_common_list(letters):
    with pytest.raises(InputError, match="measured is of one sequence, and 2 were given"):
        unmask.mutants([SEQUENCE, SEQUENCE], model=letters, measured=[{"m": "C2D", "y": 1}])
