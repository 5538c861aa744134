"""Contacts of residues in a structure: C-beta atoms (C-alpha of glycine) closer than 8 angstroms, from a PDB file.

The chain is aligned to the sequence, with free ends; it must have the same residue at nine of ten places or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from unmask.errors import InputError
from unmask.runs.files import user_path
from unmask.runs.lines import numbered_lines

NEAR = 8.0
LEAST_IDENTITY = 0.9
MATCH, MISMATCH, GAP = 2, -2, -3
LETTERS = dict(
    zip(
        "ALA CYS ASP GLU PHE GLY HIS ILE LYS LEU MET ASN PRO GLN ARG SER THR VAL TRP TYR MSE".split(),
        "ACDEFGHIKLMNPQRSTVWYM",
        strict=True,
    )
)


def read_chain(given: str | Path, chain: str | None) -> tuple[str, Float[np.ndarray, "r 3"]]:
    """The residues of a chain, and where each is; without a name, of the only chain."""
    path = user_path(given, "pdb")
    atoms: dict[str, dict[str, tuple[str, dict[str, list[float]]]]] = {}
    for number, line in numbered_lines(path):
        if line.startswith("ENDMDL"):
            break
        if line[:6] not in ("ATOM  ", "HETATM") or line[12:16].strip() not in ("CA", "CB") or line[17:20] not in LETTERS:
            continue
        try:
            where = [float(line[i : i + 8]) for i in (30, 38, 46)]
        except ValueError:
            raise InputError(f"pdb {str(path)!r} line {number} has no coordinates in columns 31 to 54: give a PDB file") from None
        residue = atoms.setdefault(line[21], {}).setdefault(line[22:27], (LETTERS[line[17:20]], {}))
        residue[1].setdefault(line[12:16].strip(), where)
    if not atoms:
        raise InputError(f"pdb {str(path)!r} has no ATOM lines of residues: give a file in the PDB format, not mmCIF")
    chains = ", ".join(sorted(atoms))
    if chain is None and len(atoms) > 1:
        raise InputError(f"pdb {str(path)!r} has the chains {chains}: choose one with --chain")
    name = next(iter(atoms)) if chain is None else chain
    if name not in atoms:
        raise InputError(f"pdb {str(path)!r} has no chain {name!r}: choose one of {chains}")
    found = list(atoms[name].values())
    where_all = [placed.get("CB", placed.get("CA", [np.nan] * 3)) for _, placed in found]
    return "".join(letter for letter, _ in found), np.array(where_all)


def distances(pdb: str | Path, chain: str | None, sequence: Sequence[str], places: Sequence[int]) -> Float[np.ndarray, "k k"]:
    """Distances in angstroms of the residues at `places`, counted from 1; NaN of those that the structure lacks."""
    residues, where = read_chain(pdb, chain)
    at = aligned("".join(sequence), residues)
    same = sum(residues[j] == sequence[i] for i, j in at.items())
    if len(at) < min(len(sequence), len(residues)) / 2 or same < LEAST_IDENTITY * len(at):
        raise InputError(
            f"pdb {str(pdb)!r} does not match the sequence ({same} of {len(at)} aligned residues are the same; it has "
            f"{len(sequence)}): name the chain of this sequence"
        )
    placed = np.array([where[at[place - 1]] if place - 1 in at else [np.nan] * 3 for place in places])
    apart: np.ndarray = np.linalg.norm(placed[:, None] - placed[None, :], axis=2)
    return apart


def aligned(first: str, second: str) -> dict[int, int]:
    """The best alignment of two sequences, gaps at the ends free: places of the first, and those of the second beside them."""
    score = np.zeros((len(first) + 1, len(second) + 1), dtype=int)
    came = np.zeros(score.shape, dtype=int)
    for i, a in enumerate(first, 1):
        for j, b in enumerate(second, 1):
            ways = (score[i - 1, j - 1] + (MATCH if a == b else MISMATCH), score[i - 1, j] + GAP, score[i, j - 1] + GAP)
            came[i, j] = int(np.argmax(ways))
            score[i, j] = ways[came[i, j]]
    last_row, last_column = int(score[-1].argmax()), int(score[:, -1].argmax())
    i, j = (len(first), last_row) if score[-1, last_row] >= score[last_column, -1] else (last_column, len(second))
    found = {}
    while i and j:
        if came[i, j] == 0:
            found[i - 1] = j - 1
        i, j = i - (came[i, j] != 2), j - (came[i, j] != 1)
    return found
