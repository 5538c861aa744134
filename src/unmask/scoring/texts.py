"""Texts to score: read from lines, FASTA or mappings, and as the model's tokens.

Lines hold one text each, FASTA sequences with their names as ids. Records, which are JSON
objects, rows of a table (.csv, .tsv) or of a frame, hold a text, a target between words, or a
minimal pair; case of their names does not matter:

    {"text": "..."}                                      or "sentence"; optional "id"
    {"before": "...", "target": "...", "after": "..."}   the target is scored, the words around
                                                         it are context
    {"sentence_good": "...", "sentence_bad": "..."}      optional "UID" (the set) and
                                                         "phenomenon" or "linguistics_term"; or
                                                         named by another pair of `PAIRS`

All other columns come back with the scores, under their names. The parts of a target's text are
joined by one space, except where a part brings its own space or the next begins with a mark
that follows a word directly.

Two kinds of words. Masking (pll_word) goes by the tokenizer's own words, as Kauf & Ivanova's
measure does: "don't" is three of BERT's. Tables with one row per word go by spaces, as
reading-time corpora do: "don't." is one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from warnings import warn

from unmask.common.checks import shown
from unmask.common.errors import InputError, UnmaskWarning, argument_name
from unmask.common.files import user_path
from unmask.models.text.blanks import has_several_lengths
from unmask.models.text.text_tokenizer import BLANK, TextTokenizer, Tokens
from unmask.runs.lines import (
    EMPTY,
    FASTA,
    RECORDS,
    STANDARD_INPUT,
    TEXT,
    column,
    fasta_records,
    kind_of,
    numbered_lines,
    records,
    refuse_column_twice,
    refuse_file_name,
    rows_of_frame,
    source_name,
    string,
)

OWN = "unmask_"
"""Before the name of a column of ours where the user has a column of that name."""
JOINED_TO_THE_LEFT = tuple(".,;:!?)]}%'’”")
PAIRS = (
    ("sentence_good", "sentence_bad"),
    ("good", "bad"),
    ("grammatical", "ungrammatical"),
    ("acceptable", "unacceptable"),
)
"""Names of the two sentences of a minimal pair."""
PathLike = str | os.PathLike[str]
Texts = str | Path | Iterable[str | Mapping[str, Any]]
"""One text, a file, standard input (`Path("-")`), or texts and mappings."""


class Item(NamedTuple):
    """One text to score.

    target    the part of it that is scored, in characters; None for all of it
    columns   the other columns of its record, which come back with its scores
    """

    text: str
    target: tuple[int, int] | None = None
    id: str | None = None
    columns: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class SentencePair:
    """An acceptable sentence and one that is not, the set that they belong to, its phenomenon
    if known, and other columns.
    """

    good: Item
    bad: Item
    set: str
    phenomenon: str | None
    columns: Mapping[str, Any]


def items_again(
    texts: Texts | Iterable[Item], field: str | None = None, keep: bool = False
) -> Iterable[Item]:
    """Returns re-iterable items, or a one-shot iterator if `texts` is one and `keep` is false."""
    is_read_once = isinstance(texts, Path) and (
        texts == STANDARD_INPUT or texts.is_fifo()
    )  # such as <(zcat texts.gz)
    if isinstance(texts, Path) and not is_read_once:
        return FileItems(texts, field)
    texts = rows_of_frame(texts, "texts")
    items = items_of(texts, field)
    return list(items) if keep or isinstance(texts, str | Sequence) else items


@dataclass(frozen=True)
class FileItems:
    """The items of a file, read again each time."""

    path: Path
    field: str | None = None

    def __iter__(self) -> Iterator[Item]:
        return items_of(self.path, self.field)


def items_of(source: Texts | Iterable[Item], field: str | None = None) -> Iterator[Item]:
    """Items of a file (a `Path`), of standard input (`Path("-")`), of one text (a string), or
    of texts and mappings.

    `field` is the column, or key, that holds the text; with it, standard input has JSON lines.
    """
    if isinstance(source, Path):
        path, kind = user_path(source, "texts"), kind_of(source)
        if source == STANDARD_INPUT and field is not None:
            kind = ".jsonl"
        if kind in RECORDS:
            yield from (
                _item(record, where, field) if record else Item("")
                for where, record in records(path, kind)
            )
            return
        if field is not None:
            lines = "FASTA" if kind in FASTA else "one text per line"
            raise InputError(
                f"names a column, and {source_name(source)} has none ({lines})",
                argument="field",
                use="leave it out, or name the file .jsonl or .csv",
            )
        if kind in FASTA:
            yield from (
                Item(sequence, None, name or None) for name, sequence in fasta_records(path)
            )
        else:
            yield from (Item(line) for _, line in numbered_lines(path))
        return
    if isinstance(source, str):
        refuse_file_name(source, f"Path({shown(source)})", f"[{shown(source)}]")
    elif not isinstance(source, Iterable) or isinstance(source, Mapping):
        raise InputError(f"texts {shown(source)} is not a text or a list of texts: give one")
    for number, text in enumerate([source] if isinstance(source, str) else source, 1):
        if isinstance(text, Mapping):
            yield _item(text, f"text {number}", field)
        elif isinstance(text, str | Item):
            if field is not None:
                raise InputError(
                    f"names a column, and text {number} is a text without columns",
                    argument="field",
                    use="leave it out",
                )
            yield Item(text) if isinstance(text, str) else text
        else:
            raise InputError(
                f"text {number} is a {type(text).__name__}: give a string, or a mapping with the"
                " key text"
            )


def pairs_of(source: PathLike | Iterable[PathLike | Mapping[str, Any]]) -> Iterator[SentencePair]:
    """Minimal pairs of one or more files of JSON Lines or tables, of all *.jsonl of a folder,
    of mappings, or of a frame.
    """
    entries = [source] if isinstance(source, str | os.PathLike) else rows_of_frame(source, "pairs")
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping):
        raise InputError(f"pairs {shown(source)} is not a file or a list of mappings: give one")
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, Mapping):
            yield _pair(entry, f"pair {number}", "pairs")
            continue
        path = user_path(entry, "minimal_pairs")
        files = _pair_files(path) if path.is_dir() else [path]
        for file in files:
            default_set = "pairs" if file == STANDARD_INPUT else file.name.split(".")[0]
            kind = kind_of(file) if kind_of(file) in RECORDS else ".jsonl"
            yield from (
                _pair(record, where, default_set) for where, record in records(file, kind) if record
            )


def _pair_files(folder: Path) -> list[Path]:
    """The .jsonl files of a folder, packed ones too; a warning names other files that could
    hold pairs.
    """
    seen = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    files = [path for path in seen if kind_of(path) == ".jsonl"]
    if not files:
        raise InputError(
            f"folder {str(folder)!r} has no .jsonl file: give a folder or a file of minimal pairs"
        )
    others = [path.name for path in seen if kind_of(path) in RECORDS and path not in files]
    if others:
        what = (
            f"of folder {str(folder)!r} only .jsonl files are read, and {shown(', '.join(others))}"
            " left out"
        )
        warn(f"{what}: name these files to read them, too", UnmaskWarning, stacklevel=3)
    return files


def _item(record: Mapping[str, Any], where: str, field: str | None = None) -> Item:
    key, target = column(record, "id"), None if field is not None else column(record, "target")
    name = None if key is None or record[key] is None else str(record[key])
    if target is None:
        text = column(record, *TEXT) if field is None else column(record, field)
        if text is None and field is None:
            raise InputError(
                f"{where} has no field 'text' (its fields are"
                f" {', '.join(map(str, list(record)[:6])) or 'none'}): give text, or before, target"
                f" and after; {argument_name('field')} names another, and"
                f" {argument_name('minimal_pairs')} reads columns good and bad"
            )
        return Item(
            string(record, text, where, field or TEXT[0]), None, name, _others(record, key, text)
        )
    keys = column(record, "before"), target, column(record, "after")
    before, middle, after = ("" if key is None else string(record, key, where) for key in keys)
    if not middle.strip():
        raise InputError(f"{where}: {target!r} is empty: give the words that are scored")
    left = before + _space(before, middle)
    text = left + middle + _space(middle, after) + after
    return Item(text, (len(left), len(left) + len(middle)), name, _others(record, key, *keys))


def _others(record: Mapping[str, Any], *used: str | None) -> dict[str, Any] | None:
    refuse_column_twice(
        [] if all(isinstance(key, str) for key in record) else map(str, record), "a mapping"
    )
    return {str(key): value for key, value in record.items() if key not in used} or None


def _pair(record: Mapping[str, Any], where: str, default_set: str) -> SentencePair:
    keys = next((names for names in PAIRS if any(column(record, name) for name in names)), PAIRS[0])
    good, bad = (column(record, name) for name in keys)
    if good is None or bad is None:
        known = "; or ".join(" and ".join(names) for names in PAIRS)
        fields = ", ".join(map(str, list(record)[:6])) or "none"
        missing = keys[0] if good is None else keys[1]
        raise InputError(
            f"{where} has no field {missing!r} (its fields are {fields}): rename two to {known}"
        )
    uid, phenomenon = column(record, "UID"), column(record, "phenomenon", "linguistics_term")
    return SentencePair(
        Item(string(record, good, where)),
        Item(string(record, bad, where)),
        default_set if uid is None else str(record[uid]),
        None if phenomenon is None or record[phenomenon] is None else str(record[phenomenon]),
        _others(record, good, bad, uid, phenomenon) or {},
    )


def sentences_of(pairs: Sequence[SentencePair]) -> list[Item]:
    """The sentences of pairs, good, bad, good, bad, ..., each with the columns pair_number,
    sentence (good or bad) and set.
    """
    items, taken = [], {name for pair in pairs for name in pair.columns}
    for number, pair in enumerate(pairs, 1):
        for which, item in (("good", pair.good), ("bad", pair.bad)):
            ours = {"pair_number": number, "sentence": which, "set": pair.set}
            renamed = {own_name(name, taken): value for name, value in ours.items()}
            items.append(item._replace(columns={**renamed, **pair.columns}))
    return items


def own_name(column: str, taken: Container[str]) -> str:
    """The name of a column of ours among the user's columns `taken`, which keep theirs."""
    while column in taken:
        column = f"{OWN}{column}"
    return column


def _space(left: str, right: str) -> str:
    """The space between two parts of a text, or nothing."""
    if (
        not left
        or not right
        or left[-1].isspace()
        or right[0].isspace()
        or right[0] in JOINED_TO_THE_LEFT
    ):
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
    (text,) = prepare(words, [(1, item)])
    if text.encoded is None:
        raise InputError(str(text.reason))
    return text.encoded


def prepare(words: TextTokenizer, numbered: Sequence[tuple[int, Item]]) -> list[Prepared]:
    """Every text as tokens, or with the reason why it cannot be scored."""
    whole = [bool(item.text.strip()) and not _has_blank(words, item.text) for _, item in numbered]
    read = iter(
        words.tokens_of_each(
            [item.text for (_, item), is_whole in zip(numbered, whole, strict=True) if is_whole]
        )
    )
    foreign = set(words.special_ids) - {words.unknown_id}
    texts = []
    for (number, item), is_whole in zip(numbered, whole, strict=True):
        if not is_whole:
            reason = "the text has a blank: fill it, or use fill" if item.text.strip() else EMPTY
            texts.append(Prepared(number, item, None, reason))
            continue
        try:
            texts.append(Prepared(number, item, _encoded(words, item, next(read), foreign), None))
        except InputError as error:
            texts.append(Prepared(number, item, None, str(error)))
    return texts


def _has_blank(words: TextTokenizer, text: str) -> bool:
    return BLANK in text or words.mask_token in text or has_several_lengths(text)


def _encoded(
    words: TextTokenizer, item: Item, tokens: Tokens | InputError, foreign: set[int]
) -> Encoded:
    """A text of these tokens, none of which may be one of the special ids `foreign`."""
    if isinstance(tokens, InputError):
        raise tokens
    ids, sites = tokens.ids, tuple(range(*tokens.inside))
    if not foreign.isdisjoint(ids[slice(*tokens.inside)]):
        special = next(ids[t] for t in sites if ids[t] in foreign)
        raise InputError(f"the text holds the special token {words.token(special)}: take it out")
    if item.target is not None:
        sites = _target_sites(item, sites, tokens.spans)
    if not sites:
        raise InputError("the text has no token of the model: give one with a word in it")
    unknown = 0
    if words.unknown_id in ids:
        scored = [ids[t] for t in sites]
        words.refuse_unknown(item.text[slice(*item.target)] if item.target else item.text, scored)
        words.warn_of_unknown(words.prepared(item.text), ids)
        unknown = scored.count(words.unknown_id)
    return Encoded(ids, sites, unknown, tokens)


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


def _target_sites(
    item: Item, regular: Sequence[int], spans: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """The tokens of the target; raises if one reaches beyond it into the words around."""
    assert item.target is not None
    first, last = item.target
    sites = []
    for t in regular:
        start, end = spans[t]
        start += len(item.text[start:end]) - len(item.text[start:end].lstrip())
        if start < last and end > first:
            if start < first or end > last:
                raise InputError(
                    f"the token {item.text[start:end]!r} is only partly in the target: give whole"
                    " words"
                )
            sites.append(t)
    if not sites:
        raise InputError(f"the target {item.text[first:last]!r} has no token: give a word")
    return tuple(sites)
