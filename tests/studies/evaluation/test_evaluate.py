import json
import shutil

import numpy as np
import pandas as pd
import pytest

import unmask
from support.study_frames import rows_frame
from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM

QUICK = ("product", "mrf", "pseudo_gibbs")


@pytest.fixture(scope="module")
def asked(tiny, corpus):
    return {"data": str(corpus), "model": tiny, "pairs": 12, "seed": 1, "constructions": QUICK}


@pytest.fixture(scope="module")
def finished(asked, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    unmask.evaluate(**asked, out=out)
    return out


@pytest.fixture
def masked(finished, tiny):
    """The masked texts of the finished run, as its model is first asked about them."""
    texts = []
    for line in (finished / "pairs.jsonl").read_text().splitlines():
        pair = json.loads(line)
        ids = tiny.words.encode(pair["text"])
        texts.append(
            tuple(tiny.mask_id if t in pair["block"] else token for t, token in enumerate(ids))
        )
    assert len(set(texts)) == len(texts)
    return texts


def table(out) -> str:
    return (out / "table.md").read_text()


def numbers(out) -> dict:
    whole = json.loads((out / "table.json").read_text())
    return {
        key: whole[key]
        for key in ("n_pairs", "incompatibility", "constructions", "settings", "n_failed")
    }


def parts(out):
    return sorted((out / "parts").glob("part-*.parquet"))


def test_a_run_leaves_rows_table_and_figures(finished):
    rows = pd.read_parquet(finished / "results.parquet")
    assert len(rows) == 12 * len(QUICK)
    assert not rows.duplicated(["pair", "construction"]).any()
    pd.testing.assert_frame_equal(
        pd.read_parquet(finished / "parts").sort_values(
            ["pair", "construction"], ignore_index=True
        ),
        rows.sort_values(["pair", "construction"], ignore_index=True),
    )
    assert (rows["second"] - rows["first"] - 1 == rows["token_distance"]).all()
    assert rows[rows["construction"] == "pseudo_gibbs"]["steps"].notna().all()
    assert rows["seconds"].gt(0).all()
    assert (finished / "figures" / "token_distance.png").exists()
    assert not (finished / "figures" / "syntactic_distance.png").exists()
    assert not (finished / "failures.jsonl").exists()
    described = json.loads((finished / "table.json").read_text())
    assert described["n_pairs"] == 12
    assert described["settings"]["seed"] == 1
    assert {"torch", "unmask"} <= described["versions"].keys()
    assert len(described["date"]) == 25


def test_the_function_gives_what_the_folder_holds_and_needs_none(asked, finished):
    evaluation = unmask.evaluate(**asked)
    assert evaluation.to_markdown() == table(finished)
    pd.testing.assert_frame_equal(
        rows_frame(evaluation).drop(columns="seconds"),
        pd.read_parquet(finished / "results.parquet").drop(columns="seconds"),
    )
    texts = open(asked["data"]).read().splitlines()
    again = unmask.evaluate(
        texts, **{name: value for name, value in asked.items() if name != "data"}
    )
    pd.testing.assert_frame_equal(
        rows_frame(again).drop(columns="seconds"), rows_frame(evaluation).drop(columns="seconds")
    )
    assert again.settings["data"] == "40 given texts"
    assert again.settings["data_sha256"] == evaluation.settings["data_sha256"]


def test_the_same_command_on_a_finished_run_asks_the_model_nothing(finished, asked, faulty, masked):
    before = table(finished), numbers(finished)
    unmask.evaluate(
        **asked | {"model": faulty(dict.fromkeys(masked, RuntimeError("asked")))}, out=finished
    )
    assert (table(finished), numbers(finished)) == before


def test_progress_counts_pairs(asked, monkeypatch):
    """Those that are measured together count together: the first of a batch says nothing about
    the time of the others.
    """
    for at_once, counts in ((1, range(13)), (12, (0, 12))):
        monkeypatch.setattr("unmask.studies.evaluation.measure.ON_A_CPU", at_once)
        reports = []
        unmask.evaluate(**asked, progress=lambda *report: reports.append(report))  # noqa: B023
        assert reports == [(n, 12, "pairs") for n in counts]


def test_other_data_and_weights_are_refused_but_another_path_to_the_same_is_not(
    finished, asked, tiny_folder, tmp_path
):
    finished = shutil.copytree(finished, tmp_path / "run")
    same = tmp_path / "copy.txt"
    same.write_text(open(asked["data"]).read())
    assert not unmask.evaluate(**asked | {"data": same, "model": tiny_folder}, out=finished).failed
    with pytest.raises(InputError, match="holds a run with dtype 'float32', not 'float64'"):
        unmask.evaluate(
            **asked | {"model": MaskedLM.load(tiny_folder, device="cpu", dtype="float64")},
            out=finished,
        )
    same.write_text(open(asked["data"]).read() + "the cat sat .\n")
    with pytest.raises(InputError, match="holds a run with data .*texts.txt"):
        unmask.evaluate(**asked | {"data": same}, out=finished)
    changed = MaskedLM.load(tiny_folder, device="cpu")
    next(changed.network.parameters()).data.view(-1)[3] += 1e-3
    with pytest.raises(InputError, match="holds a run with model "):
        unmask.evaluate(**asked | {"model": changed}, out=finished)


def test_a_pair_that_fails_is_recorded_and_tried_again(finished, asked, faulty, masked, tmp_path):
    model = faulty(
        {masked[2]: RuntimeError("CUDA error\nand a long trace"), masked[4]: float("nan")}
    )
    evaluation = unmask.evaluate(**asked | {"model": model}, out=tmp_path / "run")
    assert [failure["pair"] for failure in evaluation.failed] == [2, 4]
    assert evaluation.failed[0]["reason"] == "RuntimeError: CUDA error"
    assert "nan" in evaluation.failed[1]["reason"].lower()
    stored = [
        json.loads(line) for line in (tmp_path / "run" / "failures.jsonl").read_text().splitlines()
    ]
    assert stored == evaluation.failed
    assert {"text", "block"} <= stored[0].keys()
    assert evaluation.n_pairs == 10
    assert "2 pairs failed" in table(tmp_path / "run")
    assert not unmask.evaluate(**asked, out=tmp_path / "run").failed
    assert not (tmp_path / "run" / "failures.jsonl").exists()
    assert (table(tmp_path / "run"), numbers(tmp_path / "run")) == (
        table(finished),
        numbers(finished),
    )


def test_when_every_pair_fails_there_is_no_table(asked, faulty, masked, tmp_path):
    model = faulty(dict.fromkeys(masked, MemoryError("too large")))
    evaluation = unmask.evaluate(**asked | {"model": model}, out=tmp_path / "run")
    assert evaluation.n_pairs == 0
    assert len(evaluation.failed) == 12
    assert evaluation.to_frame().empty
    assert evaluation.to_markdown().startswith("0 random pairs of ")
    assert "12 pairs failed and are not in the table" in evaluation.to_markdown()
    assert not (tmp_path / "run" / "table.md").exists()


def test_the_pairs_of_a_deleted_part_are_measured_again(finished, asked, tmp_path):
    out = shutil.copytree(finished, tmp_path / "run")
    assert len(parts(out)) > 2
    parts(out)[1].rename(tmp_path / "away")
    unmask.evaluate(**asked, out=out)
    assert (table(out), numbers(out)) == (table(finished), numbers(finished))
    (tmp_path / "away").rename(out / "parts" / "part-000001.parquet")
    unmask.evaluate(**asked, out=out)
    assert (table(out), numbers(out)) == (
        table(finished),
        numbers(finished),
    ), "a part that comes back does not count twice"


def test_blocks_of_a_file_are_measured(tiny, tmp_path):
    lines = [
        {"text": "the cat sat on the mat .", "block": [1, 2], "id": 7, "syntactic_distance": 1},
        {"text": "a dog ran under a tree .", "block": [5, 2]},
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = {"model": tiny, "constructions": QUICK}
    blocks = tmp_path / "pairs.jsonl"
    rows = rows_frame(unmask.evaluate(blocks=blocks, out=tmp_path / "run", **options))
    first, second = (rows[rows["pair"] == i].iloc[0] for i in (0, 1))
    assert (first["first_token"], first["second_token"], "id" in first) == ("the", "cat", False)
    assert (second["first"], second["second"], second["first_token"], second["second_token"]) == (
        5,
        2,
        "a",
        "dog",
    )
    assert second["token_distance"] == 2
    assert (tmp_path / "run" / "figures" / "syntactic_distance.png").exists()
    for option, value in {"pairs": 1, "scheme": "random", "seed": 0, "data": "x.txt"}.items():
        with pytest.raises(InputError, match=f"{option} is not used with blocks"):
            unmask.evaluate(blocks=blocks, **options, **{option: value})
    with pytest.raises(InputError, match="pairs.jsonl' has blocks: give it as blocks"):
        unmask.evaluate(blocks, **options)
    again = rows_frame(unmask.evaluate(blocks=tmp_path / "run" / "pairs.jsonl", **options))
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), rows.drop(columns="seconds"))


def test_parses_give_syntactic_distances(tiny, tmp_path):
    tree = [("the", 2), ("cat", 3), ("sat", 0), ("on", 6), ("the", 6), ("mat", 3), (".", 3)]
    lines = ["# text = the cat sat on the mat."]
    lines += [
        "\t".join([str(i), form, "_", "_", "_", "_", str(head), "_", "_", "_"])
        for i, (form, head) in enumerate(tree, 1)
    ]
    (tmp_path / "one.conllu").write_text("\n".join([*lines, ""]))
    rows = rows_frame(
        unmask.evaluate(tmp_path / "one.conllu", model=tiny, pairs=21, constructions="product")
    )
    apart = {(row.first, row.second): row.syntactic_distance for row in rows.itertuples()}
    assert len(apart) == 21
    assert (apart[1, 2], apart[1, 3], apart[2, 3], apart[4, 5], apart[1, 5], apart[3, 7]) == (
        1,
        2,
        1,
        2,
        4,
        1,
    )


def test_the_support_is_the_regular_tokens_or_every_column_or_an_alphabet(asked, tiny):
    """With a whole vocabulary of 17 columns, of 12 regular tokens, and of five; each sum over
    fewer pairs of tokens.
    """
    texts = ["the cat sat on the mat .", "a dog ran on the mat ."]
    by_support = {
        name: rows_frame(
            unmask.evaluate(texts, model=tiny, pairs=6, constructions="mrf", **options)
        )
        for name, options in {
            "all": {"support": "all"},
            "regular": {},
            "five": {"alphabet": "the,a,mat,on,cat"},
        }.items()
    }
    known = {"all": 17, "regular": 12, "five": 5}
    for name, rows in by_support.items():
        contexts = rows["objective"] / (2 * rows["a_kl"])
        np.testing.assert_allclose(contexts, known[name], rtol=1e-5)
    assert set(by_support["five"]["first_token"]) | set(by_support["five"]["second_token"]) <= set(
        "the a mat on cat".split()
    )
    both = by_support["regular"].merge(by_support["all"], on=["pair", "construction"])
    assert (both["pair_nll_x"] < both["pair_nll_y"]).all()


def test_columns_that_are_no_tokens_do_not_count(tiny, tiny_folder, tmp_path):
    """A model with ten times as many outputs as tokens has the rows of the model without them."""
    import torch
    from transformers import BertForMaskedLM

    folder = shutil.copytree(tiny_folder, tmp_path / "wide")
    wide = BertForMaskedLM.from_pretrained(tiny_folder)
    wide.resize_token_embeddings(170)
    with torch.no_grad():
        wide.cls.predictions.decoder.bias[17:] = 3.0
    wide.save_pretrained(folder)
    texts = ["the cat sat on the mat ."]
    wide_model = MaskedLM.load(folder, device="cpu")
    rows = [
        rows_frame(unmask.evaluate(texts, model=m, pairs=3, constructions=["product", "balanced"]))
        for m in (tiny, wide_model)
    ]
    compared = ["pair", "construction", "unary_nll_first", "pair_nll", "a_kl", "g_kl"]
    pd.testing.assert_frame_equal(rows[0][compared], rows[1][compared], rtol=1e-4)
    every = rows_frame(
        unmask.evaluate(
            texts, model=wide_model, pairs=3, constructions=["product", "balanced"], support="all"
        )
    )
    assert (every["pair_nll"] > rows[1]["pair_nll"] + 1).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"constructions": ("mrf", "mrf")}, "mrf twice"),
        ({"support": "all", "alphabet": "abc"}, "alphabet is not used with support"),
    ],
)
def test_a_wrong_request_is_refused_before_the_model_is_loaded(corpus, tmp_path, change, message):
    options = {
        "data": str(corpus),
        "model": "no such model",
        "constructions": QUICK,
        "out": tmp_path / "run",
    }
    with pytest.raises(InputError, match=message) as error:
        unmask.evaluate(**options | change)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
