"""The model decides the examples: a page of a protein model opens on a protein, with residues,
maps of all 20, and mutants.
"""

import csv
from io import StringIO
from pathlib import Path

import pytest

pytestmark = pytest.mark.page
SCAN = "svg[aria-label='effects of single changes']"


@pytest.fixture
def page(open_page, protein_address):
    return open_page(protein_address)


@pytest.mark.parametrize("view", ["fill", "mutants", "dependence", "sample", "score"])
@pytest.mark.parametrize("width", [1440, 390])
def test_it_opens_on_a_protein_and_not_on_an_error(page, view, width):
    page.tab.set_viewport_size({"width": width, "height": 900})
    page.open("#/sample?sweeps=1" if view == "sample" else f"#/{view}")
    page.tab.wait_for_selector(".words.letters button.word")
    page.until("document.querySelector('.status .said').textContent === ''")
    assert page.tab.locator(".error").count() == 0
    numbers = page.tab.locator(".words .number").all_inner_texts()
    assert {"1", "10", "20", "90"} <= set(numbers)
    if view != "score":
        first, around = (
            page.tab.locator(one).first.bounding_box()
            for one in (".words [aria-pressed=true]", ".words")
        )
        assert around["y"] <= first["y"] <= around["y"] + around["height"], (
            "the first blank is in sight"
        )
    assert page.tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_all_residues_are_on_the_map_and_rows_differ(page):
    page.open()
    page.settled("svg.heat")
    assert page.tab.locator("svg.heat .cell[role=button]").count() == 20 * 20
    blanks = [
        word.get_attribute("title")
        for word in page.tab.locator(".words button[aria-pressed=true].word").all()
    ]
    first = int(blanks[0].split(",")[0].removeprefix("residue "))
    assert f"residue {first} ↓" in page.tab.locator("svg.heat .axis").all_text_contents()
    rows = page.tab.locator("[aria-label='best completions'] td.text").all_inner_texts()
    assert len(set(rows)) == len(rows)
    assert all("…" in row and len(row) < 60 for row in rows)


def test_mutants_are_those_of_the_library(page, protein_folder):
    import unmask

    sequence = "EVQLVESGGG"
    page.open(f"#/mutants?text={sequence}&blanks=2,4&number=epistasis")
    page.settled(SCAN)
    known = (
        unmask.mutants(sequence, positions=[3, 5], changes=2, model=str(protein_folder))
        .to_frame()
        .set_index("mutant")
    )
    cell = page.tab.get_by_role("button", name="Q3A+V5C:").first
    written = (
        cell.get_attribute("aria-label").split(": ")[1].removesuffix(" nats").replace("−", "-")
    )
    assert float(written) == pytest.approx(known.loc["Q3A+V5C", "epistasis"], abs=0.006)
    box = page.tab.get_by_label("double mutants", exact=True).first
    box.locator("summary").click()
    with page.tab.expect_download() as wait:
        box.get_by_role("button", name="CSV").click()
    rows = {
        row["mutant"]: row
        for row in csv.DictReader(StringIO(Path(wait.value.path()).read_bytes().decode()))
    }
    assert float(rows["Q3A+V5C"]["effect"]) == pytest.approx(
        known.loc["Q3A+V5C", "effect"], abs=1e-5
    )
    single = (
        unmask.mutants(sequence, positions="all", model=str(protein_folder))
        .to_frame()
        .set_index("mutant")
    )
    assert page.tab.locator(f"{SCAN} .cell[role=button]").count() == 20 * len(sequence)
    label = page.tab.locator(SCAN).get_by_role("button", name="E1C:").get_attribute("aria-label")
    value = float(label.split(": ")[1].removesuffix(" nats").replace("−", "-"))
    assert value == pytest.approx(single.loc["E1C", "effect"], abs=0.006)
    assert (
        page.copied("Copy as command")
        == f"unmask mutants {sequence} --positions 3,5 --changes 2 --model {protein_folder}"
    )


def test_mutants_are_for_sequences_only(open_page):
    page = open_page()
    page.open()
    page.tab.wait_for_selector("nav a")
    assert not page.tab.get_by_role("link", name="Mutants").is_visible()


def test_fasta_and_small_letters_are_taken(page):
    page.open("#/fill?text=evqlvesggg&blanks=2,4")
    page.settled("svg.heat")
    assert page.tab.locator(".sentence input").input_value() == "EVQLVESGGG"
    assert page.tab.locator(".unsaid").is_hidden()
    page.tab.evaluate(
        "() => { const clipboardData = new DataTransfer(); clipboardData.setData('text', '>sp|P1"
        " heavy chain\\nEVQL\\nVESGG\\n'); document.querySelector('.sentence"
        " input').dispatchEvent(new ClipboardEvent('paste', {clipboardData})); }"
    )
    page.until("document.querySelector('.sentence input').value === 'EVQLVESGG'")
    assert page.tab.locator(".words button.word").count() == 9


@pytest.mark.parametrize("view", ["fill", "dependence", "sample", "score"])
def test_the_page_says_residue_and_sequence(page, view):
    page.open(f"#/{view}?text=EVQLVESGGG&blanks=2,4&sweeps=1")
    page.tab.wait_for_selector("svg.heat, .chain, svg.profile")
    text = page.tab.inner_text("main").lower().replace("one pivot word", "")
    assert "sentence" not in text
    assert "sequence" in text
    assert " word" not in text


def test_the_scale_of_mutants_does_not_saturate(page):
    """Cells of half the largest effect are half as dark: the scale is linear, and its ends are
    numbered.
    """
    page.open("#/mutants?text=EVQLVESGGG&blanks=")
    page.settled(SCAN)
    cells = page.tab.evaluate(
        "(scan) => [...document.querySelectorAll(scan + ' .cell[role=button]')]"
        ".map((cell) => [cell.getAttribute('aria-label'), cell.style.getPropertyValue('--p')])",
        SCAN,
    )
    numbers = [
        (abs(float(label.split(": ")[1].split()[0].replace("−", "-"))), float(p))
        for label, p in cells
        if "nats" in label
    ]
    most = max(value for value, _ in numbers)
    assert all(p == pytest.approx(value / most, abs=0.01) for value, p in numbers)
    axes = page.tab.locator(f"{SCAN} .axis").all_text_contents()
    assert "new residue ↓" in axes
    assert "residue of the sequence →" in axes
