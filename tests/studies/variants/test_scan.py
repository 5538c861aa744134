"""Mutants by name and by position: their numbers, files and figures, and what is refused."""

import json

import pandas
import pytest

import unmask
from unmask.common.errors import InputError
from unmask.runs.progress import Enough
from unmask.studies.variants import scan
from unmask.surfaces.cli.app import run

SEQUENCE = "ACDEGACD"


def test_names_and_scans_agree(letters):
    scan = (
        unmask.mutants(SEQUENCE, positions=[2, 5], changes=2, model=letters)
        .to_frame()
        .set_index("mutant")
    )
    assert len(scan) == 4 + 4 + 16
    assert scan["changes"].value_counts().to_dict() == {2: 16, 1: 8}
    named = (
        unmask.mutants(SEQUENCE, mutations="C2A, C2A+G5D,G5D", model=letters)
        .to_frame()
        .set_index("mutant")
    )
    assert sorted(named.index) == ["C2A", "C2A+G5D", "G5D"]
    for name, row in named.iterrows():
        assert row.to_numpy(float) == pytest.approx(scan.loc[name].to_numpy(float), abs=1e-5)
    double = scan.loc["C2A+G5D"]
    assert double["singles"] == pytest.approx(
        scan.loc["C2A", "effect"] + scan.loc["G5D", "effect"], abs=1e-4
    )
    assert double["epistasis"] == pytest.approx(double["effect"] - double["singles"], abs=1e-9)
    assert (scan.loc[scan["changes"] == 1, "epistasis"].abs() < 1e-6).all()
    assert abs(double["epistasis"]) > 1e-3


def test_single_mutants_are_the_models_own_conditional(letters):
    scan = unmask.mutants(SEQUENCE, positions="all", model=letters)
    assert len(scan) == 8 * 4
    filling = unmask.fill("ACD[MASK]GACD", model=letters, top=5)
    log_prob = {c.tokens[0]: c.log_prob for c in filling.completions}
    frame = scan.to_frame().set_index("mutant")
    for letter in "ACDG":
        assert frame.loc[f"E4{letter}", "log_prob"] == pytest.approx(log_prob[letter], abs=1e-5)
        assert frame.loc[f"E4{letter}", "effect"] == pytest.approx(
            log_prob[letter] - log_prob["E"], abs=1e-5
        )


def test_four_changes_and_lists_and_objects(letters):
    mutants = unmask.mutants(SEQUENCE, mutations=["A1C+C2A+D3E+E4G"], model=letters)
    assert mutants.names == ["A1C+C2A+D3E+E4G"]
    assert repr(mutants).startswith("Mutants(1 of 8 residues, best A1C+C2A+D3E+E4G")
    both = unmask.mutants(
        [SEQUENCE, "CCDEG"], positions="1-2", model=letters, alphabet="ACD", top=3
    )
    assert [len(one) for one in both] == [4, 4]
    assert both[1].names[0] == "C1A"
    best = both[0].best().numbers["effect"]
    assert len(best) == 3
    assert best == sorted(both[0].numbers["effect"], reverse=True)[:3]
    assert both[0].to_frame()["mutant"].tolist() == ["A1C", "A1D", "C2A", "C2D"]
    assert "A1D" in both[0]._repr_html_()


@pytest.mark.parametrize(
    "options",
    [{"positions": "all"}, {"positions": [1, 4], "changes": 2}, {"positions": "1-4", "changes": 2}],
)
def test_figures_and_tables_are_left(letters, tmp_path, options):
    mutants = unmask.mutants(
        SEQUENCE, model=letters, save=tmp_path / "m.parquet", figure=tmp_path / "m.png", **options
    )
    assert pandas.read_parquet(tmp_path / "m.parquet").equals(mutants.to_frame())
    assert (tmp_path / "m.png").stat().st_size > 5_000


@pytest.mark.parametrize("separator", ["+", ":", "/", " + "])
def test_the_changes_of_a_mutant_have_any_mark_between_them(letters, separator):
    named = unmask.mutants(SEQUENCE, mutations=f"C2A{separator}G5D,A1C", model=letters)
    assert named.names == ["C2A+G5D", "A1C"]


def test_a_mutant_is_listed_once_however_it_is_named(letters):
    assert unmask.mutants(
        SEQUENCE, mutations=["C2A+G5D", "G5D:C2A", "A1C"], model=letters
    ).names == ["C2A+G5D", "A1C"]


def test_a_mark_may_be_the_token_of_a_change(english):
    assert unmask.mutants(
        "the cat sat", "cat2:,cat2/", english, alphabet=["cat", ":", "/"]
    ).names == ["cat2:", "cat2/"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "CSV"])
def test_mutants_are_saved_as_text(letters, tmp_path, ending):
    file = tmp_path / f"m.{ending}"
    for options in (
        {"mutations": "A1C"},
        {"positions": "all"},
    ):  # the second takes the place of the first
        mutants = unmask.mutants(SEQUENCE, model=letters, save=file, **options)
    read = pandas.read_csv(file, sep="\t" if ending == "tsv" else ",", dtype=str)
    assert list(read.columns) == list(mutants.to_frame().columns)
    assert read["mutant"].tolist() == mutants.names
    assert all(
        read[name].map(float).tolist() == list(values) for name, values in mutants.numbers.items()
    )
    (tmp_path / f"other.{ending}").write_text("name,value\n")
    with pytest.raises(InputError, match="a file that this command did not write"):
        unmask.mutants(SEQUENCE, "A1C", letters, save=tmp_path / f"other.{ending}")
    with pytest.raises(
        InputError, match=r"has no known ending: name a file that ends in .parquet, .csv, .tsv"
    ):
        unmask.mutants(SEQUENCE, "A1C", letters, save=tmp_path / "m.txt")


def test_a_figure_without_a_mutant_on_it_is_refused_before_any_pass(letters, tmp_path, monkeypatch):
    three = {"mutations": "A1C+C2A+D3E", "model": letters}
    with pytest.raises(InputError, match="shows mutants of one or two changes"):
        unmask.mutants(SEQUENCE, **three).figure()
    monkeypatch.setattr(
        "unmask.studies.variants.scan.tables_of", lambda *_, **__: pytest.fail("a pass")
    )
    with pytest.raises(InputError, match="those given have 3 or more: leave it out"):
        unmask.mutants(SEQUENCE, **three, figure=tmp_path / "m.png")
    assert not (tmp_path / "m.png").exists()


def test_the_most_mutants_of_a_scan(letters, monkeypatch):
    """Two positions of five letters: 4 + 4 single and 16 double mutants."""
    scan = {"positions": [2, 5], "changes": 2, "model": letters}
    monkeypatch.setattr("unmask.studies.variants.scan.MOST_ROWS", 24)
    assert len(unmask.mutants(SEQUENCE, **scan)) == 24
    monkeypatch.setattr("unmask.studies.variants.scan.MOST_ROWS", 23)
    with pytest.raises(InputError, match=r"are 24 mutants \(limit 23\)"):
        unmask.mutants(SEQUENCE, **scan)
    assert len(unmask.mutants(SEQUENCE, **scan, force=True)) == 24


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "neither mutations nor positions"),
        (
            {"mutations": "A1C", "positions": [1]},
            "mutations is not used with positions",
        ),
        ({"mutations": "D1C"}, "residue 1 of the sequence is A, not D"),
        ({"mutations": "A9C"}, "residues 1 to 8, and no 9"),
        ({"mutations": "A1A"}, "into itself"),
        ({"mutations": "A1W"}, "'W' is not in the alphabet"),
        ({"mutations": "1AC"}, "not understood"),
        ({"mutations": "A1C+A1D"}, "twice"),
        (
            {"mutations": "A1C+C2A+D3A+E4A+G5A"},
            r"up to 4 are exact: change fewer; the scores that assay compares",
        ),
        (
            {"mutations": "A1C C2A"},
            "with \\+ between those of one mutant and commas between mutants",
        ),
        ({"mutations": ["A1C,C2A"]}, "not understood"),
        ({"mutations": "A1C::C2A"}, "not understood"),
        ({"mutations": "A " * 5000}, r"^.{,400}$"),
        ({"positions": [0]}, "positions 0 is out of range: the sequence has residues 1 to 8"),
        ({"positions": "3-x"}, "not understood"),
        ({"positions": "3-"}, "positions '3-' is not understood"),
        ({"positions": "1-999999999"}, "residues 1 to 8"),
        ({"positions": [1, 1]}, "twice"),
        ({"positions": [1], "changes": 2}, "give more positions"),
        ({"positions": [1], "alphabet": "CD"}, "residue A1 of the sequence is not in the alphabet"),
        ({"positions": [1], "alphabet": "AB"}, "'B'"),
    ],
)
def test_what_is_refused(letters, options, message):
    with pytest.raises(InputError, match=message):
        unmask.mutants(SEQUENCE, model=letters, **options)


def test_a_model_of_words_needs_an_alphabet(english):
    with pytest.raises(InputError, match="give an alphabet of"):
        unmask.mutants("The cat sat.", positions=[2], model=english)


def test_too_many_mutants_are_refused_before_any_pass(letters):
    with pytest.raises(InputError, match=r"need [\d,]+ passes of the model"):
        unmask.mutants("ACDEG" * 6, positions="all", changes=3, model=letters)
    with pytest.raises(InputError, match=r"are [\d,]+ mutants"):
        unmask.mutants("ACDEG" * 6, positions="all", changes=4, model=letters)


def test_single_mutants_are_not_said_to_be_of_a_joint(letters):
    single = unmask.mutants(SEQUENCE, positions="2,5", model=letters)
    assert single.about() == ["8 mutants; 5 tokens per residue; in nats"]
    one = unmask.mutants(SEQUENCE, mutations="A1C", model=letters)
    assert one.about() == ["1 mutant; 5 tokens per residue; in nats"]
    both = unmask.mutants(SEQUENCE, mutations="A1C,A1C+C2A", model=letters)
    assert both.about() == ["2 mutants; balanced joint; 5 tokens per residue; in nats"]


def test_the_command(letters_folder, letters, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")

    def printed(*words: object) -> tuple[int, str, str]:
        code = run(["mutants", *map(str, words), "--model", str(letters_folder)])
        return code, *capsys.readouterr()

    code, out, err = printed(
        SEQUENCE, "--positions", "2,5", "--changes", 2, "--top", 4, "--save", tmp_path / "m.parquet"
    )
    assert code == 0, err
    assert "24 mutants; balanced joint; 5 tokens per residue" in out
    assert "the 4 of largest effect" in out
    assert max(map(len, out.splitlines())) <= 80
    assert len(pandas.read_parquet(tmp_path / "m.parquet")) == 24
    (tmp_path / "list.txt").write_text("A1C\nC2A+G5D\n")
    code, out, _ = printed(SEQUENCE, "--mutations", tmp_path / "list.txt", "--json")
    assert (
        json.loads(out)
        == unmask.mutants(SEQUENCE, mutations=["A1C", "C2A+G5D"], model=letters).to_dict()
    )
    code, out, err = printed(SEQUENCE, "--mutations", "W1C")
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1


def test_letters_without_a_model_are_not_read_as_english(tmp_path):
    with pytest.raises(
        InputError,
        match="no model was given, and the bundled one reads English: give a model of such",
    ):
        unmask.mutants("MKVLAAGGT", "K2A", alphabet="ACDEFGHIKLMNPQRSTVWY")


def test_two_outputs_are_two_files(letters, tmp_path):
    (tmp_path / "m.png").symlink_to(tmp_path / "m.parquet")
    with pytest.raises(InputError, match="save and figure are one file"):
        unmask.mutants(
            SEQUENCE, "A1C", letters, save=tmp_path / "m.parquet", figure=tmp_path / "m.png"
        )


@pytest.mark.parametrize("rank_by", ["epistasis", "singles", None])
def test_top_and_rank_by_choose_what_is_shown(letters, letters_folder, rank_by, capsys):
    """In Python's rows, in JSON and in print; the frame, and files, have all."""
    scan = {"positions": [2, 5], "changes": 2}
    every = unmask.mutants(SEQUENCE, model=letters, **scan)
    assert every.to_dict()["mutants"] == every.to_frame().to_dict("records")
    best = unmask.mutants(SEQUENCE, model=letters, **scan, top=3, rank_by=rank_by)
    by = rank_by or "effect"
    numbers = [row[by] for row in best.to_dict()["mutants"]]
    assert numbers == sorted(every.numbers[by], reverse=True)[:3]
    assert best.to_frame().equals(every.to_frame())
    line = ["mutants", SEQUENCE, "--model", str(letters_folder), "--positions", "2,5"]
    line += ["--changes", "2", "--top", "3", *(["--rank-by", rank_by] if rank_by else [])]
    assert run([*line, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["mutants"]
    assert [row[by] for row in printed] == pytest.approx(numbers, abs=1e-4)
    assert run(line) == 0
    out = capsys.readouterr().out
    _, table = out.rsplit("\n\n", 1)
    names = [line.split()[0] for line in table.splitlines()[2:-1]]
    assert names == [row["mutant"] for row in printed]
    assert f"the 3 of largest {by}; a saved file has all" in out


def test_a_scan_that_is_stopped_says_so(letters, monkeypatch):
    monkeypatch.setattr(scan, "SETS_AT_ONCE", 2)

    def enough(done, total, what=""):
        if done:
            raise Enough

    stopped = unmask.mutants(SEQUENCE, positions="1-5", model=letters, progress=enough)
    assert stopped.verdict() == ["8 of 20 mutants are measured."]
    assert len(stopped.rows) == 8
    whole = unmask.mutants(SEQUENCE, positions="1-5", model=letters)
    assert whole.verdict() == []
    assert stopped.rows == whole.rows[:8]


def test_rank_by_alone_orders_all(letters):
    scan = {"positions": [2, 5], "changes": 2, "rank_by": "singles"}
    ranked = unmask.mutants(SEQUENCE, model=letters, **scan)
    singles = [row["singles"] for row in ranked.to_dict()["mutants"]]
    assert singles == sorted(ranked.numbers["singles"], reverse=True)
    assert len(singles) == 24


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mutations": "A1C", "changes": 3}, "changes is used only with positions"),
        ({"mutations": "A1C", "positions": "1"}, "mutations is not used with positions"),
        ({"positions": "1", "by": "effect"}, "did you mean rank_by"),
        ({"positions": "1", "measured": "x.csv"}, "measured is not .*: use unmask.assay"),
        ({"positions": "1", "ranking": None}, "ranking is not .*: use unmask.assay"),
    ],
)
def test_options_that_would_have_no_effect_are_refused(letters, options, message):
    with pytest.raises(InputError, match=message):
        unmask.mutants(SEQUENCE, model=letters, **options)


def even(tables):
    """Every pair of residues is as likely as any other."""
    return (0 * tables.log_q[0]).flatten().log_softmax(0).reshape(tables.shape)


def test_a_construction_of_the_users_own(letters, tmp_path, monkeypatch):
    """A function of Python, and one of a file: with even joints no pair has an effect."""
    monkeypatch.chdir(tmp_path)
    rules = "def even(tables):\n    cells = (0 * tables.log_q[0]).flatten().log_softmax(0)\n"
    (tmp_path / "rules.py").write_text(f"{rules}    return cells.reshape(tables.shape)\n")
    pairs = {"positions": [2, 5], "changes": 2, "model": letters}
    for own in (even, "rules.py:even"):
        assert effects_of_pairs(own, pairs).abs().max() < 1e-5
    assert effects_of_pairs("product", pairs).abs().max() > 1e-3


def effects_of_pairs(construction, scan):
    """The effects of two changes together; one change has the model's conditional."""
    rows = unmask.mutants(SEQUENCE, construction=construction, **scan).to_frame()
    return rows.loc[rows["changes"] == 2, "effect"]
