"""A verb is one file: of three options, two of which exclude each other, the check of a call, the
command with its help, the page's request, and the reference follow from the signature.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

VERB = '''"""`count`: how long a text is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from unmask.common.border.calls import checked
from unmask.common.border.marks import Only
from unmask.common.results import Result
from unmask.runs.progress import Progress


@dataclass(frozen=True)
class Count(Result):
    """A number of letters or words."""

    number: int


@checked
def count(
    text: str,
    *,
    words: bool = False,
    at_most: Annotated[Annotated[int, Interval(ge=1)] | None, Only(beside=("words",))] = None,
    letter: Annotated[str | None, Only(without=("words",))] = None,
    progress: Progress | None = None,
) -> Count:
    """Count the letters of a text.

    Parameters:
        text: A text.
        words: Count words.
        at_most: The most words to count.
        letter: Count this letter alone.
    """
    if words:
        return Count(min(len(text.split()), at_most or len(text)))
    return Count(text.count(letter) if letter else len(text))
'''

DECLARED = 'Annotated[str | None, Only(without=("words",))]'

CHECK = """
import json

import griffe
import pytest

import unmask
from support.command_runner import invoke
from unmask.common.errors import InputError
from unmask.surfaces.serving.requests import ENDPOINTS, Endpoint, Text, request

# The check of a call.
assert unmask.count("a cat", words=True, at_most=1).number == 1
assert unmask.count("a cat", letter="a").number == 2
refusals = {
    "letter is not used with words: leave one of the two out": {"words": True, "letter": "a"},
    "at_most is used only with words: give words, or leave it out": {"at_most": 1},
    "at_most 0 is out of range: give a number greater than or equal to 1": {"at_most": 0},
}
for message, options in refusals.items():
    with pytest.raises(InputError) as error:
        unmask.count("a cat", **options)
    assert str(error.value) == message
unmask.count("a cat", words=False, letter="a")  # what is not given conflicts with nothing

# The command: each name as it is written there.
assert json.loads(invoke(["count", "a cat", "--words", "--json"]).stdout) == {"number": 2}
typed = {
    "error: --letter is not used with --words: leave one of the two out": ["--words", "--letter=a"],
    "error: --at-most is used only with --words: give --words, or leave it out": ["--at-most=1"],
}
for line, words in typed.items():
    done = invoke(["count", "a cat", *words])
    assert (done.exit_code, done.stderr.strip()) == (2, line)
page = " ".join(invoke(["count", "--help"]).stdout.replace("│", " ").split())
assert "The most words to count. [with --words]" in page
assert "Count this letter alone. [not with --words]" in page

# The page's request.
types = {"text": Text, "words": None, "at_most": None, "letter": None}
ENDPOINTS["count"] = Endpoint(verb="count", types=types, example={"text": "a cat"})
fields = request("count").model_fields
assert fields["letter"].description == "Count this letter alone. [not with words]"
assert fields["letter"].default is None and fields["text"].is_required()

# The reference, and Python's help.
extensions = griffe.load_extensions("dataclasses", "tools/docstring_tables.py")
package = griffe.load("unmask", search_paths=["src"], docstring_parser="numpy",
                      extensions=extensions, force_inspection=False)
shown = package["verbs.count.count"].docstring.value
assert "The most words to count. [with words]" in shown, shown
assert "letter: Count this letter alone. [not with words]" in unmask.count.__doc__
"""


def run_with_verb(folder: Path, verb: str) -> subprocess.CompletedProcess[str]:
    """The check, with this file as one more verb of a copy of the source."""
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.safetensors")
    shutil.copytree(ROOT / "src", folder / "src", ignore=left_out)
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "docstring_tables.py", folder / "tools")
    (folder / "src" / "unmask" / "verbs" / "count.py").write_text(verb)
    stub = folder / "src" / "unmask" / "__init__.pyi"
    stub.write_text(stub.read_text() + "from .verbs.count import count as count\n")
    paths = os.pathsep.join([str(folder / "src"), str(ROOT / "tests")])
    return subprocess.run(
        [sys.executable, "-c", CHECK],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": paths},
    )


def test_everything_follows_from_one_file(tmp_path):
    pytest.importorskip("griffe")
    done = run_with_verb(tmp_path, VERB)
    assert done.returncode == 0, done.stderr


def test_the_check_finds_a_conflict_that_is_not_declared(tmp_path):
    pytest.importorskip("griffe")
    done = run_with_verb(tmp_path, VERB.replace(DECLARED, "str | None"))
    assert done.returncode != 0
    assert "DID NOT RAISE" in done.stderr
