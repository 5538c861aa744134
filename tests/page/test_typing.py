"""What is typed, pasted and pointed at while something else is under way."""

import pytest

pytestmark = pytest.mark.page


def pasted(page, text):
    page.tab.evaluate(
        "(text) => { const clipboardData = new DataTransfer(); clipboardData.setData('text', text);"
        " document.querySelector('.sentence input')"
        ".dispatchEvent(new ClipboardEvent('paste', {clipboardData})); }",
        text,
    )


def requests_held(page):
    """The requests that read a text, which are not answered by themselves."""
    held = []
    page.tab.route("**/api/words", lambda request: held.append(request))
    return held


def wait_for(page, held, count):
    for _ in range(600):
        if len(held) >= count:
            return
        page.tab.wait_for_timeout(50)
    raise AssertionError(f"{len(held)} requests")


def test_letters_typed_while_a_text_is_read_stay(page):
    page.open("#/score?text=A+man&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    box = page.tab.locator(".sentence input").first
    held = requests_held(page)
    box.press("End")
    box.press_sequentially(" is")
    wait_for(page, held, 1)
    answer = held[0].fetch()
    box.press_sequentially(" here")
    held[0].fulfill(response=answer)
    wait_for(page, held, 2)
    assert box.input_value() == "A man is here"
    held[1].continue_()
    page.until("document.querySelectorAll('.words button.word').length === 4")
    assert box.input_value() == "A man is here"
    assert "A+man+is+here" in page.tab.evaluate("location.hash")


def test_a_paste_right_after_a_letter_is_read(open_page, protein_address):
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    held = requests_held(page)
    page.tab.locator(".sentence input").first.press("A")
    pasted(page, ">one\nGGG\nAS\n")
    page.tab.wait_for_timeout(600)  # more than the page waits after a letter
    for request in held:
        request.continue_()
    page.until("document.querySelector('.sentence input').value === 'GGGAS'", seconds=20)
    assert len(held) == 1


def test_lines_are_pasted_where_the_cursor_is(open_page, protein_address):
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    page.tab.evaluate("document.querySelector('.sentence input').setSelectionRange(2, 3)")
    pasted(page, "gg\na\n")
    page.until("document.querySelector('.sentence input').value === 'EVGGALV'", seconds=20)


def test_blanks_come_back_when_a_refused_letter_is_deleted(open_page, protein_address):
    page = open_page(protein_address)
    page.open("#/score?text=EVQLVESGGG&blanks=2,4&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    box = page.tab.locator(".sentence input").first
    box.press("End")
    box.press("B")
    page.tab.wait_for_selector(".error")
    box.press("Backspace")
    page.tab.wait_for_selector(".scored")
    assert page.tab.locator(".words button.word[aria-pressed=true]").count() == 2
    page.console[:] = [line for line in page.console if "422" not in line]


def test_brushing_an_arc_chooses_no_pair(page):
    page.open("#/dependence?text=She+drank+tea.&candidates=8")
    page.tab.wait_for_selector("path.arc")
    weakest = page.tab.locator("path.arc").first
    weakest.dispatch_event("mouseenter")
    weakest.dispatch_event("mouseleave")
    page.tab.wait_for_timeout(500)  # more than the pointer has to rest
    assert "pair=" not in page.tab.evaluate("location.hash")
    weakest.dispatch_event("mouseenter")
    page.until("location.hash.includes('pair=')", seconds=20)


@pytest.mark.parametrize("is_before", [True, False])
def test_an_arc_of_an_older_question_chooses_no_pair_of_the_next(page, is_before):
    """Whether the pointer came onto it before the next question was asked, or after."""
    page.open("#/dependence?text=She+drank+tea.&candidates=8")
    page.settled("path.arc")
    waiting = []
    page.tab.route("**/dependence/events", lambda route: waiting.append(route))
    change = "(one) => { one.value = 'mrf'; one.dispatchEvent(new Event('change')); }"
    construction = page.tab.get_by_label("Construction", exact=True)
    weakest = page.tab.locator("path.arc").first
    if is_before:
        page.tab.evaluate(
            "([arc, box]) => { arc.dispatchEvent(new MouseEvent('mouseenter'));"
            " box.value = 'mrf'; box.dispatchEvent(new Event('change')); }",
            [weakest.element_handle(), construction.element_handle()],
        )
    else:
        construction.evaluate(change)
        page.tab.wait_for_selector(".stale")
        weakest.dispatch_event("mouseenter")
    page.tab.wait_for_timeout(500)  # more than the pointer has to rest
    assert "pair=" not in page.tab.evaluate("location.hash")
    waiting.pop().continue_()
    page.settled("path.arc")


OPTIONS = {
    "fill": ("&blanks=1,2", "Construction"),
    "dependence": ("", "Construction"),
    "sample": ("&sweeps=1", "Energy"),
    "generate": ("&n_texts=1", "Decoder"),
}


@pytest.mark.parametrize("view", OPTIONS)
def test_a_refused_text_is_still_refused_with_another_option(page, view):
    """The reason is neither lost nor replaced by another one."""
    values, label = OPTIONS[view]
    page.open(f"#/{view}?text=She+drank+tea.{values}&candidates=8")
    page.tab.wait_for_selector(".words button.word")
    page.until("document.querySelector('.status .said').textContent === ''")
    page.tab.locator(".sentence input").fill("a " * 1500)
    page.tab.wait_for_selector(".error:has-text('3,000 characters')")
    with page.tab.expect_response(f"**/{view}/events"):
        page.tab.get_by_label(label, exact=True).select_option(index=1)
    page.tab.wait_for_selector(".error:has-text('3,000 characters')")
    assert page.tab.locator(".empty").count() == 0
    page.console[:] = [line for line in page.console if "422" not in line]
