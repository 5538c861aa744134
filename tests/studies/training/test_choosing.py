"""Settings that follow from the data and the device: the rule, and a plain command that learns
by it.
"""

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from support import flat
from unmask.common.errors import InputError, in_python, written_by
from unmask.studies.training.choosing import SIZES, Data, choose, settle
from unmask.studies.training.packing import PackedRows
from unmask.studies.training.recipe import OBJECTIVES, Masked, Optimisation, Shape
from unmask.studies.training.run import advice
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.trained import Trained
from unmask.studies.training.validation import Validation

LEFT_OUT: dict[str, Any] = {**vars(Shape()), **vars(Masked()), **vars(Optimisation()), "init": None}


def chosen(tokens, device, pairs=True, **options):
    """The settings of a corpus of this many tokens, and its epochs."""
    data, kinds = (
        Data(tokens, pairs, device),
        (Shape, OBJECTIVES[options.pop("objective", "masked")], Optimisation),
    )
    shape, objective, optimisation = (
        kind(**{n: v for n, v in options.items() if n in vars(kind())}) for kind in kinds
    )
    rows = PackedRows(np.zeros((max(1, tokens // 128), 128), np.uint16), tokens // 32, tokens)
    first = choose(shape, objective, optimisation, 0, data, None)
    made = settle(first, rows, data, {**LEFT_OUT, **options})
    return made, data, made.steps / (len(rows.ids) // (made.batch_tokens // 128))


PAIRS_28_000 = 920_000
"""About the tokens of 28,000 pairs of captions."""


@pytest.mark.parametrize(
    ("tokens", "device", "pairs", "size", "vocab", "batch", "epochs", "dropout"),
    [
        (3_000, "cpu", True, "mini", 256, 512, 80, 0.2),
        (5_000, "cuda", False, "mini", 512, 512, 48, 0.2),
        (15_000, "cpu", False, "mini", 1024, 512, 48, 0.2),
        (25_000, "cpu", False, "tiny", 2048, 512, 48, 0.2),
        (50_000, "cuda", True, "tiny", 4096, 512, 48, 0.2),
        (PAIRS_28_000, "cpu", True, "tiny", 4096, 2048, 10.9, 0.1),
        (500_000, "cuda", False, "small", 8192, 8192, 48, 0.2),
        (4_000_000, "cpu", False, "tiny", 4096, 2048, 3, 0.0),
        (PAIRS_28_000, "cuda", True, "medium", 8192, 16384, 48, 0.2),
        (20_000_000, "cuda", True, "medium", 8192, 16384, 10, 0.1),
        (100_000_000, "cuda", False, "small", 8192, 65536, 3, 0.0),
    ],
)
def test_the_rule(tokens, device, pairs, size, vocab, batch, epochs, dropout):
    made, data, shown = chosen(tokens, device, pairs)
    assert data.size == size
    assert made.width == SIZES[size]["width"]
    assert (made.vocab, made.batch_tokens, made.dropout) == (vocab, batch, dropout)
    assert shown == pytest.approx(epochs, rel=0.02)
    assert made.steps >= 400


def test_a_causal_model_is_asked_for_every_token_and_sees_half_of_the_epochs():
    made, _, epochs = chosen(PAIRS_28_000, "cuda", objective="causal")
    assert epochs == pytest.approx(24, abs=0.5)
    assert made.dropout == 0.3
    assert "mask_source" not in made.to_dict()
    assert chosen(500_000, "cuda", False, objective="causal")[0].dropout == 0.2


def advice_after(loss, vocab, suited, positions=10):
    settings = TrainSettings(vocab=vocab)
    run = Trained(
        Path("out"), "finished", 1, Validation(loss, 0.5, positions, 5.0), 1, 1, 1.0, settings
    )
    return written_by(in_python, advice(run, suited))


def test_the_advice_after_little_learning_is_what_would_help():
    assert (
        advice_after(4.9, 256, 1024)
        == "give a larger vocab (1024 is chosen for this corpus), or more epochs"
    )
    assert advice_after(4.9, 1024, 1024) == "give more epochs or more text"
    assert (
        advice_after(4.9, 256, None) == "give more epochs or more text"
    )  # the vocabulary is another model's
    assert "longer texts as valid" in advice_after(4.9, 1024, 1024, positions=0)


def test_what_is_given_wins():
    options = {"layers": 3, "width": 96, "heads": 4, "vocab": 700, "batch_tokens": 640}
    options |= {"lr": 0.5, "dropout": 0.4, "mask_source": 0.3}
    made, _, epochs = chosen(PAIRS_28_000, "cuda", **options, epochs=2.0)
    assert {name: getattr(made, name) for name in options} == options
    assert epochs == pytest.approx(2, rel=0.01)
    assert chosen(PAIRS_28_000, "cuda", dropout=0.0)[0].dropout == 0.0
    assert chosen(5_000, "cpu", epochs=1.0)[0].steps == 9


def test_a_run_of_given_steps_or_from_a_model_has_neither_dropout_nor_masked_sources():
    made = chosen(PAIRS_28_000, "cuda", steps=50)[0]
    assert (made.steps, made.dropout, made.mask_source) == (50, 0.0, 0.0)
    made, _, epochs = chosen(PAIRS_28_000, "cuda", init="somewhere")
    assert (made.dropout, made.mask_source) == (0.0, 0.0)
    assert epochs == pytest.approx(3, rel=0.02)


def test_a_named_size_has_its_own_vocabulary_and_batch():
    made = chosen(20_000, "cuda", size="tiny")[0]
    assert (made.vocab, made.batch_tokens) == (4096, 2048)
    with pytest.raises(InputError, match="shorter than one batch"):
        chosen(20_000, "cuda", size="small")


def test_the_page_has_the_sizes():
    page = (Path(__file__).parents[3] / "docs" / "training.md").read_text()
    for name, preset in SIZES.items():
        numbers = " | ".join(f"{value:,}" for value in preset.values())
        assert f"| `{name}` | {numbers} |" in page


WORDS = ["ka lo", "mi ru", "te so", "ni pa", "ku la", "mo ri"]


def reversed_pairs(count, seed=0):
    """Sources of two to four words, and their translations: the last word first, each by its
    entry in a dictionary.
    """
    draw = random.Random(seed)
    there, back = [word.split()[0] for word in WORDS], dict(word.split() for word in WORDS)
    sources = [draw.choices(there, k=draw.randint(2, 4)) for _ in range(count)]
    return [" ".join(s) for s in sources], [
        " ".join(back[word] for word in reversed(s)) for s in sources
    ]


def share_right(model):
    sources, wanted = reversed_pairs(40, seed=1)
    translated = flat.translate(sources, model=model, length_beam=1, passes=4, device="cpu").texts
    return sum(a == b for a, b in zip(translated, wanted, strict=True)) / len(wanted)


def test_a_plain_command_learns_to_translate(tmp_path):
    torch.set_num_threads(1)
    made = flat.train(
        out=tmp_path / "plain", parallel=reversed_pairs(300), valid_share=0.05, device="cpu"
    )
    assert made.learned
    assert made.settings.width == 64
    assert made.settings.steps >= 400
    assert share_right(made.out) > 0.8


def test_the_chosen_options_given_one_by_one_make_the_same_weights_and_so_does_a_resumed_run(
    tmp_path, caplog
):
    torch.set_num_threads(1)
    caplog.set_level("INFO", "unmask")
    fixed: dict[str, Any] = {"parallel": reversed_pairs(200), "valid_share": 0.05, "device": "cpu"}
    plain = {**fixed, "out": tmp_path / "plain", "epochs": 7.0}
    assert flat.train(**plain, max_minutes=0.0).status == "paused"
    made = flat.train(**plain)
    assert made.finished
    assert made.settings.dropout == 0.1
    message = next(
        line for plan in caplog.messages for line in plan.splitlines() if line.startswith("chosen ")
    )
    options = {name: float(value) for name, value in re.findall(r"(\w+)=(\S+)", message)}
    numbers = {
        name: value if name in ("lr", "dropout", "mask_source") else int(value)
        for name, value in options.items()
    }
    again = flat.train(out=tmp_path / "again", **fixed, **numbers)
    assert again.settings == made.settings
    first, second = (
        load_file(made.out / "model.safetensors"),
        load_file(again.out / "model.safetensors"),
    )
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
