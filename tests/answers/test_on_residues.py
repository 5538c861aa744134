"""Perplexities per residue against the enumeration of all orders, regions, and text models without such lines."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from math import exp, log

import pytest
import torch
from typer.testing import CliRunner

import unmask
from unmask.answers import on_residues
from unmask.answers.on_residues import EVERYTHING, RESIDUES
from unmask.cli.app import app
from unmask.errors import InputError
from unmask.tables.revealing import Conditionals

SEQUENCES = {"first": "ACDWY", "second": "GHIKL", "third": "WWYAC"}


@pytest.fixture(scope="module")
def protein_folder(tmp_path_factory):
    from tokenizers.pre_tokenizers import WhitespaceSplit

    from small_models import save_bert

    return save_bert(tmp_path_factory.mktemp("residues"), RESIDUES, WhitespaceSplit(), positions=16, seed=3, spread=0.5)


@pytest.fixture(scope="module")
def protein(protein_folder):
    return unmask.MaskedLM.load(protein_folder, device="cpu")


@pytest.fixture
def fasta(tmp_path):
    path = tmp_path / "some.fasta"
    path.write_text("".join(f">{name} of mine\n{sequence}\n" for name, sequence in SEQUENCES.items()))
    return path


def nats_of(model, sequence, hidden, at):
    """-log q of the residue `at` with the residues `hidden` masked, over the 20 residues."""
    ids = model.words.encode(sequence)
    row = torch.tensor([[model.mask_id if t - 1 in hidden else i for t, i in enumerate(ids)]])
    support = torch.tensor([model.words.encode(letter)[1] for letter in RESIDUES])
    return -float(Conditionals(model, support).log_q(row, torch.tensor([[at + 1]]), torch.tensor([[ids[at + 1]]])))


def test_residues_masked_alone_and_their_frequencies(protein, fasta):
    found = unmask.check(protein, data=fasta).on_texts.residues
    assert [worth.region for worth in found] == [EVERYTHING]
    alone = [nats_of(protein, s, {i}, i) for s in SEQUENCES.values() for i in range(len(s))]
    assert found[0].alone.value == pytest.approx(exp(sum(alone) / 15), rel=1e-5)
    counts = Counter("".join(SEQUENCES.values()))
    assert found[0].frequencies == pytest.approx(exp(-sum(n / 15 * log(n / 15) for n in counts.values())))
    assert found[0].residues == found[0].masked == 15
    assert found[0].frequent == counts["W"] / 15


def test_any_order_is_the_mean_over_all_orders(protein, monkeypatch):
    monkeypatch.setattr(on_residues, "ORDER_PASSES", 6000)
    sequence = "TTTT"
    truth, alone = [], []
    for order in permutations(range(4)):
        truth += [nats_of(protein, sequence, set(order[n:]), at) for n, at in enumerate(order)]
        alone += [nats_of(protein, sequence, {at}, at) for at in order]
    expected, wrong = sum(truth) / len(truth), sum(alone) / len(alone)
    found = unmask.check(protein, data=[sequence] * 200).on_texts.residues[0].any_order
    error = (log(found.high) - log(found.low)) / (2 * 1.96)
    assert abs(log(found.value) - expected) < 3 * error
    assert abs(log(found.value) - wrong) > 10 * error, "residues masked alone would pass the test too"


def test_regions_of_an_alignment_and_by_name_are_the_same(protein, tmp_path, fasta):
    aligned = tmp_path / "aligned.fasta"
    aligned.write_text(">first\nAC-DWY\n>second\nGH-IKL\n>third\nWW-YAC\n")
    columns, named = tmp_path / "columns.csv", tmp_path / "named.csv"
    columns.write_text("region,start,end\nhead,1,2\ntail,5,6\n")
    rows = "".join(f"{name},head,1,2\n{name},tail,4,5\n" for name in SEQUENCES)
    named.write_text(f"name,region,start,end\n{rows}")
    one = unmask.check(protein, data=aligned, regions=columns).on_texts.residues
    two = unmask.check(protein, data=fasta, regions=named).on_texts.residues
    assert one == two
    assert [(worth.region, worth.residues) for worth in one] == [(EVERYTHING, 15), ("head", 6), ("tail", 6), ("elsewhere", 3)]
    tail = [nats_of(protein, s, {i}, i) for s in SEQUENCES.values() for i in (3, 4)]
    assert one[2].alone.value == pytest.approx(exp(sum(tail) / 6), rel=1e-5)
    assert one[1].alone.value != pytest.approx(one[2].alone.value, rel=1e-3)


def test_text_models_get_no_lines_of_residues(english, fasta, tmp_path):
    found = unmask.check(english, data=["A man is playing the guitar on the street."])
    assert found.on_texts.residues == ()
    assert not [line for line in found.rows() if "perplexity" in line[1]]
    (tmp_path / "regions.csv").write_text("region,start,end\nhead,1,2\n")
    with pytest.raises(InputError, match="does not read residues letter by letter: leave regions out"):
        unmask.check(english, data=fasta, regions=tmp_path / "regions.csv")


def test_the_command_prints_a_line_per_region(protein_folder, fasta, tmp_path):
    (tmp_path / "regions.csv").write_text("region,start,end\nhead,1,2\n")
    words = ["check", "--model", str(protein_folder), "--data", str(fasta), "--regions", str(tmp_path / "regions.csv")]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    lines = {line.split("  ")[0]: line for line in shown.output.splitlines()}
    assert "in any order" in lines["head"] and "by frequencies" in lines[EVERYTHING]
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert [worth["region"] for worth in told["on_texts"]["residues"]] == [EVERYTHING, "head", "elsewhere"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("", "is not a table of regions"),
        ("region,from,to\nhead,1,2\n", "begin it with region,start,end or name,region,start,end"),
        ("region,start,end\n", "one region per line"),
        ("region,start,end\nhead,1\n", "line 2 has 2 cells: give region,start,end"),
        ("region,start,end\nhead,a,2\n", "'a' to '2' is not a range"),
        ("region,start,end\nhead,3,2\n", "3 to 2 is outside the letters 1 to 5"),
        ("region,start,end\nhead,1,9\n", "1 to 9 is outside the letters 1 to 5"),
        ("region,start,end\nhead,1,3\ntail,3,5\n", "line 3: letter 3 is in 'head' already"),
        ("name,region,start,end\nfourth,head,1,2\n", "no sequence of data is named 'fourth'"),
    ],
)
def test_tables_that_are_wrong(protein, fasta, tmp_path, table, said):
    path = tmp_path / "regions.csv"
    path.write_text(table)
    with pytest.raises(InputError, match=said) as error:
        unmask.check(protein, data=fasta, regions=path)
    assert "\n" not in str(error.value)


def test_regions_need_data_and_names(protein, tmp_path):
    path = tmp_path / "regions.csv"
    path.write_text("name,region,start,end\nfirst,head,1,2\n")
    with pytest.raises(InputError, match="regions was given without data"):
        unmask.check(protein, regions=path)
    with pytest.raises(InputError, match="data is not FASTA"):
        unmask.check(protein, data=["ACD"], regions=path)
    twice = tmp_path / "twice.fasta"
    twice.write_text(">first\nACD\n>first\nACD\n")
    with pytest.raises(InputError, match="'first' more than once"):
        unmask.check(protein, data=twice, regions=path)


@pytest.mark.parametrize("sequence", ["AC[UNK]DWY", "AC[UNK]DWYGHIKLACDWYGHIKL"])
def test_letters_that_are_not_one_token_each_are_refused(protein, tmp_path, sequence):
    """The second is cut to the model's 16 tokens, so its length does not show that [UNK] is one token and five letters."""
    path = tmp_path / "regions.csv"
    path.write_text("region,start,end\nhead,1,3\n")
    with pytest.raises(InputError, match="sequence 2 of data has letters that are not one token each: leave regions out"):
        unmask.check(protein, data=["ACDWY", sequence], regions=path)
