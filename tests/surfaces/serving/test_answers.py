"""What the interface answers is what the functions of the same name say."""

import json
from dataclasses import replace
from functools import partial
from math import comb, exp, inf, log

import numpy as np
import pytest
from pydantic import TypeAdapter

import unmask
from support.constructions import NAMES
from unmask.common.formats import nats, percent, share
from unmask.common.plain import in_json
from unmask.joints.family_solution import members_of
from unmask.surfaces.serving import questions
from unmask.surfaces.serving.drawings.chains import (
    Begun,
    Stepped,
    Swept,
    text_tokens,
)
from unmask.surfaces.serving.drawings.dependence import StrongestJoints
from unmask.surfaces.serving.jobs import CURRENT, Job
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
    drawn = answer["drawn"]["map"]
    for place in (2, 3):  # the columns of the joint, and of the product
        cells = [row[place] for row in drawn["table"]["rows"]]
        assert np.sum(cells) == pytest.approx(1, abs=1e-5)
    (row, column) = drawn["grid"]["rows"][0], drawn["grid"]["columns"][0]
    best = exp(float(joint.log_prob([row["id"], column["id"]])))
    assert drawn["table"]["rows"][0][2] == pytest.approx(best, abs=1e-6)
    assert drawn["grid"]["cells"][0][0]["name"] == f"{row['label']} … {column['label']}"


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_pin_is_a_word_that_is_given(client, tiny, events, is_kept):
    """Sentences, completions and the other blank are those of `fill` with `given`, in all that is
    answered. Where the filling without the pin is kept, that takes no pass of the model.
    """
    word = unmask.fill(TWO, tiny, construction="mrf").completions[2].tokens[0]
    top = 4 + is_kept  # a question of no other test: what is kept is the fixture's
    body = {"text": TWO, "construction": "mrf", "cells": 12, "given": {"1": word}, "top": top}
    known = unmask.fill(TWO, tiny, construction="mrf", given={1: word}, top=top)
    if is_kept:
        asked(client, "fill", text=TWO, construction="mrf", top=top)
    *before, (name, answer) = events(client.post("/api/fill/events", json=body).text)
    assert name == "answer"
    passes = [value for one, value in before if one == "progress"]
    assert (passes == []) == is_kept
    looks = [value for one, value in before if one == "partial"]
    assert all("given" in look["view"]["about"][0] for look in looks)
    assert answer["view"] == known.view(in_request)
    assert "given" in answer["view"]["about"][0]
    assert {name: answer[name] for name in known.to_dict()} == in_json(known.to_dict())
    pins = answer["drawn"]["map"]["pins"]
    best = known.completions[0]
    assert pins["blanks"][1]["bars"][0]["token"] == best.tokens[1]
    assert pins["table"]["rows"][0][1] == pytest.approx(exp(best.log_prob), abs=1e-5)
    assert answer["drawn"]["completions"][0]["words"] == list(best.tokens)


def test_everything_that_is_answered_while_a_word_is_pinned_is_given_it(
    client, tiny, events, monkeypatch
):
    """The first look, too: no number without the pin comes under an address that has it."""
    monkeypatch.setattr("unmask.verbs.fill.PARTIAL_CANDIDATES", 3)
    text = "a [MASK] sat on a [MASK] ."
    word = unmask.fill(text, tiny, candidates=3).completions[0].tokens[0]
    body = {"text": text, "given": {"1": word}, "top": 6}  # a question of no other test
    first_time = events(client.post("/api/fill/events", json=body).text)
    again = events(client.post("/api/fill/events", json=body).text)
    shown = [value for name, value in first_time if name in ("partial", "answer")]
    assert len(shown) == 2
    for answer in shown:
        assert f"given {word!r} at blank 1" in answer["view"]["about"][0]
        assert all(one["tokens"][0] == word for one in answer["completions"])
        assert answer["drawn"]["map"]["notes"][-1] == "The map is without the pin."
    assert again[-1] == first_time[-1], "the same question has the same answer"


def test_a_pin_during_the_first_look_is_given_in_the_whole_joint(tiny, monkeypatch):
    """A click on a bar of the first look stops its question, and asks with the pin."""
    monkeypatch.setattr("unmask.verbs.fill.PARTIAL_CANDIDATES", 3)
    answers = Answers(tiny)
    looks = []

    def click(look):
        looks.append(look)
        raise KeyboardInterrupt

    body = {"text": "a [MASK] sat on a [MASK] ."}
    with pytest.raises(KeyboardInterrupt):
        answers.fill(body, partial=click)
    word = looks[0]["drawn"]["map"]["pins"]["blanks"][0]["bars"][1]["token"]
    answer = answers.fill({**body, "given": {"1": word}})
    known = unmask.fill(body["text"], tiny, given={1: word})
    assert {name: answer[name] for name in known.to_dict()} == known.to_dict()
    assert answer == Answers(tiny).fill({**body, "given": {"1": word}}), "as after a reload"


def test_the_answer_of_an_address_does_not_depend_on_what_was_asked_before(client, tiny):
    """A pin, another, and none: each as a server gives it that was asked nothing else."""
    text = "the [MASK] ran on the [MASK] ."
    free = asked(client, "fill", text=text, cells=12)
    words = [bar["token"] for bar in free["drawn"]["map"]["pins"]["blanks"][0]["bars"][:2]]
    after = [asked(client, "fill", text=text, cells=12, given={"1": word}) for word in words]
    assert asked(client, "fill", text=text, cells=12) == free
    for word, answer in zip(words, after, strict=True):
        alone = Answers(tiny).fill({"text": text, "cells": 12, "given": {"1": word}})
        assert answer == in_json(alone)


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
def test_every_number_of_a_pair_is_of_one_joint(client, monkeypatch, others):
    """The map and the number of a pair are those of the joint that the matrix measures."""
    joints = {}
    look = StrongestJoints.look

    def seen(self, first, second, joint):
        joints[first, second] = joint
        look(self, first, second, joint)

    monkeypatch.setattr(StrongestJoints, "look", seen)
    answer = asked(client, "dependence", text=WHOLE, others=others, candidates=5)
    drawn = answer["drawn"]
    count = comb(len(answer["tokens"]), 2)
    assert drawn["measured"] == drawn["count"] == len(drawn["pairs"]) == count
    for pair in drawn["pairs"]:
        joint = joints[pair["i"], pair["j"]]
        value = answer["matrix"][pair["i"]][pair["j"]]
        assert value == pytest.approx(joint.mutual_information(), abs=1e-5)
        assert pair["title"] == f"{pair['name']}: {nats(value)} nats"
        grid = pair["map"]
        for row, cells in zip(grid["rows"], grid["cells"], strict=True):
            for column, cell in zip(grid["columns"], cells, strict=True):
                log_prob = float(joint.log_prob([row["id"], column["id"]]))
                assert cell["numbers"].startswith(f"{percent(log_prob)} under ")
        stands = [answer["tokens"][pair[end]] for end in "ij"]
        assert stands[0] in [head["token"] for head in grid["rows"]]
        assert stands[1] in [head["token"] for head in grid["columns"]]


def test_what_stands_there_is_among_the_completions(client, tiny):
    answer = asked(client, "fill", text=WHOLE, positions=[2, 4], cells=2, top=1)
    known = unmask.fill(WHOLE, tiny, positions=[2, 4], top=1)
    assert answer["completions"] == known.to_dict()["completions"]
    assert answer["completions"][-1]["gold"] or answer["completions"][0]["gold"]
    grid = answer["drawn"]["map"]["grid"]
    stands = [head["token"] for head in (*grid["rows"], *grid["columns"]) if head["stands"]]
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
    assert [(pair["i"], pair["j"]) for pair in pairs] == [pair[:2] for pair in known.pairs()]
    values = [row[4] for row in answer["drawn"]["table"]["rows"]]
    assert values == [value for _, _, value in known.pairs()]
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
    aligned = answer["drawn"]["aligned"]
    assert [column["head"] for column in aligned["columns"]][1:] == ["pll", "left_to_right"]
    total = sum(row[1] for row in aligned["rows"])
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
        (profile,) = answer["drawn"]["differences"][score]["profiles"]
        largest = max(abs(row[1]) for row in answer["drawn"]["aligned"]["rows"])
        total = largest * sum(bar["share"] for bar in profile["bars"])
        assert total == pytest.approx(advantage, abs=1e-4)
        (sentence,) = answer["view"]["verdict"]
        assert ("the first text is better" in sentence) == (advantage > 0)


@pytest.mark.parametrize("length", [11, 14])
def test_any_order_is_exact_where_the_command_is(client, tiny, length):
    text = " ".join("the cat sat on a mat under the tree . a dog ran .".split()[:length])
    (known,) = unmask.score([text], "any_order", model=tiny).rows
    answer = asked(client, "score", texts=[text], score=["any_order"])
    (row,) = answer["rows"]
    assert row["length"] == length
    assert row["any_order"] == known["any_order"] < 0
    assert row["any_order_se"] == known["any_order_se"] == 0
    (table,) = answer["view"]["tables"]
    assert table["shown"][0][-1] == "exact"


def test_any_order_of_a_longer_text_is_that_of_the_command_with_its_error(tiny):
    """The page's number is sampled where the command's is, from the same orders."""
    sampled = replace(unmask.AnyOrder(), exact_tokens=4)
    (known,) = unmask.score([WHOLE], sampled, model=tiny).rows
    answer = Answers(tiny).score({"texts": [WHOLE], "score": [sampled]})
    (row,) = answer["rows"]
    assert (row["any_order"], row["any_order_se"]) == (known["any_order"], known["any_order_se"])
    assert answer["view"]["tables"][0]["shown"][0][-1] == f"± {known['any_order_se']:.3f}"


def test_equal_texts_are_equal(client):
    """Neither is better by 0.00."""
    answer = asked(client, "score", texts=[WHOLE, WHOLE], score=["pll", "energy_raw"])
    assert answer["view"]["verdict"] == [
        "pll: the two texts are equal",
        "energy_raw: the two texts are equal",
    ]


def test_dependence_takes_as_many_words_as_the_command(client, tiny, monkeypatch):
    """However many passes: the ranking is that of the command, over as many candidates."""
    monkeypatch.setattr("unmask.surfaces.serving.limits.MOST_PASSES", 100)
    text = "the cat sat on a mat under the tree . a dog ran ."
    answer, known = asked(client, "dependence", text=text), unmask.dependence(text, tiny)
    assert answer["passes"] == known.passes > 1000
    assert answer["candidates"] == known.candidates == 12, "all tokens"
    ranking = [(pair["i"], pair["j"]) for pair in answer["drawn"]["pairs"]]
    assert ranking == [pair[:2] for pair in known.pairs()][: len(ranking)]
    assert len(ranking) == 40
    assert len(answer["drawn"]["table"]["rows"]) == comb(14, 2)


def test_66_words_are_measured(english):
    """Stopped when the first pairs are there: there are many."""
    text = " ".join(["The old man and the sea are here and there now."] * 6)
    job = Job()

    def partial(answer):
        job.stopping = True

    answers = Answers(english)
    questions.BETWEEN_PARTIALS, usual = 0, questions.BETWEEN_PARTIALS
    token = CURRENT.set(job)
    try:
        answer = answers.dependence({"text": text}, partial=partial)
    finally:
        CURRENT.reset(token)
        questions.BETWEEN_PARTIALS = usual
    assert len(answer["positions"]) >= 66
    assert answer["drawn"]["measured"] == 4
    count = comb(len(answer["positions"]), 2)
    assert answer["drawn"]["part"] == f"4 of {count:,} pairs"
    assert answer["view"]["verdict"][0] == f"4 of {count:,} pairs are measured."


def test_progress_of_dependence_is_about_pairs_that_are_done(client, events, monkeypatch):
    """At most the pairs of one group are under way, so that a stop loses no more."""
    monkeypatch.setattr("unmask.surfaces.serving.questions.BETWEEN_PARTIALS", 0)
    text = "the cat sat on a mat under the tree ."
    measured, count = 0, comb(10, 2)
    shares = []
    for name, value in events(client.post("/api/dependence/events", json={"text": text}).text):
        if name == "partial":
            measured = value["drawn"]["measured"]
        elif name == "progress":
            shares.append((value["done"] / value["total"], measured / count))
    assert shares[-1] == pytest.approx((1, 1 - 1 / count), abs=4 / count)
    for of_bar, of_pairs in shares:
        assert -1e-9 <= of_bar - of_pairs <= 4 / count + 1e-9


def test_infinities_are_the_words_of_files(client, tiny, monkeypatch):
    """A filling that the model rules out."""
    text = "the [MASK] sat ."
    filling = unmask.fill(text, tiny, top=1)
    ruled_out = replace(filling.completions[0], log_prob=-inf)
    of_nothing = replace(filling, completions=[ruled_out])
    monkeypatch.setattr(Answers, "result", lambda *_args, **_hooks: of_nothing)
    answer = asked(client, "fill", text=text, top=1, candidates="all")  # of no other test
    assert answer["completions"][0]["log_prob"] == "-Infinity"


THREE = "the [MASK] [MASK] on the [MASK] ."


STEP = TypeAdapter(Begun | Stepped | Swept)


def replayed(event):
    """The texts of tokens after the step events, and those at the end of each sweep."""
    tokens = []
    at_sweep = []
    for name, value in event:
        if name != "step":
            continue
        STEP.validate_json(json.dumps(value), strict=True)
        if value["kind"] == "begun":
            tokens = [list(map(tuple, line)) for line in value["tokens"]]
        elif value["kind"] == "stepped":
            for line, move in zip(tokens, value["moves"], strict=True):
                for position, token in zip(move["positions"], move["tokens"], strict=True):
                    line[position] = tuple(token)
        else:
            at_sweep.append([list(line) for line in tokens])
    return tokens, at_sweep


@pytest.mark.parametrize("kernel", ["mh", "gibbs", "block"])
def test_a_chain_is_the_one_of_unmask_sample(client, tiny, events, kernel):
    """Token for token: the steps add up to the texts, and the texts are those of the function."""
    asked_for = {"kernel": kernel, "chains": 2, "sweeps": 5, "seed": 3}
    body = {"template": THREE, **asked_for}
    *event, (last, answer) = events(client.post("/api/sample/events", json=body).text)
    run = unmask.sample(THREE, model=tiny, **asked_for)
    frame = run.to_frame()
    _, at_sweep = replayed(event)
    assert len(at_sweep) == 5
    steps = [value for name, value in event if name == "step"]
    sweeps = [value["swept"] for value in steps if value["kind"] == "swept"]
    for texts, sweep in zip(at_sweep, sweeps, strict=True):
        rows = frame[frame["sweep"] == sweep["sweep"]]
        assert texts == [text_tokens(tiny, ids.tolist()) for ids in rows["ids"]]
        assert sweep["values"]["energies"] == pytest.approx(rows["energy"].tolist())
    rates = run.diagnosis.acceptance, run.diagnosis.novelty
    assert sweeps[-1]["values"]["shares"] == pytest.approx(rates)
    assert sweeps[-1]["facts"][:2] == [["accepted", share(rates[0])], ["changed", share(rates[1])]]

    assert last == "answer"
    assert answer["view"] == run.view(in_request)
    assert answer["samples"] == run.to_dict()["samples"]
    table = answer["drawn"]["sweeps"]
    of_table = {(row[0], row[1]): row[5] for row in table["rows"] if row[0] > 0}
    assert of_table == {(row["sweep"], row["chain"] + 1): row["text"] for row in run.rows}
    (so_far,) = [value for name, value in event if name == "partial"]
    assert so_far["diagnosis"]["draws"] == 4
    assert so_far["drawn"]["heading"] == "So far"

    without_events = client.post("/api/sample", json=body).json()
    assert without_events == answer


def test_what_a_kernel_did_to_a_token_is_its_mark(client, tiny, events):
    """A token with another text was taken, one that stays was refused or drawn again."""
    body = {"template": THREE, "chains": 4, "sweeps": 20, "seed": 1}
    event = events(client.post("/api/sample/events", json=body).text)
    seen = set()
    tokens = []
    for value in [value for name, value in event if name == "step"]:
        if value["kind"] == "begun":
            tokens = value["tokens"]
            signs = [sign["kind"] for sign in value["legend"]]
        if value["kind"] != "stepped":
            continue
        for line, move in zip(tokens, value["moves"], strict=True):
            marked = zip(move["positions"], move["tokens"], move["marks"], strict=True)
            for position, token, mark in marked:
                assert (line[position] != token) == (mark == "changed")
                line[position] = token
                seen.add(mark)
    assert seen == set(signs)


@pytest.mark.parametrize("decoder", ["ancestral", "verified", "confidence"])
def test_texts_of_a_decoder_are_those_of_unmask_generate(client, tiny, events, decoder):
    body = {"template": THREE, "decoder": decoder, "n_texts": 3, "seed": 3}
    *event, (last, answer) = events(client.post("/api/generate/events", json=body).text)
    assert last == "answer"
    known = unmask.generate(THREE, tiny, decoder=decoder, n_texts=3, seed=3)
    assert {name: answer[name] for name in known.to_dict()} == known.to_dict()
    assert answer["view"] == known.view(in_request)
    assert list(answer["drawn"]["told"]["values"].values()) == [
        row["log_prob"] for row in known.rows
    ]
    tokens, _ = replayed(event)
    assert tokens == [text_tokens(tiny, ids) for ids in known.ids]
    assert client.post("/api/generate", json=body).json() == answer

    steps = [value for name, value in event if name == "step" and value["kind"] == "stepped"]
    filled = [position for step in steps for position in step["moves"][0]["positions"]]
    assert set(filled) == {2, 3, 6}
    for step in steps:
        for move in step["moves"]:
            for confidence, said in move["confidence"]:
                assert said == f"{percent(log(confidence))} when it was chosen"
    refused = client.post("/api/generate", json=body | {"sweeps": 2})
    assert refused.status_code == 422
    for path in ("/api/sample", "/api/sample/events"):
        refused = client.post(path, json={"template": THREE, "kernel": decoder})
        assert refused.status_code == 422
        assert "generate" in refused.json()["error"]


def test_a_chain_starts_from_the_sentence(client, events):
    body = {"template": "the [MASK] sat on the [MASK] .", "start": WHOLE, "sweeps": 1, "chains": 1}
    answer = client.post("/api/sample/events", json=body).text
    begun = next(value for name, value in events(answer) if name == "step")
    assert begun["tokens"] == [
        [["", "edge"], *[[word, ""] for word in WHOLE.split()], ["", "edge"]]
    ]
    assert begun["free"] == [2, 6]


@pytest.mark.parametrize("path", ["/api/sample", "/api/sample/events"])
def test_settings_that_nothing_uses_are_refused_before_the_stream(client, path):
    body = {"template": TWO, "kernel": "gibbs", "energy_temperature": 2}
    answer = client.post(path, json=body)
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
    residues = [f"{token}{place}" for place, token in enumerate(WHOLE.split(), 1)]
    assert answer["drawn"]["residues"] == residues
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
