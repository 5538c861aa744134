"""AntiBERTy, a masked language model of antibodies that this project did not train: it loads,
and has exact joints of residues.

`make test-real` downloads it, as the PyPI wheel antiberty==0.1.3 carries it (25 tokens: 20
amino acids and 5 special ones; 26 million parameters). Its config names a class that
transformers does not have, its weights are a pickle with three more heads, and its vocabulary
lies in the folder above.
"""

import json
import os
import random
from math import log

import pytest
import torch

import unmask
from support.command_runner import invoke
from unmask.joints.reading import read_joints

pytestmark = pytest.mark.real

HEAVY = (
    "EVQLLESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYY"
    "ADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAKDRYGGFDYWGQGTLVTVSS"
)
"""A human heavy chain in the manner of germline IGHV3-23; residue i (from 1) is token i, after
[CLS].
"""
FRAMEWORK = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYY"
    "ADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAK"
)
"""A human heavy-chain germline segment (IGHV3-23), which antibody models know well."""
FRAGMENT = HEAVY[:16]
AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"


@pytest.fixture(scope="module")
def folder():
    path = os.environ.get("UNMASK_ANTIBERTY")
    if path is None:
        pytest.fail("UNMASK_ANTIBERTY is not set: run these tests with make test-real")
    return path


@pytest.fixture(scope="module")
def antiberty(folder):
    return unmask.MaskedLM.load(folder, device="cpu")


def masked_one_by_one(model, sequence):
    """Log-probabilities at each residue with that residue masked, and the residues."""
    ids = torch.tensor(model.words.encode(sequence))
    positions = torch.arange(1, len(ids) - 1)
    rows = ids.repeat(len(positions), 1)
    rows[torch.arange(len(positions)), positions] = model.mask_id
    return model.logits(rows, positions[:, None])[:, 0].log_softmax(-1), ids[positions]


def test_residues_are_tokens(antiberty):
    cloze = antiberty.cloze("EVQL[MASK]ESGG")
    assert antiberty.decode(cloze.ids) == ["[CLS]", *"EVQL", "[MASK]", *"ESGG", "[SEP]"]
    assert antiberty.vocab_size == 25
    assert antiberty.special_ids == (0, 1, 2, 3, 4)


def test_every_weight_came_from_the_file(antiberty):
    log_q, residues = masked_one_by_one(antiberty, FRAMEWORK)
    accuracy = float((log_q.argmax(-1) == residues).float().mean())
    assert accuracy > 0.9
    shuffled = "".join(
        FRAMEWORK[i]
        for i in torch.randperm(len(FRAMEWORK), generator=torch.Generator().manual_seed(0))
    )
    log_q, residues = masked_one_by_one(antiberty, shuffled)
    assert float((log_q.argmax(-1) == residues).float().mean()) < 0.5, (
        "a shuffled sequence must not look as likely"
    )


def with_blanks(sequence: str, residues: list[int]) -> str:
    return "".join("[MASK]" if i in residues else letter for i, letter in enumerate(sequence, 1))


def check_exact_joint(filling: unmask.Filling, residues: int) -> None:
    """A distribution over 20^k fillings, whose marginals, modes and conditionals are those of
    its dense table.
    """
    joint = filling.joint
    assert joint.shape == (20,) * residues
    assert sorted(joint.tables.spelled(0, int(i)) for i in joint.tables.candidates[0]) == sorted(
        AMINO_ACIDS
    )
    dense = joint.dense().double()
    assert float(dense.exp().sum()) == pytest.approx(1, abs=1e-4)
    for t, marginal in enumerate(joint.marginals()):
        others = tuple(s for s in range(residues) if s != t)
        assert torch.allclose(marginal.double(), dense.exp().sum(others), atol=1e-5)
    ids, log_probs = joint.topk(25)
    assert torch.allclose(log_probs.double(), dense.flatten().topk(25).values, atol=1e-5)
    assert torch.allclose(joint.log_prob(ids), log_probs, atol=1e-5)
    assert 0.99 < filling.candidates_mass <= 1 + 1e-6


def check_tables(model: unmask.MaskedLM, filling: unmask.Filling, seed: int) -> None:
    """A few random cells of the tables, each from one plain pass of the Hugging Face network."""
    rng = random.Random(seed)
    tables, cloze = filling.joint.tables, filling.cloze
    for _ in range(6):
        cell = [rng.randrange(20) for _ in cloze.block]
        t = rng.randrange(len(cell))
        row = list(cloze.filled([int(c[i]) for c, i in zip(tables.candidates, cell, strict=True)]))
        row[cloze.block[t]] = model.mask_id
        with torch.no_grad():
            logits = model.network(input_ids=torch.tensor([row])).logits[0, cloze.block[t]]
        log_q = logits[tables.candidates[t]].double().log_softmax(0)
        assert float(tables.log_q[t][tuple(cell)]) == pytest.approx(float(log_q[cell[t]]), abs=2e-4)


def check_against_product(filling: unmask.Filling) -> None:
    """The product has no dependence and worse conditionals; it and the balanced joint are
    different distributions.
    """
    balanced, product = read_joints([filling.joint, filling.product])
    assert filling.product.total_correlation() == pytest.approx(0, abs=1e-4)
    assert filling.joint.total_correlation() > 1e-3
    assert balanced.average_kl < product.average_kl / 2


def test_conserved_cysteine_and_tryptophan_are_recovered(antiberty):
    filling = unmask.fill(with_blanks(HEAVY, [22, 36]), model=antiberty)
    assert (HEAVY[21], HEAVY[35]) == ("C", "W")
    assert filling.completions[0].tokens == ("C", "W")
    assert filling.completions[0].text == HEAVY
    assert filling.completions[0].log_prob > log(0.9)
    check_exact_joint(filling, 2)
    check_tables(antiberty, filling, 0)


def test_two_residues_of_the_third_loop(antiberty):
    residues = [HEAVY.index("DRYGG") + 1, HEAVY.index("DRYGG") + 2]
    filling = unmask.fill(with_blanks(HEAVY, residues), model=antiberty)
    check_exact_joint(filling, 2)
    check_tables(antiberty, filling, 1)
    check_against_product(filling)


def test_the_command_line_gives_the_same(folder, antiberty):
    text = with_blanks(HEAVY, [100, 101])
    printed = json.loads(invoke(["fill", text, "--model", folder, "--top", "3", "--json"]).stdout)
    assert printed == unmask.fill(text, model=antiberty, top=3).to_dict()
    assert all(len(c["text"]) == len(HEAVY) for c in printed["completions"])


def test_three_residues(antiberty):
    filling = unmask.fill(with_blanks(HEAVY[:60], [30, 31, 33]), model=antiberty, candidates="all")
    assert filling.completions[0].text == HEAVY[:60]
    check_exact_joint(filling, 3)
    check_tables(antiberty, filling, 2)
    check_against_product(filling)


def test_four_residues_of_a_fragment(antiberty):
    filling = unmask.fill(with_blanks(FRAGMENT, [3, 5, 11, 13]), model=antiberty, candidates="all")
    check_exact_joint(filling, 4)
    check_tables(antiberty, filling, 3)
    check_against_product(filling)
