"""Random numbers against published vectors, drawn tokens against exact frequencies, and the
GPU's code against its plain twin.
"""

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from unmask.sampling.engine.randomness import ChainStreams, counter_words, philox, plain_uniform
from unmask.sampling.engine.token_draw import Categoricals, TokenDraw, plain_draw

KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Counter, key and result of philox4x32-10 in Random123's kat_vectors."""


def words(*values):
    return tuple(torch.tensor([value]) for value in values)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN)
def test_philox_gives_the_published_words(counter, key, expected):
    assert tuple(int(word) for word in philox(words(*counter), words(*key))) == expected


def test_choices_of_a_run_have_counters_of_their_own():
    """Seeds beyond 32 bits, calls beyond 12, and neighbours along every coordinate."""
    chains, places = torch.arange(3), torch.arange(3).unsqueeze(0)
    at = [
        (seed, sweep, step, call)
        for seed in (0, 1, 2**32, 2**62)
        for sweep in (0, 1)
        for step in (0, 1)
        for call in (0, 1, 4096)
    ]
    seen = torch.stack([plain_uniform(counter_words(*numbers), chains, places) for numbers in at])
    assert len(seen.unique()) == seen.numel() == 48 * 9
    many = plain_uniform(
        counter_words(7, 3, 1, 0), torch.arange(20000), torch.zeros((1, 1), dtype=torch.long)
    ).squeeze(1)
    assert float(many.min()) > 0
    assert float(many.max()) < 1
    assert kstest(many.numpy(), "uniform").pvalue > 1e-3
    assert kstest(many.numpy() ** 1.05, "uniform").pvalue < 1e-6, "the test sees small faults"


def test_orders_and_numbers_below_n_are_uniform():
    rng, rows = ChainStreams(3, range(24000)).at(1, 0), torch.arange(24000)
    orders = rng.permutation(rows, 4)
    assert torch.equal(orders.sort(1).values, torch.arange(4).expand(24000, -1))
    counts = torch.bincount(orders @ torch.tensor([64, 16, 4, 1]))
    assert chisquare(counts[counts > 0].numpy()).pvalue > 1e-3
    assert int((counts > 0).sum()) == 24
    below = torch.bincount(rng.integers(rows, 7), minlength=7)
    assert len(below) == 7
    assert chisquare(below.numpy()).pvalue > 1e-3


def cases(seed, rows, vocabulary, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn((rows, vocabulary), generator=generator, dtype=dtype)
    support = torch.rand((3, vocabulary), generator=generator) > 0.3
    support[:, 0] = True
    sites, current = (torch.randint(n, (rows,), generator=generator) for n in (3, vocabulary))
    return (
        logits,
        support,
        sites,
        current,
        torch.rand(rows, generator=generator, dtype=torch.float64),
    )


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 40), st.sampled_from([1.0, 0.5, 1.7]))
def test_numbers_that_come_with_a_token(seed, vocabulary, temperature):
    logits, support, sites, current, u = cases(seed, 7, vocabulary)
    draw = plain_draw(TokenDraw(logits, support, sites, current, temperature, u))
    log_g = torch.where(support[sites], logits.double() / temperature, -torch.inf).log_softmax(-1)
    rows = torch.arange(7)
    before = log_g.exp().cumsum(-1) - log_g.exp()
    assert bool(support[sites, draw.tokens].all())
    low, width = before[rows, draw.tokens], log_g.exp()[rows, draw.tokens]
    assert bool(((low <= u + 1e-12) & (u < low + width + 1e-12)).all())
    assert torch.allclose(draw.log_density, log_g[rows, draw.tokens], atol=1e-12)
    assert torch.allclose(draw.current_log_density, log_g[rows, current], atol=1e-12)
    assert torch.equal(draw.logit, logits[rows, draw.tokens].double())
    assert torch.allclose(draw.log_all, logits.double().logsumexp(-1), atol=1e-12)
    allowed = torch.where(support[sites], logits.double(), -torch.inf)
    assert torch.allclose(draw.log_allowed, allowed.logsumexp(-1), atol=1e-12)
    greedy = plain_draw(TokenDraw(logits, support, sites, current, 0.0, u))
    assert torch.equal(greedy.tokens, allowed.argmax(-1))


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_drawn_tokens_have_the_exact_frequencies(temperature):
    logits = torch.tensor([[0.4, -1.0, 0.0, 1.2, 0.7, 0.1, -0.5]])
    support = torch.tensor([[True, True, True, True, False, True, True]])
    n, rows = 20000, torch.arange(20000)
    conditionals = Categoricals(
        logits.expand(n, -1), temperature, support, torch.zeros_like(rows), torch.zeros_like(rows)
    )
    drawn = ChainStreams(1, range(n)).at(0, 0).tokens(rows, conditionals)
    expected = conditionals.log_weights()[0].exp().numpy() * n
    counts, possible = torch.bincount(drawn.tokens, minlength=7).numpy(), expected > 0
    assert possible.sum() == 6
    assert counts[~possible].sum() == 0
    assert chisquare(counts[possible], expected[possible]).pvalue > 1e-3
    flat = expected[possible] * 0.9 + 0.1 * n / 6
    assert chisquare(counts[possible], flat).pvalue < 1e-6, (
        "the test sees weights that are off by a tenth"
    )
    again = (
        ChainStreams(1, [11, 5])
        .at(0, 0)
        .tokens(
            torch.tensor([1, 0]),
            Categoricals(
                logits.expand(2, -1),
                temperature,
                support,
                torch.zeros(2, dtype=torch.long),
                torch.zeros(2, dtype=torch.long),
            ),
        )
    )
    assert again.tokens.tolist() == drawn.tokens[[5, 11]].tolist(), "whoever is drawn for beside it"


@pytest.mark.skipif(not os.environ.get("TRITON_INTERPRET"), reason="needs Triton's interpreter")
@pytest.mark.parametrize("at", [(0, 0, 0, 0), (2**63 - 1, 10**9, 99_999, 5000), (5, 1, 16, 3000)])
def test_uniform_numbers_on_a_gpu_are_these(at):
    from unmask.sampling.engine.triton_programs import uniform_on_gpu

    chains, places = torch.tensor([0, 1, 3_000_000]), torch.arange(5).unsqueeze(0)
    numbers = counter_words(*at)
    assert torch.equal(
        uniform_on_gpu(numbers, chains, places), plain_uniform(numbers, chains, places)
    )
    own = torch.tensor([[4], [0], [9]])
    assert torch.equal(uniform_on_gpu(numbers, chains, own), plain_uniform(numbers, chains, own))


@pytest.mark.skipif(not os.environ.get("TRITON_INTERPRET"), reason="needs Triton's interpreter")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.7])
def test_tokens_drawn_on_a_gpu_are_these(dtype, temperature, monkeypatch):
    from unmask.sampling.engine import triton_programs

    monkeypatch.setattr(triton_programs, "BLOCK", 16)
    logits, support, sites, current, u = cases(4, 4, 40, dtype)
    sites, u = (value.repeat_interleave(3)[::3] for value in (sites, u))
    close = 1e-12 if dtype == torch.float64 else 1e-5
    for tokens in (None, current):
        task = TokenDraw(logits, support, sites, current, temperature, u, tokens)
        plain, fused = plain_draw(task), triton_programs.draw_on_gpu(task)
        assert torch.equal(plain.tokens, fused.tokens)
        assert all(
            torch.allclose(one, other, atol=close)
            for one, other in zip(plain[1:], fused[1:], strict=True)
        )
    assert torch.allclose(
        triton_programs.log_normaliser_on_gpu(logits), logits.double().logsumexp(-1), atol=close
    )
