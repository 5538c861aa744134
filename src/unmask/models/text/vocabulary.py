"""A tokenizer from a vocabulary file: one token per line, and the number of the line, from 0, is its id.

Such a file does not say how a text is cut into tokens. Three rules can be made of it:

    letters        all tokens are single characters: every character is a token
    word pieces    BERT's rule: words and punctuation, then the longest pieces ("play", "##ing"). Text is lowered if no
                   token has a capital
    a pattern      a regular expression whose matches are the tokens, as for chemical formulas; it must be given

The special tokens are found by their names, in square or angle brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from unmask.errors import InputError, ModelError
from unmask.models.source import first_line
from unmask.models.text.folder_tokenizer import NAMES, FolderTokenizer
from unmask.runs.fingerprint import content_hash

SPELLINGS = {
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>", "[BOS]", "<bos>"),
    "sep": ("[SEP]", "<sep>", "</s>", "<eos>", "[EOS]"),
}
"""How vocabularies spell the special tokens; the first that is there is meant."""


def read_vocabulary(path: Path) -> list[str]:
    """The tokens of a file in the order of their ids."""
    try:
        tokens = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"the vocabulary {str(path)!r} cannot be read ({first_line(error)}): write it as UTF-8 text") from None
    while tokens and not tokens[-1]:
        tokens.pop()
    return tokens


def vocabulary_hash(vocabulary: Mapping[str, int]) -> str:
    """Identifies the tokens and their ids; folders that `unmask train` writes note it."""
    return content_hash(json.dumps(sorted(vocabulary.items())))


def is_bracketed(token: str) -> bool:
    """Whether a token is a name in brackets, such as [MASK] or <null_1>, which is not text."""
    return re.fullmatch(r"<.+>|\[.+\]", token) is not None


def are_letters(tokens: Collection[str]) -> bool:
    """Whether all tokens, except names in brackets, are single characters."""
    words = [token for token in tokens if not is_bracketed(token)]
    return bool(words) and all(len(token) == 1 and token != " " for token in words)


def special_tokens(tokens: Collection[str], given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The special tokens of a vocabulary: those given by name (such as {"mask": "<mask>"}), else those that are spelled so."""
    known = set(tokens)
    found = {name: next((s for s in spellings if s in known), "") for name, spellings in SPELLINGS.items()} | dict(given or {})
    for name, token in found.items():
        if token and token not in known:
            raise ModelError(f"the {name} token {token!r} is not in the vocabulary file: name the one that is")
    if not found["mask"]:
        raise ModelError(
            "the vocabulary file has no mask token ([MASK] or <mask>): give the file that the model was trained with"
        )
    return {name: token for name, token in found.items() if token}


def tokenizer_from_vocabulary(
    vocabulary: Sequence[str] | str | Path,
    pattern: str | None = None,
    lower: bool | None = None,
    special: Mapping[str, str] | None = None,
    max_length: int | None = None,
) -> FolderTokenizer:
    """The tokenizer of a vocabulary, by one of the three rules above; `save_pretrained` writes its tokenizer.json.

    vocabulary  the tokens in order, or the file that lists them
    pattern     a regular expression of which each match is a token; what it does not match is unknown
    lower       whether text is lowered before it is cut into word pieces; by default, if no token has a capital
    special     special tokens with other names than usual: {"mask": "*"}
    max_length  the longest text in tokens, if known
    """
    tokens = read_vocabulary(Path(vocabulary)) if isinstance(vocabulary, str | Path) else list(vocabulary)
    named = special_tokens(tokens, special)
    ids = {token: i for i, token in enumerate(tokens)}
    regular = [token for token in tokens if token not in named.values()]
    core = _core(ids, regular, named.get("unk"), pattern, lower)
    start, end = named.get("cls"), named.get("sep")
    around = [(token, ids[token]) for token in (start, end) if token is not None]
    core.post_processor = processors.TemplateProcessing(
        single=" ".join(part for part in (start, "$A", end) if part is not None), special_tokens=list(dict.fromkeys(around))
    )
    core.add_special_tokens([named[name] for name in NAMES if name in named])
    return FolderTokenizer(core, named, {} if max_length is None else {"model_max_length": max_length})


def _core(ids: dict[str, int], regular: list[str], unknown: str | None, pattern: str | None, lower: bool | None) -> Tokenizer:
    named: dict[str, Any] = {} if unknown is None else {"unk_token": unknown}
    if pattern is None and not are_letters(regular):
        core = Tokenizer(models.WordPiece(ids, **named))
        cased = any(token != token.lower() for token in regular if not is_bracketed(token))
        core.normalizer = normalizers.BertNormalizer(lowercase=not cased if lower is None else lower)
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        core.decoder = decoders.WordPiece(prefix="##")
        return core
    core = Tokenizer(models.WordLevel(ids, **named))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.decoder = decoders.Fuse()
    if pattern is not None:
        try:
            split = pre_tokenizers.Split(Regex(pattern), "isolated")
        except Exception as error:
            raise InputError(f"pattern {pattern!r} is not a regular expression ({first_line(error)}): correct it") from None
        core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    return core
