"""The bounds of log Z, the normaliser behind `log_prob`, against compute.

    python bench/log_prob_bounds.py [--lengths 6,10] [--anneals 5,20,80,320] [--chains 64] [--energy norm] [--device cuda]

For each length and number of annealing sweeps: the lower bound (forward), the upper bound (reverse, from resampled and settled
runs), their standard errors, the spread of the runs' log weights, passes of the model and seconds. How far to trust the upper
bound: it should fall, and the lower one rise, as the sweeps grow; where the upper one rises with more sweeps, the starts of the
reverse runs had not settled.
"""

from __future__ import annotations

import argparse
import time

from unmask.models.masked_lm import MaskedLM
from unmask.sampling.target import blank_template
from unmask.scoring.annealed_importance import AnnealingPath, log_mean
from unmask.scoring.registry import LogProb


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="6,10")
    parser.add_argument("--anneals", default="5,20,80,320")
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--energy", default="norm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    given = parser.parse_args()
    model = MaskedLM.load(given.model, device=given.device, dtype=given.dtype)
    print("| tokens | sweeps | lower | s.e. | upper | s.e. | gap | spread of log w, log v | passes | seconds |")
    print("| ---: " * 10 + "|")
    for length in map(int, given.lengths.split(",")):
        for anneals in map(int, given.anneals.split(",")):
            begun = time.perf_counter()
            path = AnnealingPath(model, blank_template(model, length), LogProb(given.energy, given.chains, anneals, given.seed))
            ids, log_w = path.forward()
            log_v = path.reverse(path.settled(ids, log_w))
            (lower, lower_error), (minus_upper, upper_error) = log_mean(log_w), log_mean(-log_v)
            print(
                f"| {length} | {anneals} | {lower:.2f} | {lower_error:.2f} | {-minus_upper:.2f} | {upper_error:.2f} | "
                f"{-minus_upper - lower:.2f} | {float(log_w.std()):.1f}, {float(log_v.std()):.1f} | {path.passes.count:,} | "
                f"{time.perf_counter() - begun:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
