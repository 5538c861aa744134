"""What signatures and docstrings say."""

from typing import Annotated

from support.made_up_signature import Fast, work
from unmask.common.border.calls import checked
from unmask.common.border.declarations import description, documentation, hints, summary
from unmask.common.border.marks import TakesMethod


def test_a_docstring_has_a_summary_a_description_and_help():
    assert summary(work) == "Do work."
    assert description(work) == "More about it."
    assert documentation(work) == {
        "text": "What to work on.",
        "top": "How many.",
        "near": "How near.",
    }


def test_a_class_has_the_help_of_its_bases():
    assert documentation(Fast) == {"size": "Things at once.", "rate": "Things per second."}


MOVES = {"walk": Fast, "run": Fast}


@checked
def travel(
    way: Annotated[object, TakesMethod(f"{__name__}:MOVES")] = None, what: str = "{names}"
) -> None:
    """Go.

    Parameters:
        way: One of {names}.
        what: Braces of {names} that are no method's.
    """


def test_names_of_methods_come_from_their_registry():
    helps = documentation(travel)
    assert helps["way"] == "One of walk, run."
    assert helps["what"] == "Braces of {names} that are no method's."
    # Python's help says where they are, and loads none.
    assert "way: One of those of unmask.MOVES." in travel.__doc__


def test_hints_leave_out_what_is_returned():
    assert "return" not in hints(work)
    assert set(hints(Fast)) == {"size", "rate"}
