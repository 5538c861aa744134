"""Everything about a score is on its entry: no other file knows its name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import unmask
from unmask.scoring.registry import DEFAULT, SCORES, chosen, columns_of

SOURCE = Path(unmask.__file__).parent
WORDS = {"log_prob", "margin", "open", "pair"}
"""Names that are also columns or words elsewhere."""


def named_in(tree):
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_a_name_is_in_its_entry_and_its_family_only():
    home = SOURCE / "scoring" / "registry.py"
    for path in SOURCE.rglob("*.py"):
        found = named_in(ast.parse(path.read_text())) & (SCORES.keys() - WORDS)
        module = ".".join(("unmask", *path.relative_to(SOURCE).with_suffix("").parts))
        own = {name for name, score in SCORES.items() if score.family.function.startswith(f"{module}:")}
        assert path == home or found <= own, (path, found - own)


@pytest.mark.parametrize("name", SCORES)
def test_columns_are_those_of_the_entry(name, pieces):
    options = {"candidates": 4} if name == "pair" else {"chains": 2, "anneals": 1} if name == "log_prob" else {}
    found = unmask.score(["a dog"], name, model=pieces, **options)[0]
    columns = columns_of([name])
    assert [column for column in found if column == name or column.startswith(f"{name}_")] == list(columns)
    assert all(isinstance(found[column], bool if is_flag else float) for column, is_flag in columns.items())


def test_the_default_is_one_of_them():
    assert chosen(DEFAULT) == (DEFAULT,) == ("pll",)
