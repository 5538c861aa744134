"""Kinds of files by their names, and texts that are the name of a file, or look like one."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unmask.common.checks import shown
from unmask.common.errors import InputError
from unmask.runs.unpacking import PACKED

FASTA = (".fasta", ".fa", ".faa")
RECORDS = {
    ".jsonl": "JSON",
    ".ndjson": "JSON",
    ".json": "JSON",
    ".csv": "a table",
    ".tsv": "a table",
}
"""Endings of files that hold records, and what they are written in."""
DOCUMENTS = (
    *(".txt", ".text", ".conllu", ".md", ".tex", ".html", ".xml"),
    *(".pdf", ".doc", ".docx", ".odt", ".rtf", ".log"),
)
TABLES = (".tab", ".dat", ".xls", ".xlsx", ".xlsm", ".ods", ".parquet")
OTHER_PACKED = (".bz2", ".zst", ".zip")
ENDINGS = (*DOCUMENTS, *TABLES, *OTHER_PACKED, *FASTA, *PACKED, *RECORDS)
"""A text that ends so looks like the name of a file."""
BLANK = re.compile(r"\[MASK\]|\[WORD\]|\[GAP[:\]]")
"""A text with a blank does not look like the name of a file."""
WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]\S+")
IS_NAMED = "is the name of a file"
LOOKS_SO = "looks like the name of a file"


def kind_of(path: Path) -> str:
    """How a file's name ends, .gz and .xz aside; in small letters."""
    name = Path(path.name.lower())
    if name.suffix in PACKED:
        name = Path(name.stem)
    return name.suffix


def refuse_file_name(text: str, file: str, as_text: str | None, kind: str = "text") -> None:
    """Raise if a text is the name of a file, or looks like one.

    file      how the file of this name is given instead
    as_text   how the text is given if it is meant as a text; None of a text that cannot be, such
              as a sequence
    kind      what the text is called
    """
    is_named = file_name(text)
    if is_named is None:
        return
    ways = f"give {file} to read the file"
    if as_text is not None:
        ways += f", or {as_text} if it is a text"
    raise InputError(f"the {kind} {shown(text)} {is_named}: {ways}")


def file_name(text: str) -> str | None:
    """In words, in which way a text is the name of a file, or looks like one; None if it does
    neither.
    """
    if names_a_file(text):
        return IS_NAMED
    return LOOKS_SO if looks_like_a_file(text) else None


def names_a_file(text: str) -> bool:
    """Whether there is a file or a folder of this name; a text of dots alone is a text."""
    is_only_dots = not text.strip(".")  # "." and ".." are folders, and "..." is a text
    return not is_only_dots and os.path.exists(os.path.expanduser(text))


def looks_like_a_file(text: str) -> bool:
    """Whether a text has a known ending, or a slash and no space; one with a blank is a text."""
    if BLANK.search(text):
        return False
    if text.rstrip().lower().endswith(ENDINGS):
        return True
    slashes = "/\\" if os.name == "nt" else "/"
    has_slash = any(slash in text for slash in slashes)
    is_of_windows = WINDOWS_PATH.fullmatch(text) is not None
    has_space = any(character.isspace() for character in text.strip())
    return (has_slash or is_of_windows) and not has_space
