"""Regions of sequences, from a table of the user.

    region,start,end           columns of an alignment, the same for every sequence
    name,region,start,end      letters of the sequence with this name in the FASTA file

Both count letters from 1 as the file writes them, gaps (- and .) too; `end` belongs to the region.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unmask.errors import InputError
from unmask.runs.files import user_path
from unmask.runs.lines import numbered_lines

GAPS = "-."
HEADERS = (["region", "start", "end"], ["name", "region", "start", "end"])


@dataclass(frozen=True)
class Regions:
    """The region of every residue of every sequence.

    names       the regions, in the file's order
    by_residue  for each sequence, for each of its residues (gaps left out), the region's name or None
    """

    names: list[str]
    by_residue: list[list[str | None]]


def without_gaps(sequence: str) -> str:
    """A sequence of an alignment, its gaps left out."""
    return sequence.translate(dict.fromkeys(map(ord, GAPS)))


def read_regions(given: str | Path, names: Sequence[str] | None, sequences: Sequence[str]) -> Regions:
    """The regions of a table, for sequences as they are written; `names` of a FASTA file's records."""
    path = user_path(given, "regions")
    lines = [(number, line) for number, line in numbered_lines(path) if line.strip()]
    cells = [[cell.strip() for cell in row] for row in csv.reader(line for _, line in lines)]
    header = [cell.lower() for cell in cells[0]] if cells else []
    if header not in HEADERS or len(cells) < 2:
        raise InputError(
            f"regions {str(path)!r} is not a table of regions: begin it with region,start,end or name,region,start,end, "
            "and give one region per line"
        )
    number_of: dict[str, int] = {}
    if "name" in header:
        if names is None:
            raise InputError(f"regions {str(path)!r} names sequences, and data is not FASTA: give region,start,end, or FASTA")
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise InputError(f"data has {twice[0]!r} more than once, and regions go by name: give each sequence its own name")
        number_of = {name: number for number, name in enumerate(names)}
    columns: list[list[str | None]] = [[None] * len(sequence) for sequence in sequences]
    longest = max(map(len, sequences))
    found: dict[str, None] = {}
    for (number, _), row in zip(lines[1:], cells[1:], strict=True):
        at = f"regions {str(path)!r} line {number}"
        if len(row) != len(header):
            raise InputError(f"{at} has {len(row)} cells: give {','.join(header)}")
        entry = dict(zip(header, row, strict=True))
        if not entry["start"].isdecimal() or not entry["end"].isdecimal() or len(entry["end"]) > 9:
            raise InputError(f"{at}: {entry['start']!r} to {entry['end']!r} is not a range: give whole numbers from 1 on")
        start, end = int(entry["start"]), int(entry["end"])
        name = entry.get("name")
        if name is not None and name not in number_of:
            raise InputError(f"{at}: no sequence of data is named {name!r}: write the first word after > of its record")
        chosen = range(len(sequences)) if name is None else [number_of[name]]
        length = longest if name is None else len(sequences[number_of[name]])
        if not 1 <= start <= end <= length:
            raise InputError(f"{at}: {start} to {end} is outside the letters 1 to {length}: correct it")
        found[entry["region"]] = None
        for one in chosen:
            for place in range(start - 1, min(end, len(sequences[one]))):
                if columns[one][place] is not None:
                    raise InputError(f"{at}: letter {place + 1} is in {columns[one][place]!r} already: let regions not overlap")
                columns[one][place] = entry["region"]
    residues = [
        [region for letter, region in zip(sequence, column, strict=True) if letter not in GAPS]
        for sequence, column in zip(sequences, columns, strict=True)
    ]
    return Regions(list(found), residues)
