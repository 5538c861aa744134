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


def test_nothing_is_typed_into_a_text_while_another_is_pasted_over_it(open_page, protein_address):
    """The letter would be one of the text before, and the paste would be lost."""
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    box = page.tab.locator(".sentence input").first
    held = requests_held(page)
    box.press("End")
    pasted(page, "GG\nGA\n")
    wait_for(page, held, 1)
    box.press("S")
    assert box.input_value() == "EVQLV"
    held[0].continue_()
    page.until("document.querySelector('.sentence input').value === 'EVQLVGGGA'", seconds=20)
    page.tab.unroute_all()
    box.press("End")
    box.press("S")
    assert box.input_value() == "EVQLVGGGAS"


@pytest.mark.parametrize("before", ["\n", " ", "\r\n \n"])
def test_a_record_may_begin_with_empty_lines(open_page, protein_address, before):
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    pasted(page, f"{before}>one\nGGG\nAS\n")
    page.until("document.querySelector('.sentence input').value !== 'EVQLV'", seconds=20)
    assert page.tab.locator(".sentence input").first.input_value() == "GGGAS"


def test_a_letter_typed_when_the_server_comes_back_is_read(open_page, protein_address):
    """The text before it, which failed, is not read in its place."""
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    box = page.tab.locator(".sentence input").first
    page.tab.route("**/api/words", lambda route: route.abort())
    box.press("End")
    box.press("A")
    page.tab.wait_for_selector(".error button:text-is('Retry')")
    page.tab.unroute_all()
    held = requests_held(page)
    box.press("G")
    wait_for(page, held, 1)
    page.tab.get_by_role("button", name="Retry").click()
    for request in held:
        request.continue_()
    page.tab.unroute_all()
    page.until("location.hash.includes('text=EVQLVA')", seconds=20)
    page.tab.wait_for_selector(".scored")
    assert box.input_value() == "EVQLVAG"
    assert page.tab.locator(".words button.word").count() == 7
    page.console.clear()


@pytest.fixture
def refused(open_page, protein_address):
    """A view whose text has got a letter that is refused."""

    def one(hash, ready):
        page = open_page(protein_address)
        page.open(hash)
        page.tab.wait_for_selector(ready)
        page.tab.locator(".sentence input").first.press("End")
        page.tab.locator(".sentence input").first.press("B")
        page.tab.wait_for_selector(".slot .error")
        page.console[:] = [line for line in page.console if "422" not in line]
        return page

    return one


def test_a_refused_text_says_why_wherever_it_is_used(refused):
    """Its pressed words are kept for the text as it was, and none of them is asked about."""
    page = refused("#/fill?text=EVQLVESGGG&blanks=2,4&candidates=all", "svg.heat")
    reason = page.tab.locator(".slot .error").inner_text()
    page.tab.get_by_label("Residues considered", exact=True).select_option("64")
    assert page.tab.locator(".slot .error").inner_text() == reason
    page.tab.get_by_role("button", name="Copy as Python").click()
    page.until("document.querySelector('.copying [role=status]').textContent !== ''")
    assert page.tab.locator(".copying [role=status]").inner_text() == reason


def test_the_answer_to_an_older_text_does_not_come_back(refused):
    """A text is refused, and then a control draws again."""
    sample = "#/sample?text=EVQLVESGGG&blanks=2,4&chains=2&sweeps=2&speed=240"
    page = refused(sample, ".stack[data-passes]")
    assert page.tab.locator(".chain").count() == 0
    page.tab.get_by_label("Speed").select_option("8")
    assert page.tab.locator(".chain").count() == 0
    assert page.tab.locator(".slot .error").count() == 1


def test_a_question_of_an_older_text_ends_where_the_text_is_refused(refused):
    """Its answer would be drawn below the reason of the refusal."""
    long = "#/sample?text=EVQLVESGGG&chains=16&sweeps=400&speed=240"
    page = refused(long, ".chain")
    assert page.tab.locator(".status button").is_hidden()
    assert page.tab.locator(".status .said").inner_text() == ""
    assert page.tab.locator(".chain").count() == 0


def test_refused_letters_are_one_step_of_the_history(open_page, protein_address):
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    steps = page.tab.evaluate("history.length")
    box = page.tab.locator(".sentence input").first
    box.press("End")
    for letter, text in (("B", "EVQLVB"), ("J", "EVQLVBJ")):
        box.press(letter)
        page.until(
            "(text) => new URLSearchParams(location.hash.split('?')[1]).get('text') === text",
            text,
            seconds=20,
        )
    page.tab.wait_for_selector(".error")
    assert page.tab.evaluate("history.length") == steps + 1
    page.console[:] = [line for line in page.console if "422" not in line]


def test_back_leaves_a_text_that_is_refused(open_page, protein_address):
    """An address that another program wrote, in another order."""
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    page.tab.goto(page.address + "#/fill?candidates=all&cell=1:2&blanks=4,2&text=EVQLVB")
    page.tab.wait_for_selector(".slot .error")
    page.tab.evaluate("history.back()")
    page.tab.wait_for_selector(".scored")
    page.console[:] = [line for line in page.console if "422" not in line]


def test_nothing_is_asked_of_the_text_before_while_the_server_is_away(open_page, protein_address):
    """The field has another text already: an answer would be to none that is seen there."""
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    asked = []
    page.tab.on("request", lambda one: asked.append(one.url) if "score/events" in one.url else 0)
    page.tab.route("**/api/words", lambda route: route.abort())
    page.tab.route("**/api/about", lambda route: route.abort())
    page.tab.locator(".sentence input").first.press("End")
    page.tab.locator(".sentence input").first.press("A")
    page.tab.wait_for_selector(".error button:text-is('Retry')")
    page.tab.get_by_label("Unit").select_option("bits")
    page.until("location.hash.includes('unit=bits')", seconds=20)
    assert page.tab.get_by_role("button", name="Retry").count() == 1
    assert asked == []
    assert page.tab.locator(".scored").count() > 0
    page.tab.unroute_all()
    page.tab.get_by_role("button", name="Retry").click()
    page.until("document.querySelectorAll('.words button.word').length === 6", seconds=20)
    page.until("document.querySelectorAll('.stale, .slot .error').length === 0", seconds=20)
    assert len(asked) == 1
    page.console.clear()


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


def test_a_click_on_an_older_answer_chooses_no_pair_of_the_next(page):
    """On an arc, and in the list of the strongest pairs."""
    page.open("#/dependence?text=She+drank+tea.&candidates=8")
    page.settled("path.arc")
    waiting = []
    page.tab.route("**/dependence/events", lambda route: waiting.append(route))
    page.tab.get_by_label("Construction", exact=True).select_option("mrf")
    page.tab.wait_for_selector(".stale")
    page.tab.locator("path.arc").first.dispatch_event("click")
    page.tab.locator("[data-key^='pair:']").last.click()
    assert "pair=" not in page.tab.evaluate("location.hash")
    while not waiting:
        page.tab.wait_for_timeout(50)
    waiting.pop().continue_()
    page.until("document.querySelectorAll('.stale').length === 0")
    page.tab.locator("[data-key^='pair:']").last.click()
    assert "pair=" in page.tab.evaluate("location.hash")


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
    address = page.tab.evaluate("location.hash")
    page.tab.get_by_label(label, exact=True).select_option(index=1)
    page.until("(before) => location.hash !== before", address, seconds=20)
    page.tab.wait_for_selector(".error:has-text('3,000 characters')")
    assert page.tab.locator(".empty").count() == 0
    page.console[:] = [line for line in page.console if "422" not in line]


def test_a_paste_stands_in_the_field_while_the_server_is_away(open_page, protein_address):
    """A letter typed after it is added to it."""
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    box = page.tab.locator(".sentence input").first
    page.tab.route("**/api/*", lambda route: route.abort())
    pasted(page, ">one\nGGG\nAS\n")
    page.tab.wait_for_selector(".error button:text-is('Retry')")
    assert box.input_value() == "GGGAS"
    page.tab.unroute_all()
    box.press("End")
    box.press("L")
    page.until("document.querySelectorAll('.words button.word').length === 6", seconds=20)
    assert box.input_value() == "GGGASL"
    page.console.clear()


def test_a_record_that_is_refused_can_be_corrected(open_page, protein_address):
    """Its header is not joined with its first line: the whole line would be a header."""
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    box = page.tab.locator(".sentence input").first
    pasted(page, ">one\nGGG\nASB\n")
    page.tab.wait_for_selector(".slot .error")
    assert box.input_value() == "GGGASB"
    box.press("End")
    box.press("Backspace")
    page.until("document.querySelectorAll('.words button.word').length === 5", seconds=20)
    assert box.input_value() == "GGGAS"
    page.console[:] = [line for line in page.console if "422" not in line]


def test_two_records_are_refused_as_they_were_pasted(open_page, protein_address):
    page = open_page(protein_address)
    page.open("#/score?text=EVQLV&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    pasted(page, ">one\nGGG\n>two\nAS\n")
    page.tab.wait_for_selector(".slot .error:has-text('2 records')")
    page.console[:] = [line for line in page.console if "422" not in line]


def test_the_address_of_a_refused_text_has_no_blanks_of_the_text_before(open_page, protein_address):
    """They count in its words, and another model may read the refused text."""
    page = open_page(protein_address)
    page.open("#/score?text=EVQLVESGGG&blanks=2,4&second=&score=pll")
    page.tab.wait_for_selector(".scored")
    box = page.tab.locator(".sentence input").first
    box.press("Home")
    box.press("B")
    page.until("location.hash.includes('text=BEVQLVESGGG')", seconds=20)
    assert "blanks=" not in page.tab.evaluate("location.hash")
    box.press("Backspace")
    page.until("location.hash.includes('text=EVQLVESGGG')", seconds=20)
    assert "blanks=2%2C4" in page.tab.evaluate("location.hash")
    page.console[:] = [line for line in page.console if "422" not in line]


def test_letters_typed_before_the_first_text_is_read_keep_its_blanks(page):
    held = []
    page.tab.route("**/api/words", lambda route: route.continue_() if held else held.append(route))
    page.open("#/score?text=A+man+is+here&blanks=1,3&second=&score=pll")
    wait_for(page, held, 1)
    box = page.tab.locator(".sentence input").first
    box.press("Home")
    box.press_sequentially("Now ")
    page.until("document.querySelectorAll('.words button.word').length === 5", seconds=20)
    chosen = page.tab.locator(".words button.word[aria-pressed=true]").all_inner_texts()
    assert chosen == ["man", "here"]
    assert "blanks=2%2C4" in page.tab.evaluate("location.hash")


def test_a_pin_without_a_word_is_none(open_page, protein_address):
    """As in a link that was cut off: the residue would be taken out of the sequence."""
    page = open_page(protein_address)
    page.open("#/dependence?text=EVQLVESGGG&blanks=2,4&pin=0:5:")
    page.settled("[aria-label='pairs by mutual information'] tbody tr")
    assert page.tab.locator(".words .pinned").count() == 0
    assert page.tab.get_by_text("is pinned in place of").count() == 0
