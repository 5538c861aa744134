"""The encoder's GPU kernels against torch's operations, through Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn
from torch.nn import functional

pytest.importorskip("triton")
if not os.environ.get("TRITON_INTERPRET"):
    pytest.skip("compiled here, and held by test_cuda.py beside this file", allow_module_level=True)

from unmask.models.encoder import triton_programs
from unmask.models.encoder.triton_programs import add_norm, short_attention


@pytest.mark.parametrize("length", [5, 16, 21])
def test_short_attention_is_attention(length: int) -> None:
    heads, width = 4, 64
    stacked = torch.randn(3, length, 3 * width, generator=torch.Generator().manual_seed(length))
    queries, keys, values = stacked.split(width, -1)
    split = [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (queries, keys, values)]
    expected = functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
    found = short_attention(queries, keys, values, heads)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert (short_attention(queries, keys.flip(1), values, heads) - expected).abs().max() > 0.1


def test_add_norm_is_the_norm_of_the_sum() -> None:
    generator = torch.Generator().manual_seed(0)
    norm = nn.LayerNorm(48)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(48, generator=generator))
        norm.bias.copy_(torch.randn(48, generator=generator))
        x, residual = torch.randn(2, 3, 5, 48, generator=generator)
        torch.testing.assert_close(add_norm(norm, x, residual), norm(x + residual), rtol=1e-5, atol=1e-5)
        assert (add_norm(norm, x, -residual) - norm(x + residual)).abs().max() > 0.1


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> nn.Linear:
    """A product whose sizes fill no program evenly, with results far out on both sides."""
    monkeypatch.setattr(triton_programs, "PROGRAM", {**triton_programs.PROGRAM, "TALL": 16, "WIDE": 16, "DEEP": 16})
    torch.manual_seed(0)
    module = nn.Linear(24, 40).requires_grad_(False)
    module.weight.mul_(6)
    return module


def test_it_is_the_product_and_then_exact_gelu(linear: nn.Linear) -> None:
    x = torch.randn(3, 13, 24)
    expected = functional.gelu(linear(x))
    found = triton_programs.linear_gelu(linear, x)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=2e-6)
    assert linear(x).amin() < -5 and linear(x).amax() > 5
    by_tanh = functional.gelu(linear(x), approximate="tanh")
    assert (by_tanh - expected).abs().amax() > 1e-4, "control: GELU with tanh would be seen"


def test_half_precision_is_rounded_once(linear: nn.Linear) -> None:
    x = torch.randn(5, 24).half()
    linear.half()
    expected = functional.gelu(functional.linear(x.float(), linear.weight.float(), linear.bias.float()))
    torch.testing.assert_close(triton_programs.linear_gelu(linear, x).float(), expected.half().float(), rtol=2e-3, atol=1e-6)
