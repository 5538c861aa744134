"""Pair tables and scores for networks of many architectures, beside a plain loop over
transformers and the arithmetic's floor.

    PYTHONPATH=src python bench/architectures.py [--device cuda] [--shapes bert-base,bert-large]
        [--lengths 16,64] [--out FILE]
    PYTHONPATH=src python bench/architectures.py --quick            small shapes, for two cores

Networks have the shapes of published ones and random weights. For each shape and length

    tables   all log-probabilities of pairs over candidates (the whole vocabulary if it is
             small): two rows per candidate and pair
    pll      the pseudo-log-likelihood of texts, of long ones at some of their tokens: one row
             per token

plain: the same rows in batches of 4,096 tokens (32,768 on a GPU) through the network as
transformers has it, logits everywhere and the wanted ones picked; it runs on a part of the rows
and is scaled up. The floor: the multiplications of these rows, each through the whole encoder
and the head at one position, at the rate of one large matrix product of this number format,
measured in the run. One line of JSON per case goes to --out as it is measured. `apart`: the
largest difference of a log-probability from plain.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from gpu_pair import random_cloze, tokenizer_of
from torch import Tensor
from transformers import AutoConfig, AutoModelForMaskedLM

from unmask.common.cloze import Cloze
from unmask.models.float32_logits import widen_output
from unmask.models.masked_lm import MaskedLM
from unmask.scoring.scored_batch import score_batch
from unmask.scoring.scores.pll import PLL
from unmask.scoring.text_batch import TextBatch
from unmask.tables.unary import tables_of

BERT = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}
LARGE = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}
ESM = {
    "hidden_size": 640,
    "num_hidden_layers": 30,
    "num_attention_heads": 20,
    "intermediate_size": 2560,
}
SHAPES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "bert-base": ("bert", 28_996, BERT),
    "modernbert-base": (
        "modernbert",
        50_368,
        {**BERT, "num_hidden_layers": 22, "intermediate_size": 1152},
    ),
    "esm2-150m": (
        "esm",
        33,
        {**ESM, "token_dropout": True, "position_embedding_type": "rotary", "mask_token_id": 4},
    ),
    "roberta-base": ("roberta", 50_265, {**BERT, "max_position_embeddings": 514}),
    "bert-large": ("bert", 28_996, LARGE),
}
QUICK = {
    "hidden_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 768,
}
PLAIN_TOKENS = {"cuda": 2**15, "cpu": 2**12}
SHARE = {"cuda": 8, "cpu": 2}
"""Plain runs on one row in this many."""
SPECIAL = {
    "pad_token_id": 0,
    "bos_token_id": 2,
    "cls_token_id": 2,
    "eos_token_id": 3,
    "sep_token_id": 3,
}


def network_of(shape: str, device: torch.device, dtype: torch.dtype, quick: bool) -> Any:
    """A network of this shape with random weights."""
    kind, vocabulary, settings = SHAPES[shape]
    settings = settings | (QUICK if quick else {})
    vocabulary = min(vocabulary, 8192) if quick else vocabulary
    config = AutoConfig.for_model(kind, vocab_size=vocabulary, **SPECIAL, **settings)
    torch.manual_seed(0)
    with torch.device(device):
        network = AutoModelForMaskedLM.from_config(config)
    return network.to(device, dtype).eval()


def best(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Seconds of the fastest of `repeats` runs."""
    found = []
    for _ in range(repeats):
        _wait(device)
        began = time.perf_counter()
        work()
        _wait(device)
        found.append(time.perf_counter() - began)
    return min(found)


def product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Multiplications per second of a large matrix product."""
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    return 10 * size**3 / best(lambda: [a @ b for _ in range(10)], device, 3)


def needed(network: Any, length: int) -> int:
    """Multiplications of one row: the encoder's matrices at each token, attention, the head at
    one position.
    """
    config, base = network.config, network.base_model
    tables = {id(part.weight) for part in base.modules() if isinstance(part, torch.nn.Embedding)}
    kept = [
        w
        for name, w in base.named_parameters()
        if w.dim() == 2 and id(w) not in tables and "pos_" not in name
    ]
    attention = 2 * config.num_hidden_layers * length * config.hidden_size
    return length * (sum(w.numel() for w in kept) + attention) + config.hidden_size * (
        config.hidden_size + config.vocab_size
    )


def plain_log_q(network: Any, rows: Tensor, positions: Tensor) -> Tensor:
    """Log-probabilities at one position of each row, batch by batch."""
    size = max(1, PLAIN_TOKENS[rows.device.type] // rows.shape[1])
    found = []
    with torch.no_grad():
        for some, at in zip(rows.split(size), positions.split(size), strict=True):
            logits = network(input_ids=some).logits
            found.append(
                logits[torch.arange(len(some), device=some.device), at].float().log_softmax(-1)
            )
    return torch.cat(found)


class PairTables:
    """Pairs over candidates."""

    name = "tables"

    def __init__(self, model: MaskedLM, length: int, tokens: int) -> None:
        self.model = model
        whole = model.vocab_size < 256
        size = model.vocab_size if whole else min(model.vocab_size - 5, max(8, tokens // length))
        pairs = max(1, tokens // (length * size)) if whole else 1
        self.clozes: list[Cloze] = [
            random_cloze(model, length, seed) for seed in range(1, pairs + 1)
        ]
        generator = torch.Generator().manual_seed(0)
        self.candidates = (
            torch.arange(size)
            if whole
            else 5 + torch.randperm(model.vocab_size - 5, generator=generator)[:size]
        )
        self.rows = 2 * size * pairs

    def ours(self) -> Any:
        sets = None if len(self.candidates) == self.model.vocab_size else [self.candidates] * 2
        return tables_of(self.model, self.clozes, [sets] * len(self.clozes))

    def plain(self, network: Any, share: int) -> tuple[int, Callable[[], Tensor]]:
        """How many rows, and a run that gives log q of the second blank over the candidates,
        the first varied.
        """
        cloze, device = self.clozes[0], self.model.device
        count = (
            max(1, len(self.candidates) // share) if len(self.clozes) == 1 else len(self.candidates)
        )
        values = self.candidates[:count].to(device)
        pairs = max(1, len(self.clozes) // share)
        texts = []
        for cloze in self.clozes[:pairs]:
            rows = torch.tensor(cloze.ids, device=device).repeat(count, 1)
            rows[:, cloze.block[0]] = values
            texts.append(rows)
        rows, positions = (
            torch.cat(texts),
            torch.full((count * pairs,), cloze.block[1], device=device),
        )
        return len(rows), lambda: plain_log_q(network, rows, positions)[
            :count, self.candidates.to(device)
        ].log_softmax(-1)

    def apart(self, found: Any, plain: Tensor) -> float:
        return float((found[0].log_q[1][: len(plain)].float() - plain).abs().max())


class Pll:
    """Texts, each token masked in turn."""

    name = "pll"

    def __init__(self, model: MaskedLM, length: int, tokens: int) -> None:
        self.model = model
        rows = max(1, 2 * tokens // length)
        texts = max(1, rows // (length - 2))
        self.sites = torch.arange(
            1, length - 1, max(1, texts * (length - 2) // rows), device=model.device
        )
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(5, model.vocab_size, (texts, length), generator=generator).to(
            model.device
        )
        self.ids, self.batch = ids, TextBatch.of(ids, self.sites.expand(texts, -1))
        self.rows = texts * len(self.sites)

    def ours(self) -> Any:
        return score_batch(self.model, self.batch, [PLL()])

    def plain(self, network: Any, share: int) -> tuple[int, Callable[[], Tensor]]:
        """How many rows, and a run that gives the sums of the first texts."""
        texts = max(1, len(self.ids) // share)
        rows = self.ids[:texts].repeat_interleave(len(self.sites), 0)
        positions = self.sites.repeat(texts)
        targets = rows.gather(1, positions[:, None])
        rows[torch.arange(len(rows), device=rows.device), positions] = self.model.mask_id

        def run() -> Tensor:
            return (
                plain_log_q(network, rows, positions).gather(1, targets).reshape(texts, -1).sum(1)
            )

        return len(rows), run

    def apart(self, found: Any, plain: Tensor) -> float:
        return float(
            (found["pll"].values[: len(plain)].float() - plain).abs().max() / len(self.sites)
        )


def cases(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Each shape, length and task, measured."""
    device, dtype = torch.device(options.device), getattr(torch, options.dtype)
    rate = product_rate(device, dtype)
    for shape in options.shapes.split(","):
        network = network_of(shape, device, dtype, options.quick)
        fast = copy.deepcopy(network)
        widen_output(fast)
        model = MaskedLM(fast, tokenizer_of(network.config.vocab_size))
        for length in map(int, options.lengths.split(",")):
            tokens = options.tokens if length <= 64 else options.tokens // 2
            for task in (PairTables(model, length, tokens), Pll(model, length, tokens)):
                rows, run = task.plain(network, SHARE[device.type])
                expected, found = run(), task.ours()
                taken = [
                    (best(run, device, 1), best(task.ours, device, 1))
                    for _ in range(options.repeats)
                ]
                plain, ours = (min(column) for column in zip(*taken, strict=True))
                plain *= task.rows / rows
                floor = task.rows * needed(network, length) / rate
                yield {
                    "shape": shape,
                    "task": task.name,
                    "length": length,
                    "rows": task.rows,
                    "seconds": round(ours, 4),
                    "ratio": round(plain / ours, 3),
                    "floors": round(ours / floor, 3),
                    "plain_floors": round(plain / floor, 3),
                    "fast": model.encoder is not None,
                    "apart": task.apart(found, expected),
                    "rate": rate,
                }
        del network, fast, model


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", help="float32 on a CPU, bfloat16 on a GPU")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--lengths", default="16,32,64,256,512")
    parser.add_argument("--tokens", type=int, help="tokens of one side of a table")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small shapes")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    on_gpu = options.device.startswith("cuda")
    options.dtype = options.dtype or ("bfloat16" if on_gpu else "float32")
    options.tokens = options.tokens or (2**18 if on_gpu else 2**11)
    for case in cases(options):
        print(
            "{shape:16} {task:6} {length:4} tokens {rows:7} rows {seconds:9.4f} s  ratio"
            " {ratio:6.2f}  floors {floors:6.2f}  plain {plain_floors:6.2f}  fast {fast}  apart"
            " {apart:.1e}".format(**case),
            flush=True,
        )
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
