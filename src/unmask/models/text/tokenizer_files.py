"""The tokenizer of a checkpoint, from its files.

A wrong tokenizer gives numbers without complaint. So a file that states the whole rule
(tokenizer.json) is read as it is, without transformers if `unmask train` wrote it. A vocabulary
file (vocab.txt) states no rule, and is read only if one follows from it (`vocabulary`). The
result is checked (`tokenizer_checks`), and refused if it cannot be the one that the model was
trained with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, normalizers

from unmask.common.errors import ModelError
from unmask.common.files import first_line
from unmask.common.warn import warn
from unmask.models.checkpoint_files import (
    TOKENIZER_FILES,
    Source,
    TokenizerAbove,
    read_json,
    refuse_pointers,
)
from unmask.models.loading_turns import quiet_transformers
from unmask.models.text.folder_tokenizer import FolderTokenizer, core_of
from unmask.models.text.tokenizer_checks import (
    refuse_lost_capitals,
    refuse_other_mask,
    refuse_other_vocabulary,
    refuse_shared_ids,
    refuse_unread_mask,
)
from unmask.models.text.tokenizer_config import (
    PLAIN_CLASS,
    SPECIAL_KINDS,
    given_special_tokens,
    tokenizer_config,
)
from unmask.models.text.vocabulary import (
    are_letters,
    read_vocabulary,
    special_tokens,
    tokenizer_from_vocabulary,
)

BERT_CLASSES = ("BertTokenizer", "BertTokenizerFast")
FILES_WITH_A_RULE = ("tokenizer.json", "vocab.json", "merges.txt", "*.model", "*.bpe")
OTHER_LETTERS = ("esm", "perceiver")
"""Types whose own tokenizers in transformers read letters. ESM's has special tokens whose names
need no brackets. Perceiver's reads bytes and needs no file.
"""
BERT_NORMALIZER = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
}
"""Settings of BERT's normaliser: their names in tokenizer.json, and in tokenizer_config.json."""


def load_tokenizer(source: Source) -> Any:
    """The tokenizer of a folder or a hub name. Raises if it cannot be the model's."""
    tokenizer: Any = None
    if source.local:
        tokenizer = _without_transformers(source)
    if tokenizer is None:
        tokenizer = _by_transformers(source)
    if tokenizer.mask_token_id is None:
        raise ModelError(
            f"the tokenizer of {source.name!r} has no mask token: use a masked language model's, or"
            " name the mask as mask_token in its tokenizer_config.json"
        )
    refuse_other_mask(tokenizer, source)
    refuse_unread_mask(tokenizer, source)
    refuse_other_vocabulary(tokenizer, source)
    refuse_shared_ids(tokenizer, source)
    refuse_lost_capitals(tokenizer, source)
    return tokenizer


def _without_transformers(source: Source) -> FolderTokenizer | None:
    """The tokenizer of a folder of `unmask train`, or of one with a vocabulary file only; None
    for any other folder.
    """
    if source.config.get("model_type") == "bert":
        tokenizer = read_folder_tokenizer(source.folder)
        if tokenizer is not None:
            return tokenizer
    for pattern in FILES_WITH_A_RULE:
        if any(source.folder.glob(pattern)):  # transformers reads it
            return None
    return _from_vocabulary(source)


def read_folder_tokenizer(folder: Path) -> FolderTokenizer | None:
    """The tokenizer of a folder with the files and settings that `unmask train` writes; None if
    there are any others.
    """
    try:
        return _as_trained(folder)
    except Exception:  # a file is missing or broken: transformers reads it, or says what is wrong
        return None


def _as_trained(folder: Path) -> FolderTokenizer | None:
    """As `read_folder_tokenizer`, but raises whatever a missing or broken file leads to."""
    config = read_json(folder / "tokenizer_config.json", remedy="")  # the error is not shown
    rule = read_json(folder / "tokenizer.json", remedy="")
    named = given_special_tokens(config)
    special = {token["content"] for token in rule["added_tokens"] if token["special"]}
    understood = {
        "tokenizer_class",
        "model_max_length",
        *(f"{kind}_token" for kind in SPECIAL_KINDS),
    }
    all_settings_understood = set(config) <= understood
    all_named_are_special = set(named.values()) <= special
    other_files = [folder / "added_tokens.json", folder / "special_tokens_map.json"]
    has_other_files = any(path.exists() for path in other_files)
    written_by_train = (
        config.get("tokenizer_class") == PLAIN_CLASS
        and all_settings_understood
        and all_named_are_special
        and not has_other_files
    )
    if not written_by_train:
        return None
    return FolderTokenizer(Tokenizer.from_str(json.dumps(rule)), named, config)


def _by_transformers(source: Source) -> Any:
    """The tokenizer that transformers makes of a folder or a hub name, or the folder's
    tokenizer.json as it is.

    A class of transformers (BertTokenizer) takes only the vocabulary from tokenizer.json and
    makes the rule itself. This can be another kind of rule than the file has, such as a regular
    expression that cuts chemical formulas. The file is then read as it is. So it is if
    transformers fails.
    """
    from transformers import AutoTokenizer

    tokenizer: Any = None
    problem = ""
    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                source.name, local_files_only=source.files_only, trust_remote_code=False
            )
        except Exception as error:
            problem = first_line(error)
    path = source.folder / "tokenizer.json"
    if source.local and path.is_file():
        try:
            if tokenizer is None or _is_replaced(tokenizer, path, source):
                return as_it_is(Tokenizer.from_file(str(path)), tokenizer_config(source))
        except ModelError:  # it says what to do
            raise
        except Exception as error:
            # refused below, even if transformers has made a tokenizer: its rule is not checked
            tokenizer = None
            problem = first_line(error)
    if tokenizer is not None:
        return tokenizer
    if source.local:
        refuse_pointers(source.folder, *TOKENIZER_FILES)
        remedy = "save it again, with save_pretrained"
    else:
        remedy = "give a model that has one"
    raise ModelError(f"the tokenizer of {source.name!r} cannot be read ({problem}): {remedy}")


def as_it_is(core: Tokenizer, config: Mapping[str, Any]) -> FolderTokenizer:
    """A tokenizer.json without any change, its special tokens named by `config` or by their
    usual spellings.
    """
    named = special_tokens(core.get_vocab(), given_special_tokens(config))
    core.add_special_tokens(list(named.values()))
    return FolderTokenizer(core, named, config)


def _is_replaced(tokenizer: Any, path: Path, source: Source) -> bool:
    """Whether a tokenizer of transformers cuts texts by another rule than the tokenizer.json at
    `path`, for no reason that tokenizer_config.json gives.

    Its BertTokenizer lowers texts unless told otherwise there.
    """
    core = core_of(tokenizer)
    if core is None:  # written in Python: it has no rule to compare
        return False
    rule = json.loads(path.read_text("utf-8"))
    built = json.loads(core.to_str())
    config = tokenizer_config(source)
    if _kinds_of_parts(rule) != _kinds_of_parts(built):
        return True
    of_rule = rule.get("normalizer") or {}
    of_built = built.get("normalizer") or {}
    for setting, name_in_config in BERT_NORMALIZER.items():
        if setting not in of_rule or name_in_config in config:
            continue
        if of_rule.get(setting) != of_built.get(setting):
            return True
    return False


def _kinds_of_parts(rule: Mapping[str, Any]) -> list[str]:
    """The kinds of model, pre-tokenizers and normalisers of a tokenizer.json, in order."""
    # parts lie in others, such as those of a Sequence: their kinds are found in the written form
    parts = json.dumps([rule.get("pre_tokenizer"), rule.get("normalizer")])
    kinds = re.findall(r'"type": "(\w+)"', parts)
    return [str(rule["model"].get("type")), *kinds]


def _from_vocabulary(source: Source) -> FolderTokenizer | None:
    """The tokenizer of a vocab.txt of letters, or of a BERT, in the folder or the one above;
    None if transformers may read it.
    """
    config = tokenizer_config(source)
    model_type = source.config.get("model_type")
    beside = source.folder / "vocab.txt"
    above = source.folder.resolve().parent / "vocab.txt"
    if beside.is_file() or not above.is_file():
        path = beside
    else:
        path = above
    tokens = read_vocabulary(path) if path.is_file() else []
    default_class = BERT_CLASSES[0] if model_type == "bert" else ""
    is_bert = config.get("tokenizer_class", default_class) in BERT_CLASSES
    if is_bert:
        has_rule = bool(tokens)  # word pieces, or letters
    elif model_type in OTHER_LETTERS:
        return None
    else:
        has_rule = are_letters(tokens)
        if tokens and not has_rule and path == beside:
            return None  # transformers may know the rule of this type
    if not has_rule:
        raise ModelError(
            f"folder {source.name!r} has no tokenizer: put tokenizer.json (or vocab.txt) beside the"
            " weights"
        )
    if path == above:
        message = f"folder {source.name!r} has no tokenizer, and {str(above)!r} is used"
        warn(
            f"{message}: if it is the model's, copy it beside the weights",
            TokenizerAbove,
        )
    tokenizer = tokenizer_from_vocabulary(
        tokens,
        lower=config.get("do_lower_case"),
        special=given_special_tokens(config),
        max_length=config.get("model_max_length"),
    )
    normaliser = tokenizer.backend_tokenizer.normalizer
    if isinstance(normaliser, normalizers.BertNormalizer):
        normaliser.strip_accents = config.get("strip_accents")
        normaliser.handle_chinese_chars = config.get("tokenize_chinese_chars", True)
        tokenizer.backend_tokenizer.normalizer = normaliser
    return tokenizer
