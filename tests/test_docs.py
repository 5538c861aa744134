"""What README and docs/ show is what comes, and every link between the documents leads somewhere; see tools/shown.py."""

from __future__ import annotations

import re
import runpy
import shlex
import tomllib
from functools import cache
from pathlib import Path

import pytest

from unmask.options import VERBS, table
from unmask.options.lab import STUDIES, AllOptions, with_output

ROOT = Path(__file__).parents[1]
SHOWN = runpy.run_path(str(ROOT / "tools" / "shown.py"), run_name="shown")
DOCUMENTS, blocks, same = SHOWN["DOCUMENTS"], SHOWN["blocks"], SHOWN["same"]
QUESTION = re.compile(r"unmask (fill|compare|score|dependence) (?!.*--(model|file|out|figure))")
"""Commands that print and do nothing else: one that several documents show is run once."""
answered = cache(SHOWN["Session"]().command)


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if blocks(path.read_text())], ids=name)
def test_commands_and_snippets_print_what_is_shown(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = SHOWN["Session"]()
    for block in blocks(document.read_text()):
        if block.reason:
            continue
        if block.kind == "console":
            for one in SHOWN["COMMAND"].finditer(block.changed):
                came = answered(one["command"]) if QUESTION.match(one["command"]) else session.command(one["command"])
                assert not block.compared or same(one["output"], came), f"$ {one['command']}\n{came}"
        else:
            came = session.snippet(block.changed)
            assert block.shown is None or not block.compared or same(block.shown, came), f"{block.code}\n{came}"


def test_the_first_pages_show_something_and_all_of_it_runs():
    for document in ("README.md", "docs/index.md", "docs/quickstart.md", "docs/tutorial.md"):
        found = blocks((ROOT / document).read_text())
        assert found and not any(block.reason for block in found)


def test_no_command_is_shown_with_output_outside_a_block_that_runs():
    for document in DOCUMENTS:
        assert not re.search(r"^    \$ ", document.read_text(), re.MULTILINE), document


def commands_of(text: str) -> list[str]:
    """The lines that begin with `unmask VERB`, in blocks that are run and in those that are not, joined where they continue."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = re.findall(r"^(?:    |\$ )?(?:\w+=\S* )*(unmask \w+.*)$", joined, re.MULTILINE)
    return [line for line in lines if line.split()[1] in VERBS and "COMMAND" not in line]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_every_command_that_is_shown_has_options_that_exist(document):
    for line in commands_of(document.read_text()):
        try:
            words = shlex.split(re.split(r"(?<!\S)[<>|;&]", line)[0], comments=True)
        except ValueError:
            continue  # an apostrophe: a sentence that begins with the name of a command
        study = STUDIES | {"all": AllOptions}
        if words[1] == "lab" and (len(words) < 3 or words[2] not in study):
            continue
        rows = with_output(study[words[2]], "lab") if words[1] == "lab" else table(words[1])
        typed = words[3:] if words[1] == "lab" else words[2:]
        known = {way for row in rows.declared() for flag in (*row.flags, row.short or "") for way in flag.split("/")}
        wrong = [word for word in typed if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known | {"--help"}]
        assert not wrong, f"{line}: {wrong}"


def test_commands_are_found_wherever_they_stand():
    text = "    unmask fill x --top 3\n$ unmask score y \\\n      --score pll\nX=1 unmask check\nunmask is a word\n"
    assert commands_of(text) == ["unmask fill x --top 3", "unmask score y --score pll", "unmask check"]
    assert sum(len(commands_of(document.read_text())) for document in DOCUMENTS) > 90


def test_blocks_are_found_changed_and_left_out():
    text = "<!-- in the tests: n=9 -> n=1; k=8 -> k=2 -->\n```python\nf(n=9, k=8)\n```\n"
    text += "<!-- not run: slow -->\n```python\ng()\n```\n\n```text\n3\n```\n\n```console\n$ unmask fill\nx\n```\n"
    text += "<!-- not compared: a clock -->\n```console\n$ date\n```\n"
    found = blocks(text)
    assert [(block.kind, block.changed, block.reason, block.shown, block.compared) for block in found] == [
        ("python", "f(n=1, k=2)\n", "", None, False),
        ("python", "g()\n", "slow", "3\n", True),
        ("console", "$ unmask fill\nx\n", "", None, True),
        ("console", "$ date\n", "", None, False),
    ]
    with pytest.raises(AssertionError, match="'m=9' is not in the block"):
        blocks("<!-- in the tests: m=9 -> m=1 -->\n```python\nf(n=9)\n```\n")


@pytest.mark.parametrize(
    ("shown", "came", "equal"),
    [
        ("29.22 %  -1.23  violin", "29.23 %   -1.23  violin", True),
        ("29.22 %  violin", "31.00 %  violin", False),
        ("29.22 %  violin", "29.22 %  drums", False),
        ("0.0079 %", "0.0078 %", True),
        ("0.0079 %", "0.079 %", False),
        ("7 passes", "9 passes", False),
        ("1 2", "1", False),
    ],
)
def test_outputs_are_compared_by_words_and_numbers(shown, came, equal):
    assert same(shown, came) is equal


def test_a_document_is_renewed():
    text = "```console\n$ echo 1\n2\n$ echo 3\n```\n\n```python\nprint(4)\n5\n```\n\n```text\nold\n```\n"
    expected = "```console\n$ echo 1\n1\n$ echo 3\n3\n```\n\n```python\nprint(4)\n5\n```\n\n```text\n4\n5\n```\n"
    assert SHOWN["renewed"](text) == expected
    assert SHOWN["renewed"](expected) == expected


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_blanks_side_by_side_are_code(document):
    """In prose Markdown takes [MASK] [MASK] for a link."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`|^    .*$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"\[[A-Z]+\] ?\[[A-Z]+\]", text), "put the text into backticks"


def test_every_dependency_is_explained():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "dependencies.md").read_text()
    extras = project["optional-dependencies"]
    for given in [*project["dependencies"], *(one for extra in extras.values() for one in extra)]:
        package = re.match(r"[\w-]+", given)[0]
        assert package == "unmask" or re.search(rf"\b{package}\b", page), package
    assert all(f"`{extra}`" in page for extra in extras)
