"""Triton's programs compile as the tests import them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from shape_checks import triton_modules

ROOT = Path(__file__).parent.parent


def test_every_program_compiles_under_the_shape_checks(tmp_path):
    pytest.importorskip("triton")
    given = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    given |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TRITON_CACHE_DIR": str(tmp_path)}
    given["TRITON_ALWAYS_COMPILE"] = "1"  # A decorated program may have the key of one that was compiled before.
    script = [sys.executable, Path(__file__).parent / "compile_programs.py"]
    ended = subprocess.run(script, env=given, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    said = ["unreached:"]
    if find_spec("beartype") is not None:
        said.append("decorated: NameError('tl is not defined')")
    assert ended.stdout.splitlines() == said


def test_types_are_left_out_where_triton_reads_functions_itself():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    (listed,) = (one["module"] for one in settings["overrides"] if one.get("disallow_untyped_defs") is False)
    assert sorted(listed) == triton_modules()
