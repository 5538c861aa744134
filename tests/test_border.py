"""The border: a value is checked once, where a user's call comes in, and nowhere behind it."""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import CodeType, FrameType
from typing import Any

import pytest

import unmask
from unmask.common import checks
from unmask.common.border import calls, declarations, marks, values
from unmask.common.border.marks import PYTHON_ONLY
from unmask.common.errors import InputError
from unmask.common.methods.method import Method
from unmask.verbs import compare, dependence, fill, generate, minimal_pairs, profile, sample, score


def check_of_a_call() -> CodeType:
    """The code of what `checked` puts around a function: one for all public functions."""
    return calls.checked(lambda: None).__code__


def checking_methods(*modules: Any) -> list[Any]:
    """The methods `accepted` of marks, which check a model or a method."""
    classes = [one for module in modules for one in vars(module).values() if inspect.isclass(one)]
    return [vars(cls)["accepted"] for cls in classes if "accepted" in vars(cls)]


CHECKS: dict[CodeType, str] = {
    check_of_a_call(): "the check of a call",
    **{
        function.__code__: function.__qualname__
        for function in (
            checks.one_of,
            checks.whole,
            checks.real,
            checks.texts_in_order,
            checks.wholes,
            values.accepted,
            *checking_methods(marks),
        )
    },
}
"""The functions that check a value, by their code: wherever they are called from."""
OF_PYDANTIC = ("validate_python", "validate_json", "validate_strings")


BETWEEN = ("pydantic", "jaxtyping", "tests.support")
"""Modules whose functions lie between a check and who asked for it."""


def caller(frame: FrameType | None) -> str:
    """Who asked for a check, as "room: function", where the room is that of `src/unmask`."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        is_between = module.startswith(BETWEEN) or module == values.__name__
        if frame.f_code not in CHECKS and not is_between:
            room = module.split(".")[1] if module.startswith("unmask.") else "outside"
            return f"{room}: {frame.f_code.co_qualname}"
        frame = frame.f_back
    return "outside"


def checks_behind(border: Callable[..., object], work: Callable[[], object]) -> Counter[str]:
    """The checks from the first call of the function `border` on, each with the room that asks
    for it. The check of that call itself comes before it.
    """
    seen: Counter[str] = Counter()
    inside = False

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal inside
        if event == "call":
            inside = inside or frame.f_code is border.__code__
            if inside and frame.f_code in CHECKS:
                seen[f"{CHECKS[frame.f_code]} by {caller(frame.f_back)}"] += 1
        elif event == "c_call" and inside and argument.__name__ in OF_PYDANTIC:
            seen[f"pydantic by {caller(frame)}"] += 1

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert inside, "the function behind the border was not called"
    return seen


def body(verb: Any) -> Callable[..., object]:
    """The function of a verb below the check of its call."""
    return inspect.unwrap(verb)


TEXT = "The [MASK] [MASK] at the casino."
CALLS: dict[str, tuple[Any, Callable[[], object]]] = {
    "two blanks": (fill.fill, lambda: unmask.fill(TEXT, candidates=32).to_dict()),
    "a search": (fill.fill, lambda: unmask.fill("A [MASK] of [MASK] and [MASK].").to_dict()),
    "a list": (fill.fill, lambda: unmask.fill(["A [MASK].", TEXT], candidates=8)[1].summary()),
    "positions": (
        fill.fill,
        lambda: unmask.fill("The cat sat.", positions=[2, 3], candidates=8).to_frame(),
    ),
    "all constructions": (compare.compare, lambda: unmask.compare(TEXT, candidates=8).to_dict()),
    "dependence": (
        dependence.dependence,
        lambda: unmask.dependence(TEXT, candidates=8).to_dict(),
    ),
    "profile": (
        profile.profile,
        lambda: unmask.profile(["The cat sat."] * 40, candidates=2).to_dict(),
    ),
    "sample": (sample.sample, lambda: unmask.sample(TEXT, chains=2, sweeps=2).to_dict()),
    "generate": (generate.generate, lambda: unmask.generate(TEXT, n_texts=2).to_dict()),
    "score": (score.score, lambda: unmask.score(["The cat sat.", "A dog."]).to_dict()),
    "many scores": (
        score.score,
        lambda: unmask.score(["The cat sat."], "pll_word,left_to_right,any_order").to_dict(),
    ),
    "minimal pairs": (
        minimal_pairs.minimal_pairs,
        lambda: unmask.minimal_pairs([{"good": "The cat sat.", "bad": "Cat the sat."}]).to_dict(),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_checked_behind_the_border(name):
    verb, work = CALLS[name]
    work()  # caches are filled, modules imported
    assert checks_behind(body(verb), work) == Counter()


def test_the_watch_sees_a_planted_check(monkeypatch):
    """The negative control: a room that checks ids of our own is seen, and named."""
    from unmask.models.text.text_tokenizer import TextTokenizer

    plain = TextTokenizer.text

    def checking(self: TextTokenizer, ids: list[int]) -> str:
        for i in ids:
            checks.whole("token id", i, 0, checks.MOST_TOKENS)
        return plain(self, ids)

    monkeypatch.setattr(TextTokenizer, "text", checking)
    seen = checks_behind(body(fill.fill), CALLS["two blanks"][1])
    of_whole = [line for line in seen if line.startswith("whole by")]
    assert any("checking" in line for line in of_whole), seen


def test_the_watch_sees_a_public_method():
    joint = unmask.fill(TEXT, candidates=8).joint

    def behind() -> object:
        return joint.topk(3)

    seen = checks_behind(behind, behind)
    assert any(line.startswith("the check of a call") for line in seen)


# ---- the public methods of exported classes ----


class Wrong:
    """An object that no argument takes."""


OF_MODELS = "a room calls it with ids of its own; MaskedLM has a checked method beside it"
IN_ITS_OWN_WORDS = "it needs the object to tell what is wrong"
UNCHECKED = {
    "ChainSamples.rates_of": "a room calls it",
    "ChainStreams.at": IN_ITS_OWN_WORDS,
    "ChainStreams.of": "a room calls it; `at` is the checked one",
    "Frontier.name_of": "a room calls it, with a row of its own",
    "Joint.log_prob": IN_ITS_OWN_WORDS,
    "Joint.log_tile": "a room calls it",
    "MaskedLM.logits_at": OF_MODELS,
    "MaskedLM.logits_of": OF_MODELS,
    "MaskedLM.multiplications": OF_MODELS,
    "MaskedLM.of_network": "loading calls it with a network that it built",
    "MaskedLM.offers_states": OF_MODELS,
    "MaskedLM.rows_at_once": OF_MODELS,
    "MaskedLM.states": OF_MODELS,
    "MaskedLM.substitutions": OF_MODELS,
    "MaskedLM.token_text": OF_MODELS,
    "Profile.check": "a room calls it",
    "Profile.estimate": "a room calls it",
    "Profile.of": IN_ITS_OWN_WORDS,
    "Result.view": "a surface calls it, with its own way to write names",
    "SampleSettings.keeps": "a room calls it in every sweep",
    "SampleSettings.kept_after": "a room calls it",
    "Score.compute": "a room calls it",
    "Score.compute_alone": "a room calls it",
    "Score.cost": "a room calls it",
    "Score.spelled": "a room calls it",
    "Scores.by_token": IN_ITS_OWN_WORDS,
    "Scores.difference": IN_ITS_OWN_WORDS,
    "Tables.ids_of": IN_ITS_OWN_WORDS,
    "Tables.spelled": "a room calls it",
    "Target.check": IN_ITS_OWN_WORDS,
}
"""Public methods that the check of a call does not go through, and why."""


def check_of(function: Any) -> Any:
    """What `checked` put around a function; None for a function without it.

    In these tests the check of tensors' shapes may lie around it, which a user does not have.
    """
    while function is not None:
        if getattr(function, "__code__", None) is check_of_a_call():
            return function
        function = getattr(function, "__wrapped__", None)
    return None


def is_settings(cls: type) -> bool:
    """Whether a class is a dataclass of options, as `settings` makes it."""
    return is_dataclass(cls) and check_of(cls.__init__) is not None


def exported_classes() -> Iterator[type]:
    """The classes among the public names."""
    for name in unmask.__all__:
        public = getattr(unmask, name)
        if inspect.isclass(public) and not issubclass(public, BaseException):
            yield public


def public_methods() -> Iterator[tuple[str, Any]]:
    """Every public method of an exported class that takes arguments."""
    for cls in exported_classes():
        for name in dir(cls):
            method = inspect.getattr_static(cls, name)
            is_bound = isinstance(method, classmethod | staticmethod)
            function = method.__func__ if is_bound else method
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            if not (function.__module__ or "").startswith("unmask."):
                continue
            parameters = list(inspect.signature(function).parameters)
            # what a user gives to a method or a group of options are its fields: an engine calls
            # the other methods
            of_options = is_settings(cls) or issubclass(cls, Method)
            is_inner = of_options and check_of(function) is None
            if not is_inner and [one for one in parameters if one not in ("self", "cls")]:
                yield f"{cls.__name__}.{name}", function


METHODS = dict(public_methods())


def test_there_are_public_methods():
    assert {"Joint.topk", "MaskedLM.logits", "Cloze.filled", "MaskedLM.load"} <= set(METHODS)


def defined_as(name: str) -> str:
    """The method with the class that defines it, which may be a base class."""
    return inspect.unwrap(METHODS[name]).__qualname__


CHECKED_ONES = [name for name in sorted(METHODS) if not {name, defined_as(name)} & set(UNCHECKED)]


@pytest.mark.parametrize("name", CHECKED_ONES)
def test_public_methods_check_their_arguments(name):
    """Each argument in turn is of a kind that it cannot be; no object is needed, since the check
    comes before the method looks at its own.
    """
    function = check_of(METHODS[name])
    assert function is not None, "nothing checks its arguments"
    annotations = declarations.hints(function)
    first, *others = inspect.signature(function).parameters.values()
    assert first.name in ("self", "cls")
    required = {one.name: Wrong() for one in others if one.default is one.empty}
    checked_ones = [one.name for one in others if annotations.get(one.name, Any) is not Any]
    for wrong in checked_ones:
        if PYTHON_ONLY in marks.marks(annotations[wrong]):
            continue
        with pytest.raises(InputError) as caught:
            function(object(), **(required | {wrong: Wrong()}))
        assert caught.value.argument in {wrong, *required}


def settings_classes() -> Iterator[tuple[type, str]]:
    """Exported dataclasses that a user makes, with each of their fields."""
    for cls in exported_classes():
        if is_settings(cls):
            for field in fields(cls):
                yield cls, field.name


@pytest.mark.parametrize(
    ("cls", "field"), settings_classes(), ids=lambda one: getattr(one, "__name__", one)
)
def test_public_classes_check_their_fields(cls, field):
    annotation = declarations.hints(cls)[field]
    if annotation is Any:
        pytest.skip("takes anything")
    parameters = inspect.signature(cls).parameters.values()
    required = {one.name: Wrong() for one in parameters if one.default is one.empty}
    made = Wrong() if inspect.isabstract(cls) else object.__new__(cls)  # the check comes first
    with pytest.raises(InputError) as caught:
        check_of(cls.__init__)(made, **(required | {field: Wrong()}))
    assert caught.value.argument in {field, *required} or field in str(caught.value)
