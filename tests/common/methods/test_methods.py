"""The mechanism of methods, on a kind of method made up here."""

import pickle
import subprocess
import sys
import textwrap
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

import pytest
from annotated_types import Interval

from unmask.common.border.marks import TakesMethod, comma_separated
from unmask.common.errors import InputError
from unmask.common.methods.method import Method, method
from unmask.common.methods.own_code import code_of, without_own_code
from unmask.common.methods.registry import Registry, Together
from unmask.common.methods.stored import from_stored, stored_form

RULES = Registry("rule", folders=("support.made_up_rules",))


class Rule(Method, ABC, registry=RULES):
    """A rule of numbers."""

    @abstractmethod
    def of(self, number: float) -> float:
        """The number that it makes of a number."""


@method
class Twice(Rule):
    """x -> k x

    Parameters:
        factor: k.
    """

    factor: Annotated[float, Interval(ge=0, le=10)] = 2.0

    def of(self, number):
        return self.factor * number


MARK = TakesMethod("common.methods.test_methods:RULES")

OWN = '''
from unmask.common.methods.method import method
from support.made_up_rules import Rule
from beside import SHIFT


@method
class Shift(Rule):
    """x -> x + c

    Parameters:
        shift: c.
    """

    shift: float = SHIFT

    def of(self, number):
        return number + self.shift


class Plain(Shift):
    pass


@method
class Half(Rule):
    """Not defined."""

    def other(self):
        return 0


@method
class Add(Rule):
    """Has the name of one of ours."""

    name = "add"

    def of(self, number):
        return number


@method
class Needy(Rule):
    """Has an option without a default."""

    amount: float

    def of(self, number):
        return number


NUMBER = 3
'''


@pytest.fixture
def rules():
    from support.made_up_rules import RULES

    yield RULES
    RULES.brought.clear()


@pytest.fixture
def own(tmp_path):
    (tmp_path / "own_rules.py").write_text(OWN)
    (tmp_path / "beside.py").write_text("SHIFT = 1.5\n")
    return tmp_path / "own_rules.py"


def test_a_registry_has_the_classes_of_its_folder_in_their_order(rules):
    assert list(rules) == ["times", "add"]  # by `place`, not by the names of files
    assert rules["add"]().of(1.0) == 2.0
    with pytest.raises(TypeError):
        rules["add"] = rules["times"]


def test_options_are_checked_when_an_object_is_made(rules):
    with pytest.raises(InputError, match="^factor 99.0 is out of range: give a number less than"):
        rules["times"](factor=99.0)


@pytest.mark.parametrize(
    ("given", "result"), [("add", 4.0), ("times:4", 12.0), (lambda number: -number, -3.0)]
)
def test_what_is_taken_as_a_method(rules, given, result):
    assert rules.taken("rule", given).of(3.0) == result


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("ad", r"^rule 'ad' is unknown: did you mean add\? Use one of times, add$"),
        ("times:x", "^rule times:x is not understood: give times:NUMBER$"),
        (3, "^rule 3 is unknown: use one of times, add$"),
        (
            "nowhere.py:Mine",
            r"^rule nowhere.py:Mine: there is no file 'nowhere.py': check the path",
        ),
        ("no.module:Mine", "^rule no.module:Mine: there is no module no.module: install its"),
    ],
)
def test_what_is_refused(rules, given, message):
    with pytest.raises(InputError, match=message):
        rules.taken("rule", given)


def test_a_class_in_the_place_of_an_object(rules):
    with pytest.raises(InputError, match=r"^rule Add is a class: give Add\(\)$"):
        rules.taken("rule", rules["add"])


def test_own_code_by_its_file(rules, own):
    rule = rules.taken("rule", f"{own}:Shift")
    assert (rule.name, rule.label, rule.of(1.0)) == ("shift", "shift", 2.5)
    assert type(rules.taken("rule", f"{own}:Shift")) is type(rule)  # loaded once
    assert rules.with_options[f"{own}:Shift"] is type(rule)
    assert type(rule)(shift=2.0).of(1.0) == 3.0
    with pytest.raises(InputError, match="^rule Shift: shift 'a' is not valid: give a number$"):
        odd = object.__new__(type(rule))
        object.__setattr__(odd, "shift", "a")
        rules.taken("rule", odd)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Shfit", r"own_rules.py has no Shfit: did you mean Shift\?"),
        ("Plain", "is a class without its decorator: write @unmask.method above it"),
        ("Half", "does not define of: define it"),
        ("Add", "is called add, as one of ours is: give the class another name"),
        ("Needy", "has the option amount without a default: give it one in the class"),
        ("NUMBER", "is 3, and no rule: name a class derived from unmask.Rule"),
        ("SHIFT", "is 1.5, and no rule"),
    ],
)
def test_own_code_that_is_no_method(rules, own, name, message):
    with pytest.raises(InputError, match=message):
        rules.taken("rule", f"{own}:{name}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb = )\n", r"^rule wrong.py line 2: SyntaxError: unmatched '\)': mend the file$"),
        ("a = 1\n1 / 0\n", "^rule wrong.py line 2: ZeroDivisionError: division by zero: mend"),
        ("import no_such_module_here\n", "^rule wrong.py line 1: ModuleNotFoundError: No module"),
    ],
)
def test_errors_of_the_users_file_are_one_line(rules, tmp_path, text, message):
    (tmp_path / "wrong.py").write_text(text)
    with pytest.raises(InputError, match=message) as error:
        rules.taken("rule", f"{tmp_path / 'wrong.py'}:Mine")
    assert "\n" not in str(error.value)


def test_the_hash_covers_the_file_and_what_it_imports_from_beside(own):
    from support.made_up_rules import RULES

    rule = RULES.taken("rule", f"{own}:Shift")
    first = code_of(type(rule)).sha256
    (own.parent / "unrelated.py").write_text("A = 1\n")
    assert code_of(type(rule)).sha256 == first
    (own.parent / "beside.py").write_text("SHIFT = 2.5\n")
    assert code_of(type(rule)).sha256 != first
    assert RULES.taken("rule", f"{own}:Shift").of(0.0) == 2.5  # read anew, with what is beside
    RULES.brought.clear()


def test_another_module_of_the_same_name_is_not_taken(rules, own, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "beside.py").write_text("SHIFT = 99.0\n")
    monkeypatch.syspath_prepend(elsewhere)
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    __import__("beside")
    with pytest.raises(InputError, match="another module of this name is loaded already"):
        rules.taken("rule", f"{own}:Shift")
    monkeypatch.delitem(sys.modules, "beside", raising=False)


def test_no_code_is_loaded_for_a_request(rules, own):
    with without_own_code(), pytest.raises(InputError, match="names a file of code"):
        rules.taken("rule", f"{own}:Shift")
    assert rules.taken("rule", f"{own}:Shift").of(1.0) == 2.5  # outside of it, as before


def test_stored_settings_keep_the_hash_and_load_nothing(rules, own):
    rule = rules.taken("rule", f"{own}:Shift")
    stored = stored_form(rule)
    assert stored["code"] == "own_rules.py:Shift"
    assert stored["shift"] == 1.5
    with pytest.raises(InputError, match="no stored setting loads"):
        from_stored(rules, stored)
    ours = from_stored(rules, {"name": "times", "factor": 3.0})
    assert ours == rules["times"](factor=3.0)


def test_another_process_gets_the_source(rules, own, tmp_path):
    rule = type(rules.taken("rule", f"{own}:Shift"))(shift=4.0)
    sent = tmp_path / "sent"
    sent.write_bytes(pickle.dumps(rule))
    own.unlink()
    (own.parent / "beside.py").unlink()
    program = textwrap.dedent(
        f"""
        import pickle
        from pathlib import Path

        rule = pickle.loads(Path({str(sent)!r}).read_bytes())
        print(rule.of(1.0), rule)
        """
    )
    path = [one for one in sys.path if one]
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "5.0 Shift(shift=4.0)\n"


def test_a_class_in_no_file_is_not_sent():
    @method
    class Local(Rule):
        """x -> x"""

        def of(self, number):
            return number

    with pytest.raises(InputError, match="stands in no file that another process could load"):
        pickle.dumps(Local())


def test_two_kinds_together(rules):
    together = Together(rules, RULES)
    assert list(together) == ["times", "add"]
    assert together.taken("rule", "add").of(1.0) == 2.0
    assert isinstance(together.taken("rule", Twice()), Twice)
    with pytest.raises(InputError, match="is unknown"):
        together.taken("rule", "zzz")


def test_names_with_commas_between_them():
    assert comma_separated("a,family:0.5,0.25,b") == ["a", "family:0.5,0.25", "b"]
    assert comma_separated("a, my.py:Mine,/x/y.py:Other") == ["a", "my.py:Mine", "/x/y.py:Other"]


def test_a_dataclass_without_our_decorator_is_checked_where_it_is_taken(rules):
    from support.made_up_rules import Rule as Base

    @dataclass(frozen=True)
    class Own(Base):
        """x -> x"""

        name = "own"
        strength: int = 1

        def of(self, number):
            return number

    assert rules.taken("rule", Own(2)).strength == 2
    with pytest.raises(InputError, match="^rule .*Own: strength 'x' is not valid"):
        rules.taken("rule", Own("x"))
