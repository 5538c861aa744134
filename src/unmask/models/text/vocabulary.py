"""Tokenizers made of files alone, without importing transformers: a folder's tokenizer.json, or a list of tokens.

tokenizer.json states the whole rule; tokenizer_config.json names the special tokens and may overrule three options of BERT's
normaliser. `read_folder_tokenizer` is strict: for any unrecognised setting it gives None, and the caller asks transformers
instead.

A vocabulary file has one token per line, and the number of the line, from 0, is its id. It does not say how a text is cut into
tokens. Three rules can be made of it:

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
from unmask.models.source import Source, first_line
from unmask.runs.fingerprint import content_hash

NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
BERT_CLASSES = ("BertTokenizer", "BertTokenizerFast")
PLAIN_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
BERT_DEFAULTS = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
NORMALISER_OPTIONS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
"""Names in tokenizer_config.json, and those in tokenizer.json's BertNormalizer that they overrule."""
ONLY_AS_HERE: dict[str, tuple[object, ...]] = {
    "additional_special_tokens": ([], None),
    "extra_special_tokens": ([], {}, None),
    "split_special_tokens": (False,),
    "do_basic_tokenize": (True,),
    "never_split": (None, []),
}
WITHOUT_EFFECT = frozenset(
    """
    backend clean_up_tokenization_spaces is_local local_files_only max_length model_input_names model_max_length
    name_or_path pad_to_multiple_of pad_token_type_id padding_side processor_class special_tokens_map_file stride
    tokenizer_class tokenizer_file truncation_side truncation_strategy
    """.split()
)
LARGEST_VOCABULARY = 100_000
"""Above this, transformers looks for vocabularies that were published with a wrong regular expression, and repairs them."""
UNLIMITED = 10**30
GLUED = {mark: mark.strip() for mark in (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")}
"""Written without a space in English; decoders of word pieces put one there."""
SPELLINGS = {
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>", "[BOS]", "<bos>"),
    "sep": ("[SEP]", "<sep>", "</s>", "<eos>", "[EOS]"),
}
"""How vocabularies spell the special tokens; the first that is there is meant."""


class FolderTokenizer:
    """A `tokenizers.Tokenizer` with the part of Hugging Face's tokenizer interface that `unmask` uses."""

    def __init__(self, core: Tokenizer, named: Mapping[str, str], config: Mapping[str, Any]) -> None:
        """`named`: the special tokens, such as {"mask": "[MASK]"}; `config`: what tokenizer_config.json says."""
        core.no_truncation()
        core.no_padding()
        self.backend_tokenizer, self.named, self.config = core, dict(named), dict(config)
        self.model_max_length: int = config.get("model_max_length") or UNLIMITED
        self.all_special_tokens: list[str] = list(dict.fromkeys(named[name] for name in NAMES if name in named))
        self.all_special_ids: list[int] = self.convert_tokens_to_ids(self.all_special_tokens)

    def __getattr__(self, name: str) -> Any:
        """A special token, such as `mask_token`, or its id, `mask_token_id`; None if there is no such token."""
        kind, _, part = name.partition("_")
        if kind not in NAMES or part not in ("token", "token_id"):
            raise AttributeError(f"a tokenizer has no {name!r}")
        token = self.named.get(kind)
        return token if token is None or part == "token" else self.backend_tokenizer.token_to_id(token)

    def __call__(self, text: str | Sequence[str], add_special_tokens: bool = True, verbose: bool = False) -> dict[str, list[Any]]:
        """The ids of a text, or a list of ids for each of several."""
        one = isinstance(text, str)
        encoded = self.backend_tokenizer.encode_batch([text] if one else list(text), add_special_tokens=add_special_tokens)
        return {"input_ids": encoded[0].ids if one else [e.ids for e in encoded]}

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size(with_added_tokens=True)

    def get_vocab(self) -> dict[str, int]:
        """Every token and its id, added ones included."""
        return self.backend_tokenizer.get_vocab(with_added_tokens=True)

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """The token of an id, or None if it is missing; a list for several."""
        if isinstance(ids, int):
            return self.backend_tokenizer.id_to_token(ids)
        return [self.backend_tokenizer.id_to_token(int(i)) for i in ids]

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of a token, that of the unknown token if it is missing; a list for several."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        found = self.backend_tokenizer.token_to_id(tokens)
        return self.unk_token_id if found is None else found

    def decode(self, ids: Sequence[int], clean_up_tokenization_spaces: bool = False) -> str:
        """The text that ids spell; without spaces before punctuation if asked for, which word pieces lose."""
        text = self.backend_tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)
        if clean_up_tokenization_spaces and type(self.backend_tokenizer.model).__name__ != "BPE":
            for apart, glued in GLUED.items():
                text = text.replace(apart, glued)
        return text

    def save_pretrained(self, folder: str | Path) -> None:
        """Write tokenizer.json and tokenizer_config.json, as transformers reads them."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        named = {f"{name}_token": self.named[name] for name in NAMES if name in self.named}
        config = {"tokenizer_class": PLAIN_CLASSES[0], "model_max_length": self.model_max_length, **named}
        self.backend_tokenizer.save(str(Path(folder) / "tokenizer.json"))
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def read_folder_tokenizer(folder: Path) -> FolderTokenizer | None:
    """The tokenizer of a BERT checkpoint's folder, or None if its files have any unrecognised setting."""
    if (folder / "added_tokens.json").exists() or not (folder / "tokenizer.json").is_file():
        return None
    try:
        raw = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        config = _read_if_there(folder / "tokenizer_config.json")
        legacy = _read_if_there(folder / "special_tokens_map.json")
        named = _special_tokens(raw, config, legacy)
        if named is None or not raw["post_processor"]:
            return None
        if (raw["normalizer"] or {}).get("type") == "BertNormalizer":
            raw["normalizer"] |= {name: config[option] for option, name in NORMALISER_OPTIONS.items() if option in config}
        core = Tokenizer.from_str(json.dumps(raw))
    except Exception:
        return None  # not the files that are expected here: transformers reads them, or says what is wrong
    if core.get_vocab_size() > LARGEST_VOCABULARY or any(core.token_to_id(token) is None for token in named.values()):
        return None
    return FolderTokenizer(core, named, config)


def tokenizer_config(source: Source) -> dict[str, Any]:
    """The content of a folder's tokenizer_config.json; empty if it is missing."""
    path = source.folder / "tokenizer_config.json"
    try:
        return _read_if_there(path)
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{str(path)!r} cannot be read ({first_line(error)}): repair it, or remove it") from None


def given_special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens that a tokenizer_config.json names."""
    given = {name: _content(config.get(f"{name}_token")) for name in NAMES}
    return {name: token for name, token in given.items() if token}


def _read_if_there(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds no JSON object")
    return found


def _special_tokens(raw: Mapping[str, Any], config: Mapping[str, Any], legacy: Mapping[str, Any]) -> dict[str, str] | None:
    """The named special tokens, or None if the files disagree on them or on how they are split off the text."""
    kind = config.get("tokenizer_class", BERT_CLASSES[0])
    known = {f"{name}_token" for name in NAMES} | set(NORMALISER_OPTIONS) | set(ONLY_AS_HERE) | WITHOUT_EFFECT
    if kind not in BERT_CLASSES + PLAIN_CLASSES or set(config) - known - {"added_tokens_decoder"}:
        return None
    if any(config[key] not in allowed for key, allowed in ONLY_AS_HERE.items() if key in config):
        return None
    added = {token["content"]: token for token in raw["added_tokens"]}
    for token_id, token in config.get("added_tokens_decoder", {}).items():
        if added.get(token["content"]) != token | {"id": int(token_id)}:
            return None
    named = dict(BERT_DEFAULTS) if kind in BERT_CLASSES else {}
    for name in NAMES:
        given = [_content(source[f"{name}_token"]) for source in (config, legacy) if f"{name}_token" in source]
        if len(set(given)) > 1:
            return None
        if given and given[0] is None:
            named.pop(name, None)
        elif given:
            named[name] = str(given[0])
    if set(legacy) - {f"{name}_token" for name in NAMES} or any(not added.get(t, {}).get("special") for t in named.values()):
        return None
    return named


def _content(token: Any) -> str | None:
    return token["content"] if isinstance(token, dict) else token


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
