"""Hostile and mistaken command lines: what is given, and a word that the one line must have."""

from __future__ import annotations

import json
import shlex

import pytest
from bad_models import MODELS
from refusals import given

LONG = "x" * 5000
TEXT = "'the [MASK] [MASK] .'"
TEXTS: list[tuple[str, str]] = [
    ("fill ''", "empty"),
    ("fill '   '", "empty"),
    ("fill 'the cat'", "no blank"),
    ("fill '[mask] cat'", "no blank"),
    ("fill 'the [MASK] \x07'", "control character"),
    (f"fill 'the [MASK] {'the ' * 40}'", "16"),
    ("fill 'the [MASK]' --positions 2", "one or the other"),
    ("fill 'the cat' --positions ''", "positions"),
    ("fill 'the cat' --positions 2;3", "positions"),
    ("fill 'the cat' --positions 1e3", "positions"),
    ("fill 'the cat' --positions -1", "outside"),
    ("fill 'the cat' --positions 99999999999999999999", "outside"),
    ("fill 'the cat' --positions 0", "special"),
    ("fill 'the cat' --positions 2,2", "twice"),
    (f"fill 'the cat' --positions {'1' * 5000}", "positions"),
    ("fill 'the [MASK]' --targets ''", "target"),
    ("fill 'the [MASK]' --targets cat,dog", "target"),
    ("fill 'the [MASK]' --targets aardvark", "aardvark"),
    ("fill 'the [MASK]' --alphabet ''", "alphabet"),
    ("fill 'the [MASK]' --alphabet cat,aardvark", "aardvark"),
    ("fill 'the [MASK]' --alphabet {world}/latin1.txt", "latin1"),
    ("fill 'the [MASK]' --alphabet [MASK]", "alphabet: '['"),
    ("fill 'the [MASK]' --alphabet cat,dog --targets mat", "alphabet"),
    ("fill 'the [MASK]' --joint magic", "magic"),
    ("fill 'the [MASK]' --joint family:2", "alpha"),
    ("fill 'the [MASK]' --joint family:x", "'x'"),
    ("fill 'the [MASK]' --joint '[/b]'", "[/b]"),
    ("fill 'the [MASK]' --joint '$x_'", "$x_"),
    ("fill 'the [MASK]' --device tpu", "tpu"),
    ("fill 'the [MASK]' --device cuda:99", "cuda:99"),
    ("fill 'the [MASK]' --dtype int8", "int8"),
    ("fill 'the [MASK]' --rename x", "rename"),
    ("fill 'the [MASK]' --rename =x", "rename"),
    ("fill 'the [MASK]' --rename a=b --rename a=c", "twice"),
    ("fill 'the [MASK]' --rename no.such=thing", "no.such"),
    ("fill 'the [MASK]' --exact --candidates 3", "exact"),
    ("fill 'the [MASK]' --top 0", "top"),
    ("fill 'the [MASK]' 'and more'", "more"),
    ("fill", "no text"),
    ("fill --file {world}/blanks.txt 'the [MASK]'", "both"),
    ("fill --file {world}/none.txt", "none.txt"),
    ("fill --file {world}/empty.txt", "no text"),
    ("fill --file {world}/folder", "folder"),
    ("fill --file {world}/latin1.txt", "line 1"),
    ("fill --file {world}/zeros.txt", "control character"),
    ("fill --file {world}/loop.txt", "loop.txt"),
    ("fill --file {world}/texts.txt", "text 1 of 4"),
    ("fill --file ''", "file"),
    (f"fill --file {LONG}", "long"),
    ("fill --file ~nobody-here/texts.txt", "texts.txt"),
    ("compare 'the [MASK]'", "one blank"),
    (f"compare {TEXT} --joints mrf --joints hcb", "--joints was given twice: give its values once, with commas between them"),
    ("score 'the cat' --score pll -s any_order", "--score was given twice"),
    ("score ''", "a text is empty"),
    ("fill --file {world}/records.jsonl", "records.jsonl holds JSON by its name: give a file with one text per line"),
    ("sample --init {world}/records.jsonl", "holds JSON by its name"),
    ("fill --file {world}/table.csv", "table.csv holds a table by its name: give a file with one text per line"),
    ("check --data {world}/table.csv", "holds a table by its name"),
    ("evaluate --data {world}/records.jsonl --out {new} --pairs 1", "holds JSON by its name"),
    ("compare 'the [WORD] [MASK]'", "which fill alone takes: put a [MASK] for each token"),
    ("sample --template 'the [GAP:2]'", "which fill alone takes"),
    (f"compare {TEXT} --joints ''", "joints"),
    (f"compare {TEXT} --joints mrf,mrf", "twice"),
    (f"compare {TEXT} --joints mrf,magic", "magic"),
    (f"compare {TEXT} --figure x.gif", "x.gif"),
    (f"compare {TEXT} --figure x", "'x'"),
    (f"compare {TEXT} --figure {{world}}/none/x.png", "does not exist"),
    (f"compare {TEXT} --figure {{world}}/texts.txt/x.png", "texts.txt"),
    (f"compare {TEXT} --figure {LONG}.png", "long"),
    ("compare '[MASK] [MASK] [MASK]' --figure x.png", "two blanks"),
    ("compare --file {world}/blanks.txt", "one blank"),
    (f"compare {TEXT} --targets cat", "cat"),
    (f"compare {TEXT} --targets 'cat,[/b]'", "[/b]"),
    ("dependence 'the [MASK]'", "one blank"),
    ("dependence the", "fewer than two known tokens"),
    ("dependence 'the cat sat' --positions 2", "two positions"),
    ("dependence 'the cat sat' --positions 1,77", "77"),
    ("dependence 'the cat sat' --others gone", "gone"),
    (f"dependence {TEXT} --others text", "whole text"),
    (f"dependence {TEXT} --figure x.doc", "x.doc"),
    (f"dependence {TEXT} --candidates 0", "candidates"),
    ("mutants 'the cat sat'", "neither"),
    ("mutants 'the cat sat' --positions 1 --mutations a1b", "both"),
    ("mutants 'the cat sat' --mutations cat2dog --alphabet {world}/none", "alphabet: '/'"),
    ("mutants 'the cat sat' --mutations cat1dog", "residue 1"),
    ("mutants 'the cat sat' --mutations cat2cat", "itself"),
    (f"mutants 'the cat sat' --mutations cat{'2' * 5000}dog", "residues 1 to 3"),
    ("mutants 'the cat sat' --positions 2 --alphabet cat,cat", "alphabet 'cat,cat' names one token"),
    ("mutants 'the cat sat' --positions 5-3", "residues"),
    ("mutants 'the cat sat' --positions all --changes 9", "changes"),
    ("mutants 'the cat sat' --positions 1 --by magic", "magic"),
    ("mutants 'the cat sat' --positions 1 --out x.csv", "parquet"),
    ("mutants 'the cat sat' --positions 1 --out {world}/none/x.parquet", "folder"),
    ("mutants 'the [MASK] sat' --positions 1", "blank"),
    ("mutants 'the cat sat' --measured {world}/none.csv", "does not exist"),
    ("mutants 'the cat sat' --positions 1 --column y", "column was given"),
    ("mutants 'the cat sat' --measured {world}/texts.txt --by effect", "by was given"),
    ("mutants 'the cat sat' --measured {world}/texts.txt --scores magic", "magic"),
    ("mutants --file {world}/texts.txt --positions 1 --figure x.png", "one figure"),
    ("fill 'the [GAP:30-40] sat'", "30 tokens at their shortest and the model takes 16"),
    ("fill 'the [GAP:12-13] a cat sat'", "with its blanks at their shortest the text has 18 tokens and the model takes 16"),
    (f"fill 'the [GAP:{'1' * 5000}] sat'", "too long: give at most 100,000 tokens"),
    (f"fill 'the [GAP:2-{'1' * 1000}] sat'", "too long: give at most 100,000 tokens"),
    ("fill 'the [GAP:99999] sat'", "99,999 tokens at their shortest"),
    ("fill '" + "[GAP:1-99999] " * 2000 + "'", "more than 64 ways"),
    ("fill 'the [GAP:5-2] sat'", "[GAP:5-2]"),
    ("fill 'the [GAP:x] sat'", "[GAP:x]"),
    ("fill 'the [MASK] [MASK]' --answers cat", "1 parts for 2 blanks"),
    ("fill 'the [MASK] [MASK]' --answers 'cat dog mat'", "3 parts for 2 blanks"),
    ("fill 'the [MASK]' --answers cat,xyzzy", "xyzzy"),
    ("fill 'the [MASK]' --match 'xyz.*'", "no token of the model passes"),
    ("fill 'the [MASK]' --match '('", "not a regular expression"),
    ("fill 'the [MASK]' --match 7=cat", "blank 7"),
    ("fill 'the [MASK]' --allow 5=cat", "blank 5"),
    (f"fill 'the [MASK]' --allow {'1' * 5000}=cat", "allow names blank 111111111..., which no text has"),
    (f"fill 'the [MASK]' --match {'1' * 5000}=cat", "match names blank 111111111..., which no text has"),
    (f"fill 'the [MASK]' --match 'a{{{'1' * 5000}}}'", "not a regular expression"),
    ("fill 'the [MASK]' --match '" + "(" * 5000 + "'", "not a regular expression"),
    ("fill 'the [MASK]' --forbid ''", "forbid [''] has an empty word: name the words, or leave it out"),
    ("fill 'the [MASK]' --forbid 'cat, ,dog'", "has an empty word"),
    ("fill 'the [MASK]' --forbid the,a,cat,dog,sat,ran,on,under,mat,tree,.,s", "no token of the model passes"),
    ("fill 'the [MASK] sat' --differ", "differ"),
    ("fill 'the [WORD] sat'", "does not mark where a word begins"),
    ("score {world}/keys.jsonl", "keys.jsonl line 1 has no field 'text'"),
    ("score --pairs {world}/keys.jsonl", "line 1 has no field 'sentence_good'"),
    ("score 'the cat' --score pll_wrod", "did you mean pll_word"),
    ("score 'the cat' --rename x=y", "no tensor is called so"),
    ("score", "text"),
    ("score {world}/none.txt", "none.txt"),
    ("score ~nobody-here/x", "there is no such home folder: write the path out"),
    ("score {world}/empty.txt", "no text"),
    ("score {world}/folder", "folder"),
    ("score {world}/latin1.txt", "latin1"),
    ("score {world}/deep.jsonl", "deep.jsonl"),
    ("score {world}/broken.jsonl", "broken.jsonl"),
    ("score 'the cat' --score magic", "magic"),
    ("score 'the cat' --unit miles", "miles"),
    ("score 'the cat' --rows columns", "columns"),
    ("score 'the cat' --long maybe", "maybe"),
    ("score 'the cat' --format parquet", "Parquet"),
    ("score 'the cat' --pairs {world}/none.jsonl", ""),
    ("evaluate --out {new}", "data"),
    ("evaluate --data {world}/texts.txt", "out"),
    ("evaluate --data {world}/none.txt --out {new}", "none.txt"),
    ("evaluate --data {world}/empty.txt --out {new}", "empty.txt"),
    ("evaluate --data {world}/folder --out {new}", "folder"),
    ("evaluate --data {world}/latin1.txt --out {new}", "latin1"),
    ("evaluate --data {world}/corrupt.txt.gz --out {new}", "corrupt.txt.gz"),
    ("evaluate --data {world}/texts.txt --pairs-file {world}/outside.jsonl --out {new}", "were both given"),
    ("evaluate --pairs-file {world}/deep.jsonl --out {new}", "deep.jsonl"),
    ("evaluate --pairs-file {world}/digits.jsonl --out {new}", "digits.jsonl"),
    ("evaluate --pairs-file {world}/surrogate.jsonl --out {new}", "surrogate.jsonl"),
    ("evaluate --pairs-file {world}/outside.jsonl --out {new}", "77"),
    ("evaluate --pairs-file {world}/keys.jsonl --out {new}", "keys.jsonl"),
    ("evaluate --pairs-file {world}/broken.jsonl --out {new}", "broken.jsonl"),
    ("evaluate --data {world}/texts.txt --out {world}/folder/../texts.txt --pairs 2", "texts.txt"),
    ("evaluate --data {world}/texts.txt --out {model} --pairs 2", "model"),
    ("evaluate --data {world}/texts.txt --out {new} --joints magic", "magic"),
    ("evaluate --data {world}/texts.txt --out {new} --scheme magic", "magic"),
    ("evaluate --data {world}/texts.txt --out {new} --support magic", "magic"),
    ("evaluate --data {world}/texts.txt --out {new} --engine magic", "magic"),
    ("evaluate --data {world}/texts.txt --out {new} --workers 2", "workers"),
    ("evaluate --data {world}/texts.txt --out {new} --memory 1B --pairs 2", "memory of 1 bytes is too little for one pair"),
    ("sample --out {new} --kernel magic", "magic"),
    ("sample --out {new} --energy magic", "magic"),
    ("sample --out {new} --scan magic", "magic"),
    ("sample --out {new} --kernel block --block-shape magic", "magic"),
    ("sample --out {new} --length ''", "length"),
    ("sample --out {new} --length 3,x", "length"),
    ("sample --out {new} --length 999", "at most 16"),
    ("sample --out {new} --length 0", "0"),
    ("sample --out {new} --init {world}/none.txt", "none.txt"),
    ("sample --out {new} --init {world}/empty.txt", "empty.txt"),
    ("sample --out {new} --init {world}/latin1.txt", "latin1"),
    ("sample --out {new} --init {world}/texts.txt --random-start", ""),
    ("sample --out {new} --template 'the cat'", "blank"),
    ("sample --out {new} --template ''", "empty"),
    ("sample --out {new} --allow x", "allow"),
    ("sample --out {new} --allow 2=", "allow"),
    ("sample --out {new} --allow 2=aardvark", "aardvark"),
    ("sample --out {new} --allow 99=cat", "99"),
    ("sample --out {new} --kernel gibbs --delayed 1,3", "delayed"),
    ("sample --out {new} --kernel mh --ladder 1,2", "ladder"),
    ("sample --out {new} --kernel tempering --ladder 2,1", "ladder"),
    ("sample --out {new} --kernel tempering --ladder x", "ladder"),
    ("sample --out {new} --kernel ancestral --order magic", "magic"),
    ("sample --out {new} --kernel mask-predict --schedule magic", "magic"),
    ("sample --out {new} --top-k 0", "top"),
    ("sample --out {new} --nucleus 0", "nucleus"),
    ("sample --out {new} --nucleus 1.5", "nucleus"),
    ("sample --out {new} --temperature 0", "temperature"),
    ("sample --out {new} --temperature -1", "temperature"),
    ("sample --out {new} --chains 1000000000", "chains"),
    (
        "sample --out {new} --kernel refined --restart 1e-9",
        "1e+09 passes per text on average, over the limit of 1,000: give",
    ),
    ("sample --out {new} --kernel refined --restart 1e-320", "passes per text on average"),
    ("sample --out {new} --memory 1B", "memory of 1 bytes is too little for one chain"),
    ("sample --out {new} --memory 1e-300", "memory of 1 bytes is too little for one chain"),
    ("sample --out {world}/texts.txt", "texts.txt"),
    ("sample --out {model}", "model"),
    ("diagnose {world}/none", "none"),
    ("diagnose {world}/folder", "folder"),
    ("diagnose {world}/texts.txt", "texts.txt"),
    ("diagnose {model}", "model"),
    ("diagnose {world}/folder --device cpu", "device 'cpu' was given, which only a judge uses"),
    ("train --out {new}", "corpus"),
    ("train {world}/none.txt --out {new}", "none.txt"),
    ("train {world}/empty.txt --out {new}", "empty.txt"),
    ("train {world}/folder --out {new}", "folder"),
    ("train {world}/latin1.txt --out {new}", "latin1"),
    ("train {world}/corrupt.txt.gz --out {new}", "corrupt.txt.gz"),
    ("train {world}/corrupt.txt.xz --out {new}", "corrupt.txt.xz"),
    ("train {world}/deep.jsonl --out {new}", "deep.jsonl"),
    ("train {world}/keys.jsonl --out {new}", "keys.jsonl"),
    ("train {world}/texts.txt --out {world}/folder/..", ""),
    ("train {world}/texts.txt --out {model}", "model"),
    ("train {world}/texts.txt --out {world}/texts.txt", "texts.txt"),
    ("train {world}/texts.txt --out {new} --resume", "resume"),
    ("train {world}/texts.txt --out {new} --size huge", "huge"),
    ("train {world}/texts.txt --out {new} --layers 0", "layers"),
    ("train {world}/texts.txt --out {new} --steps -5", "steps"),
    ("train {world}/texts.txt --out {new} --max-minutes nan", "minutes"),
    ("train {world}/texts.txt --out {new} --lr inf", "lr"),
    ("train {world}/texts.txt --out {new} --lr 0", "lr"),
    ("train {world}/texts.txt --out {new} --width 10 --heads 3", "heads"),
    ("train {world}/texts.txt --out {new} --masking magic", "magic"),
    ("train {world}/texts.txt --out {new} --masking fixed:2", "masking"),
    ("train {world}/texts.txt --out {new} --masking uniform:0.9-0.1", "masking"),
    ("train {world}/texts.txt --out {new} --replacement 1,1,1", "replacement"),
    ("train {world}/texts.txt --out {new} --replacement x", "replacement"),
    ("train {world}/texts.txt --out {new} --loss magic", "magic"),
    ("train {world}/texts.txt --out {new} --optimiser magic", "magic"),
    ("train {world}/texts.txt --out {new} --precision magic", "magic"),
    ("train {world}/texts.txt --out {new} --segment-lengths x", "segment"),
    ("train {world}/texts.txt --out {new} --buckets 7,3", "bucket"),
    ("train {world}/texts.txt --out {new} --tokenizer {world}/none", "none"),
    ("train {world}/texts.txt --out {new} --tokenizer {world}/texts.txt", "texts.txt"),
    ("train {world}/texts.txt --out {new} --init {world}/none", "none"),
    ("train {world}/texts.txt --out {new} --init {world}/model-with-more-layers", "model-with-more-layers"),
    ("train {world}/texts.txt --out {new} --valid {world}/none.txt", "none.txt"),
    ("train {world}/texts.txt --out {new} --weight 1 --weight 2", "weight"),
    ("train {world}/texts.txt --out {new} --weight=-1", "weight"),
    ("train --parallel {world}/texts.txt --out {new}", "two files are needed, and --out stands"),
    ("train --parallel {world}/texts.txt {world}/empty.txt --out {new}", "empty.txt 0"),
    ("train --parallel {world}/texts.txt {world}/none.txt --out {new}", "none.txt"),
    ("train {world}/texts.txt --parallel {world}/texts.txt {world}/texts.txt --out {new}", "one of the two"),
    ("translate {world}/none.txt --model {model}", "none.txt"),
    ("translate {world}/texts.txt --model {world}/none", "not a folder"),
    ("translate {world}/texts.txt --model {model}", "does not translate"),
    ("translate {world}/texts.txt --model {model} --out {world}/folder", "is a folder: name a file"),
    ("translate {world}/texts.txt --model {model} --decoder magic", "magic"),
    ("translate {world}/latin1.txt --model {model}", "latin1"),
    ("translate {world}/empty.txt --model {model}", "empty.txt' has no text: give one text per line"),
    ("translate {world}/texts.txt --reference {world}/empty.txt --model {model}", "empty.txt' has no text"),
    ("translate {world}/texts.txt --model {model} --out {world}/none/x.jsonl", "of out does not exist: make it first"),
    ("translate {world}/texts.txt --model {model} --decoder refined --restart 1e-9", "1e+09 passes per text on average"),
    ("lab dictionary --out {new} --sites 1000000000", "sites"),
    ("lab dictionary --out {new} --sites 1", "sites"),
    ("lab dictionary --out {new} --graph star", "star"),
    ("lab dictionary --out {new} --fields x", "fields"),
    ("lab dictionary --out {new} --fields normal:1:x", "fields"),
    ("lab dictionary --out {new} --couplings 0:1:1000000000", "couplings"),
    ("lab dictionary --out {new} --couplings x", "couplings"),
    ("lab dictionary --out {new} --k 99", "k"),
    ("lab dictionary --out {new} --table {world}/none.json", "none.json"),
    ("lab dictionary --out {new} --table {world}/texts.txt", "texts.txt"),
    ("lab dictionary --out {new} --table {world}/corrupt.npy", "corrupt.npy"),
    ("lab dictionary --out {new} --table {world}/deep.json", "deep.json"),
    ("lab dictionary --out {new} --table {world}/nan.json", "nan.json"),
    ("lab dictionary --out {world}/texts.txt", "texts.txt"),
    ("lab dictionary --out {model}", "model"),
    ("lab parallel --out {new} --k 0", "k"),
    ("lab schedule --out {new} --sites 99", "sites"),
    ("lab magic", "magic"),
    ("magic", "magic"),
    ("fil 'the [MASK]'", "fill"),
    ("--nonsense", "nonsense"),
    ("fill 'the [MASK]' --nonsense", "nonsense"),
    ("fill 'the [MASK]' --top", "top"),
]
NEEDS_MODEL = ("fill", "compare", "dependence", "mutants", "score", "evaluate", "sample")


def with_model(line: str) -> str:
    return f"{line} --model {{model}}" if line.split()[0] in NEEDS_MODEL else line


def test_there_are_two_hundred_and_each_is_there_once():
    lines = [line for line, _ in TEXTS]
    assert len(lines) >= 200 and len(set(lines)) == len(lines)


@pytest.mark.parametrize(("line", "word"), TEXTS, ids=[line[:70] for line, _ in TEXTS])
def test_one_line_and_nothing_lost(refused, line, word):
    assert word in refused(with_model(line))


@pytest.mark.parametrize(
    "line",
    [
        "evaluate --data {world}/texts.txt --model /nowhere",
        "score {world}/texts.txt --model /nowhere",
        "sample --model /nowhere",
        "train {world}/texts.txt --init /nowhere",
        "mutants 'the cat' --positions 1 --model /nowhere",
        "lab masking",
    ],
)
def test_a_foreign_out_is_refused_before_a_model_is_looked_for(refused, line):
    assert "/nowhere" not in refused(f"{line} --out {{world}}/folder-of-mine")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("line", ["fill 'the [MASK]'", "sample --out {new} --length 3"])
def test_models_that_cannot_serve(refused, name, line):
    assert name in refused(f"{line} --model {{world}}/{name}")


@pytest.mark.parametrize("name", ["model-truncated", "model-not-finite", "model-with-fewer-layers", "model-with-code"])
@pytest.mark.parametrize(
    "line",
    [
        "evaluate --data {world}/texts.txt --out {new} --pairs 2",
        "score 'the cat sat'",
        "dependence 'the [MASK] [MASK]'",
        "mutants 'the cat' --positions 2 --alphabet the,cat",
    ],
)
def test_no_command_goes_past_the_loader(refused, name, line):
    assert name in refused(f"{line} --model {{world}}/{name}")


@pytest.mark.parametrize("name", ["", "no such model", "a/b/c", "{world}/none", "{world}/texts.txt", "[/b]", "~nobody/model"])
def test_models_that_are_not_there(refused, name):
    refused(f"fill 'the [MASK]' --model '{name}'")


@pytest.mark.parametrize("text", ["", "\n\n", "the cat\n", "the [MASK]\nthe cat\n", b"the [MASK] \xff\n", "the [MASK] \x00\n"])
def test_standard_input(refused, text):
    refused("fill - --model {model}", text)


ENDLESS = {
    "fill": "fill 'the [MASK] {word}'",
    "fill a gap": "fill 'the [GAP:1-2] {word}'",
    "compare": "compare '[MASK] [MASK] {word}'",
    "dependence": "dependence 'the cat {word}'",
    "mutants": "mutants 'the cat {word}' --positions 1",
    "sample": "sample --out {new} --template 'the [MASK] {word}'",
    "a start": "sample --out {new} --init {file}",
}


@pytest.mark.parametrize("line", ENDLESS.values(), ids=ENDLESS)
def test_a_word_of_20_megabytes_is_refused_at_once(refused, tmp_path, line):
    word, file = "a" * 20_000_000, tmp_path / "endless.txt"
    file.write_text(f"the {word}\n")
    refused("fill 'the cat' --model {model}")
    words = [part.replace("{word}", word).replace("{file}", str(file)) for part in shlex.split(f"{line} --model {{model}}")]
    said = refused(words, seconds=10)
    assert "20,000,0" in said and "shorten" in said and len(said) < 300


@pytest.mark.parametrize("words", [1, 100])
def test_a_text_that_is_too_long_for_a_path_is_a_text(places, words):
    text = " ".join(["cat" * (300 if words == 1 else 1)] * words)
    result = given(["score", text, "--model", "{model}", "--json"], places)
    (row,) = json.loads(result.stdout)["rows"]
    why = "unknown" if words == 1 else "the model takes"
    assert row["text"] == text and why in row["reason"] and result.exit_code == 1
