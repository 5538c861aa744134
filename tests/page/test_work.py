"""Blanks as people type them, the map above the fold, nothing silent, and the keyboard where it
was.
"""

from math import log

import pytest

from unmask.common.formats import percent

pytestmark = pytest.mark.page
TWO = "#/fill?text=A+man+is+riding+a+horse.&blanks=3,5&candidates=64"


def heat(page):
    return page.tab.locator("svg.heat .cell[role=button]")


def typed(page, text):
    page.open("#/fill?text=")
    page.tab.wait_for_selector(".sentence input")
    page.tab.locator(".sentence input").fill(text)
    page.tab.wait_for_selector(".words button[aria-pressed=true]")


def test_blanks_as_people_type_them(page):
    typed(page, "A man is <mask> a ___.")
    assert page.tab.locator(".words button.word[aria-pressed=true]").count() == 2
    page.tab.get_by_label("Words considered", exact=True).select_option("64")
    page.settled()
    assert (
        page.copied("Copy as command") == "unmask fill 'A man is [MASK] a [MASK].' --candidates 64"
    )


def test_words_and_gaps_typed_or_made_by_clicking(page):
    typed(page, "A man rides his [WORD].")
    page.settled("[aria-label='best completions']")
    assert page.tab.locator(".words .kind").inner_text() == "a whole word"
    typed(page, "A man rides his [GAP:2].")
    page.settled("[aria-label='best completions']")
    assert page.tab.locator(".words .kind").inner_text() == "2 tokens"
    page.open("#/fill?text=A+man+rides+his+horse.&blanks=4")
    page.settled("[aria-label='best completions']")
    page.tab.locator(".words .kind").click()
    page.until("location.hash.includes('blanks=4w')")
    page.settled("[aria-label='best completions']")
    assert "chain rule" in page.tab.locator("p.lead").first.inner_text()
    page.tab.locator(".words .kind").click()
    page.until("location.hash.includes('blanks=4g')")
    page.tab.reload()
    page.settled("[aria-label='best completions']")
    assert "'A man rides his [GAP:1-3].'" in page.copied("Copy as command")


def test_the_construction_box_shows_what_is_used(page):
    page.open("#/fill?text=A+man+is+riding+a+horse.&blanks=1,3,5")
    page.settled("[aria-label='best completions']")
    box = page.tab.get_by_label("Construction", exact=True).locator("option:checked")
    assert box.inner_text() == "default: chain"
    assert "chain rule over all orders" in page.tab.locator(".lead").first.inner_text()
    page.open("#/fill?text=A+man+is+riding+a+horse.&blanks=3")
    page.settled("[aria-label='best completions']")
    assert box.count() == 0, "one blank has nothing to choose"
    page.open(TWO)
    page.settled()
    assert box.inner_text() == "default: restarted"


def test_the_map_says_what_its_axes_and_colours_are(page):
    page.open(TWO)
    page.settled()
    assert page.tab.locator("svg.heat .axis").all_text_contents()[:2] == ["blank 1 ↓", "blank 2 →"]
    answer = page.tab.evaluate(
        "async () => (await (await fetch('api/fill', {method: 'POST', headers: {'content-type':"
        " 'application/json'}, body: JSON.stringify({text: 'A man is riding a horse.', positions:"
        " [4, 6], candidates: 64})})).json())"
    )
    drawn_map = answer["drawn"]["map"]
    layers = {layer["name"]: layer for layer in drawn_map["grid"]["layers"]}
    most = max(max(joint, product) for _, _, joint, product in drawn_map["table"]["rows"])
    ticks = page.tab.locator(".map .tick").all_text_contents()
    assert ticks == [text for _, text in layers["joint"]["ticks"]]
    assert ticks[0] == "0"
    assert ticks[-1] == percent(log(most))
    cell = heat(page).first
    named, numbers = cell.get_attribute("aria-label").split(": ")
    known = drawn_map["grid"]["cells"][0][0]
    assert (named, numbers) == (known["name"], known["numbers"])
    cell.hover()
    assert page.tab.locator(".readout").inner_text() == f"{named} {numbers}"
    page.tab.get_by_role("button", name="Difference").click()
    ticks = page.tab.locator(".map .tick").all_text_contents()
    assert ticks == [text for _, text in layers["difference"]["ticks"]]
    assert ticks[0].startswith("-")
    assert ticks[1] == "0"
    assert ticks[2].startswith("+")
    for meaning in page.tab.locator("dl.meanings dd").all_inner_texts():
        assert meaning.endswith("."), "what it is, in one sentence"


def test_nothing_is_silent(page):
    page.open(
        "#/score?text=It+rains.&score=pll,pll_word,energy_raw,energy_norm,left_to_right,right_to_left,any_order"
    )
    page.tab.wait_for_selector(".scored")
    assert "6 scores at a time: any_order is not shown." in page.tab.inner_text("main")
    assert page.tab.get_by_role("checkbox", name="any_order").is_disabled()
    page.open("#/sample")
    page.tab.wait_for_selector(".words button")
    page.tab.get_by_label("Chains", exact=True).fill("99")
    page.tab.get_by_label("Chains", exact=True).press("Tab")
    assert "1 to 16: 16 is used" in page.tab.inner_text(".controls")
    for view in ("fill", "dependence", "sample", "score"):
        page.open(f"#/{view}?text=I+see+你+there.")
        page.tab.wait_for_selector(".unsaid:not([hidden])")
        assert "does not know “你”" in page.tab.locator(".unsaid:not([hidden])").first.inner_text()
    page.open("#/score?text=It+rains.&score=pll,pll,pll,pll,pll,pll,any_order")
    page.tab.wait_for_selector(".scored")
    assert "scores at a time" not in page.tab.inner_text("main"), (
        "one that is said twice counts once"
    )
    assert page.tab.get_by_role("checkbox", name="any_order").is_checked()
    page.open("#/score?text=I+see+you.&second=I+see+你.")
    page.tab.wait_for_selector(".unsaid:not([hidden])")
    page.console[:] = [line for line in page.console if "422" not in line]


def test_a_stopped_search_shows_what_it_found(page):
    page.open("#/fill?text=The+[MASK]+[MASK]+in+the+[MASK]+[MASK].")
    page.until(
        "/[2-9]\\d\\d of 1,000 passes/.test(document.querySelector('.status')?.innerText ?? '')"
    )
    page.tab.get_by_role("button", name="Stop").click()
    page.tab.wait_for_selector("table.data tbody tr")
    assert "; stopped)" in page.tab.locator("p.lead").first.inner_text()


def focused(page):
    return page.tab.evaluate("document.activeElement.dataset.key ?? document.activeElement.tagName")


def test_focus_stays_where_it_was(page):
    page.open(TWO)
    page.settled()
    page.tab.locator("svg.heat .cell[role=button]").nth(1).focus()
    key = focused(page)
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_selector("svg.heat .chosen")
    assert focused(page) == key
    assert key.startswith("cell:")
    page.tab.locator("ol.bars").first.locator("button").nth(1).focus()
    key = focused(page)
    page.tab.keyboard.press("Enter")
    page.tab.wait_for_selector("h3:has-text('given')")
    assert focused(page) == key
    page.tab.get_by_role("button", name="Difference").focus()
    page.tab.keyboard.press("Enter")
    assert focused(page) == "choices:colour:difference"
    page.tab.locator("[data-key^='construction:']").nth(2).focus()
    page.tab.keyboard.press("Enter")
    page.until("location.hash.includes('construction=mrf')")
    page.settled()
    assert focused(page) == "construction:mrf"
    page.tab.locator(".words button.word").nth(1).focus()
    page.tab.keyboard.press("Enter")
    page.settled("[aria-label='best completions']")
    assert focused(page) == "word:1"
    page.open("#/sample")
    page.tab.wait_for_selector(".words button")
    page.tab.get_by_label("Kernel").focus()
    page.tab.keyboard.press("ArrowDown")
    page.until("location.hash.includes('kernel=')")
    assert focused(page) == "select:Kernel"


def test_a_script_from_right_to_left(page):
    page.open("#/score?text=هذا+كتاب+جديد.")
    page.tab.wait_for_selector(".scored")
    boxes = [one.bounding_box()["x"] for one in page.tab.locator(".words button.word").all()[:3]]
    assert boxes == sorted(boxes, reverse=True)
    scored = [one.bounding_box()["x"] for one in page.tab.locator(".scored text.word").all()[:2]]
    assert scored == sorted(scored, reverse=True)


def test_words_of_a_cell_leave_the_text_with_another_question(page):
    page.open(TWO)
    page.settled()
    heat(page).nth(3).click()
    assert page.tab.locator(".words .filled").count() == 2
    assert page.tab.locator(".cell.chosen[aria-pressed=true]").count() == 1
    page.tab.get_by_label("Construction", exact=True).select_option("mrf")
    page.settled()
    assert page.tab.locator(".words .filled").count() == 0
    heat(page).nth(3).click()
    page.tab.get_by_label("Words considered", exact=True).select_option("128")
    page.settled()
    assert page.tab.locator(".words .filled").count() == 0


def test_a_completion_takes_the_place_of_the_cell(page):
    """Of three things that show words for the blanks, text, map and address, all show the same."""
    page.open(TWO)
    page.settled()
    heat(page).nth(3).click()
    assert "cell=" in page.tab.evaluate("location.hash")
    page.tab.locator("[aria-label='best completions'] button.put").nth(2).click()
    assert page.tab.locator(".words .filled").count() == 2
    assert page.tab.locator(".cell.chosen").count() == 0
    assert "cell=" not in page.tab.evaluate("location.hash")


def test_words_of_an_older_map_are_not_put_into_other_blanks(page):
    page.open(TWO)
    page.settled()
    waiting = []
    page.tab.route("**/fill/events", lambda route: waiting.append(route))
    page.tab.locator(".words button.word").nth(1).click()
    page.tab.wait_for_selector(".stale")
    heat(page).nth(3).click()
    page.tab.locator("[aria-label='best completions'] button.put").first.click()
    assert page.tab.locator(".words .filled").count() == 0
    assert "cell=" not in page.tab.evaluate("location.hash")
    page.tab.unroute_all()


def test_a_map_is_not_dimmed_while_constructions_are_compared(page):
    page.open(TWO)
    page.settled()
    waiting = []
    page.tab.route("**/compare/events", lambda route: waiting.append(route))
    page.tab.get_by_label("Words considered", exact=True).select_option("128")
    page.until(
        "document.querySelector('.status .said').textContent === 'comparing constructions …'"
    )
    assert page.tab.locator(".stale").count() == 0
    heat(page).nth(3).click()
    assert page.tab.locator(".words .filled").count() == 2
    while not waiting:
        page.tab.wait_for_timeout(50)
    waiting.pop().continue_()
    page.settled()


def test_a_word_of_an_older_answer_is_not_pinned_in_another_blank(page):
    page.open(TWO)
    page.settled()
    waiting = []
    page.tab.route("**/fill/events", lambda route: waiting.append(route))
    page.tab.locator(".words button.word").nth(1).click()
    page.tab.wait_for_selector(".stale")
    page.tab.locator("ol.bars button").first.click()
    page.tab.locator("svg.heat .head[role=button]").first.click()
    assert "pin=" not in page.tab.evaluate("location.hash")
    page.tab.unroute_all()


def test_constructions_are_not_compared_below_an_older_answer(page):
    """The answer to the older question stays dimmed, and the new question runs on."""
    page.open("#/fill?text=A+man+is+riding+a+horse.&blanks=1,3,5&construction=mrf&candidates=16")
    page.settled("[aria-label='best completions']")
    compare = page.tab.get_by_role("button", name="Compare every construction")
    compare.wait_for()
    waiting = []
    page.tab.route("**/fill/events", lambda route: waiting.append(route))
    page.tab.get_by_label("Words considered", exact=True).select_option("")
    page.tab.wait_for_selector(".stale")
    compare.click()
    assert page.tab.locator(".stale").count() == 1
    while not waiting:
        page.tab.wait_for_timeout(50)
    waiting.pop().continue_()
    page.tab.unroute_all()
    page.until("document.querySelectorAll('.stale').length === 0")
    page.settled("[aria-label='best completions']")


def test_a_single_blank_is_asked_with_what_decides_something(page):
    """Options that were chosen for two blanks: a construction decides nothing for one, a number of
    candidates does, and has its control.
    """
    page.open(f"{TWO}&construction=mrf")
    page.settled()
    page.tab.locator(".words button.word").nth(5).click()
    page.until("document.querySelector('svg.heat') === null", seconds=20)
    page.settled("[aria-label='best completions']")
    assert page.tab.locator(".slot .error").count() == 0
    candidates = page.tab.get_by_label("Words considered", exact=True)
    assert candidates.input_value() == "64"
    assert page.tab.get_by_label("Construction", exact=True).count() == 0
    assert "; 64 tokens" in page.tab.locator("p.lead").first.inner_text()
    asked = "unmask fill 'A man is riding a horse.'"
    assert page.copied("Copy as command") == f"{asked} --candidates 64 --positions 4"
    for every in ("all", ""):
        candidates.select_option(every)
        page.until("!document.querySelector('p.lead')?.textContent.includes(' 64 ')", seconds=20)
        page.settled("[aria-label='best completions']")
        assert page.tab.locator(".slot .error").count() == 0
        assert page.copied("Copy as command") == f"{asked} --positions 4"
    assert candidates.locator("option:checked").inner_text() == "default: all"
    page.tab.locator(".words button.word").nth(5).click()
    page.settled()
    assert page.tab.get_by_label("Construction", exact=True).input_value() == "mrf"
