"""A warning names the line of the user's code, however many of ours lie between."""

import sys
import warnings
from pathlib import Path

import pandas as pd

import unmask
from unmask.common.errors import UnmaskWarning
from unmask.common.warn import warn


def warned(work):
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        work()
    return seen


def test_a_public_call_warns_at_its_own_line(tiny):
    texts = pd.DataFrame({"text": ["the cat"], "item": ["mine"]})
    line = sys._getframe().f_lineno + 1
    seen = warned(lambda: unmask.score(texts, model=tiny).to_frame())
    (about_columns,) = [one for one in seen if "a column item" in str(one.message)]
    assert Path(about_columns.filename) == Path(__file__)
    assert about_columns.lineno == line


def test_without_any_of_ours_between_it_is_the_line_itself():
    line = sys._getframe().f_lineno + 1
    (seen,) = warned(lambda: warn("a message"))
    assert (seen.category, seen.lineno) == (UnmaskWarning, line)
    assert Path(seen.filename) == Path(__file__)
