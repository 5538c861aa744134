"""Minimal pairs that a user gives: an acceptable sentence and one that is not.

A record of a file, a table or a frame, or a mapping, names them in one of four ways (`PAIRS`):

    {"sentence_good": "...", "sentence_bad": "..."}      optional "UID" (the set) and
                                                         "phenomenon" or "linguistics_term"

All other columns come back with the scores, under their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.common.files import user_path
from unmask.common.warn import warn
from unmask.runs.file_names import RECORDS, kind_of
from unmask.runs.lines import column, records, rows_of_frame, string
from unmask.runs.unpacking import STANDARD_INPUT
from unmask.scoring.items import Item, fields_shown, other_columns, own_name

PAIRS = (
    ("sentence_good", "sentence_bad"),
    ("good", "bad"),
    ("grammatical", "ungrammatical"),
    ("acceptable", "unacceptable"),
)
"""Names of the two sentences of a minimal pair."""
SET_OF_MAPPINGS = "pairs"
"""The set of pairs that are given as mappings and name none."""
PathLike = str | os.PathLike[str]


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


def pairs_of(source: PathLike | Iterable[PathLike | Mapping[str, Any]]) -> Iterator[SentencePair]:
    """Minimal pairs of one or more files of JSON Lines or tables, of all *.jsonl of a folder,
    of mappings, or of a frame.
    """
    if isinstance(source, str | os.PathLike):
        entries: Any = [source]
    else:
        entries = rows_of_frame(source, "data")
    if not isinstance(entries, Iterable) or isinstance(entries, Mapping):
        raise InputError(
            f"{shown(source)} is not a file or a list of mappings", argument="data", use="give one"
        )
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, Mapping):
            yield _pair(entry, f"pair {number}", SET_OF_MAPPINGS)
            continue
        path = user_path(entry, "data")
        files = [path]
        if path.is_dir():
            files = _pair_files(path)
        for file in files:
            yield from _pairs_of_file(file)


def _pairs_of_file(file: Path) -> Iterator[SentencePair]:
    """The pairs of one file. A pair that names no set is of the file's, which is its name up to the
    first dot.
    """
    default_set = file.name.split(".")[0]
    if file == STANDARD_INPUT:
        default_set = SET_OF_MAPPINGS
    kind = kind_of(file)
    if kind not in RECORDS:
        kind = ".jsonl"
    for where, record in records(file, kind):
        if record:
            yield _pair(record, where, default_set)


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
        warn(f"{what}: name these files to read them, too")
    return files


def _pair(record: Mapping[str, Any], where: str, default_set: str) -> SentencePair:
    """The pair of a record."""
    names = _pair_names(record)
    good = column(record, names[0])
    bad = column(record, names[1])
    if good is None or bad is None:
        missing = names[1]
        if good is None:
            missing = names[0]
        known = "; or ".join(" and ".join(each) for each in PAIRS)
        raise InputError(
            f"{where} has no field {missing!r} (its fields are {fields_shown(record)}): rename two"
            f" to {known}"
        )
    uid = column(record, "UID")
    phenomenon_column = column(record, "phenomenon", "linguistics_term")
    set_name = default_set
    if uid is not None:
        set_name = str(record[uid])
    phenomenon = None
    if phenomenon_column is not None and record[phenomenon_column] is not None:
        phenomenon = str(record[phenomenon_column])
    return SentencePair(
        good=Item(string(record, good, where)),
        bad=Item(string(record, bad, where)),
        set=set_name,
        phenomenon=phenomenon,
        columns=other_columns(record, good, bad, uid, phenomenon_column) or {},
    )


def _pair_names(record: Mapping[str, Any]) -> tuple[str, str]:
    """The first names of `PAIRS` of which a record has one."""
    for names in PAIRS:
        if any(column(record, name) for name in names):
            return names
    return PAIRS[0]


def sentences_of(pairs: Sequence[SentencePair]) -> list[Item]:
    """The sentences of pairs, good, bad, good, bad, ..., each with the columns pair_number,
    sentence (good or bad) and set.
    """
    taken = {name for pair in pairs for name in pair.columns}
    items = []
    for number, pair in enumerate(pairs, 1):
        for which, item in (("good", pair.good), ("bad", pair.bad)):
            ours = {"pair_number": number, "sentence": which, "set": pair.set}
            renamed = {own_name(name, taken): value for name, value in ours.items()}
            items.append(item._replace(columns={**renamed, **pair.columns}))
    return items
