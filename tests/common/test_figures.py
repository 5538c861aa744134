"""Figures are drawn into files, whatever backend the environment names."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import unmask

PACKAGE = Path(unmask.__file__).parent
DRAWS = """
import os, sys
from unmask.common.figures import Figure, rc_context
with rc_context({"font.size": 8}):
    figure = Figure()
    figure.subplots().plot([1, 2])
    assert figure.drawn("png").startswith(b"\\x89PNG")
    assert b"<svg" in figure.drawn("svg") and figure.drawn("pdf")[:4] == b"%PDF"
import matplotlib
assert "matplotlib.pyplot" not in sys.modules
print(os.environ.get("MPLBACKEND"), dict.__getitem__(matplotlib.rcParams, "backend"))
"""


@pytest.mark.parametrize(
    ("backend", "kept"),
    [
        ("nonsense", False),
        ("module://not_there", True),
        ("tkagg", True),
        ("svg", True),
        (None, False),
    ],
)
def test_a_backend_that_is_not_there_is_no_error_and_one_that_is_stays_the_users(backend, kept):
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    environment |= {"PYTHONPATH": str(PACKAGE.parent)} | (
        {} if backend is None else {"MPLBACKEND": backend}
    )
    done = subprocess.run(
        [sys.executable, "-c", DRAWS], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr
    named, chosen = done.stdout.split(maxsplit=1)
    assert named == str(backend)
    assert (chosen.strip() == backend) == kept


def test_no_other_module_imports_matplotlib():
    """They would read MPLBACKEND themselves. Names that only types need are not imported when
    the program runs.
    """
    importing = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for_types = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in set(ast.walk(tree)) - for_types:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if any(name.split(".")[0] == "matplotlib" for name in names):
                importing.add(path.name)
    assert importing == {"figures.py"}
