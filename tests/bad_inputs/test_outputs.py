"""No command replaces a file that it reads or that it did not write, nor begins a run in a
folder that holds something else.
"""

import hashlib
import json
import os
import shlex
import shutil

import pytest

import unmask
from support import command_runner
from unmask.runs.folder import FORMAT

FILES = {
    "compare --figure": (
        "compare --file {input} --alphabet {words} --model {model} --figure {to}",
        ".png",
    ),
    "dependence --figure": (
        "dependence --file {input} --alphabet {words} --model {model} --figure {to}",
        ".svg",
    ),
    "profile --save": ("profile {input} --model {model} --save {to}", ".json"),
    "mutants --figure": (
        "mutants 'the cat' --mutations {input} --alphabet {words} --model {model} --figure {to}",
        ".pdf",
    ),
    "mutants --save": (
        "mutants 'the cat' --mutations {input} --alphabet {words} --model {model} --save {to}",
        ".parquet",
    ),
    "assay --save": (
        "assay 'the cat' {input} --alphabet {words} --model {model} --save {to}",
        ".csv",
    ),
    "translate --save": (
        "translate {input} --reference {words} --model {model} --save {to}",
        ".jsonl",
    ),
}
"""Options that name a file to write: the command, which reads {input}, {words} and {model}, and
how the file's name ends.
"""
FOLDERS = {
    "evaluate --out": "evaluate {input} --alphabet {words} --model {model} --out {to}",
    "frontier --out": "frontier {input} --model {model} --out {to}",
    "score --out": "score --file {input} --model {model} --out {to}",
    "minimal-pairs --out": "minimal-pairs {input} --model {model} --out {to}",
    "sample --out": "sample --start {input} --alphabet {words} --model {model} --out {to}",
    "train --out": "train {input} --valid {words} --out {to}",
    "train init --out": "train {input} --init {model} --out {to}",
    "train parallel --out": "train --parallel {input} {words} --tokenizer {model} --out {to}",
    "lab --out": "lab masking --out {to}",
}
RUNS = {
    "evaluate": "settings.json",
    "score": "settings.json",
    "sample": "settings.json",
    "train": "training/settings.json",
    "lab": "lab.json",
}


def contents(folder):
    """Every file below a folder with a hash of its bytes, and every folder and link."""
    tree = {}
    for path in sorted(folder.rglob("*")):
        kind = f"-> {os.readlink(path)}" if path.is_symlink() else "folder"
        tree[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else kind
    return tree


@pytest.fixture
def place(tmp_path, tiny_folder):
    """A folder with a model, inputs, a run of every command, and a project of somebody."""
    shutil.copytree(tiny_folder, tmp_path / "model")
    for kind, file in RUNS.items():
        path = tmp_path / f"run-{kind}" / file
        path.parent.mkdir(parents=True)
        (path.parent / "figures").mkdir()
        path.write_text(
            json.dumps({"kind": kind, "run": "1", "format": FORMAT, "begun": {}, "studies": {}})
        )
        (path.parent / "results.parquet").write_bytes(b"PAR1 numbers")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "thesis.txt").write_text("years of work")
    (tmp_path / "words.txt").write_text("cat\ndog\n")
    return tmp_path


@pytest.fixture
def refused(place, monkeypatch):
    """refused(line, ...): the one line of a command that ends with exit code 2 and changes no
    byte.
    """
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.parent / "cache"))

    def run(line, to, file):
        names = {
            "input": file,
            "words": place / "words.txt",
            "model": place / "model",
            "to": to,
            "new": place / "new",
        }
        before = contents(place)
        message = command_runner.refused([word.format(**names) for word in shlex.split(line)])
        assert contents(place) == before
        return message

    return run


def an_input(place, ending):
    path = place / f"input{ending}"
    path.write_text("the [MASK] [MASK]\n")
    return path


def linked(way, place, target, ending):
    """The file itself, or another name of it."""
    if way == "itself":
        return target
    link = place / f"link{ending}"
    link.symlink_to(target) if way == "symlink" else link.hardlink_to(target)
    return link


@pytest.mark.parametrize("way", ["itself", "symlink", "hard link"])
@pytest.mark.parametrize("option", FILES)
def test_no_file_that_is_read_is_written(place, refused, option, way):
    line, ending = FILES[option]
    file = an_input(place, ending)
    assert "read by this very command" in refused(line, linked(way, place, file, ending), file)
    refused(line, linked("itself", place, place / "model" / "config.json", ending), file)


@pytest.mark.parametrize("option", FILES)
def test_a_file_of_somebody_is_not_replaced(place, refused, option):
    line, ending = FILES[option]
    theirs = place / "project" / f"notes{ending}"
    theirs.write_text("years of work")
    assert "did not write" in refused(line, theirs, an_input(place, ending))


PLACES = ["model", *(f"run-{kind}" for kind in RUNS), "project", ".", "input"]


@pytest.mark.parametrize(
    ("option", "folder"),
    [
        (option, folder)
        for option in FOLDERS
        for folder in PLACES
        if folder != f"run-{option.split()[0]}"
    ],
)
def test_no_run_goes_into_a_model_a_project_another_run_or_a_file(place, refused, option, folder):
    file = an_input(place, ".jsonl" if "pairs" in option else ".txt")
    to = file if folder == "input" else place / folder
    refused(FOLDERS[option], to, file)
    (place / "alias").symlink_to(to)
    refused(FOLDERS[option], place / "alias", file)


def test_own_files_are_replaced(place, tiny_folder):
    """What stays allowed: a file that the command wrote itself, in a folder with other files,
    also through a link.
    """
    options = {"alphabet": "cat,dog,sat", "model": tiny_folder}
    for name in ("effects.parquet", "effects.png"):
        (place / "project" / f"link-{name}").symlink_to(place / "project" / name)
        for path in (
            place / "project" / name,
            place / "project" / name,
            place / "project" / f"link-{name}",
        ):
            unmask.mutants(
                "the cat",
                "cat2dog",
                **{"figure" if name.endswith("png") else "save": path},
                **options,
            )
        assert (place / "project" / name).stat().st_size > 100
        assert (place / "project" / f"link-{name}").is_symlink()
    assert (place / "project" / "thesis.txt").read_text() == "years of work"
