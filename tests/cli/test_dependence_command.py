"""`unmask dependence` as it is typed."""

from __future__ import annotations

from command_runner import invoke

TWO = "the [MASK] sat on the [MASK] ."


def run(*args: object, text: str | None = None):
    return invoke(["dependence", *[str(a) for a in args]], input=text, env={"COLUMNS": "80"})


def test_a_table_in_80_columns_that_says_what_was_measured(tiny_folder):
    shown = run(TWO, "--model", tiny_folder).stdout
    assert "the other blanks masked" in shown and "12 x 12 tokens hold at least" in shown and "2 [MASK]" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_many_positions_are_listed_by_strength(tiny_folder):
    result = run("the cat sat on the mat the a dog ran under", "--model", tiny_folder)
    assert result.exit_code == 0 and "the 20 strongest of 55 pairs" in result.stdout
    shown = [float(line.split()[-1]) for line in result.stdout.splitlines() if " - " in line]
    assert len(shown) == 20 and shown == sorted(shown, reverse=True)
