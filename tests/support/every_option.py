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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import combinations, product
from pathlib import Path
from typing import Any, get_args, get_origin
from unittest.mock import patch

from unmask.common.border.marks import TakesMethod, kinds, mark
from unmask.common.border.options import Option, arguments, options
from unmask.common.errors import NAME, InputError, UnmaskError

NEW = "new"
"""The folder, inside the working folder, into which calls write."""
REPEATED = {
    "settings",
    "passes",
    "seconds",
    "median_seconds_a_pair",
    "seconds_per_sentence",
    "fingerprint",
    "law",
    "date",
    "measured",
    "command",
    "versions",
    "version",
    "processor",
}
"""Keys of JSON that say how an answer was made, and when. The outermost ones that bear an option's
name are left out, too: they repeat the call.
"""
TABLES = (".csv", ".tsv")
"""Endings of files that are part of the answer; of others it has the names."""
LIMITS = (
    "unmask.tables.joint_limits.MAX_PASSES",
    "unmask.tables.joint_limits.MAX_CELLS",
    "unmask.studies.variants.scan.MAX_PASSES",
    "unmask.studies.variants.score_comparison.MAX_PASSES",
)
EFFORT = {
    "unmask.tables.default_effort.SMALL_VOCABULARY": 4,
    "unmask.tables.default_effort.LARGEST_DEFAULT": 6,
}
"""With these a default answer does not consider all twelve tokens of the tiny models."""
RELATIVE = 1e-6
"""Numbers that differ by less are equal: the rows that share a pass move the last bits."""

Call = Mapping[str, Any]


@dataclass(frozen=True)
class Witnesses:
    """What a verb's options are tried with.

    inputs      calls that are right, by what they are called; options are tried in each of them
    values      of an option, values that have effect in some input; a choice, a switch and a
                method need none: each of its values is tried
    spelled     how a method is named whose registered name is a pattern
    beside      of an option, or of gamma@least-dependent, which is one of a method, other options
                without which it could have no effect
    fine        options whose effect is smaller than RELATIVE, and is compared bit for bit
    tight       options that have effect only where limits are tight
    exempt      options that need no effect, with the reason; one of a choice or method may be named
                with its value, as in scan=random (kernel=block), and with the input after " in "
    idle        pairs of options that need no effect beside each other, with the reason; an option
                of a choice or method may be named with its value, as in decoder=revise
    keys        keys of JSON that bear an option's name and do hold part of the answer
    """

    inputs: Mapping[str, Call]
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, Call] = field(default_factory=dict)
    tight: Sequence[str] = ()
    fine: Sequence[str] = ()
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
        beside = witnesses.beside.get(option.name, {})
        choices = _choices(option, witnesses)
        given = tuple(witnesses.values.get(option.name, ()))
        contexts = [dict(beside)]
        if option.readers:
            contexts = []
            for reader in option.readers:
                of_reader = witnesses.beside.get(f"{option.name}@{reader}", beside)
                spelled = witnesses.spelled.get(reader, reader)
                contexts.append({option.parameter: spelled, **of_reader})
        if not choices and not given:
            faults.append(f"{option.name} has no witness")
        for context in contexts:
            of_context = tuple(context.items())
            for choice in choices:
                found.append(Atom(option.name, (choice,), of_context, choice))
            if given:
                found.append(Atom(option.name, given, of_context))
    known = {option.name for option in listed}
    tried = known | {name for atom in found for name in atom.names}
    for name in witnesses.exempt:
        if name.isidentifier():  # several verbs share reasons, and not all have the option
            continue
        atom_name, _, where = name.partition(" in ")
        if atom_name not in tried or (where and where not in witnesses.inputs):
            faults.append(f"{name} has a reason, and is not tried")
    for name in (one for pair in witnesses.idle for one in pair):
        if name not in tried:
            faults.append(f"{name} has a reason, and is not tried")
    found = [atom for atom in found if atom.name not in witnesses.exempt]
    named = (*witnesses.values, *witnesses.beside, *witnesses.tight, *witnesses.fine)
    for name in named:
        if name.partition("@")[0] not in known:
            faults.append(f"{name} has a witness, and is no option")
    return found, faults


def _choices(option: Option, witnesses: Witnesses) -> list[Any]:
    """All values of a choice, a switch or a method."""
    if option.name in witnesses.values:
        return []
    method = mark(option.annotation, TakesMethod)
    if method is not None:
        return [witnesses.spelled.get(name, name) for name in method.names]
    of_kinds: list[Any] = []
    for kind in kinds(option.annotation):
        if kind is bool:
            of_kinds.append(not option.default)
        elif str(get_origin(kind)) == "typing.Literal":
            of_kinds.extend(get_args(kind))
    return of_kinds


def thinned(found: Sequence[Atom]) -> list[Atom]:
    """One atom for each option: of a choice and a method one value, and one method that has it."""
    first: dict[str, Atom] = {}
    for atom in found:
        first.setdefault(atom.option, atom)
    return list(first.values())


class Trial:
    """The calls of a verb in the working folder, each made once."""

    def __init__(self, function: Callable[..., Any], witnesses: Witnesses) -> None:
        self.function = function
        self.witnesses = witnesses
        self.defaults = {option.name: option.default for option in options(function)}
        self.repeated = set(self.defaults) - set(witnesses.keys)
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
        with warnings.catch_warnings(), small_efforts(tight):
            warnings.simplefilter("ignore")
            try:
                result = self.function(**arguments(self.function, call))
            except UnmaskError as error:
                return Refused(str(error), _names_given(error, call))
        written = sorted(Path(NEW).rglob("*"))
        tables = [path.read_text() for path in written if path.suffix in TABLES]
        content = [self.plain(result), tables]
        return Answered(content, tuple(map(str, written)))

    def plain(self, result: Any) -> Any:
        """A result, or several, as numbers and texts, without what repeats the call."""
        if isinstance(result, list):
            return [self.plain(one) for one in result]
        described = result.to_dict()
        return inside({key: described[key] for key in described if key not in self.repeated})

    def unsteady(self) -> Iterator[str]:
        """Inputs whose answer differs when they are given again."""
        for where, given in self.witnesses.inputs.items():
            first = self.answer(given)
            if isinstance(first, Refused):  # one that an option makes right is no fault
                continue
            again = self._answer(given, tight=False)
            if isinstance(again, Refused) or not equal(first.content, again.content, 0.0):
                yield f"{where} has two answers"

    # ---- the two laws ----

    def alone(self, atom: Atom) -> Iterator[str]:
        """The inputs in which an atom does nothing, or is refused without a reason that names an
        argument; and a fault if every input refuses it.
        """
        tight = atom.option in self.witnesses.tight
        refusals: list[Refused] = []
        is_answered = False
        for where, given in self.witnesses.inputs.items():
            base = {**given, **dict(atom.context)}
            values = [value for value in atom.values if not self._is_there(atom, value, base)]
            if not values:
                continue
            if self._is_exempt(atom, where):
                is_answered = True
                continue
            without = self.answer(base, tight)
            outcomes = [self.answer({**base, atom.option: value}, tight) for value in values]
            refused = [one for one in outcomes if isinstance(one, Refused)]
            refusals += refused
            if len(refused) < len(outcomes):
                is_answered = True
                if not any(self.has_effect(atom, one, without) for one in outcomes):
                    yield f"{atom.name} does nothing in {where}"
                continue
            for one in refused:
                if not one.names_given:
                    yield f"{atom.name} in {where}: names nothing given: {one.message}"
        if refusals and not is_answered:
            yield f"{atom.name} is refused everywhere: {refusals[0].message}"

    def _is_exempt(self, atom: Atom, where: str) -> bool:
        """Whether the table has a reason why an atom does nothing in an input."""
        exempt = self.witnesses.exempt
        return f"{atom.name} in {where}" in exempt or f"{atom.option} in {where}" in exempt

    def pair(self, first: Atom, second: Atom) -> str | None:
        """What is wrong with a pair; None if nothing is."""
        tight = first.option in self.witnesses.tight or second.option in self.witnesses.tight
        idle = None
        for where, given in self.witnesses.inputs.items():
            base = {**given, **dict(first.context), **dict(second.context)}
            for value, other in product(first.values, second.values):
                if self._is_there(first, value, base) or self._is_there(second, other, base):
                    continue
                with_first = {**base, first.option: value}
                with_second = {**base, second.option: other}
                both = self.answer({**with_first, second.option: other}, tight)
                if isinstance(both, Refused):
                    if not both.names_given and self._both_answer(with_first, with_second, tight):
                        return f"{first.name} + {second.name}: names nothing given: {both.message}"
                    continue
                first_matters = self.has_effect(first, both, self.answer(with_second, tight))
                second_matters = self.has_effect(second, both, self.answer(with_first, tight))
                if first_matters and second_matters:
                    return None
                if idle is None:
                    of_no_effect = first.name if second_matters else second.name
                    beside = second.name if second_matters else first.name
                    idle = f"{of_no_effect} does nothing beside {beside} in {where}"
        return idle

    def has_effect(
        self, atom: Atom, outcome: Refused | Answered, without: Refused | Answered
    ) -> bool:
        """Whether a call is answered, and otherwise than without the atom."""
        if isinstance(outcome, Refused):
            return False
        if isinstance(without, Refused):
            return True
        relative = 0.0 if atom.option in self.witnesses.fine else RELATIVE
        if outcome.files != without.files:
            return True
        return not equal(outcome.content, without.content, relative)

    def _both_answer(self, first: Call, second: Call, tight: bool) -> bool:
        """Whether two calls are answered, so that only the two together can be refused."""
        return all(isinstance(self.answer(one, tight), Answered) for one in (first, second))

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


def inside(value: Any) -> Any:
    """A plain value without what says how it was made."""
    if isinstance(value, Mapping):
        return {key: inside(one) for key, one in value.items() if key not in REPEATED}
    if isinstance(value, list | tuple):
        return [inside(one) for one in value]
    return value


def _names_given(error: UnmaskError, call: Call) -> bool:
    """Whether the error is the user's, and names an argument of the call."""
    if not isinstance(error, InputError):
        return False
    named = {found[1] for found in NAME.finditer(error.marked)}
    words = set(str(error).replace(":", " ").replace(",", " ").split())
    return bool(named & set(call)) or bool(words & set(call))


def equal(one: Any, other: Any, relative: float) -> bool:
    """Whether two plain values are equal, numbers within `relative`."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if one.keys() != other.keys():
            return False
        return all(equal(one[key], other[key], relative) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        return all(equal(a, b, relative) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=relative, abs_tol=relative)
    return bool(one == other)


@contextmanager
def small_efforts(tight: bool) -> Iterator[None]:
    """Default answers that leave tokens out; `tight`: and limits that every table meets."""
    changes = dict(EFFORT)
    if tight:
        changes |= dict.fromkeys(LIMITS, 1)
    for name in (*EFFORT, *LIMITS):  # a module that is first imported later would keep the change
        import_module(name.rpartition(".")[0])
    with ExitStack() as patches:
        for name, value in changes.items():
            patches.enter_context(patch(name, value))
        yield
