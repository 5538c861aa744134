"""`unmask lab`: tables, figures, numbers, the report, and one-line errors."""

import json

import pytest
from typer.testing import CliRunner

from unmask.cli.lab import app
from unmask.errors import InputError
from unmask.lab.report import markdown
from unmask.lab.studies.study import Table, show

SMALL = {
    "dictionary": ["--sites", "3", "--couplings", "0,0.3"],
    "masking": ["--sites", "3", "--slow-sites", "3", "--learn-sites", "3", "--fits", "4", "--samples", "2000"],
    "dependence": ["--sites", "3", "--couplings", "0,0.2", "--table-couplings", "0.1,0.3", "--k", "1,2"],
    "parallel": ["--sites", "3", "--couplings", "0,0.2"],
    "stutter": ["--slots", "3"],
    "schedule": ["--sites", "4", "--orders", "5"],
}


def lab(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "160"})
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("study", SMALL)
def test_each_study_prints_a_table_and_writes_its_files(study, tmp_path):
    output = lab(study, *SMALL[study], "--out", tmp_path / "lab")
    assert "───" in output and f"{study}.png" in output
    assert (tmp_path / "lab" / f"{study}.png").read_bytes().startswith(b"\x89PNG")
    numbers = json.loads((tmp_path / "lab" / f"{study}.json").read_text())
    assert numbers["study"] == study and len(numbers) > 2
    assert list(json.loads((tmp_path / "lab" / "lab.json").read_text())["studies"]) == [study]


def test_numbers_in_the_json_are_those_of_the_theory(tmp_path):
    lab("dependence", "--out", tmp_path, "--couplings", "0.3", "--table-couplings", "0.1,0.6", "--k", "1")
    points = {p["coupling"]: p for p in json.loads((tmp_path / "dependence.json").read_text())["points"]}
    assert [points[c]["mixing_time"] for c in (0.1, 0.3, 0.6)] == [13, 76, 6908]


def test_models_other_than_ising(tmp_path):
    (tmp_path / "joint.json").write_text("[[0.4, 0.1], [0.2, 0.3]]")
    (tmp_path / "zeros.json").write_text("[[0.5, 0.5, 0], [0, 0, 0]]")
    with pytest.raises(InputError, match="every state"):
        lab("schedule", "--table", tmp_path / "zeros.json", "--out", tmp_path / "lab")
    out = tmp_path / "lab"
    assert "table joint.json" in lab("parallel", "--table", tmp_path / "joint.json", "--out", out)
    lab("dictionary", "--table", tmp_path / "joint.json", "--out", out)
    assert "Potts (q=3)" in lab("schedule", "--states", "3", "--sites", "3", "--orders", "2", "--out", out)
    lab("dependence", "--states", "3", "--sites", "3", "--couplings", "0.1", "--table-couplings", "0.5", "--k", "1", "--out", out)


def test_independent_sites_and_single_sizes_are_no_mistake(tmp_path):
    assert "sites are independent" in lab("parallel", "--sites", "2", "--coupling", "0", "--couplings", "0", "--out", tmp_path)
    lab("parallel", "--sites", "3", "--k", "1", "--out", tmp_path)
    lab("dependence", "--sites", "3", "--couplings", "0", "--table-couplings", "0", "--k", "1", "--out", tmp_path)
    lab("dictionary", "--sites", "2", "--coupling", "0", "--couplings", "0", "--out", tmp_path)
    lab("masking", "--sites", "2", "--slow-sites", "2", "--learn-sites", "2", "--fits", "2", "--out", tmp_path)
    lab("schedule", "--sites", "2", "--coupling", "0", "--orders", "1", "--out", tmp_path)


def test_all_makes_a_report(tmp_path):
    out = tmp_path / "report"
    lab("all", "--fits", "3", "--out", out)
    text = (out / "report.md").read_text()
    for study in SMALL:
        assert f"({study}.png)" in text and (out / f"{study}.png").is_file() and (out / f"{study}.json").is_file()
    assert "unmask lab all --fits 3" in text
    for line in text.splitlines():
        if line.startswith("| "):
            assert line.endswith(" |")
    lab("stutter", "--out", out)


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="not empty and holds no lab report"):
        lab("stutter", "--out", tmp_path)
    with pytest.raises(InputError, match="is a file"):
        lab("stutter", "--out", tmp_path / "thesis.tex")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["parallel", "--sites", "20"], "1,048,576 states.*12 sites of 2 values would fit"),
        (["parallel", "--states", "5", "--sites", "6"], "15,625 states.*5 sites of 5 values"),
        (["dependence", "--table-couplings", "500"], "use couplings and fields smaller than"),
        (["dictionary", "--k", "7"], "k = 7 masked sites of 6: use k from 1 to 6"),
        (["dictionary", "--adaptive-k", "9"], "k = 9 masked sites of 6"),
        (["schedule", "--graph", "tree"], "graph 'tree' is unknown"),
        (["schedule", "--sites", "11"], "2 to 10 sites"),
        (["schedule", "--orders", "0"], "at least 1"),
        (["parallel", "--sites", "1"], "at least 2 of each"),
        (["schedule", "--states", "1"], "at least 2 of each"),
        (["masking", "--fits", "1", "--sites", "2", "--slow-sites", "2", "--learn-sites", "2"], "at least 2"),
        (["stutter", "--weight", "2"], "between 0 and 1"),
        (["stutter", "--slots", "1"], "at least 2"),
    ],
)
def test_mistakes_are_one_line(arguments, message, tmp_path):
    with pytest.raises(InputError, match=message) as error:
        lab(*arguments, "--out", tmp_path / "lab")
    assert "\n" not in str(error.value)


def test_numbers_are_shown_to_four_digits():
    shown = [show(v) for v in (0.018239, 209.28, 6908, 0.00001, float("inf"), 0.0, 0.99999999, 123456.0, "k=1", 1234.5)]
    assert shown == ["0.01824", "209.3", "6,908", "1.0e-05", "∞", "0", "1.000", "1.235e+05", "k=1", "1,234"]


def test_markdown_escapes_bars():
    text = markdown(Table("t", ("max |x|", "n"), [("p(a | b)", 1)]))
    assert "| max \\|x\\| | n |" in text and "| p(a \\| b) | 1 |" in text and "| --- | ---: |" in text
