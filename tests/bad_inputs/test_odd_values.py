"""Values of kinds that no annotation foresees, one by one: each is refused in one line, or
means what it says.
"""

import os
from pathlib import Path

import pytest
import torch

import unmask
from unmask.common import checks
from unmask.common.errors import InputError, ModelError


class BytesPath(os.PathLike):
    """A path whose text is bytes, as os.PathLike allows."""

    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return os.fsencode(self.path)


def lists_inside_each_other(count=2000):
    nested = []
    for _ in range(count):
        nested = [nested]
    return nested


def list_of_itself():
    own = []
    own.append(own)
    return own


@pytest.mark.parametrize("made", [lists_inside_each_other, list_of_itself])
def test_lists_without_end_are_refused(tiny, made):
    joint = unmask.fill("the [MASK] [MASK]", tiny, candidates=3).joint
    calls = {
        "text": lambda value: unmask.fill(value, tiny),
        "candidates": lambda value: unmask.fill("the [MASK]", tiny, candidates=value),
        "others": lambda value: unmask.dependence("the [MASK] [MASK]", tiny, others=value),
        "values": joint.log_prob,
    }
    for name, call in calls.items():
        with pytest.raises(InputError, match=f"^{name} ") as caught:
            call(made())
        assert "\n" not in str(caught.value)


def test_a_range_that_would_use_up_the_memory_is_refused():
    assert checks.plain(range(3)) == [0, 1, 2]
    for end in (10**9, 10**30):
        with pytest.raises(
            InputError, match=f"^range\\(0, {end}\\) has more than 10,000,000 numbers: give fewer"
        ):
            checks.plain(range(end))


def test_paths_of_bytes_are_paths(tiny, tiny_folder, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("the [MASK]\n")
    (filling,) = unmask.fill(BytesPath(texts), tiny)
    assert filling.text == "the [MASK]"
    letters = tmp_path / "letters.txt"
    letters.write_text("cat,dog\n")
    shown = unmask.fill("the [MASK]", tiny, alphabet=BytesPath(letters)).completions
    assert {completion.tokens for completion in shown} == {("cat",), ("dog",)}
    assert unmask.MaskedLM.load(BytesPath(tiny_folder)).vocab_size == tiny.vocab_size


def test_a_field_of_several_lines_is_named_in_one(tiny):
    with pytest.raises(
        InputError, match=r"^field names a column, and text 1 is a text without columns"
    ):
        unmask.score(["the cat"], model=tiny, field="a\n b")


def test_results_refuse_a_path_that_cannot_be(tiny):
    measured = unmask.evaluate(
        ["the cat sat on the mat ."], model=tiny, pairs=2, constructions="product"
    )
    held_out = unmask.frontier(
        ["the cat sat", "a dog sat"], model=tiny, length=3, decoders=["random-sets"], passes=[2]
    )
    for result in (measured, held_out):
        with pytest.raises(InputError, match=r"^path 'a\\x00b' names no file"):
            result.save(Path("a\0b"))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32])
def test_positions_of_any_whole_type_are_the_same_positions(tiny, dtype):
    ids, positions = torch.tensor([[2, 6, 7, 3]] * 2), torch.tensor([[1], [2]])
    expected = tiny.logits(ids, positions)
    assert torch.equal(tiny.logits(ids.to(dtype), positions.to(dtype)), expected)
    assert not torch.equal(tiny.logits(ids, positions.flip(0)), expected)


def test_tables_refuse_a_number_format_that_cannot_compute(tiny):
    cloze = tiny.cloze("the [MASK] [MASK]")
    with pytest.raises(
        InputError, match=r"dtype torch.float8_e4m3fn does not hold log-probabilities"
    ):
        unmask.unary_tables(tiny, cloze, [[6, 7], [6, 7]], torch.float8_e4m3fn)
    assert (
        unmask.unary_tables(tiny, cloze, [[6, 7], [6, 7]], torch.float64).log_q[0].dtype
        == torch.float64
    )


@pytest.mark.parametrize(
    "odd",
    [lambda dense: dense.to_sparse(), lambda dense: dense.to("meta")],
    ids=["sparse", "without data"],
)
def test_functions_return_dense_logits(tiny, odd):
    def logits(ids):
        return torch.zeros(*ids.shape, tiny.vocab_size)

    with pytest.raises(
        ModelError,
        match="gave a tensor that is sparse or has no data: return a dense tensor of logits",
    ):
        unmask.MaskedLM.of(lambda ids: odd(logits(ids)), tiny.tokenizer)
    assert unmask.MaskedLM.of(logits, tiny.tokenizer).vocab_size == tiny.vocab_size


@pytest.mark.parametrize(
    "term", [lambda text: 10**400, lambda text: 1 / 0, lambda text: {}["x"], lambda text: [][1]]
)
def test_a_term_of_the_energy_that_fails_is_named(tiny, term):
    energy = unmask.Energy("norm", text_terms=(term,))
    with pytest.raises(InputError, match="^a term of your own fails"):
        unmask.sample("the [MASK]", tiny, energy=energy, chains=2, sweeps=2)


@pytest.mark.parametrize(
    "odd",
    [b"cpu", ["cpu", "cpu"], torch.eye(2), 5, lists_inside_each_other()],
    ids=["bytes", "list", "tensor", "number", "deep"],
)
def test_what_names_no_device_number_format_or_model_is_refused_in_a_line(tiny_folder, odd):
    calls = {
        "device": lambda: unmask.MaskedLM.load(tiny_folder, device=odd),
        "dtype": lambda: unmask.MaskedLM.load(tiny_folder, dtype=odd),
        "model": lambda: unmask.MaskedLM.load(odd),
    }
    for name, call in calls.items():
        with pytest.raises(
            ModelError, match=f"^{name} .* is not (known|a name or a folder): "
        ) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_function_that_returns_no_translator_is_named():
    with pytest.raises(
        InputError, match="^model is the function int, which returned 0, no translator"
    ):
        unmask.translate(data=["the cat"], model=int)
