"""Calls of the library with what it cannot take: an `UnmaskError` of one line that names the argument, nothing left behind."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import unmask

CASES = Path(__file__).parent / "library_cases.py"


@pytest.fixture(scope="module")
def told(tiny_folder, tmp_path_factory):
    """What every call raised, from one process of its own."""
    folder, home = tmp_path_factory.mktemp("library"), tmp_path_factory.mktemp("home")
    environment = {**os.environ, "PYTHONPATH": str(Path(unmask.__file__).parents[1]), "HOME": str(home), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(CASES), str(tiny_folder), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_bad_call_is_refused_in_one_line_that_names_it(told):
    assert len(told["bad"]) >= 150
    wrong = {
        name: f"{kind} {said}"
        for name, (kind, said, word) in told["bad"].items()
        if kind != "UnmaskError" or word not in said or "\n" in said
    }
    assert wrong == {}


def test_good_calls_are_not(told):
    assert {name: kind for name, (kind, _, _) in told["fine"].items() if kind} == {}


def test_nothing_is_left_behind(told):
    assert told["left"] == ["texts.txt"]


def test_the_table_is_a_program_without_side_effects_on_import():
    body = ast.parse(CASES.read_text()).body
    assert isinstance(body[-1], ast.If)
