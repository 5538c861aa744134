"""What README and docs/ show is what comes: runs their commands and snippets, and compares or renews the output beside them.

    python tools/shown.py [DOCUMENT ...]      runs everything again, and puts what comes in the place of what was shown

In a document,

    ```console                    a `$ command`, then what it prints; one folder and one process for all commands of a document
    ```python                     runs; if a ```text block follows at once, that is what it prints, and the value of its last line

A comment on the line before a block says otherwise:

    <!-- in the tests: sweeps=50 -> sweeps=2; n=9 -> n=1 -->     the tests run it with smaller settings, and compare no output
    <!-- not compared: why -->    runs as it stands; what it prints depends on the machine
    <!-- not run: why -->
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- (?P<note>.*?) -->\n)?^```(?P<kind>console|python)\n(?P<code>.*?)^```$(?P<out>\n+```text\n(?P<text>.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|(?<![\w.])\.\d+")
WIDTH = "80"
NEAR = 0.02


@dataclass(frozen=True)
class Block:
    """A piece of a document that is run.

    kind      console or python
    code      the commands, or the snippet, as written
    shown     the text block after a snippet; None where there is none
    changed   the code as the tests run it
    compared  whether its output must be what is shown
    reason    why it is not run; empty if it is
    """

    kind: str
    code: str
    shown: str | None
    changed: str
    compared: bool
    reason: str


def blocks(text: str) -> list[Block]:
    """The commands and snippets of a document."""
    return [block_of(match) for match in BLOCK.finditer(text)]


def block_of(match: re.Match[str]) -> Block:
    """What a match of `BLOCK` says."""
    note, code = match["note"] or "", match["code"]
    changed = code
    if note.startswith("in the tests: "):
        for change in note.removeprefix("in the tests: ").split(";"):
            old, _, new = (part.strip() for part in change.partition("->"))
            assert changed.count(old) == 1, f"{old!r} is not in the block once"
            changed = changed.replace(old, new)
    reason = note.removeprefix("not run: ") if note.startswith("not run: ") else ""
    compared = changed == code and not note.startswith("not compared: ")
    return Block(match["kind"], code, match["text"], changed, compared, reason)


class Session:
    """Runs the blocks of a document one after the other, in one folder and with one set of names."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def command(self, command: str) -> str:
        """What a shell command prints; `unmask` alone runs in this process, which has the model already."""
        words = shlex.split(command.replace("\\\n", " "))
        if words[0] == "unmask" and not set(words) & {"|", ">", "<", "&&", ";"}:
            return unmask_prints(words[1:])
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def snippet(self, code: str) -> str:
        """What a snippet prints, and the value of its last line if that is an expression, as a notebook shows it."""
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, "snippet", "exec"), self.names)
            value = None if last is None else eval(compile(ast.Expression(last.value), "snippet", "eval"), self.names)
            if value is not None:
                print(repr(value))
        return printed.getvalue()


def unmask_prints(words: list[str]) -> str:
    """What `unmask` prints to standard output with these arguments, 80 columns wide."""
    from typer.testing import CliRunner

    from unmask.cli.app import app

    done = CliRunner().invoke(app, words, env={"COLUMNS": WIDTH}, catch_exceptions=False, prog_name="unmask")
    assert done.exit_code == 0, f"unmask {shlex.join(words)}\n{done.output}"
    return done.stdout


def tidy(text: str) -> str:
    """Without spaces at the ends of lines, and one newline at the end."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


def same(shown: str, came: str) -> bool:
    """Whether two outputs say the same: equal words in equal order, and numbers within 2 % or two units of their last place.

    Other processors round otherwise; another token, another order or a wrong number is told.
    """
    if NUMBER.sub("0", shown).split() != NUMBER.sub("0", came).split():
        return False
    return all(near(a, b) for a, b in zip(NUMBER.findall(shown), NUMBER.findall(came), strict=True))


def near(shown: str, came: str) -> bool:
    """Whether a number is the one shown, up to rounding."""
    a, b = (float(text.replace(",", "").rstrip(".")) for text in (shown, came))
    unit = 10.0 ** -len(shown.partition("e")[0].partition(".")[2]) if "." in shown else 1.0
    return abs(a - b) <= max(NEAR * abs(a), 2 * unit if "." in shown else 0.0)


@contextlib.contextmanager
def fresh_folder() -> Iterator[None]:
    """A new working folder, and the old one again."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def renewed(text: str) -> str:
    """The document with the output of now."""
    session = Session()

    def again(match: re.Match[str]) -> str:
        block = block_of(match)
        if block.reason:
            return match[0]
        whole = match[0]
        if block.kind == "console":
            return whole.replace(block.code, COMMAND.sub(lambda one: f"$ {one[1]}\n{printed(one[1])}", block.code))
        came = session.snippet(block.code)
        return whole if block.shown is None else whole.replace(match["out"], f"\n\n```text\n{tidy(came)}```")

    def printed(command: str) -> str:
        came = session.command(command)
        return tidy(came) if came.strip() else ""

    return BLOCK.sub(again, text)


if __name__ == "__main__":
    for document in [Path(name).resolve() for name in sys.argv[1:]] or DOCUMENTS:
        before = document.read_text(encoding="utf-8")
        with fresh_folder():
            after = renewed(before)
        if after != before:
            document.write_text(after, encoding="utf-8")
            print(f"{document.relative_to(ROOT)}: renewed")
