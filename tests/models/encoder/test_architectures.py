"""The fast encoder against transformers, for every type that has a description; wrong
descriptions are caught.
"""

import logging
from dataclasses import replace

import pytest
import torch

from unmask.models.encoder.architectures import ARCHITECTURES, find_encoder
from unmask.models.encoder.encoder import Encoder
from unmask.models.encoder.substitution import Substitution
from unmask.models.masked_lm import MaskedLM

TEXT = [2, 5, 7, 4, 13, 4, 14, 6, 9, 11, 30, 31, 32, 33, 20, 3]
VARY, PREDICT, SEVERAL = [3, 8], 5, [2, 5, 11]


def rows_and_values(model):
    """Rows with the mask among their values, and without."""
    values = torch.tensor([[first, second] for first in (4, 6, 12, 25) for second in (4, 7, 31)])
    rows = torch.tensor(TEXT).repeat(len(values), 1)
    rows[:, VARY] = values
    return rows, values


def differences(model):
    """The largest from transformers, of rows that share work, of one position, and of several."""
    rows, values = rows_and_values(model)
    with torch.no_grad():
        exact = model.network(input_ids=rows).logits.log_softmax(-1)
        shared = model.logits_of(
            Substitution(model.encoder, torch.tensor(TEXT), torch.tensor(VARY), PREDICT).hidden(
                values
            )
        )
        each = torch.arange(len(rows))
        one = model.logits_of(model.states(rows, each[:, None])[:, 0])
        several = model.states(rows, torch.tensor(SEVERAL).repeat(len(rows), 1))
        at_several = model.logits_of(several.flatten(0, 1)).unflatten(0, several.shape[:2])
    assert exact.std() > 0.5
    return {
        "shared": (shared.log_softmax(-1) - exact[:, PREDICT]).abs().max(),
        "one": (one.log_softmax(-1) - exact[each, each]).abs().max(),
        "several": (at_several.log_softmax(-1) - exact[:, SEVERAL]).abs().max(),
    }


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 5e-5)])
def test_every_type_agrees_with_transformers(
    make_network, make_word_tokenizer, fast_architecture, dtype, tolerance
):
    model = MaskedLM(make_network(fast_architecture).to(dtype), make_word_tokenizer())
    assert fast_architecture in ARCHITECTURES
    assert model.encoder is not None
    assert max(differences(model).values()) < tolerance


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("esm", {"position_embedding_type": "absolute", "emb_layer_norm_before": True}),
        ("esm", {"token_dropout": False}),
        ("modernbert", {"attention_bias": True, "mlp_bias": True, "norm_bias": True}),
        ("modernbert", {"hidden_activation": "silu", "local_attention": 2}),
    ],
)
def test_other_settings_of_a_type(make_network, make_word_tokenizer, kind, changes):
    model = MaskedLM(make_network(kind, **changes).double(), make_word_tokenizer())
    assert model.encoder is not None
    assert max(differences(model).values()) < 1e-12


def test_a_text_longer_than_several_windows(make_network, make_word_tokenizer):
    network = make_network("modernbert", max_position_embeddings=600, local_attention=64).double()
    model = MaskedLM(network, make_word_tokenizer())
    rows = torch.randint(5, 60, (2, 512), generator=torch.Generator().manual_seed(0))
    where = torch.tensor([[7], [300]])
    with torch.no_grad():
        exact = network(input_ids=rows).logits.log_softmax(-1)[torch.arange(2), where[:, 0]]
    got = model.logits(rows, where)[:, 0].log_softmax(-1)
    assert model.encoder is not None
    torch.testing.assert_close(got, exact, atol=1e-12, rtol=0)


def wider(encoder: Encoder) -> Encoder:
    return replace(
        encoder,
        layers=tuple(
            replace(x, window=None if x.window is None else x.window + 1) for x in encoder.layers
        ),
    )


WRONG = [
    ("modernbert", wider),
    ("esm", lambda encoder: replace(encoder, dropped=None)),
    ("esm", lambda encoder: replace(encoder, first_norm=None)),
    (
        "esm",
        lambda encoder: replace(
            encoder, layers=tuple(replace(x, rotary=None) for x in encoder.layers)
        ),
    ),
]


@pytest.mark.parametrize(("kind", "wrongly"), WRONG)
def test_a_wrong_description_is_caught_and_given_up(
    make_network, make_word_tokenizer, caplog, kind, wrongly
):
    model = MaskedLM(make_network(kind), make_word_tokenizer())
    rows, values = rows_and_values(model)
    with torch.no_grad():
        exact = model.network(input_ids=rows).logits[:, PREDICT].log_softmax(-1)
    right = model.encoder
    for run in ("rows that share work", "one position"):
        model.encoder = wrongly(right)
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="unmask"):
            if run == "one position":
                got = model.logits(rows, torch.full((len(rows), 1), PREDICT))[:, 0]
            else:
                got = torch.cat(
                    [logits for _, logits in model.substitutions(TEXT, VARY, values, PREDICT)]
                )
        assert model.encoder is None, run
        assert "using the forward pass" in caplog.text, run
        torch.testing.assert_close(got.log_softmax(-1), exact, atol=5e-5, rtol=0)


@pytest.mark.parametrize("rope", ["dynamic", "longrope"])
def test_frequencies_that_change_with_the_length_have_no_fast_path(make_network, rope):
    network = make_network("modernbert")
    assert find_encoder(network) is not None
    network.base_model.rotary_emb.rope_type = rope
    assert find_encoder(network) is None
