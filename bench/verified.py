"""Verified sets beside one token per pass and the entropy bound: milliseconds, rounds and rows per text, one text and many.

    python bench/verified.py [--device cuda] [--lengths 32,64] [--texts 1,16,256,1024]

All decode the same blank texts in one run; each number is the median of three decodings after a first one.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import torch

import unmask
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.engine.passes import Passes, rows_for
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.registry import EntropyBound, LowestEntropy, Verified
from unmask.sampling.target import Target, blank_template


def main() -> None:
    """Print a line per length and number of texts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--lengths", default="32,64")
    parser.add_argument("--texts", default="1,16,256,1024")
    options = parser.parse_args()
    model = unmask.load(options.model, device=options.device)

    def wait() -> float:
        if model.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    for length in map(int, options.lengths.split(",")):
        target = Target(model, blank_template(model, length))
        methods = {
            "one by one": LowestEntropy(passes=length),
            "verified, 4 sets": Verified(passes=4),
            "verified, 8 sets": Verified(passes=8),
            "entropy bound, 8 passes": EntropyBound(passes=8),
        }
        for texts in map(int, options.texts.split(",")):
            first = None
            for name, method in methods.items():
                decoder, seconds = method.on(target, Passes(model, rows_for(model, texts, True))), []
                for repeat in range(4):
                    start = wait()
                    state, rows = decode(decoder, texts, ChainStreams(repeat, range(texts), model.device).at(1, 0))
                    seconds.append(wait() - start)
                took = median(seconds[1:])
                first = first or took
                rounds = getattr(state, "rounds", torch.tensor([decoder.steps])).double().mean()
                print(
                    f"{length} tokens, {texts} texts, {name}: {1e3 * took:.1f} ms, {first / took:.2f} times one by one, "
                    f"{float(rounds):.1f} rounds, {float(rows.double().mean()):.1f} rows per text",
                    flush=True,
                )


if __name__ == "__main__":
    main()
