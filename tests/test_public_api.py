"""The public names, and that they cost nothing until they are used."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import unmask

ROOT = Path(__file__).parents[1]


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    return {name.split(".")[0] for name in done.stdout.split()}


def test_every_public_name_is_there():
    for name in unmask.__all__:
        assert getattr(unmask, name) is not None
    assert set(dir(unmask)) == set(unmask.__all__)
    assert unmask.__all__ == sorted(unmask.__all__)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'unmask' has no attribute 'no_such_name'"):
        unmask.no_such_name  # noqa: B018


@pytest.mark.parametrize("statement", ["import unmask", "import unmask.joints.registry"])
def test_import_and_command_line_load_nothing_heavy(statement):
    assert not loaded_by(statement) & {"torch", "transformers", "pandas", "matplotlib", "pyarrow", "scipy", "numpy"}


def test_a_verb_loads_torch_when_it_runs_and_not_before():
    assert "torch" not in loaded_by("import unmask; unmask.fill")
    assert "torch" in loaded_by("import unmask; unmask.MaskedLM")


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert unmask.__version__ == project["version"]
