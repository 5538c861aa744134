"""Files that hold mutants or variants and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.common.files import write_atomically, write_table

if TYPE_CHECKING:
    import pandas

TABLES = {".parquet": (b"PAR1",), ".csv": (b"mutant,",), ".tsv": (b"mutant\t",)}
"""The endings of these files, and how each begins."""


def save_table(path: Path, frame: pandas.DataFrame, about: Mapping[str, Any] | None = None) -> None:
    """Write a data frame as Parquet, CSV or TSV, by the ending of the path.

    about   goes into the metadata of Parquet; the others have no place for it
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        write_table(path, frame, about=about)
        return
    separator = "\t" if ending == ".tsv" else ","
    write_atomically(path, frame.to_csv(index=False, sep=separator, lineterminator="\n"))
