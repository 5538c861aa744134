"""The last layer at one position only gives what the whole network gives there."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.models.encoder import encoder
from unmask.models.masked_lm import MaskedLM

ROWS = torch.tensor([[2, 5, 9, 4, 12, 7, 20, 3], [2, 30, 31, 8, 4, 4, 6, 3], [2, 11, 6, 5, 5, 25, 4, 3]])
WHERE = torch.tensor([[3], [5], [0]])


def of_the_network(model, rows, where):
    with torch.no_grad():
        whole = model.network(input_ids=rows).logits.log_softmax(-1)
    return whole[torch.arange(len(rows)), where[:, 0]]


def test_a_thread_that_gives_the_fast_path_up_does_not_disturb_another(checkpoint, monkeypatch):
    model = MaskedLM.load(checkpoint("bert"))
    run = model.batches.run

    def after_another_thread(*arguments):
        model.encoder = None
        return run(*arguments)

    monkeypatch.setattr(model.batches, "run", after_another_thread)
    got = model.logits(ROWS, WHERE)[:, 0].log_softmax(-1)
    torch.testing.assert_close(got, of_the_network(model, ROWS, WHERE), atol=1e-5, rtol=0)


@pytest.fixture
def narrow(checkpoint, monkeypatch):
    """A model in bfloat16, and a limit that rounding alone is beyond."""
    monkeypatch.setattr(encoder, "ROUNDING_UNITS", 1e-3)
    return MaskedLM.load(checkpoint("bert"), dtype="bfloat16")


def test_rounding_in_half_precision_does_not_give_the_fast_path_up(narrow, caplog):
    fast, slow = narrow._at_one(narrow.encoder, ROWS, WHERE)[:, 0].log_softmax(-1), narrow.head(ROWS, WHERE)[:, 0].log_softmax(-1)
    assert (slow.exp() * (fast - slow).abs()).sum() > 1e-3 * torch.finfo(torch.bfloat16).eps
    narrow.logits(ROWS, WHERE)
    assert narrow.encoder is not None and not caplog.text


@given(st.integers(0, 2**16), st.floats(0.05, 1.0))
def test_the_forward_pass_in_float32_decides(seed, noise):
    """Two roundings of one answer agree; an answer further from it than both does not; without the third nobody could tell."""
    generator = torch.Generator().manual_seed(seed)
    exact, first, second = torch.randn(3, 4, 16, generator=generator, dtype=torch.float64)
    rounded = exact + noise * first.sign() / 2
    for fast, same in ((exact - noise * first.sign() / 2, True), (exact + 20 * noise * second, False)):
        assert encoder.agree(fast, rounded, torch.float16, "the model", lambda: exact) is same
