"""The encoder's GPU kernels against torch's operations, through Triton's interpreter."""

import os
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

pytest.importorskip("triton")
if not os.environ.get("TRITON_INTERPRET"):
    pytest.skip("compiled here, and held by test_cuda.py beside this file", allow_module_level=True)


from unmask.models import batching
from unmask.models.encoder import linear_maps, triton_programs
from unmask.models.encoder.layers import Turn
from unmask.models.encoder.triton_programs import (
    add_norm,
    linear_activated,
    long_attention,
    short_attention,
    turned,
)
from unmask.models.masked_lm import MaskedLM


def turn_of(length: int, width: int) -> Turn:
    angles = (
        torch.rand(length, width // 2, generator=torch.Generator().manual_seed(9)).repeat(1, 2) * 6
    )
    return Turn(angles.cos(), angles.sin())


def by_complex_numbers(x: Tensor, turn: Turn, heads: int) -> Tensor:
    """Each pair (x_i, x_(i + e/2)) as one number, times e^(i angle)."""
    first, second = x.unflatten(-1, (heads, 2, -1)).unbind(-2)
    product = (
        torch.complex(first, second) * torch.complex(turn.cos, turn.sin)[:, None, : first.shape[-1]]
    )
    return torch.cat([product.real, product.imag], -1).flatten(-2)


def attention(
    queries: Tensor, keys: Tensor, values: Tensor, heads: int, mask: Tensor | None = None
) -> Tensor:
    width = queries.shape[-1] // heads
    split = [x.unflatten(-1, (-1, width)).transpose(1, 2) for x in (queries, keys, values)]
    return functional.scaled_dot_product_attention(*split, mask).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("length", [5, 16, 21])
def test_short_attention_is_attention(length: int) -> None:
    heads, width = 4, 64
    stacked = torch.randn(3, length, 3 * width, generator=torch.Generator().manual_seed(length))
    queries, keys, values = stacked.split(width, -1)
    expected = attention(queries, keys, values, heads)
    result = short_attention(queries, keys, values, heads)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    assert (short_attention(queries, keys.flip(1), values, heads) - expected).abs().max() > 0.1


@pytest.mark.parametrize("length", [5, 21])
def test_short_attention_turns_and_keeps_to_its_window(length: int) -> None:
    heads, width, window = 4, 64, 3
    stacked = torch.randn(3, length, 3 * width, generator=torch.Generator().manual_seed(length))
    queries, keys, values = stacked.split(width, -1)
    turn, places = turn_of(length, width // heads), torch.arange(length)
    near = (places[:, None] - places).abs() <= window
    expected = attention(
        by_complex_numbers(queries, turn, heads),
        by_complex_numbers(keys, turn, heads),
        values,
        heads,
        near,
    )
    torch.testing.assert_close(
        short_attention(queries, keys, values, heads, turn, window), expected, rtol=1e-4, atol=1e-5
    )
    assert (
        short_attention(queries, keys, values, heads, turn, window + 1) - expected
    ).abs().max() > 0.01
    assert (
        short_attention(queries, keys, values, heads, None, window) - expected
    ).abs().max() > 0.1


@pytest.mark.parametrize(("length", "window"), [(21, 3), (70, 20), (70, None)])
def test_long_attention_keeps_to_its_window(
    length: int, window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_programs, "TILE", 16)
    stacked = torch.randn(2, length, 192, generator=torch.Generator().manual_seed(length))
    queries, keys, values = stacked.split(64, -1)
    places = torch.arange(length)
    near = (places[:, None] - places).abs() <= (length if window is None else window)
    expected = attention(queries, keys, values, 4, near)
    torch.testing.assert_close(
        long_attention(queries, keys, values, 4, window), expected, rtol=1e-4, atol=1e-5
    )
    assert (long_attention(queries, keys, values, 4, 4) - expected).abs().max() > 0.01


def test_turned_is_a_product_of_complex_numbers() -> None:
    x, turn = torch.randn(2, 7, 96, generator=torch.Generator().manual_seed(0)), turn_of(7, 16)
    torch.testing.assert_close(
        turned(x[..., :48], turn), by_complex_numbers(x[..., :48], turn, 3), rtol=1e-5, atol=1e-6
    )
    assert (turned(x, Turn(turn.cos, -turn.sin)) - turned(x, turn)).abs().max() > 0.1


@pytest.mark.parametrize("bias", [True, False])
def test_add_norm_is_the_norm_of_the_sum(bias: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    norm = nn.LayerNorm(48, bias=bias)
    with torch.no_grad():
        for weight in norm.parameters():
            weight.copy_(torch.randn(48, generator=generator))
        x, residual = torch.randn(2, 3, 5, 48, generator=generator) + 1
        for before in (False, True):
            total, normed = add_norm(norm, x, residual, before)
            torch.testing.assert_close(normed, norm(x + residual), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(
                total, x + residual if before else normed, rtol=1e-5, atol=1e-5
            )
        assert (add_norm(norm, x, -residual)[1] - norm(x + residual)).abs().max() > 0.1


@pytest.fixture
def linear(monkeypatch: pytest.MonkeyPatch) -> nn.Linear:
    """A product whose sizes fill no program evenly, with results far out on both sides."""
    for name in ("PROGRAM", "IN_PARTS"):
        monkeypatch.setattr(
            triton_programs, name, {**triton_programs.PROGRAM, "TALL": 16, "WIDE": 16, "DEEP": 16}
        )
    torch.manual_seed(0)
    module = nn.Linear(24, 40).requires_grad_(False)
    module.weight.mul_(6)
    return module


def test_it_is_the_product_and_then_exact_gelu(linear: nn.Linear) -> None:
    x = torch.randn(3, 13, 24)
    expected = functional.gelu(linear(x))
    result = linear_activated(linear, "gelu", x)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=2e-6)
    assert linear(x).amin() < -5
    assert linear(x).amax() > 5
    by_tanh = functional.gelu(linear(x), approximate="tanh")
    assert (by_tanh - expected).abs().amax() > 1e-4, "control: GELU with tanh would be seen"


def test_half_precision_is_rounded_once(linear: nn.Linear) -> None:
    x = torch.randn(5, 24).half()
    linear.half()
    expected = functional.gelu(
        functional.linear(x.float(), linear.weight.float(), linear.bias.float())
    )
    torch.testing.assert_close(
        linear_activated(linear, "gelu", x).float(), expected.half().float(), rtol=2e-3, atol=1e-6
    )


def test_products_in_float32_take_all_bits_of_both_factors(linear: nn.Linear) -> None:
    x = torch.randn(50, 24)
    exact = functional.linear(x.double(), linear.weight.double(), linear.bias.double())
    assert (linear_activated(linear, "none", x) - exact).abs().max() < 5e-6
    assert not triton_programs.is_exact(linear.weight)
    of_first_parts = functional.linear(x, triton_programs.parts(linear.weight)[0], linear.bias)
    assert (of_first_parts - exact).abs().max() > 2e-4, (
        "control: without the second part of the weights"
    )
    first, second = triton_programs.parts(x)
    assert torch.equal(first + second, x)
    assert not bool((first.view(torch.int32) & 8191).any())
    assert second.abs().max() < 2**-8


def test_weights_stored_in_half_precision_are_exact_until_they_change(linear: nn.Linear) -> None:
    linear.half().float()
    assert triton_programs.is_exact(linear.weight)
    assert triton_programs.is_exact(linear.weight)
    linear.weight.data[3, 5] += 1e-4
    assert bool(linear_activated(linear, "none", torch.randn(5, 24)).isnan().all()), (
        "a change that torch does not count"
    )
    linear.weight[3, 5] += 1e-4
    assert not triton_programs.is_exact(linear.weight), "slices are not looked at"
    assert not triton_programs.is_exact(linear.half().float().weight[:8]), (
        "slices are not looked at"
    )


@pytest.mark.parametrize(
    ("name", "activation"),
    [("gelu", functional.gelu), ("swish", functional.silu), ("relu", functional.relu)],
)
def test_gates_are_within_the_product(
    linear: nn.Linear, name: str, activation: Callable[[Tensor], Tensor]
) -> None:
    x = torch.randn(3, 13, 24)
    first, second = linear(x).chunk(2, -1)
    torch.testing.assert_close(
        linear_activated(linear, name, x, gates=True),
        activation(first) * second,
        rtol=1e-5,
        atol=1e-5,
    )
    torch.testing.assert_close(
        linear_activated(linear, name, x), activation(linear(x)), rtol=1e-5, atol=1e-5
    )
    without = nn.Linear(24, 48, bias=False).requires_grad_(False)
    first, second = without(x).chunk(2, -1)
    torch.testing.assert_close(
        linear_activated(without, name, x, gates=True),
        activation(first) * second,
        rtol=1e-5,
        atol=1e-5,
    )


def counted(patch: pytest.MonkeyPatch, name: str) -> list[None]:
    """One item for each call of that program from here on."""
    calls, program = [], getattr(triton_programs, name)
    patch.setattr(
        triton_programs,
        name,
        lambda *args, **named: calls.append(None) or program(*args, **named),
    )
    return calls


@pytest.mark.parametrize(("dtype", "near"), [(torch.float16, 0.02), (torch.float32, 1e-5)])
def test_a_network_runs_by_programs(
    make_network, make_word_tokenizer, fast_architecture, linear, monkeypatch, dtype, near
):
    heads = {"n_heads": 2} if fast_architecture == "distilbert" else {"num_attention_heads": 2}
    network = make_network(fast_architecture, **heads)
    model = MaskedLM(network, make_word_tokenizer())
    rows = torch.tensor(
        [[2, 5, 7, 4, 13, 4, 14, 6, 9, 11, 30, 3], [2, 5, 7, 8, 13, 4, 14, 6, 9, 11, 31, 3]]
    )
    with torch.no_grad():
        exact = network(input_ids=rows).logits[:, [5, 6]].log_softmax(-1)
        monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
        monkeypatch.setattr(linear_maps, "MANY", 1)
        monkeypatch.setattr(triton_programs, "serves", lambda *_: True)
        network.to(dtype)
        launched = [
            counted(monkeypatch, name)
            for name in ("short_attention", "add_norm", "linear_activated")
        ]
        both = (
            model.logits_of(model.states(rows, torch.tensor([[5, 6]] * 2)).flatten(0, 1))
            .float()
            .unflatten(0, (2, 2))
        )
        one = model.logits_of(model.states(rows, torch.tensor([[5]] * 2))[:, 0]).float()
    assert all(launched)
    for result, expected in ((both, exact), (one, exact[:, 0])):
        assert 0 < (expected.exp() * (expected - result.log_softmax(-1)).abs()).sum(-1).max() < near
