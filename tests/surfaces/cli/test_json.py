"""JSON has no infinities: every command prints them as the words that every file has."""

import json
from functools import wraps
from math import inf, nan
from types import SimpleNamespace

import pytest

import unmask
from support.command_runner import invoke
from unmask import lab
from unmask.common.files import as_json, read_object, write_json

VALUES = {"impossible": -inf, "inside": [{"unbounded": inf}, (nan, 0.5)], "text": "∞ ü"}
WORDS = {
    "impossible": "-Infinity",
    "inside": [{"unbounded": "Infinity"}, ["NaN", 0.5]],
    "text": "∞ ü",
}
COMMANDS = {
    "fill": ["a [MASK]."],
    "compare": ["a [MASK] [MASK]."],
    "dependence": ["a b c"],
    "profile": ["texts.txt"],
    "mutants": ["a b c", "--positions", "all"],
    "assay": ["a b c", "variants.csv"],
    "check": [],
    "score": ["a b"],
    "minimal-pairs": ["pairs.csv"],
    "sample": [],
    "diagnose": ["."],
    "evaluate": ["texts.txt", "--out", "out"],
    "frontier": ["texts.txt", "--out", "out"],
    "train": ["texts.txt", "--out", "out"],
    "lab": ["dependence"],
}


def answers(*args, **options):
    """Stands for the function of any verb."""
    return SimpleNamespace(
        to_dict=lambda: VALUES,
        notices=list,
        complete=True,
        rows=[],
        status="finished",
        finished=True,
    )


def test_a_file_has_words(tmp_path):
    write_json(tmp_path / "values.json", VALUES)
    assert (
        read_object(tmp_path / "values.json")
        == WORDS
        == json.loads(as_json(VALUES, indent=None, ascii=True))
    )
    assert "\n" not in as_json(VALUES, indent=None)
    assert as_json(VALUES, ascii=True).isascii()


def answering(verb):
    """A function of the signature of a verb that answers the same to everything."""

    @wraps(verb)
    def function(*arguments, **options):
        return answers()

    if hasattr(verb, "of_text"):
        function.of_text = lambda text, **options: iter([answers()])
    return function


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_command_prints_the_words_of_files(verb, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("a b\n")
    if verb == "lab":
        monkeypatch.setattr(lab, "dependence", answers)
    else:
        name = verb.replace("-", "_")
        monkeypatch.setattr(unmask, name, answering(getattr(unmask, name)))
    done = invoke([verb, *COMMANDS[verb], "--json"])
    assert json.loads(done.stdout) == WORDS, done.output
    assert done.stdout == as_json(VALUES) + "\n"
