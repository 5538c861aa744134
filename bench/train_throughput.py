"""Tokens per second of `unmask train`'s step, and the share of the card's arithmetic peak,
beside the library's own forward pass.

    PYTHONPATH=src python bench/train_throughput.py [--shape shipped pilot base] [--steps 30]
        [--peak 990] [--no-plain]

A step is everything a run does: rows from memory, masks, forward, backward, clipping,
optimiser. Rows are full (segments of 24 tokens for the small shapes, of 128 for BERT-base).
Arithmetic counted for a token: three times (forward, and twice that backward) 24 L d^2 + 4 L n
d for L layers of width d and segments of n tokens, and 2 (d^2 + d V) for each masked position.
The plain side trains the same shape on the same tokens through BertForMaskedLM's own forward in
bfloat16, one segment per row, labels at the same share of positions, uncompiled, as a short
script would.
"""

from __future__ import annotations

import argparse
import dataclasses
import time

import numpy as np
import torch
from tokenizers import Tokenizer, models

from unmask.studies.training.corpus import TrainingData
from unmask.studies.training.masking.scheme import SCHEMES
from unmask.studies.training.packing import PackedRows
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.trainer import Trainer

# name: layers, width, heads, vocabulary, tokens of a segment, row length, tokens per step
SHAPES = {
    "shipped": (5, 320, 5, 8192, 24, 128, 131072),
    "pilot": (6, 256, 4, 8192, 24, 128, 65536),
    "base": (12, 768, 12, 28672, 128, 128, 65536),
    "toy": (2, 64, 2, 512, 16, 64, 2048),
}


def made_up_data(vocab: int, segment: int, row: int, batch_tokens: int) -> TrainingData:
    """Rows full of random tokens: enough for eight batches."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(vocab - 5))]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(words[:5])
    rows, per_row = 8 * batch_tokens // row, row // segment
    ids = np.zeros((rows, row), np.uint16)
    body = np.random.default_rng(0).integers(5, vocab, (rows, per_row, segment))
    body[:, :, 0], body[:, :, -1] = 2, 3
    ids[:, : per_row * segment] = body.reshape(rows, -1)
    packed = PackedRows(ids, rows * per_row, rows * per_row * segment)
    return TrainingData(
        tokenizer=tokenizer,
        packed=packed,
        valid=packed,
        sources=(),
        source_tokens=(),
        held_out="",
        fingerprint="",
    )


def flops_per_token(
    layers: int, width: int, vocab: int, segment: int, masked_share: float
) -> float:
    """Floating-point operations of training on one token."""
    encoder = layers * (24 * width**2 + 4 * segment * width)
    return 3 * (encoder + masked_share * 2 * (width**2 + width * vocab))


def seconds_per_step(step, steps: int, device: torch.device) -> float:  # type: ignore[no-untyped-def]
    """Wall time of a step after warming up, device work included."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    for n in range(5):
        step(n)
    wait()
    began = time.perf_counter()
    for n in range(steps):
        step(n)
    wait()
    return (time.perf_counter() - began) / steps


def plain_step(trainer: Trainer, segment: int, share: float):  # type: ignore[no-untyped-def]
    """A training step as a short script writes it: BertForMaskedLM with labels, autocast, AdamW."""
    from transformers import BertConfig, BertForMaskedLM

    shape, device = trainer.model.config, trainer.device
    model = BertForMaskedLM(
        BertConfig(
            **dataclasses.asdict(shape), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
    ).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), 1e-4)
    rows = trainer.settings.batch_tokens // segment
    generator = torch.Generator(device).manual_seed(0)

    def step(n: int) -> None:
        ids = torch.randint(
            5, trainer.vocabulary.size, (rows, segment), generator=generator, device=device
        )
        mask = torch.rand(ids.shape, generator=generator, device=device) < share
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            out = model(input_ids=ids.masked_fill(mask, 4), labels=ids.masked_fill(~mask, -100))
        optimiser.zero_grad()
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return step


def print_profile(trainer: Trainer, device: torch.device) -> None:
    """The kernels that take most of the time of three steps."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
    with profile(activities=kinds) as found:
        for n in range(3):
            trainer.step(n)
        if device.type == "cuda":
            torch.cuda.synchronize()
    key = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    rows = sorted(found.key_averages(), key=lambda row: -getattr(row, key))
    total = sum(getattr(row, key) for row in rows) / 3e3
    print(f"  {total:.1f} ms of {'device' if device.type == 'cuda' else 'CPU'} time per step")
    for row in rows[:22]:
        print(
            f"    {getattr(row, key) / 3e3:7.3f} ms  {row.count // 3:4d} x  {row.key[:90]}",
            flush=True,
        )


def main() -> None:
    """Print one block per shape."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", nargs="+", choices=sorted(SHAPES), default=["shipped", "base"])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument(
        "--peak", type=float, default=990.0, help="dense bfloat16 TFLOP/s of the card"
    )
    parser.add_argument("--optimiser", default="muon")
    parser.add_argument("--row", type=int, help="row length, instead of the shape's own")
    parser.add_argument("--masking", default="uniform:0.05-0.45")
    parser.add_argument("--no-plain", action="store_true")
    parser.add_argument("--profile", action="store_true", help="print where the device's time goes")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for name in options.shape:
        layers, width, heads, vocab, segment, row, batch = SHAPES[name]
        row = options.row or row
        settings = TrainSettings(
            layers=layers,
            width=width,
            heads=heads,
            vocab=vocab,
            max_length=row,
            batch_tokens=batch,
            steps=10**6,
            masking=options.masking,
            optimiser=options.optimiser,
        )
        began = time.perf_counter()
        trainer = Trainer(settings, made_up_data(vocab, segment, row, batch), device)
        trainer.step(0)
        if device.type == "cuda":
            torch.cuda.synchronize()
        starting = time.perf_counter() - began
        share = SCHEMES.taken("masking", options.masking).moments(segment)[0]
        seconds = seconds_per_step(trainer.step, options.steps, device)
        tokens = batch * trainer.packed.fill
        rate = tokens / seconds
        achieved = rate * flops_per_token(layers, width, vocab, segment, share) / 1e12
        print(
            f"{name}: {layers} layers x {width}, vocabulary {vocab:,}, rows of {row} tokens,"
            f" {options.optimiser}, {device}"
        )
        peak = f"{achieved:.1f} TFLOP/s = {achieved / options.peak:.1%} of {options.peak:g}"
        print(f"  {rate:,.0f} tokens/s, {1e3 * seconds:.1f} ms per step, {peak}")
        print(f"  first step after {starting:.1f} s (compilation included)", flush=True)
        if options.profile:
            print_profile(trainer, device)
        if not options.no_plain:
            plain = tokens / seconds_per_step(
                plain_step(trainer, segment, share), max(3, options.steps // 4), device
            )
            print(
                f"  the library's own forward pass: {plain:,.0f} tokens/s; ratio {rate / plain:.1f}"
            )
        del trainer


if __name__ == "__main__":
    main()
