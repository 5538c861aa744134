"""What the commands print with --json is what docs/schemas says, for every command that has the option."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unmask.cli.app import app
from unmask.cli.app import command as loaded_command
from unmask.options import VERBS

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[2]


def load():
    """tools/schemas.py as a module: its types must be found by name."""
    spec = importlib.util.spec_from_file_location("schemas", ROOT / "tools" / "schemas.py")
    module = sys.modules["schemas"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = vars(load())

COMMANDS = [
    ["fill", "the [MASK] sat .", "--model", "TINY"],
    ["fill", "the [MASK] [MASK] .", "--model", "TINY", "--targets", "cat,sat"],
    ["fill", "the [MASK] [MASK] [MASK] .", "--model", "TINY", "--top", "2", "--answers", "cat sat on"],
    ["fill", "the [GAP:1-2] sat .", "--model", "TINY", "--top", "2"],
    ["compare", "the [MASK] [MASK] .", "--model", "TINY"],
    ["compare", "the cat sat .", "--positions", "2,3", "--model", "TINY"],
    ["dependence", "the [MASK] [MASK] .", "--model", "TINY"],
    ["mutants", "the cat sat", "--positions", "2,3", "--changes", "2", "--model", "TINY"],
    ["mutants", "the cat sat", "--measured", "measured.csv", "--model", "TINY"],
    ["score", "the cat sat", "a dog ran", "--score", "pll,any_order", "--model", "TINY"],
    ["score", "--pairs", "pairs.jsonl", "--model", "TINY"],
    ["check", "--model", "TINY"],
    ["check", "--data", "texts.txt", "--model", "TINY"],
    ["sample", "--template", "the [MASK] [MASK] .", "--chains", "2", "--sweeps", "4", "--out", "run", "--model", "TINY"],
    ["sample", "--kernel", "confidence", "--length", "4", "--chains", "2", "--sweeps", "1", "--model", "TINY"],
    ["diagnose", "run"],
    ["evaluate", "--data", "texts.txt", "--pairs", "3", "--out", "three", "--model", "TINY"],
    ["evaluate", "--data", "texts.txt", "--pairs", "1", "--joints", "chain", "--out", "one", "--model", "TINY"],
    ["frontier", "--data", "texts.txt", "--length", "7", "--passes", "2", "--decoders", "random",
     "--out", "front", "--model", "TINY"],
    ["dependence", "--profile", "many.txt", "--candidates", "2", "--model", "TINY"],
    ["lab", "dependence", "--sites", "3", "--couplings", "0,0.3"],
    ["train", "corpus.txt", "--out", "model", "--layers", "1", "--width", "16", "--heads", "1", "--vocab", "80", "--steps", "2",
     "--max-length", "16", "--segment-lengths", "16", "--batch-tokens", "128", "--valid-share", "0.2", "--device", "cpu"],
]  # fmt: skip


NOUNS, OTHERS = ("cat", "dog", "mat", "tree", "s"), ("sat", "ran", "on", "under", "a")


@pytest.fixture(scope="module")
def printed(tiny_folder, tmp_path_factory):
    """Command and what it printed, all in one folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("schemas"))
        Path("many.txt").write_text("the cat sat on a mat .\n" * 60)
        Path("texts.txt").write_text("the cat sat on a mat .\na dog ran under the tree .\nthe dog sat .\n")
        changed = [f"the {noun} {verb},{i % 7}" for i, (noun, verb) in enumerate(product(NOUNS, OTHERS))]
        Path("measured.csv").write_text("\n".join(["variant,y", *changed]))
        Path("pairs.jsonl").write_text('{"sentence_good": "the cat sat .", "sentence_bad": "the sat cat ."}\n')
        Path("corpus.txt").write_text("".join(f"The {who} met {n} friends.\n" for who in ("baker", "sailor") for n in range(50)))
        found = []
        for words in COMMANDS:
            words = [str(tiny_folder) if word == "TINY" else word for word in words]
            done = CliRunner().invoke(app, [*words, "--json"])
            assert done.exit_code == 0, (words, done.output)
            found.append((words[0], json.loads(done.stdout)))
        return found


def test_every_command_prints_its_schema(printed):
    for command, value in printed:
        schema = TOOL["document"](command)
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(value)


def test_a_missing_key_an_unknown_one_and_a_wrong_type_are_told(printed):
    for command, value in printed:
        validator = jsonschema.Draft202012Validator(TOOL["document"](command))
        key = next(iter(value))
        assert not validator.is_valid({name: part for name, part in value.items() if name != key})
        assert not validator.is_valid(value | {key: ["no", {"such": "value"}]})
        if command not in ("evaluate", "frontier", "lab"):
            assert not validator.is_valid(value | {"unheard_of": 1})


def test_every_command_with_json_has_a_schema_and_was_run(printed):
    commands = {name: loaded_command(name) for name in VERBS}
    with_json = {
        name
        for name, loaded in commands.items()
        if any("--json" in option.opts for part in getattr(loaded, "commands", {"": loaded}).values() for option in part.params)
    }
    assert with_json == set(TOOL["SHAPES"]) == {command for command, _ in printed}


@pytest.mark.parametrize("command", TOOL["SHAPES"])
def test_the_files_are_up_to_date(command):
    assert (ROOT / "docs" / "schemas" / f"{command}.json").read_text() == TOOL["written"](command), "python tools/schemas.py"
    assert {path.stem for path in (ROOT / "docs" / "schemas").glob("*.json")} == set(TOOL["SHAPES"])
