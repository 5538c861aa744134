"""A fairseq checkpoint, made of a RoBERTa of transformers by fairseq's names, comes back the same."""

from __future__ import annotations

import re
import runpy
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from unmask.errors import InputError
from unmask.models.masked_lm import MaskedLM

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "examples" / "fairseq_roberta.py"))
heads_of, roberta_from_fairseq = EXAMPLE["heads_of"], EXAMPLE["roberta_from_fairseq"]
RESIDUES = "LAGVSERTIDPKQNFYMHWC"
HEAD = "encoder.lm_head."
BODY = "encoder.sentence_encoder."


def fairseq_names(network) -> dict[str, torch.Tensor]:
    """The tensors as fairseq has them, written out without the code under test."""
    state = network.state_dict()
    out = {
        BODY + "embed_tokens.weight": state["roberta.embeddings.word_embeddings.weight"],
        BODY + "embed_positions.weight": state["roberta.embeddings.position_embeddings.weight"],
        HEAD + "weight": state["lm_head.decoder.weight"],
        HEAD + "bias": state["lm_head.bias"],
        "encoder.version": torch.tensor([1.0]),
    }
    for kind in ("weight", "bias"):
        out[BODY + f"layernorm_embedding.{kind}"] = state[f"roberta.embeddings.LayerNorm.{kind}"]
        out[HEAD + f"dense.{kind}"] = state[f"lm_head.dense.{kind}"]
        out[HEAD + f"layer_norm.{kind}"] = state[f"lm_head.layer_norm.{kind}"]
        for n in range(3):
            ours, theirs = f"roberta.encoder.layer.{n}.", BODY + f"layers.{n}."
            out[theirs + f"self_attn.q_proj.{kind}"] = state[ours + f"attention.self.query.{kind}"]
            out[theirs + f"self_attn.k_proj.{kind}"] = state[ours + f"attention.self.key.{kind}"]
            out[theirs + f"self_attn.v_proj.{kind}"] = state[ours + f"attention.self.value.{kind}"]
            out[theirs + f"self_attn.out_proj.{kind}"] = state[ours + f"attention.output.dense.{kind}"]
            out[theirs + f"self_attn_layer_norm.{kind}"] = state[ours + f"attention.output.LayerNorm.{kind}"]
            out[theirs + f"fc1.{kind}"] = state[ours + f"intermediate.dense.{kind}"]
            out[theirs + f"fc2.{kind}"] = state[ours + f"output.dense.{kind}"]
            out[theirs + f"final_layer_norm.{kind}"] = state[ours + f"output.LayerNorm.{kind}"]
    return out


def test_the_numbers_are_those_of_the_model_it_was_made_of(make_network, tmp_path):
    network = make_network("roberta", vocab_size=25, pad_token_id=1, type_vocab_size=1, layer_norm_eps=1e-5)
    with torch.no_grad():
        network.roberta.embeddings.token_type_embeddings.weight.zero_()
    roberta_from_fairseq(fairseq_names(network), RESIDUES, heads=4, folder=tmp_path)
    model = MaskedLM.load(tmp_path)
    cloze = model.cloze("EVQL[MASK]ES")
    assert model.decode(cloze.ids) == ["<s>", *"EVQL", "[MASK]", *"ES", "</s>"] and model.mask_id == 24
    assert cloze.ids[1] == 4 + RESIDUES.index("E")
    with torch.no_grad():
        expected = network(input_ids=torch.tensor([cloze.ids])).logits[0, cloze.block[0]].log_softmax(-1)
    got = model.logits(torch.tensor([cloze.ids]), torch.tensor([cloze.block]))[0, 0].log_softmax(-1)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


def test_what_is_no_fairseq_roberta_is_refused(make_network, tmp_path):
    network = make_network("roberta", vocab_size=25, pad_token_id=1, type_vocab_size=1)
    with pytest.raises(InputError, match="not the tensors of a fairseq RoBERTa"):
        roberta_from_fairseq({"a.weight": torch.ones(1)}, RESIDUES, 4, tmp_path)
    with pytest.raises(InputError, match="25 embeddings"):
        roberta_from_fairseq(fairseq_names(network), RESIDUES + "X", 4, tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="is not empty: name a new one"):
        roberta_from_fairseq(fairseq_names(network), RESIDUES, 4, tmp_path)
    assert (tmp_path / "config.json").read_text() == "{}"


ROOT = Path(__file__).parents[2]
OPTIONS = {"encoder_attention_heads": 4, "activation_fn": "gelu"}


@pytest.mark.parametrize(
    "options",
    [
        {"args": Namespace(**OPTIONS)},
        {"args": None, "cfg": {"model": Namespace(**OPTIONS), "task": Namespace(data="x")}},
        {"args": None, "cfg": {"model": OPTIONS}},
    ],
    ids=["args", "cfg with a namespace", "cfg with a dictionary"],
)
def test_the_recipe_of_the_page_runs_for_both_layouts_of_the_options(make_network, tmp_path, monkeypatch, options):
    """The block of the documentation, as it is written there, in a folder as fairseq leaves it."""
    network = make_network("roberta", vocab_size=25, pad_token_id=1, type_vocab_size=1)
    torch.save({"model": fairseq_names(network), **options}, tmp_path / "checkpoint_best.pt")
    (tmp_path / "dict.txt").write_text("".join(f"{letter} 1\n" for letter in RESIDUES))
    page = (ROOT / "docs" / "bring-your-own-model.md").read_text()
    (recipe,) = re.findall(r"## Checkpoints of fairseq.*?```python\n(.*?)```", page, re.DOTALL)
    assert 'map_location="cpu"' in recipe
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    exec(recipe, {})
    model = MaskedLM.load(tmp_path / "my-roberta")
    assert model.network.config.num_attention_heads == 4
    assert model.decode(model.cloze("EVQ[MASK]").ids) == ["<s>", *"EVQ", "[MASK]", "</s>"]


@pytest.mark.parametrize(
    "options, told",
    [
        ({}, "no encoder_attention_heads"),
        ({"args": Namespace(encoder_layers=3)}, "no encoder_attention_heads"),
        ({"args": Namespace(**OPTIONS | {"activation_fn": "relu"})}, "activation_fn 'relu'"),
        ({"cfg": {"model": OPTIONS | {"encoder_normalize_before": True}}}, "encoder_normalize_before True"),
    ],
)
def test_options_that_make_another_network_are_refused(options, told):
    with pytest.raises(InputError, match=told):
        heads_of(options)
