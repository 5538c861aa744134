"""The model decides the examples: a page of a protein model opens on a protein, with residues,
maps of all 20, and mutants.
"""

import csv
from io import StringIO
from pathlib import Path

import pytest

from unmask.common.formats import nats

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


def test_dependence_is_over_all_20_residues(page, protein_folder):
    import unmask

    sequence = "EVQLVESGGG"
    page.open(f"#/dependence?text={sequence}&blanks=")
    page.settled("[aria-label='pairs by mutual information'] tbody tr")
    known = unmask.dependence(sequence, str(protein_folder))
    assert known.candidates == 20
    rows = page.tab.locator("[aria-label='pairs by mutual information'] tbody tr button").all()
    names = [f"{letter}{place}" for place, letter in enumerate(sequence, 1)]
    assert [row.inner_text() for row in rows] == [
        f"{names[i]} – {names[j]}" for i, j, _ in known.pairs()[:10]
    ]
    line = page.copied("Copy as command")
    assert line == f"unmask dependence {sequence} --model {protein_folder}"


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
    cell = page.tab.get_by_role("img", name="Q3A+V5C:").first
    names = ("effect", "singles", "epistasis", "interaction")
    numbers = [f"{name} {nats(known.loc['Q3A+V5C', name])}" for name in names]
    assert cell.get_attribute("aria-label") == f"Q3A+V5C: {', '.join(numbers)} nats"
    cell.hover()
    assert page.tab.locator(".readout").first.inner_text() == f"Q3A+V5C {', '.join(numbers)} nats"
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
    assert label == f"E1C: effect {nats(single.loc['E1C', 'effect'])} nats"
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
        (abs(float(label.split(": effect ")[1].split()[0])), float(p))
        for label, p in cells
        if "nats" in label
    ]
    most = max(value for value, _ in numbers)
    assert all(p == pytest.approx(value / most, abs=0.01) for value, p in numbers)
    axes = page.tab.locator(f"{SCAN} .axis").all_text_contents()
    assert "new residue ↓" in axes
    assert "residue of the sequence →" in axes


PART = "0 of 1 sets"
DOUBLES = "svg[aria-label='map of double mutants']"


@pytest.fixture
def held(page):
    """Requests for single mutants that wait until the test lets them go on."""
    waiting = []

    def answer(route):
        if "changes" in route.request.post_data_json:
            route.continue_()
        else:
            waiting.append(route)

    page.tab.route("**/mutants/events", answer)
    yield waiting
    page.tab.unroute_all()


def test_double_mutants_are_shown_before_the_single_ones_are_there(page, held):
    page.open("#/mutants?text=EVQLVESGGG&blanks=2,4")
    page.tab.wait_for_selector(DOUBLES)
    assert page.tab.locator(SCAN).count() == 0
    held.pop().continue_()
    page.settled(SCAN)


def test_single_mutants_of_another_sequence_do_not_stay(page, held):
    page.open("#/mutants?text=EVQLVESGGG&blanks=2,4")
    page.tab.wait_for_selector(DOUBLES)
    held.pop().continue_()
    page.settled(SCAN)
    page.tab.locator(".sentence input").fill("EVQLVESGGGLV")
    while not held:  # the double mutants are there, and the single ones are asked for
        page.tab.wait_for_timeout(50)
    assert page.tab.locator(DOUBLES).count() == 1
    assert page.tab.locator(SCAN).count() == 0
    held.pop().continue_()
    page.settled(SCAN)
    assert page.tab.locator(f"{SCAN} .cell[role=button]").count() == 20 * 12
    page.tab.locator(f"{SCAN} .cell[role=button]").nth(6).click()  # of residue 7, in the first row
    page.until("document.querySelector('.words [data-key=\"word:6\"]').ariaPressed === 'true'")


def test_the_map_of_an_earlier_sequence_chooses_no_residue(page, held):
    page.open("#/mutants?text=EVQLVESGGG&blanks=")
    page.tab.wait_for_selector(".words button.word")
    while not held:
        page.tab.wait_for_timeout(50)
    held.pop().continue_()
    page.settled(SCAN)
    page.tab.locator(".sentence input").fill("LVEVQLVESGGG")
    page.tab.wait_for_selector(".stale")
    page.tab.locator(f"{SCAN} .cell[role=button]").nth(6).click()
    assert page.tab.locator(".words button.word").count() == 12
    assert page.tab.locator(".words button.word[aria-pressed=true]").count() == 0


def test_the_best_mutants_of_a_part_say_so_as_their_map_does(page):
    """An answer that was stopped, on the page and in the names of files."""

    def stopped(route):
        answer = route.fetch()
        route.fulfill(
            response=answer, body=answer.text().replace('"part": ""', f'"part": "{PART}"')
        )

    page.tab.route("**/mutants/events", stopped)
    page.open("#/mutants?text=EVQLVESGGG&blanks=2,4")
    page.tab.wait_for_selector(DOUBLES)
    page.stopped()
    for name in ("doubles", "best-doubles"):
        card = page.tab.locator(f"[data-key='card:{name}']")
        assert card.locator(".part").all_inner_texts() == [f"{PART}; stopped before the rest."]
    name, _ = page.saved("Best mutants", "CSV")
    assert name == "unmask-best-doubles-0-of-1-sets.csv"


def past(page):
    page.tab.locator("#past summary").click()
    names = page.tab.locator("#past li").all_inner_texts()
    page.tab.locator("#past summary").click()
    return [name.removeprefix("Mutants ") for name in names]


def test_past_questions_about_mutants_name_what_was_measured(page):
    """The sequence alone where no pair was chosen, and of many residues the pair."""
    page.open("#/mutants?text=EVQL&blanks=")
    page.settled(SCAN)
    assert past(page) == ["EVQL"]
    page.open("#/mutants?text=EVQL&blanks=0,1,3&pair=1-4")
    page.tab.wait_for_selector(DOUBLES)
    page.settled(SCAN)
    assert past(page) == ["1, 4 of EVQL", "EVQL"]
    page.tab.get_by_label("Pair", exact=True).select_option("2-4")
    page.until(
        "document.querySelector('#past li').textContent.includes('2, 4 of EVQL')", seconds=20
    )


def test_the_numbers_of_a_mutant_go_with_its_sequence(page, held):
    """And what is shown of the new one is not dimmed while the rest is asked for."""
    page.open("#/mutants?text=EVQLVESGGG&blanks=2,4")
    page.tab.wait_for_selector(DOUBLES)
    held.pop().continue_()
    page.settled(SCAN)
    lines = page.tab.locator(".readout")
    hints = lines.all_inner_texts()
    assert all(hint.startswith("Point at a cell") for hint in hints)
    assert len(hints) == 2
    for map_of, line in ((DOUBLES, lines.first), (SCAN, lines.last)):
        page.tab.locator(f"{map_of} .cell").nth(6).dispatch_event("mouseenter")
        assert "nats" in line.inner_text()
    page.tab.locator(".sentence input").fill("EVQLVESGGGLV")
    while not held:  # the double mutants are there, and the single ones are asked for
        page.tab.wait_for_timeout(50)
    assert lines.all_inner_texts() == hints[:1]
    assert page.tab.locator(".stale, [aria-busy=true]").count() == 0
    held.pop().continue_()
    page.settled(SCAN)
    assert lines.all_inner_texts() == hints


def test_in_a_narrow_window_every_element_of_a_map_has_a_key_of_its_own(page):
    page.tab.set_viewport_size({"width": 320, "height": 900})
    page.open("#/fill?text=EVQLVESGGG&blanks=2,4")
    page.settled("svg.heat")
    assert page.tab.locator("svg.heat > g").count() > 1, "its columns stand in several blocks"
    for name in ("key", "at"):
        values = page.tab.evaluate(
            "(name) => [...document.querySelectorAll(`svg.heat [data-${name}]`)]"
            ".map((one) => one.dataset[name])",
            name,
        )
        assert len(values) == len(set(values)) >= 20 * 20
    again = page.tab.locator("svg.heat .head[aria-hidden]").first
    label = again.evaluate("(one) => one.firstChild.textContent")
    again.click()
    page.tab.wait_for_selector("ol.bars [aria-pressed=true]")
    assert page.tab.locator("ol.bars [aria-pressed=true]").inner_text() == label
