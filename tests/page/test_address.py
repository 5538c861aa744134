"""The address is the state: a reload, a shared link and Back show what was there; one sentence
goes through all views.
"""

import re

import pytest

pytestmark = pytest.mark.page
PLAIN = "#/fill?text=A+man+is+riding+a+horse.&candidates=64"
TWO = "#/fill?text=A+man+is+riding+a+horse.&blanks=3,5&candidates=64"


def words(page):
    page.tab.wait_for_selector(".words button.word")
    return page.tab.locator(".words button.word")


def pressed(page):
    words(page)
    return page.tab.locator(".words button.word[aria-pressed=true]").count()


def test_a_sentence_without_blanks_stays_without(page):
    page.open(TWO)
    words(page).filter(has_text="▁▁▁").first.click()
    words(page).filter(has_text="▁▁▁").first.click()
    page.tab.locator(".empty").wait_for()
    page.tab.reload()
    assert pressed(page) == 0
    page.open("#/fill?text=A+woman+is+reading+a+book+in+the+park.")
    assert pressed(page) == 0, "a text that is given has the blanks that are given with it"


@pytest.mark.parametrize("view", ["fill", "dependence", "sample", "score"])
def test_empty_is_a_value(page, view):
    page.open(f"#/{view}")
    words(page)
    page.tab.locator(".sentence input").first.fill("")
    page.until("location.hash.includes('text=')")
    page.until("document.querySelectorAll('.words button').length === 0")
    page.tab.reload()
    page.tab.wait_for_selector(".sentence input")
    page.tab.wait_for_selector(".empty, .scored")
    assert page.tab.locator(".sentence input").first.input_value() == ""


def test_steps_within_a_view_are_in_the_history(page):
    page.open(PLAIN)
    words(page).filter(has_text="riding").click()
    page.tab.get_by_role("region", name="best completions").wait_for()
    words(page).filter(has_text="horse").click()
    page.settled()
    page.tab.get_by_role("button", name="Difference").click()
    page.tab.get_by_label("Construction", exact=True).select_option("mrf")
    page.settled()
    assert "construction=mrf" in page.tab.url
    assert "colour=difference" in page.tab.url
    page.tab.go_back()
    page.settled()
    assert page.tab.get_by_label("Construction", exact=True).input_value() == ""
    assert page.tab.get_by_role("button", name="Difference").get_attribute("aria-pressed") == "true"
    page.tab.go_back()
    page.until(
        "document.querySelector('button[data-key=\"choices:colour:joint\"]')?.getAttribute('aria-pressed')"
        " === 'true'"
    )
    page.tab.go_back()
    page.until("document.querySelectorAll('.words button.word[aria-pressed=true]').length === 1")
    page.tab.go_forward()
    page.until("document.querySelectorAll('.words button.word[aria-pressed=true]').length === 2")


def test_typing_is_one_step(page):
    page.open("#/fill?text=A+man+sleeps.")
    words(page)
    before = page.tab.evaluate("history.length")
    box = page.tab.locator(".sentence input")
    for text in ("A man sleeps now.", "A man sleeps here now.", "A man sleeps here right now."):
        box.fill(text)
        page.until(
            "(text) => location.hash.includes(encodeURIComponent(text).replaceAll('%20', '+'))",
            text,
        )
    assert page.tab.evaluate("history.length") == before + 1


def test_a_pin_and_a_cell_come_back(page):
    page.open(TWO)
    page.settled()
    page.tab.locator("ol.bars").first.locator("button").nth(1).click()
    page.tab.wait_for_selector("h3:has-text('given')")
    bars = page.tab.locator("ol.bars").nth(1).inner_text()
    pinned = page.tab.locator(".words .pinned").inner_text()
    page.tab.reload()
    page.tab.wait_for_selector("h3:has-text('given')")
    assert page.tab.locator("ol.bars").nth(1).inner_text() == bars
    assert page.tab.locator(".words .pinned").inner_text() == pinned
    page.tab.get_by_role("button", name="Unpin").click()
    page.tab.locator("svg.heat .cell[role=button]").nth(3).click()
    shown = words(page).all_inner_texts()
    page.tab.reload()
    page.tab.wait_for_selector("svg.heat .chosen")
    assert words(page).all_inner_texts() == shown


def test_one_sentence_goes_through_all_views(page):
    page.open(TWO)
    page.settled()
    page.tab.locator("ol.bars").first.locator("button").nth(1).click()
    page.tab.wait_for_selector("h3:has-text('given')")
    pinned = page.tab.locator(".words .pinned").inner_text()
    for view in ("Dependence", "Sample", "Score"):
        page.tab.get_by_role("navigation").get_by_role("link", name=view).click()
        page.tab.wait_for_selector(f"nav a[aria-current]:text-is('{view}')")
        page.until(
            "document.querySelectorAll('.words button.word[aria-pressed=true]').length === 2"
        )
        assert page.tab.locator(".sentence input").first.input_value() == "A man is riding a horse."
        held = page.tab.locator(".words .pinned")
        if view == "Score":
            assert held.count() == 0, "the text of the field is scored, and shown"
        else:
            assert held.inner_text() == pinned
            assert f"“{pinned}” is pinned in place of" in page.tab.locator(".sentence").inner_text()
    page.tab.wait_for_selector(".scored")
    scored = page.tab.locator(".scored").first.inner_text()
    assert "riding" in words(page).all_inner_texts()
    assert "riding" in scored
    assert "horse" in scored
    words(page).filter(has_text="man").click()
    page.tab.get_by_role("navigation").get_by_role("link", name="Fill").click()
    page.tab.wait_for_selector("nav a[aria-current]:text-is('Fill')")
    assert pressed(page) == 3, "and back"


def test_the_link_to_the_view_stays_in_it(page):
    page.open("#/score?text=The+keys+are+gone.")
    page.tab.wait_for_selector(".scored")
    before = page.tab.url
    page.tab.locator("a.skip").focus()
    page.tab.keyboard.press("Enter")
    assert page.tab.evaluate("document.activeElement.id") == "view"
    page.tab.wait_for_timeout(200)
    assert page.tab.url == before
    assert page.tab.locator("nav a[aria-current]").inner_text() == "Score"


@pytest.mark.parametrize("characters", [2_500, 80_000])
def test_a_text_that_is_too_long_is_refused_with_its_length_and_not_cut(page, characters):
    page.open("#/dependence?text=A+man+sleeps.&candidates=8")
    words(page)
    box = page.tab.locator(".sentence input")
    box.focus()
    page.tab.keyboard.press("Control+A")
    page.tab.keyboard.insert_text("word " * (characters // 5))
    page.tab.wait_for_selector(".error")
    message = f"Text has {characters:,} characters, and the page takes 2,000"
    assert page.tab.locator(".error").inner_text().startswith(message)
    assert len(box.input_value()) == characters
    page.console[:] = [line for line in page.console if "422" not in line]


def test_a_pin_during_the_first_look_is_the_answer_of_its_address(page):
    """The pinned numbers are those of the whole answer, as after a reload."""
    page.open("#/fill?text=She+plays+the+horn+loud.&blanks=3,4")
    page.tab.wait_for_selector("ol.bars button")
    page.tab.locator("ol.bars").first.locator("button").nth(1).click()
    page.tab.wait_for_selector("h3:has-text('given')")
    page.settled()
    shown = page.tab.locator("ol.bars").nth(1).inner_text()
    assert re.search(r"given '\w+' at blank 1", page.tab.locator("p.lead").first.inner_text())
    page.tab.reload()
    page.tab.wait_for_selector("h3:has-text('given')")
    page.settled()
    assert page.tab.locator("ol.bars").nth(1).inner_text() == shown


def test_past_keeps_each_question_about_a_text(page):
    page.open(TWO)
    page.settled()
    page.tab.get_by_label("Construction", exact=True).select_option("mrf")
    page.settled()
    page.tab.locator("#past summary").click()
    listed = page.tab.locator("#past li")
    assert listed.count() == 2
    assert "construction mrf" in listed.first.inner_text()
    listed.nth(1).locator("a").click()
    page.until("!location.hash.includes('construction')")


def test_past_has_a_question_once_however_its_answer_is_drawn(page):
    page.open("#/dependence?text=She+slept+here.&candidates=8")
    page.settled("svg.arcs")
    page.tab.locator("[aria-label='pairs by mutual information'] button").nth(2).click()
    page.tab.get_by_role("button", name="… and incompatibility").click()
    page.until("location.hash.includes('pair=') && location.hash.includes('colour=off')")
    page.tab.reload()
    page.settled("svg.arcs")
    listed = page.tab.locator("#past li")
    assert listed.count() == 1
    assert "pair=" in listed.locator("a").get_attribute("href"), "the latest drawing"
    page.tab.get_by_label("Construction", exact=True).select_option("mrf")
    page.settled("svg.arcs")
    assert listed.count() == 2, "another question about the same text"


def test_past_questions_are_kept_for_this_model_until_they_are_cleared(page):
    page.open(TWO)
    page.settled()
    page.open("#/score?text=The+keys+are+gone.")
    page.tab.wait_for_selector(".scored")
    page.open("#/batch")
    page.tab.locator("#past summary").click()
    listed = page.tab.locator("#past li")
    assert listed.count() == 2
    assert "The keys are gone." in listed.first.inner_text()
    listed.nth(1).locator("a").click()
    page.settled()
    assert pressed(page) == 2
    assert "riding" in page.tab.locator(".sentence input").input_value()
    page.tab.reload()
    page.settled()  # the question is asked again, and listed
    page.tab.locator("#past summary").click()
    page.tab.get_by_role("button", name="Clear the list").click()
    assert page.tab.locator("#past li").count() == 0
    page.tab.reload()
    page.settled()
    kept = page.tab.evaluate("Object.keys(localStorage)")
    assert kept == ["unmask:past:bundled"], "only the question asked again"


def test_null_is_no_default(page):
    """Where the verb chooses if nothing is given: the control shows what the answer is of."""
    page.open("#/fill?text=It+rains.&blanks=1&candidates=null")
    page.tab.wait_for_selector(".slot .error")
    assert "null" in page.tab.locator(".slot .error").inner_text()
    page.console[:] = [line for line in page.console if "422" not in line]
