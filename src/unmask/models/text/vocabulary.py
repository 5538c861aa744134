"""The tokenizer of a checkpoint, refused if it cannot be the one that the model was trained
with; and that of a new model.

A wrong tokenizer gives numbers without complaint. So a file that states the whole rule
(tokenizer.json) is read as it is, without transformers if `unmask train` wrote it. A vocabulary
file (vocab.txt: one token per line, whose number from 0 is its id) states no rule, and is read
only if one follows from it. The result is checked against the vocabulary file, its mask token
and its capitals. The rules are

    letters        all tokens are single characters: every character is a token
    word pieces    BERT's rule: words and punctuation, then the longest pieces ("play",
                   "##ing"). Text is lowered if no token has a capital
    a pattern      a regular expression whose matches are the tokens, as for chemical formulas;
                   it must be given

The special tokens are found by their names, in square or angle brackets.

A model that `unmask` trains has a cased WordPiece. The trainer of `tokenizers` breaks ties by
the ids of the pieces, and would number the ## letters in a random order. Here they have their
ids before it starts: equal texts give an equal tokenizer.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import WordPieceTrainer

from unmask.common import checks
from unmask.common.errors import InputError, ModelError, UnmaskWarning
from unmask.common.files import first_line
from unmask.models.checkpoint_files import (
    TOKENIZER_FILES,
    Source,
    TokenizerAbove,
    quiet_transformers,
    read_json,
    refuse_pointer,
    refuse_pointers,
)
from unmask.runs.fingerprint import content_hash

NAMES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
BERT_CLASSES = ("BertTokenizer", "BertTokenizerFast")
PLAIN_CLASS = "PreTrainedTokenizerFast"
UNLIMITED = 10**30
GLUED = {
    mark: mark.strip()
    for mark in (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
}
"""Written without a space in English; decoders of word pieces put one there."""
SPELLINGS = {
    "mask": ("[MASK]", "<mask>"),
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<cls>", "<s>", "[BOS]", "<bos>"),
    "sep": ("[SEP]", "<sep>", "</s>", "<eos>", "[EOS]"),
}
"""How vocabularies spell the special tokens; the first that is there is meant."""
FILES_WITH_A_RULE = ("tokenizer.json", "vocab.json", "merges.txt", "*.model", "*.bpe")
OTHER_LETTERS = ("esm", "perceiver")
"""Types whose tokenizers read letters by a rule of their own: names that are not in brackets,
or bytes, without any file.
"""
MOST_FILLED = 100_000  # Ids between the tokenizer's last one and the mask's
BERT_NORMALIZER = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "handle_chinese_chars": "tokenize_chinese_chars",
}
"""What a BERT's normaliser does: its names in tokenizer.json, and in tokenizer_config.json."""
PADDED_TO = (64, 128)
FEW_UNUSED, SHARE_UNUSED = 8, 0.02
"""Embeddings without a token that need no word: up to a multiple that is fast, or as few as
published models have.
"""
ADVICE = (
    "make tokenizer.json with the rule that the model was trained with (documentation: Bring your"
    " own model)"
)
NORMALIZER = normalizers.BertNormalizer(strip_accents=False, lowercase=False)
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MOST_LETTERS = 256
"""Of the alphabet, and at most a third of the vocabulary, since it holds each letter twice:
alone and inside words.
"""
LONGEST_WORD = 100  # Characters; a longer word is unknown
CONTINUES = "##"  # Before a piece that continues a word
UNKNOWN = "[UNK]"
INSIDE_WORDS = re.compile(r"(?<=\w) ([-'’/]) (?=\w)")
QUOTED = re.compile(r'" ([^"]*?) "')


class FolderTokenizer:
    """A `tokenizers.Tokenizer` with the part of Hugging Face's tokenizer interface that
    `unmask` uses.
    """

    def __init__(
        self, core: Tokenizer, named: Mapping[str, str], config: Mapping[str, Any]
    ) -> None:
        """`named`: the special tokens, such as {"mask": "[MASK]"}; `config`: what
        tokenizer_config.json says.
        """
        core.no_truncation()
        core.no_padding()
        self.backend_tokenizer, self.named, self.config = core, dict(named), dict(config)
        self.model_max_length: int = config.get("model_max_length") or UNLIMITED
        self.all_special_tokens: list[str] = list(
            dict.fromkeys(named[name] for name in NAMES if name in named)
        )
        self.all_special_ids: list[int] = self.convert_tokens_to_ids(self.all_special_tokens)

    def __getattr__(self, name: str) -> Any:
        """A special token, such as `mask_token`, or its id, `mask_token_id`; None if there is
        no such token.
        """
        kind, _, part = name.partition("_")
        if kind not in NAMES or part not in ("token", "token_id"):
            raise AttributeError(f"a tokenizer has no {name!r}")
        token = self.named.get(kind)
        return (
            token if token is None or part == "token" else self.backend_tokenizer.token_to_id(token)
        )

    def __call__(
        self, text: str | Sequence[str], add_special_tokens: bool = True, verbose: bool = False
    ) -> dict[str, list[Any]]:
        """The ids of a text, or a list of ids for each of several."""
        single = isinstance(text, str)
        encoded = self.backend_tokenizer.encode_batch(
            [text] if single else list(text), add_special_tokens=add_special_tokens
        )
        return {"input_ids": encoded[0].ids if single else [e.ids for e in encoded]}

    def __len__(self) -> int:
        return self.backend_tokenizer.get_vocab_size(with_added_tokens=True)

    def get_vocab(self) -> dict[str, int]:
        """Every token and its id, added ones included."""
        return self.backend_tokenizer.get_vocab(with_added_tokens=True)

    def convert_ids_to_tokens(self, ids: int | Sequence[int]) -> Any:
        """The token of an id, or None if it is missing; a list for several."""
        of = self.backend_tokenizer.id_to_token
        return of(ids) if isinstance(ids, int) else [of(int(i)) for i in ids]

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of a token, that of the unknown token if it is missing; a list for several."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        token_id = self.backend_tokenizer.token_to_id(tokens)
        return self.unk_token_id if token_id is None else token_id

    def decode(self, ids: Sequence[int], clean_up_tokenization_spaces: bool = False) -> str:
        """The text that ids spell; without spaces before punctuation if asked for, which word
        pieces lose.
        """
        text = self.backend_tokenizer.decode([int(i) for i in ids], skip_special_tokens=False)
        if clean_up_tokenization_spaces and type(self.backend_tokenizer.model).__name__ != "BPE":
            for apart, glued in GLUED.items():
                text = text.replace(apart, glued)
        return text

    def save_pretrained(self, folder: str | Path) -> None:
        """Write tokenizer.json and tokenizer_config.json, as transformers reads them."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        named = {f"{name}_token": self.named[name] for name in NAMES if name in self.named}
        config = {
            "tokenizer_class": PLAIN_CLASS,
            "model_max_length": self.model_max_length,
            **named,
        }
        self.backend_tokenizer.save(str(Path(folder) / "tokenizer.json"))
        text = json.dumps(config, indent=2) + "\n"
        (Path(folder) / "tokenizer_config.json").write_text(text, encoding="utf-8", newline="\n")


def read_folder_tokenizer(folder: Path) -> FolderTokenizer | None:
    """The tokenizer of a folder with the files and settings that `unmask train` writes; None if
    there are any others.
    """
    try:
        config, rule = (
            read_json(folder / name, "") for name in ("tokenizer_config.json", "tokenizer.json")
        )
        named, special = (
            given_special_tokens(config),
            {token["content"] for token in rule["added_tokens"] if token["special"]},
        )
        others = set(config) - {
            "tokenizer_class",
            "model_max_length",
            *(f"{name}_token" for name in NAMES),
        }
        more = any(
            (folder / name).exists() for name in ("added_tokens.json", "special_tokens_map.json")
        )
        if (
            others
            or more
            or config.get("tokenizer_class") != PLAIN_CLASS
            or set(named.values()) - special
        ):
            return None
        return FolderTokenizer(Tokenizer.from_str(json.dumps(rule)), named, config)
    except Exception:
        # not the files that are expected here: transformers reads them, or says what is wrong
        return None


def tokenizer_config(source: Source) -> dict[str, Any]:
    """The content of a folder's tokenizer_config.json; empty if it is missing."""
    path = source.folder / "tokenizer_config.json"
    config = read_json(path, "repair it, or remove it") if path.is_file() else {}
    longest = config.get("model_max_length")
    if longest is not None and (isinstance(longest, bool) or not isinstance(longest, int | float)):
        problem = f"model_max_length {checks.shown(longest)} is not a number"
        raise ModelError(
            f"tokenizer_config.json of {source.name!r}: {problem}: correct it, or leave it out"
        )
    return config


def given_special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens that a tokenizer_config.json names."""
    named = {name: config.get(f"{name}_token") for name in NAMES}
    return {
        name: token["content"] if isinstance(token, dict) else token
        for name, token in named.items()
        if token
    }


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
    while tokens and not tokens[-1]:
        tokens.pop()
    return tokens


def vocabulary_hash(vocabulary: Mapping[str, int]) -> str:
    """Identifies the tokens and their ids."""
    return content_hash(json.dumps(sorted(vocabulary.items())))


def is_bracketed(token: str) -> bool:
    """Whether a token is a name in brackets, such as [MASK] or <null_1>, which is not text."""
    return re.fullmatch(r"<.+>|\[.+\]", token) is not None


def are_letters(tokens: Collection[str]) -> bool:
    """Whether all tokens, except names in brackets, are single characters."""
    words = [token for token in tokens if not is_bracketed(token)]
    return bool(words) and all(len(token) == 1 and token != " " for token in words)


def special_tokens(
    tokens: Collection[str], names: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The special tokens of a vocabulary: those given by name (such as {"mask": "<mask>"}),
    else those that are spelled so.
    """
    known = set(tokens)
    spelled = {
        name: next((s for s in spellings if s in known), "")
        for name, spellings in SPELLINGS.items()
    }
    named = {name: token for name, token in (spelled | dict(names or {})).items() if token}
    for name, token in named.items():
        if token not in known:
            raise ModelError(
                f"the {name} token {token!r} is not in the vocabulary file: name the one that is"
            )
    if "mask" not in named:
        raise ModelError(
            "the vocabulary has no mask token ([MASK] or <mask>): name the model's as mask_token in"
            " its tokenizer_config.json"
        )
    return named


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
    tokens = (
        read_vocabulary(Path(vocabulary))
        if isinstance(vocabulary, str | Path)
        else list(vocabulary)
    )
    named = special_tokens(tokens, special)
    ids = {token: i for i, token in enumerate(tokens)}
    regular = [token for token in tokens if token not in named.values()]
    core = _core(ids, regular, named.get("unk"), pattern, lower)
    start, end = named.get("cls"), named.get("sep")
    around = [(token, ids[token]) for token in (start, end) if token is not None]
    core.post_processor = processors.TemplateProcessing(
        single=" ".join(part for part in (start, "$A", end) if part is not None),
        special_tokens=list(dict.fromkeys(around)),
    )
    core.add_special_tokens([named[name] for name in NAMES if name in named])
    return FolderTokenizer(
        core, named, {} if max_length is None else {"model_max_length": max_length}
    )


def _core(
    ids: dict[str, int],
    regular: list[str],
    unknown: str | None,
    pattern: str | None,
    lower: bool | None,
) -> Tokenizer:
    named: dict[str, Any] = {} if unknown is None else {"unk_token": unknown}
    if pattern is None and not are_letters(regular):
        core = Tokenizer(models.WordPiece(ids, **named))
        cased = any(token != token.lower() for token in regular if not is_bracketed(token))
        core.normalizer = normalizers.BertNormalizer(
            lowercase=not cased if lower is None else lower
        )
        core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        core.decoder = decoders.WordPiece(prefix="##")
        return core
    core = Tokenizer(models.WordLevel(ids, **named))
    core.pre_tokenizer, core.decoder = pre_tokenizers.WhitespaceSplit(), decoders.Fuse()
    if pattern is not None:
        try:
            split = pre_tokenizers.Split(Regex(pattern), "isolated")
        except Exception as error:
            raise InputError(
                f"pattern {pattern!r} is not a regular expression ({first_line(error)}): correct it"
            ) from None
        core.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), split])
    return core


def core_of(tokenizer: Any) -> Tokenizer | None:
    """The tokenizer of the library `tokenizers` that does the work; None for one that is
    written in Python.
    """
    return getattr(tokenizer, "backend_tokenizer", None)


def load_tokenizer(source: Source) -> Any:
    """The tokenizer of a folder or a hub name; refused if it cannot be the model's."""
    tokenizer: Any = None
    if source.local:
        tokenizer = (
            read_folder_tokenizer(source.folder)
            if source.config.get("model_type") == "bert"
            else None
        )
        if tokenizer is None and not any(
            any(source.folder.glob(pattern)) for pattern in FILES_WITH_A_RULE
        ):
            tokenizer = _from_vocabulary(source)
    tokenizer = tokenizer or _by_transformers(source)
    if tokenizer.mask_token_id is None:
        raise ModelError(
            f"the tokenizer of {source.name!r} has no mask token: use a masked language model's, or"
            " name the mask as mask_token in its tokenizer_config.json"
        )
    _refuse_other_mask(tokenizer, source)
    if (
        tokenizer(2 * tokenizer.mask_token, verbose=False)["input_ids"].count(
            tokenizer.mask_token_id
        )
        != 2
    ):
        raise ModelError(
            f"the tokenizer of {source.name!r} does not read {tokenizer.mask_token!r} as its mask"
            f" token: {ADVICE}"
        )
    refuse_other_vocabulary(tokenizer, source)
    _refuse_shared_ids(tokenizer, source)
    _refuse_lost_capitals(tokenizer, source)
    return tokenizer


def _by_transformers(source: Source) -> Any:
    """The tokenizer that transformers makes of a folder or a hub name, or the folder's
    tokenizer.json as it is.

    A class of transformers (BertTokenizer) keeps the vocabulary of tokenizer.json and rebuilds
    the rest. If it has replaced the file's rule (a regular expression that cuts chemical
    formulas) by another kind, or fails on it, the file is read as it is.
    """
    from transformers import AutoTokenizer

    tokenizer, failed = None, ""
    with quiet_transformers():
        try:
            tokenizer = AutoTokenizer.from_pretrained(
                source.name, local_files_only=source.files_only, trust_remote_code=False
            )
        except Exception as error:
            failed = first_line(error)
    path = source.folder / "tokenizer.json"
    if source.local and path.is_file():
        built = core_of(tokenizer)
        try:
            rule = json.loads(path.read_text("utf-8")) if built else {}
            if tokenizer is None or (
                built and _is_replaced(rule, json.loads(built.to_str()), tokenizer_config(source))
            ):
                return as_it_is(Tokenizer.from_file(str(path)), tokenizer_config(source))
        except ModelError:
            raise
        except Exception as error:
            tokenizer, failed = None, first_line(error)
    if tokenizer is None:
        if source.local:
            refuse_pointers(source.folder, *TOKENIZER_FILES)
        remedy = (
            "save it again, with save_pretrained" if source.local else "give a model that has one"
        )
        raise ModelError(f"the tokenizer of {source.name!r} cannot be read ({failed}): {remedy}")
    return tokenizer


def as_it_is(core: Tokenizer, config: Mapping[str, Any]) -> FolderTokenizer:
    """A tokenizer.json without any change, its special tokens named by `config` or by their
    usual spellings.
    """
    named = special_tokens(core.get_vocab(), given_special_tokens(config))
    core.add_special_tokens(list(named.values()))
    return FolderTokenizer(core, named, config)


def _is_replaced(
    rule: Mapping[str, Any], built: Mapping[str, Any], config: Mapping[str, Any]
) -> bool:
    """Whether transformers cuts texts by another rule than tokenizer.json, for no reason that
    tokenizer_config.json gives.

    Its BertTokenizer lowers texts unless told otherwise there.
    """
    if _kinds(rule) != _kinds(built):
        return True
    own, other = rule.get("normalizer") or {}, built.get("normalizer") or {}
    return any(
        name not in config and own.get(part) != other.get(part)
        for part, name in BERT_NORMALIZER.items()
        if part in own
    )


def _kinds(rule: Mapping[str, Any]) -> list[str]:
    """The kinds of model, pre-tokenizers and normalisers of a tokenizer.json, in order."""
    parts = json.dumps([rule.get("pre_tokenizer"), rule.get("normalizer")])
    return [str(rule["model"].get("type")), *re.findall(r'"type": "(\w+)"', parts)]


def _from_vocabulary(source: Source) -> FolderTokenizer | None:
    """The tokenizer of a vocab.txt of letters, or of a BERT, in the folder or the one above;
    None if transformers may read it.
    """
    config, kind = tokenizer_config(source), source.config.get("model_type")
    beside, above = source.folder / "vocab.txt", source.folder.resolve().parent / "vocab.txt"
    path = above if above.is_file() and not beside.is_file() else beside
    tokens = read_vocabulary(path) if path.is_file() else []
    bert = config.get("tokenizer_class", BERT_CLASSES[0] if kind == "bert" else "") in BERT_CLASSES
    if not bert and (
        kind in OTHER_LETTERS or (tokens and path == beside and not are_letters(tokens))
    ):
        return None
    if not (bert and tokens) and not are_letters(tokens):
        raise ModelError(
            f"folder {source.name!r} has no tokenizer: put tokenizer.json (or vocab.txt) beside the"
            " weights"
        )
    if path == above:
        message = f"folder {source.name!r} has no tokenizer, and {str(above)!r} is used"
        warnings.warn(
            f"{message}: if it is the model's, copy it beside the weights",
            TokenizerAbove,
            stacklevel=2,
        )
    lower, longest = config.get("do_lower_case"), config.get("model_max_length")
    tokenizer = tokenizer_from_vocabulary(
        tokens, None, lower, given_special_tokens(config), longest
    )
    normaliser = tokenizer.backend_tokenizer.normalizer
    if isinstance(normaliser, normalizers.BertNormalizer):
        normaliser.strip_accents = config.get("strip_accents")
        normaliser.handle_chinese_chars = config.get("tokenize_chinese_chars", True)
        tokenizer.backend_tokenizer.normalizer = normaliser
    return tokenizer


def _refuse_other_mask(tokenizer: Any, source: Source) -> None:
    """[MASK] put beside a vocabulary that has <mask>, which the model never saw; or another
    mask than the one that ESM zeroes.
    """
    vocabulary = tokenizer.get_vocab()
    stated = source.config.get("mask_token_id")
    if (
        source.config.get("token_dropout")
        and isinstance(stated, int)
        and stated != tokenizer.mask_token_id
    ):
        raise ModelError(
            f"config.json of {source.name!r} says mask_token_id {stated}, and"
            f" {tokenizer.mask_token!r} of its tokenizer has id {tokenizer.mask_token_id}: use the"
            " tokenizer that the model was trained with, or correct mask_token_id"
        )
    core = core_of(tokenizer)
    named = given_special_tokens(tokenizer_config(source)).get("mask") if source.local else None
    if (
        core is not None
        and named == tokenizer.mask_token
        and named in core.get_vocab(with_added_tokens=False)
    ):
        return
    for spelling in SPELLINGS["mask"]:
        if spelling in vocabulary and vocabulary[spelling] != tokenizer.mask_token_id:
            raise ModelError(
                f"the tokenizer of {source.name!r} takes {tokenizer.mask_token!r} (id"
                f" {tokenizer.mask_token_id}) for its mask, but its vocabulary has {spelling!r} (id"
                f" {vocabulary[spelling]}): name it as mask_token in tokenizer_config.json"
            )


def refuse_other_vocabulary(tokenizer: Any, source: Source) -> None:
    """Raise if a vocabulary file beside the weights gives other ids."""
    listed, known = _listed_ids(source.folder) if source.local else {}, tokenizer.get_vocab()
    other = [(token, i) for token, i in listed.items() if token and known.get(token) != i]
    if other:
        token, i = other[0]
        raise ModelError(
            f"the tokenizer of {source.name!r} is not that of its vocabulary file, for"
            f" {len(other):,} of {len(listed):,} tokens: {token!r} is {i} there and"
            f" {known.get(token)} in the tokenizer, which has {len(known):,} tokens; {ADVICE}"
        )


def _refuse_shared_ids(tokenizer: Any, source: Source) -> None:
    """Raise if two regular tokens have one id: a text of one would get the numbers of the other."""
    core = core_of(tokenizer)
    ids = {} if core is None else core.get_vocab(with_added_tokens=False)
    if len(set(ids.values())) == len(ids):
        return
    tokens: dict[int, str] = {}
    for token, i in sorted(ids.items()):
        if i in tokens:
            problem = f"gives {tokens[i]!r} and {token!r} one id, {i}"
            raise ModelError(
                f"the tokenizer of {source.name!r} {problem}: correct its vocabulary; {ADVICE}"
            )
        tokens[i] = token


def _listed_ids(folder: Path) -> dict[str, int]:
    """The tokens and ids of a vocab.txt or vocab.json beside the weights."""
    if (folder / "vocab.txt").is_file():
        return {token: i for i, token in enumerate(read_vocabulary(folder / "vocab.txt"))}
    try:
        ids = read_json(folder / "vocab.json", "")
    except ModelError:
        return {}
    return ids if all(isinstance(i, int) for i in ids.values()) else {}


def _refuse_lost_capitals(tokenizer: Any, source: Source) -> None:
    """A tokenizer that lowers the text, over a vocabulary with capitals: most of it could never
    occur.
    """
    regular = [
        t
        for t in sorted(tokenizer.get_vocab())
        if t not in tokenizer.all_special_tokens and not is_bracketed(t)
    ]
    capital = [t for t in regular if t.isalpha() and t.isascii() and t != t.lower()]
    if len(capital) < max(3, 0.05 * len(regular)):
        return
    text = " ".join(capital[:50])
    upper, lower = (
        tokenizer(t, add_special_tokens=False, verbose=False)["input_ids"]
        for t in (text, text.lower())
    )
    if upper == lower:
        raise ModelError(
            f"the tokenizer of {source.name!r} lowers the text, but {len(capital):,} of"
            f' {len(regular):,} tokens have capitals: write "do_lower_case": false in'
            ' tokenizer_config.json (or "lowercase": false in tokenizer.json)'
        )


def refuse_foreign_tokenizer(
    tokenizer: Any, embeddings: int, name: str, used: Sequence[str] = ("mask",)
) -> None:
    """Raise when the tokenizer has a token that a model of `embeddings` tokens does not know.

    `used`: the special tokens that a text needs. A model may lack the others.
    """
    ignored = set(tokenizer.all_special_ids) - {
        getattr(tokenizer, f"{special}_token_id") for special in used
    }
    beyond = sorted(
        (i, token)
        for token, i in tokenizer.get_vocab().items()
        if i >= embeddings and i not in ignored
    )
    if beyond:
        raise ModelError(
            f"{len(beyond)} tokens of the tokenizer of {name!r}, {beyond[0][1]!r} first, are"
            f" unknown to the model, which has {embeddings}: use the tokenizer that the model was"
            " trained with"
        )


def warn_of_few_tokens(tokenizer: Any, embeddings: int, name: str) -> None:
    """Warn when the tokenizer has far fewer tokens than the model: it may be another model's."""
    tokens = len(set(tokenizer.get_vocab().values()))
    padded = any(embeddings == -(-tokens // multiple) * multiple for multiple in PADDED_TO)
    if embeddings - tokens > max(FEW_UNUSED, SHARE_UNUSED * embeddings) and not padded:
        sizes = (
            f"the tokenizer of {name!r} has {tokens:,} tokens and the model {embeddings:,}"
            " embeddings"
        )
        advice = (
            "if it is another model's, the numbers mean nothing; unmask check --data with texts of"
            " your own shows it"
        )
        warnings.warn(f"{sizes}: {advice}", UnmaskWarning, stacklevel=4)


def with_mask(tokenizer: Any, mask_id: int | None) -> Any:
    """The tokenizer, or a copy whose mask token has this id; an id that it has no token for
    gets one.

    Diffusion language models often have a mask token that their tokenizer does not name.
    """
    if mask_id is None:
        return tokenizer
    copied, mask_id = deepcopy(tokenizer), checks.whole("mask_id", mask_id, 0, checks.MOST_TOKENS)
    mask_token = next(
        (token for token, i in tokenizer.get_vocab().items() if i == mask_id), None
    ) or _token_for(copied, mask_id)
    if hasattr(copied, "add_special_tokens"):
        copied.add_special_tokens({"mask_token": mask_token})
    else:
        copied.backend_tokenizer.add_special_tokens([mask_token])
        copied = FolderTokenizer(
            copied.backend_tokenizer, {**copied.named, "mask": mask_token}, copied.config
        )
    return copied


def _token_for(tokenizer: Any, mask_id: int) -> str:
    """A new token at `mask_id`, with special ones that no text has before it."""
    core = core_of(tokenizer)
    size = len(tokenizer) if core is None else core.get_vocab_size(with_added_tokens=True)
    if core is None or not 0 <= mask_id - size <= MOST_FILLED:
        raise InputError(
            f"mask_id {mask_id} has no token, and the tokenizer has {size}: give the id of a token,"
            f" or from {size} on"
        )
    core.add_special_tokens([f"[UNUSED{i}]" for i in range(size, mask_id)] + ["[MASK]"])
    if core.token_to_id("[MASK]") != mask_id:
        raise InputError(
            f"mask_id {mask_id} has no token, and [MASK] is another: give its id,"
            f" {core.token_to_id('[MASK]')}"
        )
    return "[MASK]"


def train_tokenizer(lines: Callable[[], Iterable[str]], vocab_size: int) -> Tokenizer:
    """A cased WordPiece tokenizer of at most `vocab_size` tokens, the special ones first (ids 0
    to 4).

    `lines` is called twice: to count letters, and to learn the pieces.
    """
    letters = _alphabet(lines(), min(MOST_LETTERS, vocab_size // 3))
    split = pre_tokenizers.BertPreTokenizer()
    continuing = [
        CONTINUES + letter for letter in letters if len(split.pre_tokenize_str("a" + letter)) == 1
    ]
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        special_tokens=[*SPECIAL_TOKENS, *continuing],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    learned = _tokenizer({})
    learned.train_from_iterator(lines(), trainer)
    tokenizer = _tokenizer(learned.get_vocab(with_added_tokens=False))
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUES)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:0 [SEP]:0",
        special_tokens=[(token, special_id(tokenizer, token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)
    )
    tokenizer.normalizer = NORMALIZER
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _alphabet(lines: Iterable[str], most: int) -> list[str]:
    """The `most` frequent letters of the normalised lines, in alphabetical order; of equally
    frequent ones the first.
    """
    counts = Counter(chain.from_iterable(lines))
    letters = [letter for letter in counts if NORMALIZER.normalize_str(letter).strip() == letter]
    return sorted(sorted(letters, key=lambda letter: (-counts[letter], letter))[:most])


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
    missing = [t for t in SPECIAL_TOKENS if tokenizer.token_to_id(t) is None]
    if missing:
        raise InputError(
            f"the tokenizer at {file} lacks {', '.join(missing)}: training needs"
            f" {', '.join(SPECIAL_TOKENS)}"
        )
    tokenizer.no_truncation()  # a file may ask for it, and the rest of each text would be lost
    tokenizer.no_padding()
    return tokenizer


CUT_BY = ("normalizer", "pre_tokenizer", "model", "added_tokens")
"""The parts of a tokenizer.json that decide which ids a text has, without its start and end."""


def tokenizer_difference(own: Tokenizer, other: Tokenizer) -> str:
    """Where the ids of `other` differ from those of `own`, in words: a token, or a part of the
    rule. Empty if nowhere.
    """
    ids, others = own.get_vocab(with_added_tokens=True), other.get_vocab(with_added_tokens=True)
    for token, i in sorted(ids.items(), key=lambda item: item[1]):
        if token not in others:
            return f"it lacks {token!r}"
        if others[token] != i:
            return f"{token!r} has id {others[token]} in it and {i} in the model"
    if more := sorted(set(others) - set(ids)):
        return f"it has {more[0]!r}, which the model lacks"
    rule, other_rule = json.loads(own.to_str()), json.loads(other.to_str())
    for part in CUT_BY:
        if rule.get(part) != other_rule.get(part):
            return f"its {part} is another one, so it cuts texts in another way"
    return ""


def special_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a special token, which `load_word_pieces` and `train_tokenizer` guarantee."""
    token_id = tokenizer.token_to_id(token)
    assert token_id is not None
    return token_id


def config_to_save(max_length: int, causal: bool) -> dict[str, object]:
    """The content of tokenizer_config.json for AutoTokenizer; a causal model's names its first
    and last token too.
    """
    names = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
    ends = {"bos_token": "[CLS]", "eos_token": "[SEP]"} if causal else {}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        **names,
        **ends,
    }


@contextmanager
def read_by_tokenizer(what: str) -> Iterator[None]:
    """Turns a tokenizer's error into one line; a regular expression that panics in Rust raises
    a BaseException.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        raise InputError(
            f"the model's tokenizer cannot read {what} ({first_line(error)}): write it in the"
            " model's own tokens"
        ) from None


class Spelling:
    """The tokenizer of a folder of a model of pairs, used without special tokens."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(
                f"model {str(folder)!r} is not a folder: give one of `unmask train --parallel`"
            )
        self.folder, self.core = folder, load_word_pieces(folder)
        self.unknown = self.core.token_to_id(UNKNOWN)

    @cached_property
    def tokenizer(self) -> FolderTokenizer:
        """The model's own tokenizer, with special tokens."""
        return as_it_is(self.core, tokenizer_config(Source(str(self.folder))))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text."""
        with read_by_tokenizer("one of the texts"):
            return [
                encoding.ids
                for encoding in self.core.encode_batch(list(texts), add_special_tokens=False)
            ]

    def text(self, ids: Sequence[int]) -> str:
        """The sentence that the ids spell, without spaces inside words and quotation marks."""
        return QUOTED.sub(r'"\1"', INSIDE_WORDS.sub(r"\1", self.core.decode(list(ids))))
