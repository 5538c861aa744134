"""Everything about a score is on its entry: no other file knows its name."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import unmask
from unmask.errors import InputError
from unmask.scoring.registry import DEFAULT, SCORES, AnyOrder, DecoderLaw, OrderBounds, chosen, columns_of, sharing

SOURCE = Path(unmask.__file__).parent
WORDS = {"log_prob", "margin", "open", "pair"}
"""Names that are also columns or words elsewhere."""


def named_in(tree):
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_a_name_is_in_its_entry_and_its_family_only():
    homes = {SOURCE / "scoring" / "registry.py"}
    for path in SOURCE.rglob("*.py"):
        found = named_in(ast.parse(path.read_text())) & (SCORES.keys() - WORDS)
        module = ".".join(("unmask", *path.relative_to(SOURCE).with_suffix("").parts))
        own = {name for name, score in SCORES.items() if score.function.startswith(f"{module}:")}
        assert path in homes or found <= own, (path, found - own)


@pytest.mark.parametrize("name", SCORES)
def test_columns_are_those_of_the_entry(name, pieces):
    options = {"candidates": 4} if name == "pair" else {"chains": 2, "anneals": 1} if name == "log_prob" else {}
    scores = chosen(name, options)
    found = unmask.score(["a dog"], scores, model=pieces)[0]
    columns = columns_of(scores)
    assert [column for column in found if column == name or column.startswith(f"{name}_")] == list(columns)
    assert all(isinstance(found[column], bool if is_flag else float) for column, is_flag in columns.items())


def test_options_go_to_the_entries_that_have_them():
    pll, mean, law = chosen("pll,any_order,decoder:random@4", {"seed": 3, "orders": 8})
    assert (pll, mean, law) == (SCORES[DEFAULT](), AnyOrder(orders=8, seed=3), DecoderLaw("random", 4, seed=3))
    assert chosen(["pll", AnyOrder(orders=8), "pll"]) == (pll, AnyOrder(orders=8))
    for scores, options, message in (
        ("pll", {"orders": 8}, "orders was given, which score pll does not use: leave it out, or use score any_order or"),
        ("any_order", {"orders": 1}, "orders 1 is out of range"),
        ("pair", {"joint": "mfr"}, "joint 'mfr' is unknown: did you mean mrf"),
        ([AnyOrder(), AnyOrder(orders=8)], {}, "score any_order was given twice, with different options"),
    ):
        with pytest.raises(InputError, match=message):
            chosen(scores, options)


def test_scores_with_equal_options_share_their_passes():
    assert [len(group) for group in sharing(chosen("any_order,pll,order_bounds,left_to_right"))] == [2, 2]
    assert [len(group) for group in sharing([AnyOrder(), OrderBounds(orders=8)])] == [1, 1]
