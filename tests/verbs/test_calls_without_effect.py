"""Calls that took an option without effect, typed: each is refused and names an option that was
typed, or obeyed.
"""

import json
import math
import re

import pytest
import torch

import unmask
from support.command_runner import invoke, refused
from support.option_inputs import make_inputs
from unmask.common.errors import InputError

MODEL = "--model tiny"
ALPHABET = "--alphabet cat,sat,dog,on,mat,ran"
NEW_MODEL = "--out new --layers 1 --width 16 --heads 2 --batch-tokens 128 --device cpu"

REFUSED = [
    f"mutants 'the cat sat' --mutations cat2dog --changes 3 {ALPHABET} {MODEL}",
    f"assay 'the cat sat on mat' measured.csv --score singles --construction zzz {MODEL}",
    f"assay 'the cat sat on mat' measured.csv --score pll --orders 3 {MODEL}",
    f"fill 'the [MASK] [MASK] on' --candidates all --alphabet cat,dog,sat {MODEL}",
    f"fill 'the [MASK] sat' --candidates all {MODEL}",
    f"fill 'the [MASK] sat' --construction mrf {MODEL}",
    f"fill 'the [MASK] sat' --force {MODEL}",
    f"fill 'the [MASK] sat on' --pieces 5 {MODEL}",
    f"train source.txt --steps 3 --epochs 50 {NEW_MODEL}",
    f"train source.txt --steps 3 --tokenizer start --vocab 5000 {NEW_MODEL}",
    f"train source.txt --steps 3 --valid held.txt --valid-share .5 {NEW_MODEL}",
    "train source.txt --steps 3 --init start --size mini --out new",
    "train source.txt --steps 3 --init start --vocab 70 --out new",
    f"frontier texts.txt --length 6 --passes 2,99 {MODEL}",
    f"sample --chains 1 --length 3,4,5 --sweeps 1 {MODEL}",
    f"sample --chains 1 --sweeps 1 --start starts.txt {MODEL}",
    f"generate --length 3 --burn-in 2 {MODEL}",
    f"generate --length 3 --thin 5 {MODEL}",
    f"generate --length 3 --energy raw {MODEL}",
    f"generate --length 3 --order left-to-right --temperature 0 --seed 5 {MODEL}",
    f"generate --length 3 --decoder confidence --temperature 0 --seed 5 {MODEL}",
    f"generate --length 3 --decoder random-sets --passes 1 --temperature 0 --seed 5 {MODEL}",
    f"generate 'the [MASK] sat' --temperature 0 --seed 5 {MODEL}",
    f"dependence 'the cat' --others masked {MODEL}",
    f"dependence 'the cat sat on' --positions 1,3 --others text {MODEL}",
    f"dependence 'the [MASK] [MASK] on' --others masked {MODEL}",
    f"evaluate --blocks blocks.jsonl --seed 5 --constructions product {MODEL}",
    "translate lines.txt --model causal-translator --decoder beam --seed 5",
    "train source.txt --steps 3 --refinement 0 --out new",
]
"""Calls that are refused; the last one gives a default explicitly."""


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("calls")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        make_inputs(place)
        (place / "starts.txt").write_text("the mat tree on\na cat ran on\n")
        (place / "lines.txt").write_text("kaka lolo mimi ruru.\n")
        patch.chdir(place)
        yield place
    torch.set_num_threads(threads)


def words_of(line):
    """The words of a line, those in quotes together."""
    return [quoted or word for quoted, word in re.findall(r"'([^']*)'|(\S+)", line)]


@pytest.mark.parametrize("line", REFUSED)
def test_refused(line):
    words = words_of(line)
    message = refused(words)
    typed = [word for word in words if re.fullmatch("--?[a-z-]+", word)]
    given = [flag for flag in typed if re.search(rf"{flag}\b", message)]
    assert given, message
    assert given != ["--model"], message


def test_a_format_needs_a_file():
    """The command prints rows in it; in Python nothing but the file has it."""
    with pytest.raises(InputError, match="^format is used only with out"):
        unmask.score(["the cat sat"], model="tiny", format="csv")
    done = invoke(words_of(f"score 'the cat sat' --format csv {MODEL}"))
    assert done.stdout.startswith("item,id,text")


def answer(line):
    done = invoke([*words_of(line), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_mutants_are_ranked_and_cut_in_json_too():
    line = f"mutants 'the cat sat on' --positions 2,3 --changes 2 {ALPHABET} {MODEL}"
    every = answer(line)["mutants"]
    (best,) = answer(f"{line} --top 1 --rank-by epistasis")["mutants"]
    most = max(every, key=lambda row: row["epistasis"])
    assert len(every) > 1
    assert best["mutant"] == most["mutant"]


def test_candidates_of_one_blank_share_its_mass():
    line = f"fill 'the [MASK] sat' {MODEL}"
    of_two = answer(f"{line} -n 2")["completions"]
    assert len(answer(line)["completions"]) > len(of_two) == 2
    assert sum(math.exp(one["log_prob"]) for one in of_two) == pytest.approx(1, abs=1e-6)
