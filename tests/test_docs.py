"""The Python in README and docs/ runs as written, and every link between the documents leads somewhere.

A comment on the line before a block says what the tests do otherwise:

    <!-- in the tests: sweeps=50 -> sweeps=2 -->     runs with smaller settings; several replacements with ; between them
    <!-- not run: why -->
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?:<!-- (?P<note>.*?) -->\n)?```python\n(?P<code>.*?)```", re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    """The Python of a document as the tests run it, and the reason of each block that they do not run."""
    found = []
    for match in BLOCK.finditer(text):
        note, code = match["note"] or "", match["code"]
        if note.startswith("in the tests: "):
            for change in note.removeprefix("in the tests: ").split(";"):
                old, _, new = (part.strip() for part in change.partition("->"))
                assert code.count(old) == 1, f"{old!r} is not in the block once"
                code = code.replace(old, new)
        found.append((code, note.removeprefix("not run: ") if note.startswith("not run: ") else ""))
    return found


WITH_PYTHON = [path for path in DOCUMENTS if "```python" in path.read_text()]


@pytest.mark.parametrize("document", WITH_PYTHON, ids=lambda path: path.name)
def test_python_runs(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, reason in blocks(document.read_text()):
        if not reason:
            exec(compile(code, document.name, "exec"), names)


def test_readme_and_quickstart_have_python_and_all_of_it_runs():
    for name in ("README.md", "docs/quickstart.md"):
        found = blocks((ROOT / name).read_text())
        assert found and not any(reason for _, reason in found)


def test_blocks_are_found_changed_and_left_out():
    text = "<!-- in the tests: n=9 -> n=1; k=8 -> k=2 -->\n```python\nf(n=9, k=8)\n```\n"
    text += "<!-- not run: slow -->\n```python\ng()\n```\n"
    assert blocks(text) == [("f(n=1, k=2)\n", ""), ("g()\n", "slow")]
    with pytest.raises(AssertionError, match="'m=9' is not in the block"):
        blocks("<!-- in the tests: m=9 -> m=1 -->\n```python\nf(n=9)\n```\n")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target
