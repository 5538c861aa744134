"""Calls of the library with what it cannot take: an `UnmaskError` of one line that names the
argument, nothing left behind.

The calls are made in processes of their own: while the tests run, types are checked by
beartype, which would speak first.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import unmask

PATHS = os.pathsep.join([str(Path(unmask.__file__).parents[1]), str(Path(__file__).parents[1])])


def outcome(program, model, folders):
    """What the program, which makes the calls, prints."""
    folder, home = folders.mktemp("library"), folders.mktemp("home")
    environment = {**os.environ, "PYTHONPATH": PATHS, "HOME": str(home), "HF_HUB_OFFLINE": "1"}
    script = Path(__file__).parents[1] / "support" / program
    command = [sys.executable, str(script), str(model), str(folder)]
    streams = {"capture_output": True, "stdin": subprocess.DEVNULL, "text": True}
    done = subprocess.run(command, env=environment, cwd=folder, **streams)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_bad_calls_are_refused_in_one_line_that_names_the_argument_and_good_ones_are_not(
    tiny_folder, tmp_path_factory
):
    calls = outcome("library_cases.py", tiny_folder, tmp_path_factory)
    wrong = {
        name: f"{kind} {message}"
        for name, (kind, message, word) in calls["bad"].items()
        if kind != "UnmaskError" or word not in message or "\n" in message
    }
    assert len(calls["bad"]) > 20
    assert wrong == {}
    assert {name: kind for name, (kind, _, _) in calls["fine"].items() if kind} == {}
    assert calls["left"] == ["texts.txt"]


def test_every_public_call_with_every_hostile_value_works_or_says_in_one_line_why_not(
    tiny_folder, tmp_path_factory
):
    swept = outcome("library_sweep.py", tiny_folder, tmp_path_factory)
    assert swept["refused"] == {}, "a call that is refused whatever is swept shows nothing"
    assert swept["tried"] > 7_000
    assert swept["wrong"] == {}
    assert swept["left"] == swept["before"]
    assert set(swept["control"]) == {"crashes", "says two lines", "takes a number for a text"}


@pytest.mark.slow
def test_every_option_of_every_command_with_every_hostile_word_works_or_says_in_one_line_why_not(
    tiny_folder, tmp_path_factory
):
    swept = outcome("command_sweep.py", tiny_folder, tmp_path_factory)
    assert swept["tried"] > 4_000
    assert swept["faults"] == {}
    assert swept["changed"] == []
    assert None not in swept["control"]
