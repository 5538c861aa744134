"""Answers, their notebook view and their sentences without the libraries of frames, files, figures
and diagnoses; what needs one of them says which extra has it.
"""

import json
import os
import subprocess
import sys

import pytest

BLOCKED = ("pandas", "pyarrow", "matplotlib", "arviz_stats", "scipy")
PROGRAM = """
import importlib.abc, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
import unmask
model = unmask.load({folder!r}, device="cpu")
"""
ANSWERS = {
    "fill": 'unmask.fill("the [MASK] [MASK] sat .", model)',
    "compare": 'unmask.compare("the [MASK] [MASK] sat .", model)',
    "dependence": 'unmask.dependence("the [MASK] sat on the [MASK] .", model)',
    "score": 'unmask.score(["the cat sat .", "a dog ran ."], model=model)',
    "sample": 'unmask.sample("the [MASK] [MASK] sat .", model, chains=2, sweeps=6)',
    "generate": 'unmask.generate("the [MASK] [MASK] sat .", model, n_texts=2)',
}


def run(folder, *lines, blocked=BLOCKED):
    program = PROGRAM.format(blocked=blocked, folder=str(folder)) + "\n".join(lines)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ
    )


@pytest.fixture(scope="module")
def shown(tiny_folder):
    """What each answer shows, in one program."""
    lines = ["import json", "shown = {}"]
    for verb, call in ANSWERS.items():
        lines.append(f"answer = {call}")
        parts = "[answer.summary(), answer._repr_html_(), answer.view(), answer.to_dict()]"
        lines.append(f"shown[{verb!r}] = [bool(part) for part in {parts}]")
        if verb == "sample":
            lines.append("verdict = answer.verdict()")
    lines.append("print(json.dumps([shown, verdict]))")
    done = run(tiny_folder, *lines)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("verb", ANSWERS)
def test_an_answer_shows_itself(shown, verb):
    of_verbs, _ = shown
    assert of_verbs[verb] == [True] * 4


def test_a_run_says_that_it_was_not_diagnosed(shown):
    _, verdict = shown
    assert verdict == [
        "Whether the chains have mixed was not measured: arviz_stats is not installed:"
        " pip install 'unmask[studies]'"
    ]


def test_what_needs_a_library_says_which_extra_has_it(tiny_folder, tmp_path):
    needs = {
        "unmask.fill('the [MASK] sat .', model).to_frame()": "pandas",
        f"unmask.diagnose({ANSWERS['sample']})": "arviz_stats",
        f"{ANSWERS['sample']}.figure()": "matplotlib",
        f"{ANSWERS['sample'][:-1]}, out={str(tmp_path / 'run')!r})": "pyarrow",
    }
    lines = []
    for line in needs:
        lines += ["try:", f"    {line}", "except unmask.UnmaskError as error:", "    print(error)"]
    done = run(tiny_folder, *lines)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{library} is not installed: pip install 'unmask[studies]'" for library in needs.values()
    ]


@pytest.mark.parametrize(("library", "diagnosed"), [("arviz_stats", False), ("matplotlib", True)])
def test_a_run_in_a_folder_is_not_lost(tiny_folder, tmp_path, library, diagnosed):
    """A library that is missing at its end leaves the samples, and nothing else is said."""
    folder = tmp_path / "run"
    sample = f"{ANSWERS['sample'][:-1]}, out={str(folder)!r})"
    lines = ["import json", f"run = {sample}"]
    lines.append("print(json.dumps([len(run.rows), run.verdict(), run.notices()]))")
    done = run(tiny_folder, *lines, blocked=(library,))
    assert done.returncode == 0, done.stderr
    rows, verdict, notices = json.loads(done.stdout)
    assert rows == 12
    assert ("was not measured" in verdict[0]) != diagnosed
    assert notices == [f"12 samples are in {folder / 'samples.parquet'}"]
    assert (folder / "diagnostics.json").is_file() == diagnosed
    assert not (folder / "figures" / "chains.png").exists()

    import unmask

    unmask.diagnose(folder)  # later, with the library
    assert (folder / "figures" / "chains.png").is_file()
