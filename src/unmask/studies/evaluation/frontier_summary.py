"""The points of a frontier: means over texts, with intervals, and differences from the best order
of one token per pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from unmask.studies.evaluation.summary import with_intervals

RESAMPLES = 2000
COUNTED = ("passes", "rounds", "rows")
"""What is counted of a text."""


def points_of_rows(
    rows: Sequence[Mapping[str, Any]], length: int, seed: int
) -> list[dict[str, Any]]:
    """{decoder, asked, passes, rounds, rows, nats, difference, best} of each decoder and number of
    passes, in the order of the rows.

    rows     one per text and point: decoder, asked, text, passes, rounds, rows, nats
    length   tokens of a text
    seed     of the bootstrap
    """
    rows_of: dict[tuple[str, int | None], list[Mapping[str, Any]]] = {}
    for row in rows:
        rows_of.setdefault((row["decoder"], row["asked"]), []).append(row)
    points: list[dict[str, Any]] = []
    nats_per_token = []
    for (decoder, asked), of_point in rows_of.items():
        by_text = sorted(of_point, key=lambda row: row["text"])  # differences are paired by text
        point: dict[str, Any] = {"decoder": decoder, "asked": asked}
        for name in COUNTED:
            known = [row[name] for row in by_text if row[name] is not None]
            point[name] = sum(known) / len(known)
        points.append(point)
        nats_per_token.append(np.array([row["nats"] for row in by_text]) / length)
    return against_best(points, np.array(nats_per_token), seed)


def against_best(
    points: Sequence[Mapping[str, Any]], nats: Float[np.ndarray, "points texts"], seed: int
) -> list[dict[str, Any]]:
    """The points with their nats per token, and the difference from the best of those whose
    `asked` is None.
    """
    one_by_one = [i for i, point in enumerate(points) if point["asked"] is None]
    best = min(one_by_one, key=lambda i: nats[i].mean())
    # In one call: the means and the differences resample the same texts.
    numbers = with_intervals(np.concatenate([nats, nats - nats[best]]), seed, RESAMPLES)
    means = numbers[: len(points)]
    differences = numbers[len(points) :]
    return [
        {**point, "nats": means[i], "difference": differences[i], "best": i == best}
        for i, point in enumerate(points)
    ]
