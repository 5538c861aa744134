"""The head on chosen positions and the substitution fast path against a plain loop over the
Hugging Face model.
"""

import dataclasses
import logging
import shutil

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from transformers import AutoModelForMaskedLM

from unmask.common.errors import InputError, ModelError
from unmask.models.batching import passes
from unmask.models.encoder import agreement
from unmask.models.masked_lm import MaskedLM

TEXT = [2, 5, 7, 4, 13, 4, 14, 3]
VARIED, PREDICTED = 3, 5


def loop_log_prob(network, rows, position):
    """One forward pass per row, logits everywhere, nothing shared: the plain definition."""
    with torch.no_grad():
        return torch.stack(
            [network(input_ids=row[None]).logits[0, position].log_softmax(-1) for row in rows]
        )


def filled(vary, values):
    rows = torch.tensor(TEXT).repeat(len(values), 1)
    rows[:, vary] = values
    return rows


def collected(model, vary, values, predict, text=TEXT):
    out = torch.full(
        (len(values), model.vocab_size),
        torch.nan,
        dtype=torch.promote_types(model.dtype, torch.float32),
    )
    for rows, logits in model.substitutions(text, vary, values, predict):
        out[rows] = logits
    return out.log_softmax(-1)


def test_head_on_positions_equals_full_forward(checkpoint, any_architecture):
    folder = checkpoint(any_architecture)
    model = MaskedLM.load(folder)
    plain = AutoModelForMaskedLM.from_pretrained(folder).eval()
    rows = filled([VARIED], torch.arange(5, 11)[:, None])
    positions = torch.tensor([[1, 5], [5, 1], [3, 3], [0, 7], [5, 6], [2, 4]])
    with torch.no_grad():
        everywhere = plain(input_ids=rows).logits.log_softmax(-1)
    got = model.logits(rows, positions).log_softmax(-1)
    assert got.shape == (6, 2, model.vocab_size)
    expected = torch.stack([everywhere[i, p] for i, p in enumerate(positions)])
    assert everywhere.std() > 1, "logits too flat for the comparison to mean anything"
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)
    assert (got[0].flip(0) - expected[0]).abs().max() > 0.1, (
        "positions in the wrong order would pass"
    )


@pytest.mark.parametrize(
    ("vary", "predict"), [([3], 3), ([0], 7), ([7], 0), ([6, 2, 4], 5), ([], 5)]
)
def test_fast_path_at_any_positions(checkpoint, vary, predict):
    model = MaskedLM.load(checkpoint("bert"), dtype="float64")
    values = torch.randint(5, 60, (6, len(vary)), generator=torch.Generator().manual_seed(1))
    got = collected(model, vary, values, predict)
    assert model.encoder is not None
    torch.testing.assert_close(
        got, loop_log_prob(model.network, filled(vary, values), predict), atol=1e-11, rtol=0
    )


def test_padding_token_as_a_value_shifts_positions_as_in_roberta(roberta_folder):
    model = MaskedLM.load(roberta_folder, dtype="float64")
    values = torch.tensor([[50], [model.tokenizer.pad_token_id], [60]])
    expected = loop_log_prob(model.network, filled([VARIED], values), PREDICTED)
    torch.testing.assert_close(
        collected(model, [VARIED], values, PREDICTED), expected, atol=1e-11, rtol=0
    )
    padded = [*TEXT[:2], 1, *TEXT[3:]]
    rows = torch.tensor(padded).repeat(2, 1)
    rows[:, VARIED] = torch.tensor([50, 60])
    got = collected(model, [VARIED], torch.tensor([[50], [60]]), PREDICTED, padded)
    torch.testing.assert_close(
        got, loop_log_prob(model.network, rows, PREDICTED), atol=1e-11, rtol=0
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-13)])
@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_batch_size_does_not_change_the_numbers(checkpoint, kind, dtype, tolerance):
    values = torch.arange(5, 42)[:, None]
    rows = filled([VARIED], values)
    positions = torch.full((len(rows), 1), PREDICTED)
    tables, direct, sizes = [], [], []
    for budget in (1, 200_000, 2**30):
        loaded = MaskedLM.load(checkpoint(kind), dtype=dtype)
        model = MaskedLM(loaded.network, loaded.tokenizer)
        model.batches.budget = budget
        batches = [part for part, _ in model.substitutions(TEXT, [VARIED], values, PREDICTED)]
        assert [i for part in batches for i in range(len(values))[part]] == list(range(len(values)))
        sizes.append(len(batches))
        tables.append(collected(model, [VARIED], values, PREDICTED))
        direct.append(model.logits(rows, positions)[:, 0].log_softmax(-1))
    assert sizes[0] == len(values) > sizes[1] > sizes[2] == 1
    for one, other in [
        (tables[0], tables[1]),
        (tables[0], tables[2]),
        (direct[0], direct[1]),
        (direct[0], direct[2]),
    ]:
        torch.testing.assert_close(one, other, atol=tolerance, rtol=0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_check_lets_the_right_path_pass_and_catches_a_wrong_one(
    checkpoint, fast_architecture, dtype
):
    values = torch.arange(5, 25)[:, None]
    model = MaskedLM.load(checkpoint(fast_architecture), dtype=dtype)
    collected(model, [VARIED], values, PREDICTED)
    assert model.encoder is not None
    wrong = MaskedLM.load(checkpoint(fast_architecture), dtype=dtype)
    turned = (
        dataclasses.replace(wrong.encoder.layers[0], rotary=None)
        if wrong.encoder.layers[0].rotary
        else None
    )
    wrong.encoder = dataclasses.replace(
        wrong.encoder,
        position_offset=wrong.encoder.position_offset + 1,
        layers=(turned or wrong.encoder.layers[0], *wrong.encoder.layers[1:]),
    )
    collected(wrong, [VARIED], values, PREDICTED)
    assert wrong.encoder is None


def test_fast_path_follows_weights_that_change(checkpoint):
    model = MaskedLM.load(checkpoint("bert"), dtype="float64")
    values = torch.arange(5, 15)[:, None]
    before = collected(model, [VARIED], values, PREDICTED)
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.mul_(1.1)
    after = collected(model, [VARIED], values, PREDICTED)
    assert (after - before).abs().max() > 0.1
    torch.testing.assert_close(
        after, loop_log_prob(model.network, filled([VARIED], values), PREDICTED), atol=1e-11, rtol=0
    )


def test_out_of_memory_halves_the_batch_and_goes_on(checkpoint, monkeypatch, caplog):
    model = MaskedLM.load(checkpoint("deberta"))
    rows = filled([VARIED], torch.arange(5, 45)[:, None])
    positions = torch.full((40, 1), PREDICTED)
    expected = model.logits(rows, positions)
    forward, sizes = model.network.forward, []

    def small_memory(input_ids, **rest):
        sizes.append(len(input_ids))
        if len(input_ids) > 12:
            if len(sizes) == 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"
            )
        return forward(input_ids=input_ids, **rest)

    monkeypatch.setattr(model.network, "forward", small_memory)
    with caplog.at_level(logging.WARNING, logger="unmask"):
        got = model.logits(rows, positions)
    assert sizes[:3] == [40, 20, 10]
    assert sum(sizes[2:]) == 40
    assert "out of memory" in caplog.text
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
    sizes.clear()
    model.logits(rows, positions)
    assert max(sizes) <= 12, "the smaller batch is remembered"


def test_one_row_too_many_is_an_error_and_other_errors_are_named(checkpoint, monkeypatch):
    model = MaskedLM.load(checkpoint("deberta"))
    rows, positions = torch.tensor([TEXT, TEXT]), torch.tensor([[3], [3]])

    def no_memory(**_):
        raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 99 bytes")

    def broken(**_):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(model.network, "forward", no_memory)
    with pytest.raises(ModelError, match="one row of this text does not fit in memory"):
        model.logits(rows, positions)
    monkeypatch.setattr(model.network, "forward", broken)
    with pytest.raises(
        ModelError,
        match=(
            r"8 tokens in float32: transformers' DebertaForMaskedLM fails \(shapes do not match\)"
        ),
    ):
        model.logits(rows, positions)


def test_no_rows_and_too_long_rows(checkpoint):
    model = MaskedLM.load(checkpoint("bert"))
    assert model.logits(
        torch.empty((0, 8), dtype=torch.long), torch.empty((0, 2), dtype=torch.long)
    ).shape[:2] == (0, 2)
    assert list(model.substitutions(TEXT, [3], torch.empty((0, 1), dtype=torch.long), 5)) == []
    with pytest.raises(InputError, match="25 tokens and the model takes 24"):
        model.logits(torch.full((1, 25), 5), torch.tensor([[0]]))
    with pytest.raises(InputError, match="25 tokens and the model takes 24"):
        list(model.substitutions([5] * 25, [3], torch.tensor([[5]]), 5))


class MixesPositions(nn.Module):
    """A part of a head that adds the mean of all positions to each."""

    def __init__(self, transform):
        super().__init__()
        self.transform = transform

    def forward(self, hidden):
        return self.transform(hidden + hidden.mean(1, keepdim=True))


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-4), (torch.bfloat16, 0.05), (torch.float16, 0.05)],
    ids=str,
)
def test_head_that_mixes_positions_still_gives_the_full_forward_numbers(
    make_network, make_word_tokenizer, caplog, dtype, tolerance
):
    network = make_network("bert").to(dtype)
    network.cls.predictions.transform = MixesPositions(network.cls.predictions.transform)
    with caplog.at_level(logging.WARNING, logger="unmask"):
        model = MaskedLM(network, make_word_tokenizer())
    assert "mixes positions" in caplog.text
    rows = filled([VARIED], torch.arange(5, 9)[:, None])
    with torch.no_grad():
        expected = network(input_ids=rows).logits[:, PREDICTED].float().log_softmax(-1)
    got = model.logits(rows, torch.full((4, 1), PREDICTED))[:, 0].log_softmax(-1)
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=0)
    got = collected(model, [VARIED], torch.arange(5, 9)[:, None], PREDICTED)
    torch.testing.assert_close(got, expected, atol=tolerance, rtol=0)


def test_the_fingerprint_covers_every_weight_and_the_tokenizer(tiny_folder, tmp_path):
    model, again = (MaskedLM.load(tiny_folder, device="cpu") for _ in range(2))
    assert model.fingerprint == again.fingerprint
    list(again.network.parameters())[-1].data.view(-1)[-1] += 1e-6
    assert MaskedLM(again.network, again.tokenizer).fingerprint != model.fingerprint
    swapped = shutil.copytree(tiny_folder, tmp_path / "swapped")
    text = (swapped / "tokenizer.json").read_text()
    text = text.replace('"cat"', '"?"').replace('"dog"', '"cat"').replace('"?"', '"dog"')
    (swapped / "tokenizer.json").write_text(text)
    assert MaskedLM.load(swapped, device="cpu").fingerprint != model.fingerprint


ROWS = torch.tensor(
    [[2, 5, 9, 4, 12, 7, 20, 3], [2, 30, 31, 8, 4, 4, 6, 3], [2, 11, 6, 5, 5, 25, 4, 3]]
)
WHERE = torch.tensor([[3], [5], [0]])


def test_a_thread_that_gives_the_fast_path_up_does_not_disturb_another(checkpoint, monkeypatch):
    model = MaskedLM.load(checkpoint("bert"))
    run = model.batches.run

    def after_another_thread(**arguments):
        model.encoder = None
        return run(**arguments)

    monkeypatch.setattr(model.batches, "run", after_another_thread)
    with torch.no_grad():
        whole = model.network(input_ids=ROWS).logits.log_softmax(-1)
    got = model.logits(ROWS, WHERE)[:, 0].log_softmax(-1)
    torch.testing.assert_close(got, whole[torch.arange(len(ROWS)), WHERE[:, 0]], atol=1e-5, rtol=0)


@pytest.fixture
def narrow(checkpoint, monkeypatch):
    """A model in bfloat16, and a limit that rounding alone is beyond."""
    monkeypatch.setattr(agreement, "ROUNDING_UNITS", 1e-3)
    return MaskedLM.load(checkpoint("bert"), dtype="bfloat16")


def test_rounding_in_half_precision_does_not_give_the_fast_path_up(narrow, caplog):
    fast, slow = (
        narrow._at_one(narrow.encoder, ROWS, WHERE)[:, 0].log_softmax(-1),
        narrow.head(ROWS, WHERE)[:, 0].log_softmax(-1),
    )
    assert (slow.exp() * (fast - slow).abs()).sum() > 1e-3 * torch.finfo(torch.bfloat16).eps
    narrow.logits(ROWS, WHERE)
    assert narrow.encoder is not None
    assert not caplog.text


@given(st.integers(0, 2**16), st.floats(0.05, 1.0))
def test_the_forward_pass_in_float32_decides(seed, noise):
    """Two roundings of one answer agree; an answer further from it than both does not; without
    the third nobody could tell.
    """
    generator = torch.Generator().manual_seed(seed)
    exact, first, second = torch.randn(3, 4, 16, generator=generator, dtype=torch.float64)
    rounded = exact + noise * first.sign() / 2
    for fast, same in (
        (exact - noise * first.sign() / 2, True),
        (exact + 20 * noise * second, False),
    ):
        assert agreement.agree(fast, rounded, torch.float16, "the model", lambda: exact) is same


def setting() -> tuple[bool, bool]:
    return torch.backends.cuda.cudnn_sdp_enabled(), torch.is_grad_enabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_what_is_set_for_passes_is_as_it_was_afterwards(enabled, tiny_folder):
    @passes()
    def fails():
        with passes():
            assert setting() == (False, False)
        assert setting() == (False, False)
        raise KeyError

    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(enabled)
    try:
        for _ in range(2):
            with pytest.raises(KeyError):
                fails()
            assert setting() == (enabled, True)
        model = MaskedLM.load(tiny_folder)
        for _ in model.substitutions([model.mask_id] * 3, [0], torch.tensor([[0], [1]]), 1):
            assert setting() == (enabled, True)
        assert setting() == (enabled, True)
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
