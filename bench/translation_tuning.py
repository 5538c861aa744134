"""Which settings translate the validation set best: trainings side by side, each measured by mask-predict or by a beam.

    python bench/translation_tuning.py DATA --out RESULTS --seconds 300

DATA is that of translation_table.py. A queue is a list of trainings that one process makes one after the other; all queues run
side by side. Each training leaves NAME.json: its settings, steps per second, the held-out loss as it went, and BLEU on val.*.
No process is killed, and none begins a training that has no time left: a killed one can take others on a shared GPU with it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from translation_analysis import keep, lines
from translation_choice import choices

CAUSAL = {"objective": "causal", "dropout": 0.3, "label_smoothing": 0.1, "steps": 2600, "seconds": 75}
MASKED = {"dropout": 0.2, "mask_source": 0.1, "steps": 6000, "seconds": 165}
SMALL = {"layers": 4, "width": 256, "heads": 4, "half": True}
TRAININGS: dict[str, dict[str, Any]] = {
    "causal": {**CAUSAL, "seconds": 60},
    "distilled": {**MASKED, "distil": "causal", "seconds": 80},
    "masked": MASKED,
    "masked, dropout 0.3": {**MASKED, "dropout": 0.3},
    "masked, smoothed": {**MASKED, "dropout": 0.3, "label_smoothing": 0.1},
    "masked, small": {**MASKED, **SMALL, "seconds": 110},
    "causal, dropout 0.4": {**CAUSAL, "dropout": 0.4},
    "causal, small": {**CAUSAL, **SMALL, "compile": True},
    "refined": {**MASKED, "refinement": 0.5, "seconds": 110},
}
"""Steps are at most so many, and no more than fit into the seconds."""
QUEUES = [
    ["causal", "distilled"],
    ["masked"],
    ["masked, dropout 0.3"],
    ["masked, smoothed"],
    ["masked, small", "causal, dropout 0.4"],
    ["causal, small", "refined"],
]
FEW, TRIAL = 3000, 150
"""Pairs that the speed is measured on, and steps."""


def main() -> None:
    """All queues side by side until the time is over; or one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="models and cache")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--sentences", type=int, default=1014)
    parser.add_argument("--options", type=json.loads, default={}, help="settings of all trainings, as JSON")
    parser.add_argument("--queue", type=int)
    parser.add_argument("--end", type=float)
    given = parser.parse_args()
    given.end = given.end or time.time() + given.seconds
    given.out.mkdir(parents=True, exist_ok=True)
    if given.queue is not None:
        for name in QUEUES[given.queue]:
            if given.end - time.time() < 1.5 * TRAININGS[name]["seconds"]:
                print(f"{name}: no time left", flush=True)
                continue
            try:
                one(given, name)
            except Exception:
                traceback.print_exc()
        return
    words = [sys.executable, __file__, *sys.argv[1:], "--end", str(given.end)]
    queues = [subprocess.Popen([*words, "--queue", str(number)]) for number in range(len(QUEUES))]
    for queue in queues:
        queue.wait()


def one(given: argparse.Namespace, name: str) -> None:
    """Train and measure one model."""
    import unmask

    options: dict[str, Any] = {
        "layers": 6, "width": 384, "heads": 6, "vocab": 8192, "max_length": 112, "batch_tokens": 16384, "lr": 2.5e-3,
        "warmup": 400, "valid_share": 0.01, "compile": False, "licence": "research, non-commercial",
        **TRAININGS[name], **given.options,
    }  # fmt: skip
    corpus, few = [given.data / "train.de", given.data / "train.en"], {}
    folder, seconds = given.work / name.replace(", ", "-").replace(" ", "-"), options.pop("seconds")
    for key in ("distil", "steps"):
        if key in options:
            few[key] = options.pop(key)
    pace = {"cache": given.work / "cache", "checkpoint_every": 10**6}
    trial = unmask.train(
        parallel=[lines(side, FEW) for side in corpus], out=given.work / f"{folder.name}-trial", **options, **pace,
        steps=min(TRIAL, few["steps"]), valid_every=10**6,
    )  # fmt: skip
    speed = float(trial.to_frame()["tokens_per_second"].dropna().iloc[-1]) / options["batch_tokens"]
    options["steps"] = min(few["steps"], max(100, int(speed * seconds)))
    if "distil" in few:
        options["distil"] = given.work / few["distil"]
    since = time.monotonic()
    made = unmask.train(parallel=corpus, out=folder, **options, **pace, max_minutes=1.3 * seconds / 60)
    trained, log = time.monotonic() - since, made.to_frame()
    told: dict[str, Any] = {
        "settings": made.settings.to_dict(),
        "parameters": made.parameters,
        "status": made.status,
        "seconds": trained,
        "steps per second": [speed, float(log["tokens_per_second"].median()) / options["batch_tokens"]],
        "log": json.loads(log.to_json(orient="records")),
    }
    keep(given, name, told)
    print(f"{name}: {made}, {trained:.0f} s, {told['steps per second']} steps per second", flush=True)
    since = time.monotonic()
    told["val"] = measured(given, folder, options)
    told["seconds of measuring"] = time.monotonic() - since
    keep(given, name, told)
    print(f"{name}: {told['val']}, {told['seconds of measuring']:.0f} s", flush=True)


def measured(given: argparse.Namespace, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """BLEU on val.*."""
    import unmask
    from unmask.translation.translators import PairModel

    sources, references = (lines(given.data / f"val.{side}", given.sentences) for side in ("de", "en"))
    found = {}
    if options.get("objective") != "causal":
        pair = PairModel.load(folder)
        if options.get("refinement"):
            for steps in (2, 10):
                made = unmask.translate(sources, model=pair, decoder="revise", steps=steps, reference=references)
                found[f"revise {steps}"] = (made.figures.bleu, made.figures.stutter, made.figures.passes)  # type: ignore[union-attr]
        return {**choices(pair, sources, references), **found}
    for decoder, penalty in (("greedy", 1.0), ("beam", 1.0), ("beam", 0.6)):
        made = unmask.translate(sources, model=folder, decoder=decoder, penalty=penalty, reference=references)
        assert made.figures is not None
        found[f"{decoder} {penalty:g}"] = made.figures.bleu
    return {"bleu": found}


if __name__ == "__main__":
    main()
