"""What half precision does to Table 1: two runs of `unmask evaluate` on the same pairs, number by number.

    python bench/precision.py RUN-FLOAT32 RUN-HALF

Both folders must hold the same pairs (same data, scheme, pairs and seed); those measured in both are compared, also
where one of the runs has not finished. Printed: each metric of the first run, and by how much the second differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas


def rows_of(folder: Path) -> pandas.DataFrame:
    """All rows that were written so far."""
    return pandas.concat([pandas.read_parquet(part) for part in sorted((folder / "parts").glob("*.parquet"))])


def metrics(rows: pandas.DataFrame) -> dict[str, float]:
    """The columns of Table 1 over pairs of one construction."""
    return {
        "U-PPL": float(np.exp((rows["unary_nll_first"] + rows["unary_nll_second"]).mean() / 2)),
        "P-PPL": float(np.exp(rows["pair_nll"].mean() / 2)),
        "A-KL": float(rows["a_kl"].mean()),
        "G-KL": float(rows["g_kl"].mean()),
        "compatibility": float(rows["compatibility"].mean()),
    }


def main() -> None:
    """Print the table and the largest difference."""
    folders = [Path(name) for name in sys.argv[1:]]
    if len(folders) != 2 or (folders[0] / "pairs.jsonl").read_text() != (folders[1] / "pairs.jsonl").read_text():
        raise SystemExit("give two folders of `unmask evaluate` that were begun on the same pairs")
    first, second = (rows_of(folder) for folder in folders)
    common = set(first["pair"]) & set(second["pair"])
    largest = 0.0
    print(f"{len(common)} pairs; {folders[0]}, and the difference of {folders[1]}")
    for construction in first["construction"].unique():
        exact, half = (
            metrics(rows[(rows["construction"] == construction) & rows["pair"].isin(common)]) for rows in (first, second)
        )
        change = {name: half[name] / exact[name] - 1 for name in exact}
        largest = max(largest, *(abs(c) for c in change.values()))
        print(f"{construction:15s} " + "  ".join(f"{name} {exact[name]:.4g} {change[name]:+.3%}" for name in exact))
    print(f"largest difference {largest:.3%}")


if __name__ == "__main__":
    main()
