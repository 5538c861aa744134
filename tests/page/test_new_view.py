"""The view that CONTRIBUTING.md adds is one new file and a line of the menu. It has the options of
its verb, and shows what the command prints.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.page
ROOT = Path(__file__).parents[2]
TEXT = "A man is [MASK] a [MASK]."


@pytest.fixture
def extended(tmp_path):
    """The sources with the view in them."""
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=left_out)
    addition = ROOT / "docs" / "examples" / "additions" / "view.diff"
    words = ["patch", "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-i", str(addition)]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "src"


def test_a_new_view_shows_the_result_of_its_verb(open_page, extended, monkeypatch, english):
    import unmask
    from page.conftest import serving

    known = unmask.compare(TEXT, english, candidates=16, top=3)
    path = os.pathsep.join([str(extended), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    with serving() as address:
        page = open_page(address)
        page.open("#/fill")
        page.tab.get_by_role("navigation").get_by_role("link", name="Compare").click()
        page.tab.wait_for_selector("h1:text-is('How do constructions differ?')")
        page.tab.locator(".sentence input").fill(TEXT)
        page.until("location.hash.includes('MASK')")
        page.tab.get_by_label("Top").fill("3")
        page.tab.get_by_label("Top").press("Tab")
        page.until("location.hash.includes('top=3')")
        page.open(page.tab.url.removeprefix(address) + "&candidates=16")
        page.settled("table.data tbody tr")
        tables = page.tab.locator("table.data").all()
        assert len(tables) == len(known.tables())
        for table, expected in zip(tables, known.tables(), strict=True):
            rows = [row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()]
            assert rows == expected.shown()
        said = page.tab.get_by_label("what was computed").inner_text()
        assert all(line in said for line in (*known.about(), *known.verdict()))
