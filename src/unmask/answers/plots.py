"""Figures, with matplotlib: joints of two blanks, dependence of positions.

The user's own text is drawn as it is: a dollar sign or a bracket in it is not mathematics.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from unmask.errors import InputError
from unmask.formats import around_blanks
from unmask.joints.joint import Joint
from unmask.runs.files import atomic_path
from unmask.runs.outputs import answer_file

if TYPE_CHECKING:
    from unmask.answers.dependence import Dependence
    from unmask.figures import Figure


FORMATS = {".png": (b"\x89PNG",), ".pdf": (b"%PDF",), ".svg": (b"<?xml", b"<svg")}
"""Endings of figures, and how such files begin."""


def figure_path(given: str | Path | None, texts: int, reads: Sequence[object], name: str = "figure") -> Path | None:
    """The file that a figure goes to, if one is wanted; refused before any work if it cannot be written, or is read."""
    return None if given is None else answer_file(name, given, FORMATS, texts, reads)


def save_figure(draw: Callable[[], Figure], path: Path | None, name: str = "figure") -> None:
    """Draw a figure and write it, whole or not at all, if it has a path."""
    if path is None:
        return
    with atomic_path(path, f"choose another --{name}") as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter that the font lacks is drawn as a box
        draw().savefig(temporary, dpi=150, format=path.suffix[1:].lower())


def pair_joints(joints: Sequence[Joint], title: str = "", tokens: int = 12) -> Figure:
    """Heat maps of joints of two blanks over the same tables, one panel each, on one scale.

    Shown are the `tokens` of each blank with the highest marginal probability on average over the joints.
    """
    from matplotlib.colors import PowerNorm

    from unmask.figures import Figure

    if any(joint.sites != 2 for joint in joints):
        raise InputError(f"a heat map needs two blanks, these joints have {joints[0].sites}: leave the figure out")
    shown = [
        torch.stack([j.marginals()[t] for j in joints]).mean(0).topk(min(tokens, joints[0].shape[t])).indices for t in (0, 1)
    ]
    rows, columns = shown
    index = (rows.repeat_interleave(len(columns)), columns.repeat(len(rows)))
    cells = [100 * j.log_tile(index).double().exp().reshape(len(rows), len(columns)).cpu() for j in joints]
    brightest = max(float(c.max()) for c in cells)
    figure = Figure(figsize=(1.2 + 4.6 * len(joints), 5.4), layout="constrained")
    axes = figure.subplots(1, len(joints), sharey=True, squeeze=False)[0]
    label = joints[0].label
    for joint, values, panel in zip(joints, cells, axes, strict=True):
        image = panel.imshow(values.numpy(), cmap="Blues", norm=PowerNorm(0.5, 0, brightest), aspect="auto")
        panel.set_title(f"{joint.name}: mutual information {abs(joint.mutual_information()):.2f} nats", fontsize=11)
        names = [label(int(joint.tables.candidates[1][i])) for i in columns]
        panel.set_xticks(range(len(columns)), names, rotation=60, ha="right", parse_math=False)
        panel.set_xlabel("second blank")
        for x, y in _brightest_cells(values):
            value = float(values[x, y])
            panel.text(
                y, x, f"{value:.1f}", ha="center", va="center", fontsize=7, color="white" if value > brightest / 3 else "black"
            )
    axes[0].set_yticks(range(len(rows)), [label(int(joints[0].tables.candidates[0][i])) for i in rows], parse_math=False)
    axes[0].set_ylabel("first blank")
    figure.colorbar(image, ax=axes, label="probability (%)", shrink=0.8)
    figure.suptitle(around_blanks(title, 40 + 40 * len(joints)), parse_math=False)
    return figure


def _brightest_cells(values: torch.Tensor, count: int = 8) -> list[list[int]]:
    """Row and column of the cells that a number is written in."""
    places = values.flatten().topk(min(count, values.numel())).indices
    return torch.stack(torch.unravel_index(places, values.shape), -1).tolist()


def dependence_map(found: Dependence) -> Figure:
    """Heat map of the mutual information of every pair of positions; numbers that round to 0.00 are not written."""
    from matplotlib.colors import PowerNorm

    from unmask.figures import Figure

    names, k = found.names(), len(found.tokens)
    side = min(14.0, max(4.6, 2.2 + 0.46 * k))
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    panel = figure.subplots()
    values = found.matrix.clone().fill_diagonal_(torch.nan)
    most = max(float(found.matrix.nan_to_num().max()), 1e-12)
    image = panel.imshow(values.numpy(), cmap="Blues", norm=PowerNorm(0.5, 0, most))
    panel.set_facecolor("0.92")
    panel.set_xticks(range(k), names, rotation=60, ha="right", parse_math=False)
    panel.set_yticks(range(k), names, parse_math=False)
    if k <= 16:
        for i, j, value in [pair for pair in found.pairs() if pair[2] >= 0.005]:
            for row, column in ((i, j), (j, i)):
                colour = "white" if value > most / 3 else "black"
                panel.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    beside = "the other positions masked" if found.others == "masked" else "the other tokens as they stand"
    shown = around_blanks(found.text, int(11 * side))
    panel.set_title(f"{shown}\n{found.construction} joint of each pair, {beside}", fontsize=10, parse_math=False)
    figure.colorbar(image, ax=panel, label="mutual information (nats)", shrink=0.8)
    return figure
