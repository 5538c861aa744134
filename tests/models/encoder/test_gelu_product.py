"""A product with GELU within it, interpreted here, against the two operations in float32."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn
from torch.nn import functional

pytest.importorskip("triton")
if not os.environ.get("TRITON_INTERPRET"):
    pytest.skip("compiled here, and held by test_cuda.py beside this file", allow_module_level=True)


from unmask.models.encoder import gelu_product


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> nn.Linear:
    """A product whose sizes fill no program evenly, with results far out on both sides."""
    monkeypatch.setattr(gelu_product, "PROGRAM", {**gelu_product.PROGRAM, "TALL": 16, "WIDE": 16, "DEEP": 16})
    torch.manual_seed(0)
    module = nn.Linear(24, 40).requires_grad_(False)
    module.weight.mul_(6)
    return module


def test_it_is_the_product_and_then_exact_gelu(linear: nn.Linear) -> None:
    x = torch.randn(3, 13, 24)
    expected = functional.gelu(linear(x))
    found = gelu_product.linear_gelu(linear, x)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=2e-6)
    assert linear(x).amin() < -5 and linear(x).amax() > 5
    by_tanh = functional.gelu(linear(x), approximate="tanh")
    assert (by_tanh - expected).abs().amax() > 1e-4, "control: GELU with tanh would be seen"


def test_half_precision_is_rounded_once(linear: nn.Linear) -> None:
    x = torch.randn(5, 24).half()
    linear.half()
    expected = functional.gelu(functional.linear(x.float(), linear.weight.float(), linear.bias.float()))
    torch.testing.assert_close(gelu_product.linear_gelu(linear, x).float(), expected.half().float(), rtol=2e-3, atol=1e-6)
