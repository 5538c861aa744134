"""`unmask lab` and `unmask.lab`: tables, figures, numbers, the report, and one-line errors."""

import inspect
import json
import os
import re
from dataclasses import fields

import numpy as np
import pytest
from typer.testing import CliRunner

from unmask import lab
from unmask.cli.app import app
from unmask.errors import InputError
from unmask.lab.report import markdown
from unmask.lab.studies.study import Table, show
from unmask.options.lab import STUDIES

SMALL = {
    "dictionary": ["--sites", "3", "--couplings", "0,0.3"],
    "masking": ["--sites", "3", "--slow-sites", "3", "--learn-sites", "3", "--fits", "4", "--samples", "2000"],
    "dependence": ["--sites", "3", "--couplings", "0,0.2", "--table-couplings", "0.1,0.3", "--k", "1,2"],
    "parallel": ["--sites", "3", "--couplings", "0,0.2"],
    "stutter": ["--slots", "3"],
    "schedule": ["--sites", "4", "--orders", "5"],
    "decoding": ["--sites", "4", "--gammas", "0,0.2"],
}


SMALL_CALLS = {
    "dictionary": {"sites": 3, "couplings": [0, 0.3]},
    "dependence": {"sites": 3, "couplings": (0, 0.2), "table_couplings": np.array([0.1, 0.3]), "k": [1, 2]},
    "stutter": {"slots": 3},
    "decoding": {"sites": 4, "gammas": [0, 0.2]},
}


def command(*arguments):
    result = CliRunner().invoke(app, ["lab", *(str(a) for a in arguments)], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments):
    result = CliRunner().invoke(app, ["lab", *(str(a) for a in arguments)])
    assert result.exit_code == 2 and result.stderr.startswith("error: ") and result.stderr.count("\n") == 1, result.output
    return result.stderr


@pytest.mark.parametrize("study", SMALL)
def test_each_study_prints_a_table_and_writes_its_files(study, tmp_path):
    output = command(study, *SMALL[study], "--out", tmp_path / "lab")
    assert "───" in output and f"{study}.png" in output
    assert (tmp_path / "lab" / f"{study}.png").read_bytes().startswith(b"\x89PNG")
    numbers = json.loads((tmp_path / "lab" / f"{study}.json").read_text())
    assert numbers["study"] == study and len(numbers) > 2
    assert list(json.loads((tmp_path / "lab" / "lab.json").read_text())["studies"]) == [study]


def test_numbers_in_the_json_are_those_of_the_theory(tmp_path):
    command("dependence", "--out", tmp_path, "--couplings", "0.3", "--table-couplings", "0.1,0.6", "--k", "1")
    points = {p["coupling"]: p for p in json.loads((tmp_path / "dependence.json").read_text())["points"]}
    assert [points[c]["mixing_time"] for c in (0.1, 0.3, 0.6)] == [13, 76, 6908]


@pytest.mark.parametrize("study", SMALL_CALLS)
def test_the_function_gives_what_the_command_gives(study, tmp_path):
    printed = command(study, *SMALL[study], "--out", tmp_path / "command", "--json")
    found = getattr(lab, study)(**SMALL_CALLS[study], out=tmp_path / "function")
    assert found.to_dict() == json.loads(printed)
    for name in ("lab.json", f"{study}.json", f"{study}.png"):
        assert (tmp_path / "function" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
    frame = found.to_frame()
    assert list(frame.columns) == list(found.tables[0].columns) and len(frame) == len(found.tables[0].rows)
    html = found._repr_html_()
    assert html.count("<table>") == len(found.tables) and "**" not in html


def test_functions_have_the_options_of_their_commands():
    for name, kind in STUDIES.items():
        signature = inspect.signature(getattr(lab, name))
        assert set(signature.parameters) == {"out", "progress", *(field.name for field in fields(kind))}
        for field in fields(kind):
            assert signature.parameters[field.name].default == field.default
            assert f"--{field.name.replace('_', '-')}" in command(name, "--help")


def test_a_table_may_be_an_array_and_nothing_is_written_without_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ticks = []
    joint = np.array([[0.4, 0.1], [0.2, 0.3]])
    found = lab.parallel(table=joint, progress=lambda done, total, what="": ticks.append((done, total)))
    assert found.to_dict()["options"]["table"] == "an array of shape (2, 2)" and ticks[-1] == (1, 1)
    assert os.listdir(tmp_path) == []
    (tmp_path / "joint.json").write_text(json.dumps(joint.tolist()))
    assert lab.parallel(table="joint.json").to_dict()["points"] == found.to_dict()["points"]


def test_models_other_than_ising(tmp_path):
    (tmp_path / "joint.json").write_text("[[0.4, 0.1], [0.2, 0.3]]")
    (tmp_path / "zeros.json").write_text("[[0.5, 0.5, 0], [0, 0, 0]]")
    assert "every state" in refused("schedule", "--table", tmp_path / "zeros.json", "--out", tmp_path / "lab")
    out = tmp_path / "lab"
    assert "table joint.json" in command("parallel", "--table", tmp_path / "joint.json", "--out", out)
    command("dictionary", "--table", tmp_path / "joint.json", "--out", out)
    assert "Potts (q=3)" in command("schedule", "--states", "3", "--sites", "3", "--orders", "2", "--out", out)
    command(
        "dependence", "--states", "3", "--sites", "3", "--couplings", "0.1", "--table-couplings", "0.5", "--k", "1", "--out", out
    )


def test_independent_sites_and_single_sizes_are_no_mistake(tmp_path):
    assert "sites are independent" in command(
        "parallel", "--sites", "2", "--coupling", "0", "--couplings", "0", "--out", tmp_path
    )
    command("dependence", "--sites", "3", "--couplings", "0", "--table-couplings", "0", "--k", "1", "--out", tmp_path)
    command("dictionary", "--sites", "2", "--coupling", "0", "--couplings", "0", "--out", tmp_path)
    command("masking", "--sites", "2", "--slow-sites", "2", "--learn-sites", "2", "--fits", "2", "--out", tmp_path)
    command("schedule", "--sites", "2", "--coupling", "0", "--orders", "1", "--out", tmp_path)


def test_all_makes_a_report(tmp_path):
    out = tmp_path / "report"
    command("all", "--fits", "3", "--out", out)
    text = (out / "report.md").read_text()
    for study in SMALL:
        assert f"({study}.png)" in text and (out / f"{study}.png").is_file() and (out / f"{study}.json").is_file()
    assert "unmask lab all --fits 3" in text
    for line in text.splitlines():
        if line.startswith("| "):
            assert line.endswith(" |")
    command("stutter", "--out", out)


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    assert "not empty and holds no lab report" in refused("stutter", "--out", tmp_path)
    assert "is a file" in refused("stutter", "--out", tmp_path / "thesis.tex")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"studies": 3}', '{"studies": {}', "[" * 100_000, "\ud800"])
def test_a_damaged_manifest_is_refused(manifest, tmp_path):
    (tmp_path / "lab.json").write_bytes(manifest.encode("utf-8", "surrogatepass"))
    message = refused("stutter", "--slots", "2", "--out", tmp_path)
    assert "lab.json' is " in message and message.rstrip().endswith("delete it, or name a new folder")


def test_deleting_a_damaged_manifest_helps(tmp_path):
    (tmp_path / "lab.json").write_text("[]")
    refused("stutter", "--slots", "2", "--out", tmp_path)
    (tmp_path / "lab.json").unlink()
    command("stutter", "--slots", "2", "--out", tmp_path)


def test_a_place_that_cannot_be_written_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "cannot be" in refused("stutter", "--slots", "2", "--out", tmp_path / "file" / "lab")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "lab.json").write_text('{"studies": {}}')
    (tmp_path / "lab" / "stutter.png").symlink_to("/dev/full")
    assert "not a regular file" in refused("stutter", "--slots", "2", "--out", tmp_path / "lab")
    assert (tmp_path / "file").read_text() == "mine" and os.path.islink(tmp_path / "lab" / "stutter.png")


MISTAKES = [
    (["parallel", "--sites", "20"], "1,048,576 states.*12 sites of 2 values would fit"),
    (["parallel", "--sites", "1000000000"], "1,000,000,000 sites of 2 values make far too many states.*12 sites of 2 values"),
    (["parallel", "--states", "5", "--sites", "6"], "15,625 states.*5 sites of 5 values"),
    (["parallel", "--states", "1000000000"], "states 1000000000 is out of range: give a whole number from 2 to 4096"),
    (["dependence", "--table-couplings", "500"], "use couplings and fields smaller than"),
    (["dependence", "--couplings", "0:1:1000000000"], "couplings 1000000000 is out of range: .* from 1 to 1000"),
    (["dependence", "--couplings", "0:1"], "couplings '0:1' is not understood"),
    (["dependence", "--couplings", "nan"], "couplings 'nan' is not finite"),
    (["dictionary", "--k", "7"], "k = 7 masked sites of 6: use k from 1 to 6"),
    (["dictionary", "--k", "1:1000000000"], "k = 1000000000 masked sites of 6"),
    (["dictionary", "--k", "3:1"], "k '3:1' is not understood"),
    (["dictionary", "--k", "some"], "k 'some' is not understood"),
    (["dictionary", "--adaptive-k", "9"], "k = 9 masked sites of 6"),
    (["dictionary", "--sharpness", "inf"], "sharpness inf is out of range"),
    (["dictionary", "--coupling", "nan"], "coupling nan is out of range"),
    (["dictionary", "--seed", "-1"], "seed -1 is out of range"),
    (["dictionary", "--fields", "1,2"], "2 numbers for 6 sites"),
    (["dictionary", "--fields", "inf"], "fields must be finite"),
    (["dictionary", "--fields", "normal:1:-2"], "fields 'normal:1:-2'"),
    (["schedule", "--graph", "pat"], "graph 'pat' is unknown: did you mean path"),
    (["schedule", "--sites", "11"], "2 to 10 sites"),
    (["schedule", "--orders", "0"], "orders 0 is out of range: give a whole number from 1 to 100000"),
    (["schedule", "--orders", "1000000000"], "orders 1000000000 is out of range"),
    (["schedule", "--table", "/nowhere/joint.npy"], "'/nowhere/joint.npy' does not exist"),
    (["schedule", "--table", "/"], "'/' is a folder"),
    (["parallel", "--sites", "1"], "sites 1 is out of range"),
    (["schedule", "--states", "1"], "states 1 is out of range"),
    (["masking", "--fits", "1"], "fits 1 is out of range: give a whole number from 2 to 100000"),
    (["masking", "--samples", "-3"], "samples -3 is out of range"),
    (["masking", "--learn-sites", "40"], "learn_sites 40 is out of range: give a whole number from 2 to 12"),
    (["stutter", "--weight", "2"], "weight 2.0 is out of range: give a number from 0 to 1"),
    (["stutter", "--weight", "nan"], "weight nan is out of range"),
    (["stutter", "--weight", "0"], "weight 0: use a number between 0 and 1"),
    (["stutter", "--noise", "nan"], "noise nan is out of range"),
    (["stutter", "--noise", "1"], "noise from 0 to below 1"),
    (["stutter", "--slots", "1"], "slots 1 is out of range: give a whole number from 2 to 12"),
    (["stutter", "--steps", "1000000000"], "steps 1000000000 is out of range"),
    (["all", "--fits", "0"], "fits 0 is out of range"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_mistakes_are_one_line_and_write_nothing(arguments, message, tmp_path):
    assert re.search(message, refused(*arguments, "--out", tmp_path / "lab"))
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deep.json", b"[" * 100_000),
        ("digits.json", b"[" + b"9" * 5000 + b"]"),
        ("ragged.json", b"[[1], [2, 3]]"),
        ("words.json", b'[["a", "b"], ["c", "d"]]'),
        ("bytes.json", b"\xff\xfe"),
        ("empty.npy", b""),
        ("pickled.npy", b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }".ljust(128) + b"x"),
        ("large.npy", b"0" * 2_000_000),
        ("sum.json", b"[[1, 1], [1, 1]]"),
        ("flat.json", b"[0.5, 0.5]"),
    ],
)
def test_tables_that_are_no_joints(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert name in refused("parallel", "--table", tmp_path / name, "--out", tmp_path / "lab")
    assert not (tmp_path / "lab").exists()


def test_unknown_studies_and_options_suggest_the_nearest():
    with pytest.raises(InputError, match="study 'maskin' is unknown: did you mean masking"):
        lab.study("maskin")
    with pytest.raises(InputError, match="slot is not an argument of lab stutter: use slots "):
        lab.stutter(slot=3)
    with pytest.raises(InputError, match=r"slots 3.5 is not a whole number"):
        lab.stutter(slots=3.5)
    with pytest.raises(AttributeError, match="has no attribute 'maskings'"):
        lab.maskings  # noqa: B018


def test_numbers_are_shown_to_four_digits():
    shown = [show(v) for v in (0.018239, 209.28, 6908, 0.00001, float("inf"), 0.0, 0.99999999, 123456.0, "k=1", 1234.5)]
    assert shown == ["0.01824", "209.3", "6,908", "1.0e-05", "∞", "0", "1.000", "1.235e+05", "k=1", "1,234"]


def test_markdown_escapes_bars():
    text = markdown(Table("t", ("max |x|", "n"), [("p(a | b)", 1)]))
    assert "| max \\|x\\| | n |" in text and "| p(a \\| b) | 1 |" in text and "| --- | ---: |" in text
