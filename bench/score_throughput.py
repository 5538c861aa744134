"""Sentences per second of `unmask score`, beside minicons in one run on a CPU, and beside the
bare encoder on a GPU.

    python bench/score_throughput.py cpu --sentences snli-dev.txt --paragraphs english.valid.txt
        [--minicons FOLDER] [--threads 2]
    python bench/score_throughput.py gpu --sentences snli-dev.txt [--dtype float16]

cpu   pll of `--count` sentences and of 50 paragraphs of 90 to 126 tokens, by the bundled model
      in float32. The two sides take turns, block by block, so that other work on the machine
      falls on both. minicons is given the sentences one by one and in batches of ten, and its
      faster way counts. Both must agree to 1e-4 per token; so must pll_word. Then each side
      scores the paragraphs once more in a process of its own, for its peak memory, and unmask a
      text of 350 words in windows. minicons (pip install --no-deps --target FOLDER minicons
      wonderwords) calls a tokenizer method that newer versions of transformers have dropped; it
      is given back its name here.
gpu   pll rows per second on a BERT-base of random weights, and the rate at which its encoder
      alone passes the same rows; any_order, exact, of sentences of ten tokens by the bundled
      model.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from unmask.models.checkpoint_files import english_model_path
from unmask.models.masked_lm import MaskedLM
from unmask.scoring.scored_batch import score_batch
from unmask.scoring.scores.pll import PLL
from unmask.scoring.text_batch import TextBatch
from unmask.verbs.score import score

Side = Callable[[Sequence[str]], list[list[float]]]
"""From texts to the log-probability of each of their tokens."""


def unmask_side(names: str = "pll") -> Side:
    """Ours."""
    model = MaskedLM.load(device="cpu")

    def run(texts: Sequence[str]) -> list[list[float]]:
        rows = score(list(texts), names, model=model, rows="nested")
        return [[-token[f"{names}_surprisal"] for token in row["tokens"]] for row in rows]

    return run


def minicons_side(batch: int, metric: str = "original") -> Side:
    """minicons, in batches."""
    from minicons.scorer import MaskedLMScorer

    scorer = MaskedLMScorer(str(english_model_path()), "cpu")
    scorer.model.float()
    if not hasattr(scorer.tokenizer, "batch_encode_plus"):
        scorer.tokenizer.batch_encode_plus = scorer.tokenizer.__call__

    def run(texts: Sequence[str]) -> list[list[float]]:
        found: list[list[float]] = []
        for start in range(0, len(texts), batch):
            prepared = scorer.prepare_text(list(texts[start : start + batch]), PLL_metric=metric)
            found += scorer.compute_stats(prepared)
        return found

    return run


def take_turns(
    sides: dict[str, Side], texts: Sequence[str], block: int
) -> tuple[dict[str, float], dict[str, list[list[float]]]]:
    """Seconds of each side over all texts, and what it found."""
    seconds, found = dict.fromkeys(sides, 0.0), {name: [] for name in sides}
    for start in range(0, len(texts), block):
        part = texts[start : start + block]
        for name, side in sides.items():
            begun = time.perf_counter()
            found[name] += side(part)
            seconds[name] += time.perf_counter() - begun
    return seconds, found


def apart(one: list[list[float]], other: list[list[float]]) -> float:
    """The largest difference of a token's log-probability."""
    return max(
        abs(a - b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True)
    )


def on_cpu(options: argparse.Namespace) -> None:
    """Both sides, in turns."""
    torch.set_num_threads(options.threads)
    tokens_of = MaskedLM.load(device="cpu").words.encode
    sentences = _lines(options.sentences)[: options.count]
    readable = [
        text for text in _lines(options.paragraphs) if len(text) < 900 and text.isprintable()
    ]
    paragraphs = [text for text in readable if 90 <= len(tokens_of(text)) <= 126][:50]
    sides = {"unmask": unmask_side()} | (
        {} if options.alone else {"minicons 1": minicons_side(1), "minicons 10": minicons_side(10)}
    )
    for what, texts, block in (("sentences", sentences, 250), ("paragraphs", paragraphs, 10)):
        chosen = {
            name: side
            for name, side in sides.items()
            if what == "sentences" or name != "minicons 10"
        }
        for side in chosen.values():
            side(texts[:2])
        seconds, found = take_turns(chosen, texts, block)
        print(f"\n{len(texts)} {what}, {options.threads} threads")
        for name, spent in seconds.items():
            print(f"  {name:12} {spent:8.1f} s {len(texts) / spent:8.2f} per second")
        if not options.alone:
            best = min(spent for name, spent in seconds.items() if name != "unmask")
            difference = apart(found["unmask"], found["minicons 1"])
            print(
                f"  ratio {best / seconds['unmask']:.2f}; tokens apart by {difference:.1e} at most"
            )
    if not options.alone:
        difference = apart(
            unmask_side("pll_word")(sentences[:100]),
            minicons_side(1, "within_word_l2r")(sentences[:100]),
        )
        print(f"\npll_word of 100 sentences: tokens apart by {difference:.1e} at most")
    print(
        "\npeak memory of a process that scores the paragraphs, and (unmask) a text of 350 words in"
        " windows"
    )
    for name in sides:
        if name != "minicons 10":
            print(f"  {name:12} {_peak(name, paragraphs, options)}")


def memory_of(options: argparse.Namespace) -> None:
    """What a subprocess runs: one side on the texts of standard input."""
    torch.set_num_threads(options.threads)
    texts = json.load(sys.stdin)
    side = unmask_side() if options.side == "unmask" else minicons_side(1)
    side(texts[:1])
    loaded = _megabytes()
    side(texts)
    after = _megabytes()
    words = " ".join(texts).split()[:350]
    if options.side == "unmask":
        score(" ".join(words), "pll", model=MaskedLM.load(device="cpu"), long="windows")
    windows = _megabytes() if options.side == "unmask" else "-"
    print(f"loaded {loaded} MB, after the paragraphs {after} MB, after 350 words {windows} MB")


def on_gpu(options: argparse.Namespace) -> None:
    """pll beside the bare encoder, and any_order."""
    from transformers import BertConfig, BertForMaskedLM

    dtype = getattr(torch, options.dtype)
    bundled = MaskedLM.load(device="cuda", dtype=options.dtype)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=28996)
    model = MaskedLM(BertForMaskedLM(config).to("cuda", dtype), bundled.tokenizer)
    for length in (16, 32, 128):
        texts = 2**17 // length
        ids = torch.randint(1000, 8000, (texts, length), device="cuda")
        regular = torch.ones_like(ids, dtype=torch.bool)
        regular[:, [0, -1]] = False
        batch, settings = TextBatch.of(ids, regular=regular), [PLL()]
        rows = texts * (length - 2)
        ours = rows / _seconds(
            lambda batch=batch, settings=settings: score_batch(model, batch, settings), 3
        )
        bare = max(
            _bare(model.network.base_model, ids, size)
            for size in (2**13 // length, 2**15 // length, 2**17 // length)
        )
        print(
            f"BERT-base, {length} tokens: pll {ours:,.0f} rows/s; bare encoder {bare:,.0f} rows/s;"
            f" share {ours / bare:.0%}"
        )
    tens = [text for text in _lines(options.sentences) if len(bundled.words.encode(text)) == 12][
        : options.count
    ]
    for name in ("pll", "any_order"):
        spent = _seconds(lambda name=name: score(tens, name, model=bundled), 2)
        print(
            f"bundled model, {len(tens)} sentences of 10 tokens: {name} {len(tens) / spent:,.1f}"
            " sentences/s"
        )


@torch.no_grad()
def _bare(encoder: Any, ids: torch.Tensor, size: int) -> float:
    """Rows per second of the encoder alone, in batches of `size` rows."""
    return size / _seconds(lambda: encoder(input_ids=ids[:size]), 20)


def _seconds(work: Callable[[], object], times: int) -> float:
    work()
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / times


def _peak(name: str, texts: Sequence[str], options: argparse.Namespace) -> str:
    command = [
        sys.executable,
        __file__,
        "memory",
        "--side",
        name.split()[0],
        "--threads",
        str(options.threads),
    ]
    command += ["--minicons", str(options.minicons)] if options.minicons else []
    done = subprocess.run(
        command, input=json.dumps(list(texts)), capture_output=True, text=True, check=True
    )
    return done.stdout.strip().splitlines()[-1]


def _megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("where", choices=("cpu", "gpu", "memory"))
    parser.add_argument("--sentences", type=Path)
    parser.add_argument("--paragraphs", type=Path)
    parser.add_argument("--minicons", type=Path, help="folder that minicons was installed to")
    parser.add_argument("--alone", action="store_true", help="without minicons")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--side", default="unmask")
    given = parser.parse_args()
    if given.minicons:
        sys.path.insert(0, str(given.minicons))
    {"cpu": on_cpu, "gpu": on_gpu, "memory": memory_of}[given.where](given)
