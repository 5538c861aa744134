"""Which joint makes the best pair proposal? Exact, on random models that can be enumerated.

    PYTHONPATH=src python bench/pair_proposals_exact.py [--models 40] [--vocab 4] [--length 3]

Metropolis-Hastings on exp(-E_norm), a step redraws two positions from g = 0.9 mu + 0.1 product, mu a construction over all
tokens, as `unmask sample --kernel pair-joint` does:  K(x -> y) = g(y) min(1, pi(y) g(x) / (pi(x) g(y))),  the mean over all
pairs of positions. Printed are means over the models of the share of proposals that are accepted and of the relaxation time,
1 / (1 - second eigenvalue of K), and its ratio to that of the product, model by model, with its standard error.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from math import sqrt

import torch
from torch import Tensor

from unmask.cloze import Cloze
from unmask.joints import derive
from unmask.models.tabular import TabularMLM
from unmask.sampling.energy import Energy
from unmask.sampling.enumeration import all_texts, target_law
from unmask.sampling.target import Target
from unmask.tables.unary import unary_tables

RULES = ("product", "chain", "arnold_gokhale", "balanced", "pseudo_gibbs", "family:1,0.1", "family:1,0.5", "restarted")
RHO = 0.1


def step(target: Target, law: Tensor, texts: Tensor, rule: str) -> tuple[Tensor, float]:
    """K and the share of accepted proposals, over all pairs of positions."""
    kernel, accepted = torch.zeros((len(texts),) * 2, dtype=torch.float64), 0.0
    pairs = list(combinations(range(target.sites), 2))
    for pair in pairs:
        rest = [t for t in range(target.sites) if t not in pair]
        for context in texts[:, rest].unique(dim=0):
            here = (texts[:, rest] == context).all(1).nonzero().squeeze(1)
            ids = texts[here[0]].clone()
            ids[list(pair)] = target.model.mask_id
            tables = unary_tables(target.model, Cloze(tuple(ids.tolist()), pair))
            mu, product = (derive(tables, name).log_prob(texts[here][:, list(pair)]).exp() for name in (rule, "product"))
            g, pi = (1 - RHO) * mu + RHO * product, law[here]
            moves = g[None, :] * ((pi[None, :] * g[:, None]) / (pi[:, None] * g[None, :])).clamp(max=1)
            accepted += float((pi[:, None] * moves).sum())
            moves.fill_diagonal_(0)
            moves += torch.diag(1 - moves.sum(1))
            kernel[here[:, None], here[None, :]] += moves / len(pairs)
    return kernel, accepted / len(pairs)


def relaxation(kernel: Tensor, law: Tensor) -> float:
    """1 / (1 - second eigenvalue) of a reversible kernel."""
    root = law.sqrt()
    values = torch.linalg.eigvalsh(root[:, None] * kernel / root[None, :])
    return 1 / (1 - float(max(values[-2], -values[0])))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, default in (("--models", 40), ("--vocab", 4), ("--length", 3)):
        parser.add_argument(option, type=int, default=default)
    options = parser.parse_args()
    shares, times = (torch.zeros((options.models, len(RULES)), dtype=torch.float64) for _ in range(2))
    for seed in range(options.models):
        model = TabularMLM.random(options.vocab, options.length, seed)
        target = Target(model, [model.mask_id] * options.length, Energy("norm"))
        law, texts = target_law(target), all_texts(target)
        for number, rule in enumerate(RULES):
            kernel, shares[seed, number] = step(target, law, texts, rule)
            assert float((law @ kernel - law).abs().max()) < 1e-12
            times[seed, number] = relaxation(kernel, law)
    print("| pair proposal | accepted | relaxation time | over that of the product |\n| --- | ---: | ---: | ---: |")
    for number, rule in enumerate(RULES):
        ratio = times[:, number] / times[:, 0]
        print(f"| {rule} | {float(shares[:, number].mean()):.3f} | {float(times[:, number].mean()):.2f} | "
              f"{float(ratio.mean()):.3f} ± {float(ratio.std()) / sqrt(options.models):.3f} |")  # fmt: skip


if __name__ == "__main__":
    main()
