"""Mutants as users write them.

A change is written A24G. A mutant is written as its changes with a mark between them (A24G+L30V,
A24G:L30V, A24G/L30V). Residues are counted from 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from unmask.common.errors import InputError
from unmask.common.files import user_path
from unmask.runs.lines import numbered_lines
from unmask.runs.unpacking import STANDARD_INPUT

CHANGE = re.compile(r"(?P<old>\D+)(?P<place>\d+)(?P<new>\D+)")
WITHIN_MUTANT = re.compile(r"\s*[+:/]\s*")
"""Between the changes of a mutant in a list, where the other marks could be between mutants."""


def changes_of(name: str) -> list[str]:
    """The changes of a mutant, such as A24G and L30V of A24G+L30V, A24G:L30V or A24G/L30V."""
    if CHANGE.fullmatch(name):  # also one whose token is a mark, such as cat2:
        return [name]
    return WITHIN_MUTANT.split(name)


def refuse_twice(places: Sequence[int], name: str) -> None:
    """Raise if the mutant `name` changes a residue twice."""
    if len(set(places)) < len(places):
        raise InputError(f"{name} changes a residue twice: change each once")


def listed(mutations: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """The names of mutants in a list, with commas between them, or in a file; each once."""
    if isinstance(mutations, str | os.PathLike):
        names = re.split(r"[,\n]", "\n".join(_lines(mutations)))
    else:
        names = [str(name) for name in mutations]
    stripped = [name.strip() for name in names]
    distinct = list(dict.fromkeys(name for name in stripped if name))
    if not distinct:
        raise InputError(
            "names no mutant",
            argument="mutations",
            use="write mutants such as A24G or A24G+L30V, with commas between them",
        )
    return distinct


def _lines(mutations: str | os.PathLike[str]) -> list[str]:
    """The lines of a file, or the text itself if no file has this name."""
    if isinstance(mutations, str):
        path = os.path.expanduser(mutations)
        if path != str(STANDARD_INPUT) and not os.path.isfile(path):
            return [mutations]
    return [line for _, line in numbered_lines(user_path(mutations, "mutations"))]
