"""Types as a reader sees them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional, get_type_hints

import pytest
from annotated_types import Interval
from jaxtyping import Float
from torch import Tensor

from unmask.common.border.calls import checked, settings
from unmask.common.border.marks import ShownType, Written
from unmask.common.border.readable import signature_of_many, type_text

Alias = Annotated[int, Interval(ge=1), Written(short="-n")]
Hidden = Annotated[Any, ShownType("Network | None"), Written(metavar="NAME")]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "int"),
        (None, "None"),
        (Any, "Any"),
        (Alias, "int"),
        (Hidden, "Network | None"),
        (None | Alias, "int | None"),
        (Optional[str], "str | None"),  # noqa: UP045  # another union at run time
        (Sequence[Sequence[Alias]] | Alias | None, "Sequence[Sequence[int]] | int | None"),
        (str | os.PathLike[str], "str | PathLike[str]"),
        (Literal["a", "b"], "Literal['a', 'b']"),
        (tuple[Alias, ...], "tuple[int, ...]"),
        (Callable[[Mapping[str, Any]], None], "Callable[[Mapping[str, Any]], None]"),
        (Callable[..., Alias], "Callable[..., int]"),
        ("a name", "a name"),
    ],
)
def test_a_type_is_written_without_marks_and_modules(annotation, text):
    assert type_text(annotation) == text


def test_shapes_stay():
    assert type_text(Float[Tensor, "n V"]).startswith("Float[Tensor")


@checked
def work(number: Alias = 1, *, network: Hidden = None) -> unmask.Missing:  # noqa: F821
    """Work."""


def test_inspect_shows_plain_types_and_the_check_reads_the_marks():
    assert str(inspect.signature(work)) == (
        "(number: int = 1, *, network: Network | None = None) -> Missing"
    )
    assert get_type_hints(Plain, include_extras=True)["number"] == Alias
    plain = inspect.signature(inspect.unwrap(work))
    assert "number: 'Alias' = 1" in str(plain)  # what was shown otherwise


@settings
class Plain:
    """Options."""

    number: Alias = 1


class Derived(Plain):
    """With an __init__ of its own."""

    def __init__(self, other: str) -> None:
        super().__init__(number=3)


@dataclass
class Undecorated:
    """Not checked."""

    number: Alias = 1


def test_a_class_of_options_shows_its_own_signature():
    assert str(inspect.signature(Plain)) == "(number: int = 1) -> None"
    assert "other" in inspect.signature(Derived).parameters
    assert "Alias" in str(inspect.signature(Undecorated))


def test_a_function_of_many_shows_both_answers():
    @checked
    def each(text: str, top: Alias = 3) -> Iterator[unmask.Filling]:  # noqa: F821
        yield from ()

    shown = str(signature_of_many(inspect.signature(each)))
    assert shown == "(text: str | list[str] | Path, top: int = 3) -> Filling | list[Filling]"
