"""Options of training that exclude each other, and those that mean something beside others only:
refused before any work, from Python and from the command line.
"""

import pytest

import unmask
from support.command_runner import invoke
from support.made_up import made_up_lines
from unmask.common.errors import InputError
from unmask.studies.training.recipe import VALID_SHARE, HeldOut, Masked, Optimisation, Shape

ONE_OF_TWO = "leave one of the two out"
CONFLICTS = [
    ({"data": ["a"], "parallel": (["a"], ["b"])}, "data", "parallel"),
    ({"parallel": (["a"], ["b"]), "weight": [1.0]}, "weight", "parallel"),
    ({"parallel": (["a"], ["b"]), "held_out": HeldOut(valid=["a"])}, "valid", "parallel"),
    ({"data": ["a"], "init": "m", "shape": Shape(size="tiny")}, "size", "init"),
    ({"data": ["a"], "init": "m", "shape": Shape(layers=2)}, "layers", "init"),
    ({"data": ["a"], "init": "m", "shape": Shape(width=8)}, "width", "init"),
    ({"data": ["a"], "init": "m", "shape": Shape(heads=1)}, "heads", "init"),
    ({"data": ["a"], "init": "m", "shape": Shape(vocab=99)}, "vocab", "init"),
    ({"data": ["a"], "init": "m", "shape": Shape(tokenizer="t")}, "tokenizer", "init"),
]


@pytest.mark.parametrize(("options", "name", "other"), CONFLICTS)
def test_arguments_that_exclude_each_other(options, name, other, tmp_path):
    with pytest.raises(InputError) as error:
        unmask.train(**options, out=tmp_path / "model")
    assert str(error.value) == f"{name} is not used with {other}: {ONE_OF_TWO}"
    assert error.value.argument == name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Optimisation(steps=9, epochs=2.0), "epochs is not used with steps"),
        (lambda: Shape(vocab=99, tokenizer="t.json"), "vocab is not used with tokenizer"),
        (lambda: HeldOut(valid="v.txt", valid_share=0.5), "valid_share is not used with valid"),
    ],
)
def test_fields_of_one_group_that_exclude_each_other(make, message):
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == f"{message}: {ONE_OF_TWO}"


@pytest.mark.parametrize("of_pairs", [Masked(mask_source=0.0), Masked(refinement=1.0)])
def test_options_of_pairs_without_pairs(of_pairs, tmp_path):
    with pytest.raises(InputError, match="is used only with parallel: give parallel, or leave"):
        unmask.train(["a"], out=tmp_path / "model", objective=of_pairs)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("c.txt --steps 5 --epochs 2", ("--epochs", "--steps")),
        ("c.txt --tokenizer t --vocab 99", ("--vocab", "--tokenizer")),
        ("c.txt --valid v.txt --valid-share .5", ("--valid-share", "--valid")),
        ("c.txt --init m --size tiny", ("--size", "--init")),
        ("c.txt --init m --vocab 99", ("--vocab", "--init")),
        ("c.txt --mask-source .1", ("--mask-source", "--parallel")),
        ("--parallel a b --weight 1", ("--weight", "--parallel")),
    ],
)
def test_the_command_line_refuses_the_same_in_its_own_words(words, options, tmp_path):
    done = invoke(["train", *words.split(), "--out", str(tmp_path / "model")])
    assert done.exit_code == 2
    refused, other = options
    problem = f"error: {refused} is not used with {other}: {ONE_OF_TWO}\n"
    alone = f"error: {refused} is used only with {other}: give {other}, or leave it out\n"
    assert done.stderr in (problem, alone)
    assert not (tmp_path / "model").exists()


def test_the_settings_that_a_run_chose_are_printed_as_options(tmp_path):
    (tmp_path / "c.txt").write_text("\n".join(made_up_lines(200)))
    given = "--steps 1 --layers 1 --width 16 --heads 1 --valid-share .2 --device cpu".split()
    done = invoke(["train", str(tmp_path / "c.txt"), "--out", str(tmp_path / "model"), *given])
    assert done.exit_code == 0, done.stderr
    assert "chosen for this data and device: --vocab 256 --batch-tokens 512 --lr " in done.stderr


def test_what_is_left_out_conflicts_with_nothing():
    assert Optimisation(steps=9).epochs is None
    assert Shape(tokenizer="t.json").vocab is None
    assert HeldOut().share == VALID_SHARE
    assert HeldOut(valid_share=0.5).share == 0.5
