"""Several pairs at once: the numbers of one by one, within the memory that was given."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pandas as pd
import pytest
import torch

import unmask
from unmask.checks import memory
from unmask.errors import InputError
from unmask.evaluation.batches import MOST, InBatches
from unmask.evaluation.measure import Measurer
from unmask.models import batching
from unmask.models.batching import halving
from unmask.models.masked_lm import MaskedLM

QUICK = ("product", "hcb", "balanced", "family:1,0.1")


@pytest.fixture(scope="module")
def precise(tiny_folder):
    """The tiny model in float64, in which the order of a sum shows in the last digits only."""
    return MaskedLM.load(tiny_folder, device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def asked(precise, corpus):
    return {"data": str(corpus), "model": precise, "pairs": 12, "seed": 1, "joints": QUICK}


@pytest.fixture(scope="module")
def one_by_one(asked):
    return unmask.evaluate(**asked).rows.drop(columns="seconds")


@pytest.fixture
def sizes(monkeypatch):
    """How many pairs were measured at once, each time."""
    seen = []
    together = Measurer.together
    monkeypatch.setattr(Measurer, "together", lambda self, pairs: seen.append(len(pairs)) or together(self, pairs))
    return seen


def assert_same(rows, expected):
    pd.testing.assert_frame_equal(rows.drop(columns="seconds"), expected, rtol=1e-9, atol=1e-9)


def test_pairs_at_once_have_the_numbers_of_one_by_one(asked, one_by_one, sizes):
    assert_same(unmask.evaluate(**asked, memory="1GB").rows, one_by_one)
    assert sizes == [12]
    other = unmask.evaluate(**asked | {"seed": 2}, memory="1GB").rows
    assert not other["pair_nll"].equals(one_by_one["pair_nll"])


def test_a_small_budget_means_few_at_once(asked, one_by_one, sizes, precise):
    engine = InBatches(Measurer(precise, QUICK, None, precise.regular_ids))
    passes = precise.rows_at_once(12, 1) * precise.cost.bytes(12, 1)
    budget = passes + 5 * engine._bytes()
    assert_same(unmask.evaluate(**asked, memory=budget).rows, one_by_one)
    assert 1 < max(sizes) <= 6 and sum(sizes) == 12
    assert engine.budget is None and engine._fitting([]) == 1 and MOST > 12


def test_a_stopped_run_goes_on_with_other_batches(asked, one_by_one, tmp_path, monkeypatch):
    class Stopped(BaseException):
        pass

    def stop(self, pairs, together=Measurer.together):
        if pairs[0].index:
            raise Stopped
        return together(self, pairs)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Measurer, "together", stop)
        patch.setattr("unmask.evaluation.batches.MOST", 5)
        unmask.evaluate(**asked, memory="1GB", out=tmp_path)
    found = unmask.evaluate(**asked, memory="1GB", out=tmp_path)
    assert_same(found.rows, one_by_one)


def test_out_of_memory_halves_the_pairs_at_once(asked, one_by_one, monkeypatch):
    tried = []

    def only_three_fit(self, pairs, together=Measurer.together):
        tried.append(len(pairs))
        if len(pairs) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return together(self, pairs)

    monkeypatch.setattr(Measurer, "together", only_three_fit)
    assert_same(unmask.evaluate(**asked, memory="1GB").rows, one_by_one)
    assert tried == [12, 6, 3, 3, 3, 3]


@pytest.mark.parametrize(
    ("stage", "items", "then", "at_once"),
    [
        ("tables_of", 1, [12, 6, 3, 3, 3, 3], [12, 6, 3, 3, 3, 3]),
        ("derive_blocks", 0, [12, 6, 3, 3, 6, 3, 3], [12]),
        ("metrics_of_blocks", 0, [12, 6, 3, 3, 6, 3, 3], [12]),
    ],
)
def test_out_of_memory_halves_every_stage(asked, one_by_one, monkeypatch, sizes, stage, items, then, at_once):
    """The joints and the numbers go on with half of the pairs whose tables are there; without room for the tables fewer begin."""
    import unmask.evaluation.measure as measure

    work, tried = getattr(measure, stage), []

    def only_four_fit(*given):
        tried.append(len(given[items]))
        if tried[-1] > 4:
            raise RuntimeError("CUDA error: out of memory")
        return work(*given)

    monkeypatch.setattr(measure, stage, only_four_fit)
    assert_same(unmask.evaluate(**asked, memory="1GB").rows, one_by_one)
    assert tried == then and sizes == at_once


def test_halving_passes_on_other_errors_and_what_is_too_large_for_one():
    def refuse(items):
        raise torch.OutOfMemoryError(f"{len(items)}")

    with pytest.raises(torch.OutOfMemoryError, match="^1$"):
        halving(refuse, [1, 2, 3, 4])
    with pytest.raises(RuntimeError, match="another"):
        halving(lambda items: (_ for _ in ()).throw(RuntimeError("another")), [1, 2])


def test_a_pair_that_fails_does_not_take_the_others_with_it(asked, one_by_one, faulty, corpus):
    model = faulty({})
    alone = unmask.evaluate(**asked | {"model": model}).rows.drop(columns="seconds")
    text, block = alone.loc[alone["pair"] == 3, ["text", "first", "second"]].iloc[0].pipe(lambda row: (row["text"], row[1:]))
    ids = list(model.words.encode(text))
    for position in block:
        ids[int(position)] = model.mask_id
    broken = unmask.evaluate(**asked | {"model": faulty({tuple(ids): RuntimeError("this one")})}, memory="1GB")
    assert [failure["pair"] for failure in broken.failed] == [3] and "this one" in broken.failed[0]["reason"]
    expected = alone[alone["pair"] != 3].reset_index(drop=True)
    pd.testing.assert_frame_equal(broken.rows.drop(columns="seconds"), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not os.environ.get("TRITON_INTERPRET") or not find_spec("triton"), reason="compiled here")
def test_pairs_by_triton_from_the_logits_to_the_numbers(tiny, corpus, monkeypatch):
    asked = {"data": str(corpus), "model": tiny, "pairs": 2, "joints": ("balanced",), "memory": "1GB"}
    plain = unmask.evaluate(**asked).rows
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    by_triton = unmask.evaluate(**asked).rows
    columns = ["pair_nll", "unary_nll_first", "a_kl", "g_kl", "compatibility"]
    pd.testing.assert_frame_equal(by_triton[columns], plain[columns], rtol=1e-4, atol=1e-5)
    assert plain["pair_nll"].nunique() == 2


@pytest.mark.skipif(not os.environ.get("TRITON_INTERPRET") or not find_spec("triton"), reason="compiled here")
def test_every_launch_of_a_rehearsal_runs_before_a_text_is_read(tiny, corpus, monkeypatch):
    began = []
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    monkeypatch.setattr(Measurer, "rehearse", lambda self: began.extend(launch() for launch in self._launches()))
    monkeypatch.setattr("unmask.evaluation.plan.read_texts", lambda data: pytest.fail("read before") if not began else [])
    with pytest.raises(InputError, match="the 0 texts give only 0"):
        unmask.evaluate(str(corpus), model=tiny, pairs=2)
    assert len(began) == 7, "a pass, attention for three lengths, two operations of a layer, the tables of a pair"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("20GB", 20 * 10**9), ("1.5 GiB", 3 * 2**29), ("512mb", 512 * 10**6), (0.5, 500), ("0.25", 250), (3, 3)],
)
def test_memory_is_bytes_or_a_share(given, expected):
    assert memory("memory", given, 1000) == expected


@pytest.mark.parametrize("given", ["much", "20 lb", "", "-1GB", 0, -2.0, float("nan"), True, None, [1]])
def test_other_memory_is_refused_in_one_line(given):
    with pytest.raises(InputError, match="give bytes, such as 20GB or 500MB, or a share, such as 0.5$"):
        memory("memory", given, 1000)


def test_memory_is_refused_before_a_model_is_loaded_and_with_ray():
    with pytest.raises(InputError, match="memory 'lots' is not understood"):
        unmask.evaluate(["a b"], model="no such folder", memory="lots")
    with pytest.raises(InputError, match="memory was given, which engine ray does not use: leave it out, or use engine local"):
        unmask.evaluate(["a b"], memory="1GB", engine="ray")
