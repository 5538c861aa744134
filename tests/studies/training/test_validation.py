"""A run says when its model has not learned: against the frequencies of the tokens, counted by
hand, and by its stutter.
"""

import re
import warnings
from collections import Counter
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest
import torch

from studies.training.test_run import SMALL
from support import flat
from support.made_up import made_up_lines
from unmask.common.errors import UnmaskWarning
from unmask.models.text.word_pieces import special_id
from unmask.studies.training.corpus import prepare
from unmask.studies.training.masking.schemes import FixedRate
from unmask.studies.training.objectives import CausalTasks, MaskedTasks
from unmask.studies.training.packed_text import Vocabulary
from unmask.studies.training.parallel_corpus import prepare_parallel
from unmask.studies.training.settings import TrainSettings
from unmask.studies.training.text_sources import one_source, parallel_sides, sources
from unmask.studies.training.trainer import Trainer
from unmask.studies.training.validation import Validation, log_unigram

TRAIN, VALID = (
    made_up_lines(200),
    [*made_up_lines(40, seed=1), "The old miller ploughs dough on Saturday.", "Fields!"],
)
PAIRS = ([f"a {i % 7} b." for i in range(300)], [f"x x {i % 7} y y." for i in range(300)])
SHAPE: dict[str, Any] = {
    "layers": 1,
    "width": 16,
    "heads": 1,
    "vocab": 120,
    "max_length": 32,
    "batch_tokens": 256,
    "lr": 1e-3,
}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


def settings(objective, parallel=False):
    return TrainSettings(**SHAPE, objective=objective, parallel=parallel, steps=1)


def of_lines(objective):
    return prepare(sources(TRAIN), settings(objective), 0.02, one_source(VALID))


def of_pairs(objective):
    return prepare_parallel(parallel_sides(PAIRS), settings(objective, True), 0.2)


def counted(prepared, objective):
    """Targets of the training texts, by the tokenizer alone."""
    counts: Counter[int] = Counter()
    texts = (
        TRAIN
        if prepared.pairs is None
        else [prepared.tokenizer.decode(ids) for ids in prepared.pairs.targets]
    )
    for text in texts:
        counts.update(prepared.tokenizer.encode(text, add_special_tokens=False).ids)
        if objective == "causal":
            counts[special_id(prepared.tokenizer, "[SEP]")] += 1
    return counts


@pytest.mark.parametrize("make", [of_lines, of_pairs])
@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_the_loss_of_frequencies_is_that_counted_by_hand(objective, make):
    prepared = make(objective)
    causal, pairs = objective == "causal", prepared.pairs is not None
    vocabulary = Vocabulary.of(
        prepared.tokenizer, target=settings(objective, pairs).source_length if pairs else 0
    )
    counts = counted(prepared, objective)
    special = {
        i for i, token in prepared.tokenizer.get_added_tokens_decoder().items() if token.special
    }
    unasked = {vocabulary.start, vocabulary.pad, vocabulary.mask} if causal else special
    may = set(prepared.tokenizer.get_vocab().values()) - unasked
    total = sum(max(1, counts[i]) for i in may)
    log_p = log_unigram(prepared, vocabulary, causal)
    assert {i: pytest.approx(log(max(1, counts[i]) / total)) for i in may} == {
        i: float(log_p[i]) for i in may
    }
    assert float(log_p.exp().sum()) == pytest.approx(1.0)
    assert all(float(log_p[i]) == -np.inf for i in unasked)
    targets = []
    for row in prepared.valid.ids.tolist():
        source = False
        for i in row:
            source = pairs if i == vocabulary.start else source
            if i in may and not source:
                targets.append(i)
            source = source and i != vocabulary.end
    assert len(targets) > 50
    tasks = CausalTasks() if causal else MaskedTasks(FixedRate(1.0))
    trainer = Trainer(settings(objective, pairs), prepared, torch.device("cpu"))
    assert torch.equal(trainer.log_unigram, log_p)
    figures = trainer.validate(prepared.valid, tasks)
    assert figures.positions == len(targets)
    assert figures.unigram == pytest.approx(-sum(float(log_p[i]) for i in targets) / len(targets))
    trainer.log_unigram = torch.full_like(log_p, -log(len(may)))
    other = trainer.validate(prepared.valid, tasks)
    assert other.unigram == pytest.approx(log(len(may)))
    assert abs(other.unigram - figures.unigram) > 0.1


@pytest.mark.parametrize(
    ("figures", "learned", "doubt"),
    [
        (Validation(0.0, 0.0, 0, 0.0), None, "was not validated"),
        (Validation(2.0, 0.5, 9, 3.0), True, None),
        (
            Validation(2.8, 0.5, 9, 3.0),
            True,
            "has learned little: validation 2.800 nats, and .* alone have 3.000",
        ),
        (
            Validation(3.0, 0.5, 9, 3.0),
            False,
            "has not learned: validation 3.000 nats, and .* alone have 3.000",
        ),
        (Validation(float("nan"), 0.5, 9, 3.0), False, "has not learned"),
    ],
)
def test_what_is_said(figures, learned, doubt):
    assert figures.learned == learned
    assert figures.doubt is None if doubt is None else re.search(doubt, figures.doubt or "")


SHORT = {**SMALL, "steps": 2, "lr": 1e-6}


def test_a_run_that_learned_nothing_says_so(tmp_path, caplog):
    caplog.set_level("INFO", "unmask")
    told: list[str] = []
    with pytest.warns(
        UnmaskWarning,
        match=r"after 2 steps \(.* epochs\) the model has not learned: validation .*more epochs",
    ):
        made = flat.train(
            TRAIN,
            out=tmp_path / "m",
            **SHORT,
            progress=lambda done, total, what="": told.append(what),
        )
    assert not made.learned
    assert made.validation.loss > made.validation.unigram
    assert made.to_dict()["learned"] is False
    assert made.to_dict()["validation"]["unigram"] == made.validation.unigram
    assert f"{made.validation.unigram:.3f}" in str(made)
    assert f"{made.validation.loss:.3f}" in str(made)
    assert "has not learned" in (tmp_path / "m" / "README.md").read_text()
    assert any(
        line.startswith(f"2 steps of {made.settings.batch_tokens:,} tokens: ")
        for line in caplog.messages
    )
    assert any(
        re.match(r"steps, [\d,]+ tokens/s, loss \d", what) for what in told
    )  # "600 steps, ..., about 5 minutes"


def test_a_run_that_learned_says_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnmaskWarning)
        made = flat.train(made_up_lines(600), out=tmp_path / "m", **{**SMALL, "steps": 60})
    assert made.learned
    assert "has not learned" not in (tmp_path / "m" / "README.md").read_text()
    assert replace(made, validation=replace(made.validation, loss=9.0)).learned is False
