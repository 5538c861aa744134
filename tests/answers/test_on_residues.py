"""Perplexities per residue against the enumeration of all orders, and text models without such lines."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import exp, log

import pytest
import torch

import unmask
from unmask.answers import on_residues
from unmask.answers.on_residues import EVERYTHING, RESIDUES
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


def test_text_models_get_no_lines_of_residues(english):
    found = unmask.check(english, data=["A man is playing the guitar on the street."])
    assert found.on_texts.residues == ()
    assert not [line for line in found.rows() if "perplexity" in line[1]]
