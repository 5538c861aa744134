"""The command line: what it prints agrees with the API, and every mistake is one line and exit
code 2.
"""

import json
import re
import shlex
from math import exp
from pathlib import Path
from types import SimpleNamespace

import pytest

import unmask
from support.command_runner import invoke, refused
from support.constructions import NAMES
from unmask.surfaces.cli import terminal

TWO = "the [MASK] sat on the [MASK] ."


def run(*args: object, text: str | None = None):
    return invoke([str(a) for a in args], input=text, env={"COLUMNS": "80"})


@pytest.fixture
def model(tiny_folder):
    return ("--model", tiny_folder)


def test_fill_json_is_what_the_api_says(tiny, model):
    result = run("fill", TWO, *model, "--construction", "product", "--top", 3, "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    printed = json.loads(result.stdout)
    assert set(printed) == {"text", "construction", "candidates_mass", "completions"}
    assert printed == unmask.fill(TWO, model=tiny, construction="product", top=3).to_dict()


def test_fill_shows_joint_and_product_side_by_side(tiny, model):
    result = run("fill", TWO, *model, "--top", 4)
    best = unmask.fill(TWO, model=tiny, top=4).completions
    assert result.exit_code == 0
    assert result.stderr == ""
    assert TWO in result.stdout
    assert "restarted joint of 2 blanks; 12 x 12 tokens hold" in result.stdout
    rows = re.findall(r"^ +[\d.]+ % .*$", result.stdout, re.MULTILINE)
    assert len(rows) == 4
    for row, completion in zip(rows, best, strict=True):
        assert completion.text in row
        assert f"{100 * exp(completion.log_prob):.2f} %" in row
        assert f"{100 * exp(completion.product_log_prob):.2f} %" in row
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_texts_that_are_all_bad_are_refused_before_anything_is_printed(model, tmp_path):
    (tmp_path / "texts.txt").write_text("the dog\nthe cat\n")
    file = tmp_path / "texts.txt"
    assert refused(["fill", "--file", file, *model]).startswith(
        f"{file} line 1: the text 'the dog' has no blank"
    )
    assert "is the name of a file: give --file" in refused(["fill", file, *model])
    assert "both given" in refused(["fill", TWO, "--file", file, *model])
    file.write_bytes(b"\n\xff\n")
    assert "line 2: byte 1 is not UTF-8" in refused(["fill", "--file", file, *model])


@pytest.mark.parametrize(
    "args",
    [(TWO,), ("the cat sat on the mat .", "--positions", "2,6"), ("a [MASK] [MASK] [MASK] .",)],
)
def test_compare_fits_80_columns(model, args):
    result = run("compare", *args, *model)
    assert result.exit_code == 0, result.stderr
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    for name in NAMES:
        assert re.search(rf"^{name} ", result.stdout, re.MULTILINE)
    assert ("P-PPL" in result.stdout) == (len(args) > 1)


def test_too_large_an_exact_joint_is_refused_before_any_work():
    message = refused(["fill", "A [MASK] [MASK] [MASK] sat.", "--candidates", "all"])
    assert "passes" in message
    assert "cells" in message
    assert ": instead of --candidates all use --candidates 257 or fewer, or --force" in message


def test_a_defect_of_ours_is_not_hidden(monkeypatch, model):
    def defective(*args: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(unmask, "fill", SimpleNamespace(of_text=defective))
    assert isinstance(run("fill", TWO, *model).exception, ZeroDivisionError)


def test_help_and_version():
    assert run("--version").stdout == f"unmask {unmask.__version__}\n"
    for args in ((), ("--help",), ("fill", "-h"), ("compare", "--help")):
        result = run(*args)
        assert result.exit_code == 0
        assert "Usage: unmask" in result.stdout


def test_dependence_is_a_matrix_of_few_positions_and_a_list_of_many(model):
    shown = run("dependence", TWO, *model).stdout
    assert "the other blanks masked" in shown
    assert "12 x 12 tokens hold at least" in shown
    assert "2 [MASK]" in shown
    assert max(map(len, shown.splitlines())) <= 80
    listed = run("dependence", "the cat sat on the mat the a dog ran under", *model).stdout
    numbers = [float(line.split()[-1]) for line in listed.splitlines() if " - " in line]
    assert "the 20 strongest of 55 pairs" in listed
    assert len(numbers) == 20
    assert numbers == sorted(numbers, reverse=True)


THREE = "a [MASK] [MASK] [MASK] ."


def test_fill_by_chain_from_three_blanks_on(tiny, model):
    printed = json.loads(run("fill", THREE, *model, "--json").stdout)
    assert printed == json.loads(json.dumps(unmask.fill(THREE, model=tiny).to_dict()))
    assert printed["construction"] == "chain"
    assert 0 < printed["search"]["mass"] <= 1
    assert len(printed["completions"]) == 10
    assert printed["search"]["certain"] <= 10
    grid = json.loads(run("fill", THREE, *model, "--candidates", 3, "--json").stdout)
    assert "candidates_mass" in grid
    assert grid["construction"] == "restarted"
    shown = run("fill", THREE, *model, "--top", 3).stdout
    assert "% of all mass" in " ".join(shown.split())
    assert "certain" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_fill_answers_and_constraints(tiny, model):
    options = (
        "--answers",
        "cat sat, dog ran",
        "--allow",
        "1=cat,dog,mat",
        "--forbid",
        "mat",
        "--top",
        4,
    )
    printed = json.loads(run("fill", "the [MASK] [MASK] .", *model, *options, "--json").stdout)
    constraints = {"allow": {1: ["cat", "dog", "mat"]}, "forbid": ["mat"]}
    filling = unmask.fill(
        "the [MASK] [MASK] .",
        model=tiny,
        top=4,
        answers=["cat sat", "dog ran"],
        **constraints,
    )
    assert printed == json.loads(json.dumps(filling.to_dict()))
    assert {c["tokens"][0] for c in printed["completions"]} == {"cat", "dog"}
    shown = run("fill", "the [MASK] [MASK] .", *model, *options).stdout
    assert "odds" in shown
    assert "1 : 1" in shown
    assert "dog ran" in shown


def test_a_word_is_given_on_the_command_line(tiny, model):
    options = ["--given", "1=cat", "--candidates", "all", "--top", 3]
    printed = json.loads(run("fill", TWO, *model, *options, "--json").stdout)
    filling = unmask.fill(TWO, model=tiny, given={1: "cat"}, candidates="all", top=3)
    assert printed == json.loads(json.dumps(filling.to_dict()))
    assert printed["given"] == {"1": "cat"}
    assert {c["tokens"][0] for c in printed["completions"]} == {"cat"}
    message = refused(["fill", TWO, "--given", "1=cat", "--given", "1=dog"])
    assert "--given has two texts for 1" in message
    assert "give BLANK=WORD" in refused(["fill", TWO, "--given", "cat"])


TEXTS = ["cat", "cat.", "cat.s", "the cat/dog sat", "MKTAYIAKQR", "1.5", "...", "a [MASK]/[MASK]"]
LIKE_FILES = [
    "cat/dog",
    "cat.txt",
    "data/cat.CSV",
    "my cats.tsv",
    "https://a.org",
    "~/cat",
    "cat.fasta.gz",
    "C:\\cats\\cat",
    "/",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_does_not_look_like_a_file_is_a_text(model, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    done = run("score", text, *model, "--json")
    assert [row["text"] for row in json.loads(done.stdout)["rows"]] == [text]
    done = run("score", text, "the dog sat .", *model, "--json")
    assert [row["text"] for row in json.loads(done.stdout)["rows"]] == [text, "the dog sat ."]


@pytest.mark.parametrize("text", LIKE_FILES)
@pytest.mark.parametrize("verb", ["fill", "compare", "dependence", "mutants", "score"])
def test_a_text_that_looks_like_a_file_is_refused_with_both_ways_out(model, verb, text):
    message = refused([verb, text, *model])
    ways = (
        f"give --file {shlex.quote(text)} to read the file, or --text {shlex.quote(text)} if it is"
        " a text"
    )
    assert "looks like the name of a file: " in message or "is the name of a file: " in message
    assert ways in message
    with pytest.raises(
        unmask.InputError, match=r"give Path\(.*\) to read the file, or \[.*\] if it is a text"
    ):
        getattr(unmask, verb)(text)


@pytest.mark.parametrize("text", LIKE_FILES)
def test_both_ways_out_lead_out(model, tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    done = run("score", "--text", text, *model, "--json")
    assert [row["text"] for row in json.loads(done.stdout)["rows"]] == [text]
    assert [row["text"] for row in unmask.score([text], model=model[1]).rows] == [text]
    if text != "/":
        assert "does not exist" in refused(["score", "--file", text, *model])


@pytest.mark.parametrize("name", ["cat.s", "cat", "the cat sat"])
def test_the_name_of_a_file_is_not_read_as_a_text(model, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("the dog sat .\n")
    for verb in ("fill", "score", "dependence"):
        assert f"the text {name!r} is the name of a file: give --file" in refused(
            [verb, name, *model]
        )
    assert json.loads(run("score", "--file", name, *model).stdout)["text"] == "the dog sat ."
    assert [
        row["text"]
        for row in json.loads(run("score", "--text", name, *model, "--json").stdout)["rows"]
    ] == [name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("score a --text b", "a text and --text were both given"),
        ("fill --file a.txt --text b", "--file and --text were both given"),
        ("score a --file b --text c", "a text, --file and --text were all given"),
        ("score a -", "- is standard input, and 1 text was given beside it"),
        ("score - -", "- is standard input, and was given more than once: give it once"),
    ],
)
def test_texts_come_from_one_place(tmp_path, words, message):
    file = tmp_path / "texts.txt"
    file.write_text("the cat sat .\n")
    assert message in refused(shlex.split(words.format(file=file)))


ROWS = {
    "fill": ("the [MASK] sat", [], "text"),
    "compare": ("the [MASK] [MASK]", [], "text"),
    "dependence": ("the [MASK] [MASK]", [], "text"),
    "mutants": ("the cat sat", ["--mutations", "cat2dog"], "sequence"),
}


@pytest.mark.parametrize("verb", ROWS)
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv"])
def test_every_line_of_a_file_has_a_row_with_its_number(model, tmp_path, verb, name):
    text, options, key = ROWS[verb]
    lines = ["", text, "the \x07 sat", "", text]
    file = tmp_path / name
    if name == "a.txt":
        file.write_text("\n".join(lines) + "\n")
    elif name == "a.jsonl":
        file.write_text(
            "".join(f"{json.dumps({'text': line})}\n" if line else "\n" for line in lines)
        )
    else:
        file.write_text("text,n\n" + "".join(f"{line},1\n" if line else ",\n" for line in lines))
    command = [verb, "--file", file, *options, *model, "--alphabet", "cat,dog,sat"]
    done = run(*command, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["item"], row[key]) for row in rows] == list(enumerate(lines, 1))
    assert [row.get("reason") is None for row in rows] == [False, True, False, False, True]
    assert rows[0]["reason"] == "the text is empty"
    assert "U+0007" in rows[2]["reason"]
    assert done.exit_code == 1
    assert "1 text lacks an answer, the first is text 3: " in done.stderr
    (alone,) = getattr(unmask, verb).each(
        [text], model=model[1], **_in_python(options), alphabet="cat,dog,sat"
    )
    numbers = {
        key: value
        for key, value in alone.to_dict().items()
        if key not in ("item", "text", "sequence")
    }
    assert (
        rows[1].keys() - {"item", key} == numbers.keys()
    )  # two texts share passes, which changes the last bits
    assert rows[1] | {"item": 0} == rows[4] | {"item": 0}
    good = {
        "a.txt": f"\n{text}\n",
        "a.jsonl": json.dumps({"text": text}) + "\n\n",
        "a.csv": f"text,n\n{text},1\n,\n",
    }
    file.write_text(good[name])
    assert run(*command).exit_code == 0


def _in_python(options):
    return {options[0].removeprefix("--"): options[1]} if options else {}


def test_a_path_is_a_file_in_python(model, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("\nthe [MASK] sat\n\nthe [MASK] ran\n")
    answers = unmask.fill(file, model[1], top=1)
    assert [(answer.item, answer.text) for answer in answers] == [
        (2, "the [MASK] sat"),
        (4, "the [MASK] ran"),
    ]
    assert [answer.to_dict()["item"] for answer in unmask.fill.each(file, model[1])] == [2, 4]
    assert [answer.item for answer in unmask.fill(["the [MASK]", "a [MASK]"], model[1])] == [1, 2]
    assert unmask.fill("the [MASK]", model[1]).item is None
    assert "item" not in unmask.fill("the [MASK]", model[1]).to_dict()
    file.write_text("the [MASK] sat\n\nthe cat\n")
    with pytest.raises(unmask.InputError, match="a.txt line 3: the text 'the cat' has no blank"):
        unmask.fill(file, model[1])
    file.write_text("\n\n")
    with pytest.raises(unmask.InputError, match="has no text"):
        unmask.fill(file, model[1])


def test_scores_of_a_file_are_a_table_on_a_terminal_and_rows_in_a_pipe_and_of_sentences_tables(
    model, tmp_path, monkeypatch
):
    (tmp_path / "texts.txt").write_text("the cat sat .\na dog ran .\n")
    piped = run("score", "--file", tmp_path / "texts.txt", *model)
    assert (
        run("score", "the cat sat .", "a dog ran .", *model, "--format", "jsonl").stdout
        == piped.stdout
    )
    rows = [json.loads(line) for line in piped.stdout.splitlines()]
    assert [row["text"] for row in rows] == ["the cat sat .", "a dog ran ."]
    with monkeypatch.context() as patch:
        patch.setattr(terminal, "is_terminal", lambda: True)
        table = run("score", "--file", tmp_path / "texts.txt", *model).stdout.splitlines()
    assert table[0] == "pll (not a probability; higher is better); in nats"
    assert table[2].split() == ["text", "item", "length", "unknown", "pll"]
    assert [line.split()[-1] for line in table[4:6]] == [f"{row['pll']:.3f}" for row in rows]
    assert "first minus second" in run("score", "the cat sat .", "a dog ran .", *model).stdout
    long = run("score", f"the {'cat' * 40} sat .", *model, "--rows", "texts").stdout
    assert long.splitlines()[2].split() == ["text", "item", "length", "unknown", "pll"]
    assert "\N{HORIZONTAL ELLIPSIS}" not in long
    many = run(
        "score",
        "the cat sat .",
        *model,
        "--rows",
        "texts",
        "--score",
        "any_order,pll,left_to_right,right_to_left",
    ).stdout
    assert many.count("the cat sat .") == 2
    assert "\N{HORIZONTAL ELLIPSIS}" not in many


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "evaluate {file} --support all --alphabet cat,dog",
            "--alphabet is not used with --support",
        ),
        ("score 'a cat' --file {file}", "a text and --file were both given"),
        (
            "mutants EVQ V2A",
            (
                "no place for 'V2A': put a text in quotes, a value after its option, see unmask"
                " mutants --help"
            ),
        ),
        ("mutants EVQ --out run", "did you mean --save?"),
        ("sample --prompt=The", "--prompt is not an option: give TEMPLATE without a name"),
        (
            "score 'a cat' --engine ray",
            "workers need a folder, where their rows are kept",
        ),
        (
            "score 'a cat' --engine ray:0",
            "is not understood: give local, ray, or ray:4 with the number of workers",
        ),
        (
            "score --minimal-pairs {file}",
            "--minimal-pairs is not an option: use unmask minimal-pairs",
        ),
        ("score --pairs {file}", "--pairs is not an option: use unmask minimal-pairs"),
        ("minimal-pairs {file} --rows words", "--rows is not an option: use unmask score"),
        ("minimal-pairs --pairs {file}", "give DATA without a name"),
        (
            "score 'a cat' --format xlsx",
            "--format 'xlsx' is unknown: use one of jsonl, csv, parquet",
        ),
        ("minimal-pairs {file} --format xlsx", "--format 'xlsx' is unknown"),
        ("minimal-pairs {file} --format parquet", "--format parquet cannot be printed"),
        ("minimal-pairs {file} --engine ray", "workers need a folder"),
        ("minimal_pairs {file}", "minimal_pairs is not a command: use unmask minimal-pairs"),
        ("blimp {file}", "blimp is not a command: use unmask minimal-pairs"),
        ("sample --decoding-steps 3", "use unmask generate"),
        ("sample --decoder verified", "use unmask generate"),
        ("diagnose", "RUN is missing: give RUN, see unmask diagnose --help"),
        ("translate --model m", "DATA is missing: give DATA, see unmask translate --help"),
        ("evaluate", "no text was given to evaluate: give DATA, or --blocks"),
        ("evaluate --data {file}", "--data is not an option: give DATA without a name"),
        (
            "evaluate {file} --paper",
            "--paper is not an option: did you mean --constructions paper?",
        ),
        ("frontier", "DATA is missing: give DATA, see unmask frontier --help"),
        ("frontier {file} --sentences 8", "--sentences is not an option: did you mean --limit?"),
        ("frontier {file} --length 6 --passes 2,99", "--passes 99 is not below the length, 6"),
        ("score 'a cat' --score surprisal", "use left_to_right"),
        ("mutants ACD --positions 1 --model {file} --device cpu,cpu", "use one here"),
        ("score --file {file} --out scores.csv", "named like a file"),
        ("sample --chains 1 --out samples.jsonl", "named like a file"),
    ],
)
def test_messages_name_options_not_arguments_of_python(words, message, tmp_path):
    (tmp_path / "texts.txt").write_text("the cat sat .\n")
    file = tmp_path / "texts.txt"
    assert message.format(file=file) in refused(shlex.split(words.format(file=file)))


def test_empty_lines_of_a_file_print_nothing_between_its_answers(model, tmp_path):
    (tmp_path / "texts.txt").write_text("\n\nthe [MASK] sat\n\nthe [MASK] ran\n")
    done = run("fill", "--file", tmp_path / "texts.txt", *model, "--top", 1)
    assert done.exit_code == 0
    first, second = done.stdout.split("\n\nthe [MASK] ran\n")
    assert first.startswith("the [MASK] sat\n")
    assert second.startswith("distribution of 1 blank")
    assert "3 texts lack an answer, the first is text 1: the text is empty" in done.stderr


@pytest.mark.parametrize("number", ["0", "1"])
@pytest.mark.parametrize("words", ["fill", "fill --json", "score --format jsonl", "score", "none"])
def test_of_the_processes_of_torchrun_the_first_one_prints(model, number, words):
    command = [*words.split(), "the [MASK] sat" if "fill" in words else "the cat sat", *model]
    if words == "none":  # a text without an answer
        command = ["fill", "--file", "-", *model]
    environment = {"COLUMNS": "80", "RANK": number, "WORLD_SIZE": "2"}
    done = invoke([str(word) for word in command], input="the [MASK]\nno\n", env=environment)
    assert done.exit_code == (1 if words == "none" else 0)
    assert bool(done.output) is (number == "0")
