"""The paper's appendix E: pairwise NLL against the distance of the two tokens in the text and
in the dependency tree.

    python docs/examples/appendix_e.py OUT FILE.conllu [--model M] [--pairs N] [--dtype T]

The run is that of `unmask evaluate FILE.conllu --scheme random --out OUT`, which leaves
OUT/figures/token_distance.png and syntactic_distance.png. Prints the numbers behind the second
in Markdown: nats per token, and how many pairs each mean is of.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import pandas

import unmask
from unmask.joints.registry import label_of
from unmask.studies.evaluation.distance import DISTANCES, bins


def main() -> None:
    """Run, and print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--constructions", default="all")
    given = vars(parser.parse_args())
    model = partial(
        unmask.load, given.pop("model"), device=given.pop("device"), dtype=given.pop("dtype")
    )
    data = given.pop("data")
    evaluation = unmask.evaluate(data, model, scheme="random", support="all", **given)
    rows = pandas.DataFrame(evaluation.rows)
    for column, meaning in DISTANCES.items():
        known = rows[rows[column].notna()]
        one = known[known["construction"] == known["construction"].iloc[0]][column].astype(int)
        ranges = bins(one.tolist(), least=max(5, len(one) // 40))
        names = [str(low) if low == high else f"{low}-{high}" for low, high in ranges]
        print(f"\n| {meaning} | " + " | ".join(names) + " |\n| --- |" + " ---: |" * len(names))
        print(
            "| pairs | "
            + " | ".join(str(int(one.between(low, high).sum())) for low, high in ranges)
            + " |"
        )
        for construction in known["construction"].unique():
            mine = known[known["construction"] == construction]
            means = [
                mine[mine[column].between(low, high)]["pair_nll"].mean() / 2 for low, high in ranges
            ]
            print(
                f"| {label_of(construction)} | "
                + " | ".join(f"{mean:.3f}" for mean in means)
                + " |"
            )


if __name__ == "__main__":
    try:
        main()
    except unmask.UnmaskError as error:
        sys.exit(str(error))
