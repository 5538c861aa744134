"""Free-running texts of every decoder with a law at equal passes, judged by laws that are the same for all of them.

    python bench/decoding_samples.py --out samples.jsonl [--model M --length 32 --texts 256 --passes 4,8,16]
        [--temperatures 1,0.7,0 --judge CAUSAL_MODEL --profile FILE --decoders least-dependent,interleaved --device cuda]

One JSON line per decoder, number of passes and temperature, written as it is ready; a line that is already in the file is not
computed again. Means over texts, with their standard errors:

    surest     nats per token under one-token-per-pass decoding of the same model, surest first, at temperature 1 (exact)
    judge      nats per token of the causal model, if one is given
    own        nats per token of the decoder's own law, at its own temperature; missing at temperature 0
    distinct   different bigrams over all bigrams, of all texts (`distinct_in_text`: mean of single texts)
    stutter    share of equal neighbours; copies: share of texts that another text equals

References are one token per pass: surest first, random order, left to right. At temperature 0 a decoder without a random order
has one text. So give `--prompt N --data FILE`: texts then begin with N tokens of the lines of FILE. Without a prompt, temperature
0 is measured for random orders only.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.evaluation.frontier import SEQUENTIAL, Point, pieces
from unmask.evaluation.pairs import read_texts
from unmask.models.masked_lm import MaskedLM
from unmask.runs.fingerprint import provenance
from unmask.sampling.decoders.choosing import LowestEntropy
from unmask.sampling.decoders.decoder import decode
from unmask.sampling.decoders.revealing import law
from unmask.sampling.engine.passes import Passes
from unmask.sampling.engine.randomness import ChainStreams
from unmask.sampling.registry import KERNELS, with_law
from unmask.sampling.run.judge import CausalJudge
from unmask.sampling.run.text_statistics import distinct, stutters
from unmask.sampling.target import Target, blank_template
from unmask.tables.profile import Profile

AT_ONCE = {"cuda": 1024, "cpu": 64}


def with_error(values: Any) -> dict[str, float | None]:
    """Mean and standard error."""
    numbers = np.asarray(values, dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return {"mean": None, "se": None}
    return {"mean": float(numbers.mean()), "se": float(numbers.std(ddof=1) / len(numbers) ** 0.5) if len(numbers) > 1 else None}


class Setting:
    """One decoder at a number of passes and a temperature, over the blanks of a template whose first tokens may be given."""

    def __init__(self, model: MaskedLM, length: int, prompt: int, profile: Profile | None) -> None:
        self.model, self.profile, self.length = model, profile, length
        before, _ = model.around()
        template = blank_template(model, length)
        given = list(range(len(before), len(before) + prompt))
        self.target = Target(model, template, given=given)
        self.inside = slice(len(before) + prompt, len(before) + length)
        self.passes = Passes(model, keeps="logits")

    def draw(
        self, point: Point, temperature: float, starts: Tensor | None, texts: int, seed: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Token ids, log-probabilities under the decoder's own law, and passes."""
        made = point.build(self.target, self.passes, self.profile)
        decoder = replace(made, decoding_temperature=temperature)
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        for start in range(0, texts, AT_ONCE[self.model.device.type]):
            some = range(start, min(texts, start + AT_ONCE[self.model.device.type]))
            rng = ChainStreams(seed, some, self.model.device).at(0, 0)
            state, passes = decode(decoder, len(some), rng, None if starts is None else starts[some.start : some.stop])
            found.append((state.ids, state.log_prob, passes))
        ids, log_prob, passes = (torch.cat(part) for part in zip(*found, strict=True))
        return ids, log_prob, passes

    def surest(self, ids: Tensor) -> Tensor:
        """log-probability of the free tokens under surest first, one per pass."""
        decoder = LowestEntropy(self.target, self.passes, decoding_steps=self.target.sites)
        parts = []
        for some in ids.split(AT_ONCE[self.model.device.type]):
            rng = ChainStreams(0, range(len(some)), self.model.device).at(0, 0)
            parts.append(law(decoder, some, rng).log_q.sum(1))
        return torch.cat(parts)


def measured(setting: Setting, point: Point, temperature: float, starts: Tensor | None, texts: int, seed: int,
             judge: CausalJudge | None) -> dict[str, Any]:  # fmt: skip
    """The numbers of one line."""
    began = time.perf_counter()
    ids, own, passes = setting.draw(point, temperature, starts, texts, seed)
    seconds = time.perf_counter() - began
    tokens = [row[setting.inside] for row in ids.tolist()]
    free = setting.target.sites
    bigrams = np.array([[len(set(zip(row, row[1:], strict=False))), len(row) - 1] for row in tokens])
    return {
        "passes": float(passes.double().mean()),
        "surest": with_error((-setting.surest(ids) / free).tolist()),
        "judge": None if judge is None else with_error(judge([setting.model.text(row) for row in ids.tolist()])),
        "own": with_error((-own / free).tolist()) if temperature > 0 else None,
        "distinct_in_text": with_error(bigrams[:, 0] / bigrams[:, 1]),
        "distinct": distinct(tokens, 2),
        "stutter": with_error([stutters(row) / max(1, len(row) - 1) for row in tokens]),
        "copies": 1 - len({tuple(row) for row in tokens}) / len(tokens),
        "seconds": round(seconds, 2),
        "example": setting.model.text(ids[0].tolist()),
    }


def main() -> None:
    """Measure every setting that the file does not have."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--passes", default="4,8,16")
    parser.add_argument("--temperatures", default="1,0.7,0")
    parser.add_argument("--decoders", default="all")
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--judge")
    parser.add_argument("--data", help="lines whose first tokens begin the texts")
    parser.add_argument("--prompt", type=int, default=0, help="how many tokens of a line are given")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    model = MaskedLM.load(given.model, device=given.device)
    if given.prompt and not given.data:
        parser.error("--prompt needs --data: give lines to take the first tokens of")
    starts = None
    if given.prompt:
        starts, _ = pieces(model, [text.text for text in read_texts(given.data)], given.length, True, given.texts)
        given.texts = len(starts)
    setting = Setting(model, given.length, given.prompt, Profile.load(given.profile) if given.profile else None)
    judge = CausalJudge(given.judge, given.device) if given.judge else None
    names = with_law() if given.decoders == "all" else given.decoders.split(",")
    steps = [n for n in sorted({int(n) for n in given.passes.split(",")}) if n < setting.target.sites]
    points = [Point(name, n) for name in names for n in steps] + [Point(name, None) for name in SEQUENTIAL]
    same = {"model": model.fingerprint, "length": given.length, "texts": given.texts, "prompt": given.prompt, "seed": given.seed}
    lines = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    known = {(line["decoder"], line["asked"], line["temperature"]) for line in lines if same.items() <= line.items()}
    with given.out.open("a") as stream:
        for temperature in (float(t) for t in given.temperatures.split(",")):
            for point in points:
                random = point.decoder == "random order" or (point.passes is not None and KERNELS[point.decoder].random_order)
                if (point.decoder, point.passes, temperature) in known or (temperature == 0 and not given.prompt and not random):
                    continue
                line = {"decoder": point.decoder, "asked": point.passes, "temperature": temperature, **same}
                line |= measured(setting, point, temperature, starts, given.texts, given.seed, judge)
                stream.write(json.dumps(line | {"date": provenance()["date"]}, ensure_ascii=False) + "\n")
                stream.flush()
                shown = f"{line['surest']['mean']:.3f} ± {line['surest']['se'] or 0:.3f}"
                print(f"T={temperature:g} {point.decoder:16} @ {line['passes']:5.1f}  surest-first nats {shown}  "
                      f"distinct {line['distinct']:.3f}  stutter {line['stutter']['mean']:.4f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
