"""Our own BERT against transformers' model: the same log-probabilities, and transformers itself
for what is not understood.
"""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, BertForPreTraining

from unmask.models.checkpoint_files import english_model_path
from unmask.models.encoder.bert import BertMaskedLM
from unmask.models.masked_lm import MaskedLM

ROWS = torch.tensor(
    [[2, 5, 9, 4, 12, 7, 20, 3], [2, 30, 31, 8, 4, 4, 6, 3], [2, 0, 6, 5, 5, 25, 4, 3]]
)


def log_probs(network, rows=ROWS):
    with torch.no_grad():
        return network(input_ids=rows).logits.log_softmax(-1)


ROUNDING = {"atol": 1e-5, "rtol": 1e-6}
"""Single precision has steps of 2e-6 near log-probabilities of -20; several of them add up."""


def check_equal(folder, own: bool = True):
    """Loads as our own network, or as transformers', and either way gives what transformers
    gives.
    """
    model = MaskedLM.load(folder)
    assert isinstance(model.network, BertMaskedLM) == own
    expected = log_probs(AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval())
    got = log_probs(model.network)
    assert expected.std() > 0.5, "logits too flat for the comparison to mean anything"
    torch.testing.assert_close(got, expected, **ROUNDING)
    positions = torch.tensor([[3, 1]] * len(ROWS))
    picked = model.logits(ROWS, positions).log_softmax(-1)
    torch.testing.assert_close(
        picked, expected.gather(1, positions[..., None].expand_as(picked)), **ROUNDING
    )
    return model


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hidden_act": "gelu_new"},
        {"hidden_act": "gelu_pytorch_tanh"},
        {"type_vocab_size": 1},
        {"layer_norm_eps": 0.3},
        {"num_hidden_layers": 1},
        {"num_attention_heads": 1},
        {"tie_word_embeddings": False},
        {"pad_token_id": None},
        {"max_position_embeddings": 9},
    ],
    ids=str,
)
def test_configurations_equal_transformers(make_network, make_word_tokenizer, tmp_path, changes):
    make_network("bert", **changes).save_pretrained(tmp_path)
    if changes.get("pad_token_id", 0) is None:
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | changes))
    make_word_tokenizer().save_pretrained(tmp_path)
    check_equal(tmp_path)


def test_the_bundled_model_equals_transformers():
    check_equal(english_model_path())


def test_half_precision_weights_and_other_heads_beside(copied, make_network):
    network = BertForPreTraining(make_network("bert").config)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(0.3 * torch.randn_like(weight))
    network.half().save_pretrained(copied)
    assert any("pooler" in name for name in load_file(copied / "model.safetensors"))
    check_equal(copied)


def test_names_of_old_checkpoints(copied):
    weights = load_file(copied / "model.safetensors")
    old = {
        n.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): t
        for n, t in weights.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(24)[None]
    save_file(old, copied / "model.safetensors", metadata={"format": "pt"})
    check_equal(copied)


def test_an_output_layer_stored_beside_the_embeddings(copied):
    """The same numbers twice are tied; other numbers are not ours to judge."""
    weights = load_file(copied / "model.safetensors")
    words = weights["bert.embeddings.word_embeddings.weight"]
    weights["cls.predictions.decoder.weight"] = words.clone()
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    model = check_equal(copied)
    assert (
        model.network.get_output_embeddings().weight is model.network.get_input_embeddings().weight
    )
    weights["cls.predictions.decoder.weight"] = words.flip(0).contiguous()
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    check_equal(copied, own=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_act": "silu"},
        {"auto_map": {"AutoModel": "modeling.Model"}},
        {"a_setting_of_next_year": 1},
        {"rope_theta": 1.0},
    ],
    ids=str,
)
def test_what_is_not_understood_goes_to_transformers(copied, changes):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | changes))
    check_equal(copied, own=False)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_number_formats(checkpoint, dtype):
    folder = checkpoint("bert")
    model = MaskedLM.load(folder, dtype=dtype)
    assert isinstance(model.network, BertMaskedLM)
    assert {p.dtype for p in model.network.bert.parameters()} == {getattr(torch, dtype)}
    expected = log_probs(AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float64).eval())
    distance = float(
        (expected.exp() * (expected - log_probs(model.network).double())).sum(-1).max()
    )
    assert distance < {"bfloat16": 0.3, "float16": 0.02, "float64": 1e-11}[dtype]
