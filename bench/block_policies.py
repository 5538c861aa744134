"""Which positions to redraw at once: any, neighbours, or those that depend most or least; at equal numbers of passes.

    python bench/block_policies.py [--length 12 | --template "The [MASK] ..."] [--chains 32 --passes 600 --device cpu]
    python bench/block_policies.py --save FILE.npz ...        then        python bench/block_policies.py --read FILE.npz

Every row starts from the same texts (blanks filled one by one in a random order) and spends the same passes per chain. Those
that measure the dependence are counted, shared out among the chains. Texts are looked at 40 times, at equal distances in
passes; numbers are of the second half. E_norm a token and stutter (share of equal neighbours) are means over time, with the
standard error over chains; `less any` is the difference of E_norm a token from the same chain with blocks of any positions,
which takes the luck of the starts out of the comparison. ESS is ArviZ's bulk ESS of the energy for 1,000 passes, mean and
standard error over groups of 4 chains (left out where arviz-stats is not installed: save, and read elsewhere). `accepted`
counts steps, those that proposed the text that was there included; `novel` is the share accepted of those that did not;
`changed` the share of redrawn tokens that are new.

--check N also asks which dependence tells the fate of product proposals: for every pair of positions the share of novel
product proposals that is accepted, from the texts of N chains, against the mutual information of the pair with all other
positions masked, and given the other tokens as they stand (mean over 4 texts drawn for that): Spearman's correlation.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.answers.dependence import PairMatrix, pair_matrix
from unmask.cloze import Cloze
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.dependence_blocks import DependenceBlocks, template_dependence
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.kernels.block import ProductBlock
from unmask.sampling.kernels.kernel import Kernel
from unmask.sampling.kernels.metropolis import MetropolisHastings
from unmask.sampling.kernels.pair_joint import PairJoint
from unmask.sampling.kernels.scan import SweepPlan
from unmask.sampling.kernels.sequential_block import SequentialBlock
from unmask.sampling.run.diagnostics import arviz_statistics
from unmask.sampling.run.text_statistics import stutters
from unmask.sampling.settings import BlockShape
from unmask.sampling.target import Target, blank_template

Array = NDArray[np.float64]
LOOKS = 40
CHAINS_A_GROUP = 4
POLICIES: dict[str, BlockShape] = {
    "any": "scattered",
    "neighbours": "window",
    "dependent": "dependent",
    "independent": "independent",
}
MEASURE_CANDIDATES = 16


def kernels(target: Target, passes: Passes) -> dict[str, tuple[Kernel, int]]:
    """Name, kernel and block size."""
    return {
        "product, 2": (ProductBlock(target, passes), 2),
        "product, 3": (ProductBlock(target, passes), 3),
        "sequential, 2": (SequentialBlock(target, passes), 2),
        "sequential, 3": (SequentialBlock(target, passes), 3),
        "pair joint, 2": (PairJoint(target, passes, candidates=8), 2),
    }


def plan_of(shape: BlockShape, sites: int, block: int, measured: PairMatrix) -> SweepPlan:
    """Which positions a sweep redraws."""
    if shape in ("dependent", "independent"):
        return DependenceBlocks(sites, "permutation", block, shape, measured.information)
    return SweepPlan(sites, block_size=block, shape=shape)


def run(kernel: Kernel, plan: SweepPlan, starts: Tensor, budget: int, spent: float, seed: int) -> tuple[Array, Array]:
    """Energy and stutter at each look, (chains, LOOKS, 2), and the counts: steps, accepted, novel, novel accepted, redrawn,
    changed; `spent`: passes per chain that are spent already."""
    target = kernel.target
    state, _ = kernel.init(starts)
    n, streams, sweep = len(starts), ChainStreams(seed, range(len(starts))), 0
    looks, counts = [budget * (i + 1) / LOOKS for i in range(LOOKS)], np.zeros(6)
    draws: list[Array] = []
    while len(draws) < LOOKS:
        sweep += 1
        sites = plan.draw(streams.at(sweep, 0), state.rows)
        for number in range(plan.steps):
            info = kernel.step(state, streams.at(sweep, number + 1), sites[number])
            spent += float(info.passes.sum()) / n
            novel = info.proposed.any(1)
            counts += [n, int(info.accepted.sum()), int(novel.sum()), int((novel & info.accepted).sum()), info.changed.numel(),
                       int(info.changed.sum())]  # fmt: skip
            while len(draws) < LOOKS and spent >= looks[len(draws)]:
                texts = state.ids[:, target.free_positions].tolist()
                stutter = [stutters(text) / max(1, len(text) - 1) for text in texts]
                draws.append(np.column_stack([state.energy.cpu().numpy() / target.columns, stutter]))
    return np.stack(draws, 1), counts


def described(draws: Array, reference: Array, counts: Array, budget: int) -> str:
    """One row of numbers; `reference`: the draws of the first policy."""
    half = draws[:, LOOKS // 2 :]
    energy, stutter = half[..., 0].mean(1), half[..., 1].mean(1)
    less = energy - reference[:, LOOKS // 2 :, 0].mean(1)
    steps, accepted, novel, taken, redrawn, changed = counts
    array_stats: Any = arviz_statistics()
    ess = "-"
    if array_stats is not None:
        groups = [half[i : i + CHAINS_A_GROUP, :, 0] for i in range(0, len(half) - CHAINS_A_GROUP + 1, CHAINS_A_GROUP)]
        rates = [array_stats.ess(g, method="bulk", chain_axis=0, draw_axis=1) / (len(g) * budget / 2) * 1000 for g in groups]
        ess = with_error(np.array(rates))
    apart = with_error(less, 3) if less.any() else ""
    return (
        f"{with_error(energy, 3):>15}  {apart:>16}  {with_error(100 * stutter):>12}  {ess:>12}  {accepted / steps:8.1%} "
        f"{taken / max(1, novel):7.1%} {changed / redrawn:7.1%}"
    )


def with_error(values: Array, digits: int = 2) -> str:
    """Mean and standard error."""
    return f"{values.mean():.{digits}f} +- {values.std(ddof=1) / len(values) ** 0.5:.{digits}f}"


def check(target: Target, passes: Passes, starts: Tensor, measured: PairMatrix, budget: int, seed: int) -> None:
    """Which dependence goes with rejected product proposals."""
    from scipy.stats import spearmanr

    n, streams, kernel = len(starts), ChainStreams(seed + 1, range(len(starts))), ProductBlock(target, passes)
    single = MetropolisHastings(target, passes)
    state, _ = single.init(starts)
    plan, spent, sweep = SweepPlan(target.sites), 0.0, 0
    while spent < budget:
        sweep += 1
        sites = plan.draw(streams.at(sweep, 0), state.rows)
        for number in range(plan.steps):
            info = single.step(state, streams.at(sweep, number + 1), sites[number])
            spent += float(info.passes.sum()) / n
    pilots = decode(Ancestral(target, passes), 4, ChainStreams(seed + 2, range(4)).at(0, 0))[0].ids
    given_text = torch.zeros_like(measured.information)
    positions = tuple(target.free_positions.tolist())
    for text in pilots.tolist():
        cloze = Cloze(target.template, positions, tuple(text[p] for p in positions))
        given_text += pair_matrix(target.model, cloze, MEASURE_CANDIDATES, "text").information / len(pilots)
    pairs = list(combinations(range(target.sites), 2))
    rates = []
    for number, pair in enumerate(pairs):
        sites = torch.tensor(pair).expand(n, -1)
        info = kernel.step(state.take(state.rows), streams.at(10**6, number), sites)
        novel = info.proposed.any(1)
        rates.append(float((info.accepted & novel).sum()) / max(1, int(novel.sum())))
    print(f"\nnovel product proposals accepted, by pair ({len(pairs)} pairs, {n} texts); Spearman's correlation with")
    for name, matrix in (("dependence, others masked", measured.information), ("dependence, others as they stand", given_text),
                         ("distance", torch.tensor([[abs(a - b) for b in positions] for a in positions]))):  # fmt: skip
        print(f"  {name:34} {spearmanr([float(matrix[p]) for p in pairs], rates).statistic:+.2f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("length", 12), ("chains", 32), ("passes", 600), ("seed", 0), ("check", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--template", help="a text with [MASK] where tokens are sampled, instead of --length blanks")
    parser.add_argument("--only", default="", help="kernels whose name contains one of these, separated by semicolons")
    parser.add_argument("--model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--read", type=Path)
    options = parser.parse_args()
    names = f"{'kernel, block':16} {'blocks of':12}"
    head = f"{names} {'E_norm / T':>15}  {'less any':>16}  {'stutter %':>12}  {'ESS / 1000':>12}  accepted   novel changed"
    if options.read:
        with np.load(options.read) as saved:
            print(saved["heading"].item() + "\n" + head)
            for name in saved["names"]:
                reference = saved[f"draws {name[:16]} {'any':12}"]
                print(f"{name} " + described(saved[f"draws {name}"], reference, saved[f"counts {name}"], int(saved["passes"])))
        return
    model = MaskedLM.load(options.model, device=options.device)
    template = tuple(model.cloze(options.template).ids) if options.template else blank_template(model, options.length)
    passes = Passes(model)
    target = Target(model, template)
    first = ChainStreams(options.seed, range(options.chains)).at(0, 0)
    starts = decode(Ancestral(target, passes), options.chains, first)[0].ids
    measured = template_dependence(target, MEASURE_CANDIDATES, "pseudo_gibbs")
    what = options.template or f"{options.length} blanks"
    heading = (
        f"{what}; {options.chains} chains, {options.passes} passes each, {model.device}; "
        f"the dependence took {measured.passes} passes, {measured.passes / options.chains:.0f} a chain"
    )
    print(heading + "\n" + head, flush=True)
    saved = {}
    for kind, (kernel, block) in kernels(target, passes).items():
        if not any(part in kind for part in options.only.split(";")):
            continue
        for policy, shape in POLICIES.items():
            plan = plan_of(shape, target.sites, block, measured)
            spent = measured.passes / options.chains if isinstance(plan, DependenceBlocks) else 0.0
            draws, counts = run(kernel, plan, starts, options.passes, spent, options.seed)
            name = f"{kind:16} {policy:12}"
            saved[f"draws {name}"], saved[f"counts {name}"] = draws, counts
            reference = saved[f"draws {kind:16} {'any':12}"]
            print(f"{name} " + described(draws, reference, counts, options.passes), flush=True)
    if options.save:
        rows = [key.removeprefix("draws ") for key in saved if key.startswith("draws ")]
        np.savez(options.save, heading=heading, names=rows, passes=options.passes, **saved)
    if options.check:
        check(target, passes, starts[: options.check], measured, options.passes, options.seed)


if __name__ == "__main__":
    main()
