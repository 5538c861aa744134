"""How measured dependence changes with the number of candidates: the level of one pair, and the order of all pairs.

    python bench/dependence_candidates.py [--text "She plays the [MASK] [MASK] in a band." --blanks 12 --device cpu]

First the mutual information of two blanks by three constructions. Then, for a text of nothing but --blanks blanks with the
others masked, Spearman's correlation of all pairs with those of 64 candidates.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from math import exp

import torch
from scipy.stats import spearmanr

from unmask.answers.dependence import pair_matrix
from unmask.cloze import Cloze
from unmask.joints import derive
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.target import blank_template
from unmask.tables.candidates import likely_tokens
from unmask.tables.revealing import regular_tokens
from unmask.tables.unary import unary_tables

CONSTRUCTIONS = ("pseudo_gibbs", "balanced", "arnold_gokhale")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", default="She plays the [MASK] [MASK] in a band.")
    parser.add_argument("--blanks", type=int, default=12)
    parser.add_argument("--model")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    model = MaskedLM.load(options.model, device=options.device)
    cloze = model.cloze(options.text)
    regular = regular_tokens(model)
    print(f"{options.text}\n\n| candidates | product joint in them | {' | '.join(CONSTRUCTIONS)} |\n| ---: {'| ---: ' * 4}|")
    for size in (16, 64, 256, 1024):
        tables = unary_tables(model, cloze, likely_tokens(model, cloze, size, regular), dtype=torch.float64)
        cells = [f"{derive(tables, name).mutual_information():.2f}" for name in CONSTRUCTIONS]
        print(f"| {size} | {exp(tables.log_mass):.0%} | {' | '.join(cells)} |", flush=True)
    template = blank_template(model, options.blanks)
    blank = Cloze(template, tuple(place for place, token in enumerate(template) if token == model.mask_id))
    pairs = list(combinations(range(options.blanks), 2))
    print(f"\n{options.blanks} blanks, pseudo_gibbs\n\n| candidates | order, against 64 | mean nats | passes |")
    print("| ---: | ---: | ---: | ---: |")
    reference: list[float] = []
    for size in (64, 32, 16, 8):
        found = pair_matrix(model, blank, likely_tokens(model, blank, size, regular), "masked", "pseudo_gibbs")
        values = [float(found.information[pair]) for pair in pairs]
        reference = reference or values
        order = spearmanr(reference, values).statistic
        print(f"| {size} | {order:.2f} | {sum(values) / len(values):.2f} | {found.passes + 1:,} |", flush=True)


if __name__ == "__main__":
    main()
