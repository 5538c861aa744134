"""What a person does with the page, in a real browser: blanks, the joint, pins, chains, scores,
runs; by mouse and by keys.
"""

import re

import pytest

pytestmark = pytest.mark.page


def heat(page):
    page.tab.wait_for_selector("svg.heat")
    return page.tab.locator("svg.heat .cell[role=button]")


def test_blank_two_words_see_the_joint_pin_and_click_a_cell(page):
    page.open("#/fill?text=A+tall+man+is+riding+a+horse+on+the+beach.&blanks=&candidates=64")
    words = page.tab.locator(".words button.word")
    words.filter(has_text="riding").click()
    page.tab.get_by_role("region", name="best completions").wait_for()
    assert page.tab.locator("svg.heat").count() == 0
    words.filter(has_text="horse").click()
    page.settled()
    assert heat(page).count() == 14 * 14
    assert "64 x 64 tokens hold" in page.tab.locator(".lead").inner_text()
    assert "blanks=4%2C6" in page.tab.url

    def other_blank():
        return page.tab.locator("ol.bars").nth(1).locator("li").all_inner_texts()

    text = page.tab.get_by_role("region", name="joint of the two blanks").inner_text()
    rule = "of each blank the likeliest on average of restarted and of independent blanks"
    assert f"The map shows 14 x 14 of the tokens considered: {rule}; what stood" in text

    before = other_blank()
    page.tab.locator("ol.bars").first.locator("button").nth(1).click()
    page.tab.wait_for_selector("h3:has-text('given')")
    assert other_blank() != before
    assert "pin=0%3A" in page.tab.url
    page.tab.get_by_role("button", name="Unpin").click()
    page.until(
        "[...document.querySelectorAll('h3')].every((h) => !h.textContent.includes('given'))"
    )
    assert other_blank() == before

    label = heat(page).first.get_attribute("aria-label")
    heat(page).first.click()
    first, second = re.match(r"(.+) … (.+?):", label).groups()
    assert words.nth(4).inner_text() == first
    assert words.nth(6).inner_text() == second
    page.tab.get_by_role("button", name="Keep these words").click()
    page.until("document.querySelector('.sentence input').value.startsWith('A tall man is')")
    assert (
        page.tab.locator(".sentence input").input_value()
        == f"A tall man is {first} a {second} on the beach."
    )


def test_keys_are_enough(page):
    page.open("#/fill?text=A+man+is+riding+a+horse.&blanks=&candidates=64")
    page.tab.wait_for_selector(".words button")
    page.tab.locator(".sentence input").focus()
    for _ in range(4):
        page.tab.keyboard.press("Tab")
    page.tab.keyboard.press("Enter")
    page.tab.keyboard.press("Tab")
    page.tab.keyboard.press("Tab")
    page.tab.keyboard.press("Space")
    page.settled()
    assert page.tab.locator(".words button.word[aria-pressed=true]").count() == 2
    heat(page).first.focus()
    page.tab.keyboard.press("ArrowRight")
    page.tab.keyboard.press("ArrowDown")
    focused = page.tab.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == heat(page).nth(15).get_attribute("aria-label")
    assert focused.split(":")[0] in page.tab.locator(".readout").inner_text()


def test_run_pause_and_scrub_a_chain(page):
    page.open(
        "#/sample?text=The+old+man+walked+his+dog.&blanks=1,2,3,4,5,6&chains=2&sweeps=6&speed=2&start=sentence"
    )
    page.until("document.querySelectorAll('.chain').length === 2")
    page.until(
        "Number(document.querySelector('input[type=range]').value) > 2"
    )  # of 36 steps, two a second
    page.tab.get_by_role("button", name="Pause").click()
    scrub = page.tab.get_by_label("step of the chain")
    at = int(scrub.input_value())
    page.tab.wait_for_timeout(1200)
    assert int(scrub.input_value()) == at, "a paused chain stands still"
    page.tab.get_by_role("button", name="Back one step").click()
    assert int(scrub.input_value()) == at - 1
    scrub.fill("0")
    assert (
        page.tab.locator(".chain").first.inner_text().split()[1:]
        == "The old man walked his dog .".split()
    )
    page.until("document.querySelector('.stack[data-passes]')")
    scrub.fill(scrub.get_attribute("max"))
    texts = page.tab.locator(".chain").all_inner_texts()
    assert all(text.split()[1] == "The" for text in texts), "what is held does not change"
    assert "sweep 6" in page.tab.locator("output").inner_text()
    facts = page.tab.locator("dl.facts").inner_text()
    assert re.search(r"accepted\s+\d", facts)
    assert "leaves exp(-E / T) invariant" in page.tab.locator(".verdict").inner_text()
    page.shot("sample")


def test_a_bad_request_is_a_readable_line(page, address):
    page.open(
        "#/fill?text=" + "+".join(["word"] * 12) + "&blanks=0,1,2,3,4,5,6,7,8,9&candidates=64"
    )
    message = page.tab.locator(".error").inner_text()
    assert message == "The text has 10 blanks, and the page takes 8: blank fewer words."
    page.open("#/dependence?text=%00")
    assert "control character" in page.tab.locator(".error").inner_text()
    page.console[:] = [
        line for line in page.console if "422" not in line
    ]  # the browser itself notes a refused request


def test_dependence_has_arcs_and_the_joint_of_a_pair(page):
    page.open("#/dependence?text=She+drank+a+cup+of+coffee.&candidates=8")
    page.settled("svg.arcs .arc")
    words = page.tab.locator("svg.arcs .word tspan").count()
    assert page.tab.locator("svg.arcs .arc").count() == words * (words - 1) / 2
    page.tab.wait_for_selector("svg.heat")
    second = page.tab.locator("[aria-label='Strongest pairs'] tbody button").nth(1)
    words = second.inner_text()
    second.click()
    page.until(
        "(words) => document.querySelector('[aria-label=\"the chosen pair\"] h2')?.textContent ==="
        " words",
        words,
    )
    page.tab.wait_for_selector("[aria-label='the chosen pair'] svg.heat")
    page.tab.get_by_role("button", name="… and incompatibility").click()
    assert "from any joint" in page.tab.locator(".key").first.inner_text()


def test_score_two_sentences(page):
    page.open("#/score")
    page.tab.wait_for_selector("svg[aria-label^='the first against']")
    assert "the first text is better" in page.tab.locator(".lead").first.inner_text()
    differing = page.tab.locator("svg[aria-label^='the first against'] .differs text.word")
    assert differing.all_text_contents() == ["are", "is"]
    page.tab.get_by_label("pll_word").check()
    page.tab.wait_for_selector("tbody td:text-is('pll_word')")


def test_the_interface_page_lists_every_operation(page):
    page.tab.goto(page.address + "api")
    page.tab.wait_for_selector("code:text-is('POST /api/fill')")
    paths = page.tab.evaluate(
        "async () => Object.values((await (await fetch('/openapi.json')).json()).paths)"
    )
    assert page.tab.locator("section.card").count() == sum(map(len, paths)) > 15


def test_the_frame_of_an_address_is_shown_until_a_person_goes_on(page):
    sample = "#/sample?text=The+old+man+walked.&blanks=1,2&chains=1&sweeps=3&speed=240"
    finished = "document.querySelector('.stack[data-passes]')"
    page.open(f"{sample}&at=4")
    page.until(finished)
    assert page.tab.locator("output").inner_text() == "step 4 of 6, sweep 2"
    page.tab.get_by_role("button", name="Step on").click()
    assert "at=5" in page.tab.evaluate("location.hash")
    page.tab.reload()
    page.until(finished)
    assert page.tab.locator("output").inner_text() == "step 5 of 6, sweep 3"
    page.tab.get_by_role("button", name="Play").click()
    page.until("document.querySelector('output').textContent === 'step 6 of 6, sweep 3'")
    assert "at=" not in page.tab.evaluate("location.hash")
    page.open(f"{sample}&at=400")
    page.until(finished)
    assert page.tab.locator("output").inner_text() == "step 6 of 6, sweep 3", "it has no more"
