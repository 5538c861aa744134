"""The WordPiece tokenizers of models that `unmask` trains: their special tokens, their file, and
whether two of them are the same.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer

from unmask.common.errors import InputError
from unmask.models.checkpoint_files import refuse_pointer

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
UNKNOWN = "[UNK]"
CUT_BY = ("normalizer", "pre_tokenizer", "model", "added_tokens")
"""The parts of a tokenizer.json that decide which ids a text has, without its start and end."""


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


def tokenizer_difference(own: Tokenizer, other: Tokenizer) -> str:
    """Where the ids of `other` differ from those of `own`, in words: a token, or a part of the
    rule. Empty if nowhere.
    """
    ids = own.get_vocab(with_added_tokens=True)
    other_ids = other.get_vocab(with_added_tokens=True)
    for token, i in sorted(ids.items(), key=lambda item: item[1]):
        if token not in other_ids:
            return f"it lacks {token!r}"
        if other_ids[token] != i:
            return f"{token!r} has id {other_ids[token]} in it and {i} in the model"
    more = sorted(set(other_ids) - set(ids))
    if more:
        return f"it has {more[0]!r}, which the model lacks"
    rule = json.loads(own.to_str())
    other_rule = json.loads(other.to_str())
    for part in CUT_BY:
        if rule.get(part) != other_rule.get(part):
            return f"its {part} is another one, so it cuts texts in another way"
    return ""
