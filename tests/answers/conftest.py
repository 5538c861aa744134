"""A small model of letters, as protein models are, with random weights."""

from __future__ import annotations

import pytest

LETTERS = "ACDEG"


@pytest.fixture(scope="session")
def letters_folder(tmp_path_factory):
    """A saved BERT over five letters, whose conditionals depend on each other by nats; texts of at most 30 letters."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {token: i for i, token in enumerate([*special, *LETTERS])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = WhitespaceSplit()
    backend.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = {f"{name[1:-1].lower()}_token": name for name in special}
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.6,
    )
    folder = tmp_path_factory.mktemp("letters")
    BertForMaskedLM(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=backend, **names).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def letters(letters_folder):
    """The model of `letters_folder`."""
    from unmask.models.masked_lm import MaskedLM

    return MaskedLM.load(letters_folder, device="cpu")
