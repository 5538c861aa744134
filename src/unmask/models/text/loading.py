"""The tokenizer of a checkpoint, refused if it cannot be the one that the model was trained with.

A wrong tokenizer gives numbers without complaint. So a file that states the whole rule (tokenizer.json) is read as it is; a
vocabulary that does not state one (vocab.txt) is read only if a rule follows from it; and the result is checked against the
vocabulary file, its mask token and its capitals.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers

from unmask import checks
from unmask.errors import InputError, ModelError, UnmaskWarning
from unmask.models.source import Source, first_line, quiet_transformers
from unmask.models.text.text_tokenizer import core_of
from unmask.models.text.vocabulary import (
    SPELLINGS,
    FolderTokenizer,
    are_letters,
    given_special_tokens,
    is_bracketed,
    read_folder_tokenizer,
    read_vocabulary,
    special_tokens,
    tokenizer_config,
    tokenizer_from_vocabulary,
    vocabulary_hash,
)
from unmask.models.weights import noted_vocabulary

FILES_WITH_A_RULE = ("tokenizer.json", "vocab.json", "merges.txt", "*.model", "*.bpe")
BYTES = "PerceiverTokenizer"
"""The class of transformers that needs no file."""
LETTERS = "EsmTokenizer"
"""The class whose letters are read with names that are not in brackets."""
WORD_PIECES = (
    *("BertTokenizer", "ConvBertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "ErnieTokenizer"),
    *("LayoutLMTokenizer", "MobileBertTokenizer", "RoCBertTokenizer", "SqueezeBertTokenizer", "TapasTokenizer"),
)
"""Classes with BERT's rule for a vocab.txt."""
MOST_FILLED = 100_000
"""Ids between the tokenizer's last one and the mask's."""
PADDED_TO = (64, 128)
FEW_UNUSED, SHARE_UNUSED = 8, 0.02
"""Embeddings without a token that need no word: up to a multiple that is fast, or as few as published models have."""
ADVICE = "make tokenizer.json with the rule that the model was trained with (docs/bring-your-own-model.md)"


def load_tokenizer(source: Source, mask_token: str | None = None) -> Any:
    """The tokenizer of a folder or a hub name; refused if it cannot be the model's. `mask_token`: its mask, if it names none."""
    tokenizer = with_mask(_load(source, mask_token), mask_token=mask_token)
    if tokenizer.mask_token_id is None:
        raise ModelError(
            f"the tokenizer of {source.name!r} has no mask token: use a masked language model's tokenizer, or name the mask "
            "token (--mask-token)"
        )
    if mask_token is None:
        _refuse_other_mask(tokenizer, source)
    if tokenizer(2 * tokenizer.mask_token, verbose=False)["input_ids"].count(tokenizer.mask_token_id) != 2:
        raise ModelError(f"the tokenizer of {source.name!r} does not read {tokenizer.mask_token!r} as its mask token: {ADVICE}")
    refuse_other_vocabulary(tokenizer, source)
    _refuse_lost_capitals(tokenizer, source)
    return tokenizer


def _load(source: Source, mask_token: str | None) -> Any:
    if source.local:
        kind = source.config.get("model_type")
        found = read_folder_tokenizer(source.folder) if kind == "bert" else None
        if found is None and not any(any(source.folder.glob(pattern)) for pattern in FILES_WITH_A_RULE):
            found = _from_vocabulary(source, _class_of(tokenizer_config(source), str(kind)))
        if found is not None:
            return found
    return _by_transformers(source, mask_token)


def _by_transformers(source: Source, mask_token: str | None) -> Any:
    """The tokenizer that transformers makes of a folder or a hub name, or the folder's tokenizer.json as it is.

    A class of transformers (BertTokenizer, AlbertTokenizer) keeps the vocabulary of tokenizer.json and rebuilds the rest; a
    regular expression that cuts chemical formulas would be lost. If the class has replaced the file's rule by one of another
    kind, or fails on it, the file is read as it is.
    """
    from transformers import AutoTokenizer

    tokenizer: Any = None
    failed = ""
    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(source.name, local_files_only=source.files_only, trust_remote_code=False)
        except Exception as error:
            failed = first_line(error)
    path = source.folder / "tokenizer.json"
    if source.local and path.is_file():
        built = core_of(tokenizer)
        try:
            if tokenizer is None or (built and _kinds(json.loads(path.read_text("utf-8"))) != _kinds(json.loads(built.to_str()))):
                mask = {} if mask_token is None else {"mask_token": mask_token}
                return as_it_is(Tokenizer.from_file(str(path)), {**tokenizer_config(source), **mask})
        except Exception as error:
            tokenizer, failed = None, first_line(error)
    if tokenizer is None:
        remedy = "save it again, with save_pretrained" if source.local else "give a model that has one"
        raise ModelError(f"the tokenizer of {source.name!r} cannot be read ({failed}): {remedy}")
    return tokenizer


def as_it_is(core: Tokenizer, config: Mapping[str, Any]) -> FolderTokenizer:
    """A tokenizer.json without any change, its special tokens named by `config` or by their usual spellings."""
    named = special_tokens(core.get_vocab(), given_special_tokens(config))
    core.add_special_tokens(list(named.values()))
    return FolderTokenizer(core, named, config)


def _kinds(rule: Mapping[str, Any]) -> list[str]:
    """The kinds of model, pre-tokenizers and normalisers of a tokenizer.json, in order."""
    found: list[str] = [str(rule["model"].get("type"))]
    for name in ("pre_tokenizer", "normalizer"):
        waiting = [rule.get(name)]
        while waiting:
            part = waiting.pop(0)
            if isinstance(part, dict):
                found.append(f"{name} {part['type']}")
                waiting = [*part.get("pretokenizers", []), *part.get("normalizers", []), *waiting]
    return found


def vocabulary_file(folder: Path) -> Path | None:
    """The vocab.txt of a folder, or of the one above it."""
    beside, above = folder / "vocab.txt", folder.resolve().parent / "vocab.txt"
    if beside.is_file() or not above.is_file():
        return beside if beside.is_file() else None
    copy = "if it is the model's, copy it beside the weights"
    warnings.warn(f"folder {str(folder)!r} has no tokenizer, and {str(above)!r} is used: {copy}", UnmaskWarning, stacklevel=2)
    return above


def _class_of(config: Mapping[str, Any], kind: str) -> str:
    """The class that tokenizer_config.json names, or else that transformers has for the architecture; empty if neither does."""
    named = config.get("tokenizer_class")
    if not named and kind != "bert":
        from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

        named = TOKENIZER_MAPPING_NAMES.get(kind)
    return str(named or ("BertTokenizer" if kind == "bert" else "")).removesuffix("Fast")


def _from_vocabulary(source: Source, rule: str) -> FolderTokenizer | None:
    """The tokenizer of a bare vocab.txt, or None if the class `rule` of transformers has its own rule for it."""
    path = vocabulary_file(source.folder)
    if rule == BYTES:
        return None
    if path is None:
        raise ModelError(f"folder {source.name!r} has no tokenizer: put tokenizer.json (or vocab.txt) beside the weights")
    config = tokenizer_config(source)
    tokens = read_vocabulary(path)
    if rule not in WORD_PIECES and (rule == LETTERS or not are_letters(tokens)):
        if _reads_vocabularies(rule):
            return None
        kind = source.config.get("model_type")
        raise ModelError(f"{str(path)!r} does not say how a text is cut, and nor does the architecture {kind}: {ADVICE}")
    given, lower = given_special_tokens(config), config.get("do_lower_case")
    tokenizer = tokenizer_from_vocabulary(tokens, None, lower, given, config.get("model_max_length"))
    normaliser = tokenizer.backend_tokenizer.normalizer
    if isinstance(normaliser, normalizers.BertNormalizer):
        normaliser.strip_accents = config.get("strip_accents")
        normaliser.handle_chinese_chars = config.get("tokenize_chinese_chars", True)
        tokenizer.backend_tokenizer.normalizer = normaliser
    return tokenizer


def _reads_vocabularies(rule: str) -> bool:
    """Whether a class of transformers makes a tokenizer of a vocab.txt alone."""
    from transformers.models.auto.tokenization_auto import tokenizer_class_from_name

    made: Any = tokenizer_class_from_name(rule) if rule else None
    return {"vocab.txt"} == set(getattr(made, "vocab_files_names", {}).values()) - {"tokenizer.json"}


def _refuse_other_mask(tokenizer: Any, source: Source) -> None:
    """[MASK] put beside a vocabulary that has <mask>, which the model never saw; or another mask than the one that ESM zeroes."""
    vocabulary = tokenizer.get_vocab()
    stated = source.config.get("mask_token_id")
    if source.config.get("token_dropout") and isinstance(stated, int) and stated != tokenizer.mask_token_id:
        raise ModelError(
            f"config.json of {source.name!r} says mask_token_id {stated}, and {tokenizer.mask_token!r} of its tokenizer has id "
            f"{tokenizer.mask_token_id}: use the tokenizer that the model was trained with, or correct mask_token_id"
        )
    core = core_of(tokenizer)
    named = given_special_tokens(tokenizer_config(source)).get("mask") if source.local else None
    if core is not None and named == tokenizer.mask_token and named in core.get_vocab(with_added_tokens=False):
        return
    for spelling in SPELLINGS["mask"]:
        if spelling in vocabulary and vocabulary[spelling] != tokenizer.mask_token_id:
            raise ModelError(
                f"the tokenizer of {source.name!r} takes {tokenizer.mask_token!r} (id {tokenizer.mask_token_id}) for its mask, "
                f"but its vocabulary has {spelling!r} (id {vocabulary[spelling]}): name it as mask_token in tokenizer_config.json"
            )


def refuse_other_vocabulary(tokenizer: Any, source: Source) -> None:
    """A vocabulary file beside the weights that gives other ids, or weights that were trained with another vocabulary."""
    if not source.local:
        return
    listed = _listed_ids(source.folder)
    known = tokenizer.get_vocab()
    trained = noted_vocabulary(source.folder)
    if trained is not None and vocabulary_hash(known) != trained:
        raise ModelError(
            f"the tokenizer of {source.name!r} has other tokens, or other ids, than the model was trained with: put its "
            "tokenizer.json back"
        )
    other = [(token, i) for token, i in listed.items() if token and known.get(token) != i]
    if other:
        token, i = other[0]
        raise ModelError(
            f"the tokenizer of {source.name!r} is not that of its vocabulary file, for {len(other):,} of {len(listed):,} tokens: "
            f"{token!r} is {i} there and {known.get(token)} in the tokenizer, which has {len(known):,} tokens; {ADVICE}"
        )


def _listed_ids(folder: Path) -> dict[str, int]:
    """The tokens and ids of a vocab.txt or vocab.json beside the weights."""
    if (folder / "vocab.txt").is_file():
        return {token: i for i, token in enumerate(read_vocabulary(folder / "vocab.txt"))}
    try:
        found = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    flat = isinstance(found, dict) and all(isinstance(i, int) for i in found.values())
    return found if flat else {}


def _refuse_lost_capitals(tokenizer: Any, source: Source) -> None:
    """A tokenizer that lowers the text, over a vocabulary with capitals: most of it could never occur."""
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


def refuse_foreign_tokenizer(tokenizer: Any, embeddings: int, name: str, used: Sequence[str] = ("mask",)) -> None:
    """Raise when the tokenizer has a token that a model of `embeddings` tokens does not know.

    `used`: the special tokens that a text needs. A model may lack the others.
    """
    ignored = set(tokenizer.all_special_ids) - {getattr(tokenizer, f"{special}_token_id") for special in used}
    beyond = sorted((i, token) for token, i in tokenizer.get_vocab().items() if i >= embeddings and i not in ignored)
    if beyond:
        raise ModelError(
            f"{len(beyond)} tokens of the tokenizer of {name!r}, {beyond[0][1]!r} first, are unknown to the model, which has "
            f"{embeddings}: use the tokenizer that the model was trained with"
        )


def warn_of_few_tokens(tokenizer: Any, embeddings: int, name: str) -> None:
    """Warn when the tokenizer has far fewer tokens than the model: it may be another model's."""
    tokens = len(set(tokenizer.get_vocab().values()))
    padded = any(embeddings == -(-tokens // multiple) * multiple for multiple in PADDED_TO)
    if embeddings - tokens > max(FEW_UNUSED, SHARE_UNUSED * embeddings) and not padded:
        warnings.warn(
            f"the tokenizer of {name!r} has {tokens:,} tokens and the model {embeddings:,} embeddings: if it is another model's, "
            "the numbers mean nothing; unmask check --data with texts of your own shows it",
            UnmaskWarning,
            stacklevel=4,
        )


def with_mask(tokenizer: Any, mask_id: int | None = None, mask_token: str | None = None) -> Any:
    """The tokenizer, or a copy with this mask token; an id that it has no token for gets one.

    Diffusion language models often have a mask token that their tokenizer does not name.
    """
    if mask_id is None and mask_token is None:
        return tokenizer
    if mask_id is not None:
        mask_id = checks.whole("mask_id", mask_id, 0, checks.MOST_TOKENS)
    vocabulary = tokenizer.get_vocab()
    if mask_token is not None and mask_token not in vocabulary:
        raise InputError(
            f"mask_token {mask_token!r} is not a token of the tokenizer: name one that is, or give mask_id in Python"
        )
    copied = deepcopy(tokenizer)
    if mask_token is None:
        mask_token = next((token for token, i in vocabulary.items() if i == mask_id), None) or _token_for(copied, mask_id)
    if hasattr(copied, "add_special_tokens"):
        copied.add_special_tokens({"mask_token": mask_token})
    else:
        copied.backend_tokenizer.add_special_tokens([mask_token])
        copied = FolderTokenizer(copied.backend_tokenizer, {**copied.named, "mask": mask_token}, copied.config)
    return copied


def _token_for(tokenizer: Any, mask_id: int | None) -> str:
    """A new token at `mask_id`, with special ones that no text has before it."""
    core = getattr(tokenizer, "backend_tokenizer", None)
    size = len(tokenizer) if core is None else core.get_vocab_size(with_added_tokens=True)
    if core is None or mask_id is None or not 0 <= mask_id - size <= MOST_FILLED:
        raise InputError(
            f"mask_id {mask_id} has no token, and the tokenizer has {size}: give the id of a token, or from {size} on"
        )
    core.add_special_tokens([f"[UNUSED{i}]" for i in range(size, mask_id)] + ["[MASK]"])
    if core.token_to_id("[MASK]") != mask_id:
        raise InputError(f"mask_id {mask_id} has no token, and [MASK] is another: give its id, {core.token_to_id('[MASK]')}")
    return "[MASK]"
