"""Variants in a run folder: the numbers of one call, killed and continued, in one process and in two."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
import torch
from pyarrow import parquet

from unmask.errors import InputError
from unmask.models.masked_lm import as_model
from unmask.models.tabular import TabularMLM
from unmask.variants import streaming
from unmask.variants.contexts import variant_scores
from unmask.variants.streaming import Asked, Workers, chunk_size, kept_scores, refuse_many

LOAD = partial(TabularMLM.random, 3, 5, 4)
ASKED = Asked((0, 2, 1, 0, 1), (4, 0, 2, 1), ("pll", "any_order", "singles", "pairs:mrf", "epistasis"), (0, 1, 2), 3, 1)


@pytest.fixture
def variants() -> torch.Tensor:
    """All 81, in a random order, with some of them twice."""
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    return every[torch.randint(0, 81, (90,), generator=torch.Generator().manual_seed(0))]


@pytest.fixture
def expected(variants) -> dict[str, torch.Tensor]:
    asked = ASKED
    names, allowed, orders, seed, joint = asked.names, asked.allowed, asked.orders, asked.seed, asked.joint
    return variant_scores(LOAD(), asked.ids, asked.sites, variants, names, allowed, orders, seed, joint)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(streaming, "CHUNK_PASSES", 60)
    monkeypatch.setattr(streaming, "CHUNK_WORK", {"cpu": 10**6, "cuda": 10**15})


def test_a_folder_has_the_numbers_of_one_call(tmp_path, variants, expected):
    seen = []
    found = kept_scores(tmp_path / "run", LOAD(), "tables", ASKED, variants, progress=lambda *report: seen.append(report))
    table = parquet.read_table(tmp_path / "run" / "variants.parquet")
    assert table["variant"].to_pylist() == list(range(1, 91))
    assert list(found) == table.column_names[1:] == list(expected)
    for name, values in expected.items():
        assert torch.equal(found[name], torch.from_numpy(table[name].to_numpy().copy()))
        assert found[name].tolist() == pytest.approx(values.tolist(), abs=1e-12)
    assert len(list((tmp_path / "run" / "parts").iterdir())) > 4
    assert seen[0] == (0, 90, "variants") and seen[-1][:2] == (90, 90)
    assert seen[-1][2].startswith("variants (") and seen[-1][2].endswith(" per second)")
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)


def test_a_run_that_is_killed_goes_on(tmp_path, variants, monkeypatch):
    whole = kept_scores(tmp_path / "whole", LOAD(), "tables", ASKED, variants)
    scored = streaming._scored
    passed = []

    def killed(contexts, tokens, progress=None):
        if len(passed) == 3:
            raise KeyboardInterrupt
        passed.append(len(tokens))
        return scored(contexts, tokens, progress)

    monkeypatch.setattr(streaming, "_scored", killed)
    with pytest.raises(KeyboardInterrupt):
        kept_scores(tmp_path / "run", LOAD(), "tables", ASKED, variants)
    assert not (tmp_path / "run" / "variants.parquet").exists()
    before, first = sum(passed), []
    monkeypatch.setattr(streaming, "_scored", lambda c, tokens, p=None: passed.append(len(tokens)) or scored(c, tokens, p))
    found = kept_scores(tmp_path / "run", LOAD(), "tables", ASKED, variants, progress=lambda *report: first.append(report))
    assert sum(passed) == 90 and first[0] == (before, 90, "variants")
    assert {name: values.tolist() for name, values in found.items()} == {name: v.tolist() for name, v in whole.items()}
    passed.clear()
    kept_scores(tmp_path / "run", LOAD(), "tables", ASKED, variants)
    assert passed == []


def test_a_part_that_is_gone_or_of_another_size_is_filled_in(tmp_path, variants, monkeypatch):
    whole = kept_scores(tmp_path / "run", LOAD(), "tables", ASKED, variants)
    parts = sorted((tmp_path / "run" / "parts").iterdir())
    parts[1].unlink(), parts[2].unlink()
    monkeypatch.setattr(streaming, "CHUNK_PASSES", 1000)
    found = kept_scores(tmp_path / "run", LOAD(), "tables", ASKED, variants)
    for name, values in whole.items():
        assert found[name].tolist() == pytest.approx(values.tolist(), abs=1e-12)


def test_another_list_or_other_scores_are_refused(tmp_path, variants):
    kept_scores(tmp_path / "run", LOAD(), "tables", ASKED, variants)
    with pytest.raises(InputError, match="holds a run with list"):
        kept_scores(tmp_path / "run", LOAD(), "tables", ASKED, variants.flip(0))
    other = Asked(ASKED.ids, ASKED.sites, ("pll",), ASKED.allowed)
    with pytest.raises(InputError, match="holds a run with scores"):
        kept_scores(tmp_path / "run", LOAD(), "tables", other, variants)


def test_chunks_are_bounded_by_their_work(variants, monkeypatch):
    contexts = ASKED.contexts(LOAD())
    tokens = variants[contexts.sorted(variants)].to(torch.int32).numpy()
    size = chunk_size(contexts, tokens, "cpu")
    assert contexts.context_count(torch.from_numpy(tokens[:size])) <= 60
    assert contexts.context_count(torch.from_numpy(tokens[: 2 * size])) > 60
    monkeypatch.setattr(TabularMLM, "multiplications", lambda self, tokens: 10**6 // 60)
    assert chunk_size(contexts, tokens, "cpu") == size
    assert chunk_size(contexts, tokens, "cuda") == 128


def test_sorted_neighbours_share_more(variants):
    contexts = ASKED.contexts(LOAD())
    order = contexts.sorted(variants)
    rows = variants[order].tolist()
    left_to_right = [[row[1], row[3], row[2], row[0]] for row in rows]
    assert left_to_right == sorted(left_to_right)
    assert contexts.context_count(variants[order][:20]) < contexts.context_count(variants[:20])


def test_too_many_passes_are_refused_with_their_count(variants, monkeypatch):
    contexts = ASKED.contexts(LOAD())
    refuse_many(contexts, variants, force=False)
    exact = contexts.pass_count(variants)
    monkeypatch.setattr(streaming, "MAX_PASSES", exact)
    refuse_many(contexts, variants, force=False)
    monkeypatch.setattr(streaming, "MAX_PASSES", exact - 1)
    with pytest.raises(InputError, match=rf"90 variants need {exact:,} passes of the model \(limit {exact - 1:,}\).*--force"):
        refuse_many(contexts, variants, force=False)
    monkeypatch.setattr(streaming, "MOST_TOGETHER", 10)
    with pytest.raises(InputError, match="need up to"):
        refuse_many(contexts, variants, force=False)
    refuse_many(contexts, variants, force=True)


def test_a_workers_numbers_are_those_of_this_process(variants):
    contexts = ASKED.contexts(LOAD())
    pairs = contexts.pairs(variants)
    work = pickle.loads(pickle.dumps(partial(streaming._worker, LOAD, ASKED, pairs)))()
    start, found = work((7, variants[:9].to(torch.int32).numpy()))
    contexts.know(pairs)
    assert start == 7
    for name, values in contexts.scores(variants[:9]).items():
        assert values.tolist() == found[name].tolist()


@pytest.mark.slow
def test_ray_gives_the_same_table(ray_here, tmp_path, letters_folder, variants):
    load = partial(as_model, str(letters_folder), "cpu", "float64")
    model = load()
    ids = tuple(model.words.encode("A C D E G A"))
    asked = Asked(ids, (1, 2, 4, 5), ("pll", "any_order", "pairs:mrf"), ids[1:6], 3)
    rows = torch.tensor(ids[1:4])[variants]
    local = kept_scores(tmp_path / "local", model, "letters", asked, rows)
    two = kept_scores(tmp_path / "two", model, "letters", asked, rows, Workers(load, 2))
    names = [part.name for part in sorted((tmp_path / "two" / "parts").iterdir())]
    assert names == [part.name for part in sorted((tmp_path / "local" / "parts").iterdir())] and len(names) > 2
    for name, values in local.items():
        assert two[name].tolist() == pytest.approx(values.tolist(), abs=1e-12)
