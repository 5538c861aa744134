"""The tool that compares two checkouts sees each kind of difference, and none between copies."""

import json
import math
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from same import calls as all_kinds  # noqa: E402
from same.adapters import Names57  # noqa: E402
from same.comparison import Change, compare, difference, intended_changes  # noqa: E402
from same.faults import FAULTS  # noqa: E402
from same.values import named_values  # noqa: E402

FEW = "tables/3x3/0|joint/3x3/scale-0.5/0/mrf|refused/lab/sites"
"""Calls that load no network, so that the tool is quick."""
FAULT = """
import torch

sound = torch.Tensor.logsumexp
torch.Tensor.logsumexp = lambda *arguments, **options: sound(*arguments, **options) * (1 + 2**-50)
"""
"""A fault of a few last bits, which stays one wherever modules move."""


def values(result):
    """The values of a result, by name."""
    return dict(named_values(result, lambda one: None))


def one(result):
    """The value of a result that has one."""
    (value,) = values(result).values()
    return value


def run_tool(*words):
    """The tool, in a process of its own."""
    command = [sys.executable, str(ROOT / "tools" / "same.py"), *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=dict(os.environ)
    )


def next_number(number):
    """The next number of float64."""
    return math.nextafter(number, math.inf)


# ---- values and differences ----


@pytest.mark.parametrize(
    "result",
    [
        0.1,
        3,
        True,
        None,
        "a",
        [0.1, 0.2],
        [1, 2],
        [[1, 2], [3, 4]],
        np.float32([0.1, np.nan]),
        torch.ones(2, 3),
        torch.ones(2, dtype=torch.bfloat16),
    ],
)
def test_a_value_is_the_same_as_itself(result):
    assert all(difference(value, value) is None for value in values(result).values())


@pytest.mark.parametrize(
    ("old", "new", "size"),
    [
        (0.5, next_number(0.5), math.ulp(0.5)),
        ([0.5, 2.0], [0.5, next_number(2.0)], math.ulp(2.0)),
        (0.0, -0.0, 0.0),
        (1.0, math.nan, math.inf),
        (math.inf, -math.inf, math.inf),
        (3, 5, 2.0),
        (3, 3.0, math.inf),
        (1, True, math.inf),
        ("a", "b", math.inf),
        ([1, 2], [2, 1], 1.0),
        ([1, 2], [1, 2, 3], math.inf),
        (np.float32(1), np.float64(1), math.inf),
        (np.zeros((2, 3)), np.zeros((3, 2)), math.inf),
        (torch.zeros(2), torch.zeros(2).double(), math.inf),
        (torch.tensor([1.0]).bfloat16(), torch.tensor([1.0078125]).bfloat16(), 0.0078125),
        (None, 0, math.inf),
    ],
)
def test_a_difference_and_its_size(old, new, size):
    largest_gap, _ = difference(one(old), one(new))
    assert largest_gap == size


def test_nans_are_equal_whatever_their_bits():
    other = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)
    assert np.isnan(other[0])
    assert difference(one(np.array([np.nan])), one(other)) is None


def test_dates_seconds_and_paths_have_no_value():
    changing = {
        "seconds": 1.5,
        "median_seconds_a_pair": 2.0,
        "tokens_per_second": 3.0,
        "begun": {"date": "today"},
        "folder": "/tmp/a",
        "tokens": 3,
    }
    assert list(values(changing)) == ["tokens"]


def test_an_object_that_no_adapter_knows_is_refused():
    with pytest.raises(
        TypeError, match="result/inside is a object, of which no adapter names the parts"
    ):
        dict(named_values({"inside": object()}, lambda one: None, "result"))


# ---- reports ----

OLD = {"fill/a": values({"p": [0.5, 0.25], "word": "cat", "warning": "careful"})}


def test_a_value_that_is_gone_is_a_difference_and_one_in_addition_is_none():
    fewer = {"fill/a": values({"p": [0.5, 0.25], "warning": "careful"})}
    more = {
        "fill/a": values({"p": [0.5, 0.25], "word": "cat", "warning": "careful", "entropy": 1.0})
    }
    assert [one.value for one in compare(OLD, fewer).failures] == ["count", "word"]
    report = compare(OLD, more)
    assert report.passed
    assert report.added == 1


def test_messages_are_reported_and_are_no_failure():
    other = {"fill/a": values({"p": [0.5, 0.25], "word": "cat", "warning": "take care"})}
    report = compare(OLD, other)
    assert report.passed
    assert report.messages == [("fill/a:warning", "careful", "take care")]


def test_a_call_without_values_is_a_failure():
    assert not compare(OLD, {}).passed


def test_an_error_that_is_new_is_a_difference():
    raised = {"fill/a": {**OLD["fill/a"], **values({"raised": "InputError at call"})}}
    assert [one.value for one in compare(OLD, raised).failures] == ["raised"]


@pytest.mark.parametrize(
    ("name", "old", "new", "proves_nothing"),
    [
        ("fill/a", True, True, True),
        ("fill/a", False, False, False),
        ("refused/fill/a", True, True, False),
        ("refused/fill/a", False, False, True),
    ],
)
def test_a_call_that_raises_on_both_sides_proves_nothing_unless_it_is_meant_to(
    name, old, new, proves_nothing
):
    raised, answered = values({"raised": "InputError at call"}), values({"p": 0.5})
    report = compare({name: raised if old else answered}, {name: raised if new else answered})
    assert not report.failures
    assert bool(report.proves_nothing) == proves_nothing
    assert report.passed != proves_nothing


def test_the_list_of_intended_changes():
    new = {"fill/a": values({"p": [0.5, 0.375], "word": "cat", "warning": "careful"})}

    def passed(value, largest):
        return compare(OLD, new, [Change(value, 57, largest, "a reason")]).passed

    assert passed("fill/*:p", 0.125)
    assert not passed("fill/*:p", 0.1), "larger than the list allows"
    assert not passed("fill/*:word", math.inf), "another value, and this one did not change"
    assert compare(OLD, OLD, [Change("score/*", 57, 1.0, "a reason")]).passed, (
        "of calls that were not made"
    )
    assert not compare(OLD, OLD, [Change("fill/*:p", 57, 1.0, "a reason")]).passed, (
        "listed, and does not occur"
    )


def test_intended_changes_are_those_of_later_issues(tmp_path):
    entry = '[[change]]\nvalue = "fill/*:p"\nissue = {}\nlargest = inf\nwhy = "a reason"\n'
    file = tmp_path / "intended.toml"
    file.write_text("".join(entry.format(issue) for issue in (57, 58, 60)))
    assert [change.issue for change in intended_changes(57, file)] == [58, 60]
    assert isinstance(intended_changes(0), list), "the list itself can be read"


# ---- calls ----


def marks(value):
    """The marks in an argument."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    own = {key for key in value if key.startswith("$")} if isinstance(value, dict) else set()
    return own.union(*map(marks, inside))


def test_calls_are_data_that_adapters_can_make():
    import unmask

    made = all_kinds.all_calls()
    assert json.loads(json.dumps(made)) == made
    kinds = {
        kind: [call for call in made if call["name"].startswith(kind)]
        for kind in ("bundled/", "command/")
    }
    assert len(made) >= 1900
    assert len(kinds["bundled/"]) >= 170
    assert len(kinds["command/"]) >= 100
    for verb in {call["verb"] for call in made}:
        assert hasattr(Names57, f"do_{verb}") or hasattr(unmask, verb.partition(".")[0]), verb
    for mark in marks(made):
        assert hasattr(Names57, f"mark_{mark[1:]}"), mark


def test_every_fault_has_calls_that_could_find_it():
    tool = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "same.py"), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--faults" in tool.stdout
    names = [call["name"] for call in all_kinds.all_calls()]
    for fault in FAULTS.values():
        patterns = fault.calls.split("|")
        assert any(
            fnmatchcase(name, pattern.replace("[", "[[]")) for name in names for pattern in patterns
        ), fault.about


# ---- the tool itself ----


def test_two_copies_are_the_same_and_a_fault_in_one_is_found(tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    same = run_tool(ROOT, copy, "--only", FEW, "--one-thread")
    assert same.returncode == 0, same.stdout + same.stderr
    assert "the same" in same.stdout, same.stdout + same.stderr
    with open(copy / "src" / "unmask" / "__init__.py", "a", encoding="utf-8") as source:
        source.write(FAULT)
    report = tmp_path / "report.json"
    other = run_tool(ROOT, copy, "--only", FEW, "--one-thread", "--report", report)
    assert other.returncode == 1, other.stdout + other.stderr
    assert "NOT the same" in other.stdout, other.stdout + other.stderr
    failed = {one["call"] for one in json.loads(report.read_text())["failures"]}
    assert "joint/3x3/scale-0.5/0/mrf" in failed
    assert "refused/lab/sites" not in failed


def test_a_planted_fault_is_found():
    done = run_tool(ROOT, "--faults", "--only", "bit-in-a-table")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "found   bit-in-a-table" in done.stdout, done.stdout + done.stderr


def test_a_checkout_that_is_not_there_is_refused():
    done = run_tool("no-such-revision", ROOT, "--only", FEW)
    assert done.returncode == 1
    assert "neither a folder nor a revision" in done.stderr
