"""A folder of things that strangers give: texts, models and files, good and bad, and how a
refusal is checked.
"""

import gzip
import shlex
import shutil

import pytest

from support import command_runner
from support.bad_models import MODELS

LINES = [
    "the cat sat on the mat .",
    "a dog ran under the tree .",
    "the dog sat .",
    "a cat ran on the mat .",
]


@pytest.fixture(scope="session")
def world(tmp_path_factory, tiny_folder):
    """The folder; `model` in it is a good model."""
    folder = tmp_path_factory.mktemp("world")
    shutil.copytree(tiny_folder, folder / "model")
    (folder / "folder").mkdir()
    (folder / "folder-of-mine").mkdir()
    (folder / "folder-of-mine" / "thesis.txt").write_text("years of work")
    (folder / "texts.txt").write_text("\n".join(LINES) + "\n")
    (folder / "empty.txt").write_text("")
    (folder / "latin1.txt").write_bytes("the café sat\n".encode("latin-1"))
    (folder / "corrupt.txt.gz").write_bytes(gzip.compress(b"the cat sat\n" * 200)[:30])
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    for name, change in MODELS.items():
        shutil.copytree(folder / "model", folder / name)
        change(folder / name)
    return folder


@pytest.fixture
def places(world, tmp_path, tmp_path_factory, monkeypatch):
    """What {world}, {model} and {new} are in a command line; commands are given in an empty
    folder, with no network.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp()))  # caches may be made there
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return {"world": world, "model": world / "model", "new": tmp_path / "new"}


@pytest.fixture
def refused(places):
    """refused(line): the one line that a command ends in; {world} and such in its words are
    `places`.
    """

    def run(line, text=None):
        words = shlex.split(line) if isinstance(line, str) else list(line)
        for name, place in places.items():
            words = [word.replace(f"{{{name}}}", str(place)) for word in words]
        before = trees(places)
        message = command_runner.refused(words, text)
        assert trees(places) == before, "something was written or lost"
        return message

    return run


def trees(places):
    """Every file of the world, and of the folder in which commands are given, with size and
    date.
    """
    folders = (places["world"], places["new"].parent)
    return {
        str(p): (p.lstat().st_size, p.lstat().st_mtime_ns)
        for folder in folders
        for p in sorted(folder.rglob("*"))
    }
