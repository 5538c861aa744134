"""Everything can be taken away: files of every table and picture, links, and copies for Python
and the shell that run.
"""

import csv
import json
import os
import re
import subprocess
import sys
from io import BytesIO, StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.page
TWO = "#/fill?text=A+man+is+riding+a+horse.&blanks=3,5&candidates=32"
PAIRED = TWO.replace("32", "64")


def asked(page, path, **body):
    return page.tab.evaluate(
        "async ([path, body]) => (await (await fetch(`api/${path}`, {method: 'POST', headers:"
        " {'content-type': 'application/json'}, body: JSON.stringify(body)})).json())",
        [path, body],
    )


def test_files_of_the_map_have_its_numbers(page):
    page.open(PAIRED)
    page.settled()
    page.tab.locator("ol.bars").first.locator("button").nth(1).click()
    page.tab.wait_for_selector("h3:has-text('given')")
    page.settled()
    answer = asked(
        page, "fill", text="A man is riding a horse.", positions=[4, 6], candidates=64, cells=14
    )
    written = json.loads(page.saved("The two blanks together", "JSON")[1])
    drawn_map = answer["drawn"]["map"]
    assert written["drawn"]["map"]["grid"] == drawn_map["grid"], "digit for digit, without the pin"
    rows = list(csv.DictReader(StringIO(page.saved("The two blanks together", "CSV")[1].decode())))
    assert len(rows) == 14 * 14
    assert [float(row["restarted"]) for row in rows] == [
        joint for _, _, joint, _ in drawn_map["table"]["rows"]
    ]
    drawn = ElementTree.fromstring(page.saved("The two blanks together", "SVG")[1])
    texts = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {drawn_map["grid"][axis][0]["label"] for axis in ("rows", "columns")} <= texts
    of = {"“A man is riding a horse.”", "the bundled English model"}
    assert of <= texts, "what it is of"
    said = " ".join(text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text"))
    (condition,) = written["view"]["about"]
    assert condition in said, "a picture says the condition of its numbers, over several lines"
    assert "restarted joint of 2 blanks, given" in condition
    assert "of the product joint" in condition
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}rect"))) > 14 * 14
    from PIL import Image

    image = Image.open(BytesIO(page.saved("The two blanks together", "PNG")[1])).convert("RGB")
    assert image.width > 800
    assert len(image.getcolors(1 << 24)) > 20


VIEWS = {
    "fill": (PAIRED, "svg.heat"),
    "dependence": (
        "#/dependence?text=She+drank+tea.&candidates=8",
        "[aria-label='the chosen pair'] svg.heat",
    ),
    "sample": (
        "#/sample?text=The+old+man+slept.&blanks=1,2&chains=2&sweeps=3&speed=240",
        "dl.facts",
    ),
    "generate": ("#/generate?n_texts=2&speed=240", "[aria-label='texts'] tbody tr"),
    "score": ("#/score", "svg[aria-label^='the first against']"),
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_card_has_its_files(page, view):
    hash, ready = VIEWS[view]
    page.open(hash)
    page.settled(ready)  # while pairs are measured, another one may become the strongest
    if view == "sample":
        page.until("document.querySelector('.stack[data-passes]')")
    titles = page.tab.locator("section.card:has(details.take) h2").all_inner_texts()
    assert len(titles) >= 2
    for title in titles:
        box = (
            page.tab.locator("section.card")
            .filter(has=page.tab.locator("h2", has_text=title))
            .first
        )
        kinds = box.locator("details.take button").all_text_contents()
        assert kinds[0] == "JSON"
        assert set(kinds) <= {"JSON", "CSV", "SVG", "PNG"}
        assert json.loads(page.saved(title, "JSON")[1])
        assert ("SVG" in kinds) == (box.locator(".figure svg").count() > 0), (
            "figures are pictures, tables are tables"
        )
        if "SVG" in kinds:
            ElementTree.fromstring(page.saved(title, "SVG")[1])


def run(line, folder):
    """The copied line in a shell, as a person would."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", line],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


RUNS = {
    "a pinned word": f"{TWO}&pin=1:1:horse",
    "three blanks": "#/fill?text=A+man+is+riding+a+horse.&blanks=1,3,5w",
    "dependence": "#/dependence?text=She+drank+tea.&candidates=8",
    "sample": "#/sample?text=The+old+man's+dog+slept.&blanks=1,2&chains=2&sweeps=2",
    "generate": "#/generate?text=The+old+man's+dog+slept.&blanks=1,2&n_texts=2",
    "score": "#/score?text=It+is+John's.&second=It+is+Johns.&score=pll&unit=bits",
}


@pytest.mark.parametrize("view", RUNS)
def test_every_copied_line_runs(page, tmp_path, view):
    page.open(RUNS[view])
    page.tab.wait_for_selector(".words button, svg.trace, table.data")
    (tmp_path / "asked.py").write_text(page.copied("Copy as Python"))
    assert run("python asked.py", tmp_path).strip()
    assert run(page.copied("Copy as command"), tmp_path).strip()


def test_copies_carry_the_pin(page):
    """Link, Python and command ask for what is shown."""
    page.open(TWO)
    page.settled()
    page.tab.locator("ol.bars").first.locator("button").nth(1).click()
    page.tab.wait_for_selector("h3:has-text('given')")
    page.settled()
    word = page.tab.locator(".words .pinned").inner_text()
    link = page.copied("Copy link")
    assert re.search(rf"pin=0%3A\d+%3A{word}", link)
    assert f'given={{1: "{word}"}}' in page.copied("Copy as Python")
    assert f"--given 1={word}" in page.copied("Copy as command")
    shown = page.tab.locator("[aria-label='best completions'] tbody").inner_text()
    page.open(link.removeprefix(page.address))
    page.settled()
    assert page.tab.locator("[aria-label='best completions'] tbody").inner_text() == shown
