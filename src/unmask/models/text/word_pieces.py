"""The WordPiece tokenizers of models that `unmask` trains: their special tokens, and their file."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from unmask.common.errors import InputError
from unmask.models.checkpoint_files import refuse_pointer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
UNKNOWN = "[UNK]"


def load_word_pieces(path: Path) -> Tokenizer:
    """A tokenizer.json (or the folder that holds one) with the special tokens that training
    needs.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"no tokenizer at {path}: give a tokenizer.json or a model folder that holds one"
        )
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        refuse_pointer(file)
        raise InputError(
            f"{file} is not a tokenizers file ({error}): give a tokenizer.json"
        ) from None
    missing = [token for token in SPECIAL_TOKENS if tokenizer.token_to_id(token) is None]
    if missing:
        raise InputError(
            f"the tokenizer at {file} lacks {', '.join(missing)}: training needs"
            f" {', '.join(SPECIAL_TOKENS)}"
        )
    tokenizer.no_truncation()  # a file may ask for it, and the rest of each text would be lost
    tokenizer.no_padding()
    return tokenizer


def special_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a special token, which `load_word_pieces` and `train_tokenizer` guarantee."""
    token_id = tokenizer.token_to_id(token)
    assert token_id is not None
    return token_id
