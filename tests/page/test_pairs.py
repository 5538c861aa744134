"""Minimal pairs from a file that is dropped onto the page, scored as they come."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

pytestmark = pytest.mark.page
PAIRS = [
    ("The keys to the door are here.", "The keys to the door is here."),
    ('She said "no", and left.', "She say no, and left."),
    ("The dogs bark.", "The dogs barks."),
]


def given(page, name, text):
    page.open("#/score?text=It+rains.&scores=pll")
    page.tab.wait_for_selector(".scored")
    page.tab.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/plain", "buffer": text.encode()})


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_pairs_are_scored_as_the_library_does(page, english, kind):
    import unmask

    if kind == "jsonl":
        text = "".join(json.dumps({"sentence_good": good, "sentence_bad": bad}) + "\n" for good, bad in PAIRS)
    else:
        out = StringIO()
        csv.writer(out).writerows([("sentence_good", "sentence_bad"), *PAIRS])
        text = out.getvalue()
    given(page, f"pairs.{kind}", text)
    page.until("document.querySelectorAll('[aria-label=pairs] tbody tr').length === 3")
    known = [row["pll"] for row in unmask.score([one for pair in PAIRS for one in pair], "pll", model=english).rows]
    right = sum(good > bad for good, bad in zip(known[::2], known[1::2], strict=True))
    box = page.tab.get_by_label("minimal pairs", exact=True)
    assert f"{right} of 3 pairs right by pll" in box.inner_text()
    box.locator("summary").click()
    with page.tab.expect_download() as wait:
        box.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(StringIO(Path(wait.value.path()).read_bytes().decode())))
    assert [(row["sentence_good"], row["sentence_bad"]) for row in rows] == PAIRS
    assert [float(row["good"]) for row in rows] == pytest.approx(known[::2], abs=1e-3)


def test_what_is_no_file_of_pairs_is_said(page):
    given(page, "pairs.csv", "text\nIt rains.\n")
    assert "has no sentence_good and sentence_bad" in page.tab.locator(".error").inner_text()
    given(page, "pairs.jsonl", "[")
    assert "is not JSON lines" in page.tab.locator(".error").inner_text()
    given(page, "pairs.csv", "sentence_good,sentence_bad\n" + "It rains.,It rain.\n" * 2001)
    assert "2,001 pairs, and the page takes 2,000" in page.tab.locator(".error").inner_text()
