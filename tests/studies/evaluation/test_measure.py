"""`measure_pairs` against the paper's section 3 written out in float64, with the tables from
plain forward passes.

Several pairs at once: the numbers of one by one, within the memory that was given.
"""

import os
from importlib.util import find_spec

import pandas as pd
import pytest
import torch

import unmask
from support.study_frames import rows_frame
from unmask.common.cloze import Cloze
from unmask.common.errors import InputError
from unmask.joints.constructions.arnold_gokhale import ArnoldGokhale
from unmask.joints.registry import named
from unmask.models import batching
from unmask.models.batching import halving
from unmask.models.masked_lm import MaskedLM
from unmask.studies.evaluation.measure import Measurer, measure_pairs

TEXT = [2, 5, 7, 9, 11, 13, 15, 3]
BLOCK = (2, 4)


def plain_tables(network: torch.nn.Module, ids: list[int], a: int, b: int, mask: int):
    """A[x, y] = q(x at a | y at b), B[x, y] = q(y at b | x at a), m_a, m_b, one forward pass
    per row, all positions computed.
    """
    network = network.double()
    size = network.config.vocab_size

    def at(position: int, **filled: int) -> torch.Tensor:
        row = list(ids)
        row[a], row[b] = filled.get("x", mask), filled.get("y", mask)
        with torch.no_grad():
            return network(torch.tensor([row])).logits[0, position].log_softmax(-1)

    log_a = torch.stack([at(a, y=y) for y in range(size)], 1)
    log_b = torch.stack([at(b, x=x) for x in range(size)], 0)
    return log_a, log_b, at(a), at(b)


def reference(log_a, log_b, log_ma, log_mb, gold, steps):
    """Rows of the paper's constructions by their equations, everything materialised."""
    pivot = int(log_ma.argmax())
    mu = torch.full_like(log_a, 1.0 / log_a.numel())
    for _ in range(steps):
        mu = (log_a.exp() + log_b.exp()) / (
            1 / mu.sum(1, keepdim=True) + 1 / mu.sum(0, keepdim=True)
        )
        mu = mu / mu.sum()
    rules = {
        "product": log_ma[:, None] + log_mb[None, :],
        "mrf": log_a + log_b,
        "hcb": log_a - log_a[pivot] + log_b[pivot],
        "arnold_gokhale": mu.log(),
    }
    x, y = gold
    numbers = {}
    for name, rule in rules.items():
        joint = rule - rule.logsumexp((0, 1))
        first, second = joint.log_softmax(0), joint.log_softmax(1)
        kl_first = (log_a.exp() * (log_a - first)).sum(0)
        kl_second = (log_b.exp() * (log_b - second)).sum(1)
        unary = (log_a, log_b) if name == "product" else (first, second)
        numbers[name] = {
            "unary_nll_first": -unary[0][x, y],
            "unary_nll_second": -unary[1][x, y],
            "pair_nll": -joint[x, y],
            "a_kl": (kl_first.mean() + kl_second.mean()) / 2,
            "g_kl": (kl_first[y] + kl_second[x]) / 2,
            "objective": kl_first.sum() + kl_second.sum(),
        }
    return numbers


@pytest.fixture(scope="module")
def tables(tiny_folder):
    from transformers import AutoModelForMaskedLM

    network = AutoModelForMaskedLM.from_pretrained(tiny_folder).eval()
    return plain_tables(network, TEXT, *BLOCK, mask=4)


def rules(names, steps):
    """The constructions of these names, Arnold-Gokhale after some steps."""
    stopped = ArnoldGokhale(steps=steps)
    return [stopped if name == stopped.name else named(name) for name in names]


def masked() -> Cloze:
    ids = tuple(4 if t in BLOCK else token for t, token in enumerate(TEXT))
    return Cloze(ids, BLOCK, (TEXT[BLOCK[0]], TEXT[BLOCK[1]]))


def largest_gap(rows, expected) -> float:
    return max(
        abs(float(row[k]) - float(v))
        for row in rows
        for k, v in expected[row["construction"]].items()
    )


def test_every_number_is_the_paper_s(tiny, tables):
    gold = (TEXT[BLOCK[0]], TEXT[BLOCK[1]])
    expected = reference(*tables, gold, steps=50)
    (rows,) = measure_pairs(tiny, [masked()], rules(expected, 50))
    assert [row["construction"] for row in rows] == list(expected)
    assert {row["construction"]: row["steps"] for row in rows} == {
        "product": None,
        "mrf": None,
        "hcb": None,
        "arnold_gokhale": 50,
    }
    assert largest_gap(rows, expected) < 2e-4
    log_a, log_b, *_ = tables
    ratio = log_a - log_b
    gap = ratio - ratio.mean(0, keepdim=True) - ratio.mean(1, keepdim=True) + ratio.mean()
    assert rows[0]["incompatibility"] == pytest.approx(float(gap.square().mean().sqrt()), abs=1e-4)


def test_a_position_one_off_would_be_seen(tiny, tables):
    expected = reference(*tables, (TEXT[1], TEXT[3]), steps=50)
    (rows,) = measure_pairs(tiny, [masked()], rules(expected, 50))
    assert largest_gap(rows, expected) > 0.1


def test_over_some_tokens_every_number_is_that_of_the_tables_restricted_to_them(tiny, tables):
    """The paper's definitions again, from conditionals that are normalised over the support."""
    support = torch.tensor(tiny.regular_ids)
    log_a, log_b, log_ma, log_mb = tables
    inside = [t[support][:, support] for t in (log_a, log_b)]
    restricted = (
        inside[0].log_softmax(0),
        inside[1].log_softmax(1),
        *(m[support].log_softmax(0) for m in (log_ma, log_mb)),
    )
    gold = tuple(tiny.regular_ids.index(TEXT[t]) for t in BLOCK)
    expected = reference(*restricted, gold, steps=50)
    (rows,) = measure_pairs(tiny, [masked()], rules(expected, 50), support)
    assert largest_gap(rows, expected) < 2e-4
    assert largest_gap(measure_pairs(tiny, [masked()], rules(expected, 50))[0], expected) > 0.01


QUICK = ("product", "hcb", "balanced", "family:1,0.1")


@pytest.fixture(scope="module")
def precise(tiny_folder):
    """The tiny model in float64, in which the order of a sum shows in the last digits only."""
    return MaskedLM.load(tiny_folder, device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def asked(precise, corpus):
    return {"data": str(corpus), "model": precise, "pairs": 12, "seed": 1, "constructions": QUICK}


@pytest.fixture(scope="module")
def one_by_one(asked):
    return rows_frame(unmask.evaluate(**asked)).drop(columns="seconds")


@pytest.fixture
def in_batches(monkeypatch):
    monkeypatch.setattr("unmask.studies.evaluation.measure.ON_A_CPU", 12)


@pytest.fixture
def sizes(monkeypatch, in_batches):
    """How many pairs were measured at once, each time; up to twelve."""
    seen = []
    together = Measurer.together
    monkeypatch.setattr(
        Measurer, "together", lambda self, pairs: seen.append(len(pairs)) or together(self, pairs)
    )
    return seen


def assert_same(rows, expected):
    pd.testing.assert_frame_equal(rows.drop(columns="seconds"), expected, rtol=1e-9, atol=1e-9)


def test_pairs_at_once_have_the_numbers_of_one_by_one(asked, one_by_one, sizes):
    assert_same(rows_frame(unmask.evaluate(**asked)), one_by_one)
    assert sizes == [12]
    other = rows_frame(unmask.evaluate(**asked | {"seed": 2}))
    assert not other["pair_nll"].equals(one_by_one["pair_nll"])


def test_a_stopped_run_goes_on_with_other_batches(
    asked, one_by_one, tmp_path, monkeypatch, in_batches
):
    class Stopped(BaseException):
        pass

    def stop(self, pairs, together=Measurer.together):
        if pairs[0].index:
            raise Stopped
        return together(self, pairs)

    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(Measurer, "together", stop)
        patch.setattr("unmask.studies.evaluation.measure.ON_A_CPU", 5)
        unmask.evaluate(**asked, out=tmp_path)
    evaluation = unmask.evaluate(**asked, out=tmp_path)
    assert_same(rows_frame(evaluation), one_by_one)


@pytest.mark.parametrize(
    ("stage", "items", "then", "at_once"),
    [
        ("tables_of", 1, [12, 6, 3, 3, 3, 3], [12, 6, 3, 3, 3, 3]),
        ("derive_blocks", 0, [12, 6, 3, 3, 6, 3, 3], [12]),
        ("metrics_of_blocks", 0, [12, 6, 3, 3, 6, 3, 3], [12]),
    ],
)
def test_out_of_memory_halves_every_stage(
    asked, one_by_one, monkeypatch, sizes, stage, items, then, at_once
):
    """The joints and the numbers go on with half of the pairs whose tables are there; without
    room for the tables fewer begin.
    """
    import unmask.studies.evaluation.measure as measure

    work, tried = getattr(measure, stage), []

    def only_four_fit(*args, **named):
        tried.append(len(args[items]))
        if tried[-1] > 4:
            raise RuntimeError("CUDA error: out of memory")
        return work(*args, **named)

    monkeypatch.setattr(measure, stage, only_four_fit)
    assert_same(rows_frame(unmask.evaluate(**asked)), one_by_one)
    assert tried == then
    assert sizes == at_once


def test_halving_passes_on_other_errors_and_what_is_too_large_for_one():
    def refuse(items):
        raise torch.OutOfMemoryError(f"{len(items)}")

    with pytest.raises(torch.OutOfMemoryError, match="^1$"):
        halving(refuse, [1, 2, 3, 4])
    with pytest.raises(RuntimeError, match="another"):
        halving(lambda items: (_ for _ in ()).throw(RuntimeError("another")), [1, 2])


def test_a_pair_that_fails_does_not_take_the_others_with_it(
    asked, one_by_one, faulty, corpus, in_batches
):
    model = faulty({})
    alone = rows_frame(unmask.evaluate(**asked | {"model": model})).drop(columns="seconds")
    text, block = (
        alone.loc[alone["pair"] == 3, ["text", "first", "second"]]
        .iloc[0]
        .pipe(lambda row: (row["text"], row[1:]))
    )
    ids = list(model.words.encode(text))
    for position in block:
        ids[int(position)] = model.mask_id
    broken = unmask.evaluate(**asked | {"model": faulty({tuple(ids): RuntimeError("this one")})})
    assert [failure["pair"] for failure in broken.failed] == [3]
    assert "this one" in broken.failed[0]["reason"]
    expected = alone[alone["pair"] != 3].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        rows_frame(broken).drop(columns="seconds"), expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.skipif(
    not os.environ.get("TRITON_INTERPRET") or not find_spec("triton"), reason="compiled here"
)
def test_pairs_by_triton_from_the_logits_to_the_numbers(tiny, corpus, monkeypatch, in_batches):
    options = {"data": str(corpus), "model": tiny, "pairs": 2, "constructions": ("balanced",)}
    plain = rows_frame(unmask.evaluate(**options))
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    by_triton = rows_frame(unmask.evaluate(**options))
    columns = ["pair_nll", "unary_nll_first", "a_kl", "g_kl", "incompatibility"]
    pd.testing.assert_frame_equal(by_triton[columns], plain[columns], rtol=1e-4, atol=1e-5)
    assert plain["pair_nll"].nunique() == 2


@pytest.mark.skipif(
    not os.environ.get("TRITON_INTERPRET") or not find_spec("triton"), reason="compiled here"
)
def test_every_launch_of_a_precompilation_runs_before_a_text_is_read(tiny, corpus, monkeypatch):
    began = []
    monkeypatch.setattr(batching, "TRITON_DEVICES", {"cuda", "cpu"})
    monkeypatch.setattr("unmask.models.encoder.linear_maps.MANY", 16)
    monkeypatch.setattr(
        Measurer, "precompile", lambda self: began.extend(launch() for launch in self._launches())
    )
    monkeypatch.setattr(
        "unmask.studies.evaluation.plan.read_texts",
        lambda data: pytest.fail("read before") if not began else [],
    )
    with pytest.raises(InputError, match="the 0 texts give only 0"):
        unmask.evaluate(str(corpus), model=tiny, pairs=2)
    assert len(began) == 6, (
        "a pass, a layer at three lengths, its end at many tokens, the tables of a pair"
    )
