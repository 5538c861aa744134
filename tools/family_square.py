"""The square of the near-compatible family with restarts: P-PPL and G-KL over (alpha, lambda),
corners and named members marked.

    python tools/family_square.py docs/figures/family-square.csv docs/figures/family-square.png

The means weigh every cell (model, texts, way to choose pairs) alike. Between the measured
points, marked by dots, the contours are linear in alpha and in the square root of lambda, the
scale of the axis; at lambda = 1 every alpha is the chain.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas

SHOWN = {
    "Arnold-Gokhale": (0.0, 0.0, "left", "bottom"),
    "balanced": (0.5, 0.0, "center", "bottom"),
    "pseudo-Gibbs": (1.0, 0.0, "right", "bottom"),
    "restarted": (0.75, 0.1, "center", "bottom"),
    "chain": (0.5, 1.0, "center", "top"),
}


def draw(means: Path, out: Path) -> None:
    """Two panels."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.tri import LinearTriInterpolator, Triangulation

    table = pandas.read_csv(means)
    x, y = table["alpha"].to_numpy(), np.sqrt(table["lambda"].to_numpy())
    grid = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101))
    figure, axes = pyplot.subplots(1, 2, figsize=(9.5, 4.4), sharey=True, layout="constrained")
    for axis, (column, title) in zip(
        axes, (("p_ppl", "P-PPL of held-out pairs"), ("g_kl", "G-KL, nats")), strict=True
    ):
        surface = LinearTriInterpolator(Triangulation(x, y), table[column].to_numpy())(*grid)
        filled = axis.contourf(*grid, surface, levels=12, cmap="viridis_r")
        figure.colorbar(filled, ax=axis)
        axis.plot(x, y, ".", color="white", markersize=4)
        for name, (alpha, restart, across, up) in SHOWN.items():
            axis.plot(alpha, np.sqrt(restart), "o", color="black", clip_on=False)
            beside = (0, 7 if up == "bottom" else -7)
            box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85}
            place = (alpha, float(np.sqrt(restart)))
            axis.annotate(
                name, place, beside, textcoords="offset points", ha=across, va=up, bbox=box
            )
        axis.set(title=title, xlabel="α: how much likely contexts count")
        axis.set_yticks(np.sqrt([0, 0.05, 0.1, 0.25, 0.5, 1]), ["0", ".05", ".1", ".25", ".5", "1"])
    axes[0].set_ylabel("λ: restarts from the chain")
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
