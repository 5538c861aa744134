"""Every form of a benchmark that needs neither a GPU nor data runs, on its smallest size; what
it measures is not looked at.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = {
    "architectures.py": ["--quick --lengths 16 --repeats 1"],
    "first_second.py": ["--times 1"],
    "fixed_point.py": [
        "--tokens 32 --most 20",
        "--tokens 32 --most 5 --eigen --members 1,0 0.5,0.25",
    ],
    "pair_table.py": [
        "--threads 1 --tokens 1024",
        "--threads 1 --tokens 600 --text 'He is in the car.' --pairs 2,3 3,4 --json",
    ],
    "sampler_cost.py": ["--long 0 --length 6 --chains 2 --steps 1 --burn-in 1"],
    "sampler_throughput.py": ["--chains 2 --length 6 --seconds 0.1 --device cpu"],
    "serve_load.py": [
        "--requests 1 --candidates 4",
        f"--requests 1 --candidates 4 --against {shlex.quote(str(ROOT / 'src'))}",
    ],
    "serve_queue.py": ["--runs 1"],
    "variants.py": ["--sites 2 --plain 2 --warm 2 --residues 12 --device cpu"],
    "verified.py": ["--lengths 6 --texts 1 --device cpu"],
}
"""Options of each documented form, with which it is quick."""
ELSEWHERE = {
    "blimp.py": "data",
    "family_choice.py": "runs of unmask evaluate",
    "gpu_pair.py": "a GPU",
    "many_blanks.py": "data",
    "million.py": "data",
    "open_ended.py": "data",
    "score_precision.py": "data",
    "score_throughput.py": "data",
    "train_throughput.py": "a GPU",
    "translation_frontier.py": "data",
    "translation_table.py": "data",
    "vocabulary.py": "data",
}
"""What the others need."""


def test_every_benchmark_runs_here_or_says_what_it_needs():
    scripts = {path.name for path in (ROOT / "bench").glob("*.py")}
    assert scripts == SMALL.keys() | ELSEWHERE.keys()
    assert not SMALL.keys() & ELSEWHERE.keys()
    listed = set(
        re.findall(
            r"^\| `(\w+\.py)", (ROOT / "bench" / "README.md").read_text("utf-8"), re.MULTILINE
        )
    )
    assert listed == scripts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "form"), [(script, form) for script, forms in SMALL.items() for form in forms]
)
def test_a_benchmark_runs(script, form, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(ROOT / "bench" / script), *shlex.split(form)]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
