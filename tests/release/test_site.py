"""The documentation builds without a warning, and asks nothing from outside when it is read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.release
ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"""(?:src=|<link[^>]*href=|url\(|@import )["']?(?:https?:)?//""")


def test_the_site_builds_strictly_and_loads_nothing_from_outside(tmp_path):
    pytest.importorskip("mkdocs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        words,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".html", ".css")]
    assert len(files) > 30
    for path in files:
        assert not OUTSIDE.search(path.read_text(encoding="utf-8")), path
    assert OUTSIDE.search('<script src="https://cdn.example/x.js">')
    assert not OUTSIDE.search('<a href="https://example.org">')


def test_a_broken_link_stops_the_build(tmp_path):
    pytest.importorskip("mkdocs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# T\n\n[nowhere](missing.md)\n")
    plain = (
        "site_name: t\nvalidation:\n"
        + (ROOT / "mkdocs.yml").read_text().partition("\nvalidation:\n")[2].partition("\nnav:")[0]
    )
    (tmp_path / "mkdocs.yml").write_text(plain)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "missing.md" in done.stderr
