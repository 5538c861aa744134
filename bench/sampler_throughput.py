"""Passes and proposals per second of the samplers, beside the bare encoder on rows of the same
shape, in one run.

    python bench/sampler_throughput.py [--models bundled,base --dtypes float32,float16 --chains
        64,1024,4096 --length 20] [--kernels mh,gibbs,block,ancestral,mask-predict] [--seconds
        1.5] [--rows N] [--also-rows 256,1024] [--device auto] [--json FILE] [--profile]

`bare` runs the network at one position per row, as many rows at a time as it takes, on rows of
the same length: what a sampler cannot beat. A kernel runs steps of all chains (a decoder: whole
texts) from ancestral starts, for at least `--seconds`, after 64 chains of it have taken two
steps that are not timed. passes/s counts the rows that the kernel asked for; proposals/s steps
of chains; share: of the bare rate. A pass of mask-predict predicts all blanks: `at its
positions` is its share of the network at as many positions of each row as it has blanks, step
by step. On a CPU, seconds are those of the processors. `base` has BERT-base's shape, its 28,996
tokens and random weights; texts to start from are drawn by the first number format.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from unmask.models.masked_lm import MaskedLM
from unmask.sampling.chains.group_run import Group, group_run
from unmask.sampling.decoders.ancestral import Ancestral
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.decoders.in_steps import blanks_left
from unmask.sampling.decoders.mask_predict import MaskPredict
from unmask.sampling.engine.passes import Passes, rows_for
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.methods import METHODS
from unmask.sampling.settings import SampleSettings
from unmask.sampling.target import Target, blank_template

WARM_UP = 64
"""Chains that run first, so that nothing is compiled or recorded while the others are timed."""


def model_of(name: str, device: str, dtype: str) -> MaskedLM:
    """The bundled model, a folder's, or BERT-base's shape with random weights."""
    if name != "base":
        return MaskedLM.load(None if name == "bundled" else name, device=device, dtype=dtype)
    from gpu_pair import network_of, tokenizer_of

    from unmask.models.checkpoint import resolve_dtype
    from unmask.models.float32_logits import widen_output
    from unmask.runs.devices import resolve_device

    network = network_of("base", 28996, 8.0).to(resolve_device(device), resolve_dtype(dtype)).eval()
    widen_output(network)
    return MaskedLM(network, tokenizer_of(28996))


def wait(model: MaskedLM) -> None:
    """Until the device has done what it was asked for."""
    if model.device.type == "cuda":
        torch.cuda.synchronize()


def clock(model: MaskedLM) -> float:
    """Seconds: of the wall beside a GPU, of the processors on a CPU, which others may be using."""
    return time.perf_counter() if model.device.type == "cuda" else time.process_time()


def bare_rate(model: MaskedLM, length: int, rows: int, seconds: float, predicted: int = 1) -> float:
    """Rows per second of the network alone."""
    tokens = len(blank_template(model, length))
    rows = min(rows, model.rows_at_once(tokens, predicted))
    ids = torch.randint(5, model.vocab_size, (rows, tokens), device=model.device)
    positions = torch.rand((rows, tokens - 2), device=model.device).argsort(1)[:, :predicted] + 1
    model.logits(ids, positions)
    wait(model)
    begun, done = clock(model), 0
    while clock(model) - begun < seconds:
        for _ in range(4):
            model.logits(ids, positions)
            done += rows
        wait(model)
    return done / (clock(model) - begun)


def rate_at_blanks(model: MaskedLM, settings: SampleSettings, seconds: float) -> float:
    """Rows per second of the network alone, at as many positions as the steps of mask-predict
    have blanks.
    """
    length, steps = settings.length[0], MaskPredict().passes
    blanks = [blanks_left(length, step, steps) for step in range(steps)]
    rates = [bare_rate(model, length, 1024, seconds / steps, count) for count in blanks if count]
    return len(rates) / sum(1 / rate for rate in rates)


def sampler(model: MaskedLM, settings: SampleSettings, passes: Passes, starts: torch.Tensor) -> Any:
    """A group of all chains at its start."""
    target, everyone = (
        Target(model, blank_template(model, settings.length[0])),
        list(range(settings.chains)),
    )
    own = None if settings.kernel.decodes else starts[: settings.chains]
    run = group_run(settings, Group(everyone, target, own), passes)
    run.begin()
    return run


def ancestral(model: MaskedLM, length: int, chains: int) -> torch.Tensor:
    """Texts to start from."""
    target, passes = (
        Target(model, blank_template(model, length)),
        Passes(model, rows_for(model, chains, decodes=True)),
    )
    return decode(
        Ancestral().on(target, passes),
        chains,
        ChainStreams(0, range(chains), model.device).at(0, 0),
    )[0].ids


def steps_of(run: Any) -> Iterator[int]:
    """The steps of one sweep after the other; a decoder's only step makes its texts. Yields the
    proposals made.
    """
    while True:
        if run.settings.kernel.decodes:
            run.sweep()
            yield 0
        else:
            yield from (len(info.accepted) for info in run.steps())


def measure(
    model: MaskedLM,
    settings: SampleSettings,
    seconds: float,
    rows: int | None,
    starts: torch.Tensor,
) -> dict[str, float]:
    """Passes and proposals per second, and seconds per sweep."""
    passes = Passes(model, rows or rows_for(model, settings.chains, settings.kernel.decodes))
    first = sampler(model, replace(settings, chains=min(WARM_UP, settings.chains)), passes, starts)
    for _ in zip(range(2), steps_of(first), strict=False):
        pass
    run = sampler(model, settings, passes, starts)
    wait(model)
    proposals, begun, before = 0, clock(model), int(run.spent.sum())
    for made in steps_of(run):
        wait(model)
        proposals += made
        if clock(model) - begun > seconds:
            break
    took = clock(model) - begun
    spent = int(run.spent.sum()) - before
    texts = (
        run.done if settings.kernel.decodes else proposals / settings.chains / run.kernel.plan.steps
    )
    return {
        "passes": spent / took,
        "proposals": proposals / took,
        "seconds_per_sweep": took / texts,
    }


def profile(
    model: MaskedLM, settings: SampleSettings, rows: int | None, starts: torch.Tensor
) -> None:
    """Print what three steps spend their time on."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording

    passes = Passes(model, rows or rows_for(model, settings.chains, settings.kernel.decodes))
    steps = steps_of(sampler(model, settings, passes, starts))
    next(steps)
    wait(model)
    with recording(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
        begun = clock(model)
        for _ in zip(range(3), steps, strict=False):
            pass
        wait(model)
        took = clock(model) - begun
    averages = found.key_averages()
    print(f"profile of {settings.kernel.name}: {took:.3f} s for three steps")
    order = "self_device_time_total" if model.device.type == "cuda" else "self_cpu_time_total"
    print(averages.table(sort_by=order, row_limit=18, max_name_column_width=60))
    print(averages.table(sort_by="self_cpu_time_total", row_limit=12, max_name_column_width=40))


def main() -> None:
    """Print one line per model, number format, number of chains and kernel."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default="bundled")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--chains", default="64")
    parser.add_argument("--kernels", default="mh,gibbs,block,ancestral,mask-predict")
    parser.add_argument("--length", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument(
        "--rows", type=int, help="rows of a call, instead of what the number of chains gives"
    )
    parser.add_argument(
        "--also-rows",
        type=lambda text: [int(n) for n in text.split(",")],
        default=[],
        help="mh with these, too",
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    results: list[dict[str, object]] = []
    sizes = [int(chains) for chains in options.chains.split(",")]
    for name in options.models.split(","):
        starts: torch.Tensor | None = None
        for dtype in options.dtypes.split(","):
            model = model_of(name, options.device, dtype)
            bare = bare_rate(model, options.length, 16384, options.seconds)
            print(
                f"{name} {dtype} {model.device}: bare {bare:,.0f} passes/s, {options.length}"
                " tokens",
                flush=True,
            )
            print(
                f"{'':14} {'chains':>6} {'passes/s':>10} {'share':>6} {'proposals/s':>12}"
                f" {'s per sweep':>12}  at its positions",
                flush=True,
            )
            starts = (
                ancestral(model, options.length, max(sizes))
                if starts is None
                else starts.to(model.device)
            )
            positions = {
                "mask-predict": rate_at_blanks(
                    model, SampleSettings(length=(options.length,)), options.seconds
                )
            }
            for chains in sizes:
                for kernel, rows in [
                    *product(options.kernels.split(","), [options.rows]),
                    *product(["mh"], options.also_rows),
                ]:
                    settings = SampleSettings(
                        kernel=METHODS[kernel](),
                        chains=chains,
                        length=(options.length,),
                        sweeps=10**6,
                    )
                    if options.profile:
                        profile(model, settings, rows, starts)
                    found = measure(model, settings, options.seconds, rows, starts)
                    label = f"{kernel} {rows}" if rows else kernel
                    print(
                        f"{label:14} {chains:6} {found['passes']:10,.0f}"
                        f" {found['passes'] / bare:6.2f} {found['proposals']:12,.0f}"
                        f" {found['seconds_per_sweep']:12.3f}"
                        + (
                            f" {found['passes'] / positions[kernel]:17.2f}"
                            if kernel in positions
                            else ""
                        ),
                        flush=True,
                    )
                    about = {
                        "model": name,
                        "dtype": dtype,
                        "chains": chains,
                        "kernel": kernel,
                        "rows": rows,
                        "bare": bare,
                    }
                    results.append(
                        {**about, "bare_at_its_positions": positions.get(kernel), **found}
                    )
                    if options.json:
                        options.json.write_text(json.dumps(results, indent=1))
                    gc.collect()


if __name__ == "__main__":
    main()
