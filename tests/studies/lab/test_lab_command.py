"""`unmask lab`: what it says without a study, tables and files of a study, and one-line errors."""

import json
import re

import pytest

from unmask import lab
from unmask.surfaces.cli.app import run


@pytest.fixture(autouse=True)
def wide(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(capsys):
    def call(*words):
        code = run(["lab", *map(str, words)])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        assert ("figure and numbers are in" in printed.err) == ("--out" in words)
        return printed.out

    return call


@pytest.fixture
def refused(capsys):
    def call(*words):
        code = run(["lab", *map(str, words)])
        message = capsys.readouterr().err
        assert code == 2, message
        assert message.startswith("error: "), message
        assert message.count("\n") == 1, message
        return message

    return call


def test_without_a_study_it_says_what_is_written_where(command, tmp_path):
    output = command()
    assert all(f" {name} " in output for name in (*lab.STUDIES, "all"))
    assert "With --out FOLDER it also writes NAME.png and NAME.json there" in output
    assert list(tmp_path.iterdir()) == []


def test_a_study_prints_its_tables_and_writes_to_the_folder_that_is_named(command, tmp_path):
    report = lab.parallel(lab.SpinModel(sites=3), out="lab-report")
    assert report.notices() == [
        f"figure and numbers are in {report.folder}/parallel.png and {report.folder}/parallel.json"
    ]
    output = command("parallel", "--sites", 3, "--out", "lab-report")
    assert "N=3, coupling 0.4, fields -0.35:0.35" in output
    assert "───" in output
    assert {path.name for path in (tmp_path / "lab-report").iterdir()} == {
        "lab.json",
        "parallel.json",
        "parallel.png",
    }
    assert "[default: -0.35:0.35]" in command("parallel", "--help")


def test_a_study_without_out_leaves_the_files_of_another_run_alone(command, tmp_path):
    command("parallel", "--sites", 3, "--out", "lab-report")
    before = {path.name: path.read_bytes() for path in (tmp_path / "lab-report").iterdir()}
    output = command("parallel", "--sites", 2)
    assert "N=2" in output
    assert "png" not in output
    assert {path.name: path.read_bytes() for path in (tmp_path / "lab-report").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["lab-report"]


@pytest.mark.parametrize("name", [name for name in lab.STUDIES if name != "stutter"])
def test_options_that_are_left_out_are_the_same_in_python(name, command):
    fits = {"fits": 2} if name == "masking" else {}
    words = [word for option, value in fits.items() for word in (f"--{option}", value)]
    printed = json.loads(command(name, "--sites", 3, *words, "--json"))
    assert lab.STUDIES[name](lab.SpinModel(sites=3), **fits).to_dict() == printed


def test_dependence_shows_the_coupling_that_is_asked_for_and_no_other(command):
    shown = [
        line.split()[0]
        for line in command("dependence", "--sites", 3, "--coupling", 0.2).splitlines()
        if line[:2] == "0."
    ]
    assert shown == ["0.2", "0.2", "0.2"]
    assert set(lab.dependence(lab.SpinModel(sites=3, coupling=0.2)).to_frame()["coupling"]) == {
        "0.2"
    }
    assert set(lab.dependence(lab.SpinModel(sites=3)).to_frame()["coupling"]) == {
        "0.1",
        "0.3",
        "0.6",
    }


def test_headings_that_do_not_fit_are_broken_and_no_column_is_lost(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    output = command("masking", "--sites", 3, "--fits", 2)
    assert "…" not in output
    assert re.search(r"^k +joint block", output, re.M)
    assert re.search(r"^3 .*∞", output, re.M)


def test_the_function_gives_what_the_command_gives(command, tmp_path):
    words = ("dependence", "--sites", 3, "--coupling", 0.3, "--fields=-0.2:0.2")
    printed = json.loads(command(*words, "--out", "command", "--json"))
    model = lab.SpinModel(sites=3, coupling=0.3, fields="-0.2:0.2")
    assert lab.dependence(model, out="function").to_dict() == printed
    for name in ("lab.json", "dependence.json", "dependence.png"):
        assert (tmp_path / "function" / name).read_bytes() == (
            tmp_path / "command" / name
        ).read_bytes()


MISTAKES = [
    (["magic"], 'Unknown command "magic". Available commands: dictionary, '),
    (["paralel"], 'Did you mean "parallel"'),
    (
        ["parallel", "--sites", "20"],
        "--sites 20 is out of range: give a number less than or equal to 10",
    ),
    (["dependence", "--fields", "0:1:1000000000"], "fields '0:1:1000000000'"),
    (["schedule", "--graph", "pat"], "graph 'pat' is unknown: did you mean path"),
    (["masking", "--fits", "1"], "fits 1 is out of range"),
    (["stutter", "--sites", "3"], "--sites"),
]


@pytest.mark.parametrize(
    ("words", "message"),
    MISTAKES,
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_one_line_and_write_nothing(words, message, refused, tmp_path):
    assert re.search(message, refused(*words))
    assert list(tmp_path.iterdir()) == []
