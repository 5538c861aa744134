"""How many reads of the tables each way to the near-compatible joints needs for the same accuracy.

    PYTHONPATH=src python bench/fixed_point.py [--data texts.txt --pairs 8] [--tokens 1024 | --exact] [--alpha 0]
                                [--accuracy 1e-3] [--most 1000]

Four ways: eq. 5 from uniform marginals (the published one) and from those of the product joint, the sweeps of
`unmask.joints.solver.flow_sweep` alone, and what the constructions do by default, stopped by its own estimate at that accuracy.
Accuracy is the larger total variation between the two marginals and those of a reference run on to an estimated 1e-6;
cells read over cells of the tables count as reads. The ratio is that of the published way to the default. The last
columns tell how many reads the default takes to stop at its stated 1e-4 and how accurate it then is, from either start;
and how far the log-probabilities from the two starts are apart: at most among tokens above 1e-4, on average over all.

By default the sentences below on the bundled model, over 1,024 tokens of each blank: half the likeliest, half drawn from
the rest, so that the tail is there too; `--exact` takes the vocabulary whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from math import exp, log
from pathlib import Path

import torch
from torch import Tensor

from unmask.cloze import Cloze
from unmask.evaluation.datasets import read_texts
from unmask.evaluation.pairs import choose_pairs
from unmask.joints.arnold_gokhale import TOLERANCE, family, plain_step
from unmask.joints.solver.flow_sweep import sweep
from unmask.joints.solver.marginals import Marginals, start
from unmask.models.masked_lm import MaskedLM
from unmask.tables.unary import Tables, unary_tables

TEXTS = [
    ("A young woman is playing the guitar on the street.", (2, 3)),
    ("The old man walked slowly along the river to look at the boats.", (10, 11)),
    ("Two children are eating ice cream in the park.", (5, 6)),
    ("The new hospital was opened by the prime minister on Monday.", (8, 9)),
    ("The train was late because of heavy snow in the north.", (4, 9)),
    ("A dog jumps over a fence to catch a ball.", (2, 8)),
]
REFERENCE = 1e-6


def distance(found: Sequence[Tensor], reference: Sequence[Tensor]) -> float:
    """The larger total variation of two marginals."""
    return max(0.5 * float((a.double() - b.double()).abs().sum()) for a, b in zip(found, reference, strict=True))


class Problem:
    """The fixed point of one pair of tables."""

    def __init__(self, tables: Tables, alpha: float) -> None:
        self.tables, self.alpha = tables, alpha
        self.masked, self.uniform = start(tables), start(tables, uniform=True)
        self.reference = self.default(self.masked, REFERENCE)[1]

    def default(self, initial: Marginals, tolerance: float = TOLERANCE) -> tuple[float, list[Tensor]]:
        """Reads of the tables, without that for the objective, and the marginals they lead to."""
        joint = family(self.tables, self.alpha, tolerance=tolerance, initial=initial)
        u, v = joint.marginals()
        reads = joint.report["reads"]
        assert isinstance(reads, float)
        return reads - 1, [v, u]

    def reads_to(self, accuracy: float, most: int, step: Callable[[Marginals], Marginals], at: Marginals) -> int | None:
        """Plain steps until the accuracy is reached."""
        for reads in range(1, most + 1):
            at = step(at)
            if distance([m.exp().flatten() for m in at], self.reference) <= accuracy:
                return reads
        return None

    def sweep(self, at: Marginals) -> Marginals:
        """One step of `unmask.joints.solver.flow_sweep`."""
        return sweep(self.tables, at, self.alpha)

    def published(self, at: Marginals) -> Marginals:
        """One step of eq. 5."""
        return plain_step(self.tables, at, self.alpha)


def clozes(model: MaskedLM, data: Path | None, pairs: int, seed: int) -> Iterator[Cloze]:
    """Texts with two blanks."""
    if data is None:
        for text, positions in TEXTS:
            yield model.cloze(text, positions)
        return
    texts = read_texts(str(data))
    for scheme in ("contiguous", "random"):
        chosen = choose_pairs(texts, model.words.encode, model.special_ids, scheme, pairs // 2, seed, max_tokens=40)
        for pair in chosen.pairs:
            yield pair.cloze(model.mask_id)


def tokens_of(model: MaskedLM, cloze: Cloze, tokens: int) -> list[Tensor]:
    """For each blank half the likeliest tokens, half of the rest at random, and the gold one."""
    ids, block = torch.tensor([cloze.ids]), torch.tensor([cloze.block])
    generator = torch.Generator().manual_seed(0)
    sets = []
    for logits, gold in zip(model.logits(ids, block)[0].cpu(), cloze.gold or (), strict=True):
        order = logits.argsort(descending=True)
        rest = order[tokens // 2 :]
        drawn = rest[torch.randperm(len(rest), generator=generator)[: tokens - tokens // 2]]
        sets.append(torch.cat([order[: tokens // 2], drawn, torch.tensor([gold])]).unique())
    return sets


def main() -> None:
    """Print one row per pair and the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--data", type=Path, help="one text per line, instead of the sentences above")
    parser.add_argument("--pairs", type=int, default=8, help="of --data: half contiguous, half random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--alpha", type=float, default=0.0)
    parser.add_argument("--accuracy", type=float, default=1e-3)
    parser.add_argument("--most", type=int, default=1000, help="plain steps to give up after")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    model = MaskedLM.load(options.model, device=options.device) if options.model else MaskedLM.load(device=options.device)
    print(f"reads of the tables to {options.accuracy:g} in total variation, alpha = {options.alpha:g}")
    print("| blanks | eq. 5, uniform | eq. 5, masked | sweeps | default | ratio | stops after | then off by | log gap |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    ratios, stops = [], []
    for cloze in clozes(model, options.data, options.pairs, options.seed):
        tables = unary_tables(model, cloze, None if options.exact else tokens_of(model, cloze, options.tokens))
        problem = Problem(tables, options.alpha)
        published = problem.reads_to(options.accuracy, options.most, problem.published, problem.uniform)
        masked = problem.reads_to(options.accuracy, options.most, problem.published, problem.masked)
        swept = problem.reads_to(options.accuracy, options.most, problem.sweep, problem.masked)
        reached, there = problem.default(problem.masked, options.accuracy)
        assert distance(there, problem.reference) <= options.accuracy
        ends = [problem.default(initial) for initial in (problem.masked, problem.uniform)]
        off = [distance(marginals, problem.reference) for _, marginals in ends]
        first, second = (torch.cat(marginals).clamp_min(1e-37).log() for _, marginals in ends)
        gap = (first - second).abs()
        ratios.append((published or options.most) / reached)
        stops += [reads for reads, _ in ends]
        blanks = "_".join(model.decode(cloze.gold or ())) if options.data is None else f"{cloze.block} of {len(cloze.ids)}"
        plain = [str(n) if n else f"> {options.most}" for n in (published, masked, swept)]
        print(
            f"| {blanks} | {' | '.join(plain)} | {reached:.0f} | {'' if published else '> '}{ratios[-1]:.0f} | "
            f"{ends[0][0]:.0f}, {ends[1][0]:.0f} | {off[0]:.0e}, {off[1]:.0e} | "
            f"{float(gap[first > log(1e-4)].max()):.0e}, {float(gap.mean()):.0e} |",
            flush=True,
        )
    print(
        f"\nratio of the published way to the default: geometric mean {exp(sum(map(log, ratios)) / len(ratios)):.0f} or more, "
        f"least {min(ratios):.0f}; reads to stop at the stated {TOLERANCE:g}: mean {sum(stops) / len(stops):.0f}, "
        f"most {max(stops):.0f}"
    )


if __name__ == "__main__":
    main()
