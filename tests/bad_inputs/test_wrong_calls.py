"""More than 1,000 wrong calls from Python, and as many from the command line: each ends in one
line that names the argument as that surface writes it, and none that was not given.
"""

import re
import shlex

import pytest

from bad_inputs.test_library import outcome
from support.command_runner import refused
from support.wrong_calls import WrongCall, calls, fault_of_command_line, fault_of_python


def test_wrong_calls_name_the_argument_as_the_surface_writes_it(tiny_folder, tmp_path_factory):
    swept = outcome("wrong_calls.py", tiny_folder, tmp_path_factory)
    assert swept["of_python"] > 1_000
    assert swept["of_command_line"] > 1_000
    assert swept["faults"] == {}


def test_every_verb_has_wrong_calls_of_both_kinds():
    every = list(calls())
    assert {call.verb for call in every if call.from_python} >= {"fill", "train", "serve"}
    assert len({call.at_fault for call in every}) > 80


def test_the_control_finds_what_breaks_the_law():
    right = frozenset({"text", "top"})
    works = WrongCall("fill", "top", right, words=("fill", "--help"))
    assert "exit code 0" in fault_of_command_line(works)
    other = WrongCall("fill", "model", right, words=("fill", "A [MASK].", "--top=x"))
    assert fault_of_command_line(other).startswith("model is not named")
    not_given = WrongCall("fill", "text", frozenset(), words=("fill", "A [MASK].", "--top=x"))
    assert fault_of_command_line(not_given).startswith("['top'] were not given")
    in_python = WrongCall("fill", "top", right, values={"text": "A [MASK].", "top": "x"})
    assert fault_of_python(in_python) is None


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("train texts.txt --out run --init x --max-length 128", set()),
        ("fill 'A [MASK] of [MASK] and [MASK].' --max-passes 1", set()),
        ("mutants ACD --positions 2 --construction zzz", {"--construction"}),
        ("score 'a cat' --right 2", {"--right"}),
        ("score 'a cat' --score pll --right 2", {"--right", "--score"}),
        ("train texts.txt --out run --epochs 2 --steps 3", {"--epochs", "--steps"}),
    ],
)
def test_only_what_was_given_is_the_problem(tmp_path, monkeypatch, line, names):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("the cat sat on the mat .\n" * 5)
    problem, _, _ = refused(shlex.split(line)).partition(": ")
    named = set(re.findall(r"--[a-z-]+", problem))
    assert named >= names
    assert named <= set(re.findall(r"--[a-z-]+", line))
