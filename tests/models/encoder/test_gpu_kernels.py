"""The encoder's GPU kernels against torch's operations, through Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch
from torch.nn import functional

pytest.importorskip("triton")
if not os.environ.get("TRITON_INTERPRET"):
    pytest.skip("compiled here, and held by test_cuda.py beside this file", allow_module_level=True)

from unmask.models.encoder.add_norm import add_norm
from unmask.models.encoder.short_attention import short_attention


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
    norm = torch.nn.LayerNorm(48)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(48, generator=generator))
        norm.bias.copy_(torch.randn(48, generator=generator))
        x, residual = torch.randn(2, 3, 5, 48, generator=generator)
        torch.testing.assert_close(add_norm(norm, x, residual), norm(x + residual), rtol=1e-5, atol=1e-5)
        assert (add_norm(norm, x, -residual) - norm(x + residual)).abs().max() > 0.1
