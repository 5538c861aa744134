"""The additions that CONTRIBUTING.md shows as diffs apply to the source as it is, and what they
add works.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ADDITIONS = sorted((ROOT / "docs" / "examples" / "additions").glob("*.diff"))

CHECK = """
import json
import sys

import torch

import unmask
from unmask.joints.registry import CONSTRUCTIONS
from unmask.models.tabular import TabularMLM
from unmask.sampling.methods import METHODS
from unmask.scoring.scores.score import SCORES

assert "pooled" in CONSTRUCTIONS and "independent" in SCORES
assert {"uniform", "leftmost"} <= set(METHODS)

p, q = torch.tensor([0.2, 0.3, 0.5]).double(), torch.tensor([0.6, 0.3, 0.1]).double()
dependent = torch.tensor([[0.3, 0.1, 0.05], [0.05, 0.2, 0.05], [0.05, 0.05, 0.15]]).double()
for together in (torch.outer(p, q), dependent):
    model = TabularMLM.from_joint(together)
    tables = unmask.unary_tables(model, unmask.Cloze(ids=(3, 3), block=(0, 1)))
    joint = unmask.derive(tables, "pooled").dense().exp()
    assert abs(float(joint.sum()) - 1) < 1e-12
    assert torch.allclose(joint, together)
assert not torch.allclose(unmask.derive(tables, "mrf").dense().exp(), together)

model = unmask.MaskedLM.load(sys.argv[1], device="cpu")
words = [model.token(i) for i in range(model.vocab_size) if i not in model.special_ids]
texts = [f"{a} {b}" for a in words for b in words]
scores = unmask.score(texts, "independent", model=model).to_frame()["independent"]
total = scores.map(lambda x: 2.718281828459045**x).sum()
assert abs(total - 1) < 1e-5, total

masked = "the [MASK] [MASK] ."
run = unmask.sample(masked, kernel="uniform", model=model, chains=64, sweeps=50, seed=0)
rows = unmask.score([f"the {a} {b} ." for a in words for b in words], model=model).rows
energies = torch.tensor([-row["pll"] for row in rows])
expected = float((torch.softmax(-energies, 0) * energies).sum())
late = run.samples[run.samples["sweep"] > 10]["energy"]
assert abs(late.mean() - expected) < 0.35, (late.mean(), expected)

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

run = unmask.sample(masked, kernel=METHODS["leftmost"](passes=2), model=model, chains=4, sweeps=1)
assert len(run.samples) == 4 and not run.samples["text"].str.contains("MASK").any()

names = ("leftmost", "confidence", "ancestral", "uniform")
drawn = [METHODS[name]().conditionals_at_once(5) for name in names]
assert drawn == [5, 5, 1, 1], "decoders draw all of their tokens at once, unless they say otherwise"
"""


@pytest.mark.skipif(shutil.which("patch") is None, reason="the program patch is not here")
def test_the_additions_apply_and_work(tmp_path, tiny_folder):
    shutil.copytree(
        ROOT / "src",
        tmp_path / "src",
        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.safetensors"),
    )
    for addition in ADDITIONS:
        words = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-i", str(addition)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "src"), str(ROOT / "tests")])
    }
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(tiny_folder)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr


def test_contributing_shows_every_addition_as_it_is():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    shown = re.findall(r"```diff\n(.*?)```", text, re.DOTALL)
    names = ("construction", "kernel", "decoder", "score", "option", "loading", "output", "verb")
    assert len(ADDITIONS) == len(names)
    assert shown == [
        (ROOT / "docs/examples/additions" / f"{name}.diff").read_text() for name in names
    ]


@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda addition: addition.stem)
def test_an_addition_touches_one_or_two_files(addition):
    files = len(re.findall(r"^\+\+\+ b/src/", addition.read_text(), re.MULTILINE))
    assert files == (1 if addition.stem in ("option", "loading", "output") else 2)
