"""A million sentences: `unmask score --score pll` end to end, beside the bare encoder on the
same rows; killed and resumed.

    python bench/million.py --corpus corpus.txt.xz --lines 1000000 --prepare lines.txt      cut
                                                                                            sentences
                                                                                            of
                                                                                            about
                                                                                            ten
                                                                                            tokens
    python bench/million.py --corpus lines.txt --lines 1000000 --device cuda --dtype float16
        [--model base] [--json FILE]
    python bench/million.py --corpus lines.txt --lines 5000 --device cpu --model tiny

Every run is a process of its own, which takes samples of its memory:

bare     the encoder's plain forward pass over as many rows of each length as the texts have
         (random tokens, no head, no text); of a length with many rows, MOST_BATCHES batches are
         passed and the rest counted at their rate
passes   the same rows through the encoder as `unmask score` runs it, the head at the masked
         position and log q included
score    `unmask.score` from the file to scores.parquet, after a call with WARM of its texts.
         The share is its rate by bare's
killed   the same call in a process that is killed without warning when two fifths are on the
         disk, and once more in another; scores.parquet should have the bytes of the run before
ray `unmask.score(engine="ray")` with two workers on this machine, or one per GPU, if Ray is
        installed

Equal texts of one chunk are scored once, so their rows count once. `--model`: a folder or a
name; tiny (one layer of width 32) and base (BERT-base), both of random weights, are made here.
tiny leaves little but reading, tokenising and writing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from unmask.models.batching import GPU_TOKENS, passes
from unmask.models.load import ModelSpec, load
from unmask.models.masked_lm import MaskedLM
from unmask.runs.lines import numbered_lines
from unmask.scoring.run import CHUNK_TEXTS
from unmask.verbs.score import score

FEWEST_WORDS, MOST_WORDS, MOST_LETTERS = 3, 8, 56
WARM = 4096
MOST_BATCHES = 8
CPU_TOKENS = 2**12
SIZES = {
    "tiny": {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    },
    "base": {},
}


def sentences(corpus: Path) -> Iterator[str]:
    """The sentences of a corpus; a longer one in pieces of at most MOST_WORDS words. The result
    can be cut again.
    """
    for _, line in numbered_lines(corpus):
        for sentence in re.split(r"(?<=[.!?])\s+", line.strip()):
            words = sentence.split()
            pieces = -(-len(words) // MOST_WORDS)
            for piece in range(pieces if len(words) >= FEWEST_WORDS else 0):
                text = " ".join(
                    words[piece * len(words) // pieces : (piece + 1) * len(words) // pieces]
                )
                if len(text) <= MOST_LETTERS:
                    yield text


def model_folder(name: str | None, work: Path) -> str | None:
    """The model's name; a model of random weights is saved first."""
    if name not in SIZES:
        return name
    from transformers import BertConfig, BertForMaskedLM

    bundled = MaskedLM.load(device="cpu")
    torch.manual_seed(0)
    BertForMaskedLM(
        BertConfig(vocab_size=bundled.vocab_size, max_position_embeddings=128, **SIZES[name])
    ).save_pretrained(work / name)
    bundled.tokenizer.save_pretrained(work / name)
    return str(work / name)


class Memory:
    """Samples of this process's resident memory, in MB, until it is left."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, int]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:
        self._begun = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.samples.append((round(time.perf_counter() - self._begun, 2), _resident()))
            if self._end.wait(0.25):
                return

    def at(self, share: float) -> int:
        """The largest sample in the tenth of the run that ends at `share` of it."""
        last = self.samples[-1][0] or 1.0
        return max(
            mb
            for when, mb in self.samples
            if when <= share * last + 0.25 and when >= (share - 0.1) * last - 0.25
        )


def straight(options: argparse.Namespace) -> dict[str, Any]:
    """One process: `unmask.score` end to end, then the bare encoder on the same rows."""
    begun = time.perf_counter()
    model = load(options.model, options.device, options.dtype)
    if not options.only_score:
        warm = islice(
            (line for _, line in numbered_lines(options.file)),
            WARM if model.device.type == "cuda" else 64,
        )
        score(list(warm), "pll", model=model)
    ready = time.perf_counter() - begun
    found: dict[str, Any] = {
        "loading_and_warming_s": ready,
        "device": _device(model),
        "dtype": str(model.dtype)[6:],
    }
    loading = ModelSpec(options.model, device=options.device, dtype=options.dtype)
    with Memory() as memory:
        begun = time.perf_counter()
        score(options.file, model=loading, out=options.out, format="parquet", engine=options.engine)
        found["score_s"] = time.perf_counter() - begun
    found |= {
        "memory_mb": {
            "first_tenth": memory.at(0.1),
            "middle": memory.at(0.5),
            "end": memory.at(1.0),
        }
    }
    found["memory_samples"] = memory.samples
    if model.device.type == "cuda":
        found["gpu_peak_mb"] = torch.cuda.max_memory_allocated() // 2**20
    if options.engine == "local" and not options.only_score:
        rows = rows_by_length(options.out, model)
        found["rows"] = sum(rows.values())
        found["bare_s"], found["passes_s"] = encoder_seconds(model, rows)
    return found


def rows_by_length(out: Path, model: MaskedLM) -> Counter[int]:
    """How many rows of each number of tokens the texts of a run have; equal texts of a chunk
    once.
    """
    import pandas

    frame = pandas.read_parquet(out / "scores.parquet", columns=["item", "text", "length"])
    frame["chunk"] = (frame["item"] - 1) // CHUNK_TEXTS[model.device.type]
    frame = frame.drop_duplicates(["chunk", "text"])
    around = sum(map(len, model.around()))
    return Counter(
        {
            int(length) + around: int(length) * int(n)
            for length, n in frame["length"].value_counts().items()
            if length
        }
    )


@torch.no_grad()
def encoder_seconds(model: MaskedLM, rows: Counter[int]) -> tuple[float, float]:
    """Seconds of the bare encoder, and of our passes, over these rows."""
    on_gpu = model.device.type == "cuda"
    usual = rows.most_common(1)[0][0]
    sizes = [GPU_TOKENS >> shift for shift in range(4)] if on_gpu else [CPU_TOKENS, CPU_TOKENS // 4]
    encoder = model.network.base_model

    def texts(length: int, tokens: int) -> torch.Tensor:
        return torch.randint(1000, 8000, (max(1, tokens // length), length), device=model.device)

    def bare(ids: torch.Tensor) -> object:
        return encoder(input_ids=ids)

    def ours(ids: torch.Tensor) -> object:
        return model.logits(
            ids, torch.ones((len(ids), 1), dtype=torch.long, device=ids.device)
        ).logsumexp(-1)

    found = []
    with passes():
        for way in (bare, ours):
            best = min(
                sizes, key=lambda size: _seconds(way, texts(usual, size), 5 if on_gpu else 1) / size
            )
            total = 0.0
            for length, n in rows.items():
                ids = texts(length, best)
                batches = min(MOST_BATCHES if on_gpu else 2, -(-n // len(ids)))
                total += _seconds(way, ids[:n], batches) * n / len(ids[:n])
            found.append(total)
    return found[0], found[1]


def _seconds(way: Any, ids: torch.Tensor, times: int) -> float:
    """Per call, after a first one."""
    way(ids)
    if ids.is_cuda:
        torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        way(ids)
    if ids.is_cuda:
        torch.cuda.synchronize()
    return (time.perf_counter() - begun) / times


def killed_and_resumed(options: argparse.Namespace, expected: Path) -> dict[str, Any]:
    """A process killed when two fifths of the parts are there, and another that goes on."""
    out, parts = options.work / "killed", len(list((expected / "parts").iterdir()))
    command = _command(options, out, "--only-score")
    with open(options.work / "killed.log", "w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        while process.poll() is None and len(list((out / "parts").glob("*.parquet"))) < max(
            1, parts * 2 // 5
        ):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kept = len(list((out / "parts").glob("*.parquet")))
        begun = time.perf_counter()
        again = subprocess.run(command, stdout=log, stderr=log, check=False).returncode
        seconds = time.perf_counter() - begun
    same = (out / "scores.parquet").read_bytes() == (expected / "scores.parquet").read_bytes()
    return {
        "parts": parts,
        "kept": kept,
        "exit_code": again,
        "resumed_s": seconds,
        "same_bytes": same,
        "apart": _apart(out, expected),
    }


def _apart(one: Path, other: Path) -> float:
    """The largest difference between the scores of two runs, in nats."""
    import pandas

    tables = [pandas.read_parquet(out / "scores.parquet") for out in (one, other)]
    return float((tables[0]["pll"] - tables[1]["pll"]).abs().max())


def on_ray(options: argparse.Namespace, expected: Path) -> dict[str, Any]:
    """The same texts on Ray, and how far its numbers are from those of one process."""
    workers = torch.cuda.device_count() if options.device == "cuda" else 2
    found = _child(options, options.work / "ray", "--engine", f"ray:{workers}")
    apart = _apart(options.work / "ray", expected)
    return {
        "workers": workers,
        "score_s": found["score_s"],
        "memory_mb": found["memory_mb"],
        "largest_difference": apart,
    }


def _command(options: argparse.Namespace, out: Path, *more: str) -> list[str]:
    command = [
        sys.executable,
        __file__,
        "--run",
        str(options.file),
        "--out",
        str(out),
        "--device",
        options.device,
    ]
    return [
        *command,
        "--dtype",
        options.dtype,
        *(["--model", options.model] if options.model else []),
        *more,
    ]


def _child(options: argparse.Namespace, out: Path, *more: str) -> dict[str, Any]:
    quiet = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        _command(options, out, *more), stdout=subprocess.PIPE, check=True, text=True, env=quiet
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def report(found: dict[str, Any]) -> str:
    """The table."""
    n, run = found["lines"], found["score"]
    memory = run["memory_mb"]
    lines = [
        (
            f"{n:,} texts, {found['tokens']:,} tokens, {run['rows']:,} rows; {found['model']},"
            f" {run['dtype']}, {run['device']}"
        ),
        "",
        "| | seconds | sentences per second | share of the bare encoder |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, key in (
        ("bare encoder", "bare_s"),
        ("passes of `unmask score` alone", "passes_s"),
        ("`unmask.score`", "score_s"),
    ):
        lines.append(
            f"| {name} | {run[key]:.1f} | {n / run[key]:,.0f} | {run['bare_s'] / run[key]:.0%} |"
        )
    if ray := found.get("ray"):
        lines.append(
            f"| Ray, {ray['workers']} workers | {ray['score_s']:.1f} |"
            f" {n / ray['score_s']:,.0f} | |"
        )
    lines += [
        "",
        "resident memory: {first_tenth} MB in the first tenth, {middle} in the middle, {end} at"
        " the end".format(**memory)
        + (f"; GPU at most {run['gpu_peak_mb']:,} MB" if "gpu_peak_mb" in run else ""),
        (
            f"beside the passes: {(run['score_s'] - run['passes_s']) / n * 1e6:.1f} microseconds"
            " per text"
        ),
    ]
    if killed := found.get("killed"):
        same = (
            "the same bytes"
            if killed["same_bytes"]
            else f"scores at most {killed['apart']:.1e} nats apart"
        )
        lines.append(
            f"killed with {killed['kept']} of {killed['parts']} parts, resumed in"
            f" {killed['resumed_s']:.1f} s: {same}"
        )
    if ray:
        lines.append(
            f"Ray's numbers are at most {ray['largest_difference']:.1e} nats from those of one"
            " process"
        )
    return "\n".join(lines)


def _device(model: MaskedLM) -> str:
    return (
        torch.cuda.get_device_name()
        if model.device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )


def _resident() -> int:
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]


def main(options: argparse.Namespace) -> None:
    """Prepare the texts, and run."""
    if options.run:
        options.file = options.run
        print(json.dumps(straight(options)))
        return
    if options.prepare:
        with open(options.prepare, "w", encoding="utf-8") as file:
            file.writelines(
                line + "\n" for line in islice(sentences(options.corpus), options.lines)
            )
        print(f"{options.prepare}: {options.prepare.stat().st_size / 2**20:.1f} MiB")
        return
    options.work = Path(tempfile.mkdtemp(prefix="million"))
    try:
        options.file = options.work / "texts.txt"
        with open(options.file, "w", encoding="utf-8") as file:
            file.writelines(
                line + "\n" for line in islice(sentences(options.corpus), options.lines)
            )
        options.model = model_folder(named := options.model, options.work)
        whole = options.work / "whole"
        found: dict[str, Any] = {"model": named or "bundled model", "score": _child(options, whole)}
        import pandas

        lengths = pandas.read_parquet(whole / "scores.parquet", columns=["length"])["length"]
        found |= {"lines": len(lengths), "tokens": int(lengths.sum())}
        if not options.only_whole:
            found["killed"] = killed_and_resumed(options, whole)
        if find_spec("ray") and not options.only_whole:
            found["ray"] = on_ray(options, whole)
        print(report(found), flush=True)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1))
    finally:
        shutil.rmtree(options.work, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--prepare", type=Path, metavar="FILE")
    parser.add_argument("--model")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--only-whole", action="store_true", help="without the kill, and without Ray"
    )
    parser.add_argument("--only-score", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--engine", default="local", help=argparse.SUPPRESS)
    main(parser.parse_args())
