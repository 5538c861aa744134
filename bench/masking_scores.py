"""Which masking in training brings a probability closest to pll on minimal pairs? Short training runs, then BLiMP by every score.

    python bench/masking_scores.py CORPUS.txt.xz BLIMP_FOLDER --out DIR [--tokenizer MODEL] [--steps 4000] [--size small]

One model per recipe below, same corpus, shape, tokenizer, seed and steps; a model that is already in DIR is not trained again.
For each it prints accuracies of pll and of the normalised scores with 95 % intervals, pll minus left_to_right and pll minus
any_order (paired over pairs, with standard errors; two scores named beforehand, since the best of six on the same pairs would be
flattered by the choice), and nats per token of any_order, which is a code length.

A chain rule reads the model with anything from none to all of a text masked, so a model that never saw more than 45 % masked is
asked about what it was not trained for; `uniform:0-1` trains exactly the conditionals that any_order averages.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
from blimp import pairs_in

from unmask.models.masked_lm import MaskedLM
from unmask.scoring.results import PairScores
from unmask.scoring.score import score

RECIPES: dict[str, list[str]] = {
    "fixed:0.15": ["--masking", "fixed:0.15"],
    "uniform:0.05-0.45": ["--masking", "uniform:0.05-0.45"],
    "uniform:0-1": ["--masking", "uniform:0-1"],
    "half fixed:0.15, half uniform:0-1": ["--masking", "0.5*fixed:0.15+0.5*uniform:0-1"],
    "uniform:0-1, block loss": ["--masking", "uniform:0-1", "--loss", "block"],
}
NAMES = ("pll", "left_to_right", "right_to_left", "confident", "margin", "open", "any_order")
COMPARED = ("left_to_right", "any_order")


def trained(name: str, options: list[str], given: argparse.Namespace) -> Path:
    """The folder of the recipe's model."""
    folder = given.out / "".join(letter if letter.isalnum() else "-" for letter in name)
    if not (folder / "config.json").exists():
        command = [sys.executable, "-m", "unmask", "train", *map(str, given.corpus), "--out", str(folder), *options]
        command += ["--size", given.size, "--steps", str(given.steps), "--seed", str(given.seed), "--device", given.device]
        command += ["--tokenizer", str(given.tokenizer)] if given.tokenizer else []
        command += ["--resume"] if folder.exists() else []
        subprocess.run(command, check=True)
    return folder


def line(name: str, found: PairScores, model: MaskedLM) -> str:
    """One row of the table."""
    overall = {row["score"]: row for row in found.accuracy if row["level"] == "all"}
    cells = [f"{100 * overall[n]['accuracy']:.1f} [{100 * overall[n]['low']:.1f}, {100 * overall[n]['high']:.1f}]" for n in NAMES]
    tokens = sum(len(model.words.encode(row["sentence_good"])) - 2 for row in found.rows)
    nats = -sum(row["good_any_order"] for row in found.rows) / tokens
    return f"| {name} | {' | '.join(cells)} | {' | '.join(_gap(found, n) for n in COMPARED)} | {nats:.2f} |"


def _gap(found: PairScores, name: str) -> str:
    """Accuracy of pll minus that of another score, in points, with the standard error of the paired difference."""
    known = [row for row in found.rows if row["pll_correct"] is not None and row[f"{name}_correct"] is not None]
    difference = np.array([row["pll_correct"] - row[f"{name}_correct"] for row in known])
    return f"{100 * difference.mean():+.1f} ± {100 * difference.std() / len(difference) ** 0.5:.1f}"


def main() -> None:
    """Train, score, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="+")
    parser.add_argument("blimp", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipes", default=";".join(RECIPES), help="some of the recipes, with semicolons between them")
    parser.add_argument("--tokenizer", type=Path, help="a model folder whose tokenizer to take; one is trained if left out")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--size", default="small")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most-tokens", type=int, default=11)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    given = parser.parse_args()
    rows = []
    for name in given.recipes.split(";"):
        model = MaskedLM.load(trained(name, RECIPES[name], given), device=given.device, dtype=given.dtype)
        pairs = pairs_in(given.blimp, model, given.most_tokens, 300)
        found = score(pairs=pairs, score=NAMES, model=model)
        assert isinstance(found, PairScores)
        rows.append(line(name, found, model))
        print(f"{len(pairs)} pairs\n{rows[-1]}", flush=True)
    print(f"\n| masking | {' | '.join(NAMES)} | {' | '.join(f'pll minus {name}' for name in COMPARED)} | nats per token |")
    print(f"| --- |{' ---: |' * (len(NAMES) + len(COMPARED) + 1)}\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
