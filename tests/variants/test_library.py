"""Libraries against the enumeration of all combinations of a small alphabet, and the files that they go to."""

from __future__ import annotations

import json
from itertools import combinations, product
from math import log

import pandas
import pytest
import torch

import unmask
from command_runner import invoke
from unmask.errors import InputError
from unmask.tables.lattice import lattice
from unmask.tables.revealing import Conditionals, regular_tokens

PARENT, SITES, LETTERS = "ACDEGACD", (2, 4, 7), "ACDEG"


@pytest.fixture(scope="module")
def combos(letters):
    """The probability of each of the 125 combinations at the sites, by enumeration of all orders."""
    names = list(product(LETTERS, repeat=len(SITES)))
    texts = []
    for values in names:
        sequence = list(PARENT)
        for site, value in zip(SITES, values, strict=True):
            sequence[site - 1] = value
        texts.append(letters.words.encode("".join(sequence)))
    ids = torch.tensor(texts)
    p = lattice(Conditionals(letters, regular_tokens(letters)), ids, torch.tensor([SITES] * len(ids))).log_mean.exp()
    return {"".join(values): float(value) for values, value in zip(names, p, strict=True)}


def changes(values):
    return sum(PARENT[site - 1] != value for site, value in zip(SITES, values, strict=True))


@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_most_probable_combinations_within_the_limit(letters, combos, most):
    found = unmask.fill(PARENT, letters, positions=SITES, most_changes=most, top=8, passes=1000).library
    within = sorted(((p, x) for x, p in combos.items() if changes(x) <= most), reverse=True)
    assert sum(combos.values()) == pytest.approx(1, abs=1e-5)
    assert found.certain == 8
    assert ["".join(v) for v in found.variants] == [x for _, x in within[:8]]
    assert list(found.log_probs) == pytest.approx([log(p) for p, _ in within[:8]], abs=1e-4)
    low, high = found.mass
    assert low <= sum(p for p, _ in within) <= high
    assert max(found.changes) <= most
    if most == 1:
        assert high < 0.99
        assert "".join(found.variants[7]) not in [x for _, x in sorted(((p, x) for x, p in combos.items()), reverse=True)[:8]]


def test_distance_and_counts_are_those_of_all_pairs(letters):
    found = unmask.fill(PARENT, letters, positions=SITES, most_changes=2, top=15, passes=1000).library
    pairs = [sum(a != b for a, b in zip(x, y, strict=True)) for x, y in combinations(found.variants, 2)]
    assert found.distance == pytest.approx(sum(pairs) / len(pairs))
    counts = found.counts
    assert list(counts.index) == ["C2", "E4", "C7"]
    for t, site in enumerate(counts.index):
        for letter in counts.columns:
            assert counts.loc[site, letter] == sum(one[t] == letter for one in found.variants)
    assert (counts.sum(axis=1) == 15).all()
    for name, sequence in zip(found.names, found.sequences, strict=True):
        rebuilt = list(PARENT)
        for change in name.split("+") if name != "parent" else []:
            assert rebuilt[int(change[1:-1]) - 1] == change[0]
            rebuilt[int(change[1:-1]) - 1] = change[-1]
        assert "".join(rebuilt) == sequence


def test_one_variant_has_no_distance(letters):
    found = unmask.fill(PARENT, letters, positions=SITES, most_changes=1, top=1, passes=1000).library
    assert found.to_dict()["distance"] is None
    assert "differ" not in found.summary


def test_the_parent_may_be_left_out(letters):
    found = unmask.fill(PARENT, letters, positions=SITES, most_changes=1, differ=True, top=12, passes=1000).library
    assert len(found) == 12
    assert set(found.changes) == {1}


def test_the_files_and_the_command_hold_the_same(letters_folder, letters, tmp_path):
    options = {"positions": SITES, "most_changes": 2, "top": 6, "passes": 1000}
    frames = {}
    for ending in ("csv", "parquet"):
        path = tmp_path / f"library.{ending}"
        found = unmask.fill(PARENT, letters, library=path, **options).library
        frames[ending] = pandas.read_csv(path) if ending == "csv" else pandas.read_parquet(path)
        pandas.testing.assert_frame_equal(frames[ending], found.to_frame(), check_dtype=False)
    words = [PARENT, "--model", letters_folder, "--positions", "2,4,7", "--most-changes", 2, "--top", 6, "--passes", 1000]
    told = invoke(["fill", *map(str, words), "--library", str(tmp_path / "library.fasta"), "--json"])
    assert told.exit_code == 0, told.output
    told_library = json.loads(told.stdout)["library"]
    assert [row["variant"] for row in told_library["variants"]] == frames["csv"].variant.tolist()
    lines = (tmp_path / "library.fasta").read_text().splitlines()
    assert lines[1::2] == frames["csv"].sequence.tolist()
    assert lines[0].startswith(f">1 {frames['csv'].variant[0]} changes=")
    shown = invoke(["fill", *map(str, words)], env={"COLUMNS": "80"})
    assert "library of 6: at most 2 changes from the parent" in shown.output
    assert "C2" in shown.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"most_changes": 2}, "has no blank"),
        ({"most_changes": 0, "positions": [2]}, "most_changes 0 is out of range"),
        ({"most_changes": 1, "positions": [2], "joint": "mrf"}, "most_changes and joint mrf were given"),
        ({"most_changes": 1, "positions": [2, 3], "answers": ["A/A"]}, "has 2 changes, and most_changes is 1"),
        ({"positions": [2], "library": "library.txt"}, "ends in .csv, .parquet, .fasta"),
        ({"positions": [2], "library": "nowhere/library.csv"}, "does not exist"),
        ({"positions": [2], "library": "library.csv", "exact": True}, "library and exact were given"),
        ({"most_changes": 1, "positions": [2, 3], "alphabet": "ADE"}, "the target has 'C', which is not in the alphabet"),
    ],
)
def test_bad_input(letters, options, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        unmask.fill(PARENT, letters, **options)
    assert not list(tmp_path.iterdir())


def test_blanks_without_a_parent_have_no_library(letters, tmp_path):
    with pytest.raises(InputError, match="most_changes was given, and what stood in the blanks is not known"):
        unmask.fill("AC[MASK]E", letters, most_changes=1)
    with pytest.raises(InputError, match="library was given, and what stood in the blanks is not known"):
        unmask.fill("AC[MASK]E", letters, library=tmp_path / "library.csv")


def test_a_file_of_somebody_else_stays(letters, tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("name,value\n")
    with pytest.raises(InputError, match="did not write"):
        unmask.fill(PARENT, letters, positions=[2], library=path)
    assert path.read_text() == "name,value\n"
    with pytest.raises(InputError, match="text has spaces"):
        unmask.fill("the cat sat", positions=[2], library=tmp_path / "library.fasta")
