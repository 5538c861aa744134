"""What a finished run leaves beside its rows: results.parquet, table.md, table.json and the figures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.evaluation.figures import DISTANCES, distance_figure
from unmask.evaluation.table import as_json, as_markdown, summarise
from unmask.runs.files import begun, write_atomically, writing

if TYPE_CHECKING:
    import pandas


def write_report(
    rows: pandas.DataFrame, out: Path, settings: Mapping[str, Any], failed: Sequence[object], skipped: Mapping[str, int]
) -> dict[str, Any]:
    """Write the report of a run's rows into `out`; returns the summary that the table shows."""
    summary = summarise(rows, settings["constructions"], settings.get("seed") or 0)
    seconds = rows.groupby("pair")["seconds"].first()
    about = {
        "failed": len(failed),
        "skipped_texts": dict(skipped),
        "median_seconds_a_pair": float(seconds.median()),
        **begun(),
    }
    table = as_markdown(summary, settings, len(failed))
    buffer = io.BytesIO()
    rows.to_parquet(buffer, index=False)
    write_atomically(out / "results.parquet", buffer.getvalue())
    write_atomically(out / "table.json", as_json(summary, settings, about).encode())
    write_atomically(out / "table.md", table.encode())
    with writing(out / "figures"):
        (out / "figures").mkdir(exist_ok=True)
        source = Path(settings.get("data") or settings.get("pairs_file") or "").name
        title = f"{summary['pairs']} {settings.get('scheme') or 'given'} pairs of {source}"
        for column in DISTANCES:
            distance_figure(rows, column, out / "figures" / f"{column}.png", title)
    return summary
