"""Whether an option does anything: alone, and beside every other option of its verb.

An option has effect on a call if the answer with it differs from the answer without it. An answer
is what the result's JSON holds, without what only repeats the call, and the files that the call
wrote. `Trial` makes the calls, each once.

    alone    in every input of the verb, the option with one of its values has effect, or is refused
    a pair   in one input both have effect, each beside the other; or every input refuses the two

A refusal is an InputError that names an argument which was given.
"""

from __future__ import annotations

import math
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any, get_args, get_origin
from unittest.mock import patch

from unmask.common.border.marks import TakesMethod, kinds, mark
from unmask.common.border.options import Option, arguments, options
from unmask.common.errors import NAME, InputError, UnmaskError

NEW = "new"
"""The folder, inside the working folder, into which calls write."""
REPEATED = {"settings", "passes", "seconds", "fingerprint", "law"}
"""Keys of JSON that say how an answer was made. Those that bear an option's name are left out,
too: they repeat the call.
"""
RELATIVE = 1e-6
"""Numbers that differ by less are equal: the rows that share a pass move the last bits."""

Call = Mapping[str, Any]


@dataclass(frozen=True)
class Witnesses:
    """What a verb's options are tried with.

    inputs      calls that are right, by option; the options are tried in each of them
    values      of an option, values that have effect in some input; a choice, a switch and a
                method need none: each of its values is tried
    spelled     how a method is named whose registered name is a pattern
    beside      of an option, other options without which it could have no effect
    tight       options that have effect only where limits are tight
    exempt      options that need no effect, with the reason
    idle        pairs of options that need no effect beside each other, with the reason; an option
                of a choice or method may be named with its value, as in decoder=revise
    keys        keys of JSON that bear an option's name and do hold part of the answer
    """

    inputs: Sequence[Call]
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, Call] = field(default_factory=dict)
    tight: Sequence[str] = ()
    exempt: Mapping[str, str] = field(default_factory=dict)
    idle: Mapping[tuple[str, str], str] = field(default_factory=dict)
    keys: Sequence[str] = ()


@dataclass(frozen=True)
class Atom:
    """One thing to try: an option with some values, in the context that gives it a meaning.

    context   the method that has the option, and what else it stands beside
    choice    its only value, of a choice or a method; None for an option of other values
    """

    option: str
    values: tuple[Any, ...]
    context: tuple[tuple[str, Any], ...] = ()
    choice: Any = None

    @property
    def name(self) -> str:
        """As faults name it: decoder=revise, passes (decoder=revise)."""
        written = self.option if self.choice is None else f"{self.option}={self.choice}"
        if not self.context:
            return written
        beside = ", ".join(f"{name}={value}" for name, value in self.context)
        return f"{written} ({beside})"

    @property
    def names(self) -> set[str]:
        """The names by which a table of reasons may mean it."""
        written = {self.option, self.name}
        written.add(f"{self.option}={self.choice}")
        written |= {f"{name}={value}" for name, value in self.context}
        return written

    def goes_with(self, other: Atom) -> bool:
        """Whether a call can hold both: they are two options, and their contexts agree."""
        if self.option == other.option:
            return False
        mine = dict(self.context)
        theirs = dict(other.context)
        if other.option in mine or self.option in theirs:
            return False
        return all(theirs.get(name, value) == value for name, value in mine.items())


@dataclass(frozen=True)
class Refused:
    """A call that was refused."""

    message: str
    names_given: bool


@dataclass(frozen=True)
class Answered:
    """What a call answered, as plain values, and the files that it wrote."""

    content: Any
    files: tuple[str, ...]


def atoms(function: Callable[..., Any], witnesses: Witnesses) -> tuple[list[Atom], list[str]]:
    """What is to be tried of a function, and the faults of its table: options without a witness,
    and witnesses without an option.
    """
    found: list[Atom] = []
    faults: list[str] = []
    listed = options(function)
    for option in listed:
        if option.name in witnesses.exempt:
            continue
        beside = dict(witnesses.beside.get(option.name, {}))
        choices = _choices(option, witnesses)
        given = tuple(witnesses.values.get(option.name, ()))
        contexts = [beside]
        if option.readers:
            spelled = [witnesses.spelled.get(reader, reader) for reader in option.readers]
            contexts = [{option.parameter: reader, **beside} for reader in spelled]
        if not choices and not given:
            faults.append(f"{option.name} has no witness")
        for context in contexts:
            of_context = tuple(context.items())
            for choice in choices:
                found.append(Atom(option.name, (choice,), of_context, choice))
            if given:
                found.append(Atom(option.name, given, of_context))
    found = [atom for atom in found if atom.name not in witnesses.exempt]
    known = {option.name for option in listed}
    for name in (*witnesses.values, *witnesses.beside, *witnesses.exempt, *witnesses.tight):
        if name not in known:
            faults.append(f"{name} has a witness, and is no option")
    return found, faults


def _choices(option: Option, witnesses: Witnesses) -> list[Any]:
    """All values of a choice, a switch or a method."""
    method = mark(option.annotation, TakesMethod)
    if method is not None and option.name not in witnesses.values:
        return [witnesses.spelled.get(name, name) for name in method.names]
    of_kinds: list[Any] = []
    for kind in kinds(option.annotation):
        if kind is bool:
            of_kinds.append(not option.default)
        elif str(get_origin(kind)) == "typing.Literal":
            of_kinds.extend(get_args(kind))
    return of_kinds


class Trial:
    """The calls of a verb in the working folder, each made once."""

    def __init__(self, function: Callable[..., Any], witnesses: Witnesses) -> None:
        self.function = function
        self.witnesses = witnesses
        self.defaults = {option.name: option.default for option in options(function)}
        self.repeated = (REPEATED | set(self.defaults)) - set(witnesses.keys)
        self.answers: dict[str, Refused | Answered] = {}

    def answer(self, call: Call, tight: bool = False) -> Refused | Answered:
        """The answer of a call."""
        key = repr((sorted(call.items()), tight))
        if key not in self.answers:
            self.answers[key] = self._answer(call, tight)
        return self.answers[key]

    def _answer(self, call: Call, tight: bool) -> Refused | Answered:
        shutil.rmtree(NEW, ignore_errors=True)
        Path(NEW).mkdir()
        with warnings.catch_warnings(), tight_limits(tight):
            warnings.simplefilter("ignore")
            try:
                result = self.function(**arguments(self.function, call))
            except UnmaskError as error:
                return Refused(str(error), _names_given(error, call))
        return Answered(self.plain(result), tuple(sorted(map(str, Path(NEW).rglob("*")))))

    def plain(self, value: Any) -> Any:
        """A result as numbers and texts, without what repeats the call."""
        if hasattr(value, "to_dict"):
            value = value.to_dict()
        if isinstance(value, Mapping):
            return {
                key: self.plain(one) for key, one in value.items() if key not in self.repeated
            }
        if isinstance(value, list | tuple):
            return [self.plain(one) for one in value]
        return value

    # ---- the two laws ----

    def alone(self, atom: Atom) -> Iterator[str]:
        """The inputs in which an atom does nothing; one fault if every input refuses it."""
        refusals = []
        tried = 0
        for given in self.witnesses.inputs:
            base = {**given, **dict(atom.context)}
            values = [value for value in atom.values if not self._is_there(atom, value, base)]
            if not values:
                continue
            tried += 1
            tight = atom.option in self.witnesses.tight
            without = self.answer(base, tight)
            outcomes = [self.answer({**base, atom.option: value}, tight) for value in values]
            answered = [one for one in outcomes if isinstance(one, Answered)]
            if not answered:
                refusals += outcomes
                bad = [one for one in outcomes if not one.names_given]
                if bad:
                    yield f"{atom.name} in {short(base)}: names nothing given: {bad[0].message}"
            elif not any(differ(one, without) for one in answered):
                yield f"{atom.name} does nothing in {short(base)}"
        if tried and len(refusals) >= tried and not self._has_answer(atom):
            yield f"{atom.name} is refused everywhere: {refusals[0].message}"

    def _has_answer(self, atom: Atom) -> bool:
        tight = atom.option in self.witnesses.tight
        return any(
            isinstance(
                self.answer({**given, **dict(atom.context), atom.option: value}, tight), Answered
            )
            for given in self.witnesses.inputs
            for value in atom.values
        )

    def pair(self, first: Atom, second: Atom) -> str | None:
        """What is wrong with a pair; None if nothing is."""
        tight = first.option in self.witnesses.tight or second.option in self.witnesses.tight
        idle = None
        for given in self.witnesses.inputs:
            base = {**given, **dict(first.context), **dict(second.context)}
            for value, other in product(first.values, second.values):
                if self._is_there(first, value, base) or self._is_there(second, other, base):
                    continue
                with_first = {**base, first.option: value}
                with_second = {**base, second.option: other}
                both = self.answer({**with_first, second.option: other}, tight)
                if isinstance(both, Refused):
                    if not both.names_given:
                        return f"{first.name} + {second.name}: names nothing given: {both.message}"
                    continue
                first_matters = differ(both, self.answer(with_second, tight))
                second_matters = differ(both, self.answer(with_first, tight))
                if first_matters and second_matters:
                    return None
                if idle is None:
                    of_no_effect = first.name if second_matters else second.name
                    beside = second.name if second_matters else first.name
                    idle = f"{of_no_effect} does nothing beside {beside} in {short(base)}"
        return idle

    def _is_there(self, atom: Atom, value: Any, base: Call) -> bool:
        """Whether a call has this value already, by default or in its input."""
        return bool(base.get(atom.option, self.defaults[atom.option]) == value)

    def pairs(self, found: Sequence[Atom]) -> Iterator[tuple[Atom, Atom]]:
        """The pairs of atoms that a call can hold, but for those of the table of reasons."""
        for first, second in combinations(found, 2):
            if not first.goes_with(second):
                continue
            reasons = self.witnesses.idle
            either_way = product(first.names, second.names)
            if any((a, b) in reasons or (b, a) in reasons for a, b in either_way):
                continue
            yield first, second


def _names_given(error: UnmaskError, call: Call) -> bool:
    """Whether the error is the user's, and names an argument of the call."""
    if not isinstance(error, InputError):
        return False
    named = {found[1] for found in NAME.finditer(error.marked)}
    words = set(str(error).replace(":", " ").replace(",", " ").split())
    return bool(named & set(call)) or bool(words & set(call))


def differ(one: Refused | Answered, other: Refused | Answered) -> bool:
    """Whether two outcomes are different answers; two refusals are not."""
    if isinstance(one, Refused) or isinstance(other, Refused):
        return type(one) is not type(other)
    return one.files != other.files or not equal(one.content, other.content)


def equal(one: Any, other: Any) -> bool:
    """Whether two plain values are equal, numbers within RELATIVE."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=RELATIVE)
    return bool(one == other)


def short(call: Call) -> str:
    """A call as faults show it."""
    return ", ".join(f"{name}={str(value)[:40]}" for name, value in call.items())


@contextmanager
def tight_limits(tight: bool) -> Iterator[None]:
    """Limits so low that every call meets them."""
    if not tight:
        yield
        return
    limits = "unmask.tables.joint_limits"
    with patch(f"{limits}.MAX_PASSES", 1), patch(f"{limits}.MAX_CELLS", 1):
        yield
