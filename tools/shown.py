"""What README and docs/ show is what comes: runs their commands and snippets, and compares or
renews the output beside them.

    python tools/shown.py [DOCUMENT ...]      runs everything again, and puts what comes in the
                                              place of what was shown (with
                                              UNMASK_ANTIBERTY=FOLDER also what needs AntiBERTy)

In a document,

    ```bash                       commands, one per line; all blocks of a document run in one
                                  folder and one process
    ```console                    a `$ command`, then what it prints
    ```python                     a snippet

If a ```text block follows commands or a snippet at once, that is what they print, and the value
of the snippet's last line. A comment on the line before a block says otherwise:

    <!-- in the tests: sweeps=50 -> sweeps=2; n=9 -> n=1 -->
            the tests run it with smaller settings, and compare no output
    <!-- not compared: why -->    runs as it stands; what it prints depends on the machine
    <!-- the file: my.py -->      the snippet is not run: it is put into this file, which commands
                                  and snippets below read
    <!-- not run: why -->         one of `REASONS`; its commands are parsed, and the files that
                                  it names must be known

A number in prose that a command prints is held to it by a comment on the line before its
paragraph, list or table:

    <!-- numbers 16.3; 7.2: shown above -->           the output of a block above on the page
                                                      has these numbers of the paragraph
    <!-- numbers 1,321; 37,041: COMMAND -->           so has what this command prints, run after
                                                      the blocks above (with a line `<!-- not
                                                      run: why -->` before it, as before a
                                                      block)
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(
    r"(?P<notes>(?:^ *<!-- [^\n]*? -->\n)*)^ *```(?P<kind>bash|console|python|r)\n(?P<code>.*?)^"
    r" *```$"
    r"(?P<out>\n+ *```text\n(?P<text>.*?)^ *```$)?",
    re.DOTALL | re.MULTILINE,
)
CLAIM = re.compile(
    r"(?:^ *<!-- not run: (?P<reason>[^\n]*?) -->\n)?^ *<!-- numbers (?P<numbers>[^:\n]+):"
    r" (?P<source>[^\n]+?) -->\n"
    r"(?P<paragraph>(?:^.*\S.*\n)+)",
    re.MULTILINE,
)
ABOVE = "shown above"
KINDS = ("bash", "console", "python", "r", "text", "json", "math", "diff", "toml")
"""All kinds of blocks; those after `r` are not run."""
REASONS = {
    "takes long": "pytest -m slow runs it",
    "needs AntiBERTy": "make test-real runs it",
    "needs a GPU": "or several",
    "needs data": "files of others, listed in docs/results.md or named on the page",
    "needs a download": "of a model or a package",
    "needs several machines": "or an account elsewhere",
    "needs a server": "that runs until it is stopped",
    "needs R": "and reticulate",
    "sets up": "an environment, or runs all that is checked in it",
    "part of a function": "that shows how code is written",
}
"""Why a block is not run with the others."""
COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|(?<![\w.])\.\d+")
WIDTH = "80"
NEAR = 0.02


@dataclass(frozen=True)
class Block:
    """A piece of a document that a reader can run.

    kind      bash, console, python or r
    code      the commands, or the snippet, as written
    shown     the text block after a snippet; None where there is none
    changed   the code as the tests run it
    compared  whether its output must be what is shown
    reason    why it is not run, one of `REASONS`; empty if it is
    file      the file that it is the content of; empty if it is run
    """

    kind: str
    code: str
    shown: str | None
    changed: str
    compared: bool
    reason: str
    file: str = ""


def blocks(text: str) -> list[Block]:
    """The commands and snippets of a document."""
    return [block_of(match) for match in BLOCK.finditer(text)]


def block_of(match: re.Match[str]) -> Block:
    """What a match of `BLOCK` says."""
    code, shown = textwrap.dedent(match["code"]), match["text"]
    notes = dict(
        note.partition(": ")[::2] for note in re.findall(r"<!-- (.*?) -->", match["notes"])
    )
    changed, reason = code, notes.get("not run", "")
    for change in filter(None, notes.get("in the tests", "").split("; ")):
        old, _, new = (part.strip() for part in change.partition("->"))
        assert changed.count(old) == 1, f"{old!r} is not in the block once"
        changed = changed.replace(old, new)
    assert not reason or reason in REASONS, f"{reason!r} is not one of {', '.join(REASONS)}"
    compared = changed == code and "not compared" not in notes
    return Block(
        kind=match["kind"],
        code=code,
        shown=shown and textwrap.dedent(shown),
        changed=changed,
        compared=compared,
        reason=reason,
        file=notes.get("the file", ""),
    )


@dataclass(frozen=True)
class Claim:
    """Numbers in prose that an output has.

    numbers   as the prose writes them
    command   prints them; empty if a block above shows them
    above     all outputs that the page shows above
    after     how many blocks stand above
    reason    why the command is not run, one of `REASONS`; empty if it is
    """

    numbers: tuple[str, ...]
    command: str
    above: str
    after: int
    reason: str


def claims(text: str) -> list[Claim]:
    """The numbers in a document's prose that comments hold to an output."""
    found = []
    for match in CLAIM.finditer(text):
        numbers = tuple(match["numbers"].split("; "))
        missing = [
            number for number in numbers if number not in written_numbers(match["paragraph"])
        ]
        assert not missing, f"the paragraph after {match[0].splitlines()[0]!r} has no {missing[0]}"
        above = [one for one in BLOCK.finditer(text) if one.end() <= match.start()]
        shown = [output_of(one) for one in above if block_of(one).compared]
        command = "" if match["source"] == ABOVE else match["source"]
        reason = match["reason"] or ""
        assert not reason or reason in REASONS, f"{reason!r} is not one of {', '.join(REASONS)}"
        found.append(
            Claim(
                numbers=numbers,
                command=command,
                above="\n".join(shown),
                after=len(above),
                reason=reason,
            )
        )
    return found


def output_of(match: re.Match[str]) -> str:
    """What the document shows of a block's output, without its commands."""
    if match["kind"] == "console":
        return "\n".join(one["output"] for one in COMMAND.finditer(match["code"]))
    return match["text"] or ""


def written_numbers(text: str) -> list[str]:
    """The numbers of a text, as it writes them."""
    return [number.rstrip(",") for number in NUMBER.findall(text)]


def has_number(output: str, written: str) -> bool:
    """Whether an output has this number, without its sign: a whole number exactly, another to
    one unit of its last place.

    Prose rounds; the output may have more places.
    """
    number = abs(float(written.replace(",", "")))
    places = len(written.partition(".")[2])
    allowed = 10.0**-places if places else 0.5
    found = (abs(float(one.replace(",", ""))) for one in written_numbers(output))
    return any(abs(one - number) < allowed for one in found)


def commands(block: Block) -> list[tuple[str, str]]:
    """The commands of a block as the tests run them, each with what the document shows of its
    output.
    """
    if block.kind == "console":
        return [(one["command"], one["output"]) for one in COMMAND.finditer(block.changed)]
    if block.kind != "bash":
        return []
    lines = re.sub(r"\\\n\s*|(?<=\|)\n\s*", " ", block.changed).splitlines()
    return [(line, "") for line in lines if line.strip() and not line.startswith("#")]


class Session:
    """Runs the blocks of a document one after the other, in one folder and with one set of
    names and shell variables.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.variables: dict[str, str] = {}

    def run(self, block: Block) -> str:
        """What a block prints."""
        if block.file:
            Path(block.file).write_text(block.changed, encoding="utf-8")
            return ""
        if block.kind == "python":
            return self.snippet(block.changed)
        return "".join(self.command(command) for command, _ in commands(block))

    def command(self, command: str) -> str:
        """What a shell command prints; `unmask` and scripts of this repository run in this
        process, which has the model.
        """
        if assigned := re.fullmatch(r"(\w+)=(\S*)", command):
            self.variables[assigned[1]] = assigned[2]
            return ""
        plain, *rest = simple_commands(command)
        script = plain[0] == "python" and (ROOT / plain[1]).is_file()
        if rest or not (plain[0] == "unmask" or script) or re.match(r"\w+=", command):
            return self.shell(command)
        command, _, file = re.sub(r"\s#.*", "", command).partition(" > ")
        words = self.shell(f"printf '%s\\n' {command}").splitlines() if "$" in command else plain
        came = script_prints(words[1:]) if script else unmask_prints(words[1:])
        if not file:
            return came
        Path(file.strip()).write_text(came, encoding="utf-8")
        return ""

    def shell(self, command: str) -> str:
        """What a shell prints."""
        modules = {
            "unmask": "unmask",
            "pip": "pip",
            "torchrun": "torch.distributed.run",
            "unmask-lm-eval": "unmask.surfaces.cli.lm_eval",
        }
        own = {"python": "", **{name: f"-m {module}" for name, module in modules.items()}}
        set_up = "".join(
            f'{name}() {{ "{sys.executable}" {how} "$@"; }}; ' for name, how in own.items()
        )
        done = subprocess.run(
            ["bash", "-ec", set_up + command],
            capture_output=True,
            text=True,
            env=os.environ | self.variables,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def snippet(self, code: str) -> str:
        """What a snippet prints, and the value of its last line if that is an expression, as a
        notebook shows it.
        """
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, "snippet", "exec"), self.names)
            value = (
                None
                if last is None
                else eval(compile(ast.Expression(last.value), "snippet", "eval"), self.names)
            )
            if value is not None:
                print(repr(value))
        return printed.getvalue()


def unmask_prints(words: list[str]) -> str:
    """What `unmask` prints to standard output with these arguments, 80 columns wide."""
    from unmask.surfaces.cli.app import run

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), patch.dict(os.environ, COLUMNS=WIDTH):
        code = run(words)
    assert code == 0, f"unmask {shlex.join(words)}\n{printed.getvalue()}"
    return printed.getvalue()


def script_prints(words: list[str]) -> str:
    """What a script of this repository prints with these arguments."""
    before, sys.argv = sys.argv, words
    printed = io.StringIO()
    sys.path.insert(0, str((ROOT / words[0]).parent))
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(ROOT / words[0]), run_name="__main__")
    finally:
        sys.argv = before
        del sys.path[0]
    return printed.getvalue()


def simple_commands(line: str) -> list[list[str]]:
    """The words of each command of a line, without variables before it, its redirections and
    comments.
    """
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in (words := iter(lexer)):
        if word in ("<", ">", ">>"):
            next(words)
        elif set(word) <= set("|&;()"):
            found.append([])
        elif found[-1] or not re.match(r"\w+=", word):
            found[-1].append(word)
    return [words for words in found if words]


def parse(words: list[str]) -> None:
    """Raise if a command has an unknown option or an invalid value, or names a script or target
    that does not exist.
    """
    if words[0] == "torchrun" and "unmask" in words:
        words = words[words.index("unmask") :]
    if words[0] == "unmask":
        parse_unmask(words[1:])
    elif words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert all(
            re.search(rf"^{word}:", makefile, re.MULTILINE) for word in words[1:] if "=" not in word
        ), words
    elif words[0] == "python" and words[1].startswith(("bench/", "docs/", "tools/")):
        parse_script(words[1:])


def parse_unmask(words: list[str]) -> None:
    """Raise if `unmask` does not take these arguments; the command itself does not run."""
    from unmask.common.border.declarations import hints
    from unmask.common.border.values import accepted
    from unmask.surfaces.cli import command
    from unmask.surfaces.cli.app import run

    def without_running(
        name: str, function: Any, run: Any, extra: Sequence[Any] = (), **further: Any
    ) -> Any:
        def check(given: dict[str, Any]) -> None:
            for one, annotation in hints(function).items():
                if one in given:
                    accepted(one, given[one], annotation)

        return command.command(name, function, check, extra, **further)

    printed = io.StringIO()
    with (
        contextlib.redirect_stderr(printed),
        contextlib.redirect_stdout(printed),
        patch("unmask.surfaces.cli.app.command", without_running),
        patch("unmask.surfaces.cli.lab.command", without_running),
    ):
        code = run(words)
    assert code == 0, f"unmask {shlex.join(words)}\n{printed.getvalue()}"


def parse_script(words: list[str]) -> None:
    """Raise if a script of this repository does not take these arguments; stops where it has
    read them.
    """

    class Read(Exception):
        pass

    def stop(*parsed: Any) -> NoReturn:
        original(*parsed)
        raise Read

    original, argparse.ArgumentParser.parse_args = argparse.ArgumentParser.parse_args, stop
    try:
        if "argparse" in (ROOT / words[0]).read_text(encoding="utf-8"):
            script_prints(words)
    except Read:
        pass
    except SystemExit as error:
        raise AssertionError(f"{shlex.join(words)}: {error}") from error
    finally:
        argparse.ArgumentParser.parse_args = original


def tidy(text: str) -> str:
    """Without spaces at the ends of lines, and one newline at the end."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


def same(shown: str, came: str) -> bool:
    """Whether two outputs say the same: equal words in equal order, and numbers within 2 % or
    two units of their last place.

    Other processors round otherwise; another token, another order or a wrong number is told.
    Only the end is shown after `...`.
    """
    if shown.startswith("...\n"):
        shown = shown.removeprefix("...\n")
        came = " ".join(came.split()[-len(shown.split()) :])
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


def downloaded_antiberty(folder: str) -> dict[str, str]:
    """The environment in which pip takes AntiBERTy from where `make test-real` has put it, with
    this folder of its model.
    """
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(Path(folder).resolve().parents[2])}


def renewed(text: str, reasons: Sequence[str] = ("", "takes long")) -> str:
    """The document with the output of now, of blocks that are run or not run for one of these
    reasons.
    """
    session = Session()

    def again(match: re.Match[str]) -> str:
        block = block_of(match)
        if block.reason not in reasons:
            return match[0]
        if block.kind == "console":
            return match[0].replace(block.code, COMMAND.sub(printed, block.code))
        if block.shown is None:
            session.run(block)
            return match[0]
        came = session.run(replace(block, changed=block.code))
        return match[0].replace(match["out"], f"\n\n```text\n{tidy(came)}```")

    def printed(one: re.Match[str]) -> str:
        came = session.command(one["command"])
        if one["output"].startswith("..."):
            came = "...\n" + "".join(
                came.splitlines(keepends=True)[1 - len(one["output"].splitlines()) :]
            )
        return f"$ {one['command']}\n{tidy(came) if came.strip() else ''}"

    return BLOCK.sub(again, text)


if __name__ == "__main__":
    reasons = ["", "takes long"]
    if folder := os.environ.get("UNMASK_ANTIBERTY"):
        os.environ |= downloaded_antiberty(folder)
        reasons.append("needs AntiBERTy")
    for document in [Path(name).resolve() for name in sys.argv[1:]] or DOCUMENTS:
        before = document.read_text(encoding="utf-8")
        with fresh_folder():
            after = renewed(before, reasons)
        if after != before:
            document.write_text(after, encoding="utf-8")
            print(f"{document.relative_to(ROOT)}: renewed")
