"""What the interface answers is what the functions of the same name say."""

from dataclasses import replace
from functools import partial
from math import comb, exp, inf

import numpy as np
import pytest

import unmask
from support.constructions import NAMES
from unmask.common.formats import nats
from unmask.common.plain import in_json
from unmask.joints.family_solution import members_of
from unmask.surfaces.serving.names import in_request
from unmask.surfaces.serving.questions import Answers

TWO = "the [MASK] sat on the [MASK] ."
WHOLE = "the cat sat on the mat ."


def asked(client, path, **body):
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_about_names_everything(client):
    about = client.get("/api/about").json()
    (construction,) = [one for one in about["options"]["fill"] if one["name"] == "construction"]
    assert [name for name, _, _ in construction["choices"]] == [*NAMES, "family"]
    assert about["vocabulary"] == 12
    assert about["longest"] == 16
    assert about["limits"]["most_blanks"] == 8


@pytest.mark.parametrize("construction", ["product", "balanced", "chain"])
def test_fill(client, tiny, construction):
    answer = asked(client, "fill", text=TWO, construction=construction, top=4)
    best = unmask.fill(TWO, tiny, construction=construction, top=4)
    assert {name: answer[name] for name in best.to_dict()} == best.to_dict()
    assert answer["view"] == best.view(in_request)


@pytest.mark.parametrize("path", ["fill", "dependence"])
def test_a_request_never_loads_code(client, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)  # the page takes short names alone
    file = tmp_path / "my_rules.py"
    file.write_text("raise SystemExit('loaded')\n")
    text = TWO if path != "dependence" else WHOLE
    body = {"text": text, "construction": f"{file.name}:Mine"}
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 422, answer.text
    assert "names a file of code" in answer.json()["error"]


def test_the_page_is_told_what_did_not_converge(client, monkeypatch):
    """No construction that iterates comes near enough in two reads."""
    monkeypatch.setattr("unmask.joints.deriving.members_of", partial(members_of, max_reads=2))
    answer = asked(client, "compare", text=TWO, candidates=7)
    assert any("did not converge" in line for line in answer["view"]["verdict"])


def test_the_map_is_that_of_the_joint_and_sums_to_one(client, tiny):
    answer = asked(client, "fill", text=TWO, construction="balanced", cells=12)
    joint = unmask.fill(TWO, tiny, construction="balanced").joint
    drawn = answer["drawn"]
    rows, columns = drawn["axes"]
    for name in ("joint", "product"):
        assert np.sum(drawn[name]) == pytest.approx(1, abs=1e-5)
    best = exp(float(joint.log_prob([rows["ids"][0], columns["ids"][0]])))
    assert drawn["joint"][0][0] == pytest.approx(best, abs=1e-6)


def test_a_pin_is_a_word_that_is_given(client, tiny, events):
    """Sentences and completions are those of `fill` with `given`, and so is the map's other blank.

    Where the filling without the pin is kept, its map comes first.
    """
    word = unmask.fill(TWO, tiny, construction="mrf").completions[2].tokens[0]
    body = {"text": TWO, "construction": "mrf", "cells": 12, "given": {"1": word}}
    known = unmask.fill(TWO, tiny, construction="mrf", given={1: word})
    asked(client, "fill", text=TWO, construction="mrf")
    *before, (name, answer) = events(client.post("/api/fill/events", json=body).text)
    assert name == "answer"
    (first,) = [value for name, value in before if name == "partial"]
    assert first["drawn"] == answer["drawn"]
    assert "given" not in first["view"]["about"][0]
    assert answer["view"] == known.view(in_request)
    assert answer["completions"] == known.to_dict()["completions"]
    given = answer["drawn"]["given"]
    assert given["token"] == word
    best = known.completions[0]
    assert given["tokens"][0] == best.tokens[1]
    assert given["given"][0] == pytest.approx(exp(best.log_prob), abs=1e-5)


def test_compare(client, tiny):
    answer = asked(client, "compare", text=TWO, candidates=6)
    known = unmask.compare(TWO, tiny, candidates=6)
    assert {name: answer[name] for name in known.to_dict()} == in_json(known.to_dict())
    assert answer["view"] == known.view(in_request)


def test_a_filling_as_events(client, events):
    body = {"text": TWO, "construction": "balanced", "candidates": "all"}
    *before, (name, answer) = events(client.post("/api/fill/events", json=body).text)
    assert name == "answer"
    assert answer["construction"] == "balanced"
    assert {name for name, _ in before} == {"progress"}
    done = [value["done"] for _, value in before if value["what"] == "passes of the model"]
    assert done == sorted(done)
    assert done[-1] == 25


def test_a_pair_gets_the_first_look_of_fill(client, tiny, events, monkeypatch):
    monkeypatch.setattr("unmask.verbs.fill.PARTIAL_CANDIDATES", 3)
    text = "a [MASK] sat on a [MASK] ."
    known = unmask.fill(text, tiny, candidates=3)
    for body in ({"text": text}, {"text": text, "candidates": "all"}):
        event = events(client.post("/api/fill/events", json=body).text)
        (look,) = [value for name, value in event if name == "partial"]
        assert look["view"]["about"] == known.about(), "it says how many candidates it has"
    for body in ({"text": TWO, "candidates": 5}, {"text": "the [MASK] sat ."}):
        event = events(client.post("/api/fill/events", json=body).text)
        assert "partial" not in dict(event)


def test_an_error_on_the_way_is_an_event(client, events):
    (event,) = events(client.post("/api/fill/events", json={"text": "the cat sat ."}).text)
    assert event[0] == "error"
    assert "has no blank" in event[1]["error"]


def test_dependence(client, tiny):
    answer, known = asked(client, "dependence", text=WHOLE), unmask.dependence(WHOLE, tiny)
    assert {name: answer[name] for name in known.to_dict()} == known.to_dict()
    assert answer["view"] == known.view(in_request)


@pytest.mark.parametrize("others", ["text", "masked"])
def test_every_number_of_a_pair_is_of_one_joint(client, tiny, others):
    """The map and the number of a pair are those of the joint that the matrix measures."""
    answer = asked(client, "dependence", text=WHOLE, others=others, candidates=5)
    drawn = answer["drawn"]
    count = comb(len(answer["tokens"]), 2)
    assert drawn["measured"] == drawn["count"] == len(drawn["pairs"]) == count
    for pair in drawn["pairs"]:
        assert pair["value"] == answer["matrix"][pair["i"]][pair["j"]]
        assert pair["shown"] == nats(pair["value"])
        cells, (rows, columns) = np.array(pair["map"]["joint"]), pair["map"]["axes"]
        apart = np.outer(rows["marginal"], columns["marginal"])
        assert (cells * np.log(cells / apart)).sum() == pytest.approx(pair["value"], abs=1e-5), (
            "all five tokens are shown"
        )
        stands = [answer["tokens"][pair[end]] for end in "ij"]
        assert stands[0] in rows["tokens"]
        assert stands[1] in columns["tokens"]


def test_what_stands_there_is_among_the_completions(client, tiny):
    answer = asked(client, "fill", text=WHOLE, positions=[2, 4], cells=2, top=1)
    known = unmask.fill(WHOLE, tiny, positions=[2, 4], top=1)
    assert answer["completions"] == known.to_dict()["completions"]
    assert answer["completions"][-1]["gold"] or answer["completions"][0]["gold"]
    stands = [tiny.token(axis["stands"]) for axis in answer["drawn"]["axes"]]
    assert stands == ["cat", "on"]


def test_dependence_shows_what_it_has_so_far(client, events, monkeypatch):
    monkeypatch.setattr("unmask.surfaces.serving.questions.BETWEEN_PARTIALS", 0)
    event = events(
        client.post("/api/dependence/events", json={"text": WHOLE, "candidates": 4}).text
    )
    measured = [value["drawn"]["measured"] for name, value in event if name == "partial"]
    assert measured == sorted(measured)
    assert 0 < measured[0] < comb(7, 2)
    done = [value["done"] for name, value in event if name == "progress"]
    assert done == sorted(done)


def test_chosen_words_are_measured_where_they_stand(client, tiny):
    body = {"text": WHOLE, "positions": [2, 3, 6], "others": "masked", "candidates": 4}
    answer = asked(client, "dependence", **body)
    known = unmask.dependence(WHOLE, tiny, positions=[2, 3, 6], others="masked", candidates=4)
    pairs = answer["drawn"]["pairs"]
    assert [(pair["i"], pair["j"], pair["value"]) for pair in pairs] == known.pairs()
    assert [one["name"] for one in answer["drawn"]["pieces"]] == ["cat", "sat", "mat"]
    line = asked(client, "dependence/copy", **body)["command"]
    assert line.startswith(f"unmask dependence '{WHOLE}' ")
    assert "--positions 2,3,6" in line
    assert "--others masked" in line


def rows_of(answer):
    """The rows of a batch, as dicts."""
    heads = [column["head"] for column in answer["rows"]["columns"]]
    return [dict(zip(heads, row, strict=True)) for row in answer["rows"]["rows"]]


def test_a_batch_is_scored_compared_or_filled(client, tiny):
    texts = ["the cat sat .", "a dog ran .", "the dog sat ."]
    batch = asked(client, "batch", content="\n".join(texts))
    known = unmask.score(texts, "pll", model=tiny)
    expected = [{"text": row["text"], "pll": row["pll"]} for row in known.rows]
    assert rows_of(batch) == expected
    assert batch["view"]["about"] == known.about()
    pairs = "sentence_good,sentence_bad\nthe cat sat .,the cat on .\n"
    batch = asked(client, "batch", content=pairs, name="my pairs.csv")
    pair = {"sentence_good": "the cat sat .", "sentence_bad": "the cat on ."}
    known = unmask.minimal_pairs([pair], tiny)
    assert rows_of(batch)[0]["good_pll"] == known.rows[0]["good_pll"]
    assert batch["view"]["verdict"] == known.verdict()
    batch = asked(client, "batch", content="the [MASK] sat .\nthe ___ ran .")
    best = unmask.fill("the [MASK] sat .", tiny, top=1).completions[0]
    first, _second = rows_of(batch)
    assert first == {"text": "the [MASK] sat .", "best": best.text, "log_prob": best.log_prob}
    answer = client.post("/api/batch", json={"content": "a;b\n", "name": "x.csv"})
    assert answer.status_code == 422, "no folder of the server is named"
    assert answer.json()["error"].startswith("x.csv"), "no folder of the server is named"


@pytest.mark.parametrize("first", ["the good cat and the bad dog .", "unacceptable ."])
def test_a_list_whose_first_text_has_names_of_columns_is_a_list(client, first):
    answer = asked(client, "batch", content=f"{first}\nthe cat sat .\n")
    assert [list(row)[:2] for row in rows_of(answer)] == [["text", "pll"]] * 2
    assert [row["text"] for row in rows_of(answer)] == [first, "the cat sat ."]


PAIR = ["the cat sat .", "the cat on ."]


@pytest.mark.parametrize(
    "content",
    [
        "good,bad\nthe cat sat .,the cat on .",
        "Sentence_Good; sentence_bad\nthe cat sat .;the cat on .",
        "sentence_good\tsentence_bad\nthe cat sat .\tthe cat on .",
        '{"good": "the cat sat .", "bad": "the cat on ."}',
    ],
)
def test_pairs_that_are_pasted_are_compared(client, content):
    answer = asked(client, "batch", content=content)
    assert list(rows_of(answer)[0].values())[:2] == PAIR


def test_a_target_of_a_batch_is_scored_alone(client, tiny):
    content = "before,target,after\nthe,cat,sat .\n"
    answer = asked(client, "batch", content=content, name="targets.csv")
    record = {"before": "the", "target": "cat", "after": "sat ."}
    (known,) = unmask.score([record], "pll", model=tiny).rows
    expected = {"text": "the cat sat .", "target": "cat", "pll": known["pll"]}
    assert rows_of(answer) == [expected]


@pytest.mark.parametrize(
    "name", ["\U0001d54f" * 90 + ".csv", "x/../..", "a\nb.csv", "..", "x.csv.gz", "é" * 300]
)
def test_any_name_of_a_file_is_answered(client, name):
    batch = asked(client, "batch", content="text\nthe cat sat .\n", name=name)
    assert rows_of(batch)[-1]["text"] == "the cat sat ."
    answer = client.post("/api/batch", json={"content": '"\n', "name": "\U0001d54f" * 90 + ".csv"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("\U0001d54f")


@pytest.mark.parametrize("score", ["pll ", " pll", "any_order "])
def test_a_score_with_a_space_around_its_name_is_that_score(client, score):
    answer = asked(client, "batch", content="the cat sat .", score=[score])
    assert rows_of(answer)[0][score.strip()] < 0


def test_a_word_that_the_text_does_not_have_is_refused(client):
    body = {"text": "the cat sat .", "positions": [1, 2, 9], "candidates": 4}
    answer = client.post("/api/dependence", json=body)
    assert answer.status_code == 422
    assert "9" in answer.json()["error"]


def test_a_text_that_is_too_long_is_refused_with_its_length(client):
    for path, body, called in (
        ("words", {"text": "a" * 70_000}, "text"),
        ("fill", {"text": "a" * 2_001}, "text"),
        ("score", {"texts": ["the cat .", "a" * 2_001]}, "texts.1"),
    ):
        answer = client.post(f"/api/{path}", json=body)
        count = len(body.get("text", "a" * 2_001))
        message = f"{called} has {count:,} characters, and the page takes 2,000"
        assert answer.status_code == 422
        assert answer.json()["error"].startswith(message)


def test_score_and_difference(client, tiny):
    texts = [WHOLE, "the dog sat on the mat ."]
    answer = asked(client, "score", texts=texts, score=["pll", "left_to_right"])
    known = unmask.score(texts, ["pll", "left_to_right"], model=tiny, rows="nested")
    assert {name: answer[name] for name in known.to_dict()} == in_json(known.to_dict())
    assert answer["view"] == known.view(in_request)
    total = sum(row["pll_difference"] for row in answer["drawn"]["difference"])
    assert total == pytest.approx(known.rows[0]["pll"] - known.rows[1]["pll"], abs=1e-4)


@pytest.mark.parametrize("score", ["pll", "energy_norm", "energy_raw"])
def test_bars_speak_for_the_text_that_is_better(client, tiny, score):
    """Of energies the lower one: the bars of two texts add up to the advantage of the first."""
    texts = [WHOLE, "the dog sat on the mat ."]
    for pair in (texts, texts[::-1]):
        answer = asked(client, "score", texts=pair, score=[score])
        first, second = (row[score] for row in unmask.score(pair, score, model=tiny).rows)
        direction = -1 if score.startswith("energy") else 1
        advantage = direction * (first - second)
        assert sum(answer["drawn"]["for_first"][score]) == pytest.approx(advantage, abs=1e-4)
        (sentence,) = answer["view"]["verdict"]
        assert ("the first text is better" in sentence) == (advantage > 0)


def test_any_order_is_exact_where_the_command_is(client, tiny):
    text = "the cat sat on the mat and a dog ran ."  # 11 tokens
    (known,) = unmask.score([text], "any_order", model=tiny).rows
    (row,) = asked(client, "score", texts=[text], score=["any_order"])["rows"]
    assert row["any_order"] == known["any_order"]
    assert row["any_order_se"] is known["any_order_se"] is None, "it has no error"


def test_infinities_are_the_words_of_files(client, tiny, monkeypatch):
    """A filling that the model rules out."""
    text = "the [MASK] sat ."
    filling = unmask.fill(text, tiny, top=1)
    ruled_out = replace(filling.completions[0], log_prob=-inf)
    of_nothing = replace(filling, completions=[ruled_out])
    monkeypatch.setattr(Answers, "result", lambda *_args, **_hooks: of_nothing)
    answer = asked(client, "fill", text=text, top=1, candidates="all")  # of no other test
    assert answer["completions"][0]["log_prob"] == "-Infinity"


@pytest.mark.parametrize("kernel", ["mh", "gibbs"])
def test_a_chain_is_the_one_of_unmask_sample(client, tiny, events, kernel):
    """Token for token: the steps add up to the texts, and the texts are those of the function."""
    body = {
        "template": "the [MASK] [MASK] on the [MASK] .",
        "kernel": kernel,
        "chains": 2,
        "sweeps": 5,
        "seed": 3,
    }
    begun, *event, answer = events(client.post("/api/sample", json=body).text)
    assert begun[0] == "begun"
    run = unmask.sample(body["template"], model=tiny, kernel=kernel, chains=2, sweeps=5, seed=3)
    tokens = begun[1]["tokens"]
    for name, value in event:
        if name == "stepped":
            for chain, move in enumerate(value["moves"]):
                for position, token in zip(move["positions"], move["tokens"], strict=True):
                    tokens[chain][position] = token
        elif name == "swept":
            frame = run.to_frame()
            rows = frame[frame["sweep"] == value["sweep"]]
            assert value["texts"] == rows["text"].tolist()
            assert value["energies"] == pytest.approx(rows["energy"].tolist())
            assert tokens == [tiny.decode(ids.tolist()) for ids in rows["ids"]]
            rates = (value["acceptance"], value["novelty"])
    assert rates == pytest.approx((run.diagnosis.acceptance, run.diagnosis.novelty))
    assert answer[0] == "answer"
    assert answer[1]["view"] == run.view(in_request)
    assert answer[1]["samples"] == run.to_dict()["samples"]
    (so_far,) = [value for name, value in event if name == "partial"]
    assert so_far["diagnosis"]["draws"] == 4


@pytest.mark.parametrize("decoder", ["ancestral", "verified"])
def test_texts_of_a_decoder_are_those_of_unmask_generate(client, tiny, events, decoder):
    template = "the [MASK] [MASK] on the [MASK] ."
    body = {"template": template, "decoder": decoder, "n_texts": 3, "seed": 3}
    *_, (name, answer) = events(client.post("/api/generate", json=body).text)
    assert name == "answer"
    known = unmask.generate(template, tiny, decoder=decoder, n_texts=3, seed=3)
    assert {name: answer[name] for name in known.to_dict()} == known.to_dict()
    assert answer["view"] == known.view(in_request)
    refused = client.post("/api/generate", json=body | {"sweeps": 2})
    assert refused.status_code == 422
    refused = client.post("/api/sample", json={"template": template, "kernel": decoder})
    assert refused.status_code == 422
    assert "generate" in refused.json()["error"]


def test_a_chain_starts_from_the_sentence(client, events):
    body = {"template": "the [MASK] sat on the [MASK] .", "start": WHOLE, "sweeps": 1, "chains": 1}
    begun = events(client.post("/api/sample", json=body).text)[0][1]
    assert begun["tokens"] == [["[CLS]", *WHOLE.split(), "[SEP]"]]
    assert begun["free"] == [2, 6]


def test_settings_that_nothing_uses_are_refused_before_the_stream(client):
    answer = client.post(
        "/api/sample", json={"template": TWO, "kernel": "gibbs", "energy_temperature": 2}
    )
    assert answer.status_code == 422
    assert "energy_temperature" in answer.json()["error"]


def test_words(client):
    words = asked(client, "words", text="the cat sat on the [MASK] .")["words"]
    assert [w["text"] for w in words] == ["the", "cat", "sat", "on", "the", "[MASK]", "."]
    assert [w["blank"] for w in words] == [None] * 5 + ["token", None]
    assert all("the cat sat on the [MASK] ."[w["start"] : w["end"]] == w["text"] for w in words)
    assert not asked(client, "words", text="the zebra")["words"][1]["known"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("the [MASK] sat", [None, "token", None]),
        ("the ___ sat __", [None, "token", None, "token"]),
        ("<mask> [WORD] [GAP:2-5] [GAP:3]", ["token", "word", "gap", "gap"]),
        ("a_b _", [None, None, None, None]),
    ],
)
def test_blanks_as_people_type_them(client, text, kinds):
    words = asked(client, "words", text=text)["words"]
    assert [word["blank"] for word in words] == kinds
    assert [text[word["start"] : word["end"]] for word in words] == [word["text"] for word in words]


@pytest.mark.parametrize("changes", [1, 2])
def test_mutants(client, tiny, changes):
    body = {"sequence": WHOLE, "positions": [2, 3], "changes": changes}
    answer = asked(client, "mutants", **body)
    known = unmask.mutants(WHOLE, positions=[2, 3], changes=changes, model=tiny)
    assert {name: answer[name] for name in known.to_dict()} == in_json(known.to_dict())
    assert answer["view"] == known.view(in_request)
    assert answer["drawn"]["wild_type"] == WHOLE.split()
    answer = client.post("/api/mutants", json={"sequence": WHOLE, "positions": [99]})
    assert answer.status_code == 422


def test_a_text_of_the_page_is_a_text_also_where_it_looks_like_a_file(
    client, tiny, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cat").write_text("the dog sat")
    for text in ("cat/dog", "cat"):
        assert [
            row["text"] for row in asked(client, "score", texts=[text], score=["pll"])["rows"]
        ] == [text]
    assert asked(client, "dependence", text="cat/dog", candidates=4)["text"] == "cat/dog"
    assert "item" not in asked(client, "fill", text="cat/[MASK]", candidates=4)
