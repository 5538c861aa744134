"""Runs every `$ unmask ...` that README.md shows, and puts what it prints in the place of what it printed before.

An indented block that begins with "$ unmask" is a command and its output; a command that draws the README's figure is run too.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
SHOWN = re.compile(r"^    \$ (unmask .*)\n(?:(?:    .*)?\n)*?(?=\S)", re.MULTILINE)
FIGURE = re.compile(r"^    (unmask .* --figure .*)$", re.MULTILINE)


def output(command: str) -> str:
    """What the command prints, 80 columns wide."""
    words = [sys.executable, "-m", *shlex.split(command)]
    return subprocess.run(words, capture_output=True, text=True, check=True, cwd=README.parent).stdout


def shown_again(match: re.Match[str]) -> str:
    """The command with its output of now."""
    lines = [f"$ {match[1]}", *output(match[1]).rstrip().splitlines()]
    return "\n".join(f"    {line}".rstrip() for line in lines) + "\n\n"


if __name__ == "__main__":
    text = README.read_text()
    for drawn in FIGURE.findall(text):
        output(drawn)
    README.write_text(SHOWN.sub(shown_again, text))
