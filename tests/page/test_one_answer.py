"""One card, one question: every number of a card is of one answer, and of the one that was
asked last.
"""

import csv
import json
import re
from io import StringIO

import pytest

pytestmark = pytest.mark.page
TWO = "#/fill?text=A+man+is+riding+a+horse.&blanks=3,5&candidates=64"
PAIRS = "#/dependence?text=She+drank+a+cup+of+coffee.&candidates=8"


@pytest.mark.parametrize("others", ["text", "masked"])
def test_the_numbers_of_a_pair_do_not_contradict_each_other(page, others):
    page.open(f"{PAIRS}&others={others}")
    page.tab.wait_for_selector("[aria-label='the chosen pair'] svg.heat")
    for row in page.tab.locator("[aria-label='pairs by mutual information'] tbody tr").all()[:4]:
        listed = float(row.locator("td.n").first.inner_text())
        row.locator("button").click()
        text = page.tab.get_by_label("the chosen pair", exact=True).inner_text()
        assert f"{listed:.3f} nats" in text
    page.until("document.querySelectorAll(`[aria-label='the chosen pair'] svg.heat`).length === 1")


def test_a_stopped_measurement_says_how_much_there_is_in_card_and_files(page):
    page.open(
        "#/dependence?text=The+doctor+told+her+patient+to+drink+less+coffee+and+more+water.&candidates=64"
    )
    passes = (
        "Number(document.querySelector('.status')?.innerText.match(/^([\\d,]+)"
        " of/)?.[1].replace(',', ''))"
    )
    page.until(f"{passes} > 3000")  # the first pairs are there
    page.tab.get_by_role("button", name="Stop").click()
    page.tab.wait_for_selector(".part")
    measured, count = map(
        int,
        re.match(r"(\d+) of (\d+) pairs", page.tab.locator(".part").first.inner_text()).groups(),
    )
    assert 0 < measured < count == 78
    assert f"{measured} of 78 pairs are measured" in page.tab.locator(".lead").first.inner_text()
    name, text = page.saved("Mutual information", "JSON")
    assert name == f"unmask-dependence-{measured}-of-78-pairs.json"
    written = json.loads(text)
    assert (written["drawn"]["measured"], written["drawn"]["count"]) == (measured, 78)
    name, text = page.saved("Strongest pairs", "CSV")
    assert "-of-78-pairs" in name
    assert len(list(csv.DictReader(StringIO(text.decode())))) == measured
    assert f"{measured} of 78 pairs" in page.saved("Mutual information", "SVG")[1].decode()


@pytest.mark.parametrize(
    ("hash", "ready", "change"),
    [
        (TWO, "svg.heat", ("Words considered", "128")),
        (PAIRS, "svg.arcs", ("Construction", "mrf")),
        (
            "#/sample?text=The+old+man+slept.&blanks=1,2&sweeps=2&speed=240",
            ".chain",
            ("Energy", "raw"),
        ),
        ("#/score?text=It+rains.&score=pll", "svg.profile", ("Unit", "bits")),
    ],
)
def test_what_is_shown_is_dimmed_while_another_question_runs(page, hash, ready, change):
    page.open(hash)
    page.settled(ready)
    assert page.tab.locator(".stale").count() == 0
    waiting, holding = [], [True]
    for path in ("**/events", "**/api/sample"):
        page.tab.route(path, lambda route: waiting.append(route) if holding else route.continue_())
    page.tab.get_by_label(change[0], exact=True).select_option(change[1])
    page.until(f"document.querySelector('{ready}')?.closest('.stale')")
    assert page.tab.locator("[aria-busy=true]").count() > 0
    holding.clear()
    for route in waiting:
        route.continue_()
    page.until("document.querySelectorAll('.stale, [aria-busy=true]').length === 0")


def test_a_server_that_comes_back_is_asked_again(page):
    page.open("#/score?text=It+rains.&score=pll")
    page.settled("svg.profile")
    page.tab.route("**/api/**", lambda route: route.abort())
    page.tab.get_by_label("Unit").select_option("bits")
    page.tab.wait_for_selector(".error button:text-is('Retry')")
    assert page.tab.locator("svg.profile").first.evaluate("(one) => one.closest('.stale') !== null")
    page.tab.get_by_role("navigation").get_by_role("link", name="Dependence").click()
    page.tab.wait_for_selector("h1:text-is('Which words depend on each other?')")
    assert page.tab.locator("svg.profile").count() == 0, (
        "no content of the old view under the new name"
    )
    page.tab.wait_for_selector(".error button:text-is('Retry')")
    page.tab.unroute_all()
    page.tab.wait_for_selector("svg.arcs")
    assert page.tab.locator(".error").count() == 0
    page.console.clear()


def test_stop_leaves_the_keyboard_and_a_way_on(page):
    page.open(TWO.replace("&candidates=64", "&candidates=all"))
    page.tab.wait_for_selector("svg.heat")
    page.tab.wait_for_selector(".status progress:not([hidden])")
    page.tab.get_by_role("button", name="Stop").focus()
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_selector("button:text-is('Ask again')")
    assert page.tab.evaluate("document.activeElement.textContent") == "Ask again"
    assert page.tab.locator(".status .said").inner_text() == "Stopped."
    assert "48 x 48 tokens hold" in page.tab.locator("p.lead").first.inner_text()
    assert page.tab.locator("svg.heat").count() == 1
    page.tab.get_by_label("Words considered", exact=True).select_option("64")
    page.settled()


@pytest.mark.parametrize("view", ["fill", "dependence", "score"])
def test_a_word_of_400_letters_does_not_overflow(page, view):
    for width in (1440, 390):
        page.tab.set_viewport_size({"width": width, "height": 844})
        page.open(f"#/{view}?text=" + "ab" * 200 + "+rains.&blanks=&candidates=8")
        page.tab.wait_for_selector(".words button.word")
        page.tab.wait_for_selector(".empty, .error, svg.arcs, svg.profile")
        assert page.tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_an_address_with_a_value_that_is_none_shows_the_default(page):
    page.open(TWO + "&colour=foo")
    page.settled()
    assert (
        page.tab.get_by_role("button", name="Joint", exact=True).get_attribute("aria-pressed")
        == "true"
    )
    page.open("#/sample?kernel=foo&sweeps=1")
    page.tab.wait_for_selector(".chain")


def test_a_word_that_is_blanked_is_not_called_unknown(page):
    page.open("#/fill?text=I+see+你+there.&blanks=2")
    page.settled("[aria-label='best completions']")
    assert page.tab.locator(".unsaid").is_hidden()


@pytest.mark.parametrize("decoder", ["confidence", "verified"])
def test_a_decoder_is_played_with_its_confidence_and_its_drafts(page, decoder):
    page.open(
        f"#/generate?text=The+old+man+walked+his+dog+along+the+river.&blanks=&decoder={decoder}&n_texts=4&speed=240"
    )
    page.tab.wait_for_selector(".stack[data-passes]")
    scrub = page.tab.get_by_label("step of the chain")
    last = int(scrub.get_attribute("max"))
    assert last > 4, "blanks are filled in several steps"
    scrub.fill("0")
    assert page.tab.locator(".chain .blank").count() > page.tab.locator(".chain .sure").count() == 0
    scrub.fill("2")
    assert (
        page.tab.locator(".chain .blank").count() > 0 < page.tab.locator(".chain .sure.new").count()
    )
    drafts = 0
    for step in range(last + 1):
        scrub.fill(str(step))
        drafts += page.tab.locator(".chain s.draft").count()
    assert (drafts > 0) == (decoder == "verified")
    assert page.tab.locator(".chain .blank").count() == 0
    shares = [
        float(one.get_attribute("style").split(":")[1].strip(" ;"))
        for one in page.tab.locator(".chain .sure").all()
    ]
    assert len(shares) == 40
    assert all(0 < share <= 1 for share in shares)
    texts = page.tab.get_by_role("region", name="texts", exact=True)
    assert texts.locator("tbody tr").count() == 4
    assert page.tab.locator("dl.facts, svg.trace").count() == 0, "no chains and no sweeps"


def test_three_blanks_over_a_table_say_their_condition(page):
    page.open("#/fill?text=A+man+is+riding+a+horse.&blanks=1,3,5&construction=mrf")
    page.settled("[aria-label='best completions']")
    note = page.tab.locator("p.lead").first.inner_text()
    assert "mrf joint of 3 blanks" in note
    assert "of the product joint" in note


def test_the_better_sentence_is_that_of_the_lower_energy(page):
    page.open("#/score?score=energy_norm,energy_raw")
    page.tab.wait_for_selector("svg[aria-label^='the first against']")
    tables = page.tab.locator("[aria-label^='scores of'] tbody tr:has-text('energy_norm')").all()
    first, second = (float(row.locator("td.n").first.inner_text()) for row in tables)
    best = "first" if first < second else "second"
    lines = page.tab.locator("p.lead").all_inner_texts()
    assert any(f"energy_norm: the {best} text is better" in line for line in lines)
    page.tab.get_by_label("Score shown").select_option("energy_raw")
    page.until("document.querySelector(`svg[aria-label^='energy_raw of']`)")
    bars = page.tab.locator(".scored svg .column rect.rise, .scored svg .column rect.warm").all()
    heights = {round(float(bar.get_attribute("height")), 1) for bar in bars}
    assert len(heights) > 4, "bars are as high as their numbers"


def test_a_chain_says_how_far_to_trust_it(page):
    import unmask

    page.open("#/sample?text=The+old+man+slept.&blanks=1,2&chains=2&sweeps=5&speed=240")
    page.until("document.querySelector('.stack[data-passes]')")
    run = unmask.sample("The [MASK] [MASK] slept.", chains=2, sweeps=5)
    lines = page.tab.locator(".verdict p.lead").all_inner_texts()
    assert lines == run.verdict()


def test_what_stands_there_is_underlined_on_the_map(page):
    page.open("#/fill?text=A+woman+is+reading+a+book+in+the+park.&blanks=3,5&candidates=64")
    page.settled()
    heads = page.tab.locator("svg.heat .head.stands").all_text_contents()
    assert [head.split(":")[0] for head in heads] == ["bookbook", "readingreading"]
    row = page.tab.locator("[aria-label='best completions'] tbody tr:has-text('*')")
    assert "reading a book" in row.inner_text()
    page.open("#/fill?text=A+woman+is+leaving+a+president.&blanks=3,5&candidates=8")
    page.settled()
    assert "not among the candidates" in page.tab.get_by_label("what is asked").inner_text()


def test_a_stop_before_any_answer_says_so_and_curves_end_where_a_run_was_stopped(page):
    page.open("#/fill?text=The+[MASK]+[MASK]+in+the+[MASK]+[MASK].")
    page.tab.wait_for_selector(".status button:text-is('Stop')")
    page.tab.route("**/fill/events", lambda route: None)
    page.tab.get_by_label("Construction", exact=True).select_option("chain")
    page.tab.get_by_role("button", name="Stop").click()
    page.until(
        "document.querySelector('.status .said').textContent === 'Stopped before there was an"
        " answer.'"
    )
    page.open("#/sample?text=The+old+man+slept.&blanks=1,2&sweeps=400&speed=240")
    page.until("/sweep [2-9] of 400/.test(document.querySelector('.status')?.textContent)")
    page.tab.get_by_role("button", name="Stop").click()
    page.until("/^\\d+ of 400 sweeps/.test(document.querySelector('.part')?.textContent)")
    page.until("!document.querySelector('svg.trace')?.textContent.includes('400 sweeps')")
