"""Everything about a score is on its entry: no other file knows its name."""

import ast
from pathlib import Path

import pytest

import unmask
from support.named_scores import named_scores
from unmask.common.border.options import arguments
from unmask.common.errors import InputError
from unmask.scoring.registry import DEFAULT, columns_of, sharing, with_names
from unmask.scoring.scores.any_order import AnyOrder
from unmask.scoring.scores.decoder_law import DecoderLaw
from unmask.scoring.scores.pll import PLL

SOURCE = Path(unmask.__file__).parent


def named_in(tree):
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_a_name_is_in_its_own_file_only():
    scores = with_names()
    # The command line has them in examples; scores of variants have names of their own.
    others = {SOURCE / "surfaces" / "cli" / "app.py"}
    others |= set((SOURCE / "studies" / "variants" / "scores").glob("*.py"))
    for path in SOURCE.rglob("*.py"):
        module = ".".join(("unmask", *path.relative_to(SOURCE).with_suffix("").parts))
        own = {name for name, score in scores.items() if score.__module__ == module}
        names = named_in(ast.parse(path.read_text())) & scores.keys()
        assert path in others or names <= own, (path, names - own)


@pytest.mark.parametrize("name", with_names())
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
