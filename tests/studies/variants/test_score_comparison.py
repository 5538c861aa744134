"""`assay`: columns, verdicts and files against known scores."""

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
from unmask.verbs.assay import answer_of

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


@pytest.mark.parametrize("name", ["singles", "left_to_right_sites", "pairs:balanced"])
def test_values_that_are_a_score_are_ranked_perfectly_by_it(letters, scored, name):
    ranked = unmask.assay(SEQUENCE, frame(np.exp(scored[name])), model=letters)
    best = ranked.scores[0]
    assert best["score"] == name
    assert best["value"] == pytest.approx(1)
    assert best["best_in"] == 1
    assert best["low"] > 0.999
    assert ranked.verdict()[0].startswith(f"Use {name}: Spearman's rho 1.000")
    assert "significantly above" in ranked.verdict()[0]
    assert ranked.statistic == "spearman"
    assert ranked.places == SITES
    assert len(ranked) == len(VARIANTS)
    worst = unmask.assay(SEQUENCE, frame(np.exp(scored[name])), letters, better="lower")
    assert {row["score"]: row["value"] for row in worst.scores}[name] == pytest.approx(-1)


def test_columns_are_effects_per_change_and_fewer_changes(letters, scored):
    columns = unmask.assay(SEQUENCE, frame(scored["pll_sites"]), model=letters).to_frame()
    parent = VARIANTS.index(SEQUENCE)
    changes = np.array([sum(a != b for a, b in zip(v, SEQUENCE, strict=True)) for v in VARIANTS])
    assert columns["changes"].tolist() == changes.tolist()
    assert columns.loc[parent, "mutant"] == "WT"
    for name in (
        "singles",
        "product",
        "pll_sites",
        "left_to_right_sites",
        "any_order_sites",
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
    ranked = unmask.assay(SEQUENCE, singles, model=letters)
    assert [row["score"] for row in ranked.scores] == ["singles"]
    assert "epistasis is the same for all variants: left out" in ranked.notes
    assert "pll_sites equals singles here: left out" in ranked.notes
    assert "fewer_changes" not in ranked.to_frame()


def synthetic(effects, values, changes=None, **options):
    """`compared` on made-up scores of variants at four binary sites."""
    n = len(values)
    cells = np.zeros((n, 4), dtype=int)
    for row, m in enumerate(np.full(n, 2) if changes is None else changes):
        cells[row, :m] = 1
    variants = Variants((1, 2, 3, 4), np.zeros(4, dtype=int), cells, np.asarray(values, float), "y")
    settings = {"construction": "balanced", "better": "higher"} | options
    found = compared("AAAA", [""] * n, variants, effects, **settings)
    return answer_of(found, settings["better"])


def test_sentences_say_what_the_intervals_show():
    draw = np.random.default_rng(0)
    truth = draw.normal(size=300)
    good, twin, noise = (
        truth + 0.3 * draw.normal(size=300),
        truth + 0.31 * draw.normal(size=300),
        draw.normal(size=300),
    )
    assert (
        synthetic({"a": good, "b": noise}, truth)
        .verdict()[0]
        .startswith("Use a: Spearman's rho 0.9")
    )
    assert (
        "significantly above the next, b" in synthetic({"a": good, "b": noise}, truth).verdict()[0]
    )
    undecided = synthetic({"a": good, "b": twin}, truth)
    assert "not decided" in undecided.verdict()[0]
    assert undecided.behind[0]["low"] < 0 < undecided.behind[0]["high"]
    assert "none is significantly better than chance" in synthetic({"a": noise}, truth).verdict()[0]
    anti = synthetic({"a": -good, "b": -twin}, truth).verdict()[0]
    assert "all rank y the wrong way" in anti
    assert "check which values are better" in anti
    assert synthetic({"a": -good}, truth, better="lower").verdict()[0].startswith("Use a:")
    classes = synthetic({"a": good}, (truth > 0).astype(float))
    assert classes.statistic == "auc"
    assert "area under the curve 0.9" in classes.verdict()[0]


def test_the_number_of_changes_alone_can_be_better():
    draw = np.random.default_rng(1)
    changes = draw.integers(0, 5, 300)
    values = changes + draw.normal(size=300)
    assert (
        "all rank y the wrong way"
        in synthetic({"a": -changes + draw.normal(size=300)}, values, changes).verdict()[0]
    )
    counted = synthetic({"a": -changes + 3 * draw.normal(size=300)}, -values, changes)
    assert counted.scores[0]["score"] == "fewer_changes"
    assert "as well as the number of changes alone" in counted.verdict()[0]


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
    frame(scored["pll_sites"]).to_csv(path, index=False)
    names = "singles,product,any_order_sites,pll"
    ranked = unmask.assay(SEQUENCE, path, letters, score=names, save=tmp_path / "m.parquet")
    typed = ["assay", SEQUENCE, str(path), "--model", str(letters_folder)]
    scores = ["--score", names]
    assert run([*typed, *scores, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(ranked.to_dict()))
    assert run([*typed, *scores]) == 0
    printed = capsys.readouterr().out
    assert ranked.verdict()[0] in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 80
    assert pandas.read_parquet(tmp_path / "m.parquet").equals(ranked.to_frame())
    assert repr(ranked).startswith("Assay(36 variants at 3 sites, best ")
    assert ranked.verdict()[0][:20] in ranked._repr_html_()


def test_a_score_of_texts_is_the_one_that_score_gives(letters):
    """And those over the sites and the alphabet have other names, since they are other numbers."""
    rows = frame(np.arange(len(VARIANTS)))
    # The sampled orders of any_order depend on the text alone, so that even these agree.
    of_texts = ["pll", unmask.AnyOrder(exact_tokens=2, orders=3)]
    columns = unmask.assay(SEQUENCE, rows, letters, score=[*of_texts, "pll_sites"]).to_frame()
    scored = unmask.score([*VARIANTS, SEQUENCE], of_texts, model=letters).to_frame()
    for name in ("pll", "any_order", "any_order_mean_log"):
        values = scored[name].to_numpy()
        assert columns[name].to_numpy() == pytest.approx(values[:-1] - values[-1], abs=1e-5), name
    assert "any_order_se" not in columns
    pll, of_sites = columns["pll"].to_numpy(), columns["pll_sites"].to_numpy()
    assert not np.allclose(pll, of_sites, atol=1e-3)  # the control: they are two scores


def test_a_score_where_lower_is_better_ranks_by_its_negative(letters):
    rows = frame(np.arange(len(VARIANTS)))
    columns = unmask.assay(SEQUENCE, rows, letters, score="energy_raw").to_frame()
    energies = unmask.score([*VARIANTS, SEQUENCE], "energy_raw", model=letters).to_frame()
    of_texts = energies["energy_raw"].to_numpy()
    assert columns["energy_raw"].to_numpy() == pytest.approx(of_texts[-1] - of_texts[:-1], abs=1e-4)


@unmask.method
class First(unmask.Score):
    """log q(x_1 | all other tokens): a score of a user"""

    def compute(self, model, batch, progress=None):
        hidden = batch.ids.clone()
        hidden[:, batch.sites[0, 0]] = model.mask_id
        logits = model.logits_at(hidden, batch.sites[:, :1])[:, 0]
        return logits.double().log_softmax(-1).gather(1, batch.ids[:, batch.sites[0, :1]])[:, 0]


def test_a_score_of_a_user_is_compared_too(letters):
    assay = unmask.assay(SEQUENCE, frame(np.arange(len(VARIANTS))), letters, score=[First()])
    assert "first" in assay.to_frame()


def test_the_command_takes_a_score_in_a_file_and_its_options(
    letters_folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(
        "import unmask\n\n\n@unmask.method\nclass Scaled(unmask.Score):\n"
        '    """token ids, scaled\n\n    Parameters:\n        scale: The factor.\n    """\n\n'
        "    scale: float = 1.0\n\n"
        "    def compute(self, model, batch, progress=None):\n"
        "        return self.scale * batch.ids.double().sum(1)\n"
    )
    frame(np.arange(len(VARIANTS))).to_csv("list.csv", index=False)
    line = ["assay", SEQUENCE, "list.csv", "--model", str(letters_folder)]
    ranked = {}
    for scale in ("1", "-1"):
        assert run([*line, "--score", "my.py:Scaled", "--scale", scale, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["scores"]
        ranked[scale] = {row["score"]: row["value"] for row in rows}["scaled"]
    assert ranked["1"] == pytest.approx(-ranked["-1"])
    assert ranked["1"] != 0


def test_options_of_the_scores_are_theirs(letters):
    rows = frame(np.arange(len(VARIANTS)))
    by_default, fewer, eight = (
        unmask.assay(SEQUENCE, rows, letters, score=score).to_frame()["any_order_sites"]
        for score in (
            "any_order_sites",
            unmask.AnyOrderSites(orders=2),
            unmask.AnyOrderSites(orders=8),
        )
    )
    assert by_default.tolist() == eight.tolist()
    assert by_default.tolist() != fewer.tolist()


def test_the_construction_is_that_of_scores_that_name_none(letters):
    rows = frame(np.arange(len(VARIANTS)))
    given = unmask.assay(SEQUENCE, rows, letters, score="epistasis,pairs", construction="mrf")
    spelled = unmask.assay(SEQUENCE, rows, letters, score="pairs:mrf")
    assert given.construction == "mrf"
    assert given.numbers["pairs:mrf"] == spelled.numbers["pairs:mrf"]
    balanced = unmask.assay(SEQUENCE, rows, letters, score="pairs")
    assert balanced.numbers["pairs:balanced"] != given.numbers["pairs:mrf"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": "magic"}, "'magic' is unknown"),
        ({"score": "pairs:zzz"}, "^score 'pairs:zzz': construction 'zzz' is unknown"),
        ({"score": []}, "is empty"),
        ({"score": "pll", "construction": "mrf"}, "construction was given, and no score that uses"),
        ({"score": "pairs:mrf", "construction": "mrf"}, "construction was given, and no score"),
        ({"score": "pll", "construction": "zzz"}, "'zzz' is unknown"),
        (
            {"score": [unmask.AnyOrder(orders=2), "any_order"]},
            "any_order was given twice, with different options",
        ),
        ({"save": "m.txt"}, r"ends in .parquet, .csv, .tsv"),
        ({"mutations": "A1C"}, r"mutations is not an argument of assay: use unmask\.mutants"),
        ({"scores": "pll"}, "did you mean score"),
    ],
)
def test_what_is_refused(letters, options, message):
    rows = [{"m": variant, "y": y} for y, variant in enumerate(VARIANTS)]
    with pytest.raises(InputError, match=message):
        unmask.assay(SEQUENCE, rows, letters, **options)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("mutants ACD --measured x.csv", "--measured is not an option: use unmask assay"),
        ("mutants ACD --better lower", "--better is not an option: use unmask assay"),
        ("assay ACD x.csv --score pll --orders 3", "--orders was given, which --score pll does"),
        ("assay ACD x.csv --mutations A1C", "--mutations is not an option: use unmask mutants"),
        ("assay ACD --measured x.csv", "give MEASURED without a name"),
        ("assay ACD", "MEASURED is missing"),
        ("assay", "no sequence was given"),
        ("assay ACD x.csv more.csv", "no place for 'more.csv'"),
        ("assay wild.fasta x.csv", "looks like the name of a file: give --file wild.fasta"),
        ("assay --file wild.fasta ACD x.csv", "a sequence and --file were both given"),
    ],
)
def test_what_the_command_refuses_in_one_line(typed, message, capsys):
    assert run(typed.split()) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_the_sequence_may_be_in_a_file(letters, letters_folder, tmp_path, capsys):
    listed = tmp_path / "list.csv"
    frame(np.arange(len(VARIANTS))).to_csv(listed, index=False)
    wild = tmp_path / "wild.fasta"
    wild.write_text(f">wild type\n{SEQUENCE}\n")
    known = unmask.assay(SEQUENCE, listed, letters, score="singles")
    assert unmask.assay(wild, listed, letters, score="singles").to_dict() == known.to_dict()
    words = ["assay", "--file", str(wild), str(listed), "--model", str(letters_folder)]
    assert run([*words, "--score", "singles", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sequence"] == SEQUENCE
    wild.write_text(f">one\n{SEQUENCE}\n>two\n{SEQUENCE}\n")
    with pytest.raises(InputError, match="has 2 sequences"):
        unmask.assay(wild, listed, letters)


@pytest.mark.parametrize("name", ["pll_sites", "pll"])
def test_too_many_passes_are_refused_with_their_count(letters, monkeypatch, name):
    rows = [{"mutant": m, "y": y} for y, m in enumerate(("A1C", "C2D", "A1D+C2A"))]
    passes = {"pll_sites": 6, "pll": 12}[name]  # of two sites, and of three tokens
    monkeypatch.setattr("unmask.studies.variants.score_comparison.MAX_PASSES", 3)
    with pytest.raises(
        InputError,
        match=(
            rf"scores of 4 variants need {passes} passes of the model \(limit 3\): ask for"
            r" fewer.*force=True"
        ),
    ):
        unmask.assay("A C D", rows, letters, score=name)
    assert len(unmask.assay("A C D", rows, letters, score=name, force=True)) == 3
