"""Heat maps of the joint of two blanks, under several constructions, with matplotlib.

All are conditional on both blanks lying in their candidate sets. The user's text is drawn as it
is, without LaTeX: a dollar sign in it is not mathematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from unmask.common.errors import InputError
from unmask.common.excerpts import around_blanks
from unmask.joints.joint import Joint, mutual_information

if TYPE_CHECKING:
    from unmask.common.figures import Figure

TOKENS_SHOWN, LABELLED_CELLS = 12, 8


def pair_joints(joints: Sequence[Joint], title: str) -> Figure:
    """Heat maps of joints of two blanks over the same tables, one panel each, on one scale.

    They show the TOKENS_SHOWN tokens of each blank with the highest marginal probability on
    average over the joints; the LABELLED_CELLS most probable cells have their number in them.
    """
    from unmask.common.figures import Figure, PowerNorm

    if any(joint.sites != 2 for joint in joints):
        raise InputError(
            f"a heat map needs two blanks, these joints have {joints[0].sites}: leave the"
            " figure out"
        )
    marginals = [torch.stack([joint.marginals()[t] for joint in joints]).mean(0) for t in (0, 1)]
    rows, columns = (
        marginal.topk(min(TOKENS_SHOWN, len(marginal))).indices for marginal in marginals
    )
    index = (rows.repeat_interleave(len(columns)), columns.repeat(len(rows)))
    cells = [
        100 * j.log_tile(index).double().exp().reshape(len(rows), len(columns)).cpu()
        for j in joints
    ]
    brightest = max(float(c.max()) for c in cells)
    figure = Figure(figsize=(1.2 + 4.6 * len(joints), 5.4), layout="constrained")
    axes = figure.subplots(1, len(joints), sharey=True, squeeze=False)[0]
    tables = joints[0].tables
    for joint, values, panel in zip(joints, cells, axes, strict=True):
        image = panel.imshow(
            values.numpy(), cmap="Blues", norm=PowerNorm(0.5, 0, brightest), aspect="auto"
        )
        panel.set_title(
            f"{joint.name}: mutual information {abs(mutual_information(joint)):.2f} nats",
            fontsize=11,
        )
        names = [tables.spelled(1, int(tables.candidates[1][i])) for i in columns]
        panel.set_xticks(range(len(columns)), names, rotation=60, ha="right", parse_math=False)
        panel.set_xlabel("second blank")
        for place in values.flatten().topk(min(LABELLED_CELLS, values.numel())).indices.tolist():
            row, column = divmod(place, len(columns))
            value = float(values[row, column])
            colour = "white" if value > brightest / 3 else "black"
            panel.text(
                column, row, f"{value:.1f}", ha="center", va="center", fontsize=7, color=colour
            )
    names = [tables.spelled(0, int(tables.candidates[0][i])) for i in rows]
    axes[0].set_yticks(range(len(rows)), names, parse_math=False)
    axes[0].set_ylabel("first blank")
    figure.colorbar(image, ax=axes, label="probability (%)", shrink=0.8)
    figure.suptitle(around_blanks(title, 40 + 40 * len(joints)), parse_math=False)
    return figure
