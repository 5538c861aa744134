"""What signatures and docstrings say."""

from support.made_up_signature import Fast, work
from unmask.common.border.declarations import description, documentation, hints, summary


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


def test_hints_leave_out_what_is_returned():
    assert "return" not in hints(work)
    assert set(hints(Fast)) == {"size", "rate"}
