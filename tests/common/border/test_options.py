"""Options: what flat surfaces can set, and the arguments that are made of it."""

import inspect
from dataclasses import fields
from typing import Annotated

import pytest

import unmask
from support.made_up_signature import Fast, Group, Order, Slow, work
from unmask.common.border.calls import checked, settings
from unmask.common.border.declarations import documentation
from unmask.common.border.marks import Only
from unmask.common.border.options import HIDDEN, arguments, options
from unmask.common.errors import InputError
from unmask.verbs import VERBS, verb


def test_options_are_parameters_and_fields():
    listed = {option.name: option for option in options(work)}
    names = (
        "text top kind method size rate allow pairs positions path flag near far reverse by".split()
    )
    assert list(listed) == names
    assert listed["size"].readers == ("slow", "fast")
    assert listed["rate"].readers == ("fast",)
    assert listed["rate"].help == "Things per second."
    assert listed["size"].help == "Things at once."
    assert listed["text"].positional
    assert listed["text"].required
    assert listed["allow"].written.metavar == "PLACE=WORDS"
    assert listed["near"].only == Only(beside=("positions", "path"))
    assert listed["reverse"].only == Only(beside=("positions",))


def test_flat_values_become_arguments():
    made = arguments(work, {"text": "a", "method": "fast", "rate": 0.1, "size": 4, "pairs": [1]})
    assert made == {"text": "a", "method": Fast(size=4, rate=0.1), "group": Group(pairs=(1,))}
    assert arguments(work, {"text": "a", "size": 4})["method"] == Slow(size=4)
    assert arguments(work, {"text": "a", "by": "size"})["order"] == Order(by="size")
    with pytest.raises(
        InputError,
        match="rate was given, which method slow does not use: leave it out, or use fast",
    ):
        arguments(work, {"text": "a", "method": "slow", "rate": 0.1})


@settings
class Sizes:
    """Sizes.

    Parameters:
        top: How many.
    """

    top: int = 3


def test_declaring_an_option_twice_fails():
    @checked
    def twice(text: str, *, top: int = 1, sizes: Sizes = Sizes()) -> None:  # noqa: B008
        """Twice."""

    with pytest.raises(TypeError, match="option top twice: in parameter top and in parameter size"):
        options(twice)


@pytest.mark.parametrize("only", [Only(beside=("tpo",)), Only(without=("tpo",))])
def test_declaring_a_conflict_with_nothing_fails(only):
    @checked
    def conflicting(text: str, *, top: Annotated[int | None, only] = None) -> None:
        """Conflicting."""

    with pytest.raises(TypeError, match="beside or without tpo, which is no argument"):
        options(conflicting)


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_declares_itself(name):
    function = verb(name)
    parameters = inspect.signature(function).parameters
    assert set(documentation(function)) | {"model"} | set(HIDDEN) >= set(parameters)
    assert [option.name for option in options(function) if not option.help] == []
    assert getattr(unmask, name) is function
    for option in options(function):
        if option.owner is None:
            continue
        documented = set(documentation(option.owner))
        assert documented >= {field.name for field in fields(option.owner)}
        is_public = getattr(unmask, option.owner.__name__, None) is option.owner
        assert is_public or option.readers


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_has_at_most_15_parameters(name):
    """Of its own: the options of a method, of a group and of loading are one parameter each, and
    functions that are called as work goes on are no options.
    """
    parameters = inspect.signature(verb(name)).parameters
    assert len(set(parameters) - set(HIDDEN)) <= 15
