"""pyright knows the types of the public modules, and jedi completes what the verbs return."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.release
ROOT = Path(__file__).parents[2]
ENOUGH = 0.98
"""Share of symbols whose type pyright need not infer. Others refer to packages without types."""


def test_pyright_knows_the_types_of_the_package(tmp_path):
    pytest.importorskip("pyright")
    words = ["--verifytypes", "unmask", "--ignoreexternal", "--outputjson"]
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    modules = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pyright", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": commands, "PYTHONPATH": modules},
    )
    measured = json.loads(done.stdout)["typeCompleteness"]
    assert measured["packageRootDirectory"] == str(ROOT / "src" / "unmask")
    unknown = [
        symbol["name"]
        for symbol in measured["symbols"]
        if symbol["isExported"] and (symbol["isTypeAmbiguous"] or not symbol["isTypeKnown"])
    ]
    assert measured["completenessScore"] >= ENOUGH, "\n".join(unknown)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ('unmask.fill("A [MASK].")', "completions"),
        ('unmask.fill(["A [MASK]."])[0]', "completions"),
        ('unmask.dependence("A [MASK] [MASK].")', "matrix"),
        ('unmask.score(["A text."])', "rows"),
        ("unmask.sample()", "diagnosis"),
    ],
)
def test_jedi_completes_results(expression, name):
    jedi = pytest.importorskip("jedi")
    project = jedi.Project(ROOT, sys_path=[str(ROOT / "src"), *sys.path])
    script = jedi.Script(f"import unmask\nresult = {expression}\nresult.", project=project)
    assert name in [completion.name for completion in script.complete(3, 7)]
