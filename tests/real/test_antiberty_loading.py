"""A checkpoint that nobody here made: AntiBERTy, as the PyPI wheel antiberty==0.1.3 carries it.

Its config names a class that transformers does not have, its weights are a pickle with three more heads, and its
vocabulary lies in the folder above. UNMASK_ANTIBERTY names the folder .../antiberty/trained_models/AntiBERTy_md_smooth.
"""

from __future__ import annotations

import os

import pytest
import torch

from unmask.models.masked_lm import MaskedLM

FOLDER = os.environ.get("UNMASK_ANTIBERTY")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not FOLDER, reason="set UNMASK_ANTIBERTY to the folder AntiBERTy_md_smooth of antiberty==0.1.3"),
]
FRAMEWORK = "EVQLVESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAK"
"""A human heavy-chain germline segment (IGHV3-23), which antibody models know well."""


@pytest.fixture(scope="module")
def antiberty():
    return MaskedLM.load(FOLDER, device="cpu")


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
    assert antiberty.vocab_size == 25 and antiberty.special_ids == (0, 1, 2, 3, 4)


def test_every_weight_came_from_the_file(antiberty):
    log_q, residues = masked_one_by_one(antiberty, FRAMEWORK)
    accuracy = float((log_q.argmax(-1) == residues).float().mean())
    assert accuracy > 0.9
    shuffled = "".join(FRAMEWORK[i] for i in torch.randperm(len(FRAMEWORK), generator=torch.Generator().manual_seed(0)))
    log_q, residues = masked_one_by_one(antiberty, shuffled)
    assert float((log_q.argmax(-1) == residues).float().mean()) < 0.5, "a shuffled sequence must not look as likely"


def test_fast_path_equals_the_plain_loop(antiberty):
    cloze = antiberty.cloze(FRAMEWORK, positions=[50, 54])
    values = torch.arange(5, 25)[:, None]
    got = torch.cat([logits for _, logits in antiberty.substitutions(cloze.ids, [50], values, 54)]).log_softmax(-1)
    assert antiberty.encoder is not None
    with torch.no_grad():
        for value, row in zip(values[:, 0].tolist(), got, strict=True):
            ids = list(cloze.ids)
            ids[50] = value
            plain = antiberty.network(input_ids=torch.tensor([ids])).logits[0, 54].log_softmax(-1)
            torch.testing.assert_close(row, plain, atol=1e-4, rtol=0)
