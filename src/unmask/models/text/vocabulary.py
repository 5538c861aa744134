"""A vocabulary, and the tokenizer that follows from it.

A vocabulary file (vocab.txt: one token per line, whose number from 0 is its id) states no rule
that cuts a text into tokens. These rules can follow from it:

    letters        all tokens are single characters: every character is a token
    word pieces    BERT's rule: words and punctuation, then the longest pieces ("play",
                   "##ing"). Text is lowered if no token has a capital
    a pattern      a regular expression whose matches are the tokens, as for chemical formulas;
                   it must be given

The special tokens are recognised by their spelling, in square or angle brackets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from unmask.common.errors import InputError, ModelError
from unmask.common.files import first_line
from unmask.models.checkpoint_files import refuse_pointer
from unmask.models.text.folder_tokenizer import FolderTokenizer
from unmask.models.text.tokenizer_config import SPECIAL_KINDS
from unmask.runs.fingerprint import content_hash

SPELLINGS: dict[str, tuple[str, ...]] = {
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>", "[BOS]", "<bos>"),
    "sep": ("[SEP]", "<sep>", "</s>", "<eos>", "[EOS]"),
}
"""How vocabularies spell the special tokens. If a vocabulary has several spellings of one kind,
the first counts."""
CONTINUES = "##"  # Stands before a word piece that continues a word


def read_vocabulary(path: Path) -> list[str]:
    """The tokens of a file in the order of their ids."""
    refuse_pointer(path)
    try:
        tokens = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"the vocabulary {str(path)!r} cannot be read ({first_line(error)}): write it as UTF-8"
            " text"
        ) from None
    while tokens and not tokens[-1]:  # empty lines at the end; elsewhere they count as ids
        tokens.pop()
    return tokens


def vocabulary_hash(vocabulary: Mapping[str, int]) -> str:
    """Identifies the tokens and their ids, in whatever order they are given."""
    in_order = sorted(vocabulary.items())
    return content_hash(json.dumps(in_order))


def is_bracketed(token: str) -> bool:
    """Whether a token is a name in brackets, such as [MASK] or <null_1>, which is not text."""
    return re.fullmatch(r"<.+>|\[.+\]", token) is not None


def are_letters(tokens: Collection[str]) -> bool:
    """Whether all tokens, except names in brackets, are single characters."""
    regular = [token for token in tokens if not is_bracketed(token)]
    return bool(regular) and all(len(token) == 1 and token != " " for token in regular)


def special_tokens(
    tokens: Collection[str], names: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The special tokens of a vocabulary by kind, such as {"mask": "<mask>"}.

    `names` has precedence over the usual spellings. Raises without a mask token, and for a name
    that is not in the vocabulary.
    """
    known = set(tokens)
    special = {
        kind: next((spelling for spelling in spellings if spelling in known), "")
        for kind, spellings in SPELLINGS.items()
    }
    special |= names or {}
    special = {kind: token for kind, token in special.items() if token}  # "" is no token
    for kind, token in special.items():
        if token not in known:
            raise ModelError(
                f"the {kind} token {token!r} is not in the vocabulary file: name the one that is"
            )
    if "mask" not in special:
        raise ModelError(
            "the vocabulary has no mask token ([MASK] or <mask>): name the model's as mask_token in"
            " its tokenizer_config.json"
        )
    return special


def tokenizer_from_vocabulary(
    vocabulary: Sequence[str] | str | Path,
    pattern: str | None = None,
    lower: bool | None = None,
    special: Mapping[str, str] | None = None,
    max_length: int | None = None,
) -> FolderTokenizer:
    """The tokenizer of a vocabulary, by one of the three rules above; `save_pretrained` writes
    its tokenizer.json.

    vocabulary  the tokens in order, or the file that lists them
    pattern     a regular expression of which each match is a token; what it does not match is
                unknown
    lower       whether text is lowered before it is cut into word pieces; by default, if no
                token has a capital
    special     special tokens with other names than usual: {"mask": "*"}
    max_length  the longest text in tokens, if known
    """
    if isinstance(vocabulary, str | Path):
        tokens = read_vocabulary(Path(vocabulary))
    else:
        tokens = list(vocabulary)
    named = special_tokens(tokens, special)
    all_special = set(named.values())
    regular = [token for token in tokens if token not in all_special]
    ids = {token: i for i, token in enumerate(tokens)}
    unknown = named.get("unk")
    if pattern is not None:
        core = _by_pattern(ids, unknown, pattern)
    elif are_letters(regular):
        core = _word_level(ids, unknown)
    else:
        if lower is None:
            lower = _has_no_capitals(regular)
        core = _word_pieces(ids, unknown, lower)
    core.post_processor = _start_and_end(named.get("cls"), named.get("sep"), ids)
    core.add_special_tokens([named[kind] for kind in SPECIAL_KINDS if kind in named])
    config = {} if max_length is None else {"model_max_length": max_length}
    return FolderTokenizer(core, named, config)


def _word_pieces(ids: dict[str, int], unknown: str | None, lower: bool) -> Tokenizer:
    """BERT's rule."""
    core = Tokenizer(models.WordPiece(ids, **_unknown_token(unknown)))
    core.normalizer = normalizers.BertNormalizer(lowercase=lower)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.decoder = decoders.WordPiece(prefix=CONTINUES)
    return core


def _word_level(ids: dict[str, int], unknown: str | None) -> Tokenizer:
    """Each part between spaces is a token. `TextTokenizer` puts spaces between letters."""
    core = Tokenizer(models.WordLevel(ids, **_unknown_token(unknown)))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.decoder = decoders.Fuse()
    return core


def _by_pattern(ids: dict[str, int], unknown: str | None, pattern: str) -> Tokenizer:
    """Each match of a regular expression is a token, and so is each part between matches."""
    core = _word_level(ids, unknown)
    try:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
    except Exception as error:
        raise InputError(
            f"{pattern!r} is not a regular expression ({first_line(error)})",
            argument="pattern",
            use="correct it",
        ) from None
    core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    return core


def _unknown_token(unknown: str | None) -> dict[str, Any]:
    """The argument of a model of `tokenizers`; left out, it has the model's default."""
    return {} if unknown is None else {"unk_token": unknown}


def _has_no_capitals(regular: Sequence[str]) -> bool:
    return all(token == token.lower() for token in regular if not is_bracketed(token))


def _start_and_end(
    start: str | None, end: str | None, ids: Mapping[str, int]
) -> processors.PostProcessor:
    """Puts the start and end tokens around a text, as far as there are such tokens."""
    template = [part for part in (start, "$A", end) if part is not None]
    around = [(token, ids[token]) for token in (start, end) if token is not None]
    return processors.TemplateProcessing(
        single=" ".join(template),
        special_tokens=list(dict.fromkeys(around)),  # start and end may be one token
    )
