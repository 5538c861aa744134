"""The border: a value is checked where a user's call comes in, and nowhere behind it."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import unmask
from unmask.common import checks
from unmask.common.border import calls, values
from unmask.verbs import texts

CHECKS = {calls.__file__, values.__file__, checks.__file__}
"""Files whose functions check values that a user gave."""
NO_CHECKS = {"shown", "plain"}
"""Functions there that only write or convert a value."""


def checks_behind(border: Any, work: Callable[[], object]) -> Counter[str]:
    """The calls of functions that check values, from the first call of the function `border` on:
    the check of that call itself comes before it.
    """
    seen: Counter[str] = Counter()
    inside = False

    def watch(frame: Any, event: str, argument: Any) -> None:
        nonlocal inside
        code = frame.f_code
        if event == "call":
            inside = inside or code is border.__code__
            if inside and code.co_filename in CHECKS and code.co_name not in NO_CHECKS:
                seen[f"{code.co_name} from {frame.f_back.f_code.co_qualname}"] += 1
        elif event == "c_call" and inside and argument.__name__ == "validate_python":
            seen["pydantic"] += 1

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert inside, "the function behind the border was not called"
    return seen


def body(verb: Any) -> Any:
    """The function of a verb below the check of its call."""
    while hasattr(verb, "__wrapped__"):
        verb = verb.__wrapped__
    return verb


TEXT = "The [MASK] [MASK] at the casino."
CALLS = {
    "two blanks": (texts.fill, lambda: unmask.fill(TEXT, candidates=32).to_dict()),
    "a search": (texts.fill, lambda: unmask.fill("A [MASK] of [MASK] and [MASK].").to_dict()),
    "a list": (texts.fill, lambda: unmask.fill(["A [MASK].", TEXT], candidates=8)[1].summary),
    "positions": (
        texts.fill,
        lambda: unmask.fill("The cat sat.", positions=[2, 3], candidates=8).to_frame(),
    ),
    "all joints": (texts.compare, lambda: unmask.compare(TEXT, candidates=8).to_dict()),
    "dependence": (texts.dependence, lambda: unmask.dependence(TEXT, candidates=8).to_dict()),
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_checked_behind_the_border(name):
    verb, work = CALLS[name]
    work()  # caches are filled, modules imported
    assert checks_behind(body(verb), work) == Counter()


def test_the_watch_sees_checks():
    """The negative control: a public method is called behind the border, and it checks."""
    joint = unmask.fill(TEXT, candidates=8).joint

    def behind() -> object:
        return joint.topk(3)

    assert checks_behind(behind, behind).total() >= 3
