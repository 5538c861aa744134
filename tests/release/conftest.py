"""A wheel built from a copy of the source, and an empty environment that has it (`make
test-release`).
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ["src", "pyproject.toml", "README.md", "LICENSE"]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel, made from the source distribution that was made from a copy: nothing left over
    in build/ gets into it.
    """
    pytest.importorskip("build")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(
                ROOT / part,
                source / part,
                ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
            )
        else:
            shutil.copy(ROOT / part, source / part)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source],
        check=True,
        capture_output=True,
    )
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    """The folder of an environment with the wheel; what it depends on is read from the
    environment that runs the tests.

    Folders named in a .pth file are searched, but the .pth files in them (such as that of an
    editable unmask) are not read.
    """
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = (
        folder
        / "lib"
        / f"python{sys.version_info.major}.{sys.version_info.minor}"
        / "site-packages"
    )
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        folder / "bin" / "python",
        "install",
        "--no-deps",
        "--no-index",
    ]
    subprocess.run([*install, "--ignore-installed", wheel], check=True, capture_output=True)
    return folder


@pytest.fixture
def run(environment, tmp_path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program of that environment, away from the source tree."""
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "TRITON_INTERPRET")
    }

    def run(program: str, *args: str) -> subprocess.CompletedProcess[str]:
        words = [str(environment / "bin" / program), *args]
        return subprocess.run(
            words, capture_output=True, text=True, cwd=tmp_path, env=clean, timeout=600
        )

    return run
