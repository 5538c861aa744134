"""The paper's Table 1 in one command: every dataset by both schemes, side by side.

    python docs/examples/table1.py OUT NAME=FILE [NAME=FILE ...] [--model M] [--pairs N] [--device D] [--dtype T] ...

Each cell is the run that `unmask evaluate --data FILE --scheme SCHEME --out OUT/NAME-SCHEME` makes, with its own table.md,
table.json, rows and figures; a cell that is already there is not measured again. Prints the whole table in Markdown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from unmask.errors import UnmaskError
from unmask.evaluation.evaluate import evaluate
from unmask.evaluation.pairs import SCHEMES
from unmask.evaluation.plan import Request
from unmask.evaluation.table import HEADINGS, LABELS, written


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
    parser.add_argument("--arnold-gokhale-steps", type=int)
    given = parser.parse_args()
    heads = [f"{scheme} {heading}" for scheme in SCHEMES for heading in HEADINGS.values()]
    print("| | construction | " + " | ".join(heads) + " |")
    print("| --- | --- |" + " ---: |" * len(heads))
    for entry in given.data:
        name, path = entry.split("=", 1)
        cells: dict[str, list[str]] = {}
        for scheme in SCHEMES:
            request = Request(
                given.model,
                path,
                scheme=scheme,
                pairs=given.pairs,
                seed=given.seed,
                arnold_gokhale_steps=given.arnold_gokhale_steps,
                device=given.device,
                dtype=given.dtype,
            )
            outcome = evaluate(request, given.out / f"{name}-{scheme}")
            if outcome.failed or outcome.summary is None:
                raise SystemExit(f"{len(outcome.failed)} pairs of {name} {scheme} failed: see {given.out / f'{name}-{scheme}'}")
            for row in outcome.summary["constructions"]:
                numbers = [written(row[m]["value"], m) for m in HEADINGS]
                cells.setdefault(row["construction"], []).extend(numbers)
        for construction, numbers in cells.items():
            print(f"| {name} | {LABELS[construction]} | " + " | ".join(numbers) + " |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except UnmaskError as error:
        sys.exit(str(error))
