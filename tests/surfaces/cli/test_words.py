"""Words as values: what the type of an option makes of them, and what stays a text."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import pydantic  # noqa: F401  # cyclopts checks the values of converters once it is imported
import pytest
from annotated_types import Interval

from unmask.common.border.marks import Written
from unmask.common.border.options import options
from unmask.common.errors import InputError, argument_name
from unmask.surfaces.cli.command import command, writer
from unmask.surfaces.cli.words import with_stand_ins


def made_up(
    text: str,
    *,
    top: Annotated[int, Interval(ge=1)] = 10,
    share: float | None = None,
    places: Sequence[int] | None = None,
    weights: Sequence[float] = (),
    length: Annotated[int, Interval(ge=1)] | Sequence[int] = 8,
    fields: str | float | Sequence[float] = "0",
    words: Sequence[str] | None = None,
    unit: Literal["nats", "bits"] = "nats",
    allow: Annotated[Mapping[int, Sequence[str]] | None, Written("PLACE=WORDS")] = None,
    sides: Annotated[Sequence[str] | None, Written(words=2)] = None,
    beside: Annotated[Sequence[str], Written(repeat=True)] = (),
    max_length: int = 5,
    flag: bool = False,
    quiet: bool = True,
) -> None:
    """Made up."""


def values(*words: str) -> dict[str, Any]:
    got: dict[str, Any] = {}
    app = command("made_up", made_up, got.update)
    app(
        with_stand_ins(words),
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    return got


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--top 3", {"top": 3}),
        ("--top -3", {"top": -3}),
        ("--top 1.5", {"top": "1.5"}),  # not 2
        ("--top 0x10", {"top": "0x10"}),
        ("--top x", {"top": "x"}),
        ("--top none", {"top": "none"}),
        ("--share .5", {"share": 0.5}),
        ("--share -.5", {"share": -0.5}),
        ("--share -1e3", {"share": -1000.0}),
        ("--share none", {"share": "none"}),
        ("--places 3,4", {"places": [3, 4]}),
        ("--places 3", {"places": [3]}),
        ("--places=-3,4", {"places": [-3, 4]}),
        ("--places -3,4", {"places": [-3, 4]}),
        ("--places 3,x,1.5", {"places": [3, "x", "1.5"]}),
        ("--places 3,,4", {"places": [3, "", 4]}),
        ("--weights 1,.5", {"weights": [1.0, 0.5]}),
        ("--length 8", {"length": 8}),
        ("--length 8,16", {"length": [8, 16]}),
        ("--length x", {"length": "x"}),
        ("--fields -0.2:0.2", {"fields": "-0.2:0.2"}),
        ("--fields -0.2", {"fields": -0.2}),
        ("--fields 0.1,0.2", {"fields": "0.1,0.2"}),
        ("--words red,green", {"words": ["red", "green"]}),
        ("--words [MASK]", {"words": ["[MASK]"]}),
        ('--words ["a","b"]', {"words": ['["a"', '"b"]']}),
        ("--words -", {"words": ["-"]}),
        ("--unit bits", {"unit": "bits"}),
        ("--unit Bits", {"unit": "Bits"}),
        ("--allow 1=a,b --allow 2=c --allow 1=d", {"allow": {1: ["a", "b", "d"], 2: ["c"]}}),
        ("--sides a -", {"sides": ("a", "-")}),
        ("--beside a --beside b", {"beside": ["a", "b"]}),
        ("--max-length 7", {"max_length": 7}),
        ("--flag", {"flag": True}),
        ("--no-quiet", {"quiet": False}),
    ],
)
@pytest.mark.parametrize("text", ["a", "-", "-3", "-0.2:0.2", "{}", "[1, 2]"])
def test_words_are_converted_by_type(words, value, text):
    assert values(text, *words.split()) == {"text": text, **value}
    assert values(*words.split(), "--", text) == {"text": text, **value}


def test_a_mapping_says_how_it_is_written():
    for word in ("1", "x=a", "=a"):
        with pytest.raises(InputError, match="is not understood: give PLACE=WORDS"):
            values("a", "--allow", word)


def test_names_of_arguments_as_the_command_line_writes_them():
    write = writer(options(made_up))
    message = InputError(
        f"{argument_name('text')} {argument_name('max_length')} {argument_name('top', 5)}"
        f" {argument_name('flag', True)} {argument_name('quiet', False)} {argument_name('other')}"
    )
    assert message.written(write) == "TEXT --max-length --top 5 --flag --no-quiet other"
    assert str(message) == "text max_length top=5 flag=True quiet=False other"
