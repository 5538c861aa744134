"""The notebooks are those of their pages, and run from the first cell to the last (`make
test-release`).
"""

import os
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
nbformat = pytest.importorskip("nbformat")
TOOL = runpy.run_path(str(ROOT / "tools" / "notebooks.py"), run_name="notebooks")


@pytest.mark.parametrize("page", TOOL["PAGES"])
def test_the_notebook_is_that_of_its_page(page):
    assert (ROOT / TOOL["PAGES"][page]).read_text() == TOOL["written"](page), (
        "python tools/notebooks.py"
    )


def test_a_page_becomes_cells():
    text = "# T\n\n```console\n$ unmask fill \\\n      x\nprinted\n```\n\nsee [it](a.md#b)\n\n"
    text += "```python\n1 + 1\n```\n\n```text\n2\n```\n"
    made = TOOL["notebook"](text, "docs/p.md", "docs/n/p.ipynb")
    assert [(cell.cell_type, cell.source) for cell in made.cells] == [
        ("markdown", "# T"),
        ("code", "!unmask fill \\\n      x"),
        ("markdown", "see [it](../a.md#b)"),
        ("code", "1 + 1"),
    ]


@pytest.mark.release
@pytest.mark.parametrize("target", TOOL["PAGES"].values())
def test_the_notebook_runs(target, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    made = nbformat.read(ROOT / target, as_version=4)
    done = nbclient.NotebookClient(
        made, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    printed = "".join(
        out.get("text", "")
        for cell in done.cells
        if cell.cell_type == "code"
        for out in cell.outputs
    )
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed)
    assert "The nurse works in the hospital today." in plain
    assert "error:" not in plain
