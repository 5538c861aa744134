"""The tokenizer of a checkpoint, and what shows that it is not the one that the model was trained with.

A wrong tokenizer gives numbers without complaint. So a file that states the whole rule (tokenizer.json) is read as it stands; a
vocabulary that does not state one (vocab.txt) is read only where a rule follows from it; and whatever comes out is held against
the vocabulary file, its mask token and its capitals.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import normalizers

from unmask.errors import ModelError
from unmask.models.source import Source
from unmask.models.text.folder_tokenizer import FolderTokenizer, given_special_tokens, read_folder_tokenizer, tokenizer_config
from unmask.models.text.vocabulary import SPELLINGS, are_letters, is_bracketed, read_vocabulary, tokenizer_from_vocabulary

FILES_WITH_A_RULE = ("tokenizer.json", "vocab.json", "merges.txt", "*.model", "*.bpe")
OWN_CLASSES = ("EsmTokenizer", "BertJapaneseTokenizer", "RoFormerTokenizer")
"""Classes of transformers with a rule of their own for a vocab.txt."""
WORD_PIECES = ("bert", "distilbert", "electra", "mobilebert", "convbert", "megatron-bert", "squeezebert")
"""Architectures whose vocab.txt holds word pieces."""
ADVICE = "make tokenizer.json with the rule that the model was trained with (docs/bring-your-own-model.md)"


def load_tokenizer(source: Source) -> Any:
    """The tokenizer of a folder or a hub name; refused where it cannot be the model's."""
    tokenizer = _load(source)
    if tokenizer.mask_token_id is None:
        raise ModelError(f"the tokenizer of {source.name!r} has no mask token: use a masked language model's tokenizer")
    _refuse_other_mask(tokenizer, source)
    if source.local:
        _refuse_other_vocabulary(tokenizer, source)
    _refuse_lost_capitals(tokenizer, source)
    return tokenizer


def _load(source: Source) -> Any:
    if source.local:
        kind = source.config.get("model_type")
        found = read_folder_tokenizer(source.folder) if kind == "bert" else None
        if found is None and not any(any(source.folder.glob(pattern)) for pattern in FILES_WITH_A_RULE):
            found = _from_vocabulary(source, str(kind))
        if found is not None:
            return found
    from unmask.models.hugging_face import load_tokenizer as ask_transformers

    return ask_transformers(source)


def vocabulary_file(folder: Path) -> Path | None:
    """The vocab.txt of a folder, or of the one above it."""
    beside, above = folder / "vocab.txt", folder.resolve().parent / "vocab.txt"
    return beside if beside.is_file() else above if above.is_file() else None


def _from_vocabulary(source: Source, kind: str) -> FolderTokenizer | None:
    """The tokenizer of a bare vocab.txt, or None where transformers has a rule of its own for it."""
    path = vocabulary_file(source.folder)
    if path is None:
        raise ModelError(f"folder {source.name!r} has no tokenizer: put tokenizer.json (or vocab.txt) beside the weights")
    config = tokenizer_config(source)
    if kind == "esm" or str(config.get("tokenizer_class", "")).removesuffix("Fast") in OWN_CLASSES:
        return None
    tokens = read_vocabulary(path)
    if kind not in WORD_PIECES and not are_letters(tokens):
        raise ModelError(f"{str(path)!r} does not say how a text is cut, and nor does the architecture {kind}: {ADVICE}")
    given, lower = given_special_tokens(config), config.get("do_lower_case")
    tokenizer = tokenizer_from_vocabulary(tokens, None, lower, given, config.get("model_max_length"))
    normaliser = tokenizer.core.normalizer
    if isinstance(normaliser, normalizers.BertNormalizer):
        normaliser.strip_accents = config.get("strip_accents")
        normaliser.handle_chinese_chars = config.get("tokenize_chinese_chars", True)
        tokenizer.core.normalizer = normaliser
    return tokenizer


def _refuse_other_mask(tokenizer: Any, source: Source) -> None:
    """[MASK] put beside a vocabulary that has <mask>: the model never saw that id."""
    vocabulary = tokenizer.get_vocab()
    for spelling in SPELLINGS["mask"]:
        if spelling in vocabulary and vocabulary[spelling] != tokenizer.mask_token_id:
            raise ModelError(
                f"the tokenizer of {source.name!r} takes {tokenizer.mask_token!r} (id {tokenizer.mask_token_id}) for its mask, "
                f"but its vocabulary has {spelling!r} (id {vocabulary[spelling]}): name it as mask_token in tokenizer_config.json"
            )


def _refuse_other_vocabulary(tokenizer: Any, source: Source) -> None:
    """A vocabulary file beside the weights that gives other ids."""
    listed = _listed_ids(source.folder)
    known = tokenizer.get_vocab()
    other = [(token, i) for token, i in listed.items() if token and known.get(token) != i]
    if other:
        token, i = other[0]
        raise ModelError(
            f"the tokenizer of {source.name!r} is not that of its vocabulary file, for {len(other):,} of {len(listed):,} tokens: "
            f"{token!r} is {i} there and {known.get(token)} in the tokenizer, which has {len(known):,} tokens; {ADVICE}"
        )


def _listed_ids(folder: Path) -> dict[str, int]:
    """What a vocab.txt or a vocab.json beside the weights says."""
    if (folder / "vocab.txt").is_file():
        return {token: i for i, token in enumerate(read_vocabulary(folder / "vocab.txt"))}
    try:
        found = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    flat = isinstance(found, dict) and all(isinstance(i, int) for i in found.values())
    return found if flat else {}


def _refuse_lost_capitals(tokenizer: Any, source: Source) -> None:
    """A tokenizer that lowers the text, over a vocabulary with capitals: most of it could never be met."""
    regular = [t for t in sorted(tokenizer.get_vocab()) if t not in tokenizer.all_special_tokens and not is_bracketed(t)]
    capital = [t for t in regular if t.isalpha() and t.isascii() and t != t.lower()]
    if len(capital) < max(3, 0.05 * len(regular)):
        return
    text = " ".join(capital[:50])
    upper, lower = (tokenizer(t, add_special_tokens=False, verbose=False)["input_ids"] for t in (text, text.lower()))
    if upper == lower:
        raise ModelError(
            f"the tokenizer of {source.name!r} lowers the text, but {len(capital):,} of {len(regular):,} tokens have capitals: "
            'write "do_lower_case": false in tokenizer_config.json (or "lowercase": false in tokenizer.json)'
        )
