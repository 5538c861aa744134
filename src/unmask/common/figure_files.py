"""The files that figures go to. Nothing here imports matplotlib before a figure is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from unmask.common.files import output_file, write_atomically

if TYPE_CHECKING:
    from unmask.common.figures import Figure

FORMATS: dict[str, tuple[bytes, ...]] = {
    ".png": (b"\x89PNG",),
    ".pdf": (b"%PDF",),
    ".svg": (b"<?xml", b"<svg"),
}
"""Endings of figures, and how such files begin."""


def figure_path(
    path: str | PathLike[str] | None, texts: int, reads: Sequence[object]
) -> Path | None:
    """The file that a figure goes to, if one is wanted; raises before any work if it cannot be
    written, or is read.

    texts   how many texts there are: each would need a figure of its own
    reads   arguments that name what the command reads
    """
    if path is None:
        return None
    return output_file("figure", path, reads, FORMATS, texts)


def save_figure(draw: Callable[[], Figure], path: Path | None) -> None:
    """Draw a figure and write it, whole or not at all, if it has a path."""
    if path is None:
        return
    picture = draw().drawn(path.suffix[1:].lower())
    write_atomically(path, picture)
