"""Notebooks from pages: docs/tutorial.md becomes docs/notebooks/tutorial.ipynb.

    python tools/notebooks.py     writes them again

Snippets become cells, commands become cells that call a shell, and what they printed is left
out: a notebook prints its own.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from posixpath import normpath, relpath

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).parents[1]
PAGES = {"docs/tutorial.md": "docs/notebooks/tutorial.ipynb"}
SHOWN = runpy.run_path(str(ROOT / "tools" / "shown.py"), run_name="shown")
LINK = re.compile(r"\]\(([^)#:\s]+)")
NUMBERS = re.compile(r"^<!-- numbers [^>]*-->\n", re.MULTILINE)
"""Where a page says what prints its numbers, for the tests of the page."""


def notebook(text: str, page: str, target: str) -> nbformat.NotebookNode:
    """The page as a notebook, its links as they must be from the folder of `target`."""
    cells, end = [], 0
    for match in SHOWN["BLOCK"].finditer(text):
        cells += prose(text[end : match.start()], page, target)
        code = match["code"] if match["kind"] == "python" else shell(match["code"])
        cells.append(new_code_cell(code.rstrip()))
        end = match.end()
    cells += prose(text[end:], page, target)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return new_notebook(cells=cells, metadata=about)


def prose(text: str, page: str, target: str) -> list[nbformat.NotebookNode]:
    """A cell of text, or none."""
    here, there = Path(page).parent, Path(target).parent

    def moved(match: re.Match[str]) -> str:
        return f"]({relpath(normpath(here / match[1]), there)}"

    shown = NUMBERS.sub("", text)
    if not shown.strip():
        return []
    return [new_markdown_cell(LINK.sub(moved, shown).strip())]


def shell(code: str) -> str:
    """The commands of a block as a cell."""
    return "\n".join(f"!{match['command']}" for match in SHOWN["COMMAND"].finditer(code))


def written(page: str) -> str:
    """The notebook of a page, as its file holds it."""
    made = notebook((ROOT / page).read_text(encoding="utf-8"), page, PAGES[page])
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


if __name__ == "__main__":
    for page, target in PAGES.items():
        (ROOT / target).parent.mkdir(exist_ok=True)
        (ROOT / target).write_text(written(page), encoding="utf-8")
