"""One signature: what is declared in it is what Python checks, the command line reads and the
page's request has.
"""

from __future__ import annotations

import inspect
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from annotated_types import Interval
from hypothesis import given
from hypothesis import strategies as st

import unmask
from unmask.common.errors import InputError
from unmask.common.results import Result
from unmask.common.signature import (
    HIDDEN,
    PYTHON_ONLY,
    Method,
    Written,
    arguments,
    checked,
    documentation,
    options,
    settings,
)
from unmask.surfaces.cli.command import value
from unmask.surfaces.cli.lab import COMMANDS
from unmask.verbs import VERBS, verb

Count = Annotated[int, Interval(ge=1, le=9)]


@settings
class Slow:
    """A slow method.

    Parameters:
        size: Things at once.
    """

    name: ClassVar[str] = "slow"
    size: Count = 2


@settings
class Fast(Slow):
    """A fast method.

    Parameters:
        rate: Things per second.
    """

    name: ClassVar[str] = "fast"
    rate: Annotated[float, Interval(gt=0, le=1)] = 0.5


@settings
class Group:
    """Things that go together.

    Parameters:
        allow: What may stand where.
        pairs: Numbers.
    """

    allow: Annotated[Mapping[int, Sequence[str]] | None, Written("PLACE=WORDS")] = None
    pairs: tuple[int, ...] = ()


METHODS = {"slow": Slow, "fast": Fast}
HERE = f"{__name__}:METHODS"


@checked
def work(
    text: str | Sequence[str],
    *,
    top: Count = 3,
    kind: Literal["red", "green"] = "red",
    method: Annotated[Slow | str, Method(HERE)] = "slow",
    group: Group = Group(),  # noqa: B008
    positions: Sequence[int] | None = None,
    path: Path | None = None,
    array: Annotated[npt.ArrayLike | None, PYTHON_ONLY] = None,
    flag: bool = False,
    progress: Any = None,
) -> dict[str, Any]:
    """Do work.

    More about it.

    Parameters:
        text: What to work on.
        top: How many.

    >>> work("a")
    """
    return {name: one for name, one in locals().items() if name != "progress"}


@pytest.fixture(autouse=True)
def _registry_can_be_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or type(sys)(__name__))
    monkeypatch.setattr(sys.modules[__name__], "METHODS", METHODS, raising=False)


def test_values_of_other_libraries_become_plain_ones():
    made = work("a", top=np.int64(4), positions=torch.tensor([1, 2]), flag=np.True_)
    assert (made["top"], made["positions"], made["flag"]) == (4, [1, 2], True)
    assert type(made["top"]) is int
    assert (
        work("a", positions=np.array([3]))["positions"]
        == [3]
        == work("a", positions=[np.int64(3)])["positions"]
    )
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


def test_of_a_list_the_first_wrong_item_is_named_and_nothing_else():
    with pytest.raises(
        InputError, match=r"text \['a', 1, 2\] is not valid: give a text as item 2$"
    ):
        unmask.fill(["a", 1, 2])


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


def test_options_are_parameters_and_fields():
    listed = {option.name: option for option in options(work)}
    assert list(listed) == "text top kind method size rate allow pairs positions path flag".split()
    assert listed["size"].readers == ("slow", "fast")
    assert listed["rate"].readers == ("fast",)
    assert listed["rate"].help == "Things per second."
    assert listed["size"].help == "Things at once."
    assert listed["text"].positional
    assert listed["text"].required
    assert listed["allow"].written.metavar == "PLACE=WORDS"


def test_flat_values_become_arguments():
    made = arguments(work, {"text": "a", "method": "fast", "rate": 0.1, "size": 4, "pairs": [1]})
    assert made == {"text": "a", "method": Fast(size=4, rate=0.1), "group": Group(pairs=(1,))}
    assert arguments(work, {"text": "a", "size": 4})["method"] == Slow(size=4)
    with pytest.raises(
        InputError,
        match="rate was given, which method slow does not use: leave it out, or use fast",
    ):
        arguments(work, {"text": "a", "method": "slow", "rate": 0.1})


@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=5),
    st.integers(1, 9),
    st.sampled_from(["red", "green"]),
)
def test_words_of_the_command_line_become_the_values(positions, top, kind):
    by_name = {option.name: option for option in options(work)}
    assert value(by_name["positions"], ",".join(map(str, positions))) == positions
    assert value(by_name["top"], str(top)) == top
    assert value(by_name["kind"], kind) == kind
    assert value(by_name["allow"], [f"{top}=a, b", f"{top}=c"]) == {top: ["a", "b", "c"]}
    assert value(by_name["path"], "a/b") == "a/b"
    assert value(by_name["text"], "a,b") == "a,b"
    assert value(by_name["top"], "x") == "x"  # for the function to refuse


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_declares_itself(name):
    function = verb(name)
    parameters = inspect.signature(function).parameters
    assert len(parameters) <= 15
    assert set(documentation(function)) | {"model"} | set(HIDDEN) >= set(parameters)
    assert all(option.help for option in options(function)), [
        o.name for o in options(function) if not o.help
    ]
    assert getattr(unmask, name) is function
    for option in options(function):
        if isinstance(option.owner, type):
            assert set(documentation(option.owner)) >= {
                field.name for field in fields(option.owner)
            }
            assert getattr(unmask, option.owner.__name__) is option.owner or option.readers


def test_there_are_at_most_190_options():
    """Declarations: parameters, `model` once, and fields where their class declares them."""
    declared = set()
    for function in [*map(verb, VERBS), unmask.load, *COMMANDS.values()]:
        for option in options(function):
            owner = option.owner or function
            bases = owner.__mro__ if isinstance(owner, type) else ()
            home = next(
                (base for base in bases if option.name in inspect.get_annotations(base)),
                owner,
            )
            declared.add(("", "model") if option.name == "model" else (home.__name__, option.name))
    assert len(declared) <= 190


@dataclass(frozen=True)
class Part(Result):
    KEYS = ("text", "gold=is_gold", "note")
    OPTIONAL = ("note",)
    text: str
    is_gold: bool
    note: str | None = None


@dataclass(frozen=True)
class Whole(Result):
    KEYS = ("count", "parts", "rows")
    ROWS = "parts"
    parts: tuple[Part, ...]
    rows: torch.Tensor

    @property
    def count(self) -> int:
        """How many parts."""
        return len(self.parts)


def test_results_have_one_form():
    made = Whole((Part("a", True), Part("b", False, "x")), torch.tensor([[1.0, 2.0]]))
    parts = [{"text": "a", "gold": True}, {"text": "b", "gold": False, "note": "x"}]
    assert made.to_dict() == {"count": 2, "parts": parts, "rows": [[1.0, 2.0]]}
    assert made.to_frame()["text"].tolist() == ["a", "b"]
    assert "<table" in made._repr_html_()
    declared = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "site_pages.py"))["schema"](
        Whole
    )
    assert declared["properties"]["count"]["type"] == "integer"
    assert declared["required"] == [
        "count",
        "parts",
        "rows",
    ]
