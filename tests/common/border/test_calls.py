"""The check of a call: what it makes plain, what it refuses, and in which words."""

import inspect
from typing import Annotated

import numpy as np
import pytest
import torch

import unmask
from support.made_up_signature import Fast, Group, Order, Slow, work
from unmask.common.border.calls import checked, settings
from unmask.common.border.marks import Only, TakesMethod
from unmask.common.errors import InputError


def test_values_of_other_libraries_become_plain_ones():
    made = work("a", top=np.int64(4), positions=torch.tensor([1, 2]), flag=np.True_)
    assert (made["top"], made["positions"], made["flag"]) == (4, [1, 2], True)
    assert type(made["top"]) is int
    assert work("a", positions=np.array([3]))["positions"] == [3]
    assert work("a", positions=[np.int64(3)])["positions"] == [3]
    assert work("a", positions=range(2))["positions"] == [0, 1]
    with pytest.raises(InputError, match="has a key twice: give each once"):
        Group(allow={torch.tensor(1): ["a"], 1: ["b"]})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"top": "3"}, "top '3' is not valid: give a whole number"),
        ({"top": True}, "top True is not valid"),
        ({"top": 10}, "top 10 is out of range: give a number less than or equal to 9"),
        ({"kind": "rad"}, "kind 'rad' is unknown: did you mean red? Use one of red, green"),
        ({"flag": 1}, "flag 1 is not valid: give True or False"),
        ({"positions": "34"}, "positions '34' is not valid: give a list"),
        ({"positions": b"34"}, "positions b'34' is not valid: give a list"),
        (
            {"positions": [3, 4, "x"]},
            "positions [3, 4, 'x'] is not valid: give a whole number as item 3",
        ),
        ({"array": object}, "array <class 'object'> is not valid: give "),
        ({"method": "slaw"}, "method 'slaw' is unknown: did you mean slow?"),
        ({"group": 3}, "group 3 is not valid: give an instance of Group"),
        ({"tops": 3}, "tops is not an argument of work: did you mean top?"),
        ({"top_k": 3}, "top_k is not an argument of work: did you mean top?"),
        ({"rate": 0.5}, "rate is not an argument of work: give method=unmask.Fast(rate=...)"),
        ({"allow": {}}, "allow is not an argument of work: give group=unmask.Group(allow=...)"),
    ],
)
def test_a_wrong_argument_is_one_line(wrong, words):
    with pytest.raises(InputError) as error:
        work("a", **wrong)
    assert str(error.value).startswith(words)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("args", "named", "problem"),
    [
        ((), {}, "work: missing a required argument: 'text': give text"),
        (("a", 1), {}, "work: too many positional arguments: give text, top, kind"),
        (("a",), {"text": "b"}, "work: multiple values for argument 'text': give text, top"),
        (("a",), {"tpo": 1}, "tpo is not an argument of work: did you mean top?"),
    ],
)
def test_a_call_that_does_not_fit_the_signature(args, named, problem):
    with pytest.raises(InputError) as error:
        work(*args, **named)
    assert str(error.value).startswith(problem)
    with pytest.raises(TypeError):  # control: Python itself refuses it
        inspect.signature(work).bind(*args, **named)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"near": 1}, "near is used only with positions or path: give positions or path, or"),
        ({"near": 1, "far": 1, "positions": [1]}, "far is not used with near: leave one of"),
        ({"far": 1, "group": Group(allow={1: ["a"]})}, "far is not used with allow: leave"),
        ({"order": Order()}, "order is used only with positions: give positions, or leave"),
    ],
)
def test_declared_conflicts_are_refused(named, message):
    with pytest.raises(InputError) as error:
        work("a", **named)
    assert str(error.value).startswith(message)


def test_what_is_not_given_conflicts_with_nothing():
    assert work("a", near=1, positions=[3])["near"] == 1
    assert work("a", near=None, far=2, group=Group(pairs=[1]))["far"] == 2
    assert work("a", order=Order(reverse=True), positions=[1])["order"].reverse


def test_of_a_list_the_first_wrong_item_is_named_and_nothing_else():
    with pytest.raises(
        InputError, match=r"text \['a', 1, 2\] is not valid: give a text as item 2$"
    ):
        unmask.fill(["a", 1, 2])


def test_a_model_in_another_place_is_named():
    model = unmask.load()
    with pytest.raises(InputError, match=r"^text .* is a model: give it as model="):
        unmask.fill(model)


def test_settings_are_checked_when_they_are_made():
    assert Fast(size=3, rate=1).rate == 1.0
    assert Group(pairs=[1, 2]).pairs == (1, 2)
    for wrong in ({"size": 0}, {"rate": float("nan")}, {"rate": "x"}, {"speed": 1}):
        with pytest.raises(InputError):
            Fast(**wrong)
    with pytest.raises(AttributeError):
        Fast().size = 3  # type: ignore[misc]


def test_methods_are_objects_or_names():
    assert work("a")["method"] == Slow()
    assert work("a", method="fast")["method"] == Fast()
    assert work("a", method=Fast(rate=0.1))["method"].rate == 0.1


def test_shared_help_stands_in_the_docstring():
    assert "    progress: " not in work.__doc__

    @checked
    def load(model: unmask.models.load.Model = None) -> None:
        """Load.

        Parameters:
        """

    assert load.__doc__.startswith("Load.")


@settings
class Length:
    """How long work takes."""

    hours: int | None = None
    minutes: Annotated[int | None, Only(without=("hours",))] = None
    every: Annotated[int | None, Only(beside=("stop",))] = None


@settings
class Careful(Slow):
    """A slow method that looks twice."""

    twice: Annotated[bool, Only(beside=("stop",))] = False
    array: object = None


CAREFUL = {"careful": Careful}


@checked
def timed(
    length: Length = Length(),  # noqa: B008
    *,
    method: Annotated[Careful | str, TakesMethod(f"{__name__}:CAREFUL")] = "careful",
    stop: int | None = None,
    unlike: Annotated[int | None, Only(without=("method",))] = None,
) -> None:
    """Take time."""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Length(hours=1, minutes=1), "minutes is not used with hours: leave one of"),
        (lambda: timed(Length(every=2)), "every is used only with stop: give stop, or leave"),
        (lambda: timed(method=Careful(twice=True)), "twice is used only with stop: give stop"),
        (lambda: timed(method="careful", unlike=1), "unlike is not used with method: leave"),
    ],
)
def test_fields_of_groups_and_methods_conflict_too(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value).startswith(message)


def test_a_field_beside_an_argument_is_fine_and_the_group_alone_cannot_tell():
    assert Length(every=2).every == 2  # the function that takes it may have stop
    timed(Length(every=2), stop=3)
    timed(method=Careful(twice=True, array=np.zeros(3)), stop=3)
    timed(unlike=1)  # the method is the default one
