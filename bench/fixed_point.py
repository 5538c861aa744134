"""How many reads of the tables each way to the near-compatible joints needs for the same accuracy.

    PYTHONPATH=src python bench/fixed_point.py [--data texts.txt --pairs 8] [--tokens 1024 | --exact] [--alpha 0]
                                [--accuracy 1e-3] [--most 1000]

Four ways: eq. 5 from uniform marginals (the published one) and from those of the product joint, the sweeps of
`unmask.joints.balance` without acceleration, and what the constructions do by default. Accuracy is the larger total
variation between the two marginals and those of a reference that was run on to an estimated 1e-6; every read of all
cells of the two tables counts as one. The ratio is that of the published way to the default. `default` also says how
many reads it takes to stop by itself, at its stated 1e-4, and how accurate it then is, from either start.

By default the sentences below on the bundled model, over 1,024 tokens of each blank: half the likeliest, half drawn from
the rest, so that the tail is there too; `--exact` takes the vocabulary whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from math import exp, log
from pathlib import Path

import torch
from torch import Tensor

from unmask.cloze import Cloze
from unmask.conditionals import Tables, unary_tables
from unmask.evaluation.datasets import read_texts
from unmask.evaluation.pairs import choose_pairs
from unmask.joints.balance import sweep
from unmask.joints.family import Marginals, read, start
from unmask.joints.fixed_point import accelerate
from unmask.joints.near_compatible import TOLERANCE
from unmask.models.masked_lm import MaskedLM

TEXTS = [
    ("A young woman is playing the guitar on the street.", (2, 3)),
    ("The old man walked slowly along the river to look at the boats.", (10, 11)),
    ("Two children are eating ice cream in the park.", (5, 6)),
    ("The new hospital was opened by the prime minister on Monday.", (8, 9)),
    ("The train was late because of heavy snow in the north.", (4, 9)),
    ("A dog jumps over a fence to catch a ball.", (2, 8)),
]
REFERENCE = 1e-6


def distance(found: Tensor, reference: Tensor, parts: list[int]) -> float:
    """The larger total variation of the marginals."""
    gaps = (found.exp() - reference.exp()).abs().split(parts)
    return max(0.5 * float(gap.sum()) for gap in gaps)


class Problem:
    """The fixed point of one pair of tables, with its marginals laid end to end."""

    def __init__(self, tables: Tables, alpha: float) -> None:
        self.tables, self.alpha = tables, alpha
        self.shapes = [m.shape for m in start(tables)]
        self.parts = [m.numel() for m in start(tables)]
        self.masked, self.uniform = (self.flat(start(tables, uniform=u)) for u in (False, True))
        self.reference = accelerate(self.sweep, self.masked, REFERENCE, 400).log_p

    def flat(self, marginals: Marginals) -> Tensor:
        return torch.cat([m.flatten() for m in marginals])

    def marginals(self, flat: Tensor) -> Marginals:
        return tuple(part.reshape(shape) for part, shape in zip(flat.split(self.parts), self.shapes, strict=True))

    def sweep(self, flat: Tensor) -> Tensor:
        return self.flat(sweep(self.tables, self.marginals(flat), self.alpha))

    def published(self, flat: Tensor) -> Tensor:
        return self.flat(read(self.tables, self.marginals(flat), self.alpha)[0])

    def reads_to(self, accuracy: float, most: int, step: Callable[[Tensor], Tensor], z: Tensor) -> int | None:
        """Plain steps from z until the accuracy is reached."""
        for reads in range(1, most + 1):
            z = step(z)
            if distance(z, self.reference, self.parts) <= accuracy:
                return reads
        return None

    def accelerated(self, accuracy: float, z: Tensor) -> tuple[int, int, float]:
        """Reads until the accuracy is reached, until it stops by itself, and the accuracy that it then has."""
        reached: list[int] = []
        count = 0

        def step(flat: Tensor) -> Tensor:
            nonlocal count
            count += 1
            new = self.sweep(flat)
            if distance(new, self.reference, self.parts) <= accuracy:
                reached.append(count)
            return new

        end = accelerate(step, z, TOLERANCE, 400)
        return (reached or [count])[0], end.reads, distance(end.log_p, self.reference, self.parts)


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
    """Print a row a pair and the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--data", type=Path, help="a text a line, instead of the sentences above")
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
    print("| blanks | eq. 5, uniform | eq. 5, masked | sweeps | default | ratio | stops after | then off by | from uniform |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    ratios, stops = [], []
    for cloze in clozes(model, options.data, options.pairs, options.seed):
        tables = unary_tables(model, cloze, None if options.exact else tokens_of(model, cloze, options.tokens))
        problem = Problem(tables, options.alpha)
        published = problem.reads_to(options.accuracy, options.most, problem.published, problem.uniform)
        masked = problem.reads_to(options.accuracy, options.most, problem.published, problem.masked)
        swept = problem.reads_to(options.accuracy, options.most, problem.sweep, problem.masked)
        reached, stopped, off = problem.accelerated(options.accuracy, problem.masked)
        _, stopped_uniform, off_uniform = problem.accelerated(options.accuracy, problem.uniform)
        ratios.append((published or options.most) / reached)
        stops += [stopped, stopped_uniform]
        blanks = "_".join(model.decode(cloze.gold or ())) if options.data is None else f"{cloze.block} of {len(cloze.ids)}"
        plain = [str(n) if n else f"> {options.most}" for n in (published, masked, swept)]
        print(
            f"| {blanks} | {' | '.join(plain)} | {reached} | {'' if published else '> '}{ratios[-1]:.0f} | {stopped} | "
            f"{off:.0e} | {stopped_uniform}: {off_uniform:.0e} |",
            flush=True,
        )
    print(
        f"\nratio of the published way to the default: geometric mean {exp(sum(map(log, ratios)) / len(ratios)):.0f} or more, "
        f"least {min(ratios):.0f}; reads to stop at the stated {TOLERANCE:g}: mean {sum(stops) / len(stops):.0f}, "
        f"most {max(stops)}"
    )


if __name__ == "__main__":
    main()
