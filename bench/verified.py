"""Verified sets beside one token per pass and the entropy bound: milliseconds, rounds and rows
per text; texts under a judge.

    python bench/verified.py [--device cuda] [--lengths 32,64] [--texts 1,16,256,1024]
    python bench/verified.py --judge FOLDER [--lengths 16,32] [--texts 2048]

The first command decodes the same blank texts by all methods in one run; each number is the
median of three decodings (of few texts, of fifteen) after a first one; rounds and rows are
means over all. The second has texts of each method judged by a causal model (a folder of
`unmask train --objective causal`): mean nats per token with the middle 95 % of 10,000 bootstrap
samples, and the difference from one token per pass in the order of the sets, whose law verified
sets have.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np
import torch

import unmask
from unmask.common.methods.method import method
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.chains.judge import CausalJudge
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.decoders.entropy_bound import EntropyBound
from unmask.sampling.decoders.lowest_entropy import LowestEntropy
from unmask.sampling.decoders.revealing import Revealing
from unmask.sampling.decoders.verified import Verified
from unmask.sampling.decoders.verified import Verified as VerifiedSets
from unmask.sampling.engine.passes import Passes, rows_for
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.on_target import DecoderOnTarget
from unmask.sampling.target import Target, blank_template

AT_ONCE = 64
"""Texts that are decoded together to be judged."""


def main() -> None:
    """Print a line per length, number of texts and method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=None)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--judge", default=None)
    parser.add_argument("--lengths", default="32,64")
    parser.add_argument("--texts", default="1,16,256,1024")
    options = parser.parse_args()
    model, judge = (
        unmask.load(options.model, device=options.device),
        options.judge and CausalJudge(options.judge, options.device),
    )
    for length in map(int, options.lengths.split(",")):
        for texts in map(int, options.texts.split(",")):
            if judge:
                judged(model, judge, length, texts)
            else:
                timed(model, length, texts)


def timed(model: MaskedLM, length: int, texts: int) -> None:
    """Milliseconds, rounds and rows per text of each method."""

    def wait() -> float:
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    target, first = Target(model, blank_template(model, length)), None
    ways = {
        "one by one": LowestEntropy(passes=length),
        "verified, 4 sets": Verified(sets=4),
        "verified, 8 sets": Verified(sets=8),
        "entropy bound, 8 passes": EntropyBound(passes=8),
    }
    for name, way in ways.items():
        decoder, seconds, counts = (
            way.on(target, Passes(model, rows_for(model, texts, True))),
            [],
            [],
        )
        for repeat in range(4 if texts > 16 else 16):
            start = wait()
            state, rows = decode(
                decoder, texts, ChainStreams(repeat, range(texts), model.device).at(1, 0)
            )
            seconds.append(wait() - start)
            rounds = getattr(state, "rounds", torch.full_like(rows, decoder.steps))
            counts.append(torch.stack([rounds, rows]).double().mean(1))
        took, (rounds, rows) = median(seconds[1:]), torch.stack(counts).mean(0)
        first = first or took
        print(
            f"{length} tokens, {texts} texts, {name}: {1e3 * took:.1f} ms, {first / took:.2f} times"
            f" one by one, {float(rounds):.1f} rounds, {float(rows):.1f} rows per text",
            flush=True,
        )


@method
class OneByOne(VerifiedSets):
    """One token per pass, in the order of the sets."""

    step = Revealing.step


def judged(model: MaskedLM, judge: CausalJudge, length: int, texts: int) -> None:
    """Nats per token under the judge of each method's own texts."""
    target = Target(model, blank_template(model, length))
    passes = Passes(model, rows_for(model, AT_ONCE, True))
    decoders: dict[str, DecoderOnTarget] = {
        "one by one, order of 4 sets": OneByOne(sets=4).on(target, passes),
        "verified, 4 sets": Verified(sets=4).on(target, passes),
        "entropy bound, 8 passes": EntropyBound(passes=8).on(target, passes),
    }
    draw, base = np.random.default_rng(0), None
    for seed, (name, decoder) in enumerate(decoders.items()):
        nats, rounds = [], []
        for start in range(0, texts, AT_ONCE):
            chains = range(start, min(texts, start + AT_ONCE))
            state, passes_each = decode(
                decoder, len(chains), ChainStreams(seed, chains, model.device).at(1, 0)
            )
            rounds.append(
                getattr(state, "rounds", passes_each)
                if name.startswith("verified")
                else passes_each
            )
            nats.append(judge([model.text(ids) for ids in state.ids]))
        values = np.concatenate(nats)
        means = values[draw.integers(len(values), size=(10_000, len(values)))].mean(1)
        base = means if base is None else base
        low, high = np.percentile(means, [2.5, 97.5])
        line = (
            f"{length} tokens, {texts} texts, {name}: {torch.cat(rounds).double().mean():.1f}"
            " rounds, "
        )
        line += f"{values.mean():.3f} nats per token [{low:.3f}, {high:.3f}]"
        if base is not means:
            low, high = np.percentile(means - base, [2.5, 97.5])
            line += f", minus one by one {np.mean(means - base):+.3f} [{low:+.3f}, {high:+.3f}]"
        print(line, flush=True)


if __name__ == "__main__":
    main()
