"""The tables of options in docs/cli/ are those of `unmask.options`."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from unmask.options import VERBS
from unmask.options.lab import STUDIES

ROOT = Path(__file__).parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "option_tables.py"))
TEXT = "".join(path.read_text() for path in TOOL["DOCUMENTS"])
NAMES = [verb for verb in VERBS if verb != "lab"] + [f"lab {study}" for study in (*STUDIES, "all")]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_its_table_with_every_option(name):
    _, found, rest = TEXT.partition(f"<!-- options of {name} -->")
    shown = rest.partition("<!-- end -->")[0]
    assert found and all(f"`{flag}`" in shown for row in TOOL["options_of"](name).declared() for flag in row.flags)


def test_the_document_is_up_to_date():
    assert TOOL["renewed"](TEXT) == TEXT, "python tools/option_tables.py"


def test_a_table_that_lags_behind_is_renewed():
    old = TEXT.replace("| `--pieces` |", "| `--parts` |")
    assert old != TEXT and TOOL["renewed"](old) == TEXT
