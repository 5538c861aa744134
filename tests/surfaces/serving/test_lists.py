"""Lists of texts: how they are read, what the page shows of them, and what a stopped one gives."""

import pytest
from tokenizers.pre_tokenizers import WhitespaceSplit

import unmask
from support.small_models import save_bert
from unmask.common.errors import InputError
from unmask.models.masked_lm import MaskedLM
from unmask.runs.file_names import FASTA, RECORDS
from unmask.surfaces.serving.drawings import lists as drawings
from unmask.surfaces.serving.jobs import CURRENT, Job
from unmask.surfaces.serving.lists import ENDINGS, about_lists
from unmask.surfaces.serving.questions import Answers

TEXTS = ["the cat sat .", "a dog ran .", "the dog sat .", "a cat ran ."]
BLANKED = "\n".join(f"the [MASK] {verb} ." for verb in ("sat", "ran", "on", "under"))


@pytest.fixture(scope="module")
def answers(tiny):
    return Answers(tiny)


def texts_of(answer):
    return [row[0] for row in answer["rows"]["rows"]]


@pytest.mark.parametrize(
    ("given", "how", "texts"),
    [
        ({"content": "\n".join(TEXTS)}, "one text per line", TEXTS),
        ({"content": "text\na cat .\n", "name": "x.csv"}, "a .csv table", ["a cat ."]),
        ({"content": "text\na cat .\n", "name": "X.CSV.GZ"}, "a .csv table", ["a cat ."]),
        ({"content": "text\na cat .\n", "name": "x.tsv"}, "a .tsv table", ["a cat ."]),
        ({"content": '{"text": "a cat ."}\n', "name": "x.ndjson"}, "JSON lines", ["a cat ."]),
        ({"content": '{"text": "a cat ."}\n'}, "JSON lines", ["a cat ."]),
        ({"content": ">one\na cat .\n", "name": "x.faa"}, "FASTA", ["a cat ."]),
        ({"content": "text\na cat .\n", "read_as": "csv"}, "a .csv table", ["a cat ."]),
        (
            {"content": "good,bad\na cat .\n", "name": "x.csv", "read_as": "lines"},
            "one text per line",
            ["good,bad", "a cat ."],
        ),
    ],
)
def test_a_list_is_read_as_it_is_told_else_by_its_name_else_by_its_first_line(
    answers, given, how, texts
):
    answer = answers.batch(given)
    assert texts_of(answer) == texts
    assert answer["drawn"]["read_as"] == f"Read as {how}."


@pytest.mark.parametrize("name", [None, "x.csv"])
def test_a_byte_order_mark_is_no_letter_of_the_first_line(answers, name):
    content = "\ufeffsentence_good,sentence_bad\nthe cat sat .,the cat on .\n"
    answer = answers.batch({"content": content, "name": name})
    assert answer["drawn"]["read_as"] == "Read as a .csv table."
    assert rows_of(answer)[0]["sentence_good"] == "the cat sat ."


def rows_of(answer):
    heads = [column["head"] for column in answer["rows"]["columns"]]
    return [dict(zip(heads, row, strict=True)) for row in answer["rows"]["rows"]]


@pytest.mark.parametrize("score", [None, ["energy_norm"]])
def test_texts_with_blanks_are_filled_and_the_others_are_scored(answers, tiny, score):
    """One blank, or two underscores in a name, does not make blanks of a whole list."""
    texts = ["the cat sat .", "the [MASK] sat .", "a dog ran .", "the __ ran ."]
    answer = answers.batch({"content": "\n".join(texts), "score": score})
    (name,) = score or ["pll"]
    heads = [column["head"] for column in answer["rows"]["columns"]]
    assert heads[0] == "text"
    assert {name, "best", "log_prob"} <= set(heads)
    assert "reason" not in heads, "each text has what it was asked for"
    rows = rows_of(answer)
    assert [row["text"] for row in rows] == texts
    known = unmask.score([texts[0], texts[2]], name, model=tiny).rows
    assert [rows[0][name], rows[2][name]] == pytest.approx([row[name] for row in known])
    for place, asked in ((1, texts[1]), (3, "the [MASK] ran .")):
        best = unmask.fill(asked, tiny, top=1).completions[0]
        assert (rows[place]["best"], rows[place]["log_prob"]) == (best.text, best.log_prob)
        assert rows[place][name] is None
    assert [rows[0]["best"], rows[2]["best"]] == [None, None]


def test_a_mixed_list_that_is_stopped_has_a_row_for_each_text(answers):
    texts = ["the [MASK] sat .", "a dog ran .", "the [MASK] ran .", "the [MASK] on ."]
    answer = stopped_after(answers, "\n".join(texts), 1)
    rows = rows_of(answer)
    assert [row["text"] for row in rows] == texts
    assert rows[1]["pll"] is not None
    assert [row["best"] for row in rows] == [None] * 4
    assert answer["drawn"]["part"] == "1 of 4 rows"


def test_reasons_are_the_last_column(answers):
    """Also where the first text has one and a later one has further columns."""
    answer = answers.batch({"content": "the zebra sat .\nthe [MASK] sat .", "score": ["any_order"]})
    heads = [column["head"] for column in answer["rows"]["columns"]]
    assert rows_of(answer)[0]["reason"]
    assert heads[-1] == "reason"
    assert "best" in heads


def test_a_target_is_scored_also_beside_underscores(answers):
    content = '{"before": "the __", "target": "cat", "after": "sat ."}'
    answer = answers.batch({"content": content, "read_as": "jsonl"})
    (row,) = rows_of(answer)
    assert row["target"] == "cat"
    assert "best" not in row


def test_a_column_of_the_file_is_not_shown_as_a_score(answers, tiny):
    """Such as one that was saved before: its numbers may be those of another model."""
    content = "text,pll,reason\nthe cat sat .,5,why\n"
    answer = answers.batch({"content": content, "name": "x.csv"})
    (row,) = rows_of(answer)
    known = unmask.score(TEXTS[0], model=tiny).rows[0]
    assert row == {"text": TEXTS[0], "pll": known["pll"]}


def test_a_target_is_shown_in_its_own_text(answers):
    content = "text,before,target,after\na dog ran .,the,cat,sat .\n"
    (row,) = rows_of(answers.batch({"content": content, "name": "x.csv"}))
    assert (row["text"], row["target"]) == ("the cat sat .", "cat")


def test_a_message_counts_empty_lines(tmp_path):
    folder = save_bert(tmp_path, "ACDE", WhitespaceSplit(), positions=64, seed=5, spread=0.5)
    content = '{"text": "ACD"}\n\n{"before": "a", "target": "c", "after": "d"}\n'
    with pytest.raises(InputError, match="text 3 has a target"):
        Answers(MaskedLM.load(folder, device="cpu")).batch({"content": content})


def test_the_page_is_told_every_way_to_read_a_list(client):
    """And every ending that the readers of files know."""
    about = client.get("/api/about").json()["lists"]
    assert about == {**about_lists(), "read_as": [list(one) for one in about_lists()["read_as"]]}
    assert [name for name, _ in about["read_as"]] == ["", *ENDINGS]
    assert set(about["accept"].split(",")) == {".txt", *RECORDS, *FASTA}
    assert "up to 2,000 rows and 1,000,000 bytes" in about["taken"]
    assert "1,000,000 bytes" in about["too_large"]
    answer = client.post("/api/batch", json={"content": "a cat .", "read_as": "xlsx"})
    assert answer.status_code == 422


def test_the_page_shows_the_first_rows_and_says_so(answers, monkeypatch):
    monkeypatch.setattr(drawings, "SHOWN_ROWS", 3)
    answer = answers.batch({"content": "\n".join(TEXTS)})
    assert len(answer["rows"]["rows"]) == 4, "a file has all"
    first = answer["drawn"]["first"]
    assert first["rows"] == answer["rows"]["rows"][:3]
    assert first["shown"] == answer["rows"]["shown"][:3]
    assert first["notes"] == ["The first 3 of 4 rows; the files have all."]
    assert answer["drawn"]["part"] == ""
    answer = answers.batch({"content": "\n".join(TEXTS[:3])})
    assert answer["drawn"]["first"]["notes"] == []


def stopped_after(answers, content, done):
    """The answer to a list that is stopped when this many texts, or passes, are done."""
    job = Job()

    def progress(number, total, what=""):
        job.stopping = job.stopping or number >= done

    token = CURRENT.set(job)
    try:
        return answers.batch({"content": content}, progress)
    finally:
        CURRENT.reset(token)


def test_a_stopped_list_gives_the_rows_that_are_done(answers, tiny):
    answer = stopped_after(answers, BLANKED, 2)
    assert answer["drawn"]["part"] == "2 of 4 rows"
    rows = rows_of(answer)
    known = unmask.fill("the [MASK] sat .", tiny, top=1).completions[0]
    assert (rows[0]["best"], rows[0]["log_prob"]) == (known.text, known.log_prob)
    assert [row["best"] is None for row in rows] == [False, False, True, True]
    assert all("stopped" in row["reason"] for row in rows[2:])


def test_scores_that_are_stopped_say_how_many_rows_there_are(answers):
    lengths = ["a cat .", "the cat sat .", "the cat sat on a mat ."]
    answer = stopped_after(answers, "\n".join(lengths), 1)
    assert answer["drawn"]["part"] == "1 of 3 rows"
