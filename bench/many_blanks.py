"""Many blanks: the search over the whole vocabulary against the dense grid of candidates, at
equal passes.

For each sentence of a file and each number of blanks, as many random tokens are blanked out.
The search runs until half of the mass is found, again until the best filling is certain, each
within a budget of passes, and once until the budget is spent. The grid (`fill --candidates`,
ranked by the balanced joint) then has as many candidates as the same passes allow. Both are
judged by the chain rule averaged over all orders, exact over the whole vocabulary:

    half          share of sentences where half the mass was found, and the median of passes and
                  seconds of all
    sure          share of sentences whose best filling is certain, and the median of passes and
                  seconds of all
    seen          the mass of the fillings found; of the grid, that of all its cells (by
                  ancestral samples: +- 0.04)
    ten           the summed probability of the ten fillings ranked first
    better        share of sentences where the search's best filling is more probable than the
                  grid's (equal: not counted)

    python bench/many_blanks.py sentences.txt --sentences 50 --blanks 2,3,4,5,6,7,8
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

import unmask
from unmask.common.cloze import Cloze
from unmask.joints.chain_search import EXACT_SITES, search_fillings
from unmask.joints.filling_search.found import ChainSearch
from unmask.tables.candidates import find_candidates, plan_candidates
from unmask.tables.conditionals import Conditionals, regular_tokens
from unmask.tables.exploration import Variant
from unmask.tables.lattice import lattice
from unmask.tables.unary import pass_count, unary_tables

SAMPLES = 150
ROUNDING = 1e-3
"""Two probabilities of one filling, computed in calls of other sizes, differ by less (float32)."""


def clozes(model: unmask.MaskedLM, sentences: list[str], blanks: int, seed: int) -> list[Cloze]:
    """Each sentence with `blanks` random regular tokens blanked out."""
    chance, special = np.random.default_rng(seed), set(model.special_ids)
    found = []
    for sentence in sentences:
        ids = model.words.encode(sentence)
        places = [t for t, i in enumerate(ids) if i not in special]
        chosen = sorted(int(p) for p in chance.choice(places, blanks, replace=False))
        masked = tuple(model.mask_id if t in chosen else i for t, i in enumerate(ids))
        found.append(Cloze(masked, tuple(chosen)))
    return found


def timed(model: unmask.MaskedLM, cloze: Cloze, **options: object) -> tuple[ChainSearch, float]:
    """A search and its seconds."""
    start = time.perf_counter()
    found = search_fillings(Conditionals(model, regular_tokens(model)), [Variant(cloze)], **options)  # type: ignore[arg-type]
    return found, time.perf_counter() - start


def exact(model: unmask.MaskedLM, cloze: Cloze, fillings: list[tuple[int, ...]]) -> list[float]:
    """p(x) of fillings."""
    texts = torch.tensor([cloze.filled(values) for values in fillings])
    sites = torch.tensor([cloze.block]).expand(len(texts), -1)
    found: list[float] = (
        lattice(Conditionals(model, regular_tokens(model)), texts, sites).log_mean.exp().tolist()
    )
    return found


def grid(
    model: unmask.MaskedLM, cloze: Cloze, passes: int
) -> tuple[list[tuple[int, ...]], tuple[torch.Tensor, ...]]:
    """The ten best fillings of the balanced joint over a grid of at most `passes` passes, and
    the candidates.
    """
    k, size = len(cloze.block), 2
    while pass_count([size + 1] * k) <= passes and (size + 1) ** k <= 10**7:
        size += 1
    candidates = find_candidates(model, [plan_candidates(model, cloze, size)])[0]
    joint = unmask.derive(unary_tables(model, cloze, candidates), "balanced")
    return [tuple(row) for row in joint.topk(min(10, size**k))[0].tolist()], candidates


def mass_of_grid(
    model: unmask.MaskedLM, cloze: Cloze, candidates: tuple[torch.Tensor, ...], seed: int
) -> float:
    """The share of samples of the chain rule in random orders whose every token is a candidate."""
    generator = torch.Generator().manual_seed(seed)
    conditionals = Conditionals(model, regular_tokens(model))
    k = len(cloze.block)
    orders = torch.rand((SAMPLES, k), generator=generator).argsort(1)
    block = torch.tensor(cloze.block)
    rows, inside = (
        torch.tensor([cloze.ids]).repeat(SAMPLES, 1),
        torch.ones(SAMPLES, dtype=torch.bool),
    )
    for step in range(k):
        place = block[orders[:, step]][:, None]
        q = conditionals.distributions(rows, place)[:, 0].exp().cpu()
        token = torch.multinomial(q, 1, generator=generator)
        rows = rows.scatter(1, place, token)
        for site in range(k):
            here = orders[:, step] == site
            inside[here] &= torch.isin(token[here, 0], candidates[site].cpu())
    return float(inside.double().mean())


def main() -> None:
    """One row per number of blanks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="sentences, one per line")
    parser.add_argument("--sentences", type=int, default=50)
    parser.add_argument("--blanks", default="2,3,4,5,6,7,8")
    parser.add_argument("--passes", type=int, default=1000, help="the budget of each search")
    parser.add_argument("--model", default=None)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    model = unmask.MaskedLM.load(given.model, device=given.device)
    lines = [line.strip() for line in given.file.read_text(encoding="utf-8").splitlines()]
    fitting = [line for line in dict.fromkeys(lines) if 9 <= len(line.split()) <= 14]
    sentences = [
        fitting[i] for i in np.random.default_rng(0).permutation(len(fitting))[: given.sentences]
    ]
    head = (
        "blanks | half | passes | s | sure | passes | s | seen: search | grid | ten: search | grid"
        " | better: search | grid"
    )
    print(f"| {head} |\n|{' ---: |' * 13}")
    for blanks in map(int, given.blanks.split(",")):
        if blanks > EXACT_SITES:
            raise SystemExit(
                f"{blanks} blanks: their probabilities are sampled, and this compares exact ones;"
                f" at most {EXACT_SITES}"
            )
        rows = []
        for number, cloze in enumerate(clozes(model, sentences, blanks, blanks)):
            half, half_s = timed(model, cloze, passes=given.passes, mass=0.5)
            sure, sure_s = timed(model, cloze, passes=given.passes, top=1)
            spent, _ = timed(model, cloze, passes=given.passes, mass=1.0)
            others, candidates = grid(model, cloze, spent.passes)
            theirs = exact(model, cloze, others)
            ours = [float(np.exp(f.log_prob)) for f in spent.fillings[:10]] or [0.0]
            gap = ours[0] / max(theirs) - 1
            rows.append(
                [
                    half.mass >= 0.5,
                    half.passes,
                    half_s,
                    sure.certain > 0,
                    sure.passes,
                    sure_s,
                    spent.mass,
                    mass_of_grid(model, cloze, candidates, number),
                    sum(ours),
                    sum(theirs),
                    gap > ROUNDING,
                    gap < -ROUNDING,
                ]
            )
        table = np.array(rows, dtype=float)
        mean, middle = table.mean(0), np.median(table, 0)
        cells = [
            f"{mean[0]:.0%}",
            f"{middle[1]:.0f}",
            f"{middle[2]:.2f}",
            f"{mean[3]:.0%}",
            f"{middle[4]:.0f}",
            f"{middle[5]:.2f}",
        ]
        cells += [f"{value:.1%}" for value in mean[6:]]
        print(f"| {blanks} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
