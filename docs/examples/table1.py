"""The paper's Table 1 in one command: every dataset by both schemes, side by side.

    python docs/examples/table1.py OUT NAME=FILE [NAME=FILE ...] [--model M] [--pairs N]
        [--dtype T] ...

On a GPU as many pairs as the memory holds are measured at once. Each cell is the run that
`unmask evaluate FILE --scheme SCHEME --out OUT/NAME-SCHEME` makes, with its own
table.md, table.json, rows and figures; a cell that is already there is not measured again.
Prints the whole table in Markdown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import unmask
from unmask.joints.registry import label_of
from unmask.verbs.study_tables import HEADINGS, written

SCHEMES = ("random", "contiguous")


def main() -> None:
    """Run the cells and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("data", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--model")
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--constructions", default="all")
    parser.add_argument(
        "--support", default="all", help="all: every output column, as in the paper; or regular"
    )
    given = parser.parse_args()
    heads = [f"{scheme} {heading}" for scheme in SCHEMES for heading in HEADINGS.values()]
    print("| | construction | " + " | ".join(heads) + " |")
    print("| --- | --- |" + " ---: |" * len(heads))
    for entry in given.data:
        name, path = entry.split("=", 1)
        cells: dict[str, list[str]] = {}
        for scheme in SCHEMES:
            found = unmask.evaluate(
                path,
                model=unmask.ModelSpec(given.model, device=given.device, dtype=given.dtype),
                scheme=scheme,
                pairs=given.pairs,
                seed=given.seed,
                support=given.support,
                out=given.out / f"{name}-{scheme}",
                constructions=given.constructions,
            )
            if found.failed:
                raise SystemExit(
                    f"{len(found.failed)} pairs of {name} {scheme} failed: see"
                    f" {given.out / f'{name}-{scheme}'}"
                )
            for row in found.numbers["constructions"]:
                numbers = [written(row[m]["value"], m) for m in HEADINGS]
                cells.setdefault(row["construction"], []).extend(numbers)
        for construction, numbers in cells.items():
            print(
                f"| {name} | {label_of(construction)} | " + " | ".join(numbers) + " |",
                flush=True,
            )


if __name__ == "__main__":
    try:
        main()
    except unmask.UnmaskError as error:
        sys.exit(str(error))
