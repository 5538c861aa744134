"""Lists of variants with measured values, as people write them, and the lines that bad ones
give.
"""

import gzip

import numpy as np
import pandas
import pytest

from unmask.common.errors import InputError
from unmask.studies.variants.parent import Parent, residue_ids
from unmask.studies.variants.variant_lists import number, read_variant, read_variants

SEQUENCE = "ACDEGACD"


@pytest.fixture(scope="module")
def parent(letters):
    return Parent(letters, SEQUENCE, residue_ids(letters, None))


SPELLED = {
    "A1C": ["A1C", "CCDEGACD", "C C D E G A C D"],
    "C2D": ["A1A+C2D"],
    "": ["A1A", "WT", "wild-type", SEQUENCE],
}
SPELLED["A1C+C2D"] = ["A1C+C2D", "C2D:A1C", "A1C,C2D", " A1C / C2D "]


@pytest.mark.parametrize(
    ("text", "name"), [(text, name) for name, texts in SPELLED.items() for text in texts]
)
def test_one_variant_in_many_spellings(parent, text, name):
    made = read_variant(text, parent)
    assert (
        "+".join(f"{SEQUENCE[place - 1]}{place}{parent.tokens[token]}" for place, token in made)
        == name
    )


def test_residues_that_spell_a_missing_value_are_residues(parent):
    with pytest.raises(InputError, match="variant 'NAN', residue 2: 'N' is not in the alphabet"):
        read_variant("NAN", parent, [2, 3, 4])
    for missing in (None, float("nan"), pandas.NA, pandas.NaT, ""):
        with pytest.raises(InputError, match="no variant in this row"):
            read_variant(str(missing), parent, [2, 3, 4])


def test_residues_of_the_positions_alone(parent):
    assert read_variant("GG", parent, [2, 4]) == ((2, parent.index["G"]), (4, parent.index["G"]))
    assert read_variant("A1C", parent, [1, 4]) == ((1, parent.index["C"]),)
    assert read_variant("WT", parent, [1, 2, 4]) == ()
    with pytest.raises(InputError, match="'W' is not in the alphabet"):
        read_variant("WT", parent, [1, 2])  # two residues, and not the wild type


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_same_list_from_csv_tsv_gz_frame_and_rows(parent, tmp_path):
    frame = pandas.DataFrame(
        {"mutant": ["A1C", "WT", "C2D+A1C", "E4G"], "kd": [1.0, 2, 3.5, np.nan]}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_csv(tmp_path / "a.tsv", index=False, sep="\t")
    frame.to_csv(tmp_path / "b.csv", index=False, sep=";")
    with gzip.open(tmp_path / "a.csv.gz", "wt") as stream:
        frame.to_csv(stream, index=False)
    quoted = write(tmp_path / "c.csv", "mutant,kd", "A1C,1", "", "WT,2", '"A1C,C2D",3.5', "E4G,NA")
    for source in (
        *(tmp_path / name for name in ("a.csv", "a.tsv", "b.csv", "a.csv.gz")),
        quoted,
        frame,
        frame.to_dict("records"),
    ):
        variants = read_variants(source, parent)
        assert variants.places == (1, 2)
        assert variants.names(parent) == ["A1C", "WT", "A1C+C2D"]
        assert variants.values.tolist() == [1, 2, 3.5]
        assert variants.changes.tolist() == [1, 0, 2]
        assert "the only column of numbers" in variants.notes[0]
        assert "1 row without a value in 'kd' left out" in variants.notes[1]


def test_duplicates_are_averaged_and_said(parent):
    rows = [
        {"v": "A1C", "y": 1},
        {"v": "CCDEGACD", "y": 2},
        {"v": "C2D", "y": 5},
        {"v": "E4G", "y": 7},
    ]
    variants = read_variants(rows, parent, column="y")
    assert variants.values.tolist() == [1.5, 5, 7]
    assert variants.notes == (
        "variants that occur more than once: 1 (2 rows); their values are averaged",
    )
    rows = [
        {"v": v, "y": y}
        for v, y in [("A1C", 0), ("A1C", 1), ("C2D", 1), ("C2D", 1), ("E4G", 0), ("D3A", 0)]
    ]
    variants = read_variants(rows, parent)
    assert variants.names(parent) == ["C2D", "E4G", "D3A"]
    assert variants.values.tolist() == [1, 0, 0]
    assert "1 variants are in both classes: left out" in variants.notes


def test_positions_keep_sites_that_never_change_and_yes_and_no_are_classes(parent):
    rows = [
        {"cdr": "GG", "binds": True},
        {"cdr": "CG", "binds": False},
        {"cdr": "DG", "binds": False},
    ]
    variants = read_variants(rows, parent, positions="2,5")
    assert variants.places == (2, 5)
    assert variants.values.tolist() == [1, 0, 0]
    assert variants.changes.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (
            ["mutant,y", "D1C,1", "A1C,2"],
            {},
            r"line 2: variant 'D1C': residue 1 of the sequence is A, not D",
        ),
        (
            ["mutant,y", "A1C,1", "C2D,2", "ACD,3"],
            {},
            r"variant 'ACD' has 3 residues: .*all 8 residues; residues alone need positions",
        ),
        (
            ["mutant,y", "A1C,1", "ACDEGAC-,2"],
            {},
            r"line 3: variant 'ACDEGAC-', residue 8: '-' is not in the alphabet",
        ),
        (
            ["mutant,y", "A1C,1", "XCDEGACD,2"],
            {},
            r"line 3: .*, residue 1: 'X' is not in the alphabet",
        ),
        (["mutant,y", "A1C,1", ",2"], {}, r"line 3: there is no variant"),
        (
            ["mutant,y", "A1C,1", "E4G,x", "D3A,x"],
            {"column": "y"},
            r"line 3: .*; 1 more rows cannot be read.*skip_bad=True",
        ),
        (["mutant,y", "A1C,1", "C2D,1", "E4G,1"], {}, r"y is 1 in every row"),
        (["mutant,y", "A1C,1", "C2D,2"], {}, r"has 2 variants with values: give at least 3"),
        (
            ["mutant,y,z", "A1C,1,2", "C2D,2,3"],
            {},
            r"columns y, z have numbers: name the one that is measured as column",
        ),
        (["mutant,y", "A1C,a", "C2D,b"], {}, r"no column of mutant, y has only numbers"),
        (["mutant,y", "A1C,1"], {"column": "Y"}, r"column 'Y' is unknown"),
        (
            ["genotype,y", "01,1", "10,2"],
            {"column": "y"},
            r"every column has numbers: name the column",
        ),
        (
            ["a,b,y", "q,r,1", "A1C,s,2"],
            {},
            r"line 2: variant 'q' .*; 'a' was read, and variant names another column",
        ),
        ([""], {}, r"has no rows"),
        ([{"mutant": "A1C", 1: 0.5}], {}, r"measured has the column 1, which is not a text"),
        (
            ["mutant,y", "A1C,1", "C2D,inf", "D3E,2"],
            {"column": "y"},
            r"line 3: y 'inf' is not a finite number: give one",
        ),
        (
            ["mutant,y", "A1C,1", "C2D,2", "D3A,2"],
            {"positions": "1-2"},
            r"line 4: .*residue 3, which is not among the positions",
        ),
    ],
)
def test_bad_lists_give_one_line_with_the_row(parent, tmp_path, lines, options, message):
    with pytest.raises(InputError, match=message) as refused:
        read_variants(
            lines if isinstance(lines[0], dict) else write(tmp_path / "m.csv", *lines),
            parent,
            **options,
        )
    assert "\n" not in str(refused.value)


def test_bad_rows_can_be_skipped(parent, tmp_path):
    path = write(tmp_path / "m.csv", "mutant,y", "A1C,1", "A9C,2", "C2D,3", "E4G,x", "D3A,7")
    variants = read_variants(path, parent, column="y", skip_bad=True)
    assert variants.names(parent) == ["A1C", "C2D", "D3A"]
    assert variants.notes == (f"2 rows not readable left out (first: {path} line 3)",)


def test_numbers_have_no_underscores():
    """Python reads 1_2 as 12; in a list of measurements it is a name."""
    assert number("1.5e3", "y") == 1500
    with pytest.raises(InputError, match="y '1_2' is not a finite number"):
        number("1_2", "y")
