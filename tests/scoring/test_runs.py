"""Files in, files out: streams, folders that go on after an interrupt, Ray, and the command."""

import csv
import json
import os
import threading
from pathlib import Path

import pandas
import pytest

import unmask
from unmask.common.errors import InputError

LINES = ["The dog ran.", "", "a cat sat", "The unplayed dog sat.", "a dog", "the cat walks"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_formats_hold_the_same_rows(pieces, file, tmp_path):
    rows = unmask.score(file, "pll,any_order", model=pieces).rows
    for format in ("jsonl", "csv", "parquet"):
        unmask.score(file, "pll,any_order", model=pieces, out=tmp_path / format, format=format)
    written = tmp_path / "jsonl" / "scores.jsonl"
    assert lines(written.read_text()) == rows
    frame = pandas.read_parquet(tmp_path / "parquet" / "scores.parquet")
    assert list(frame["pll"].dropna()) == [row["pll"] for row in rows if row["pll"] is not None]
    with open(tmp_path / "csv" / "scores.csv") as table:
        from_csv = list(csv.DictReader(table))
    assert [row["text"] for row in from_csv] == LINES
    assert [float(row["pll"]) for row in from_csv if row["pll"]] == [
        row["pll"] for row in rows if row["pll"] is not None
    ]


def test_words_and_tokens_survive_parquet(pieces, file, tmp_path):
    scores = unmask.score(
        file, "pll", model=pieces, rows="nested", out=tmp_path / "run", format="parquet"
    )
    assert scores.rows == unmask.score(file, "pll", model=pieces, rows="nested").rows


class Stopped(Exception):
    pass


@pytest.fixture
def long_file(tmp_path):
    """More texts than are kept at once."""
    path = tmp_path / "many.txt"
    path.write_text("\n".join(LINES * 250) + "\n")
    return path


def test_a_stopped_run_goes_on(pieces, long_file, tmp_path):
    whole = unmask.score(long_file, "pll", model=pieces).rows

    def stop_in_the_middle(done, total, what=""):
        assert total == 1500
        assert what == "texts"
        if done > 750:
            raise Stopped

    out = tmp_path / "run"
    with pytest.raises(Stopped):
        unmask.score(long_file, "pll", model=pieces, out=out, progress=stop_in_the_middle)
    assert not (out / "scores.jsonl").exists()
    seen = []
    scores = unmask.score(
        long_file,
        "pll",
        model=pieces,
        out=out,
        progress=lambda done, total, what="": seen.append(done),
    )
    assert 0 < seen[0] <= 750, "what was done is kept"
    assert scores.rows == lines((out / "scores.jsonl").read_text())
    assert [row["item"] for row in scores] == list(range(1, 1501))
    assert [row["pll"] for row in scores] == pytest.approx(
        [row["pll"] for row in whole], abs=1e-5, nan_ok=True
    )


def test_rows_come_one_by_one_and_are_not_kept(pieces):
    seen = []
    scores = unmask.score(iter(LINES), "pll", model=pieces, sink=seen.append)
    assert [row["text"] for row in seen] == LINES
    assert len(scores) == 0


def test_json_lines(pieces, tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text(
        '{"text": "a dog", "id": 4}\n\n{"before": "a", "target": "cat", "after":'
        ' "sat"}\n{"sentence": "the dog"}\n'
    )
    scores = unmask.score(file, model=pieces)
    assert [row["text"] for row in scores] == ["a dog", "", "a cat sat", "the dog"]
    assert scores[0]["id"] == "4"
    assert scores[1]["reason"] == "the text is empty"
    assert scores[2]["length"] == 1


@pytest.mark.parametrize(("kind", "mark"), [("csv", ","), ("tsv", "\t")])
def test_tables_are_read_by_column(pieces, tmp_path, kind, mark):
    file = tmp_path / f"stimuli.{kind}"
    rows = [
        ["id", "sentence", "note"],
        ["7", "a dog" + mark + "ran", 'said "so"'],
        [],
        ["8", "the cat", ""],
    ]
    with open(file, "w", newline="", encoding="utf-8-sig") as stream:
        csv.writer(stream, delimiter=mark).writerows(rows)
    scores = unmask.score(file, model=pieces)
    assert [(row["id"], row["text"]) for row in scores] == [
        ("7", f"a dog{mark}ran"),
        ("8", "the cat"),
    ]
    assert [row["text"] for row in unmask.score(file, model=pieces, field="note")] == [
        'said "so"',
        "",
    ]
    with pytest.raises(
        InputError,
        match=(
            "line 2 has no field 'text2' .its fields are id, sentence, note.: name one of them with"
            " field$"
        ),
    ):
        unmask.score(file, model=pieces, field="text2")
    file.write_text(
        mark.join(("before", "target", "after")) + "\n" + mark.join(("a", "cat", "sat")) + "\n"
    )
    (row,) = unmask.score(file, model=pieces)
    assert row["text"] == "a cat sat"
    assert row["length"] == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("item,stimulus\n1,a dog\n", "line 2 has no field 'text' (its fields are item, stimulus)"),
        ("a dog\na cat\n", "line 2 has no field 'text' (its fields are a dog)"),
        ("good,bad\na dog,dog a\n", "unmask minimal-pairs reads columns good and bad"),
        ("id;stimulus\n1;a dog\n", "its fields are id, stimulus"),
        (
            "id,text\n1,a dog, ran\n",
            "line 2 has 3 cells and the header 2: put a text with a separator in quotes",
        ),
        ('id,text\n1,"a dog" ran\n', "line 2 is not csv"),
        ("id,text\n", "has one line, 'id, text', read as its header: give a header and rows"),
    ],
)
def test_tables_whose_column_is_not_named_or_whose_rows_do_not_fit(
    tmp_path, unmask_score, content, told
):
    (tmp_path / "stimuli.csv").write_text(content)
    code, printed, message = unmask_score("--file", tmp_path / "stimuli.csv")
    assert code == 2
    assert printed == ""
    assert told in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"text": "a dog"}\n{"txt": "a cat"}\n', "line 2 has no field 'text'"),
        (b'{"text": "a dog"}\n{"text": 3}\n', "line 2: 'text' is 3"),
        (b'{"text": "a dog"}\n["a cat"]\n', "line 2 is a JSON list"),
        (b'{"text": "a dog"}\n{"text": \n', "line 2 is not JSON"),
        (b'{"text": "a dog"}\n\xff\xfe\n', "line 2: byte 18 is not UTF-8"),
    ],
)
def test_damaged_files_are_told_with_the_line(pieces, tmp_path, content, told, unmask_score):
    file = tmp_path / "texts.jsonl"
    file.write_bytes(content)
    out = tmp_path / "run"
    code, printed, message = unmask_score("--file", file, "--out", out)
    assert code == 2
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    assert told in message
    assert not printed
    assert not out.exists()


@pytest.mark.parametrize("engine", ["processes", pytest.param("ray", marks=pytest.mark.slow)])
def test_workers_give_the_same_rows(request, pieces_folder, file, tmp_path, engine):
    model = unmask.ModelSpec(pieces_folder, device="cpu")
    local = unmask.score(file, "pll", model=model).rows
    if engine == "ray":
        request.getfixturevalue("ray_here")
        shared = unmask.score(file, "pll", model=model, out=tmp_path / "run", engine="ray:2")
    else:
        several = unmask.ModelSpec(pieces_folder, device="cpu,cpu")
        shared = unmask.score(file, "pll", model=several, out=tmp_path / "run")
    assert [row["text"] for row in shared] == LINES
    assert [row["pll"] for row in shared] == pytest.approx(
        [row["pll"] for row in local], abs=1e-5, nan_ok=True
    )


def test_a_list_of_devices_is_for_what_is_shared(pieces_folder, tmp_path):
    several = unmask.ModelSpec(pieces_folder, device="cpu,cpu")
    with pytest.raises(
        unmask.InputError, match="workers need a folder, where their rows are kept: give out"
    ):
        unmask.score(["a dog"], model=several)
    with pytest.raises(
        unmask.UnmaskError, match="'cpu,cpu' is a list, for score, evaluate, sample"
    ):
        unmask.fill("a [MASK]", model=several)
    for device, why in [
        ("cpu,abacus", "'abacus' is not known"),
        ("cpu,", "'' is not known"),
        ("cuda:0,1", "was asked for"),
    ]:
        with pytest.raises(unmask.UnmaskError, match=why):
            unmask.score(
                ["a dog"],
                model=unmask.ModelSpec(pieces_folder, device=device),
                out=tmp_path / "run",
            )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("device", "engine", "why"),
    [("auto,auto", "local", "auto is one"), ("cpu,cpu", "ray:2", "engine=ray")],
)
def test_lists_that_would_not_be_followed_are_refused(pieces_folder, tmp_path, device, engine, why):
    model = unmask.ModelSpec(pieces_folder, device=device)
    with pytest.raises(InputError, match=f"'{device}' is a list, and {why}"):
        unmask.score(["a dog"], model=model, out=tmp_path / "run", engine=engine)
    assert not (tmp_path / "run").exists()


def test_command_streams_rows(unmask_score, file, pieces):
    code, printed, message = unmask_score("--file", file, "--score", "pll,left_to_right")
    assert code == 0
    assert "1 text lacks a score, the first is text 2" in message
    rows = unmask.score(file, "pll,left_to_right", model=pieces).rows
    assert lines(printed) == rows
    code, printed, _ = unmask_score("-", "--format", "csv", stdin="\n".join(LINES))
    assert code == 0
    assert [row["text"] for row in csv.DictReader(printed.splitlines())] == LINES


def test_command_reads_json_lines_from_standard_input(unmask_score):
    code, printed, _ = unmask_score(
        "-", "--field", "text", "--rows", "words", "--unit", "bits", stdin='{"text": "a dog"}\n'
    )
    assert code == 0
    assert [row["word"] for row in lines(printed)] == ["a", "dog"]
    code, _, message = unmask_score("-", stdin=b"a dog\n\xff\n")
    assert code == 2
    assert "standard input line 2: byte 6 is not UTF-8" in message


def test_command_compares_two_sentences(unmask_score):
    code, printed, _ = unmask_score("The dogs sat.", "The dog sat.", "--score", "pll,any_order")
    assert code == 0
    assert "dogs / dog" in printed
    assert "exact" in printed
    code, printed, _ = unmask_score("The dogs sat.", "--json")
    assert code == 0
    assert json.loads(printed)["rows"][0]["text"] == "The dogs sat."
    for format, read in (
        ("csv", lambda text: list(csv.DictReader(text.splitlines()))),
        ("jsonl", lines),
    ):
        code, printed, _ = unmask_score("The dogs sat.", "--format", format)
        assert code == 0
        assert [(row["text"], str(row["length"])) for row in read(printed)] == [
            ("The dogs sat.", "4")
        ]
    code, _, message = unmask_score("The dogs sat.", "--format", "csv", "--json")
    assert code == 2
    assert "--json and --format were both given: give one of them" in message


def test_rows_go_to_a_function_or_to_a_folder(pieces, tmp_path):
    rows = []
    unmask.score(["the dog sat"], model=pieces, sink=rows.append)
    assert [row["text"] for row in rows] == ["the dog sat"]
    with pytest.raises(InputError, match="^sink is not used with out: leave one of the two out$"):
        unmask.score(["the dog sat"], model=pieces, sink=rows.append, out=tmp_path / "run")


def test_command_prints_accuracies(unmask_score, tmp_path):
    file = tmp_path / "agreement.jsonl"
    file.write_text('{"sentence_good": "a cat", "sentence_bad": "a cat"}\n')
    code, printed, message = unmask_score(
        *(file, "--score", "pll,left_to_right", "--out", tmp_path / "run"),
        command="minimal-pairs",
    )
    assert code == 0
    assert "agreement" in printed
    assert "50.0 [5, 95]" in printed
    assert f"rows are in {tmp_path / 'run' / 'scores'}.jsonl" in message
    written = json.loads((tmp_path / "run" / "accuracy.json").read_text())
    assert written["accuracy"][0]["n_ties"] == 1


GOOD, ZEBRA = (
    '{"sentence_good": "a cat", "sentence_bad": "a dog"}\n',
    '{"sentence_good": "zzz qqq", "sentence_bad": "a dog"}\n',
)


@pytest.mark.parametrize("more", [[], ["--format", "csv"], ["--out", "run"]])
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("texts.txt", "the dog sat\nzzz qqq\n", 1),
        ("texts.txt", "\n\n", 1),
        ("texts.txt", "the dog sat\n\n", 0),
        ("texts.jsonl", '{"text": "zzz"}\n', 1),
        ("pairs.jsonl", GOOD + ZEBRA, 1),
        ("pairs.jsonl", GOOD, 0),
    ],
)
def test_exit_code_of_texts_without_a_score(
    unmask_score, name, content, expected, more, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    if name.startswith("pairs"):
        code, printed, message = unmask_score(name, *more, command="minimal-pairs")
    else:
        code, printed, message = unmask_score("--file", name, *more)
    assert code == expected
    if expected:
        assert "lack" in message + printed
    if "--out" in more:
        assert (tmp_path / "run" / "scores.jsonl").is_file()


def test_sentences_without_a_score_say_why(unmask_score):
    code, _, message = unmask_score("zzz qqq")
    assert code == 1
    assert "1 text lacks a score" in message
    assert "all words of 'zzz qqq' are unknown" in message
    code, _, message = unmask_score("the dog sat", "the yyy sat", "--score", "pll")
    assert code == 0
    assert "warning: the model does not know 'yyy' and reads [UNK] instead" in message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("out", [False, True])
def test_a_pipe_with_a_name_is_read_once(pieces, tmp_path, out):
    os.mkfifo(pipe := tmp_path / "texts.txt")
    writer = threading.Thread(
        target=pipe.write_text, args=("a cat sat\nthe dogs ran\n",), daemon=True
    )
    writer.start()
    scores = unmask.score(pipe, model=pieces, out=tmp_path / "run" if out else None)
    assert [row["text"] for row in scores.rows] == ["a cat sat", "the dogs ran"]
    writer.join()
