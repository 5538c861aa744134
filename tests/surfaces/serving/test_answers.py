"""What the interface answers is what the functions of the same name say."""

import itertools
from dataclasses import replace
from functools import partial
from math import comb, exp, inf
from unittest.mock import ANY

import numpy as np
import pytest

import unmask
from support.constructions import NAMES
from unmask.joints.family_solution import members_of
from unmask.surfaces.serving import limits

TWO = "the [MASK] sat on the [MASK] ."
WHOLE = "the cat sat on the mat ."


def asked(client, path, **body):
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_about_names_everything(client):
    about = client.get("/api/about").json()
    assert [c["name"] for c in about["constructions"]] == list(NAMES)
    assert about["vocabulary"] == 12
    assert about["longest"] == 16
    assert about["limits"]["most_blanks"] == 8


@pytest.mark.parametrize("construction", ["product", "balanced", "chain"])
def test_fill(client, tiny, construction):
    answer = asked(client, "fill", text=TWO, construction=construction, top=4)
    best = unmask.fill(TWO, tiny, construction=construction, top=4)
    assert [c["text"] for c in answer["completions"]] == [c.text for c in best.completions]
    assert [c["log_prob"] for c in answer["completions"]] == pytest.approx(
        [c.log_prob for c in best.completions], abs=1e-5
    )
    assert [c["spans"] for c in answer["completions"]] == [
        [list(s) for s in c.spans] for c in best.completions
    ]
    assert answer["candidates_mass"] == pytest.approx(best.candidates_mass)


@pytest.mark.parametrize("path", ["fill", "plan", "dependence"])
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
    answer = asked(
        client, "fill", text=TWO, candidates=7
    )  # that no other test asks: answers are cached
    assert answer["warning"].startswith(
        "arnold_gokhale, balanced, pseudo_gibbs, restarted did not converge"
    )


def test_joint_is_the_comparison_and_its_map_sums_to_one(client, tiny):
    answer = asked(client, "fill", text=TWO, construction="balanced", cells=12)
    compared = unmask.compare(TWO, tiny)
    assert answer["incompatibility"] == pytest.approx(compared.incompatibility, rel=1e-4)
    for row in answer["constructions"]:
        assert row["total_correlation"] == pytest.approx(
            compared.descriptions[row["name"]].total_correlation, abs=1e-4
        )
    (rows, columns), best = answer["map"]["axes"], answer["map"]["joint"][0][0]
    for name in ("joint", "product"):
        assert np.sum(answer["map"][name]) == pytest.approx(1, abs=1e-5)
    assert best == pytest.approx(
        exp(float(compared.joints["balanced"].log_prob([rows["ids"][0], columns["ids"][0]]))),
        abs=1e-6,
    )
    pin = {"blank": 0, "token": rows["ids"][2]}
    pinned = asked(client, "fill", text=TWO, construction="balanced", cells=12, pin=pin)["map"][
        "given"
    ]
    row = np.array(answer["map"]["joint"])[2]
    assert pinned["given"][0] == pytest.approx(
        row[columns["ids"].index(pinned["ids"][0])] / row.sum(), abs=1e-5
    )


def test_joint_as_events(client, events):
    answer = client.post(
        "/api/fill/events", json={"text": TWO, "construction": "balanced", "candidates": "all"}
    )
    assert answer.headers["content-type"].startswith("text/event-stream")
    event = events(answer.text)
    assert event[-1][0] == "answer"
    assert {name for name, _ in event[:-1]} == {"progress"}
    assert [row["name"] for row in event[-1][1]["constructions"]] == ["product", "balanced"]
    done = [value["done"] for _, value in event[:-1] if value["what"] == "passes of the model"]
    assert done == sorted(done)
    assert done[-1] == 25


def test_an_error_on_the_way_is_an_event(client, events):
    (event,) = events(client.post("/api/fill/events", json={"text": "the cat sat ."}).text)
    assert event[0] == "error"
    assert "has no blank" in event[1]["error"]


def test_dependence(client, tiny):
    answer, known = (
        asked(client, "dependence", text=WHOLE),
        unmask.dependence(WHOLE, tiny),
    )
    assert answer["candidates"] == answer["usual"] == known.candidates
    assert answer["tokens"] == list(known.tokens)
    matrix = [[0 if v is None else v for v in row] for row in answer["matrix"]]
    assert np.array(matrix) == pytest.approx(known.matrix.numpy(), abs=1e-5)


@pytest.mark.parametrize("others", ["text", "masked"])
def test_every_number_of_a_pair_is_of_one_joint(client, tiny, others):
    """The sentence, the map and the number of a pair are those of the joint that the matrix
    measures.
    """
    answer = asked(client, "dependence", text=WHOLE, others=others, candidates=5)
    assert (
        answer["measured"]
        == answer["count"]
        == len(answer["pairs"])
        == comb(len(answer["tokens"]), 2)
    )
    for pair in answer["pairs"]:
        assert pair["value"] == answer["matrix"][pair["i"]][pair["j"]]
        assert f"{pair['value']:.2f} nats of mutual information" in pair["summary"]
        cells, (rows, columns) = np.array(pair["map"]["joint"]), pair["map"]["axes"]
        apart = np.outer(rows["marginal"], columns["marginal"])
        assert (cells * np.log(cells / apart)).sum() == pytest.approx(pair["value"], abs=1e-5), (
            "all five tokens are shown"
        )
        stands = [answer["tokens"][pair[end]] for end in "ij"]
        assert stands[0] in rows["tokens"]
        assert stands[1] in columns["tokens"]


def test_what_stands_there_is_on_the_map_and_among_the_completions(client, tiny):
    targets = ["dog", "under"]
    answer = asked(client, "fill", text=TWO, targets=targets, candidates=4, cells=2, top=1)
    assert [tiny.token(axis["stands"]) for axis in answer["map"]["axes"]] == targets
    assert all(axis["stands"] in axis["ids"] for axis in answer["map"]["axes"])
    known = unmask.compare(TWO, tiny, targets=targets, candidates=4, top=1)
    assert answer["completions"][-1]["gold"]
    assert answer["completions"][-1]["tokens"] == targets
    assert answer["completions"][-1]["log_prob"] == pytest.approx(
        known.descriptions["restarted"].gold_log_prob, abs=1e-5
    )


@pytest.mark.parametrize(("others", "reports"), [("text", comb(7, 2)), ("masked", 4)])
def test_dependence_is_not_silent(client, events, others, reports):
    """One report per pair whose candidates are chosen, and more than one for the tables of 16
    pairs.
    """
    body = {"text": WHOLE, "candidates": 4, "others": others}
    *before, _ = events(client.post("/api/dependence/events", json=body).text)
    assert before[0][1]["what"] == "choosing candidates"
    done = [value["done"] for _, value in before[1:]]
    assert done == sorted(done)
    assert done[-1] == before[-1][1]["total"]
    assert len(set(done)) > reports


def test_chosen_words_are_measured_as_blanks_where_they_stand(client, tiny):
    answer = asked(client, "dependence", text=WHOLE, chosen=[1, 2, 5], candidates=4)
    known = unmask.dependence(WHOLE, tiny, positions=[2, 3, 6], others="masked", candidates=4)
    assert [(pair["i"], pair["j"], pair["value"]) for pair in answer["pairs"]] == known.pairs()
    assert [one["name"] for one in answer["pieces"]] == ["cat", "sat", "mat"]
    line = asked(client, "dependence/copy", text=WHOLE, chosen=[1, 2, 5], candidates=4)["command"]
    assert line.startswith(f"unmask dependence '{WHOLE}' ")
    assert "--positions 2,3,6" in line
    assert "--others masked" in line


def test_the_plan_is_what_is_computed(client):
    for text, construction, candidates in itertools.product(
        (TWO, "the [MASK] [MASK] on the [MASK] ."), (None, "mrf"), (None, 5)
    ):
        body = {"text": text, "construction": construction, "candidates": candidates}
        plan, answer = asked(client, "plan", **body), asked(client, "fill", **body)
        assert plan["construction"] == answer["construction"], body
    exact = asked(client, "plan", text=TWO, candidates="all")
    assert exact["first"] is None, "a vocabulary of 12 tokens needs no first look"
    three = asked(client, "plan", text="the [MASK] [MASK] on the [MASK] .", candidates=5)
    assert three["construction"] == "restarted"
    assert three["constructions"][0][1] == "restarted (default)"
    assert asked(client, "plan", text="the [WORD] sat .")["constructions"] == [
        ["", "chain rule over all orders (default)", ANY]
    ]


def test_a_size_that_is_offered_is_not_refused(client, monkeypatch):
    monkeypatch.setattr("unmask.surfaces.serving.questions.SIZES", (2, 5, 8))
    monkeypatch.setattr(limits, "MOST_PASSES", 40)
    for text in (TWO, "the [MASK] [MASK] on the [MASK] ."):
        sizes = [size for size, _ in asked(client, "plan", text=text)["sizes"]]
        for size in ("2", "5", "8", "all"):
            wanted = {"candidates": "all"} if size == "all" else {"candidates": int(size)}
            answer = client.post("/api/fill", json={"text": text, **wanted})
            assert (answer.status_code == 200) == (size in sizes), (text, size)
            assert answer.status_code == 200 or "--" not in answer.json()["error"]


def test_a_batch_is_scored_compared_or_filled(client, tiny):
    texts = ["the cat sat .", "a dog ran ."]
    batch = asked(client, "batch", content="\n".join(texts))
    known = unmask.score(texts, "pll", model=tiny)
    assert batch["columns"] == ["text", "pll"]
    assert [row[0] for row in batch["rows"]] == texts
    assert [row[1] for row in batch["rows"]] == pytest.approx(
        [row["pll"] for row in known.rows], abs=1e-5
    )
    pairs = "sentence_good,sentence_bad\nthe cat sat .,the cat on .\n"
    batch = asked(client, "batch", content=pairs, name="my pairs.csv")
    assert batch["columns"][:2] == ["sentence_good", "sentence_bad"]
    assert "of 1 pairs right by pll" in batch["lines"][0]
    batch = asked(client, "batch", content="the [MASK] sat .\nthe ___ ran .")
    best = unmask.fill("the [MASK] sat .", tiny, top=1).completions[0]
    assert batch["rows"][0] == [
        "the [MASK] sat .",
        best.text,
        pytest.approx(best.log_prob, abs=1e-5),
    ]
    assert len(batch["rows"]) == 2
    answer = client.post("/api/batch", json={"content": "a;b\n", "name": "x.csv"})
    assert answer.status_code == 422, "no folder of the server is named"
    assert answer.json()["error"].startswith("x.csv"), "no folder of the server is named"


@pytest.mark.parametrize("first", ["the good cat and the bad dog .", "unacceptable ."])
def test_a_list_whose_first_text_has_names_of_columns_is_a_list(client, first):
    answer = asked(client, "batch", content=f"{first}\nthe cat sat .\n")
    assert answer["columns"][:2] == ["text", "pll"]
    assert [row[0] for row in answer["rows"]] == [first, "the cat sat ."]


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
    assert answer["rows"][0][:2] == PAIR
    assert "of 1 pairs right" in answer["lines"][0]


def test_a_target_of_a_batch_is_scored_alone(client, tiny):
    content = "before,target,after\nthe,cat,sat .\n"
    answer = asked(client, "batch", content=content, name="targets.csv")
    record = {"before": "the", "target": "cat", "after": "sat ."}
    (known,) = unmask.score([record], "pll", model=tiny).rows
    assert answer["columns"] == ["text", "target", "pll"]
    assert answer["rows"] == [["the cat sat .", "cat", pytest.approx(known["pll"], abs=1e-5)]]


@pytest.mark.parametrize(
    "name", ["\U0001d54f" * 90 + ".csv", "x/../..", "a\nb.csv", "..", "x.csv.gz", "é" * 300]
)
def test_any_name_of_a_file_is_answered(client, name):
    batch = asked(client, "batch", content="text\nthe cat sat .\n", name=name)
    assert batch["rows"][-1][0] == "the cat sat ."
    answer = client.post("/api/batch", json={"content": '"\n', "name": "\U0001d54f" * 90 + ".csv"})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("\U0001d54f")


@pytest.mark.parametrize("score", ["pll ", " pll", "any_order "])
def test_a_score_with_a_space_around_its_name_is_that_score(client, score):
    answer = asked(client, "batch", content="the cat sat .", score=[score])
    assert answer["columns"] == ["text", score.strip()]
    assert answer["rows"][0][1] < 0


@pytest.mark.parametrize("path", ["dependence", "dependence/copy"])
def test_a_word_that_the_text_does_not_have_is_not_left_out(client, path):
    body = {"text": "the cat sat .", "chosen": [0, 1, 9], "candidates": 4}
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(
        "chosen 9 is not a word of the text, which has 4, counted"
    )


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
    answer = asked(
        client, "score", texts=[WHOLE, "the dog sat on the mat ."], score=["pll", "left_to_right"]
    )
    known = unmask.score(
        [WHOLE, "the dog sat on the mat ."], ["pll", "left_to_right"], model=tiny, rows="nested"
    )
    assert [row["pll"] for row in answer["rows"]] == pytest.approx(
        [row["pll"] for row in known.rows], abs=1e-4
    )
    total = sum(row["pll_difference"] for row in answer["difference"]["rows"])
    assert total == pytest.approx(known.rows[0]["pll"] - known.rows[1]["pll"], abs=1e-4)


@pytest.mark.parametrize("score", ["pll", "energy_norm", "energy_raw"])
def test_the_better_of_two_texts_is_that_of_the_score_s_direction(client, tiny, score):
    """The lower energy is the better one; and each row speaks for the text that it favours."""
    texts = [WHOLE, "the dog sat on the mat ."]
    for pair in (texts, texts[::-1]):
        answer = asked(client, "score", texts=pair, score=[score])
        first, second = (row[score] for row in unmask.score(pair, score, model=tiny).rows)
        lower_is_better = score.startswith("energy")
        best = "first" if (first > second) != lower_is_better else "second"
        sentence = answer["difference"]["better"][score]
        by = f"By {score} the {best} sentence is better, by {abs(first - second):.2f} nats"
        assert sentence.startswith(by)
        for_first = sum(answer["difference"]["for_first"][score])
        assert for_first == pytest.approx(
            (first - second) * (-1 if lower_is_better else 1), abs=1e-4
        )


def test_of_two_equal_texts_none_is_better(client):
    answer = asked(client, "score", texts=[WHOLE, WHOLE], score=["pll"])
    assert "neither sentence is better" in answer["difference"]["better"]["pll"]


def test_any_order_is_exact_where_the_command_is(client, tiny):
    text = "the cat sat on the mat and a dog ran ."  # 11 tokens
    (known,) = unmask.score([text], "any_order", model=tiny).rows
    (row,) = asked(client, "score", texts=[text], score=["any_order"])["rows"]
    assert row["any_order"] == known["any_order"]
    assert row["any_order_se"] is known["any_order_se"] is None, "it has no error"


def test_infinities_are_the_words_of_files(client, tiny, monkeypatch):
    """A filling that the model rules out."""
    filling = unmask.fill("the [MASK] sat .", tiny, top=1)
    ruled_out = replace(filling.completions[0], log_prob=-inf)
    monkeypatch.setattr("unmask.verbs.fill._TableFillings.completions", lambda *_: [ruled_out])
    assert (
        asked(client, "fill", text="the [MASK] sat .")["completions"][0]["log_prob"] == "-Infinity"
    )


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
    assert answer[1]["diagnosis"]["verdict"] == run.diagnosis.verdict()
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
    assert answer == known.to_dict()
    refused = client.post("/api/generate", json=body | {"sweeps": 2})
    assert refused.status_code == 422
    refused = client.post("/api/sample", json={"template": template, "kernel": decoder})
    assert refused.status_code == 422
    assert "generate" in refused.json()["error"]


def test_a_chain_starts_from_the_sentence(client, events):
    body = {"template": "the [MASK] sat on the [MASK] .", "start": WHOLE, "sweeps": 1}
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
    scan = asked(client, "mutants", sequence=WHOLE, positions=[2, 3], changes=changes)
    known = unmask.mutants(WHOLE, positions=[2, 3], changes=changes, model=tiny)
    assert [row["mutant"] for row in scan["mutants"]] == known.to_frame()["mutant"].tolist()
    for name in ("log_prob", "effect", "singles", "epistasis", "interaction"):
        assert [row[name] for row in scan["mutants"]] == pytest.approx(
            known.numbers[name], abs=1e-5
        )
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
