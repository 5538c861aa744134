"""`unmask dependence` as it is typed."""

from __future__ import annotations

import json

import pytest

from command_runner import invoke
from unmask.verbs.dependence import dependence

TWO = "the [MASK] sat on the [MASK] ."


def run(*args: object, text: str | None = None):
    return invoke(["dependence", *[str(a) for a in args]], input=text, env={"COLUMNS": "80"})


def test_json_is_what_the_api_says(tiny_folder, tiny):
    result = run(TWO, "--model", tiny_folder, "--json")
    assert result.exit_code == 0 and result.stderr == ""
    assert json.loads(result.stdout) == dependence(TWO, tiny).to_dict()
    one_line = run("-", "--model", tiny_folder, "--json", text=TWO + "\n").stdout
    assert len(one_line.splitlines()) == 1 and json.loads(one_line) == json.loads(result.stdout)


def test_a_table_in_80_columns_that_says_what_was_measured(tiny_folder):
    result = run(TWO, "--model", tiny_folder)
    assert result.exit_code == 0
    assert "the other blanks masked" in result.stdout and "12 x 12 tokens hold at least" in result.stdout
    assert "2 [MASK]" in result.stdout and max(map(len, result.stdout.splitlines())) <= 80
    whole = run("the cat sat on the mat", "--model", tiny_folder, "--positions", "2,3,6")
    assert "the other tokens as they stand" in whole.stdout and "6 mat" in whole.stdout


def test_many_positions_are_listed_by_strength(tiny_folder):
    result = run("the cat sat on the mat the a dog ran under", "--model", tiny_folder)
    assert result.exit_code == 0 and "the 20 strongest of 55 pairs" in result.stdout
    shown = [float(line.split()[-1]) for line in result.stdout.splitlines() if " - " in line]
    assert len(shown) == 20 and shown == sorted(shown, reverse=True)


@pytest.mark.parametrize("text", [TWO, "the cat $^ sat _$ ."])
def test_a_figure(tiny_folder, tmp_path, text):
    path = tmp_path / "map.png"
    assert run(text, "--model", tiny_folder, "--figure", path).exit_code == 0
    assert path.stat().st_size > 10_000
