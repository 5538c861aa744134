"""A folder of things that strangers give: texts, models and files, good and bad, and how a refusal is checked."""

from __future__ import annotations

import gzip
import shutil

import pytest
from bad_models import MODELS
from refusals import SECONDS, given, refusal, trees

LINES = ["the cat sat on the mat .", "a dog ran under the tree .", "the dog sat .", "a cat ran on the mat ."]


@pytest.fixture(scope="session")
def world(tmp_path_factory, tiny_folder):
    """The folder; `model` in it is a good model."""
    folder = tmp_path_factory.mktemp("world")
    shutil.copytree(tiny_folder, folder / "model")
    (folder / "folder").mkdir()
    (folder / "folder-of-mine").mkdir()
    (folder / "folder-of-mine" / "thesis.txt").write_text("years of work")
    (folder / "texts.txt").write_text("\n".join(LINES) + "\n")
    (folder / "blanks.txt").write_text("the [MASK] sat\nthe [MASK] [MASK]\n")
    (folder / "empty.txt").write_text("")
    (folder / "latin1.txt").write_bytes("the café sat\n".encode("latin-1"))
    (folder / "zeros.txt").write_bytes(b"the \0 sat\n")
    (folder / "corrupt.txt.gz").write_bytes(gzip.compress(b"the cat sat\n" * 200)[:30])
    (folder / "deep.jsonl").write_text('{"text": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    (folder / "digits.jsonl").write_text('{"text": "the cat sat", "block": [' + "1" * 5000 + ", 2]}\n")
    (folder / "surrogate.jsonl").write_text('{"text": "the \\ud800 sat", "block": [1, 3]}\n')
    (folder / "outside.jsonl").write_text('{"text": "the cat sat", "block": [1, 77]}\n')
    (folder / "keys.jsonl").write_text('{"words": "the cat sat"}\n')
    (folder / "broken.jsonl").write_text('{"text": "the cat sat"\n')
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    for name, change in MODELS.items():
        shutil.copytree(folder / "model", folder / name)
        change(folder / name)
    return folder


@pytest.fixture
def places(world, tmp_path, tmp_path_factory, monkeypatch):
    """What {world}, {model} and {new} are in a command line; commands are given in an empty folder, with no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp()))  # caches may be made there
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return {"world": world, "model": world / "model", "new": tmp_path / "new"}


@pytest.fixture
def refused(places):
    """refused(line): the one line that a command ends in; see `refusals.refusal`."""

    def run(line, text=None, seconds=SECONDS):
        before = trees(places)
        result = given(line, places, text, seconds)
        assert result.exit_code == 2, f"exit code {result.exit_code}: {result.output[-300:]}"
        said = refusal(result)
        assert trees(places) == before, "something was written or lost"
        return said

    return run
