"""A small RoBERTa, whose tokens carry the space before them."""

from __future__ import annotations

import pytest

SENTENCES = ["The old dog sat on a mat.", "A dog ran to the old house.", "He drank a cup of tea at noon."]


@pytest.fixture(scope="session")
def spaced_folder(tmp_path_factory):
    import torch
    from tokenizers.processors import RobertaProcessing
    from transformers import RobertaConfig, RobertaForMaskedLM

    from small_models import byte_tokenizer

    around = RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tokenizer = byte_tokenizer(SENTENCES, 330, around)
    torch.manual_seed(5)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=42,
        pad_token_id=1,
        initializer_range=0.5,
    )
    folder = tmp_path_factory.mktemp("spaced")
    RobertaForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
