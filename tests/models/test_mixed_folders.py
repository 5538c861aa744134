"""Folders whose files do not belong together, or whose config asks for what nobody computes:
refused, or reported in one line.

Beside each stands a healthy folder that loads without a word.
"""

from __future__ import annotations

import json
import shutil
import warnings

import pytest
from transformers import GPT2Config, GPT2LMHeadModel

import unmask
from support.small_models import reconfigure, refusal
from unmask.common.errors import UnmaskWarning
from unmask.models.checkpoint import load_causal
from unmask.models.masked_lm import MaskedLM


def silently(folder, load=MaskedLM.load):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnmaskWarning)
        return load(str(folder))


@pytest.fixture
def damaged(checkpoint, tmp_path):
    """damaged(kind, **settings): a copy of the small checkpoint of that kind, its config
    changed.
    """

    def make(kind, **settings):
        folder = shutil.copytree(
            checkpoint(kind), tmp_path / f"{kind}{len(list(tmp_path.iterdir()))}"
        )
        reconfigure(folder, **settings)
        return folder

    return make


def save(folder, network, tokenizer):
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_tokenizer_of_far_fewer_tokens_is_reported_with_both_numbers(
    make_network, make_word_tokenizer, tmp_path, kind
):
    tokenizer = make_word_tokenizer()
    size = len(tokenizer)
    folder = save(tmp_path / "foreign", make_network(kind, vocab_size=3 * size), tokenizer)
    with pytest.warns(
        UnmaskWarning,
        match=f"has {size} tokens and the model {3 * size} embeddings.*check with texts",
    ):
        MaskedLM.load(folder)
    assert any(
        f"{3 * size} embeddings" in concern for concern in unmask.check(model=folder).concerns
    )
    for rows in (size, size + 7, -(-size // 64) * 64, -(-size // 128) * 128):
        silently(save(tmp_path / str(rows), make_network(kind, vocab_size=rows), tokenizer))


def test_another_mask_than_a_network_with_token_dropout_zeroes_is_refused(damaged):
    silently(damaged("esm", mask_token_id=4))
    silently(damaged("bert", mask_token_id=7))
    message = refusal(damaged("esm", mask_token_id=7))
    assert "mask_token_id 7" in message
    assert "'[MASK]'" in message
    assert "id 4" in message


def test_two_masks_in_a_vocabulary_load_once_one_is_named(make_network, tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<mask>", "the", "cat", "sat"]
    make_network("bert", vocab_size=len(tokens)).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    assert "name it as mask_token" in refusal(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"mask_token": "<mask>"}))
    assert silently(tmp_path).mask_id == 5


def causal_network(vocab_size: int) -> GPT2LMHeadModel:
    shape = {
        "n_embd": 16,
        "n_layer": 1,
        "n_head": 2,
        "n_positions": 32,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocab_size, **shape))


def test_a_causal_folder_with_a_foreign_tokenizer(
    make_word_tokenizer, make_byte_tokenizer, tmp_path
):
    words, pieces = make_word_tokenizer(), make_byte_tokenizer()
    size = len(words)
    silently(save(tmp_path / "own", causal_network(size), words), load_causal)
    message = refusal(save(tmp_path / "larger", causal_network(size), pieces), load_causal)
    assert f"unknown to the model, which has {size}" in message
    assert "trained with" in message
    smaller = save(tmp_path / "smaller", causal_network(4 * size), words)
    with pytest.warns(UnmaskWarning, match=f"{size} tokens and the model {4 * size} embeddings"):
        load_causal(str(smaller))
