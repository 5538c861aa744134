"""Which member of the near-compatible family should be the default? Chosen on one half of the pairs, confirmed on the other.

    python bench/family_choice.py measure --data TEXTS --scheme contiguous --pairs 200 --out CELL [--model M] [--dtype float16]
    python bench/family_choice.py choose CELL [CELL ...]

measure  `unmask evaluate` with the members (alpha, lambda) of a grid beside the other constructions; the run continues after an
         interrupt. Any run folder of `unmask evaluate` serves for `choose`, as long as all have the same constructions.
choose   On the pairs of even number, all cells weighing alike: the members whose nats per token lie within TIE of the best, and
         among them the one with the lowest G-KL. On the pairs of odd number: its difference from every other construction in
         nats per token and in G-KL, pair by pair, with 95 % bootstrap intervals, per cell and over all cells.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas

import unmask

ALPHAS = (0.0, 0.5, 0.75, 1.0)
LAMBDAS = (0.0, 0.05, 0.1, 0.25, 0.5)
OTHERS = ("product", "arnold_gokhale", "balanced", "pseudo_gibbs", "chain")
TIE = 0.005
RESAMPLES = 2000
MEMBERS = tuple(f"family:{a!r},{m!r}" for a in ALPHAS for m in LAMBDAS if not (m == 0 and a != 0.75))
"""lambda = 0 with alpha 0, 1/2 and 1 are named among the others."""


def read_cell(folder: Path) -> pandas.DataFrame:
    """Per pair and construction: nats per token, G-KL, A-KL and steps."""
    rows = pandas.concat([pandas.read_parquet(part) for part in sorted((folder / "parts").glob("*.parquet"))])
    return rows.assign(cell=folder.name, nats=rows["pair_nll"] / 2)[
        ["cell", "pair", "construction", "nats", "g_kl", "a_kl", "steps"]
    ]


def means(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Of each construction, every cell weighing alike."""
    per_cell = rows.groupby(["construction", "cell"])[["nats", "g_kl", "a_kl", "steps"]].mean()
    table = per_cell.groupby("construction").mean()
    return table.assign(p_ppl=np.exp(table["nats"])).sort_values("nats")


def chosen(table: pandas.DataFrame) -> str:
    """The lowest G-KL among the constructions that no perplexity tells from the best."""
    near = table[table["nats"] <= table["nats"].min() + TIE]
    return str(near["g_kl"].idxmin())


def difference(rows: pandas.DataFrame, one: str, other: str, metric: str, seed: int = 0) -> tuple[float, float, float]:
    """Mean of `one` minus `other` over pairs, cells weighing alike, and its 95 % bootstrap interval over pairs."""
    random, wide = np.random.default_rng(seed), rows.pivot(index=["cell", "pair"], columns="construction", values=metric)
    by_cell = [group.to_numpy() for _, group in (wide[one] - wide[other]).groupby("cell")]
    drawn = [np.mean([random.choice(values, len(values)).mean() for values in by_cell]) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(np.mean([values.mean() for values in by_cell])), float(low), float(high)


def choose(cells: list[Path]) -> None:
    """Print the choice and its confirmation."""
    rows = pandas.concat([read_cell(cell) for cell in cells])
    first, second = rows[rows["pair"] % 2 == 0], rows[rows["pair"] % 2 == 1]
    table = means(first)
    best = chosen(table)
    print(f"{len(cells)} cells, {first.groupby('cell')['pair'].nunique().to_dict()} pairs in the first halves\n")
    print(table.to_string(float_format=lambda value: f"{value:.4f}"), f"\n\nchosen on the first halves: {best}\n")
    print(f"{best} minus the other, second halves: nats per token, and G-KL in nats, with 95 % intervals\n")
    for where, part in [("all cells", second), *second.groupby("cell")]:
        for other in table.index:
            if other != best:
                found = [difference(part, best, other, metric) for metric in ("nats", "g_kl")]
                shown = "   ".join(f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]" for mean, low, high in found)
                print(f"{where:24s} {other:20s} {shown}")
        print()


def main() -> None:
    """Measure or choose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("measure")
    for option in ("--data", "--out"):
        measure.add_argument(option, required=True)
    for option, default in (("--model", None), ("--scheme", "contiguous"), ("--device", "auto"), ("--dtype", "auto")):
        measure.add_argument(option, default=default)
    measure.add_argument("--pairs", type=int, default=200)
    measure.add_argument("--seed", type=int, default=0)
    commands.add_parser("choose").add_argument("cells", type=Path, nargs="+")
    given = vars(parser.parse_args())
    if given.pop("command") == "choose":
        choose(given["cells"])
    else:
        print(unmask.evaluate(joints=(*OTHERS, *MEMBERS), **given).to_frame().to_string())


if __name__ == "__main__":
    main()
