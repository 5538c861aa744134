"""The wheel has all that the package needs, and works where the source tree is not."""

import json
import os
import re
import subprocess
import sys
import urllib.request
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.release
ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("typed_program.py")


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    there = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "unmask").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == there


def test_unmask_comes_from_the_wheel_and_finds_its_data(run, environment):
    code = "import unmask; print(unmask.__file__); print(unmask.MaskedLM.load().vocab_size)"
    done = run("python", "-c", code)
    assert done.returncode == 0, done.stderr
    file, size = done.stdout.split()
    assert Path(file).is_relative_to(environment)
    assert int(size) == 8192


def test_fill(run):
    done = run("unmask", "fill", "She drank a cup of [MASK].", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["completions"][0]["tokens"] == ["tea"]


def test_a_mistake_is_one_line(run):
    done = run("unmask", "fill", "No blank here.")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(
    find_spec("fastapi") is None or find_spec("uvicorn") is None,
    reason="the extra serve is not installed",
)
def test_serve_answers(environment, tmp_path):
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    words = [str(environment / "bin" / "unmask"), "serve", "--port", "0"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env=clean
    ) as server:
        try:
            address = next(
                match[0] for line in server.stdout if (match := re.search(r"http://[\d.:]+", line))
            )
            with urllib.request.urlopen(address, timeout=600) as page:
                assert page.status == 200
                assert "<script" in page.read().decode()
        finally:
            server.terminate()


def test_a_typed_program_passes_mypy_strict(environment, tmp_path):
    words = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-executable",
        str(environment / "bin" / "python"),
    ]
    clean = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MYPYPATH")
    }
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\n")
    words += ["--config-file", str(settings), "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [*words, str(PROGRAM)], capture_output=True, text=True, cwd=tmp_path, env=clean
    )
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import unmask\n\nnumber: int = unmask.fill('A"
        " [MASK].').completions[0].text\nunmask.fill(top='many')\n"
    )
    done = subprocess.run(
        [*words, str(wrong)], capture_output=True, text=True, cwd=tmp_path, env=clean
    )
    assert done.returncode == 1
    assert done.stdout.count("wrong.py:3: error") >= 1
    assert "wrong.py:4: error" in done.stdout


def test_the_typed_program_runs(run):
    done = run("python", str(PROGRAM))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "She drank a cup of tea."
