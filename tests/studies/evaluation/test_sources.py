"""Texts from files, lists and the hub."""

import sys
from types import ModuleType

import pytest

import unmask
from unmask.common.errors import InputError
from unmask.studies.evaluation.sources import read_texts


def test_a_text_file_has_one_text_per_line(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffA first line.\r\n\n  Zwei Wörter \nno end\u2028of line here".encode())
    assert [t.text for t in read_texts(str(path))] == [
        "A first line.",
        "Zwei Wörter",
        "no end\u2028of line here",
    ]


def test_a_list_is_a_dataset_too(monkeypatch, tmp_path):
    assert [t.text for t in read_texts(["One.", "Two."])] == ["One.", "Two."]
    for bad, message in (
        ([], "empty list"),
        (["a", 3], "is not valid: give a text as item 2"),
        (["\ud800"], "1 texts skipped: the tokenizer refuses it"),
    ):
        with pytest.raises(InputError, match=message):
            unmask.evaluate(bad)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "texts.txt").write_text("At home.\n")
    assert [t.text for t in read_texts("~/texts.txt")] == ["At home."]


def test_a_name_goes_through_the_package_datasets(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    requests = []
    hub = ModuleType("datasets")
    table = {"premise": ["One.", "Two."], "hypothesis": ["Two.", "n"]}
    hub.load_dataset = lambda name, split, revision: requests.append((name, split)) or table
    monkeypatch.setitem(sys.modules, "datasets", hub)
    assert [t.text for t in read_texts("snli")] == ["One.", "Two.", "n"]
    assert requests == [("stanfordnlp/snli", "validation")]


def test_a_name_without_the_package_or_the_network_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r'pip install "unmask\[hub\]"'):
        read_texts("xsum")
    hub = ModuleType("datasets")

    def unreachable(name, split, revision):
        raise ConnectionError("no route\nto the hub")

    hub.load_dataset = unreachable
    monkeypatch.setitem(sys.modules, "datasets", hub)
    with pytest.raises(InputError, match=r"could not be fetched \(no route\): give a text file"):
        read_texts("xsum")
