"""The scripts of docs/examples that make whole tables, on a tiny model."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def run(monkeypatch, capsys, name, *arguments):
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in capsys.readouterr().out.splitlines()
        if line
    ]


@pytest.fixture
def parsed(tmp_path):
    """Ten sentences, each a chain of words hanging on the one before."""
    sentences = []
    for i in range(10):
        words = ["the", "cat", "sat", "on", "a", "mat", "."][i % 3 :]
        lines = [
            f"{n}\t{word}\t{word}\tX\t_\t_\t{n - 1}\tdep\t_\t_" for n, word in enumerate(words, 1)
        ]
        sentences.append(f"# text = {' '.join(words)}\n" + "\n".join(lines) + "\n\n")
    path = tmp_path / "parsed.conllu"
    path.write_text("".join(sentences))
    return path


def test_table_1_has_every_cell(monkeypatch, capsys, tiny_folder, corpus, tmp_path):
    options = (
        "--model",
        tiny_folder,
        "--pairs",
        6,
        "--device",
        "cpu",
        "--constructions",
        "product,family:0.5,0.25",
    )
    head, _, *rows = run(
        monkeypatch, capsys, "table1.py", tmp_path / "runs", f"a={corpus}", *options
    )
    assert len(head) == 2 + 2 * 4
    assert [row[:2] for row in rows] == [
        ["a", "MLM (product)"],
        ["a", "α 0.5, λ 0.25"],
    ]
    assert all(float(number.replace(",", "")) >= 0 for row in rows for number in row[2:])
    assert (tmp_path / "runs" / "a-contiguous" / "table.json").is_file()


def test_appendix_e_counts_every_pair_once(monkeypatch, capsys, tiny_folder, parsed, tmp_path):
    options = (
        "--model",
        tiny_folder,
        "--pairs",
        30,
        "--device",
        "cpu",
        "--constructions",
        "product,mrf",
    )
    rows = run(monkeypatch, capsys, "appendix_e.py", tmp_path / "run", parsed, *options)
    counts = [[int(n) for n in row[1:]] for row in rows if row[0] == "pairs"]
    assert [sum(each) for each in counts] == [30, 30]
    assert len(rows) == 10
    assert (tmp_path / "run" / "figures" / "syntactic_distance.png").is_file()
