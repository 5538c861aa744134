"""Every option of every command with every hostile word, typed in a process of its own.

Run as a program, it prints as JSON what broke the law: a command ends with 0 or 1 (a part of
the work failed), or with 2 and one line on standard error, besides warnings, that says what to
do. It says nothing of a traceback, ends in SECONDS, and leaves the files that were there before
as they were.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from support import flat
from unmask.common.border.options import Option, options

# Loaded once, before the processes part.
from unmask.surfaces.cli import app, command, lab, printing  # noqa: F401
from unmask.verbs import VERBS, verb

WORDS = [
    "",
    " ",
    "-1",
    "0",
    "1.5",
    "nan",
    "-inf",
    "1e999",
    "1" * 5000,
    "²",
    "x",
    ",",
    "1,,2",
    "9=cat",
    "[MASK]",
    "{",
    "café",
    "/nowhere/x",
    "/dev/null",
    ".",
    "\n",
    "--json",
    "-",
]
SECONDS = 600


def bases(model: str, folder: Path) -> dict[str, list[str]]:
    """A command line of each command that works, and is quick."""
    texts = folder / "texts.txt"
    texts.write_text("the cat sat on the mat .\na dog ran under the tree .\n" * 20)
    variants = folder / "variants.csv"
    variants.write_text("mutant,y\ncat2dog,1\ncat2mat,2\ncat2tree,4\n")
    minimal = folder / "pairs.csv"
    minimal.write_text("good,bad\nthe cat sat .,cat the sat .\n")
    small = {
        "layers": 1,
        "width": 16,
        "heads": 1,
        "vocab": 80,
        "max_length": 32,
        "batch_tokens": 128,
        "valid_share": 0.2,
    }
    pairs = flat.train(
        None,
        parallel=[["the cat", "a dog"] * 20] * 2,
        **small,
        steps=1,
        out=folder / "pairs",
        device="cpu",
    ).out
    run = folder / "run"
    assert (
        app.run(
            [
                "sample",
                "--model",
                model,
                "--chains",
                "2",
                "--sweeps",
                "2",
                "--length",
                "3",
                "--out",
                str(run),
            ]
        )
        == 0
    )
    own = [
        word
        for name, value in small.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    lines = {
        "fill": ["the [MASK] [MASK]", "--top", "2"],
        "compare": ["the [MASK] [MASK]", "--constructions", "product,chain"],
        "dependence": ["the cat sat"],
        "profile": [str(texts), "--candidates", "2"],
        "mutants": ["the cat sat", "--positions", "2", "--alphabet", "cat,dog"],
        "assay": ["the cat sat", str(variants), "--alphabet", "cat,dog,mat,tree"],
        "score": ["the cat sat"],
        "minimal_pairs": [str(minimal)],
        "check": [],
        "evaluate": [str(texts), "--pairs", "2", "--constructions", "product"],
        "frontier": [
            str(texts),
            "--length",
            "3",
            "--decoders",
            "random-sets",
            "--passes",
            "2",
        ],
        "sample": ["--chains", "2", "--sweeps", "2", "--length", "3"],
    }
    bound = {
        name: [app.command_name(name), *line, "--model", model] for name, line in lines.items()
    }
    bound["diagnose"] = ["diagnose", str(run)]
    bound["train"] = ["train", str(texts), *own, "--steps", "1", "--out", "new"]
    bound["translate"] = ["translate", str(texts), "--model", str(pairs)]
    bound["serve"] = ["serve", "--model", model, "--port", "70000"]
    bound["lab parallel"] = [
        "lab",
        "parallel",
        "--sites",
        "3",
        "--out",
        "lab",
    ]  # all studies share their options
    return bound


def cases(model: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """(name, words) of every command line."""
    for name, line in bases(model, folder).items():
        function = lab.STUDIES[name.removeprefix("lab ")] if name.startswith("lab ") else verb(name)
        for option in options(function):
            for number, word in enumerate(WORDS):
                if (name, option.name, word) == ("serve", "port", "0"):  # any free port: it serves
                    continue
                yield f"{name} {option.name} {number}", with_option(line, option, word)


def with_option(line: list[str], option: Option, word: str) -> list[str]:
    """The line with this word as the option's value, in the place of the one that it has."""
    if option.positional:
        rest = line[2:] if line[1:] and not line[1].startswith("--") else line[1:]
        return [line[0], *rest, "--", word] if word.startswith("-") else [line[0], word, *rest]
    long = f"--{option.name.replace('_', '-')}"
    at = line.index(long) if long in line else len(line)
    return [*line[:at], *line[at + 2 :], f"{long}={word}"]


def ended(words: list[str], folder: Path) -> tuple[int | None, str]:
    """The exit code (None: too late) and what is on standard error of a command, in a copy of
    this process.
    """
    errors = folder.parent / "errors"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for number, path in enumerate((os.devnull, os.devnull, errors)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        code = 99
        try:
            code = app.run(words)
        except BaseException as error:
            print(f"Traceback {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    until = time.monotonic() + SECONDS
    while (state := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < until:
        time.sleep(0.005)
    if state == (0, 0):
        os.kill(child, 9)
        os.waitpid(child, 0)
        return None, ""
    return os.waitstatus_to_exitcode(state[1]), errors.read_text(errors="replace")


def fault(code: int | None, errors: str) -> str | None:
    """How a command's end breaks the law."""
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    if code in (0, 1) and "Traceback" not in errors:
        return None
    if (
        code == 2
        and len(lines) == 1
        and ":" in lines[0][7:]
        and len(lines[0]) < 1000
        and "Traceback" not in errors
    ):
        return None
    return f"exit code {code}: {errors[-300:]}"


def sweep(model: str, folder: Path) -> dict[str, object]:
    """How many command lines were tried, and the faults by name."""
    every = list(cases(model, folder))
    files = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    faults: dict[str, str] = {}
    for name, words in every:
        code, errors = ended(words, folder / "work")
        if problem := fault(code, errors):
            faults[name] = f"{[word[:80] for word in words]} {problem}"
            print(name, faults[name], file=sys.stderr, flush=True)
    changed = [
        str(path)
        for path, content in files.items()
        if not path.is_file() or path.read_bytes() != content
    ]
    control = [
        fault(1, "Traceback"),
        fault(2, ""),
        fault(2, "error: no\n"),
        fault(None, ""),
        fault(-11, ""),
    ]
    return {
        "tried": len(every),
        "commands": [*VERBS],
        "faults": faults,
        "changed": changed,
        "control": control,
    }


if __name__ == "__main__":
    print(json.dumps(sweep(sys.argv[1], Path(sys.argv[2]))))
