"""The folder of models and files that the calls of `option_witnesses` name."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import unmask
from tokenizers.pre_tokenizers import BertPreTokenizer

from support.small_models import save_bert

WORDS = "the a cat dog sat ran on under mat tree . s".split()
TEXTS = ["the cat sat on the mat .", "a dog ran under the tree .", "the dog sat .", "a cat ran s ."]


def make_inputs(folder: Path) -> None:
    """Write all models and files into a folder."""
    for name, seed in (("tiny", 3), ("other", 4)):
        save_bert(
            folder / name,
            WORDS,
            BertPreTokenizer(),
            positions=16,
            seed=seed,
            spread=0.5,
            model_max_length=16,
        )
    _make_judge(folder / "judge", folder / "tiny")
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    (folder / "many.txt").write_text("\n".join(TEXTS * 40) + "\n")
    (folder / "others.txt").write_text("\n".join(TEXTS[1:] * 40) + "\n")
    (folder / "held.txt").write_text("the dog ran on the mat .\na cat sat under a tree .\n")
    (folder / "start.txt").write_text("the mat tree on cat\n")
    rows = [{"body": "a dog sat", "text": "the cat sat on"}]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    unmask.profile(TEXTS * 20, str(folder / "tiny"), candidates=4, save=folder / "profile.json")


def _make_judge(folder: Path, tokenizer: Path) -> None:
    """A causal model with the tokenizer of another folder."""
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    words = AutoTokenizer.from_pretrained(tokenizer)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(words),
        n_embd=16,
        n_layer=1,
        n_head=2,
        n_positions=32,
        bos_token_id=2,
        eos_token_id=3,
        initializer_range=0.5,
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    words.bos_token = "[CLS]"
    words.eos_token = "[SEP]"
    words.save_pretrained(folder)
