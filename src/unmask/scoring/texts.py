"""Texts to score: read from lines, FASTA or mappings, and as the model's tokens.

Lines hold one text each, FASTA sequences with their names as ids. Records, which are JSON objects or the rows of a table (.csv,
.tsv) below its header, hold a text, a target between words, or a minimal pair:

    {"text": "..."}                                      optional "id", which comes back with the row
    {"before": "...", "target": "...", "after": "..."}   the target is scored, the words around it are context
    {"sentence_good": "...", "sentence_bad": "..."}      optional "UID" (the set) and "phenomenon" or "linguistics_term";
                                                         or named by another pair of `PAIRS`
    {"Context1": ..., "Context2": ..., "Target1": ...}   EWoK: Target1 is scored, after Context1 and after Context2
    {"input_prefix": "...", "options": [...]}            entity tracking: the options are scored, the first is the right one

The parts of a target's text are joined by one space, except where a part brings its own space or the next begins with a mark
that follows a word directly.

Two kinds of words. Masking (pll_word) goes by the tokenizer's own words, as Kauf & Ivanova's measure does: "don't" is three of
BERT's. Tables with one row per word go by spaces, as reading-time corpora do: "don't." is one.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from unmask.checks import shown
from unmask.errors import InputError
from unmask.models.text.text_tokenizer import BLANK, TextTokenizer, Tokens
from unmask.runs.files import parse_json, user_path
from unmask.runs.lines import FASTA, STANDARD_INPUT, fasta_records, kind_of, numbered_lines, refuse_file_name, source_name

BY_NAME = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv"} | dict.fromkeys(FASTA, "fasta")
"""How a file is read by default: as its name ends; any other, and standard input, as one text per line."""
JOINED_TO_THE_LEFT = tuple(".,;:!?)]}%'’”")
PAIRS = (("sentence_good", "sentence_bad"), ("good", "bad"), ("grammatical", "ungrammatical"), ("acceptable", "unacceptable"))
"""Names of the two sentences of a minimal pair."""
EMPTY_BOX = "nothing"
PathLike = str | os.PathLike[str]
Texts = str | Path | Iterable[str | Mapping[str, Any]]
"""One text, a file, standard input (`Path("-")`), or texts and mappings."""
BLANK_LINE: Mapping[str, Any] = {"text": ""}
EMPTY = "the text is empty"
"""The reason of a blank line, which is not a failure."""


class Item(NamedTuple):
    """One text to score; `target` is the part of it that is scored, in characters, None for all of it."""

    text: str
    target: tuple[int, int] | None = None
    id: str | None = None


@dataclass(frozen=True)
class SentencePair:
    """An acceptable sentence, one or more that are not, the set that they belong to, and its phenomenon if known."""

    good: Item
    bad: tuple[Item, ...]
    set: str
    phenomenon: str | None = None


def items_again(texts: Texts | Iterable[Item], field: str | None = None, keep: bool = False) -> Iterable[Item]:
    """Returns re-iterable items, or a one-shot iterator if `texts` is one and `keep` is false."""
    if isinstance(texts, Path) and texts != STANDARD_INPUT:
        return FileItems(texts, field)
    texts = _rows_of_frame(texts)
    once = items_of(texts, field)
    return list(once) if keep or isinstance(texts, str | Sequence) else once


@dataclass(frozen=True)
class FileItems:
    """The items of a file, read again each time."""

    path: Path
    field: str | None = None

    def __iter__(self) -> Iterator[Item]:
        return items_of(self.path, self.field)


def items_of(source: Texts | Iterable[Item], field: str | None = None) -> Iterator[Item]:
    """Items of a file (a `Path`), of standard input (`Path("-")`), of one text (a string), or of texts and mappings.

    `field` is the column, or key, that holds the text; with it, standard input has JSON lines.
    """
    if isinstance(source, Path):
        on_stream = source == STANDARD_INPUT and field is not None
        path, kind = user_path(source, "texts"), "jsonl" if on_stream else BY_NAME.get(kind_of(source), "text")
        if kind in ("text", "fasta") and field is not None:
            lines = "one text per line" if kind == "text" else "FASTA"
            raise InputError(
                f"{source_name(source)} is read as {lines}, without fields: leave field out, or name it .jsonl or .csv"
            )
        if kind == "fasta":
            yield from (Item(sequence, None, name or None) for name, sequence in fasta_records(path))
        elif kind == "text":
            yield from (Item(line) for _, line in numbered_lines(path))
        else:
            yield from (_item(value, where, field) for where, value in _records(path, kind))
        return
    if isinstance(source, str):
        refuse_file_name(source, f"give Path({source!r})")
    elif not isinstance(source, Iterable) or isinstance(source, Mapping):
        raise InputError(f"texts {shown(source)} is not a text or a list of texts: give one")
    for number, text in enumerate([source] if isinstance(source, str) else source, 1):
        if isinstance(text, str | Item):
            yield Item(text) if isinstance(text, str) else text
        elif isinstance(text, Mapping):
            yield _item(text, f"text {number}")
        else:
            raise InputError(f"text {number} is a {type(text).__name__}: give a string, or a mapping with the key text")


def pairs_of(source: PathLike | Iterable[PathLike | Mapping[str, Any]]) -> Iterator[SentencePair]:
    """Minimal pairs of one or more files of JSON Lines or tables, of all *.jsonl of a folder, of mappings, or of a frame."""
    entries = [source] if isinstance(source, str | os.PathLike) else _rows_of_frame(source)
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping):
        raise InputError(f"pairs {shown(source)} is not a file or a list of mappings: give one")
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, Mapping):
            if (pair := _pair(entry, f"pair {number}", "pairs")) is not None:
                yield pair
            continue
        path = user_path(entry, "minimal_pairs")
        if path.is_dir():
            files = sorted(path.glob("*.jsonl"))
            if not files:
                raise InputError(f"folder {str(path)!r} has no .jsonl file: give a folder or a file of minimal pairs")
        else:
            files = [path]
        for file in files:
            for where, value in _records(file, BY_NAME.get(kind_of(file), "jsonl")):
                default_set = "pairs" if file == STANDARD_INPUT else file.name.split(".")[0]
                if value is not BLANK_LINE and (pair := _pair(value, where, default_set)) is not None:
                    yield pair


def _rows_of_frame(source: Any) -> Any:
    """The rows of a pandas frame as mappings; anything else as it is."""
    return source.to_dict("records") if type(source).__name__ == "DataFrame" else source


def _records(path: Path, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place as messages name it, record) of a file of JSON objects, or of a table: a header, and a row per record."""
    if kind == "jsonl":
        for number, line in numbered_lines(path):
            where = f"{source_name(path)} line {number}"
            yield where, _parsed(line, where)
        return
    lines = (line + "\n" for _, line in numbered_lines(path))
    first = next(lines, "")
    comma = ";" if first.count(";") > first.count(",") else ","
    rows = csv.reader(chain([first], lines), delimiter="\t" if kind == "tsv" else comma, strict=True)
    filled, empty = filter(None, rows), True
    try:
        names = [name.strip() for name in next(filled, [])]
        for row in filled:
            where, empty = f"{source_name(path)} line {rows.line_num}", False
            if len(row) != len(names):
                raise InputError(
                    f"{where} has {len(row)} cells and the header {len(names)}: put a text with a separator in quotes"
                )
            yield where, dict(zip(names, row, strict=True))
        if names and empty:
            raise InputError(
                f"{source_name(path)} has one line, {', '.join(names)[:80]!r}, read as its header: give a header and rows"
            )
    except csv.Error as error:
        raise InputError(
            f"{source_name(path)} line {rows.line_num} is not {kind} ({error}): double the quotes inside a text in quotes"
        ) from None


def _parsed(line: str, where: str) -> Mapping[str, Any]:
    if not line.strip():
        return BLANK_LINE
    try:
        value = parse_json(line)
    except ValueError as error:
        raise InputError(f"{where} is {error}: give one JSON object per line") from None
    if not isinstance(value, dict):
        raise InputError(f"{where} is a JSON {type(value).__name__}: give one JSON object per line")
    return value


def _item(value: Mapping[str, Any], where: str, field: str | None = None) -> Item:
    name = value.get("id")
    known = None if name is None else str(name)
    if field is not None and value is not BLANK_LINE:
        if field not in value:
            raise InputError(f"{where} has no field {field!r} (its fields are {_keys(value)}): name one of them")
        return Item(_string(value, field, where), None, known)
    if "target" in value:
        before, target, after = (_string(value, key, where, "") for key in ("before", "target", "after"))
        left = before + _space(before, target)
        return Item(left + target + _space(target, after) + after, (len(left), len(left) + len(target)), known)
    for key in ("text", "sentence"):
        if key in value:
            return Item(_string(value, key, where), None, known)
    raise InputError(
        f"{where} has no field 'text' (its fields are {_keys(value)}): give text, or before, target and after; "
        "for a file, field (--field) names another"
    )


def _pair(value: Mapping[str, Any], where: str, default_set: str) -> SentencePair | None:
    """The pair of a line; None for a line of entity tracking with an empty box, which its authors leave out."""
    if "Context1" in value:
        right, wrong = (
            {"before": _string(value, key, where), "target": value.get("Target1")} for key in ("Context1", "Context2")
        )
        return SentencePair(_item(right, where), (_item(wrong, where),), str(value.get("Domain", default_set)))
    if "options" in value:
        return _options(value, where, default_set)
    good, bad = next((names for names in PAIRS if any(name in value for name in names)), PAIRS[0])
    if missing := [key for key in (good, bad) if key not in value]:
        known = "; or ".join(" and ".join(names) for names in PAIRS)
        raise InputError(f"{where} has no field {missing[0]!r} (its fields are {_keys(value)}): rename two to {known}")
    phenomenon = value.get("phenomenon", value.get("linguistics_term"))
    return SentencePair(
        Item(_string(value, good, where)),
        (Item(_string(value, bad, where)),),
        str(value.get("UID", default_set)),
        None if phenomenon is None else str(phenomenon),
    )


def _options(value: Mapping[str, Any], where: str, default_set: str) -> SentencePair | None:
    options = value["options"]
    if not isinstance(options, list) or len(options) < 2 or not all(isinstance(option, str) for option in options):
        raise InputError(f"{where}: 'options' is {options!r}: give a list of two texts or more, the right one first")
    if any(EMPTY_BOX in option for option in options):
        return None
    before = _string(value, "input_prefix", where)
    items = [_item({"before": before, "target": option}, where) for option in options]
    operations = f"_{value['numops']}_ops" if "numops" in value else ""
    return SentencePair(items[0], tuple(items[1:]), default_set + operations)


def _string(value: Mapping[str, Any], key: str, where: str, default: str | None = None) -> str:
    text = value.get(key, default)
    if not isinstance(text, str):
        raise InputError(f"{where}: {key!r} is {text!r}, not text: give a string")
    return text


def _keys(value: Mapping[str, Any]) -> str:
    return ", ".join(list(value)[:6]) or "none"


def _space(left: str, right: str) -> str:
    """The space between two parts of a text, or nothing."""
    if not left or not right or left[-1].isspace() or right[0].isspace() or right[0] in JOINED_TO_THE_LEFT:
        return ""
    return " "


class Encoded(NamedTuple):
    """A text as tokens.

    ids       token ids, start and end tokens included
    sites     positions that are scored
    unknown   how many of them the model does not know
    tokens    where the text's own tokens begin and end, their words and places in the text
    """

    ids: tuple[int, ...]
    sites: tuple[int, ...]
    unknown: int
    tokens: Tokens


class Prepared(NamedTuple):
    """A text with its number, from 1, and its tokens, or the reason why it cannot be scored."""

    number: int
    item: Item
    encoded: Encoded | None
    reason: str | None


def encode(words: TextTokenizer, item: Item) -> Encoded:
    """The item's text as tokens; raises `InputError` with the reason if it cannot be scored."""
    (encoded,) = encode_each(words, [item])
    if isinstance(encoded, InputError):
        raise encoded
    return encoded


def encode_each(words: TextTokenizer, items: Sequence[Item]) -> list[Encoded | InputError]:
    """Every item's text as tokens, or the reason why it cannot be scored."""
    errors = [_refusal(words, item.text) for item in items]
    texts = [item.text for item, error in zip(items, errors, strict=True) if error is None]
    read = iter(words.tokens_of_each(texts))
    foreign = set(words.special_ids) - {words.unknown_id}
    encoded: list[Encoded | InputError] = []
    for item, error in zip(items, errors, strict=True):
        tokens = next(read) if error is None else error
        try:
            encoded.append(tokens if isinstance(tokens, InputError) else _encoded(words, item, tokens, foreign))
        except InputError as wrong:
            encoded.append(wrong)
    return encoded


def _refusal(words: TextTokenizer, text: str) -> InputError | None:
    if not text.strip():
        return InputError(EMPTY)
    if BLANK in text or words.mask_token in text:
        return InputError("the text has a blank: fill it, or use fill")
    return None


def _encoded(words: TextTokenizer, item: Item, tokens: Tokens, foreign: set[int]) -> Encoded:
    """A text of these tokens, none of which may be one of the special ids `foreign`."""
    ids, sites = tokens.ids, _range(*tokens.inside)
    if not foreign.isdisjoint(ids[slice(*tokens.inside)]):
        special = next(ids[t] for t in sites if ids[t] in foreign)
        raise InputError(f"the text holds the special token {words.token(special)}: take it out")
    if item.target is not None:
        sites = _target_sites(item, sites, tokens.spans)
    if not sites:
        raise InputError("the text has no token of the model: give one with a word in it")
    unknown = 0
    if words.unknown_id in ids:
        own = [ids[t] for t in sites]
        words.refuse_unknown(item.text[slice(*item.target)] if item.target else item.text, own)
        words.warn_of_unknown(words.prepared(item.text), ids)
        unknown = own.count(words.unknown_id)
    return Encoded(ids, sites, unknown, tokens)


@cache
def _range(first: int, after: int) -> tuple[int, ...]:
    return tuple(range(first, after))


def spaced_words(text: str) -> list[tuple[int, int]]:
    """Start and end of each word between spaces."""
    return [match.span() for match in re.finditer(r"\S+", text)]


def word_of_site(encoded: Encoded, text: str) -> list[int]:
    """For each site the number, from 0, of the word between spaces that has its first letter."""
    words, spans = spaced_words(text), encoded.tokens.spans
    if not any(end for _, end in spans):
        return list(range(len(encoded.sites)))
    numbers, word = [], 0
    for t in encoded.sites:
        start, end = spans[t]
        start += len(text[start:end]) - len(text[start:end].lstrip())
        while word + 1 < len(words) and start >= words[word][1]:
            word += 1
        numbers.append(word)
    return numbers


def _target_sites(item: Item, regular: Sequence[int], spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The tokens of the target; raises if one reaches beyond it into the words around."""
    assert item.target is not None
    first, last = item.target
    sites = []
    for t in regular:
        start, end = spans[t]
        start += len(item.text[start:end]) - len(item.text[start:end].lstrip())
        if start < last and end > first:
            if start < first or end > last:
                raise InputError(f"the token {item.text[start:end]!r} is only partly in the target: give whole words")
            sites.append(t)
    if not sites:
        raise InputError(f"the target {item.text[first:last]!r} has no token: give a word")
    return tuple(sites)
