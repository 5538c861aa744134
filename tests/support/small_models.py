"""Checkpoints and tokenizers of a few tokens, with random weights, that the tests of several
rooms need.
"""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from unmask.common.errors import ModelError
from unmask.models.masked_lm import MaskedLM

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


SHAPE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def tokenizer_of(
    tokens: Sequence[str],
    splits: pre_tokenizers.PreTokenizer | None = None,
    lowercase: bool = False,
    **more: Any,
) -> PreTrainedTokenizerFast:
    """Over SPECIAL and `tokens`, [CLS] and [SEP] around a text: words that `splits` cuts, or
    word pieces without it.
    """
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *tokens])}
    core = Tokenizer(
        (models.WordLevel if splits else models.WordPiece)(vocabulary, unk_token="[UNK]")
    )
    core.pre_tokenizer = splits or pre_tokenizers.BertPreTokenizer()
    if not splits:
        core.normalizer, core.decoder = (
            normalizers.BertNormalizer(lowercase=lowercase),
            decoders.WordPiece(),
        )
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=core, **{**names, **more})


def random_bert(vocabulary: int, positions: int, seed: int, spread: float) -> BertForMaskedLM:
    """Weights of deviation `spread` make conditionals that depend by nats."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=vocabulary, max_position_embeddings=positions, initializer_range=spread, **SHAPE
    )
    return BertForMaskedLM(config).eval()


def save_bert(
    folder: Path,
    tokens: Sequence[str],
    splits: pre_tokenizers.PreTokenizer | None,
    positions: int,
    seed: int,
    spread: float,
    **more: Any,
) -> Path:
    """`random_bert` with `tokenizer_of`, saved."""
    tokenizer = tokenizer_of(tokens, splits, **more)
    random_bert(len(tokenizer), positions, seed, spread).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def byte_tokenizer(
    sentences: Sequence[str],
    size: int,
    around: processors.PostProcessor,
    mask_takes_space: bool = True,
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer as RoBERTa has it, trained on a few sentences."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([*sentences] * 5, trainer)
    mask = AddedToken("<mask>", lstrip=mask_takes_space, special=True)
    core.add_special_tokens([mask])
    core.post_processor = around
    names = {
        "bos": "<s>",
        "cls": "<s>",
        "pad": "<pad>",
        "eos": "</s>",
        "sep": "</s>",
        "unk": "<unk>",
        "mask": mask,
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=core, **{f"{name}_token": token for name, token in names.items()}
    )


def refusal(folder: Path | str, load: Callable[..., Any] = MaskedLM.load, **options: Any) -> str:
    """The one line in which a folder is refused."""
    with pytest.raises(ModelError) as caught:
        load(str(folder), **options)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 450
    return message


def shuffle_vocabulary(folder: Path) -> None:
    """Give the regular tokens of a folder's tokenizer each other's ids, as another model's
    tokenizer does.
    """
    rule = json.loads((folder / "tokenizer.json").read_text())
    regular = [token for token in rule["model"]["vocab"] if not token.startswith("[")]
    shuffled = dict(zip(regular, random.Random(0).sample(regular, len(regular)), strict=True))
    rule["model"]["vocab"] = {
        shuffled.get(token, token): i for token, i in rule["model"]["vocab"].items()
    }
    (folder / "tokenizer.json").write_text(json.dumps(rule))


def reconfigure(folder: Path, **changes: Any) -> None:
    """Change settings of a folder's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
