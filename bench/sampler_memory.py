"""The memory of many long chains within a budget: what the run keeps, how many chains it runs at once, and the peak.

    python bench/sampler_memory.py [--model base --dtype float16 --chains 4096 --length 64 --budgets 8GB,1GB --steps 2]
        [--kernel mh] [--device cuda]

For each budget the run is planned as `unmask sample --memory` plans it, and its first chains, as many as run side by side, take
their start (random texts) and so many steps. `peak` is all that was allocated on the card beyond the weights: what the chains
keep, their proposals, and the activations of a call. On a CPU no peak is measured.
"""

from __future__ import annotations

import argparse
import time

import torch
from sampler_throughput import model_of, wait
from unmask.sampling.run.groups import groups

from unmask import checks
from unmask.sampling.engine.memory import available_bytes
from unmask.sampling.engine.passes import Passes, rows_for
from unmask.sampling.run.advance import MarkovRun, build, group_run
from unmask.sampling.settings import SampleSettings

GIGABYTE = 2**30


def main() -> None:
    """Print a line for each budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="base")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--chains", type=int, default=4096)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--budgets", default="8GB,1GB")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--kernel", default="mh")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    model = model_of(given.model, given.device, given.dtype)
    on_gpu = model.device.type == "cuda"
    settings = SampleSettings(kernel=given.kernel, chains=given.chains, length=(given.length,), sweeps=1, random_start=True)
    print(
        f"{given.chains:,} chains of {given.length} tokens over {model.vocab_size:,}, {given.kernel}, {given.dtype}", flush=True
    )
    for budget in given.budgets.split(","):
        found, plan = groups(settings, model, memory=checks.memory("memory", budget, available_bytes(model.device)))
        group = found[0]
        chains = len(group.chains)
        print(f"{budget}: {plan}; {chains:,} chains at once, {len(found)} times", flush=True)
        before = torch.cuda.memory_allocated() if on_gpu else 0
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        passes = Passes(model, rows_for(model, settings.chains), None, plan.keeps)
        begun = time.perf_counter()
        run = group_run(settings, group, build(settings, group.target, passes))
        run.begin()
        assert isinstance(run, MarkovRun)
        wait(model)
        started = time.perf_counter()
        for _ in zip(range(given.steps), run.steps(), strict=False):
            pass
        wait(model)
        took = time.perf_counter() - started
        peak = f"peak {(torch.cuda.max_memory_allocated() - before) / GIGABYTE:.2f} GB" if on_gpu else "peak not measured"
        kept = chains * plan.per_chain / GIGABYTE
        print(
            f"    planned {kept:.2f} GB, {peak}; {started - begun:.1f} s to start, {took / given.steps:.2f} s per step, "
            f"{passes.count:,} passes, {passes.count / (time.perf_counter() - begun):,.0f} per second",
            flush=True,
        )
        del run, passes


if __name__ == "__main__":
    main()
