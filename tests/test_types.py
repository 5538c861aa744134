"""What a type checker, and so an editor, knows of the verbs; and what `help` shows."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unmask
from unmask.verbs import VERBS

ROOT = Path(__file__).parents[1]
TYPES = {
    'unmask.fill("A [MASK].")': "Filling",
    'unmask.fill(["A [MASK]."])': "list[Filling]",
    'unmask.fill(Path("texts.txt"))': "list[Filling]",
    'unmask.fill("A [MASK].").completions[0].text': "str",
    'unmask.compare("A [MASK] [MASK].")': "Comparison",
    'unmask.compare(["A [MASK] [MASK]."])': "list[Comparison]",
    'unmask.dependence("A [MASK] [MASK].")': "Dependence",
    'unmask.dependence(["A [MASK] [MASK]."])': "list[Dependence]",
    'unmask.profile("texts.txt")': "Profile",
    'unmask.mutants("ACD", "A1C")': "Mutants",
    'unmask.mutants(["ACD"], "A1C")': "list[Mutants]",
    'unmask.assay("ACD", "variants.csv")': "Assay",
    'unmask.evaluate("texts.txt")': "Evaluation",
    'unmask.frontier("texts.txt")': "Frontier",
    'unmask.score(["A text."])': "Scores",
    'unmask.minimal_pairs("pairs.jsonl")': "PairScores",
    "unmask.check()": "Check",
    "unmask.sample()": "SampleRun",
    "unmask.generate()": "Generation",
    'unmask.diagnose("run")': "Diagnoses",
    'unmask.diagnose(["run", "another"])': "Diagnoses",
    'unmask.translate("texts.txt", model="folder")': "Translations",
    'unmask.train("texts.txt", out="folder")': "TrainingRun",
    "unmask.serve()": "None",
    "unmask.load()": "MaskedLM",
    "unmask.ModelSpec().load()": "MaskedLM",
    'unmask.fill("A [MASK].").joint': "Joint",
}
"""The type of each expression, without names of modules."""
WRONG = {
    'unmask.fill("A [MASK].").no_such_name': '"Filling" has no attribute "no_such_name"',
    'unmask.fill("A [MASK].", tops=3)': 'Unexpected keyword argument "tops"',
    "unmask.check(data=3)": 'Argument "data" to "check" has incompatible type',
}
"""Expressions that a type checker refuses, and its words."""


def answers_of_mypy(folder, expressions):
    """mypy's lines about each expression, by its number; with the cache that `make lint` left."""
    program = folder / "program.py"
    lines = ["from pathlib import Path", "import unmask", *expressions]
    program.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
    )
    assert not done.stderr, done.stderr
    answers = {number: [] for number in range(len(expressions))}
    for line in done.stdout.splitlines():
        place = re.match(r".*program\.py:(\d+): (.*)", line)
        if place:
            answers[int(place[1]) - 3].append(place[2])
    return answers


def test_a_type_checker_knows_the_result_of_every_verb(tmp_path):
    pytest.importorskip("mypy")
    assert {re.match(r"unmask\.(\w+)", expression)[1] for expression in TYPES} >= set(VERBS)
    revealed = [f"reveal_type({expression})" for expression in TYPES]
    answers = answers_of_mypy(tmp_path, [*revealed, *WRONG])
    for number, (expression, expected) in enumerate(TYPES.items()):
        (answer,) = answers[number]
        kind = re.match(r'note: Revealed type is "(.*)"', answer)[1]
        assert re.sub(r"[\w.]+\.(\w+)", r"\1", kind) == expected, expression
    for number, (expression, words) in enumerate(WRONG.items(), len(TYPES)):
        assert any(words in answer for answer in answers[number]), expression


@pytest.mark.parametrize("name", sorted(VERBS))
def test_help_shows_types_that_a_reader_knows(name):
    shown = str(inspect.signature(getattr(unmask, name)))
    marks = r"Annotated|Interval|Written|ShownType"
    modules = r"unmask\.|typing\."
    quoted = r": '"
    unknown = r": Any\b"
    assert not re.search(rf"{marks}|{modules}|{quoted}|{unknown}|Iterator\[", shown)


def test_help_shows_one_text_and_many():
    shown = str(inspect.signature(unmask.fill))
    assert shown.startswith("(text: str | list[str] | Path, model: MaskedLM | ModelSpec | str |")
    assert "top: int = 10, force: bool = False, " in shown
    assert shown.endswith("-> Filling | list[Filling]")
    of_dependence = str(inspect.signature(unmask.dependence))
    assert of_dependence.startswith("(text: str | list[str] | Path, model: ")
    assert of_dependence.endswith("-> Dependence | list[Dependence]")


def test_options_show_plain_types():
    assert "layers: int | None = None" in str(inspect.signature(unmask.Shape))
