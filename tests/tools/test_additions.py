"""The additions that CONTRIBUTING.md shows as diffs apply to the source as it is, and what they
add works. A method is one new file: the tests of the laws of its kind then take it up, and a wrong
twin of it fails them.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "examples" / "additions"
ADDITIONS = sorted(FOLDER.glob("*.diff"))
COPIED = ("src", "tests", "docs", "tools", "pyproject.toml", "mkdocs.yml", "README.md")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.png", "*.svg")


@dataclass(frozen=True)
class Recipe:
    """A method that CONTRIBUTING.md adds.

    method   its name in the registry
    law      the test over the registry that holds it to the laws of its kind
    right    what stands in its file
    wrong    what stands there in its wrong twin
    told     what the test of the laws then says
    """

    method: str
    law: str
    right: str
    wrong: str
    told: str


RECIPES = {
    "construction": Recipe(
        method="geometric",
        law="tests/joints/test_construction_laws.py::test_a_construction_keeps_the_laws",
        right="    keeps_compatible = False",
        wrong="    keeps_compatible = True",
        told="geometric says that it keeps compatible tables, and does not",
    ),
    "kernel": Recipe(
        method="any-token",
        law="tests/sampling/test_laws.py::test_every_kernel_keeps_the_laws_of_kernels",
        right="log_ratio=torch.zeros_like(",
        wrong="log_ratio=torch.ones_like(",
        told="moves this law by",
    ),
    "decoder": Recipe(
        method="first-blanks",
        law="tests/sampling/test_laws.py::test_every_decoder_keeps_the_laws_of_decoders",
        right="lowest(place.double().unsqueeze(0)",
        wrong="lowest(torch.rand(observed.blank.shape)",
        told="first-blanks draws outside of the given randomness",
    ),
    "score": Recipe(
        method="all_masked",
        law="tests/scoring/scores/test_laws.py::test_every_score_keeps_the_laws",
        right="return Conditionals(",
        wrong="return 2 * Conditionals(",
        told="score all_masked says that it is a probability, but",
    ),
    "scheme": Recipe(
        method="whole",
        law="tests/studies/training/masking/test_scheme.py::test_each_of_ours_keeps_its_law",
        right="(of_segment < self.share)",
        wrong="(of_segment > self.share)",
        told="and number_law says",
    ),
}
TAKE_UP = (
    "tests/joints/test_registry.py",
    "tests/sampling/test_registry.py",
    "tests/scoring/test_registry.py",
    "tests/test_shape_checks.py",
    "tests/test_method_tables.py",
    "tests/test_reference.py",
    "tests/verbs/test_every_option.py",
)
"""Tests over the registries beside the laws, and over the public names: those of what is new."""

CHECK = """
import json
import sys

import torch

import unmask
from unmask.joints.registry import CONSTRUCTIONS
from unmask.models.tabular import TabularMLM
from unmask.sampling.methods import METHODS
from unmask.scoring.scores.score import SCORES

assert "geometric" in CONSTRUCTIONS and "all_masked" in SCORES
assert {"any-token", "first-blanks"} <= set(METHODS)

p, q = torch.tensor([0.2, 0.3, 0.5]).double(), torch.tensor([0.6, 0.3, 0.1]).double()
dependent = torch.tensor([[0.3, 0.1, 0.05], [0.05, 0.2, 0.05], [0.05, 0.05, 0.15]]).double()
for together in (torch.outer(p, q), dependent):
    model = TabularMLM.from_joint(together)
    tables = unmask.unary_tables(model, unmask.Cloze(ids=(3, 3), block=(0, 1)))
    joint = unmask.derive(tables, "geometric").dense().exp()
    assert abs(float(joint.sum()) - 1) < 1e-12
    assert torch.allclose(joint, together)
assert not torch.allclose(unmask.derive(tables, "mrf").dense().exp(), together)

model = unmask.MaskedLM.load(sys.argv[1], device="cpu")
words = [model.token(i) for i in range(model.vocab_size) if i not in model.special_ids]
texts = [f"{a} {b}" for a in words for b in words]
scores = unmask.score(texts, "all_masked", model=model).to_frame()["all_masked"]
total = scores.map(lambda x: 2.718281828459045**x).sum()
assert abs(total - 1) < 1e-5, total

masked = "the [MASK] [MASK] ."
run = unmask.sample(masked, kernel="any-token", model=model, chains=64, sweeps=50, seed=0)
rows = unmask.score([f"the {a} {b} ." for a in words for b in words], model=model).rows
energies = torch.tensor([-row["pll"] for row in rows])
expected = float((torch.softmax(-energies, 0) * energies).sum())
frame = run.to_frame()
late = frame[frame["sweep"] > 10]["energy"]
assert abs(late.mean() - expected) < 0.35, (late.mean(), expected)

drawn = unmask.generate(masked, decoder=METHODS["first-blanks"](passes=2), model=model, n_texts=4)
assert len(drawn.texts) == 4 and not any("MASK" in text for text in drawn.texts)
rows = unmask.score(texts[1:2], "decoder:first-blanks@4,left_to_right", model=model).rows
assert abs(rows[0]["decoder:first-blanks@4"] - rows[0]["left_to_right"]) < 1e-4, rows

from support.command_runner import invoke

plain = unmask.fill("the [MASK] sat .", model=model)
before = unmask.fill("[MASK] sat .", model=model, prefix="the ")
assert before.to_dict() == plain.to_dict() != unmask.fill("[MASK] sat .", model=model).to_dict()
loaded = ["--model", sys.argv[1], "--device", "cpu", "--json"]
typed = ["fill", "[MASK] sat .", "--prefix", "the ", *loaded]
assert json.loads(invoke(typed).stdout) == plain.to_dict()
assert "Put this before every text" in unmask.fill.__doc__
assert plain.to_dict()["entropy"] == plain.joint.entropy() > 0
assert unmask.load(sys.argv[1], device="cpu", title="a title").name == "a title"
typed = ["surprise", "the cat sat .", "--title", "a title", *loaded]
printed = json.loads(invoke(typed).stdout)["nats"]
assert printed == unmask.surprise("the cat sat .", model=model).nats > 0
shown = invoke([word for word in typed if word != "--json"]).stdout.splitlines()
assert (shown[0], shown[-1].strip()) == ("the cat sat .", f"{printed:.2f}")
"""

pytestmark = pytest.mark.skipif(shutil.which("patch") is None, reason="needs the program patch")


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the repository with all additions in it."""
    root = tmp_path_factory.mktemp("extended")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=LEFT_OUT)
        else:
            shutil.copy(ROOT / name, root / name)
    for addition in ADDITIONS:
        words = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-i", str(addition)]
        done = subprocess.run(words, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    return root


def run_python(root, *arguments):
    """Run the Python of the tests on the copy."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([f"{root}/src", f"{root}/tests"])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=root, capture_output=True, text=True, env=environment
    )


def run_tests(root, *arguments):
    return run_python(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)


def test_the_additions_apply_and_work(extended, tiny_folder):
    done = run_python(extended, "-c", CHECK, str(tiny_folder))
    assert done.returncode == 0, done.stderr


def test_the_tests_take_up_a_new_method(extended):
    laws = [f"{recipe.law}[{recipe.method}]" for recipe in RECIPES.values()]
    named = " or ".join(recipe.method for recipe in RECIPES.values())
    chosen = f"{named} or table or own_file_only or public_name or a_witness or verb_is_tried"
    done = run_tests(extended, *laws)
    assert done.returncode == 0, done.stdout
    assert f"{len(laws)} passed" in done.stdout
    done = run_tests(extended, *TAKE_UP, "-k", chosen)
    assert done.returncode == 0, done.stdout


def test_a_wrong_twin_of_each_method_fails_its_laws(extended, tmp_path):
    shutil.copytree(extended, tmp_path / "wrong")
    wrong = tmp_path / "wrong"
    for name, recipe in RECIPES.items():
        path = wrong / file_of(name)
        text = path.read_text()
        assert text.count(recipe.right) == 1, name
        path.write_text(text.replace(recipe.right, recipe.wrong))
    laws = [f"{recipe.law}[{recipe.method}]" for recipe in RECIPES.values()]
    done = run_tests(wrong, *laws)
    assert f"{len(laws)} failed" in done.stdout, done.stdout
    untold = [recipe.told for recipe in RECIPES.values() if recipe.told not in done.stdout]
    assert untold == [], done.stdout


def file_of(name):
    """The file that the addition of a method makes."""
    (path,) = re.findall(r"^\+\+\+ b/(\S+)", (FOLDER / f"{name}.diff").read_text(), re.MULTILINE)
    return path


@pytest.mark.parametrize("name", RECIPES)
def test_a_method_is_one_new_file(name):
    text = (FOLDER / f"{name}.diff").read_text()
    assert file_of(name)
    assert re.findall(r"^@@.*@@", text, re.MULTILINE)[0].startswith("@@ -0,0 +1,")
    assert not (ROOT / file_of(name)).exists()


def own_methods_shown() -> set[str]:
    """The names of the methods of the user's own code in documentation, examples and tests."""
    files = [*ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py")]
    own = re.compile(r"@unmask\.method\s+class (\w+)\(")
    classes = {name for path in files for name in own.findall(path.read_text())}
    words = {name: re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower() for name in classes}
    return {form for word in words.values() for form in (word, word.replace("-", "_"))}


def test_no_addition_has_the_name_of_a_method_that_is_shown_as_the_users_own():
    """With an addition applied, such a name would be refused, because one of ours has it."""
    shown = own_methods_shown()
    assert {"likely", "pooled"} <= shown
    assert {recipe.method for recipe in RECIPES.values()} & shown == set()


def test_contributing_shows_every_addition_as_it_is():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    shown = re.findall(r"```diff\n(.*?)```", text, re.DOTALL)
    names = (*RECIPES, "option", "loading", "output", "verb", "view")
    assert len(ADDITIONS) == len(names)
    assert shown == [(FOLDER / f"{name}.diff").read_text() for name in names]


WITH_WITNESS = ("loading", "option", "verb")
"""Additions of options: each also has its witness, an input on which it changes the answer."""


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda addition: addition.stem)
def test_an_addition_touches_one_file_and_the_lists_that_name_it(addition):
    files = re.findall(r"^\+\+\+ b/(\S+)", addition.read_text(), re.MULTILINE)
    if addition.stem in WITH_WITNESS:
        files.remove("tests/support/option_witnesses.py")
    if addition.stem == "verb":
        listed = ["docs/reference/verbs.md", "src/unmask/__init__.pyi"]
        assert files == [*listed, "src/unmask/verbs/surprise.py"]
    elif addition.stem == "view":
        views = "src/unmask/surfaces/serving/page/views"
        assert files == [f"{views}/compare.js", f"{views}/index.js"]
    else:
        assert len(files) == 1
