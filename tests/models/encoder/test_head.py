"""A bias within a product of half precision."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from unmask.models import heads as head
from unmask.models.heads import BIAS_COLUMNS, Float32Output, extended


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_bias_beside_the_weights_is_added(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(64, 24, generator=generator).to(dtype), 9 * torch.randn(50, generator=generator)
    bias[:2] = torch.tensor([1e-6, 4000.3])
    both = extended(weight, bias)
    assert both is not None and both.dtype == dtype and both.shape == (64, 24 + BIAS_COLUMNS)
    x = torch.randn(5, 24, generator=generator).to(dtype)
    found = functional.pad(x, (0, BIAS_COLUMNS), value=1.0).double() @ both.double().T
    exact = functional.linear(x.double(), weight.double(), functional.pad(bias, (0, 14)).double())
    torch.testing.assert_close(found, exact, rtol=1e-7, atol=1e-7)
    rounded = functional.linear(x.double(), weight.double(), functional.pad(bias.to(dtype), (0, 14)).double())
    assert (rounded - exact).abs().max() > 1e-3, "control: a bias in half precision would be seen"


@pytest.mark.parametrize("large", [-1e9, -torch.inf, torch.nan])
def test_a_bias_beyond_half_precision_is_left_to_be_added(large: float) -> None:
    assert extended(torch.ones(8, 8).half(), torch.tensor([0.5, large, 1.0])) is None


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_many_rows_on_a_gpu_have_the_logits_of_few(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(320, 8190, device="cuda", dtype=dtype).requires_grad_(False)
    linear.bias.mul_(100)
    output = Float32Output.of(linear)
    hidden = torch.randn(head.MANY, 1, 320, device="cuda", dtype=dtype)
    many, few = output(hidden), output(hidden[:5])
    assert many.shape == (head.MANY, 1, 8190) and many.dtype == torch.float32
    torch.testing.assert_close(many[:5], few, rtol=1e-5, atol=1e-4)
    assert set(output.state_dict()) == {"weight", "bias"}
