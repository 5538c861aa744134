"""From texts to numbers: words of several tokens, targets between words, long texts, texts that
cannot be scored.
"""

import pytest
import torch

import unmask
from support.command_runner import invoke
from unmask.common.errors import InputError, UnmaskWarning
from unmask.scoring.scores.score import SCORES


def masked_log_q(model, ids, hidden, position, regular=False):
    """By the network's own forward pass, over the whole vocabulary or over the regular tokens."""
    row = torch.tensor([ids])
    row[0, hidden] = model.mask_id
    logits = model.network(input_ids=row).logits[0, position]
    if regular:
        logits[list(model.special_ids)] = -torch.inf
    return float(logits.log_softmax(0)[ids[position]])


@torch.no_grad()
def test_pieces_of_a_word(pieces):
    scores = unmask.score(
        "The unplayed dog ran.", "pll,pll_word,left_to_right", model=pieces, rows="nested"
    )
    ids = pieces.words.encode("The unplayed dog ran.")
    assert [token["token"] for token in scores[0]["tokens"]] == [
        "the",
        "un",
        "##play",
        "##ed",
        "dog",
        "ran",
        ".",
    ]
    alone = [masked_log_q(pieces, ids, [t], t) for t in range(1, 8)]
    with_later = [
        masked_log_q(pieces, ids, later, later[0])
        for later in ([1], [2, 3, 4], [3, 4], [4], [5], [6], [7])
    ]
    to_come = [masked_log_q(pieces, ids, list(range(t, 8)), t, regular=True) for t in range(1, 8)]
    for name, terms in (("pll", alone), ("pll_word", with_later), ("left_to_right", to_come)):
        assert scores[0][name] == pytest.approx(sum(terms), abs=1e-4)
        assert [-token[f"{name}_surprisal"] for token in scores[0]["tokens"]] == pytest.approx(
            terms, abs=1e-4
        )


def test_words_are_tabulated_as_reading_studies_do(pieces):
    text = "The unplayed dog don't ran."
    words = unmask.score(text, "pll_word", model=pieces, rows="words", unit="bits")
    whole = unmask.score(text, "pll_word", model=pieces)
    assert [row["word"] for row in words] == ["The", "unplayed", "dog", "don't", "ran."]
    assert [row["word_number"] for row in words] == [1, 2, 3, 4, 5]
    assert [row["length"] for row in words] == [1, 3, 1, 3, 2]
    assert all(text[row["start"] : row["end"]] == row["word"] for row in words)
    bits = sum(row["pll_word_surprisal"] for row in words)
    assert bits * torch.log(torch.tensor(2.0)).item() == pytest.approx(
        -whole[0]["pll_word"], abs=1e-5
    )


def test_a_target_between_words_is_its_part_of_the_whole(pieces):
    target = {"before": "The dog", "target": "unplayed", "after": "ran.", "id": "b7"}
    names = "pll,pll_word,left_to_right,right_to_left"
    part = unmask.score([target], names, model=pieces)[0]
    whole = unmask.score("The dog unplayed ran.", names, model=pieces, rows="nested")[0]
    assert part["text"] == "The dog unplayed ran."
    assert part["id"] == "b7"
    assert part["length"] == 3
    for name in names.split(","):
        assert part[name] == pytest.approx(
            -sum(token[f"{name}_surprisal"] for token in whole["tokens"][2:5]), abs=1e-5
        )


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("The dog", "sat", "."), "The dog sat."),
        (("The ", "dog", " sat"), "The dog sat"),
        (("", "Dogs", "sat"), "Dogs sat"),
        (("a", "cat", ""), "a cat"),
    ],
)
def test_parts_are_joined_as_one_writes_them(pieces, parts, text):
    item = dict(zip(("before", "target", "after"), parts, strict=True))
    assert unmask.score([item], model=pieces)[0]["text"] == text


@torch.no_grad()
def test_spaces_before_words_belong_to_the_tokens(roberta):
    text = "The old dog sat."
    scores = unmask.score(
        [text, {"before": "The old", "target": "dog", "after": "sat."}],
        "pll",
        model=roberta,
        rows="nested",
    )
    ids = roberta.words.encode(text)
    assert "".join(token["token"] for token in scores[0]["tokens"]) == text
    assert [word["word"] for word in scores[0]["words"]] == ["The", "old", "dog", "sat."]
    terms = [masked_log_q(roberta, ids, [t], t) for t in range(1, len(ids) - 1)]
    assert scores[0]["pll"] == pytest.approx(sum(terms), abs=1e-4)
    dog = next(word for word in scores[0]["words"] if word["word"] == "dog")
    assert scores[1]["pll"] == pytest.approx(-dog["pll_surprisal"], abs=1e-5)


def test_a_text_that_cannot_be_scored_keeps_its_row(pieces):
    texts = [
        "The dog ran.",
        "",
        "a [MASK] sat",
        "the \x07 dog",
        "the [SEP] dog",
        "the zebra",
        "cat",
    ]
    scores = unmask.score(texts, "pll,energy_norm,any_order", model=pieces)
    assert [row["item"] for row in scores] == list(range(1, 8))
    reasons = [row["reason"] for row in scores]
    assert reasons[0] is None
    assert "empty" in reasons[1]
    assert "blank" in reasons[2]
    assert "U+0007" in reasons[3]
    assert "[SEP]" in reasons[4]
    assert scores[1]["pll"] is None
    assert scores[1]["any_order_se"] is None
    assert scores[5]["unknown"] == 1
    assert scores[5]["pll"] is not None
    assert scores[5]["energy_norm"] is scores[5]["any_order"] is None
    assert "does not know" in reasons[5]
    assert scores[6]["length"] == 1
    assert scores[6]["any_order"] > scores[6]["pll"]


@pytest.mark.parametrize(
    "item",
    [
        "zzz qqq",
        "zzz",
        {"text": "zzz qqq"},
        {"before": "the dog", "target": "zzz qqq", "after": "."},
    ],
    ids=["words", "word", "mapping", "target"],
)
@pytest.mark.parametrize("rows", ["texts", "words", "tokens"])
def test_unknown_words_alone_have_no_score(pieces, item, rows):
    scores = unmask.score([item, "a dog"], "pll,energy_raw", model=pieces, rows=rows)
    first = [row for row in scores if row["item"] == 1]
    assert len(first) == 1
    assert first[0].get("pll") is None
    assert first[0].get("pll_surprisal") is None
    assert first[0]["reason"].startswith("all words of 'zzz")
    assert "unknown to the model" in first[0]["reason"]
    assert all(row["reason"] is None for row in scores if row["item"] == 2)


def test_unknown_words_among_others_are_told(pieces):
    with pytest.warns(UnmaskWarning, match="does not know 'wombat' and reads"):
        scores = unmask.score("the wombat sat", model=pieces)
    assert scores[0]["unknown"] == 1
    assert scores[0]["pll"] is not None


@torch.no_grad()
def test_long_texts_are_refused_or_scored_in_windows(pieces):
    text = "the dog sat " * 6
    refused = unmask.score(text, "pll,any_order", model=pieces)[0]
    assert refused["pll"] is None
    assert "20 tokens and the model takes 12" in refused["reason"]
    scored = unmask.score(text, "pll,any_order", model=pieces, long="windows", rows="nested")[0]
    assert scored["any_order"] is None
    assert "no windows" in scored["reason"]
    ids = pieces.words.encode(text)
    for place in range(18):
        start = min(max(1 + place - 5, 1), 19 - 10)
        window = [ids[0], *ids[start : start + 10], ids[-1]]
        term = masked_log_q(pieces, window, [2 + place - start], 2 + place - start)
        assert -scored["tokens"][place]["pll_surprisal"] == pytest.approx(term, abs=1e-4)
    short = unmask.score("the dog sat", "pll", model=pieces)[0]["pll"]
    assert unmask.score("the dog sat", "pll", model=pieces, long="windows")[0][
        "pll"
    ] == pytest.approx(short)


def test_numbers_do_not_depend_on_the_company(pieces):
    texts = ["The dog ran.", "a cat sat on the dog", "The dog ran.", "walks", "don't"]
    scores = ["pll", "right_to_left", unmask.AnyOrder(exact_tokens=3)]
    together = unmask.score(texts, scores, model=pieces)
    for text, row in zip(texts, together, strict=True):
        alone = unmask.score(text, scores, model=pieces)[0]
        for name in ("pll", "right_to_left", "any_order"):
            assert row[name] == pytest.approx(alone[name], abs=1e-4)
    assert together[0]["any_order"] == together[2]["any_order"]


def test_difference_of_two_texts_adds_up(pieces):
    scores = unmask.score(
        ["The dogs sat.", "The unplayed dog sat."], "pll,energy_raw", model=pieces, rows="nested"
    )
    rows = scores.difference()
    assert ("dogs", "un") in {(row["first_token"], row["second_token"]) for row in rows}
    assert (None, "##play") in {(row["first_token"], row["second_token"]) for row in rows}
    assert sum(row["pll_difference"] for row in rows) == pytest.approx(
        scores[0]["pll"] - scores[1]["pll"], abs=1e-4
    )
    assert sum(row["energy_raw_difference"] for row in rows) == pytest.approx(
        scores[0]["energy_raw"] - scores[1]["energy_raw"], abs=1e-4
    )


@pytest.mark.filterwarnings("ignore::unmask.common.errors.UnmaskWarning")
def test_a_score_that_one_of_two_texts_lacks_has_no_difference(pieces, pieces_folder):
    texts = ["The zzz sat.", "The dog sat."]
    scores = unmask.score(texts, "pll,left_to_right", model=pieces, rows="nested")
    assert scores[0]["left_to_right"] is None
    assert scores[0]["pll"] is not None
    assert {key for row in scores.difference() for key in row} == {
        "first_token",
        "second_token",
        "pll_difference",
    }
    with pytest.raises(
        unmask.InputError, match="text 1 has no score .a token that the model does not know"
    ):
        unmask.score(texts, "left_to_right", model=pieces, rows="nested").difference()
    shown = invoke(["score", *texts, "--score", "pll,left_to_right", "--model", pieces_folder])
    assert shown.exit_code == 1
    assert "first minus second, token by token" in shown.stdout


@pytest.mark.filterwarnings("ignore::unmask.common.errors.UnmaskWarning")
@pytest.mark.parametrize("first", ["a [MASK] sat", "The zzz sat."])
def test_columns_do_not_depend_on_what_the_first_text_lacks(pieces_folder, first):
    words = ["--rows", "words", "--score", "pll,left_to_right", "--model", str(pieces_folder)]
    shown = invoke(
        ["score", first, "The dog sat.", *words], env={"COLUMNS": "200"}
    ).stdout.splitlines()
    assert (
        shown[2].split()
        == "item word_number word start end length pll_surprisal left_to_right_surprisal".split()
    )
    (dog,) = [line.split() for line in shown if "dog" in line]
    assert dog[:3] == ["2", "2", "dog"]
    assert len(dog) == 8


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"score": "plll"}, "did you mean pll"),
        ({"rows": "nested", "format": "csv", "out": "run"}, "format csv cannot hold nested rows"),
        ({"engine": "ray"}, "workers need a folder, .*: give out"),
        (
            {"score": "any_order", "long": "windows"},
            "^long windows is not used by any_order: leave it out, or name scores .*pll_word,",
        ),
        (
            {"field": "stimulus"},
            "^field names a column, and text 1 is a text without columns",
        ),
    ],
)
def test_options_that_cannot_be(pieces, arguments, told):
    with pytest.raises(InputError, match=told):
        unmask.score("The dog ran.", model=pieces, **arguments)


def test_nothing_to_score(pieces):
    with pytest.raises(InputError, match="at least one"):
        unmask.score([], model=pieces)
    for texts in (["a dog", 3], iter(["a dog", 3])):
        with pytest.raises(InputError, match="text 2 is a int"):
            unmask.score(texts, model=pieces)
    with pytest.raises(InputError, match="texts 3 is not a text or a list of texts"):
        unmask.score(3, model=pieces)
    with pytest.raises(InputError, match="missing a required argument: 'texts'"):
        unmask.score(model=pieces)
    with pytest.raises(InputError, match="texts None is not a text"):
        unmask.score(None, model=pieces)


def test_frame_and_notebook(pieces):
    scores = unmask.score(["The dog ran.", ""], "pll,any_order", model=pieces)
    frame = scores.to_frame()
    assert list(frame["text"]) == ["The dog ran.", ""]
    assert "any_order_se" in frame
    shown = scores._repr_html_()
    assert "not a probability" in shown
    assert "a mean" not in shown
    assert "The dog ran." in shown
    assert scores.to_dict()["scores"]["pll"]["probability"] is False


def test_sequences_of_fasta_come_back_with_their_names(pieces, tmp_path):
    file = tmp_path / "two.fasta"
    file.write_text(">first of two\nThe do\ng sat.\n>second\nA cat sat.\n")
    texts = ["The dog sat.", "A cat sat."]
    scores = unmask.score(file, model=pieces)
    assert [(row["id"], row["text"]) for row in scores] == list(
        zip(["first", "second"], texts, strict=True)
    )
    assert [row["pll"] for row in scores] == [
        row["pll"] for row in unmask.score(texts, model=pieces)
    ]
    with pytest.raises(InputError, match="^field names a column, and .* has none .FASTA."):
        unmask.score(file, field="text", model=pieces)


def test_the_rows_of_a_frame_are_texts_and_not_its_columns(pieces):
    import pandas

    frame = pandas.DataFrame(
        {"sentence": ["The dog ran.", "A cat sat."], "condition": ["a", "b"], "id": [7, 8]}
    )
    scores = unmask.score(frame, model=pieces)
    assert [(row["id"], row["text"]) for row in scores] == [
        ("7", "The dog ran."),
        ("8", "A cat sat."),
    ]
    pairs = pandas.DataFrame({"good": ["The dog ran."], "bad": ["The dog a ran."]})
    assert [row["sentence_good"] for row in unmask.minimal_pairs(pairs, model=pieces).rows] == [
        "The dog ran."
    ]
    with pytest.raises(InputError, match="no field 'text' .its fields are stimulus"):
        unmask.score(frame[["id"]].rename(columns={"id": "stimulus"}), model=pieces)


def test_the_name_of_a_file_is_not_scored_as_a_text(pieces, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ways = r"give Path\('dog.csv'\) to read the file, or \['dog.csv'\] if it is a text"
    with pytest.raises(
        InputError, match=f"the text 'dog.csv' looks like the name of a file: {ways}"
    ):
        unmask.score("dog.csv", model=pieces)
    assert unmask.score(["dog.csv"], model=pieces)[0]["text"] == "dog.csv"
    (tmp_path / "dog.csv").write_text("sentence\nThe dog ran.\n")
    with pytest.raises(InputError, match=f"the text 'dog.csv' is the name of a file: {ways}"):
        unmask.score("dog.csv", model=pieces)
    assert unmask.score(tmp_path / "dog.csv", model=pieces)[0]["text"] == "The dog ran."


def test_columns_of_a_table_come_back_and_their_case_does_not_matter(pieces, tmp_path):
    import pandas

    frame = pandas.DataFrame(
        {"Sentence": ["The dog ran.", "A cat sat."], "condition": ["a", "b"], "n": [3, 4]}
    )
    scores = unmask.score(frame, model=pieces)
    assert [(row["text"], row["condition"], row["n"]) for row in scores] == [
        ("The dog ran.", "a", 3),
        ("A cat sat.", "b", 4),
    ]
    named = unmask.score(
        frame.rename(columns={"Sentence": "Stimulus"}), model=pieces, field="stimulus", rows="words"
    )
    assert [row["condition"] for row in named] == ["a"] * 3 + ["b"] * 3
    frame.to_csv(tmp_path / "a.csv", index=False)
    kept = unmask.score(tmp_path / "a.csv", model=pieces, out=tmp_path / "run", format="csv")
    assert [row["condition"] for row in kept] == ["a", "b"]
    assert pandas.read_csv(tmp_path / "run" / "scores.csv")["n"].tolist() == [3, 4]


def test_columns_that_cannot_be_told_apart_are_refused(pieces, tmp_path):
    import pandas

    file = tmp_path / "a.csv"
    file.write_text("text,text\na dog,a cat\n")
    levels = pandas.MultiIndex.from_tuples([("text", "x"), ("text", "y")])
    for texts, message in (
        (file, "a.csv names column 'text' twice: rename one"),
        (
            pandas.DataFrame([["a dog", "a cat"]], columns=["text", "text"]),
            "the frame of texts names column 'text' twice",
        ),
        (pandas.DataFrame({1: ["a dog"]}), "column 1 of the frame of texts is a int: name"),
        (
            pandas.DataFrame([["a dog", "a cat"]], columns=levels),
            "of the frame of texts is a tuple: name",
        ),
        ([{"text": "a dog", 1: "x", "1": "y"}], "a mapping names column '1' twice: rename one"),
        (
            [{"Text": "a dog", "TEXT": "a cat"}],
            "columns 'Text' and 'TEXT' can both be 'text': rename one",
        ),
    ):
        with pytest.raises(InputError, match=message):
            unmask.score(texts, model=pieces)
    file.write_text("text,,\na dog,1,2\n")
    with pytest.raises(InputError, match="names column '' twice"):
        unmask.score(file, model=pieces)
    file.write_text("good,bad,bad\na dog,a cat,a cat\n")
    with pytest.raises(InputError, match="names column 'bad' twice"):
        unmask.minimal_pairs(file, model=pieces)
    file = tmp_path / "a.jsonl"
    for line in (
        '{"text": "a dog", "text": "a cat"}',
        '{"text": "a dog", "more": {"text": 1, "text": 2}}',
    ):
        file.write_text(line)
        with pytest.raises(
            InputError,
            match="a.jsonl line 1 is an object with the key 'text' twice: give one JSON object",
        ):
            unmask.score(file, model=pieces)


def test_columns_that_are_left_out_are_named(pieces):
    texts = [{"text": "a dog", "n": 3}, {"text": "a cat", "n": 4, "later": 5, "item": 6}]
    with pytest.warns(UnmaskWarning) as raised:
        rows = unmask.score(texts, model=pieces).rows
    assert [(row["item"], row["n"]) for row in rows] == [(1, 3), (2, 4)]
    assert [str(one.message) for one in raised] == [
        (
            "columns item, later of the texts are not of the first text and left out: give every"
            " text the same columns"
        ),
    ]


OURS = {
    "texts": ["item", "text", "length", "unknown", "pll", "reason"],
    "words": ["item", "word_number", "word", "start", "end", "length", "pll_surprisal", "reason"],
    "tokens": [
        "item",
        "token_number",
        "token",
        "start",
        "end",
        "word_number",
        "position",
        "pll_surprisal",
        "reason",
    ],
    "nested": ["item", "text", "length", "unknown", "pll", "reason", "words", "tokens"],
}


@pytest.mark.parametrize("rows", OURS)
@pytest.mark.parametrize("out", [False, True])
def test_columns_of_the_user_keep_their_names_and_ours_are_renamed(pieces, tmp_path, rows, out):
    """Each of our columns in turn, and all together, is a column of the user."""
    import pandas

    texts, options = ["a dog ran", "a cat sat"], {"out": tmp_path / "plain"} if out else {}
    plain = unmask.score(texts, model=pieces, rows=rows, **options).rows
    for names in [[name] for name in OURS[rows]] + [OURS[rows]]:
        frame = pandas.DataFrame({"stimulus": texts} | {name: [70, 30] for name in names})
        options = {"out": tmp_path / "-".join(names)} if out else {}
        with pytest.warns(UnmaskWarning) as raised:
            scores = unmask.score(frame, model=pieces, rows=rows, field="stimulus", **options)
        assert len(raised) == 1
        assert raised[0].filename == __file__
        assert f"called {', '.join(f'unmask_{name}' for name in names)}" in str(raised[0].message)
        renamed = [
            {f"unmask_{key}" if key in names else key: value for key, value in row.items()}
            for row in plain
        ]
        own = [{key: row[key] for key in renamed[0]} for row in scores.rows]
        assert own == renamed
        for row, before in zip(scores.rows, plain, strict=True):
            assert all(row[name] == [70, 30][before["item"] - 1] for name in names)
        reasons = {row["item"]: row["reason"] for row in plain if row["reason"] is not None}
        assert scores.missing == reasons
        merged = frame.merge(scores.to_frame(), on=names)
        assert len(merged) == len(plain)


@pytest.mark.parametrize(
    "content", ["text,n\n,\n,\na dog,3\n,\n", '\n\n{"text": "a dog", "n": "3"}\n\n']
)
@pytest.mark.parametrize("is_piped", [False, True])
def test_columns_come_back_also_after_empty_rows(
    pieces, tmp_path, monkeypatch, content, is_piped, recwarn
):
    file = tmp_path / ("a.csv" if content.startswith("text") else "a.jsonl")
    file.write_text(content)
    texts = (
        iter([{"text": ""}, {"text": ""}, {"text": "a dog", "n": "3"}, {"text": ""}])
        if is_piped
        else file
    )
    rows = unmask.score(texts, model=pieces).rows
    assert [(row["item"], row["text"], row["n"]) for row in rows] == [
        (1, "", None),
        (2, "", None),
        (3, "a dog", "3"),
        (4, "", None),
    ]
    assert not recwarn.list


def test_a_merge_by_the_users_number_is_right(pieces):
    import pandas

    frame = pandas.DataFrame({"item": [2, 1, 7], "text": ["a dog ran", "a cat sat", "the dog sat"]})
    with pytest.warns(
        UnmaskWarning, match="a column item, kept as given: ours of this name is called unmask_item"
    ):
        merged = frame.merge(unmask.score(frame, model=pieces).to_frame(), on="item")
    assert list(merged["text_x"]) == list(merged["text_y"]) == list(frame["text"])
    assert list(merged["unmask_item"]) == [1, 2, 3]


def test_both_a_name_of_ours_and_the_name_that_it_would_get_are_kept(pieces):
    with pytest.warns(UnmaskWarning, match="called unmask_unmask_item"):
        (row,) = unmask.score([{"text": "a dog", "item": 5, "unmask_item": 6}], model=pieces).rows
    assert (row["item"], row["unmask_item"], row["unmask_unmask_item"]) == (5, 6, 1)


def test_a_command_says_which_text_lacks_a_score_whatever_its_columns_are_called(
    pieces_folder, tmp_path
):
    file = tmp_path / "a.csv"
    file.write_text("text,item,reason,unmask_item\na dog,7,x,1\n,8,y,2\nzzz qqq,9,z,3\n")
    for rows in ("texts", "words", "nested"):
        done = invoke(["score", "--file", file, "--model", pieces_folder, "--rows", rows])
        assert done.exit_code == 1
        assert "1 text lacks a score, the first is text 3: all words of" in done.stderr


@pytest.mark.parametrize("out", [False, True])
def test_columns_of_pairs_keep_their_names(pieces, tmp_path, out):
    names = [
        "set",
        "reason",
        "pair_number",
        "sentence",
        "item",
        "good_pll",
        "pll_correct",
        "pll",
        "text",
    ]
    pairs = [
        {"good": "a dog ran", "bad": "dog a ran", **dict.fromkeys(names, number)}
        for number in (70, 30)
    ]
    pairs += [{"good": "a dog ran", "bad": "zzz qqq", **dict.fromkeys(names, 50)}]
    bare = [{name: pair[name] for name in ("good", "bad")} for pair in pairs]
    expected = unmask.minimal_pairs(bare, model=pieces)
    with pytest.warns(UnmaskWarning, match="called unmask_set, "):
        scores = unmask.minimal_pairs(
            pairs, model=pieces, **({"out": tmp_path / "run"} if out else {})
        )
    assert [[row[name] for name in names] for row in scores.rows] == [
        [70] * len(names),
        [30] * len(names),
        [50] * len(names),
    ]
    for row, before in zip(scores.rows, expected.rows, strict=True):
        assert {key: row[f"unmask_{key}" if key in names else key] for key in before} == before
    assert scores.accuracy == expected.accuracy
    assert scores.missing == expected.missing


@pytest.mark.parametrize("rows", ["words", "tokens"])
@pytest.mark.parametrize("score", ["any_order", "pll,any_order"])
def test_rows_of_tokens_are_refused_for_scores_without_a_value_per_token(
    pieces, pieces_folder, rows, score
):
    name = score.split(",")[-1]
    message = (
        f"^score {name} has no value per token, and rows={rows} has nothing else: give rows texts"
        " or nested, or scores that"
    )
    with pytest.raises(InputError, match=message):
        unmask.score("a dog", score, model=pieces, rows=rows)
    done = invoke(["score", "a dog", "--score", score, "--rows", rows, "--model", pieces_folder])
    assert done.exit_code == 2
    with_shares = [one for one, cls in SCORES.items() if cls.by_token]
    assert f"one ({', '.join(with_shares)})" in done.stderr
    law = unmask.score("a dog", "decoder:random-sets@2", model=pieces, rows=rows).rows
    assert law[0]["decoder:random-sets@2_surprisal"] > 0
    nested = unmask.score("a dog", score, model=pieces, rows="nested")
    assert nested[0][name] is not None


def test_the_comparison_of_texts_that_are_not_there_is_refused(pieces):
    one = unmask.score("a dog", model=pieces)
    for compare in (one.by_token, one.difference):
        with pytest.raises(
            InputError, match="there is one text, and two are compared: give two texts"
        ):
            compare()
        with pytest.raises(InputError, match="^second 7 is out of range"):
            compare(0, 7)
    words = unmask.score(["a dog", "a cat"], model=pieces, rows="words")
    for compare in (words.by_token, words.difference):
        with pytest.raises(
            InputError, match="rows are of words, and texts are compared: give score rows=nested"
        ):
            compare()
    empty = unmask.score(["a dog", "a cat"], model=pieces, sink=lambda row: None)
    with pytest.raises(InputError, match="went to sink"):
        empty.by_token()


def test_progress_is_of_the_whole_run(pieces, tmp_path):
    """Texts of several lengths, in one chunk and in several: one unit, one total, and it never
    goes back.
    """
    texts = [" ".join(["dog", "cat", "a", "the", "ran"][:length]) for length in (1, 2, 3, 4, 5)] * 3
    scores = ["pll", unmask.AnyOrder(exact_tokens=2, orders=4)]
    told = []

    def progress(done, total, what=""):
        told.append((done, total, what))

    for kwargs in ({}, {"out": tmp_path / "run"}):
        told.clear()
        unmask.score(texts, scores, model=pieces, progress=progress, **kwargs)
        counted = [one for one in told if one[2] != "texts"]
        assert len({(total, what) for _, total, what in counted}) == 1
        assert [done for done, _, _ in counted] == sorted(done for done, _, _ in counted)
        assert counted[-1][0] == counted[-1][1]
        assert len(counted) > 5


def test_progress_of_several_chunks_counts_texts(pieces, monkeypatch):
    from unmask.scoring import run

    monkeypatch.setitem(run.CHUNK_TEXTS, "cpu", 4)
    told = []
    texts = ["a dog ran", "a cat", "the dog sat", "dog"] * 4
    orders = unmask.AnyOrder(exact_tokens=2, orders=4)
    unmask.score(
        texts,
        [orders],
        model=pieces,
        progress=lambda done, total, what="": told.append((done, total, what)),
    )
    assert {(total, what) for _, total, what in told} == {(16, "texts")}
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert told[-1][0] == 16


@pytest.mark.parametrize(
    "text",
    [{"text": "a \ud800 dog"}, {"text": "a dog", "n": "\ud800"}, {"text": "a dog", "\ud800": 1}],
    ids=[
        "text",
        "value",
        "name",
    ],  # pytest's own ids would hold the surrogate, which its workers cannot send
)
def test_half_a_character_has_a_reason_and_cannot_be_kept(pieces, tmp_path, text):
    rows = unmask.score(["a cat", text], model=pieces).rows
    assert rows[0]["pll"] is not None
    assert ("U+D800" in (rows[1]["reason"] or "")) == ("\ud800" in text["text"])
    with pytest.raises(
        InputError, match="text 2 has half of a surrogate pair, which is not a character"
    ):
        unmask.score(["a cat", text], model=pieces, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_would_be_lost_in_a_file_is_refused(pieces, tmp_path):
    (tmp_path / "a.fasta").write_text(">a\nThe dog\n>b\n>c\nA cat\n")
    (tmp_path / "long.csv").write_text("text\n" + '"' + "dog " * 40_000 + '"\n')
    for texts, message in (
        (tmp_path / "a.fasta", "record 'b' has no sequence: add it, or remove the record"),
        (
            tmp_path / "long.csv",
            "line 2 has a cell of over 131,072 characters: shorten it, or double the quotes",
        ),
        ([{"before": "The", "target": " ", "after": "ran."}], "text 1: 'target' is empty"),
    ):
        with pytest.raises(InputError, match=message):
            unmask.score(texts, model=pieces)


def test_left_to_right_with_a_fixed_right_does_not_know_the_length(pieces):
    texts = ["The dog ran.", "The dog ran, a cat sat."]
    for right in (0, 2):
        score = unmask.LeftToRight(right=right)
        short, long = (
            [
                row
                for row in unmask.score(texts, [score], model=pieces, rows="tokens")
                if row["item"] == i
            ]
            for i in (1, 2)
        )
        for a, b in zip(short[:3], long[:3], strict=True):
            assert a["left_to_right_surprisal"] == pytest.approx(
                b["left_to_right_surprisal"], abs=1e-5
            )
        ids = pieces.words.encode("The dog")
        row = [*ids[:2], *[pieces.mask_id] * (1 + right), ids[-1]]
        with torch.no_grad():
            logits = pieces.network(input_ids=torch.tensor([row])).logits[0, 2]
        logits[list(pieces.special_ids)] = -torch.inf
        assert -short[1]["left_to_right_surprisal"] == pytest.approx(
            float(logits.log_softmax(0)[ids[2]]), abs=1e-4
        )
    plain = [
        row["left_to_right_surprisal"]
        for row in unmask.score(texts, "left_to_right", model=pieces, rows="tokens")
    ]
    assert plain[1] != pytest.approx(plain[5], abs=1e-3)
    assert (
        "how long the text is"
        in unmask.score(texts, "left_to_right", model=pieces).scores["left_to_right"]["definition"]
    )


@pytest.mark.parametrize("blank", ["[MASK]", "[WORD]", "[GAP:2-3]", "[GAP]"])
def test_a_text_with_a_blank_has_no_score(pieces, blank):
    (row,) = unmask.score([f"a {blank} dog"], model=pieces).rows
    assert row["pll"] is None
    assert row["reason"] == "the text has a blank: fill it, or use fill"


def test_a_frame_shows_half_of_a_surrogate_pair_escaped(pieces):
    scores = unmask.score(["the dog", "\ud800 cat"], model=pieces)
    frame = scores.to_frame()
    assert frame["text"].tolist() == ["the dog", "\\ud800 cat"]
    assert scores.rows[1]["text"] == "\ud800 cat"
    assert "\\ud800 cat" in scores._repr_html_()
