import json
import shutil

import pytest

from support.command_runner import invoke
from unmask import MaskedLM, evaluate


def unmask(*arguments: object):
    return invoke(["evaluate", *arguments], env={"COLUMNS": "80"})


@pytest.fixture
def options(tiny_folder, corpus, tmp_path):
    return [
        corpus,
        "--model",
        tiny_folder,
        "--device",
        "cpu",
        "--constructions",
        "product,mrf",
        "--out",
        tmp_path / "run",
    ]


def test_a_run_prints_the_table_and_writes_it(options, tmp_path):
    done = unmask(*options, "--pairs", 6, "--scheme", "contiguous")
    assert done.exit_code == 0, done.output
    assert "MLM (product)" in done.stdout
    assert "P-PPL" in done.stdout
    assert f"are in {tmp_path / 'run'}" in done.stderr
    table = json.loads((tmp_path / "run" / "table.json").read_text())
    assert table["n_pairs"] == 6
    assert table["settings"]["scheme"] == "contiguous"
    value = next(row for row in table["constructions"] if row["construction"] == "mrf")["p_ppl"][
        "value"
    ]
    assert f"{value:,.2f}" in done.stdout
    assert unmask(*options, "--pairs", 6, "--scheme", "contiguous").stdout == done.stdout


def test_a_first_try_is_short_and_says_so(options, monkeypatch):
    monkeypatch.setattr(
        "unmask.studies.evaluation.plan.seconds_per_pair", lambda model, tokens: 20.0
    )
    done = unmask(*options)
    assert done.exit_code == 0, done.output
    assert "3 random pairs" in done.stdout, done.output
    assert "3 pairs are a first try" in done.stderr
    assert "--pairs 1000" in done.stderr


def test_the_bundled_model_measures_two_pairs_in_a_first_try(tiny):
    from unmask.studies.evaluation.plan import seconds_per_pair, usual_pairs

    bundled = MaskedLM.load(device="cpu")
    every = len(bundled.regular_ids)
    assert usual_pairs(bundled, every, False) == 2
    assert 20 < seconds_per_pair(bundled, every) < 40
    assert usual_pairs(tiny, 20, False) == usual_pairs(bundled, every, True) == 1000


def test_the_paper_s_table_has_both_schemes(options, tiny_folder, corpus, tmp_path):
    words = [
        corpus,
        "--model",
        tiny_folder,
        "--device",
        "cpu",
        "--pairs",
        2,
        "--out",
        tmp_path / "paper",
        "--constructions",
        "paper",
    ]
    done = unmask(*words)
    assert done.exit_code == 0, done.output
    assert "2 random pairs" in done.stdout, done.output
    assert "2 contiguous pairs" in done.stdout, done.output
    for scheme in ("random", "contiguous"):
        settings = json.loads((tmp_path / "paper" / scheme / "table.json").read_text())["settings"]
        assert (settings["scheme"], settings["support"]) == (scheme, "all")
        *closed_forms, iterated = settings["constructions"]
        assert closed_forms == ["product", "mrf_logit", "mrf", "hcb"]
        assert (iterated["name"], iterated["steps"]) == ("arnold_gokhale", 50)


def test_the_paper_s_table_as_json_is_one_document(tiny, tiny_folder, corpus):
    done = unmask(
        corpus,
        "--model",
        tiny_folder,
        "--device",
        "cpu",
        "--pairs",
        2,
        "--constructions",
        "paper",
        "--json",
    )
    assert done.exit_code == 0
    notice = "intervals, rows and figures are not kept: give --out FOLDER"
    assert done.stderr.splitlines() == [notice]
    printed = json.loads(done.stdout)
    assert list(printed) == ["random", "contiguous"]
    options = {"model": tiny, "pairs": 2, "constructions": "paper"}
    assert json.loads(json.dumps(evaluate(corpus, **options).to_dict())).keys() == printed.keys()
    for scheme, table in printed.items():
        evaluated = evaluate(corpus, scheme=scheme, **options).to_dict()
        assert table.keys() == evaluated.keys()
        assert table["constructions"] == evaluated["constructions"]


def test_json_is_what_the_function_gives(options, tiny, corpus, tmp_path):
    done = unmask(*options, "--pairs", 4, "--json")
    assert done.exit_code == 0
    assert "intervals, rows and figures are in" in done.stderr
    printed = json.loads(done.stdout)
    assert printed == json.loads((tmp_path / "run" / "table.json").read_text())
    evaluated = evaluate(corpus, model=tiny, pairs=4, constructions="product,mrf").to_dict()
    assert printed.keys() == evaluated.keys()
    assert printed["constructions"] == evaluated["constructions"]


@pytest.fixture
def short_winded(tiny_folder, tmp_path):
    """A model whose numbers overflow from the eighth token of a text on."""
    import torch
    from transformers import BertForMaskedLM

    folder = shutil.copytree(tiny_folder, tmp_path / "short-winded")
    network = BertForMaskedLM.from_pretrained(tiny_folder)
    with torch.no_grad():
        network.bert.embeddings.position_embeddings.weight[7:] = 3e38
    network.save_pretrained(folder)
    return folder


def test_failed_pairs_end_with_a_count_and_exit_code_1(short_winded, tmp_path):
    data = tmp_path / "texts.txt"
    data.write_text(
        "the cat sat .\nthe cat sat on the mat .\na dog ran .\na dog ran under the tree .\n"
    )
    words = [
        data,
        "--model",
        short_winded,
        "--device",
        "cpu",
        "--pairs",
        4,
        "--out",
        tmp_path / "run",
    ]
    done = unmask(*words, "--constructions", "product,mrf")
    assert done.exit_code == 1, done.output
    assert "2 random pairs" in done.stdout
    assert "MRF" in done.stdout
    assert "2 of 4 pairs failed, the first with " in done.stderr
    assert "failures.jsonl" in done.stderr
    failures = [
        json.loads(line) for line in (tmp_path / "run" / "failures.jsonl").read_text().splitlines()
    ]
    assert [len(failure["text"].split()) for failure in failures] == [7, 7]


def test_texts_that_are_skipped_are_counted(tiny_folder, tmp_path):
    data = tmp_path / "texts.txt"
    data.write_text("cat\n" + "the cat sat on the mat .\n" * 3 + "the " * 40 + "\n")
    done = unmask(
        data,
        "--model",
        tiny_folder,
        "--device",
        "cpu",
        "--pairs",
        9,
        "--constructions",
        "mrf",
        "--out",
        tmp_path / "run",
    )
    assert done.exit_code == 0
    assert "1 text skipped: fewer than two regular tokens" in done.stderr
    assert "1 text skipped: more than 16 tokens" in done.stderr
