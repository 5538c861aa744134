"""Every public function and method with every hostile value for every parameter: it works, or one line says why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import unmask

SWEEP = Path(__file__).parent / "library_sweep.py"


@pytest.fixture(scope="module")
def swept(tiny_folder, tmp_path_factory):
    """What the sweep found, from one process of its own."""
    folder, home = tmp_path_factory.mktemp("sweep"), tmp_path_factory.mktemp("home")
    environment = {**os.environ, "PYTHONPATH": str(Path(unmask.__file__).parents[1]), "HOME": str(home), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(SWEEP), str(tiny_folder), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, stdin=subprocess.DEVNULL, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_call_works_or_says_in_one_line_why_not(swept):
    assert swept["tried"] > 10_000
    assert swept["wrong"] == {}


def test_every_public_function_and_method_is_there(swept):
    assert swept["missing"] == []


def test_nothing_is_left_behind(swept):
    assert swept["left"] == swept["before"]


def test_the_sweep_sees_what_breaks_the_law(swept):
    assert set(swept["control"]) == {"crashes", "says two lines", "takes a number for a text"}
