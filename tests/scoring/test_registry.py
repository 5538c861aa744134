"""Everything about a score is on its entry: no other file knows its name."""

import ast
from pathlib import Path

import pytest

import unmask
from support.named_scores import named_scores
from unmask.common.border.options import arguments
from unmask.common.errors import InputError
from unmask.scoring.registry import (
    DEFAULT,
    PLL,
    SCORES,
    AnyOrder,
    DecoderLaw,
    columns_of,
    sharing,
)

SOURCE = Path(unmask.__file__).parent


def named_in(tree):
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_a_name_is_in_its_entry_and_its_family_only():
    homes = {SOURCE / "scoring" / "registry.py", SOURCE / "surfaces" / "cli" / "app.py"}
    for path in SOURCE.rglob("*.py"):
        names = named_in(ast.parse(path.read_text())) & SCORES.keys()
        module = ".".join(("unmask", *path.relative_to(SOURCE).with_suffix("").parts))
        own = {name for name, score in SCORES.items() if score.function.startswith(f"{module}:")}
        assert path in homes or names <= own, (path, names - own)


@pytest.mark.parametrize("name", SCORES)
def test_columns_are_those_of_the_entry(name, pieces):
    row = unmask.score(["a dog"], name, model=pieces)[0]
    columns = columns_of(named_scores(name))
    assert [column for column in row if column == name or column.startswith(f"{name}_")] == columns
    assert all(isinstance(row[column], float) for column in columns)


def test_options_go_to_the_entries_that_have_them():
    typed = {"score": "pll,any_order,decoder:random-sets@4", "seed": 3, "orders": 8}
    assert arguments(unmask.score, typed)["score"] == (
        PLL(),
        AnyOrder(orders=8, seed=3),
        DecoderLaw("random-sets", 4, seed=3),
    )
    assert named_scores(["pll", AnyOrder(orders=8), "pll"]) == (PLL(), AnyOrder(orders=8))
    assert PLL.name == DEFAULT
    with pytest.raises(
        InputError,
        match="orders was given, which pll does not use: leave it out, or use any_order",
    ):
        arguments(unmask.score, {"orders": 8})
    with pytest.raises(InputError, match="score any_order was given twice, with different options"):
        named_scores([AnyOrder(), AnyOrder(orders=8)])


def test_scores_with_equal_options_share_their_passes():
    assert [len(group) for group in sharing(named_scores("any_order,pll,left_to_right"))] == [1, 2]
