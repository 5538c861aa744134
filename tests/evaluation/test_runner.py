from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import unmask.evaluation.engines as engines
from unmask.errors import InputError
from unmask.evaluation.evaluate import evaluate
from unmask.evaluation.plan import Request
from unmask.evaluation.results import schema
from unmask.evaluation.run_folder import RunFolder
from unmask.runs.files import write_atomically

QUICK = ("product", "mrf", "pseudo_gibbs")


@pytest.fixture(scope="module")
def request_(tiny_folder, corpus):
    return Request(str(tiny_folder), str(corpus), pairs=12, seed=1, constructions=QUICK, device="cpu")


@pytest.fixture(scope="module")
def finished(request_, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    evaluate(request_, out)
    return out


def table(out) -> str:
    return (out / "table.md").read_text()


def numbers(out) -> dict:
    whole = json.loads((out / "table.json").read_text())
    return {key: whole[key] for key in ("pairs", "compatibility", "constructions", "settings", "failed")}


def test_a_run_leaves_rows_table_and_figures(finished):
    rows = pd.read_parquet(finished / "results.parquet")
    assert len(rows) == 12 * len(QUICK) and not rows.duplicated(["pair", "construction"]).any()
    pd.testing.assert_frame_equal(
        pd.read_parquet(finished / "parts").sort_values(["pair", "construction"], ignore_index=True),
        rows.sort_values(["pair", "construction"], ignore_index=True),
    )
    assert (rows["second"] - rows["first"] - 1 == rows["token_distance"]).all()
    assert rows[rows["construction"] == "pseudo_gibbs"]["steps"].notna().all() and rows["seconds"].gt(0).all()
    assert (finished / "figures" / "token_distance.png").exists()
    assert not (finished / "figures" / "syntactic_distance.png").exists()
    assert not (finished / "failures.jsonl").exists()
    described = json.loads((finished / "table.json").read_text())
    assert described["pairs"] == 12 and described["settings"]["seed"] == 1 and {"torch", "unmask"} <= described["versions"].keys()
    assert len(described["date"]) == 25


def test_the_same_command_on_a_finished_run_measures_nothing(finished, request_, monkeypatch):
    before = table(finished), numbers(finished)
    monkeypatch.setattr(engines, "measure_pair", None)
    evaluate(request_, finished)
    assert (table(finished), numbers(finished)) == before


@pytest.mark.parametrize("survived", [0, 1, 7])
def test_a_run_stopped_between_writing_and_renaming_goes_on(finished, request_, tmp_path, monkeypatch, survived):
    """The write that is cut short leaves its temporary file; what was stored before it stays."""
    import unmask.evaluation.runner as runner

    class Killed(BaseException):
        pass

    def stop_at(source, target, replace_file=os.replace):
        if "part-" in str(target) and int(target.stem[5:]) >= survived:
            raise Killed
        replace_file(source, target)

    monkeypatch.setattr(runner, "SECONDS_BETWEEN_PARTS", 0.0)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", stop_at)
        evaluate(request_, tmp_path / "run")
    assert len(list((tmp_path / "run" / "parts").glob("part-*.parquet"))) == survived
    outcome = evaluate(request_, tmp_path / "run")
    assert not outcome.failed and not list((tmp_path / "run" / "parts").glob(".*.tmp"))
    assert (table(tmp_path / "run"), numbers(tmp_path / "run")) == (table(finished), numbers(finished))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 2}, "seed 1, not 2"),
        ({"pairs": 13}, "pairs 12, not 13"),
        ({"scheme": "contiguous"}, "scheme random, not contiguous"),
        ({"constructions": ("product", "mrf")}, "constructions product,mrf,pseudo_gibbs, not product,mrf"),
        ({"arnold_gokhale_steps": 50}, "arnold_gokhale_steps unset, not 50"),
        ({"dtype": "float64"}, "dtype float32, not float64"),
    ],
)
def test_other_settings_are_refused_by_name(finished, request_, change, named):
    before = table(finished)
    with pytest.raises(InputError, match=f"holds a run with {named}"):
        evaluate(replace(request_, **change), finished)
    assert table(finished) == before


def test_other_data_and_weights_are_refused_but_another_path_to_the_same_is_not(finished, request_, tmp_path, monkeypatch):
    from unmask.models.masked_lm import MaskedLM

    finished = shutil.copytree(finished, tmp_path / "run")
    same = tmp_path / "copy.txt"
    same.write_text(open(request_.data).read())
    assert not evaluate(replace(request_, data=str(same)), finished).failed
    same.write_text(open(request_.data).read() + "the cat sat .\n")
    with pytest.raises(InputError, match="holds a run with data .*texts.txt"):
        evaluate(replace(request_, data=str(same)), finished)
    load = MaskedLM.load

    def changed(*arguments, **options):
        model = load(*arguments, **options)
        next(model.network.parameters()).data.mul_(1.001)
        return model

    monkeypatch.setattr(MaskedLM, "load", changed)
    with pytest.raises(InputError, match="holds a run with model "):
        evaluate(request_, finished)


def test_a_pair_that_fails_is_recorded_and_tried_again(finished, request_, tmp_path, monkeypatch):
    measure_pair, calls = engines.measure_pair, []

    def sometimes(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("CUDA error\nand a long trace")
        rows = measure_pair(*arguments)
        if len(calls) == 5:
            rows[1]["a_kl"] = float("nan")
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(engines, "measure_pair", sometimes)
        outcome = evaluate(request_, tmp_path / "run")
    assert [failure["reason"] for failure in outcome.failed] == ["RuntimeError: CUDA error", "a_kl of mrf is nan"]
    stored = [json.loads(line) for line in (tmp_path / "run" / "failures.jsonl").read_text().splitlines()]
    assert stored == outcome.failed and stored[0]["pair"] == 2 and {"text", "block"} <= stored[0].keys()
    assert outcome.summary["pairs"] == 10 and "2 pairs failed" in table(tmp_path / "run")
    assert not evaluate(request_, tmp_path / "run").failed
    assert not (tmp_path / "run" / "failures.jsonl").exists()
    assert (table(tmp_path / "run"), numbers(tmp_path / "run")) == (table(finished), numbers(finished))


def test_when_every_pair_fails_there_is_no_table(request_, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "measure_pair", None)
    outcome = evaluate(request_, tmp_path / "run")
    assert outcome.summary is None and len(outcome.failed) == 12 and not (tmp_path / "run" / "table.md").exists()


def test_an_interrupted_run_keeps_what_it_has_measured(request_, tmp_path, monkeypatch):
    measure_pair, calls = engines.measure_pair, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measure_pair(*arguments)

    monkeypatch.setattr(engines, "measure_pair", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate(request_, tmp_path / "run")
    assert sorted(pd.read_parquet(tmp_path / "run" / "parts")["pair"].unique()) == [0, 1, 2]


def test_two_runs_cannot_share_a_folder(finished, request_):
    import fcntl

    with open(finished / ".lock", "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another run is writing to"):
            evaluate(request_, finished)


def test_a_folder_with_something_else_in_it_is_left_alone(request_, tmp_path):
    (tmp_path / "table.md").write_text("mine")
    with pytest.raises(InputError, match="not empty and holds no run"):
        evaluate(request_, tmp_path)
    assert (tmp_path / "table.md").read_text() == "mine"


def test_a_damaged_part_is_named(finished, request_, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    part = next((tmp_path / "run" / "parts").glob("part-*"))
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(InputError, match=f"{part.name}' cannot be read .*: delete it"):
        evaluate(request_, tmp_path / "run")
    part.unlink()
    evaluate(request_, tmp_path / "run")
    assert table(tmp_path / "run") == table(finished)


def test_no_free_disk_is_one_line_and_loses_nothing(finished, request_, tmp_path, monkeypatch):
    import errno

    import unmask.evaluation.runner as runner

    calls = []

    def full(descriptor, sync=os.fsync):
        calls.append(1)
        if len(calls) > 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(runner, "SECONDS_BETWEEN_PARTS", 0.0)
    with monkeypatch.context() as patch, pytest.raises(InputError, match="no space left on the disk of .*part-"):
        patch.setattr(os, "fsync", full)
        evaluate(request_, tmp_path / "run")
    evaluate(request_, tmp_path / "run")
    assert table(tmp_path / "run") == table(finished)


def test_a_read_only_folder_is_one_line():
    """As another user where the tests are run by root, whom permissions do not bind."""
    with tempfile.TemporaryDirectory() as locked:
        os.chmod(locked, 0o555)
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)
            with pytest.raises(InputError, match=r"cannot be written \(Permission denied\): choose another"):
                RunFolder(Path(locked) / "run", {"constructions": []}, "", schema([])).__enter__()
        finally:
            os.seteuid(user)
            os.chmod(locked, 0o755)


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    write_atomically(tmp_path / "x", b"before")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / "x", b"after")
    assert (tmp_path / "x").read_bytes() == b"before"


def test_pairs_from_a_file_carry_their_keys_to_the_rows(tiny_folder, tmp_path):
    lines = [
        {"text": "the cat sat on the mat .", "block": [1, 2], "id": 7, "tags": ["x"], "syntactic_distance": 1},
        {"text": "a dog ran under a tree .", "block": [5, 2], "id": 8, "tags": None, "weight": 0.5},
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    request = Request(str(tiny_folder), pairs_file=str(tmp_path / "pairs.jsonl"), constructions=QUICK, device="cpu")
    evaluate(request, tmp_path / "run")
    rows = pd.read_parquet(tmp_path / "run" / "results.parquet")
    first, second = (rows[rows["pair"] == i].iloc[0] for i in (0, 1))
    assert (first["id"], first["tags"], first["first_token"], first["second_token"]) == (7, '["x"]', "the", "cat")
    assert (second["first"], second["second"], second["first_token"], second["second_token"]) == (5, 2, "a", "dog")
    assert (second["token_distance"], second["weight"], pd.isna(second["tags"])) == (2, 0.5, True)
    assert (tmp_path / "run" / "figures" / "syntactic_distance.png").exists()
    again = replace(request, pairs_file=str(tmp_path / "run" / "pairs.jsonl"))
    evaluate(again, tmp_path / "again")
    columns = ["pair", "construction", "pair_nll", "a_kl", "id", "token_distance", "syntactic_distance"]
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "again" / "results.parquet")[columns], rows[columns])


def test_parses_give_syntactic_distances(tiny_folder, tmp_path):
    tree = [("the", 2), ("cat", 3), ("sat", 0), ("on", 6), ("the", 6), ("mat", 3), (".", 3)]
    lines = ["# text = the cat sat on the mat."]
    lines += ["\t".join([str(i), form, "_", "_", "_", "_", str(head), "_", "_", "_"]) for i, (form, head) in enumerate(tree, 1)]
    (tmp_path / "one.conllu").write_text("\n".join([*lines, ""]))
    request = Request(str(tiny_folder), str(tmp_path / "one.conllu"), pairs=21, constructions=("product",), device="cpu")
    evaluate(request, tmp_path / "run")
    rows = pd.read_parquet(tmp_path / "run" / "results.parquet")
    found = {(row.first, row.second): row.syntactic_distance for row in rows.itertuples()}
    assert len(found) == 21
    assert (found[1, 2], found[1, 3], found[2, 3], found[4, 5], found[1, 5], found[3, 7]) == (1, 2, 1, 2, 4, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": None}, "either with --data or with --pairs-file"),
        ({"pairs_file": "x"}, "either with --data or with --pairs-file"),
        ({"constructions": ("mrf", "magic")}, "construction 'magic' is unknown"),
        ({"constructions": ()}, "no construction"),
        ({"constructions": ("mrf", "mrf")}, "named twice"),
        ({"arnold_gokhale_steps": 0}, "0 Arnold-Gokhale steps"),
    ],
)
def test_a_wrong_request_is_refused_before_the_model_is_loaded(request_, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        evaluate(replace(request_, model="no such model", **change), tmp_path / "run")
    with pytest.raises(InputError, match="engine 'spark' is unknown"):
        evaluate(replace(request_, model="no such model"), tmp_path / "run", engine="spark")
    assert not (tmp_path / "run").exists()
