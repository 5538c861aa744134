"""Every option of every verb, and of every method, does something, alone and beside every other,
or is refused.

`support.every_option` says what that means, and `support.option_witnesses` has the inputs. In
`make test` a pair has one method and one choice of each option, and verbs whose calls take long
are tried alone; the mark `slow` has the rest.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import pytest
import torch

from support.every_option import Atom, Trial, Witnesses, atoms, thinned
from support.option_inputs import make_inputs
from support.option_witnesses import WITHOUT, WITNESSES
from unmask.common.border.calls import checked
from unmask.common.border.declarations import hints
from unmask.common.border.marks import Only, TakesMethod, mark
from unmask.common.border.options import arguments, options
from unmask.common.errors import InputError
from unmask.common.methods.own_code import is_ours
from unmask.common.results import Result
from unmask.verbs import VERBS, verb

LONG = ("train", "translate", "evaluate")
"""Verbs whose calls take tenths of a second and more."""
LATER = ("dependence", "frontier", "compare", "assay")
"""Verbs whose pairs are tried only by the mark `slow`."""
KNOWN: dict[str, list[str]] = {}
"""Faults that are still there: patterns, by verb."""


def marked(names: Any, slow: tuple[str, ...]) -> list[Any]:
    """The verbs as parameters of a test, some of them with the mark `slow`."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models and files, made once."""
    place = tmp_path_factory.mktemp("options")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        make_inputs(place)
        patch.chdir(place)
        yield place
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def trials(folder):
    """The trial of each verb: what it has called is called once."""
    return {name: Trial(verb(name), witnesses) for name, witnesses in WITNESSES.items()}


def unknown(name: str, faults: list[str]) -> list[str]:
    """The faults that are not KNOWN."""
    patterns = KNOWN.get(name, [])
    return [one for one in faults if not any(fnmatch.fnmatch(one, known) for known in patterns)]


@pytest.mark.parametrize("name", WITNESSES)
def test_every_option_has_a_witness(name):
    found, faults = atoms(verb(name), WITNESSES[name])
    assert faults == []
    assert found


def test_every_verb_is_tried():
    assert set(WITNESSES) | set(WITHOUT) == set(VERBS)


@pytest.mark.parametrize("name", marked(WITNESSES, LONG))
def test_alone(trials, name):
    trial = trials[name]
    assert list(trial.unsteady()) == []
    found, _ = atoms(trial.function, trial.witnesses)
    faults = [fault for atom in found for fault in trial.alone(atom)]
    assert "\n".join(unknown(name, faults)) == ""


def faults_of_pairs(trial: Trial, found: list[Atom]) -> Iterator[str]:
    """What is wrong with the pairs of some atoms."""
    for first, second in trial.pairs(found):
        fault = trial.pair(first, second)
        if fault is not None:
            yield fault


@pytest.mark.parametrize("name", marked(WITNESSES, (*LONG, *LATER)))
def test_in_pairs(trials, name):
    trial = trials[name]
    found, _ = atoms(trial.function, trial.witnesses)
    faults = list(faults_of_pairs(trial, thinned(found)))
    assert "\n".join(unknown(name, faults)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WITNESSES if name not in LONG])
def test_in_all_pairs(trials, name):
    trial = trials[name]
    found, _ = atoms(trial.function, trial.witnesses)
    faults = list(faults_of_pairs(trial, found))
    assert "\n".join(unknown(name, faults)) == ""


def test_an_option_of_another_method_is_refused():
    """Whatever the method, a field that it does not have is named."""
    tried = 0
    for name, witnesses in WITNESSES.items():
        function = verb(name)
        for option in options(function):
            if not option.readers:
                continue
            classes = mark(hints(function)[option.parameter], TakesMethod).classes
            value = witnesses.values.get(option.name, ["random"])[0]
            ours = {method for method, cls in classes.items() if is_ours(cls)}
            for method in ours - set(option.readers):  # other tests bring classes of their own
                spelled = witnesses.spelled.get(method, method)
                with pytest.raises(InputError, match=option.name):
                    arguments(function, {option.parameter: spelled, option.name: value})
                tried += 1
    assert tried > 100


# ---- negative controls: verbs of the test ----


class Number(Result):
    """A result with one number."""

    def __init__(self, number: float) -> None:
        self.number = number

    def to_dict(self) -> dict[str, Any]:
        return {"number": self.number}


@checked
def good(
    x: float,
    *,
    factor: float = 1.0,
    shift: float = 0.0,
    way: Literal["up", "down"] = "up",
    power: Annotated[int | None, Only(without=("factor",))] = None,
) -> Number:
    """Every option does something."""
    number = x * factor if power is None else x**power
    number += shift
    return Number(number if way == "up" else -number)


@checked
def with_an_idle_option(x: float, *, factor: float = 1.0, colour: str = "red") -> Number:
    """`colour` does nothing."""
    return Number(x * factor)


@checked
def with_an_idle_pair(x: float, *, factor: float = 1.0, power: int | None = None) -> Number:
    """`factor` does nothing beside `power`."""
    return Number(x * factor if power is None else x**power)


@checked
def with_a_mode(x: float, *, mode: Literal["keep", "drop"] = "keep", factor: float = 1.0) -> Number:
    """`factor` does nothing with the mode drop."""
    return Number(x * factor if mode == "keep" else 0.0)


@checked
def with_a_vague_refusal(x: float, *, factor: float = 1.0, power: int | None = None) -> Number:
    """It refuses two options, and names neither."""
    if factor != 1.0 and power is not None:
        raise InputError("this is not possible: do something else")
    return Number(x * factor if power is None else x**power)


VALUES = {"x": [3.0], "factor": [5.0], "shift": [7.0], "power": [3], "colour": ["blue"]}


def faults_of(function: Callable[..., Any]) -> list[str]:
    """All faults of a verb of this file."""
    names = {option.name for option in options(function)}
    values = {name: values for name, values in VALUES.items() if name in names}
    witnesses = Witnesses(inputs={"two": {"x": 2.0}}, values=values)
    found, faults = atoms(function, witnesses)
    trial = Trial(function, witnesses)
    alone = [fault for atom in found for fault in trial.alone(atom)]
    return [*faults, *alone, *faults_of_pairs(trial, found)]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("elsewhere")
def test_a_right_verb_has_no_fault():
    assert faults_of(good) == []


@pytest.mark.usefixtures("elsewhere")
def test_an_idle_option_is_found():
    faults = faults_of(with_an_idle_option)
    assert "colour does nothing in two" in faults
    assert not any(fault.startswith("factor") for fault in faults)


@pytest.mark.usefixtures("elsewhere")
def test_an_effect_that_vanishes_beside_another_option_is_found():
    assert faults_of(with_an_idle_pair) == ["factor does nothing beside power in two"]
    assert faults_of(with_a_mode) == [
        "x does nothing beside mode=drop in two",
        "factor does nothing beside mode=drop in two",
    ]


@pytest.mark.usefixtures("elsewhere")
def test_a_refusal_that_names_nothing_is_found():
    (fault,) = faults_of(with_a_vague_refusal)
    assert fault.startswith("factor + power: names nothing given")


@pytest.mark.usefixtures("elsewhere")
def test_an_answer_that_changes_by_itself_is_found():
    numbers = iter(range(100))

    @checked
    def restless(x: float) -> Number:
        return Number(float(next(numbers)))

    trial = Trial(restless, Witnesses(inputs={"two": {"x": 2.0}}))
    assert list(trial.unsteady()) == ["two has two answers"]


def test_an_option_without_a_witness_is_found():
    witnesses = Witnesses(inputs={"two": {"x": 2.0}}, values={"x": [3.0], "gone": [1]})
    _, faults = atoms(with_an_idle_option, witnesses)
    assert faults == [
        "factor has no witness",
        "colour has no witness",
        "gone has a witness, and is no option",
    ]
