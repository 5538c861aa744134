"""The tokenizer of a trained model: cased WordPiece, in the layout that BERT models use."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer

from unmask.errors import InputError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_tokenizer(lines: Iterable[str], vocab_size: int) -> Tokenizer:
    """A cased WordPiece tokenizer of at most `vocab_size` tokens, the special ones first (ids 0 to 4)."""
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        limit_alphabet=min(256, vocab_size // 8),
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:0 [SEP]:0", special_tokens=[("[CLS]", start), ("[SEP]", end)]
    )
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json (or the folder that holds one) with the special tokens that training needs."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"no tokenizer at {path}: give a tokenizer.json or a model folder that holds one")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        raise InputError(f"{file} is not a tokenizers file ({error}): give a tokenizer.json") from None
    missing = [t for t in SPECIAL_TOKENS if tokenizer.token_to_id(t) is None]
    if missing:
        raise InputError(f"the tokenizer at {file} lacks {', '.join(missing)}: training needs {', '.join(SPECIAL_TOKENS)}")
    return tokenizer


def special_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a special token, which `load_tokenizer` and `train_tokenizer` have made sure of."""
    token_id = tokenizer.token_to_id(token)
    assert token_id is not None
    return token_id


def tokenizer_config(max_length: int) -> dict[str, object]:
    """What tokenizer_config.json says, so that AutoTokenizer loads the folder."""
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    return {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": max_length, **names}
