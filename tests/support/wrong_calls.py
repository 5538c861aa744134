"""Wrong calls, made from the signatures of all verbs: half from Python, half from the command
line.

A wrong call has one mistake: a value that the option's annotation rules out, an option that the
chosen method does not have, an option beside one that excludes it, a name that is none, an option
twice or without its value. The rest of the call is right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Interval

import unmask
from support.command_runner import invoke
from unmask.common.border.marks import Loaded, TakesMethod, kinds, mark, marks
from unmask.common.border.options import Option, arguments, options
from unmask.common.errors import NAME
from unmask.surfaces.cli.app import called, command_name
from unmask.surfaces.cli.command import options_of_command
from unmask.surfaces.cli.words import is_kind_of
from unmask.verbs import VERBS, verb

BASES: dict[str, dict[str, Any]] = {
    "fill": {"text": "the [MASK] [MASK] ."},
    "compare": {"text": "the [MASK] [MASK] ."},
    "dependence": {"text": "the cat sat ."},
    "profile": {"data": "texts.txt"},
    "mutants": {"sequence": "the cat sat .", "positions": "2"},
    "assay": {"sequence": "the cat sat .", "measured": "variants.csv"},
    "score": {"texts": ["the cat sat ."]},
    "minimal_pairs": {"data": ["pairs.jsonl"]},
    "check": {},
    "evaluate": {"data": "texts.txt"},
    "frontier": {"data": "texts.txt", "length": 3},
    "sample": {"sweeps": 2},
    "generate": {"n_texts": 2},
    "diagnose": {"run": "no-such-run"},
    "train": {"data": "texts.txt", "out": "run"},
    "translate": {"data": "texts.txt", "model": "no-such-model"},
    "serve": {},
}
"""The right part of each call."""


@dataclass(frozen=True)
class WrongCall:
    """One mistake.

    verb      the function that is called, or the command
    values    the arguments, by the names of options; of a command line, words
    at_fault  the name of the option that is wrong; empty if the mistake is about no option
    given     the names of all options that the call gives
    words     of a call from the command line
    """

    verb: str
    at_fault: str
    given: frozenset[str]
    values: Mapping[str, Any] | None = None
    words: tuple[str, ...] = ()

    @property
    def from_python(self) -> bool:
        return self.values is not None


def wrong_words(option: Option) -> list[str]:
    """Words that the type of an option rules out."""
    annotation = option.annotation
    if mark(annotation, TakesMethod) is not None:
        return ["no-such-method", "5"]
    if mark(annotation, Loaded) is not None:
        return []
    types = [kind for kind in kinds(annotation) if kind is not type(None)]
    if types == [bool]:
        return ["maybe", "7"]
    if option.written.repeat or option.written.words > 1:
        return []
    words = []
    if any(is_kind_of(kind, Mapping) for kind in types):
        return ["x", "x=a"]
    if Any in types or str in types:
        return []  # every word is a text
    for kind in types:
        if get_origin(kind) is Literal:
            words += ["no-such-choice", "5"]
        elif kind is int:
            words += ["x", "1.5", "nan", "1e3", "-7", "2" * 40]
        elif kind is float:
            words += ["x", "nan", "inf", "-1e30", "1e300"]
    lists = [kind for kind in types if is_kind_of(kind, Sequence)]
    items = [item for kind in lists for item in kinds(get_args(kind)[0])]
    if items and all(item in (int, float) for item in items):
        words += ["x,y", "1,,2", "nan,1"]
    return [word for word in words if not in_range(option, word)]


def in_range(option: Option, word: str) -> bool:
    """Whether a number is one that the option takes."""
    (interval,) = [one for one in marks(option.annotation) if isinstance(one, Interval)][:1] or [
        Interval()
    ]
    types = kinds(option.annotation)
    try:
        number = int(word) if float not in types else float(word)
    except ValueError:
        return False
    return (
        (interval.ge is None or number >= interval.ge)
        and (interval.gt is None or number > interval.gt)
        and (interval.le is None or number <= interval.le)
        and (interval.lt is None or number < interval.lt)
        and number == number
        and abs(number) != float("inf")
    )


def wrong_values(option: Option) -> list[Any]:
    """Values of Python that the type of an option rules out."""
    if mark(option.annotation, Loaded) is not None:
        return [5, object(), ["a"]]
    if mark(option.annotation, TakesMethod) is not None:
        return ["no-such-method", 5, object()]
    types = [kind for kind in kinds(option.annotation) if kind is not type(None)]
    if Any in types:
        return []
    values: list[Any] = [object(), 1j, {1: {2: 3}}]
    if types == [bool]:
        values += ["yes", 1]
    for word in wrong_words(option):
        values.append(word)
    if int in types:
        values += [1.5, True, float("nan"), 10**40]
    if float in types and str not in types:
        values += ["1", True, float("nan"), -1e30]
    if str in types and float not in types and int not in types:
        values += [2.5]
    return values


def right_word(option: Option) -> str | None:
    """A word that the option takes, as far as its type says."""
    types = [kind for kind in kinds(option.annotation) if kind is not type(None)]
    if types == [bool]:
        return ""
    for kind in types:
        if get_origin(kind) is Literal:
            return str(get_args(kind)[0])
        if kind in (int, float):
            interval = next(
                (one for one in marks(option.annotation) if isinstance(one, Interval)), Interval()
            )
            for number in ("0.5", "1", "2", "8", "16"):
                if in_range(option, number) and (kind is float or number != "0.5"):
                    return number
            return None if interval is None else "2"
    return None


def long(name: str) -> str:
    """An option as the command line writes it."""
    return f"--{name.replace('_', '-')}"


def base_words(name: str, but: Sequence[str] = ()) -> list[str]:
    """The right part of a command line, without some options."""
    words = [command_name(name)]
    positional = {option.name for option in options(verb(name)) if option.positional}
    for key, value in BASES[name].items():
        if key in but:
            continue
        texts = value if isinstance(value, list) else [value]
        if key in positional:
            words += [str(one) for one in texts]
        else:
            words += [long(key), *(str(one) for one in texts)]
    return words


def calls() -> Iterator[WrongCall]:
    """Every wrong call."""
    for name in VERBS:
        listed = options(verb(name))
        base = BASES[name]
        for option in listed:
            yield from _wrong_value(name, option)
            yield from _wrong_name(name, option)
            yield from _conflict(name, option, listed)
        yield from _other_method(name, listed)
        required = [option for option in listed if option.required]
        for option in required:
            if option.name in base and not option.positional:
                rest = {key: one for key, one in base.items() if key != option.name}
                given = frozenset(rest)
                yield WrongCall(name, option.name, given, values=rest)
                words = tuple(base_words(name, but=[option.name]))
                yield WrongCall(name, option.name, given, words=words)


def _wrong_value(name: str, option: Option) -> Iterator[WrongCall]:
    base = BASES[name]
    given = frozenset({*base, option.name})
    for value in wrong_values(option):
        yield WrongCall(name, option.name, given, values={**base, option.name: value})
    for word in wrong_words(option):
        if option.positional:
            continue
        words = base_words(name, but=[option.name])
        yield WrongCall(name, option.name, given, words=(*words, f"{long(option.name)}={word}"))


def _wrong_name(name: str, option: Option) -> Iterator[WrongCall]:
    """A name with a letter too many, an option twice, one without a value."""
    base = BASES[name]
    given = frozenset(base)
    wrong = f"{option.name}x"
    yield WrongCall(name, "", given, values={**base, wrong: 3})
    if option.positional:
        return
    words = base_words(name, but=[option.name])
    word = right_word(option)
    yield WrongCall(name, "", given, words=(*words, f"{long(wrong)}=3"))
    if word is None:
        return
    with_option = given | {option.name}
    if word:
        yield WrongCall(name, option.name, with_option, words=(*words, long(option.name)))
        twice = (long(option.name), word) * 2
    else:
        twice = (long(option.name),) * 2
    yield WrongCall(name, option.name, with_option, words=(*words, *twice))


def _conflict(name: str, option: Option, listed: Sequence[Option]) -> Iterator[WrongCall]:
    """An option beside one that excludes it, or without those that it needs, on the command line,
    where an option may have a further use.
    """
    command = called([command_name(name)])
    typed = {one.name: one for one in options_of_command(command.function, command.extra)}
    option = typed[option.name]
    if option.only is None:
        return
    word = right_word(option)
    known = {one.name: one for one in listed}
    if word is None:
        return
    mine = [long(option.name), *([word] if word else [])]
    base = BASES[name]
    needed = [one for one in option.only.beside if one in known]
    if option.only.beside and not any(one in base for one in option.only.beside):
        words = base_words(name, but=[option.name])
        yield WrongCall(name, option.name, frozenset({*base, option.name}), words=(*words, *mine))
    for other in option.only.without:
        if other not in known or known[other].positional:
            continue
        their_word = right_word(known[other])
        if their_word is None:
            continue
        theirs = [long(other), *([their_word] if their_word else [])]
        words = base_words(name, but=[option.name, other])
        given = frozenset({*base, option.name, other, *needed})
        yield WrongCall(name, option.name, given, words=(*words, *mine, *theirs))


def _other_method(name: str, listed: Sequence[Option]) -> Iterator[WrongCall]:
    """An option that the chosen method does not have."""
    base = BASES[name]
    for method in listed:
        taken = mark(method.annotation, TakesMethod)
        if taken is None:
            continue
        for chosen in taken.classes:
            if ":" in chosen:
                continue  # a spelling, such as decoder:NAME@PASSES
            for option in listed:
                word = right_word(option)
                of_others = option.parameter == method.name and chosen not in option.readers
                if option.name == method.name or not of_others or not word:
                    continue
                given = frozenset({*base, method.name, option.name})
                words = base_words(name)
                yield WrongCall(
                    name,
                    option.name,
                    given,
                    words=(*words, long(method.name), chosen, long(option.name), word),
                )


def make(call: WrongCall) -> object:
    """Make a call from Python."""
    assert call.values is not None
    function = getattr(unmask, call.verb)
    return function(**arguments(function, call.values))


# ---- how a call ends ----


def fault_of_python(call: WrongCall) -> str | None:
    """What is wrong with the error of a call from Python; None if nothing is."""
    try:
        make(call)
    except unmask.UnmaskError as error:
        message = str(error)
        named = {found[1] for found in NAME.finditer(_problem(error.marked))}
        return _fault(call, message, named, said=_problem(message))
    except BaseException as error:  # of the library or of Python: not what a user may see
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "nothing was refused"


def fault_of_command_line(call: WrongCall) -> str | None:
    """What is wrong with the line that a command ends in; None if nothing is."""
    try:
        done = invoke(call.words, env={"COLUMNS": "80"}, catch_exceptions=False)
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    lines = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
    if done.exit_code != 2 or len(lines) != 1 or done.stdout:
        return f"exit code {done.exit_code}: {done.output[-300:]}"
    message = lines[0].removeprefix("error: ")
    names = {option.name for option in options(verb(call.verb))}
    in_python = [one for one in names if "_" in one and re.search(rf"\b{one}\b", message)]
    if in_python:
        return f"{in_python[0]} as Python writes it: {message}"
    written = re.findall(r"(?<![\w-])--([a-z][a-z-]*)", _problem(message))
    by_long_name = {one.replace("_", "-"): one for one in names}
    named = {by_long_name.get(one, one) for one in written}
    return _fault(call, message, named, said=_problem(message))


def _problem(message: str) -> str:
    """The part of a message that says what is wrong, without what to give instead."""
    problem, _, _ = message.partition(": ")
    return problem


def _fault(call: WrongCall, message: str, named: set[str], said: str) -> str | None:
    """What is wrong with a message that names these arguments as the problem."""
    if "\n" in message or len(message) > 1000:
        return f"several lines, or one that is too long: {message[:300]}"
    if "validation error" in message or "pydantic" in message:
        return f"in the words of a library: {message[:300]}"
    others = named - call.given - {call.at_fault} - _needed(call)
    if others and call.at_fault:
        return f"{sorted(others)} were not given: {message}"
    if call.at_fault and call.at_fault not in named and not _names_by_place(call, message):
        return f"{call.at_fault} is not named: {message}"
    return None


def _needed(call: WrongCall) -> set[str]:
    """The one kind of argument that a message names although it was not given: that beside which
    the option at fault means something, as in "--refinement is used only with --parallel".
    """
    for option in options(verb(call.verb)):
        if option.name == call.at_fault and option.only is not None:
            return set(option.only.beside)
    return set()


def _names_by_place(call: WrongCall, message: str) -> bool:
    """Whether a message names the option at fault in another way: an argument that Python misses
    is in quotes, a text that has a place is TEXT.
    """
    return f"'{call.at_fault}'" in message or message.startswith(call.at_fault.upper())


def sweep() -> dict[str, Any]:
    """How many calls were made, and those with a fault."""
    every = list(calls())
    faults: dict[str, str] = {}
    for call in every:
        if call.from_python:
            fault = fault_of_python(call)
            shown = f"unmask.{call.verb}({call.values})"
        else:
            fault = fault_of_command_line(call)
            shown = f"unmask {' '.join(call.words)}"
        if fault is not None:
            faults[shown] = fault
    from_python = [call for call in every if call.from_python]
    return {
        "of_python": len(from_python),
        "of_command_line": len(every) - len(from_python),
        "faults": faults,
    }


if __name__ == "__main__":
    Path("texts.txt").write_text("the cat sat on the mat .\na dog ran under the tree .\n")
    print(json.dumps(sweep()))
