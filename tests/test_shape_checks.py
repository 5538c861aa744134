"""Shapes are checked while the tests run, except in compiled code; Triton's programs compile as the tests import them."""

import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import jaxtyping
import pytest
import torch

import shape_checks

ROOT = Path(__file__).parent.parent


def test_shapes_are_checked_while_the_tests_run():
    pytest.importorskip("beartype")
    from unmask.training.objectives import FixedRate, capacity

    assert capacity(FixedRate(), 2, 32, 8.0) == 64
    with pytest.raises(jaxtyping.TypeCheckError, match="capacity"):
        capacity(FixedRate(), "2", 32, 8.0)


def test_compiled_code_is_not_checked():
    from unmask.training.encoder import _dropped

    assert "unmask.training.encoder" not in shape_checks.checked_modules()
    assert "unmask.training.objectives" in shape_checks.checked_modules()
    text = torch.arange(3)
    compiled = torch.compile(_dropped, backend="eager", fullgraph=True)
    assert torch.equal(compiled(text, 0.0), text)


def test_every_program_compiles_under_the_shape_checks(tmp_path):
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TRITON_CACHE_DIR": str(tmp_path)}
    environment["TRITON_ALWAYS_COMPILE"] = "1"  # A decorated program may have the key of one that was compiled before.
    script = [sys.executable, Path(__file__).parent / "compile_programs.py"]
    ended = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    lines = ["unreached:"]
    if find_spec("beartype") is not None:
        lines.append("decorated: NameError('tl is not defined')")
    assert ended.stdout.splitlines() == lines


def test_types_are_left_out_where_triton_reads_functions_itself():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]
    (listed,) = (one["module"] for one in settings["overrides"] if one.get("disallow_untyped_defs") is False)
    assert sorted(listed) == shape_checks.triton_modules()
