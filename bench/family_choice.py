"""Which rule should be the default? Chosen on one half of the pairs, confirmed on the other.

    python bench/family_choice.py RUNS [--against balanced chain ...]
    python bench/family_choice.py RUNS --choice restarted [--fresh]

RUNS holds run folders of `unmask evaluate --constructions ...`, RUNS/MODEL/CELL each. On the pairs
of even number, all cells weighing alike, among the members of the family that take no more steps
of the solver than `balanced`: those whose nats per token lie within TIE of the best, of them
those whose G-KL lies within TIE_KL of the lowest, and of them the one with the lowest A-KL. On
the pairs of odd number: its difference from the others in nats per token, in G-KL and in A-KL,
pair by pair, with 95 % bootstrap intervals, over all cells and, for those of `--against`, per
model and per cell. `--fresh`: the choice was made on other pairs, so that all of these confirm
it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas

TIE, TIE_KL = 0.005, 0.005
RESAMPLES = 2000
YARDSTICK = "balanced"
CORNERS = ("arnold_gokhale", "balanced", "pseudo_gibbs", "chain")
METRICS = ("nats", "g_kl", "a_kl")


def read_rows(folder: Path) -> pandas.DataFrame:
    """Per pair and rule: nats per token, G-KL, A-KL and steps."""
    parts = []
    for run in sorted(folder.rglob("results.parquet")):
        cell = " ".join(run.parent.relative_to(folder).parts)
        parts.append(
            pandas.read_parquet(run).assign(cell=cell).rename(columns={"construction": "rule"})
        )
    rows = pandas.concat(parts)
    return rows.assign(nats=rows["pair_nll"] / 2)


def means(rows: pandas.DataFrame) -> pandas.DataFrame:
    """Of each rule, every cell weighing alike, the best first."""
    table = rows.groupby(["rule", "cell"])[[*METRICS, "steps"]].mean().groupby("rule").mean()
    return table.assign(p_ppl=np.exp(table["nats"])).sort_values("nats")


def chosen(table: pandas.DataFrame) -> str:
    """The rule, as the module's docstring states it."""
    quick = table[~(table["steps"] > table.loc[YARDSTICK, "steps"])]
    near = quick[quick["nats"] <= quick["nats"].min() + TIE]
    faithful = near[near["g_kl"] <= near["g_kl"].min() + TIE_KL]
    return str(faithful["a_kl"].idxmin())


def difference(wide: pandas.Series, seed: int = 0) -> tuple[float, float, float]:
    """Mean over pairs, cells weighing alike, and its 95 % bootstrap interval over pairs."""
    random = np.random.default_rng(seed)
    by_cell = [group.to_numpy() for _, group in wide.groupby("cell")]
    drawn = np.mean(
        [random.choice(values, (RESAMPLES, len(values))).mean(1) for values in by_cell], axis=0
    )
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(np.mean([values.mean() for values in by_cell])), float(low), float(high)


def shown(rows: dict[str, pandas.DataFrame], one: str, other: str, where: str | None = None) -> str:
    """The three differences, those of the cells that start with `where`."""
    found = []
    for metric in METRICS:
        apart = rows[metric][one] - rows[metric][other]
        if where is not None:
            apart = apart[apart.index.get_level_values("cell").str.startswith(where)]
        if not apart.isna().any():
            found.append("{:+.4f} [{:+.4f}, {:+.4f}]".format(*difference(apart)))
    return " | ".join(found)


def main() -> None:
    """Choose on the first halves, confirm on the second."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path)
    parser.add_argument("--choice", help="confirm this one instead")
    parser.add_argument(
        "--fresh",
        action="store_true",
        help="the choice was made on other pairs: confirm it on all of these",
    )
    parser.add_argument("--against", nargs="*", default=CORNERS)
    options = parser.parse_args()
    rows = read_rows(options.runs)
    first, second = (
        (rows, rows)
        if options.fresh
        else (rows[rows["pair"] % 2 == 0], rows[rows["pair"] % 2 == 1])
    )
    table = means(first)
    inside = table.index.str.startswith("family:") | table.index.isin(CORNERS)
    best = options.choice or chosen(table[table["a_kl"].notna() & inside])
    names = ("all pairs", "all pairs") if options.fresh else ("first halves", "second halves")
    for name, part in zip(names, (first, second), strict=True):
        print(f"number of pairs, {name}: {part.groupby('cell')['pair'].nunique().to_dict()}")
    print(
        f"\n{names[0]}:\n{table.to_string(float_format=lambda value: f'{value:.4f}')}\n\nchosen:"
        f" {best}\n"
    )
    halves = {
        metric: second.pivot(index=["cell", "pair"], columns="rule", values=metric)
        for metric in METRICS
    }
    print(f"{names[1]}, {best} minus the other: nats per token | G-KL | A-KL, 95 % intervals\n")
    for other in table.index.drop(best):
        print(f"| {other} | {shown(halves, best, other)} |")
    cells = sorted(second["cell"].unique())
    for where in [*sorted({cell.split()[0] for cell in cells}), *cells]:
        for other in options.against:
            if other != best:
                print(f"| {where} | {other} | {shown(halves, best, other, where)} |")


if __name__ == "__main__":
    main()
