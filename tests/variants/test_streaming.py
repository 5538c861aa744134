"""Variants in a run folder: the numbers of one call, killed and continued, in one process and in two."""

from __future__ import annotations

import pickle
from functools import partial
from itertools import product

import pytest
import torch
from pyarrow import parquet

import unmask
from unmask.errors import InputError
from unmask.models.tabular import TabularMLM
from unmask.variants import contexts as streaming
from unmask.variants.contexts import Contexts, chunk_size, kept_scores, refuse_many

LOAD = partial(TabularMLM.random, 3, 5, 4)
ARGUMENTS = ((0, 2, 1, 0, 1), (4, 0, 2, 1), ("pll", "any_order", "singles", "pairs:mrf", "epistasis"), (0, 1, 2), 3, 1)


def contexts(**changed) -> Contexts:
    names = ("ids", "sites", "names", "allowed", "orders", "seed")
    return Contexts(LOAD(), **dict(zip(names, ARGUMENTS, strict=True)) | changed)


@pytest.fixture
def variants() -> torch.Tensor:
    """All 81, in a random order, with some of them twice."""
    every = torch.cartesian_prod(*[torch.arange(3)] * 4)
    return every[torch.randint(0, 81, (90,), generator=torch.Generator().manual_seed(0))]


@pytest.fixture
def expected(variants) -> dict[str, torch.Tensor]:
    return contexts().scores(variants)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(streaming, "CHUNK_PASSES", 60)
    monkeypatch.setattr(streaming, "CHUNK_WORK", {"cpu": 10**6, "cuda": 10**15})


def test_a_folder_has_the_numbers_of_one_call(tmp_path, variants, expected):
    seen = []
    found = kept_scores(tmp_path / "run", contexts(), "tables", variants, progress=lambda *report: seen.append(report))
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
    whole = kept_scores(tmp_path / "whole", contexts(), "tables", variants)
    scored = streaming._scored
    passed = []

    def killed(contexts, tokens, progress=None):
        if len(passed) == 3:
            raise KeyboardInterrupt
        passed.append(len(tokens))
        return scored(contexts, tokens, progress)

    monkeypatch.setattr(streaming, "_scored", killed)
    with pytest.raises(KeyboardInterrupt):
        kept_scores(tmp_path / "run", contexts(), "tables", variants)
    assert not (tmp_path / "run" / "variants.parquet").exists()
    before, first = sum(passed), []
    monkeypatch.setattr(streaming, "_scored", lambda c, tokens, p=None: passed.append(len(tokens)) or scored(c, tokens, p))
    found = kept_scores(tmp_path / "run", contexts(), "tables", variants, progress=lambda *report: first.append(report))
    assert sum(passed) == 90 and first[0] == (before, 90, "variants")
    assert {name: values.tolist() for name, values in found.items()} == {name: v.tolist() for name, v in whole.items()}
    passed.clear()
    kept_scores(tmp_path / "run", contexts(), "tables", variants)
    assert passed == []


def test_a_part_that_is_gone_or_of_another_size_is_filled_in(tmp_path, variants, monkeypatch):
    whole = kept_scores(tmp_path / "run", contexts(), "tables", variants)
    parts = sorted((tmp_path / "run" / "parts").iterdir())
    parts[1].unlink(), parts[2].unlink()
    monkeypatch.setattr(streaming, "CHUNK_PASSES", 1000)
    found = kept_scores(tmp_path / "run", contexts(), "tables", variants)
    for name, values in whole.items():
        assert found[name].tolist() == pytest.approx(values.tolist(), abs=1e-12)


def test_another_list_or_other_scores_are_refused(tmp_path, variants):
    kept_scores(tmp_path / "run", contexts(), "tables", variants)
    with pytest.raises(InputError, match="holds a run with list"):
        kept_scores(tmp_path / "run", contexts(), "tables", variants.flip(0))
    with pytest.raises(InputError, match="holds a run with scores"):
        kept_scores(tmp_path / "run", contexts(names=("pll",)), "tables", variants)


def test_chunks_are_bounded_by_their_work(variants, monkeypatch):
    asked = contexts()
    tokens = variants[asked.sorted(variants)].to(torch.int32).numpy()
    size = chunk_size(asked, tokens, "cpu")
    assert asked.context_count(torch.from_numpy(tokens[:size])) <= 60
    assert asked.context_count(torch.from_numpy(tokens[: 2 * size])) > 60
    monkeypatch.setattr(TabularMLM, "multiplications", lambda self, tokens: 10**6 // 60)
    assert chunk_size(asked, tokens, "cpu") == size
    assert chunk_size(asked, tokens, "cuda") == 128


def test_sorted_neighbours_share_more(variants):
    asked = contexts()
    order = asked.sorted(variants)
    rows = variants[order].tolist()
    left_to_right = [[row[1], row[3], row[2], row[0]] for row in rows]
    assert left_to_right == sorted(left_to_right)
    assert asked.context_count(variants[order][:20]) < asked.context_count(variants[:20])


def test_too_many_passes_are_refused_with_their_count(variants, monkeypatch):
    asked = contexts()
    refuse_many(asked, variants, force=False)
    exact = asked.pass_count(variants)
    monkeypatch.setattr(streaming, "MAX_PASSES", exact)
    refuse_many(asked, variants, force=False)
    monkeypatch.setattr(streaming, "MAX_PASSES", exact - 1)
    with pytest.raises(InputError, match=rf"90 variants need {exact:,} passes of the model \(limit {exact - 1:,}\).*--force"):
        refuse_many(asked, variants, force=False)
    monkeypatch.setattr(streaming, "MOST_TOGETHER", 10)
    with pytest.raises(InputError, match="need up to"):
        refuse_many(asked, variants, force=False)
    refuse_many(asked, variants, force=True)


def test_a_workers_numbers_are_those_of_this_process(variants):
    asked = contexts()
    pairs = asked.pairs(variants)
    setup = pickle.loads(pickle.dumps(partial(streaming._of_worker, LOAD, asked.arguments, pairs)))
    found = streaming._scored(setup(), variants[:9].to(torch.int32).numpy())
    asked.know(pairs)
    for name, values in asked.scores(variants[:9]).items():
        assert values.tolist() == found[name].tolist()


SEQUENCE = "ACDEGACD"
ROWS = [{"variant": f"A{a}{b}{c}GACD", "y": i} for i, (a, b, c) in enumerate(product("CDEG", "DGA", "EAG"))]
NAMES = "pll,any_order,pairs"


def test_mutants_keep_their_scores_in_a_folder(tmp_path, letters, monkeypatch):
    def ranked(**changed):
        return unmask.mutants(SEQUENCE, measured=ROWS, model=letters, ranking=unmask.Ranking(**{"scores": NAMES} | changed))

    plain, kept = ranked(), ranked(out=tmp_path / "run")
    assert (tmp_path / "run" / "variants.parquet").is_file()
    for name, values in plain.numbers.items():
        assert kept.numbers[name] == pytest.approx(values, abs=1e-5)
    monkeypatch.setattr(streaming, "_scored", None)  # nothing is left to score
    again = ranked(out=tmp_path / "run", seed=0)
    assert again.numbers == kept.numbers and again.sentence == kept.sentence
    with pytest.raises(InputError, match="holds a run with scores .* or another --out folder"):
        ranked(out=tmp_path / "run", scores="pll")


def test_folders_and_workers_that_cannot_be_are_refused(tmp_path, letters):
    (tmp_path / "notes.txt").write_text("mine")
    for given, message in [
        ({"out": tmp_path}, "is not empty and holds no run: choose another --out folder"),
        ({"engine": "ray"}, "workers need an out folder"),
        ({"engine": "ray", "out": tmp_path / "new"}, "workers load the model themselves"),
    ]:
        with pytest.raises(InputError, match=message):
            unmask.mutants(SEQUENCE, measured=ROWS, model=letters, ranking=unmask.Ranking(scores=NAMES, **given))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_processes_give_the_same_table(tmp_path, letters_folder):
    def ranked(device, out):
        model = partial(unmask.load, letters_folder, device=device, dtype="float64")
        return unmask.mutants(SEQUENCE, measured=ROWS, model=model, ranking=unmask.Ranking(scores=NAMES, out=out))

    one, two = ranked("cpu", tmp_path / "one"), ranked("cpu,cpu", tmp_path / "two")
    for name, values in one.numbers.items():
        assert two.numbers[name] == pytest.approx(values, abs=1e-12)
    assert two.sentence == one.sentence
    parts = [sorted(path.name for path in (tmp_path / run / "parts").iterdir()) for run in ("one", "two")]
    assert parts[0] == parts[1] and len(parts[0]) > 2


def test_chunks_that_need_no_more_passes_report_too(tmp_path, variants, monkeypatch):
    monkeypatch.setattr(streaming, "MOST_TOGETHER", 16)
    asked, seen = contexts(names=("singles", "pairs:mrf")), []
    found = kept_scores(tmp_path / "run", asked, "tables", variants, progress=lambda *report: seen.append(report))
    assert len(list((tmp_path / "run" / "parts").iterdir())) > 4 and seen[-1][:2] == (90, 90)
    expected = asked.scores(variants)
    for name, values in expected.items():
        assert found[name].tolist() == pytest.approx(values.tolist(), abs=1e-12)
