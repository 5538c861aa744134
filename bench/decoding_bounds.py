"""Decoders with a bound in place of a number of passes, and measured dependence: nats per token against mean passes.

    python bench/decoding_bounds.py TEXTS --length 32 --first --texts 512 --out bounds.jsonl [--measured 5,8] [--device cuda]

One JSON line per decoder and bound, as it is ready: mean passes, nats per token of the exact law, and the difference from
surest-first decoding, one token per pass, with its 95 % bootstrap interval paired by text. `--measured`: also least-dependent
with the measured information of all pairs at these numbers of passes; its own passes are counted in `passes`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unmask.evaluation.frontier import pieces
from unmask.evaluation.pairs import read_texts
from unmask.models.masked_lm import as_model
from unmask.sampling.decoders.revealing import law
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.registry import KERNELS
from unmask.sampling.target import Target, blank_template

BOUNDS: dict[str, tuple[str, tuple[float, ...]]] = {
    "least-dependent": ("gamma", (0.03, 0.05, 0.1, 0.14, 0.2, 0.3, 0.45, 0.7, 1.0)),
    "entropy-bound": ("gamma", (0.5, 1, 2, 4, 8, 16)),
    "threshold": ("tau", (0.2, 0.3, 0.5, 0.7, 0.9)),
}
AT_ONCE = 64


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--first", action="store_true", help="the first tokens of longer texts, too")
    parser.add_argument("--texts", type=int, default=358)
    parser.add_argument("--measured", default="")
    given = parser.parse_args()
    model = as_model(given.model, given.device, "auto", None)
    ids, _ = pieces(model, [text.text for text in read_texts(given.data)], given.length, given.first, given.texts)
    target, runs = Target(model, blank_template(model, given.length)), Passes(model, keeps="logits")
    draw = np.random.default_rng(0)

    def nats(name: str, **settings: Any) -> tuple[np.ndarray, float]:
        decoder = KERNELS[name].build(target=target, passes=runs, **settings)
        found = [
            law(decoder, part, ChainStreams(0, list(range(len(part))), model.device).at(0, 0)) for part in ids.split(AT_ONCE)
        ]
        total = -torch.cat([part.log_q.sum(1) for part in found]).cpu().numpy() / given.length
        return total, float(torch.cat([part.passes for part in found]).double().mean())

    surest, _ = nats("lowest-entropy", decoding_steps=given.length)
    cases: list[tuple[str, dict[str, Any]]] = [(name, {key: value}) for name, (key, values) in BOUNDS.items() for value in values]
    for passes in filter(None, given.measured.split(",")):
        cases += [("least-dependent", {"decoding_steps": int(passes), "dependence": by}) for by in ("profile", "measured")]
    with given.out.open("w") as out:
        for name, settings in cases:
            values, passes_made = nats(name, **settings)
            apart = values - surest
            means = apart[draw.integers(0, len(apart), (2000, len(apart)))].mean(1)
            low, high = np.quantile(means, (0.025, 0.975))
            numbers = {"passes": passes_made, "nats": values.mean(), "minus_surest_first": apart.mean(), "low": low, "high": high}
            line = {"decoder": name, **settings, **{key: round(float(value), 4) for key, value in numbers.items()}}
            print(json.dumps(line), file=out, flush=True)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
