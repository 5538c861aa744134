from __future__ import annotations

import gzip
import sys
from types import ModuleType

import pytest

from unmask.errors import InputError
from unmask.evaluation.datasets import read_texts


def test_a_text_file_has_one_text_per_line(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffA first line.\r\n\n  Zwei Wörter \nno end\u2028of line here".encode())
    assert [t.text for t in read_texts(str(path))] == ["A first line.", "Zwei Wörter", "no end\u2028of line here"]


@pytest.mark.parametrize("name", ["two.fasta", "two.fa", "two.faa", "two.faa.gz"])
def test_fasta_sequences_may_run_over_lines(tmp_path, name):
    content = b">one|H\nEVQL\nVESG\n\n>two\nDIQM\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert [t.text for t in read_texts(tmp_path / name)] == ["EVQLVESG", "DIQM"]


def test_a_list_is_a_dataset_too(monkeypatch, tmp_path):
    assert [t.text for t in read_texts(["One.", "Two."])] == ["One.", "Two."]
    for bad, said in (([], "empty list"), (["a", 3], "item 1 of data is 3"), (["\ud800"], "half of a surrogate pair")):
        with pytest.raises(InputError, match=said):
            read_texts(bad)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "texts.txt").write_text("At home.\n")
    assert [t.text for t in read_texts("~/texts.txt")] == ["At home."]


def test_conllu_carries_its_parse(tmp_path):
    path = tmp_path / "one.conllu"
    path.write_text("# text = Go on\n1\tGo\t_\t_\t_\t_\t0\t_\t_\t_\n2\ton\t_\t_\t_\t_\t1\t_\t_\t_\n\n")
    (text,) = read_texts(str(path))
    assert text.text == "Go on" and text.parse is not None and text.parse.heads == (-1, 0)


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="neither a file nor a known name"):
        read_texts(str(tmp_path / "absent.txt"))
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(InputError, match="holds no text"):
        read_texts(str(tmp_path / "empty.txt"))
    (tmp_path / "latin.txt").write_bytes("Wörter".encode("latin-1"))
    with pytest.raises(InputError, match="latin.txt line 1: byte 1 is not UTF-8"):
        read_texts(tmp_path / "latin.txt")
    with pytest.raises(InputError, match="is a folder: give a file"):
        read_texts(tmp_path)
    (tmp_path / "bad.txt.gz").write_bytes(b"\x1f\x8b and no more")
    with pytest.raises(InputError, match="bad.txt.gz is damaged"):
        read_texts(tmp_path / "bad.txt.gz")


def test_a_name_goes_through_the_package_datasets(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    asked = []
    hub = ModuleType("datasets")
    table = {"premise": ["One.", "Two."], "hypothesis": ["Two.", "n"]}
    hub.load_dataset = lambda name, split, revision: asked.append((name, split)) or table
    monkeypatch.setitem(sys.modules, "datasets", hub)
    assert [t.text for t in read_texts("snli")] == ["One.", "Two.", "n"]
    assert asked == [("stanfordnlp/snli", "validation")]


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
