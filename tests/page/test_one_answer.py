"""One card, one question: every number of a card is of one answer, and of the one that was
asked last.
"""

import csv
import json
import re
import shlex
import subprocess
import sys
from io import StringIO
from itertools import chain

import pytest

pytestmark = pytest.mark.page
TWO = "#/fill?text=A+man+is+riding+a+horse.&blanks=3,5&candidates=64"
PAIRS = "#/dependence?text=She+drank+a+cup+of+coffee.&candidates=8"


@pytest.mark.parametrize("others", ["text", "masked"])
def test_the_numbers_of_a_pair_do_not_contradict_each_other(page, others):
    page.open(f"{PAIRS}&others={others}")
    page.settled("[aria-label='the chosen pair'] svg.heat")  # what comes earlier are some pairs
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
    page.stopped()  # the answer may have more pairs than what was shown before
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
    page.tab.route(
        "**/events", lambda route: waiting.append(route) if holding else route.continue_()
    )
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
    assert page.tab.locator(".slot .error").count() == 0
    page.console.clear()


def test_stop_leaves_the_keyboard_and_a_way_on(page):
    page.open(TWO.replace("&candidates=64", "&candidates=all"))
    page.tab.wait_for_selector("svg.heat")
    page.tab.wait_for_selector(".status progress:not([hidden])")
    page.tab.get_by_role("button", name="Stop").focus()
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_selector("button:text-is('Ask again')")
    assert page.tab.evaluate("document.activeElement.textContent") == "Ask again"
    page.stopped()
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
        page.tab.wait_for_selector(".empty, .slot .error, svg.arcs, svg.profile")
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
    """On the page and in a file. Such an answer has no picture; that of two blanks says it, too
    (`test_take_away`).
    """
    page.open("#/fill?text=A+man+is+riding+a+horse.&blanks=1,3,5&construction=mrf")
    page.settled("[aria-label='best completions']")
    note = page.tab.locator("p.lead").first.inner_text()
    assert "mrf joint of 3 blanks" in note
    assert "of the product joint" in note
    written = json.loads(page.saved("Best completions", "JSON")[1])
    assert written["view"]["about"] == [note]


NOT_GIVEN = """
() => {
  window.notGiven = [];
  const asked = "[aria-label='what is asked'] p.lead";
  const lead = () => document.querySelector(asked)?.textContent ?? "";
  const look = () => {
    const isPinned = location.hash.includes("pin=");
    const isShown = !document.querySelector(".stale, [aria-busy=true]");
    if (isPinned && isShown && !lead().includes("given")) window.notGiven.push(lead());
  };
  new MutationObserver(look).observe(document.body, {
    subtree: true, childList: true, attributes: true, characterData: true,
  });
}
"""


@pytest.mark.parametrize("candidates", ["", "&candidates=64"])
def test_while_a_word_is_pinned_every_number_is_given_it(page, candidates):
    """Sentences and completions, also those of the first look; until they are there, what is
    shown is dimmed.
    """
    page.open(f"#/fill?text=A+man+is+riding+a+horse.&blanks=3,5{candidates}")
    page.tab.wait_for_selector("ol.bars button")
    page.tab.evaluate(NOT_GIVEN)
    for n in (1, 2):  # the second pin finds the joint kept
        page.tab.locator("ol.bars").first.locator("button").nth(n).click()
        page.until(
            "(n) => document.querySelectorAll('ol.bars button')[n].ariaPressed === 'true'", n
        )
        page.settled()
        word = page.tab.locator(".words .pinned").inner_text()
        assert f"given '{word}' at blank 1" in page.tab.locator("p.lead").first.inner_text()
        for text in page.tab.locator("[aria-label='best completions'] td.text").all_inner_texts():
            assert f" is {word} a " in " ".join(text.split())
        notes = page.tab.get_by_label("joint of the two blanks").locator("p.note")
        assert notes.last.inner_text() == "The map is without the pin."
        compared = page.tab.get_by_role("region", name="Every construction", exact=True)
        assert compared.locator("p.note").first.inner_text().endswith("without the pin.")
    assert page.tab.evaluate("window.notGiven") == []


def test_the_map_is_the_same_with_and_without_a_pin(page):
    page.open(TWO)
    page.settled()
    cells = "[...document.querySelectorAll('svg.heat .cell[role=button]')]"
    read = f"() => {cells}.map((one) => one.ariaLabel + one.style.getPropertyValue('--p'))"
    before = page.tab.evaluate(read)
    page.tab.locator("ol.bars").nth(1).locator("button").nth(2).click()
    page.tab.wait_for_selector("h3:has-text('given')")
    page.settled()
    assert page.tab.evaluate(read) == before


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


def asked(page, path, **body):
    return page.tab.evaluate(
        "async ([path, body]) => (await (await fetch(`api/${path}`, {method: 'POST', headers:"
        " {'content-type': 'application/json'}, body: JSON.stringify(body)})).json())",
        [path, body],
    )


def test_equal_sentences_are_equal(page):
    page.open("#/score?text=It+rains.&second=It+rains.&score=pll,energy_raw")
    page.tab.wait_for_selector("svg[aria-label^='the first against']")
    lines = page.tab.get_by_label("Whole sentences", exact=True).locator("p.lead").all_inner_texts()
    assert lines == ["pll: the two texts are equal", "energy_raw: the two texts are equal"]


def test_every_bar_is_what_the_server_says(page):
    """Its texts, its number, its title and its height; the legends, too."""
    texts = ["The keys are here.", "The keys is here."]
    page.open(f"#/score?text={texts[0]}&second={texts[1]}&score=pll,energy_norm&show=energy_norm")
    page.tab.wait_for_selector("svg[aria-label^='the first against']")
    drawn = asked(page, "score", texts=texts, score=["pll", "energy_norm"])["drawn"]
    for box, known in (
        ("Word by word", drawn["profiles"]["energy_norm"]),
        ("The first against the second", drawn["differences"]["energy_norm"]),
    ):
        card = page.tab.get_by_label(box, exact=True)
        assert card.locator("p.note").inner_text() == known["legend"]
        bars = [bar for one in known["profiles"] for bar in one["bars"]]
        columns = card.locator("svg .column").all()
        assert len(columns) == len(bars)
        for column, bar in zip(columns, bars, strict=True):
            assert column.locator("title").text_content() == bar["title"]
            assert column.locator("text").all_text_contents() == [*bar["texts"], bar["number"]]
            rect = column.locator("rect.rise")
            height = float(rect.get_attribute("height"))
            assert height == pytest.approx(max(abs(bar["share"]) * 30, 0.8), abs=0.051)
            assert ("less" in rect.get_attribute("class").split()) == (bar["share"] < 0)


def test_a_sampled_score_has_its_error_and_is_that_of_the_copied_command(page):
    words = "The old man and the sea are here and there now and the sun is out again"
    page.open(f"#/score?text={words}&second=&score=any_order")
    page.tab.wait_for_selector("[aria-label^='scores of'] tbody tr")
    cells = page.tab.locator("[aria-label^='scores of'] tbody td").all_inner_texts()
    assert re.fullmatch(r"± \d+\.\d{3}", cells[-1])
    line = shlex.split(page.copied("Copy as command"))
    assert line[0] == "unmask"
    command = [sys.executable, "-m", *line]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (row,) = [line for line in printed.splitlines() if "±" in line]
    assert row.split() == " ".join(cells).split()


def test_arcs_lists_and_cards_are_what_the_server_says(page):
    page.open(f"{PAIRS}&colour=off")
    page.tab.wait_for_selector("[aria-label='the chosen pair'] svg.heat")
    drawn = asked(page, "dependence", text="She drank a cup of coffee.", candidates=8)["drawn"]
    titles = page.tab.locator("svg.arcs path title").all_text_contents()
    assert titles == [pair["title"] for pair in drawn["pairs"]][::-1]
    widths = [
        float(one.get_attribute("stroke-width")) for one in page.tab.locator("path.arc").all()
    ]
    shares = [pair["share"] for pair in drawn["pairs"]][::-1]
    assert widths == pytest.approx([0.6 + 13.4 * share for share in shares], abs=1e-3)
    warm = page.tab.locator("path.arc.off title").all_text_contents()
    assert warm == [pair["title"] for pair in drawn["pairs"][::-1] if pair["off"]]
    legend = page.tab.locator("p.key span").all_inner_texts()
    assert legend == [drawn["width"], drawn["off"]]
    rows = page.tab.locator("[aria-label='pairs by mutual information'] tbody tr").all()
    shown = [row.locator("td").all_inner_texts() for row in rows]
    assert shown == drawn["strongest"]["shown"]
    rows[2].locator("button").click()
    chosen = page.tab.get_by_label("the chosen pair", exact=True)
    assert chosen.locator("h2").inner_text() == drawn["pairs"][2]["name"]
    assert drawn["pairs"][2]["caption"] in chosen.inner_text()


def test_a_chain_says_how_far_to_trust_it(page):
    import unmask

    page.open("#/sample?text=The+old+man+slept.&blanks=1,2&chains=2&sweeps=5&speed=240")
    page.until("document.querySelector('.stack[data-passes]')")
    run = unmask.sample("The [MASK] [MASK] slept.", chains=2, sweeps=5)
    lines = page.tab.locator(".verdict p.lead").all_inner_texts()
    assert lines == run.verdict()
    assert "have NOT mixed" in " ".join(lines)
    card = page.tab.locator(".verdict")
    functionals, last_texts = run.tables()
    shown = [row.all_inner_texts() for row in map(cells, card.locator("table").all())]
    assert shown == [[*chain(*table.shown())] for table in (functionals, last_texts)]
    worst = max(one.r_hat for one in run.diagnosis.functionals if one.r_hat == one.r_hat)
    assert f"{worst:.3f}" in card.inner_text()


def cells(table):
    """The cells of a table on the page."""
    return table.locator("tbody td")


def test_a_decoder_has_a_view_of_its_own_question(page):
    """Its texts with their log-probabilities and passes, and no chain of them."""
    import unmask

    page.open("#/generate?text=The+old+man+slept.&blanks=1,2&n_texts=3&seed=2&speed=240")
    page.until("document.querySelector('.stack[data-passes]')")
    generation = unmask.generate("The [MASK] [MASK] slept.", n_texts=3, seed=2)
    (table,) = generation.tables()
    shown = page.tab.get_by_role("region", name="texts", exact=True)
    heads = shown.locator("thead th").all_inner_texts()
    assert heads == [column.head for column in table.columns] == ["nats", "passes", "text"]
    assert cells(shown).all_inner_texts() == [*chain(*table.shown())]
    assert generation.law in page.tab.inner_text("main")
    assert page.tab.locator("dl.facts, svg.trace, .verdict").count() == 0
    assert page.tab.get_by_label("Sweeps").count() == 0
    page.open("#/sample?sweeps=1")
    offered = page.tab.get_by_label("Kernel").locator("option")
    offered.first.wait_for(state="attached")
    names = {option.get_attribute("value") for option in offered.all()}
    assert names.isdisjoint({"ancestral", "verified", "confidence"})
    assert "mh" in names


def test_curves_and_facts_are_those_of_the_server(page):
    """The page places them: every text on the curves, and the numbers of a sweep, were sent."""
    import unmask

    page.open("#/sample?text=The+old+man+slept.&blanks=1,2&chains=2&sweeps=3&speed=240&at=4")
    page.until("document.querySelector('.stack[data-passes]')")
    page.until("document.querySelectorAll('svg.trace').length === 2")
    assert page.tab.locator("output").inner_text() == "step 4 of 6, sweep 2"
    page.tab.get_by_label("step of the chain").fill("6")
    run = unmask.sample("The [MASK] [MASK] slept.", chains=2, sweeps=3)
    last = [row["energy"] for row in run.rows if row["sweep"] == 3]
    names = page.tab.locator("dl.facts dt").all_inner_texts()
    assert names == ["accepted", "changed", "mean energy"], "the command's names"
    facts = page.tab.locator("dl.facts dd").all_inner_texts()
    accepted, changed = run.diagnosis.acceptance, run.diagnosis.novelty
    assert facts == [f"{accepted:.1%}", f"{changed:.1%}", f"{sum(last) / 2:.2f}"]
    energies, shares = page.tab.locator("svg.trace").all()
    assert shares.locator("text").all_text_contents() == ["0", "0.5", "1", "0", "3 sweeps"]
    assert energies.locator("path.curve").count() == 2

    # A curve is at the height of its number between two ticks.
    ticks = energies.locator("line.grid").all()
    texts = energies.locator("text").all_text_contents()[: len(ticks)]
    heights = [float(tick.get_attribute("y1")) for tick in ticks]
    slope = (heights[-1] - heights[0]) / (float(texts[-1]) - float(texts[0]))
    for number, curve in enumerate(energies.locator("path.curve").all()):
        end = float(curve.get_attribute("d").split("L")[-1].split()[1])
        expected = heights[0] + slope * (last[number] - float(texts[0]))
        assert end == pytest.approx(expected, abs=0.2)
    name, text = page.saved("Sweep by sweep", "CSV")
    rows = list(csv.DictReader(StringIO(text.decode())))
    assert name == "unmask-energies.csv"
    assert list(rows[0]) == ["sweep", "chain", "energy", "acceptance", "novelty", "text"]
    of_sweeps = [row for row in rows if row["sweep"] != "0"]
    assert {(int(row["sweep"]), int(row["chain"]) - 1, row["text"]) for row in of_sweeps} == {
        (row["sweep"], row["chain"], row["text"]) for row in run.rows
    }


def test_a_token_that_changed_looks_as_the_legend_says(page):
    page.open("#/sample?text=The+old+man+slept.&blanks=1,2&chains=4&sweeps=3&speed=240&at=0")
    page.until("document.querySelector('.stack[data-passes]')")
    sign = page.tab.locator(".key > .changed")
    assert sign.inner_text() == "changed: another word was taken"
    of_sign = sign.evaluate("(sign) => getComputedStyle(sign, '::before').backgroundColor")
    frames = page.tab.get_by_label("step of the chain")
    changed = page.tab.locator(".chain span.changed")
    for step in range(1, int(frames.get_attribute("max")) + 1):
        frames.fill(str(step))
        page.until(f"document.querySelector('output').innerText.startsWith('step {step} of')")
        if changed.count():
            break
    colours = changed.evaluate_all(
        "(all) => all.map((one) => getComputedStyle(one).backgroundColor)"
    )
    assert set(colours) == {of_sign}


def test_what_stands_there_is_underlined_on_the_map(page):
    page.open("#/fill?text=A+woman+is+reading+a+book+in+the+park.&blanks=3,5&candidates=64")
    page.settled()
    heads = page.tab.locator("svg.heat .head.stands").all_text_contents()
    titles = ["book in blank 2", "reading in blank 1"]
    assert [head.split(":")[0] for head in heads] == [f"book{titles[0]}", f"reading{titles[1]}"]
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
    page.until("/[2-9] of 400 sweeps/.test(document.querySelector('.status')?.textContent)")
    page.tab.get_by_role("button", name="Stop").click()
    page.until("/^\\d+ of 400 sweeps/.test(document.querySelector('.part')?.textContent)")
    page.until("!document.querySelector('svg.trace')?.textContent.includes('400 sweeps')")
