"""The tables of methods in docs/ say what the registries say."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "method_tables.py"), run_name="method_tables")
PAGES = {
    "constructions": "joints.md",
    "decoders": "sampling.md",
    "kernels": "sampling.md",
    "masking schemes": "training.md",
    "scores": "scores.md",
}


def wrong_lines(text, name):
    """What is wrong with the table of this name in a page: rows that the registry does not have,
    rows in another order, and rows that are missing. A method without a place may be missing.
    """
    (found,) = [one for one in TOOL["TABLE"].finditer(text) if one["name"] == name]
    head, rows = TOOL["tables"]()[name]
    shown = found["lines"].splitlines(keepends=True)
    whole = [*head, *(row.line for row in rows)]
    missing = [row.line for row in rows if row.has_place and row.line not in shown]
    strange = [line for line in shown if line not in whole]
    in_order = sorted(shown, key=whole.index) if not strange else shown
    moved = [line for line, other in zip(shown, in_order, strict=True) if line != other]
    return [*missing, *strange, *moved]


@pytest.mark.parametrize("name", PAGES)
def test_a_table_of_methods_is_that_of_the_registry(name):
    assert set(TOOL["tables"]()) == set(PAGES)
    text = (ROOT / "docs" / PAGES[name]).read_text("utf-8")
    assert wrong_lines(text, name) == [], "python tools/method_tables.py renews the tables"


def test_a_wrong_table_is_found():
    page = (ROOT / "docs" / "sampling.md").read_text("utf-8")
    _, rows = TOOL["tables"]()["kernels"]
    first, second = rows[0].line, rows[1].line
    for wrong in (
        page.replace(first, ""),
        page.replace(first, first.replace("accepted", "taken")),
        page.replace(first + second, second + first),
        page.replace(first, first + "| `nothing` | it is not there | no law | 0 |\n"),
    ):
        assert wrong_lines(wrong, "kernels")


def test_the_site_has_the_row_of_a_method_that_the_file_lacks():
    page = (ROOT / "docs" / "sampling.md").read_text("utf-8")
    _, rows = TOOL["tables"]()["kernels"]
    without = page.replace(rows[-1].line, "")
    assert rows[-1].line not in without
    assert rows[-1].line in TOOL["with_tables"](without)
