"""Passes and proposals per second of the samplers, beside the bare encoder on rows of the same shape, in one run.

    python bench/sampler_throughput.py [--models bundled,base --dtypes float32,float16 --chains 64,1024,4096 --length 20]
        [--kernels mh,gibbs,block,ancestral,mask-predict] [--seconds 1.5] [--rows N] [--also-rows 256,1024]
        [--device cuda] [--json FILE] [--profile]

`bare` runs the network at one position per row, as many rows at a time as it takes, on rows of the same length: what a sampler
cannot beat. A kernel runs steps of all chains (a decoder: whole texts) from ancestral starts, after two that are not timed, for
at least `--seconds`. passes/s counts the rows that the kernel asked for; proposals/s steps of chains; share: of the bare rate.
On a CPU, seconds are those of the processors. `base` has BERT-base's shape, its 28,996 tokens and random weights. The same file
runs with the code of an earlier commit on PYTHONPATH, for a comparison of the two.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch

from unmask.models.masked_lm import MaskedLM
from unmask.sampling.decoder_run import DecoderRun
from unmask.sampling.groups import Group
from unmask.sampling.markov_run import MarkovRun
from unmask.sampling.passes import Passes, rows_for
from unmask.sampling.proposal import Proposal
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target, blank_template


def model_of(name: str, device: str, dtype: str) -> MaskedLM:
    """The bundled model, a folder's, or BERT-base's shape with random weights."""
    if name != "base":
        return MaskedLM.load(None if name == "bundled" else name, device=device, dtype=dtype)
    from gpu_pair import network_of, tokenizer_of

    from unmask.models.encoder.head import widen_output
    from unmask.models.loading import DTYPES

    network = network_of("base", 28996, 8.0).to(device, DTYPES[dtype]).eval()
    widen_output(network)
    return MaskedLM(network, tokenizer_of(28996))


def wait(model: MaskedLM) -> None:
    """Until the device has done what it was asked for."""
    if model.device.type == "cuda":
        torch.cuda.synchronize()


def clock(model: MaskedLM) -> float:
    """Seconds: of the wall beside a GPU, of the processors on a CPU, which others may be using."""
    return time.perf_counter() if model.device.type == "cuda" else time.process_time()


def bare_rate(model: MaskedLM, length: int, rows: int, seconds: float) -> float:
    """Rows per second of the network alone."""
    tokens = len(blank_template(model, length))
    rows = min(rows, model.rows_at_once(tokens, 1))
    ids = torch.randint(5, model.vocab_size, (rows, tokens), device=model.device)
    positions = torch.randint(1, tokens - 1, (rows, 1), device=model.device)
    model.logits(ids, positions)
    wait(model)
    begun, done = clock(model), 0
    while clock(model) - begun < seconds:
        for _ in range(4):
            model.logits(ids, positions)
            done += rows
        wait(model)
    return done / (clock(model) - begun)


def sampler(model: MaskedLM, settings: SampleSettings, rows: int | None) -> Any:
    """A group of all chains at its start."""
    target, everyone = Target(model, blank_template(model, settings.length[0])), list(range(settings.chains))
    passes, proposal = Passes(model, rows or rows_for(model, settings.chains)), Proposal()
    kernel = settings.entry.build(target=target, passes=passes, proposal=proposal, **vars(settings))
    group = Group(everyone, target, None, everyone)
    if settings.entry.decodes:
        return DecoderRun(settings, group, passes, kernel)
    return MarkovRun(settings, group, passes, kernel, proposal)


def steps_of(run: Any, sweep: int) -> Iterator[int]:
    """The steps of one sweep, as `sweep` makes them; a decoder's only step makes its texts. Yields the proposals made."""
    if run.settings.entry.decodes:
        run.sweep()
        yield 0
        return
    sites = run.plan.draw(run.streams.at(sweep, 0), run.state.rows)
    for step in range(run.plan.steps):
        sampled = run.kernel.sampled(run.state)
        run._count(run.kernel.step(run.state, run.streams.at(sweep, step + 1), sites[step]), sampled)
        yield len(sites[step])


def measure(model: MaskedLM, settings: SampleSettings, seconds: float, rows: int | None) -> dict[str, float]:
    """Passes and proposals per second, and seconds per sweep."""
    run = sampler(model, settings, rows)
    proposals = begun = before = 0.0
    for sweep in range(1, 10**6):
        steps = 0
        for made in steps_of(run, sweep):
            steps += 1
            if begun:
                wait(model)
                proposals += made
                if clock(model) - begun > seconds:
                    break
            elif steps == 2 or not made:
                wait(model)
                begun, before = clock(model), int(run.spent.sum())
        else:
            continue
        break
    took = clock(model) - begun
    passes = int(run.spent.sum()) - before
    texts = passes / max(1, before) if settings.entry.decodes else proposals / settings.chains / run.plan.steps
    return {"passes": passes / took, "proposals": proposals / took, "seconds_per_sweep": took / texts}


def profile(model: MaskedLM, settings: SampleSettings, rows: int | None) -> None:
    """Print what three steps spend their time on."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording

    run = sampler(model, settings, rows)
    next(steps_of(run, 1))
    wait(model)
    with recording(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        begun = clock(model)
        for _, _ in zip(range(3), steps_of(run, 2), strict=False):
            pass
        wait(model)
        took = clock(model) - begun
    averages = found.key_averages()
    print(f"profile of {settings.kernel}: {took:.3f} s for three steps")
    order = "self_device_time_total" if model.device.type == "cuda" else "self_cpu_time_total"
    print(averages.table(sort_by=order, row_limit=18, max_name_column_width=60))
    print(averages.table(sort_by="self_cpu_time_total", row_limit=12, max_name_column_width=40))


def main() -> None:
    """Print one line per model, number format, number of chains and kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="bundled")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--chains", default="64")
    parser.add_argument("--kernels", default="mh,gibbs,block,ancestral,mask-predict")
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rows", type=int, help="rows of a call, instead of what the number of chains gives")
    parser.add_argument("--also-rows", type=lambda text: [int(n) for n in text.split(",")], default=[], help="mh with these, too")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    results: list[dict[str, object]] = []
    for name in options.models.split(","):
        for dtype in options.dtypes.split(","):
            model = model_of(name, options.device, dtype)
            bare = bare_rate(model, options.length, 16384, options.seconds)
            print(f"{name} {dtype} {model.device}: bare {bare:,.0f} passes/s, {options.length} tokens", flush=True)
            print(f"{'':14} {'chains':>6} {'passes/s':>10} {'share':>6} {'proposals/s':>12} {'s per sweep':>12}", flush=True)
            for chains in map(int, options.chains.split(",")):
                for kernel, rows in [*product(options.kernels.split(","), [options.rows]), *product(["mh"], options.also_rows)]:
                    settings = SampleSettings(kernel=kernel, chains=chains, length=(options.length,), sweeps=10**6)
                    if options.profile:
                        profile(model, settings, rows)
                    found = measure(model, settings, options.seconds, rows)
                    label = f"{kernel} {rows}" if rows else kernel
                    print(
                        f"{label:14} {chains:6} {found['passes']:10,.0f} {found['passes'] / bare:6.2f} "
                        f"{found['proposals']:12,.0f} {found['seconds_per_sweep']:10.3f}",
                        flush=True,
                    )
                    results.append(
                        {"model": name, "dtype": dtype, "chains": chains, "kernel": kernel, "rows": rows, "bare": bare, **found}
                    )
                    if options.json:
                        options.json.write_text(json.dumps(results, indent=1))
                    gc.collect()


if __name__ == "__main__":
    main()
