"""Hostile and mistaken command lines: what is given, and a word that the one line must have."""

import re
import shlex

import pytest

from support.bad_models import MODELS

LONG = "x" * 5000
TEXT = "'the [MASK] [MASK] .'"
TEXTS: list[tuple[str, str]] = [
    ("fill ''", "empty"),
    (f"fill 'the cat' --positions {'1' * 5000}", "positions"),
    ("fill 'the [MASK]' --alphabet {world}/latin1.txt", "latin1"),
    ("fill 'the [MASK]' --exact", "did you mean --candidates all?"),
    ("fill 'the [MASK].' --pieces 3", "[WORD:1-3]"),
    ("fill", "no text"),
    ("fill --file {world}/empty.txt", "no text"),
    ("fill --file {world}/folder", "folder"),
    ("fill --file {world}/loop.txt", "loop.txt"),
    (f"fill --file {LONG}", "long"),
    (f"compare {TEXT} --constructions mrf --constructions hcb", "--constructions was given twice"),
    ("sample 'the [GAP:2]'", "which fill alone takes"),
    (f"mutants 'the cat sat' --mutations cat{'2' * 5000}dog", "residues 1 to 3"),
    ("mutants 'the cat sat' --positions 1 --save {world}/none/x.parquet", "folder"),
    ("mutants --file {world}/texts.txt --positions 1 --figure x.png", "one --figure"),
    ("fill '" + "[GAP:1-99999] " * 2000 + "'", "more than 64 ways"),
    (f"fill 'the [MASK]' --allow {'1' * 5000}=cat", "is not understood: give BLANK=WORDS"),
    ("score 'the cat' -", "is standard input, and 1 text was given beside it"),
    ("score 'the cat' --format parquet", "--format parquet cannot be printed"),
    ("score 'the cat' --minimal-pairs {world}/none.jsonl", "use unmask minimal-pairs"),
    ("minimal-pairs {world}/none.jsonl", "does not exist"),
    ("minimal-pairs", "DATA is missing"),
    ("evaluate {world}/corrupt.txt.gz --out {new}", "corrupt.txt.gz"),
    ("evaluate {world}/texts.txt --out {world}/folder/../texts.txt --pairs 2", "texts.txt"),
    ("evaluate {world}/texts.txt --out {new} --engine ray:x", "engine"),
    ("diagnose {world}/folder", "folder"),
    ("diagnose {model}", "model"),
    ("train {world}/texts.txt --out {world}/folder/..", ""),
    ("train {world}/texts.txt --out {new} --tokenizer {world}/texts.txt", "texts.txt"),
    (
        "train {world}/texts.txt --out {new} --init {world}/model-with-more-layers",
        "model-with-more-layers",
    ),
    ("train --parallel {world}/texts.txt --out {new}", "parallel"),
    (
        "translate {world}/texts.txt --model {model} --save {world}/folder",
        "is a folder: name a file",
    ),
    (
        "translate {world}/texts.txt --model {model} --save {world}/none/x.jsonl",
        "of --save does not exist: make it first",
    ),
    ("fill 'the [MASK]' --top", "top"),
]
NEEDS_MODEL = ("fill", "compare", "dependence", "mutants", "assay", "score", "evaluate", "sample")


def with_model(line):
    return f"{line} --model {{model}}" if line.split()[0] in NEEDS_MODEL else line


@pytest.mark.parametrize(("line", "word"), TEXTS, ids=[line[:70] for line, _ in TEXTS])
def test_one_line_and_nothing_lost(refused, line, word):
    assert word in refused(with_model(line))


VALUES = {
    "--device": ("", "meta", "mps", "cpu:7", "cuda:-1", "cuda:99", f"cuda:{'1' * 5000}", "cpu\n"),
    "--dtype": ("", "int8", "complex64", "float32\n"),
    "--model": ("", "a\0b", LONG, "{world}/texts.txt/x", " ", "{world}/loop.txt", "~nobody-here/x"),
    "--out": ("", "a\0b", LONG, "{world}/texts.txt/x", "{world}/loop.txt/x"),
    "--seed": ("1.5", "nan", "", "1" * 30, "-1", "1" * 5000, "²"),
    "--temperature": ("nan", "inf", "", "1e300", "-1e300", "1" * 5000, "²"),
}
"""What nobody should give, by option."""


@pytest.mark.parametrize(
    ("option", "value"), [(option, value) for option, values in VALUES.items() for value in values]
)
def test_a_hostile_value_is_refused(refused, option, value):
    words = [
        "sample",
        "--chains",
        "2",
        "--sweeps",
        "1",
        "--length",
        "3",
        "--model",
        "{model}",
        f"{option}={value}",
    ]
    message = refused(words)
    assert len(message) < 1000
    assert option in ("--model", "--out") or option[2:] in message


@pytest.mark.parametrize(
    "line",
    [
        "evaluate {world}/texts.txt --model /nowhere",
        "score --file {world}/texts.txt --model /nowhere",
        "sample --model /nowhere",
        "train {world}/texts.txt --init /nowhere",
        "mutants 'the cat' --positions 1 --model /nowhere",
        "lab masking",
    ],
)
def test_a_foreign_out_is_refused_before_a_model_is_looked_for(refused, line):
    assert "/nowhere" not in refused(f"{line} --out {{world}}/folder-of-mine")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "line", ["fill 'the [MASK]'", "evaluate {world}/texts.txt --out {new} --pairs 2"]
)
def test_models_that_cannot_serve(refused, name, line):
    assert name in refused(f"{line} --model {{world}}/{name}")


ENDLESS = {
    "fill": "fill 'the [MASK] {word}'",
    "a start": "sample --out {new} --start {file}",
}


@pytest.mark.parametrize("line", ENDLESS.values(), ids=ENDLESS)
def test_a_word_of_20_megabytes_is_refused_for_its_letters_before_it_is_cut_into_tokens(
    refused, tmp_path, line
):
    word, file = "a" * 20_000_000, tmp_path / "endless.txt"
    file.write_text(f"the {word}\n")
    words = [
        part.replace("{word}", word).replace("{file}", str(file))
        for part in shlex.split(f"{line} --model {{model}}")
    ]
    message = refused(words)
    assert re.search("has 20,000,0.. characters", message)
    assert "shorten" in message
    assert len(message) < 300
