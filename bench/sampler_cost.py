"""Passes, speed and ESS per pass of single-site Metropolis-Hastings: the algorithm as written,
and ours, in one run.

    python bench/sampler_cost.py [--length 20 --chains 64 --steps 10 --burn-in 4 --long-chains
        32 --long 15 --device cpu]

    naive      draws from one masked pass, computes E(x) and E(x') from scratch: 2T + 1 passes
               per proposal
    kept       conditionals kept with the state: 0 passes for the token that is there, T - 1 for
               another
    early      kept, and stops summing E(x') once it is rejected

All make the same choices with the same random numbers, and the script stops if their texts
differ. All begin at the same texts, which `early` has burnt in, and make one proposal a chain
in each of `--steps` steps. Then `early` goes on for `--long` sweeps of the first
`--long-chains` chains, for two measures of what a pass buys:

    ESS     effective sample size of the energy (ArviZ, bulk); rough while the chains are far
            from mixed
    jumps   sum over chains and sweeps of (E_{s+1} - E_s)^2 / (2 var E): draws whose energy is
            new, 1 for an independent draw

naive has the chain of `early`, hence its ESS and jumps, at its own cost. All calls of the model
have the same shape, go through the same fast path and run on the same number of threads;
`--plain` takes the network's own forward pass instead.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.common.methods.method import method
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.chains.convergence import FEWEST_DRAWS, measure
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams, Randomness
from unmask.sampling.kernels.metropolis import Acceptance
from unmask.sampling.kernels.mh import MH
from unmask.sampling.kernels.sweep import SweepPlan
from unmask.sampling.on_target import KernelOnTarget
from unmask.sampling.target import Target, blank_template, masked_alone


@dataclass
class Cost:
    """What one algorithm spent, and where it ended."""

    passes: int
    seconds: float
    processor: float
    proposals: int
    ids: Tensor
    energies: list[Tensor]


class Naive:
    """Both energies from scratch at every proposal; passes go through calls of the same shape
    as ours.
    """

    def __init__(self, target: Target, passes: Passes) -> None:
        self.target, self.passes = target, passes

    def energy(self, ids: Tensor) -> Tensor:
        """E of each text, T passes per text."""
        n, positions = len(ids), self.target.positions
        rows = ids.repeat_interleave(len(positions), 0)
        where = positions.repeat(n)
        logits = self.passes.logits(
            masked_alone(rows, where, self.target.model.mask_id), where.unsqueeze(1)
        )[:, 0]
        return (
            self.target.energy.term(logits, rows.gather(1, where.unsqueeze(1)).squeeze(1))
            .reshape(n, -1)
            .sum(-1)
        )

    def step(self, ids: Tensor, rng: Randomness, sites: Tensor) -> Tensor:
        """One proposal for each chain."""
        rows, site = torch.arange(len(ids), device=ids.device), sites[:, 0]
        where = self.target.free_positions[site]
        logits = self.passes.logits(
            masked_alone(ids, where, self.target.model.mask_id), where.unsqueeze(1)
        )[:, 0]
        log_q = self.passes.categoricals(logits, self.target, 1.0, site).log_weights()
        drawn = rng.categorical(rows, log_q)
        new = ids.scatter(1, where.unsqueeze(1), drawn.unsqueeze(1))
        log_ratio = (
            self.energy(ids) - self.energy(new) + log_q[rows, ids[rows, where]] - log_q[rows, drawn]
        )
        novel = (drawn != ids[rows, where]).nonzero().squeeze(1)
        accepted = torch.ones_like(rows, dtype=torch.bool)
        accepted[novel] = rng.log_uniform(novel) < log_ratio[novel]
        return torch.where(accepted.unsqueeze(1), new, ids)


def run(
    ids: Tensor,
    step: Callable[[Randomness, Tensor], Tensor],
    passes: Passes,
    steps: range,
    sites: int,
    energy: Callable[[], Tensor] | None = None,
) -> Cost:
    """Steps of `step`, timed; a sweep is as many as there are sites, and its energies are kept."""
    streams, plan = ChainStreams(0, range(len(ids))), SweepPlan(sites)
    before, start, worked, energies, texts = (
        passes.count,
        time.perf_counter(),
        time.process_time(),
        [],
        ids,
    )
    for number in steps:
        sweep, place = divmod(number, sites)
        if place == 0 or number == steps.start:
            order = plan.draw(streams.at(sweep, 0), torch.arange(len(ids), device=ids.device))
        texts = step(streams.at(sweep, place + 1), order[place])
        if energy and place == sites - 1:
            energies.append(energy().cpu().clone())
    seconds, processor = time.perf_counter() - start, time.process_time() - worked
    return Cost(
        passes.count - before, seconds, processor, len(ids) * len(steps), texts.clone(), energies
    )


@method
class Late(MH):
    """Never rejects before it knows the whole energy."""

    def acceptance(self, on: KernelOnTarget) -> Acceptance:
        """Without early rejection."""
        return Acceptance(on.target, on.passes, early=False)


def run_kernel(kernel: KernelOnTarget, ids: Tensor, steps: range) -> Cost:
    """Steps of one of our kernels; the start's T passes are not counted, as naive's are not
    either.
    """
    state, _ = kernel.init(ids)

    def step(rng: Randomness, sites: Tensor) -> Tensor:
        kernel.step(state, rng, sites)
        return state.ids

    return run(ids, step, kernel.passes, steps, kernel.target.sites, lambda: state.energy)


def run_naive(target: Target, passes: Passes, ids: Tensor, steps: range) -> Cost:
    """Steps of the algorithm as written."""
    naive, texts = Naive(target, passes), ids.clone()

    def step(rng: Randomness, sites: Tensor) -> Tensor:
        nonlocal texts
        texts = naive.step(texts, rng, sites)
        return texts

    return run(ids, step, passes, steps, target.sites)


def energy_ess(cost: Cost) -> float:
    """Bulk ESS of the energy over all chains."""
    return measure("energy", 0, torch.stack(cost.energies, 1).numpy(), cost.passes).ess_bulk


def energy_jumps(cost: Cost, variance: float) -> float:
    """Squared changes of the energy from sweep to sweep, where an independent draw counts 1."""
    return float(torch.stack(cost.energies, 1).diff(dim=1).square().sum() / (2 * variance))


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    defaults = (
        ("length", 20),
        ("chains", 64),
        ("steps", 10),
        ("burn-in", 4),
        ("long-chains", 32),
        ("long", 15),
    )
    for name, default in defaults:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--plain", action="store_true", help="the network's own forward pass for all"
    )
    options = parser.parse_args()
    model = MaskedLM.load(options.model, device=options.device)
    if options.plain:
        model.encoder = None
    target, passes = Target(model, blank_template(model, options.length)), Passes(model)
    kernels = {
        "kept": Late().on(target, passes),
        "early": MH().on(target, passes),
    }
    length = options.length
    starts, _ = decode(
        Ancestral().on(target, passes),
        options.chains,
        ChainStreams(0, range(options.chains)).at(0, 0),
    )
    burnt = run_kernel(
        kernels["early"], starts.ids, range(length, length * (options.burn_in + 1))
    ).ids
    measured = range(length * (options.burn_in + 1), length * (options.burn_in + 1) + options.steps)
    costs = {"naive": run_naive(target, passes, burnt, measured)}
    costs |= {name: run_kernel(kernel, burnt, measured) for name, kernel in kernels.items()}
    for name in ("kept", "early"):
        if not torch.equal(costs[name].ids, costs["naive"].ids):
            raise SystemExit(f"{name} left the naive chain: this must not happen")
    per_proposal = {name: c.passes / c.proposals for name, c in costs.items()}
    speed = {name: c.proposals / c.seconds for name, c in costs.items()}
    print(
        f"T = {length}, {options.chains} chains, {options.steps} steps, {torch.get_num_threads()}"
        f" threads, {model.device}"
    )
    print(
        f"{'':8} {'passes a':>10} {'fewer':>7} {'proposals':>10} {'faster':>7}"
        f" {'less processor':>15} {'passes':>9}"
    )
    print(
        f"{'':8} {'proposal':>10} {'':>7} {'a second':>10} {'':>7} {'time a proposal':>15}"
        f" {'a second':>9}"
    )
    for name, cost in costs.items():
        print(
            f"{name:8} {per_proposal[name]:10.2f}"
            f" {per_proposal['naive'] / per_proposal[name]:6.1f}x {speed[name]:10.1f}"
            f" {speed[name] / speed['naive']:6.1f}x"
            f" {costs['naive'].processor / cost.processor:14.1f}x"
            f" {cost.passes / cost.seconds:9.0f}",
            flush=True,
        )
    if options.long < FEWEST_DRAWS:
        return
    further = range(length * (options.burn_in + 2), length * (options.burn_in + 2 + options.long))
    longer = {
        name: run_kernel(kernels[name], burnt[: options.long_chains], further)
        for name in ("early",)
    }
    variance = float(torch.cat([torch.stack(cost.energies) for cost in longer.values()]).var())
    print(
        f"{options.long_chains} chains, {options.long} sweeps further; mean energy "
        + ", ".join(
            f"{name} {float(torch.stack(cost.energies).mean()):.1f}"
            for name, cost in longer.items()
        )
    )
    print(
        f"{'':8} {'passes a':>10} {'ESS':>6} {'ESS per':>12} {'more':>6} {'jumps per':>12}"
        f" {'more':>6}"
    )
    print(f"{'':8} {'proposal':>10} {'':>6} {'1000 passes':>12} {'':>6} {'1000 passes':>12}")
    first = longer["early"]
    rows = {name: (first, per_proposal[name] * first.proposals) for name in ("naive", "kept")}
    rows |= {name: (cost, float(cost.passes)) for name, cost in longer.items()}
    ess = {name: 1000 * energy_ess(cost) / spent for name, (cost, spent) in rows.items()}
    jumps = {
        name: 1000 * energy_jumps(cost, variance) / spent for name, (cost, spent) in rows.items()
    }
    for name, (cost, spent) in rows.items():
        print(
            f"{name:8} {spent / cost.proposals:10.2f} {energy_ess(cost):6.0f} {ess[name]:12.3f}"
            f" {ess[name] / ess['naive']:5.1f}x {jumps[name]:12.3f}"
            f" {jumps[name] / jumps['naive']:5.1f}x"
        )


if __name__ == "__main__":
    main()
