"""Speed and error of `pll` in lower precision on a CPU, beside float32 in one run.

    python bench/score_precision.py sentences.txt [--count 100] [--repeats 2] [--model FOLDER]
        [--threads 1]

Processor time of scoring the first `--count` lines, the least of `--repeats`; the ways take
turns. The error is that of a token's log-probability, in nats, against float32.

bfloat16, float16   `--dtype`, as `unmask score` has it
int8 rows           the encoder's products in int8: each token's vector, and each row of a
                    weight, divided by its largest entry and rounded to -127 ... 127;
                    `torch._int_mm`, and two more passes over its result
int8 batch          torch's dynamic quantisation: one scale for all tokens of a batch, so
                    numbers depend on the other texts

The last line has the share of time in the first layer's projections. Copies of a text that
differ in one mask could share them. `ONEDNN_MAX_CPU_ISA=AVX512_CORE_VNNI` before the command
shows a processor that has products of int8 and none of bfloat16.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.models.encoder import layers
from unmask.models.encoder.layers import Layer
from unmask.models.masked_lm import MaskedLM
from unmask.verbs.score import score

Product = Callable[[Tensor, Any], Tensor]
"""From vectors and a linear map to what the map makes of them."""
_kept: dict[tuple[str, int], Any] = {}


def by_rows(x: Tensor, part: Any) -> Tensor:
    """W x + b with a scale for each token and each output."""

    def prepared() -> tuple[Tensor, Tensor]:
        scale = part.weight.abs().amax(1).clamp(min=1e-30) / 127
        return (part.weight / scale[:, None]).round().to(torch.int8).T.contiguous(), scale

    weight, scale = _once("rows", part, prepared)
    flat = x.reshape(-1, x.shape[-1])
    each = flat.abs().amax(1, keepdim=True).clamp_(min=1e-30).div_(127)
    found = torch._int_mm((flat / each).round_().to(torch.int8), weight).float().mul_(each)
    return torch.addcmul(part.bias, found, scale).unflatten(0, x.shape[:-1])


def by_batch(x: Tensor, part: Any) -> Tensor:
    """W x + b by torch's dynamic quantisation."""

    def prepared() -> Any:
        scale = part.weight.abs().amax(1).clamp(min=1e-30).double() / 127
        zeros = torch.zeros(len(scale), dtype=torch.long)
        quantised = torch.quantize_per_channel(part.weight.detach(), scale, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(quantised, part.bias)

    found: Tensor = torch.ops.quantized.linear_dynamic(x, _once("batch", part, prepared))
    return found


def _once(kind: str, part: Any, prepared: Callable[[], Any]) -> Any:
    key = (kind, part.weight.data_ptr())
    if key not in _kept:
        _kept[key] = prepared()
    return _kept[key]


def with_products(product: Product, work: Callable[[], Any]) -> Any:
    """work(), while the encoder's layers take these products."""
    plus, then = layers.linear_plus, layers.activated

    def linear_plus(
        part: Any, x: Tensor, residual: Tensor | None = None, fused: bool = True
    ) -> Tensor:
        found = product(x, part)
        return found if residual is None else found.add_(residual)

    layers.linear_plus = linear_plus
    layers.activated = lambda part, activation, x, gates=False, fused=True: activation(
        product(x, part)
    )
    try:
        return work()
    finally:
        layers.linear_plus, layers.activated = plus, then


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(given.threads)
    lines = [
        line.strip()
        for line in given.sentences.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ][: given.count]
    models = {
        dtype: MaskedLM.load(given.model, "cpu", dtype)
        for dtype in ("float32", "bfloat16", "float16")
    }

    def scored(dtype: str = "float32") -> Tensor:
        rows = score(lines, "pll", model=models[dtype], rows="nested")
        return torch.tensor(
            [-token["pll_surprisal"] for row in rows for token in row.get("tokens") or ()]
        )

    ways: dict[str, Callable[[], Tensor]] = {
        dtype: lambda dtype=dtype: scored(dtype) for dtype in models
    }
    scored()  # the fast path is checked here, in float32
    ways["int8 rows"] = lambda: with_products(by_rows, scored)
    ways["int8 batch"] = lambda: with_products(by_batch, scored)
    spent, found = dict.fromkeys(ways, float("inf")), {}
    for _ in range(given.repeats + 1):
        for name, way in ways.items():
            begun = time.process_time()
            found[name] = way()
            spent[name] = min(spent[name], time.process_time() - begun)
    print(f"{len(lines)} texts, {len(found['float32'])} tokens; {given.threads} threads")
    print(
        f"{'':12} {'seconds':>8} {'ratio':>6} {'mean error':>11} {'mean size':>10} {'largest':>8}"
    )
    for name, numbers in found.items():
        error, ratio = numbers - found["float32"], spent["float32"] / spent[name]
        errors = f"{error.mean():11.4f} {error.abs().mean():10.4f} {error.abs().max():8.3f}"
        print(f"{name:12} {spent[name]:8.2f} {ratio:6.2f} {errors}")
    print(
        f"first layer's projections: {_share(models['float32'], scored) / spent['float32']:.1%} of"
        " float32's time"
    )


def _share(model: MaskedLM, work: Callable[[], Tensor]) -> float:
    """Seconds in the first layer's projections."""
    assert model.encoder
    first, plain, spent = model.encoder.layers[0], Layer.project, 0.0

    def project(self: Layer, normed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nonlocal spent
        begun = time.process_time()
        out = plain(self, normed)
        spent += time.process_time() - begun if self is first else 0.0
        return out

    Layer.project = project  # type: ignore[method-assign]
    work()
    Layer.project = plain  # type: ignore[method-assign]
    return spent


if __name__ == "__main__":
    main()
