"""A list that is pasted, or a file that is dropped: scored, compared or filled, as a table and
as a file.
"""

import csv
from io import StringIO
from pathlib import Path

import pytest

pytestmark = pytest.mark.page
PAIRS = [
    ("The keys to the door are here.", "The keys to the door is here."),
    ('She said "no", and left.', "She say no, and left."),
    ("The dogs bark.", "The dogs barks."),
]


def chosen(page, name, text):
    page.open("#/batch")
    page.tab.wait_for_selector("[aria-label='rows of the batch'] tbody tr")
    page.tab.locator("input[type=file]").set_input_files(
        {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
    )


def table(page):
    """The rows of the file that the card gives."""
    box = page.tab.get_by_label("batch", exact=True)
    box.locator("summary").click()
    with page.tab.expect_download() as wait:
        box.get_by_role("button", name="CSV").click()
    return list(csv.DictReader(StringIO(Path(wait.value.path()).read_bytes().decode())))


def test_pairs_of_a_file_are_scored_as_the_library_does(page, english):
    import unmask

    out = StringIO()
    csv.writer(out).writerows([("sentence_good", "sentence_bad"), *PAIRS])
    chosen(page, "pairs.csv", out.getvalue())
    page.tab.wait_for_selector("h2:text-is('pairs.csv')")
    known = [
        row["pll"]
        for row in unmask.score([one for pair in PAIRS for one in pair], "pll", model=english).rows
    ]
    right = sum(good > bad for good, bad in zip(known[::2], known[1::2], strict=True))
    accuracy = page.tab.locator("[aria-label='of the whole batch'] tbody tr").last.inner_text()
    assert f"{100 * right / 3:.1f}" in accuracy
    rows = table(page)
    assert [(row["sentence_good"], row["sentence_bad"]) for row in rows] == PAIRS
    assert [float(row["good_pll"]) for row in rows] == pytest.approx(known[::2], abs=1e-3)


def test_a_pasted_list_is_filled(page, english):
    import unmask

    page.open("#/batch")
    page.tab.wait_for_selector("[aria-label='rows of the batch'] tbody tr")
    page.tab.locator("textarea").fill("She plays the ___.\nHe drank a cup of [MASK].")
    page.tab.get_by_role("button", name="Compute").click()
    page.until(
        "document.querySelectorAll('[aria-label=\"rows of the batch\"] tbody tr').length === 2"
    )
    page.tab.wait_for_selector("th:text-is('best')")
    best = unmask.fill("He drank a cup of [MASK].", english, top=1).completions[0].text
    assert table(page)[1]["best"] == best


def test_a_file_that_is_edited_is_read_as_before(page):
    """A table of texts, too, whose header would be scored as a text of a list."""
    for name, content, more, count in (
        (
            "pairs.csv",
            "sentence_good,sentence_bad\nThe dogs bark.,The dogs barks.\n",
            "She sings.,She sing.",
            2,
        ),
        ("mine.csv", "id,text\n1,The dogs bark.\n", "2,She sings.", 2),
    ):
        chosen(page, name, content)
        page.tab.wait_for_selector(f"h2:text-is('{name}')")
        box = page.tab.locator("textarea")
        box.press("Control+End")
        box.press_sequentially(more)
        page.tab.get_by_role("button", name="Compute").click()
        page.tab.wait_for_selector(f"h2:text-is('{name}, edited')")
        assert page.tab.locator("[aria-label='rows of the batch'] tbody tr").count() == count
    assert "id" not in [row["text"] for row in table(page)]
    assert "Read as a .csv table." in page.tab.get_by_label("batch", exact=True).inner_text()
    page.tab.get_by_label("Read as").select_option("lines")
    page.tab.wait_for_selector("p.note:text-is('Read as one text per line.')")
    assert page.tab.locator("[aria-label='rows of the batch'] tbody tr").count() == 3
    box.fill("")
    assert page.tab.get_by_label("Read as").input_value() == ""


def test_a_file_in_another_encoding_is_refused(page):
    chosen(page, "latin.csv", "text\nA cat.\n")
    page.tab.wait_for_selector("h2:text-is('latin.csv')")
    content = "text\n\xc4pfel.\n".encode("latin-1")
    file = {"name": "latin.csv", "mimeType": "text/plain", "buffer": content}
    page.tab.locator("input[type=file]").set_input_files(file)
    page.tab.wait_for_selector(".error")
    assert (
        page.tab.locator(".error").inner_text()
        == "latin.csv is not a text in UTF-8: save it as one."
    )


def test_what_cannot_be_read_is_said_with_the_name_of_the_file(page):
    chosen(page, "mine.jsonl", "[")
    page.tab.wait_for_selector(".error")
    assert page.tab.locator(".error").inner_text().startswith("Mine.jsonl line 1")
    page.console[:] = [line for line in page.console if "422" not in line]


def test_the_list_is_there_after_a_reload_and_another_view(page):
    chosen(page, "mine.csv", "id,text\n1,The dogs bark.\n")
    page.tab.wait_for_selector("h2:text-is('mine.csv')")
    page.tab.get_by_role("navigation").get_by_role("link", name="Score").click()
    page.tab.wait_for_selector(".scored")
    page.tab.get_by_role("navigation").get_by_role("link", name="Batch").click()
    page.tab.wait_for_selector("h2:text-is('mine.csv')")
    page.tab.reload()
    page.tab.wait_for_selector("h2:text-is('mine.csv')")
    assert "The dogs bark." in page.tab.locator("textarea").input_value()


def test_a_file_that_is_too_large_is_refused(page):
    chosen(page, "large.txt", "a cat .\n" * 130_000)
    page.tab.wait_for_selector(".error")
    known = page.tab.evaluate("async () => (await (await fetch('api/about')).json()).lists")
    assert page.tab.locator(".error").inner_text() == known["too_large"]
    assert known["taken"] in page.tab.locator("label.file").inner_text()


def test_a_list_that_does_not_fit_is_not_replaced_by_an_older_one(page):
    chosen(page, "mine.csv", "id,text\n1,The dogs bark.\n")
    page.tab.wait_for_selector("h2:text-is('mine.csv')")
    page.tab.evaluate(
        "() => { Storage.prototype.setItem = () => { throw new DOMException('', "
        "'QuotaExceededError'); }; }"
    )
    page.tab.locator("textarea").fill("She sings.")
    page.tab.reload()
    page.tab.wait_for_selector("[aria-label='rows of the batch'] tbody tr")
    assert "The dogs bark." not in page.tab.locator("textarea").input_value()
    assert page.tab.locator("h2:text-is('mine.csv')").count() == 0


def test_a_text_can_be_dragged_and_a_file_dropped(page):
    page.open("#/batch")
    page.tab.wait_for_selector("[aria-label='rows of the batch'] tbody tr")
    taken = page.tab.evaluate(
        "() => ['text', 'file'].map((kind) => { const dataTransfer = new DataTransfer();"
        " if (kind === 'text') dataTransfer.setData('text/plain', 'a cat');"
        " else dataTransfer.items.add(new File(['She sings.'], 'mine.txt'));"
        " return ['dragover', 'drop'].map((name) => { const event = new DragEvent(name,"
        " { dataTransfer, bubbles: true, cancelable: true });"
        " document.querySelector('textarea').dispatchEvent(event);"
        " return event.defaultPrevented; }); })"
    )
    assert taken == [[False, False], [True, True]]
    page.tab.wait_for_selector("h2:text-is('mine.txt')")
    assert page.tab.locator("textarea").input_value() == "She sings."


def test_the_same_file_can_be_chosen_again_and_an_empty_list_has_none(page):
    chosen(page, "mine.csv", "text\nThe dogs bark.\n")
    page.tab.wait_for_selector("h2:text-is('mine.csv')")
    files = "document.querySelector('input[type=file]').files.length"
    assert page.tab.evaluate(files) == 1
    page.tab.locator("textarea").fill("")
    assert page.tab.evaluate(files) == 0
    file = {"name": "other.csv", "mimeType": "text/plain", "buffer": b"text\nShe sings.\n"}
    page.tab.locator("input[type=file]").set_input_files(file)
    page.tab.wait_for_selector("h2:text-is('other.csv')")
    page.tab.evaluate(
        "() => { const input = document.querySelector('input[type=file]');"
        " input.addEventListener('click', (event) => event.preventDefault()); input.click(); }"
    )
    assert page.tab.evaluate(files) == 0, "else the same file again would change nothing"


HELD = """() => {
  window.held = {};
  const read = File.prototype.arrayBuffer;
  File.prototype.arrayBuffer = async function () {
    const isRead = await new Promise((end) => { window.held[this.name] = end; });
    if (!isRead) throw new DOMException("", "NotFoundError");
    return read.call(this);
  };
}"""


def choose(page, name, text):
    file = {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
    page.tab.locator("input[type=file]").set_input_files(file)
    page.until("(name) => name in window.held", name)


@pytest.mark.parametrize("is_read", [True, False])
def test_of_two_files_the_one_that_was_chosen_last_is_read(page, is_read):
    page.open("#/batch")
    page.tab.wait_for_selector("[aria-label='rows of the batch'] tbody tr")
    page.tab.evaluate(HELD)
    choose(page, "first.txt", "The dogs bark.")
    choose(page, "second.txt", "She sings.")
    page.tab.evaluate("() => window.held['second.txt'](true)")
    page.tab.wait_for_selector("h2:text-is('second.txt')")
    page.tab.evaluate("(isRead) => window.held['first.txt'](isRead)", is_read)
    page.tab.evaluate("() => new Promise((next) => setTimeout(next))")
    assert page.tab.locator("h2:text-is('second.txt')").count() == 1
    assert page.tab.locator(".error").count() == 0
    assert page.tab.locator("textarea").input_value() == "She sings."


def test_what_is_typed_while_a_file_is_read_stays(page):
    page.open("#/batch")
    page.tab.wait_for_selector("[aria-label='rows of the batch'] tbody tr")
    page.tab.evaluate(HELD)
    choose(page, "first.txt", "The dogs bark.")
    box = page.tab.locator("textarea")
    box.press("Control+End")
    page.tab.keyboard.insert_text("\nShe sings.")
    typed = box.input_value()
    assert page.tab.locator("input[type=file]").input_value() == "", "the list is not of this file"
    page.tab.evaluate("() => window.held['first.txt'](true)")
    page.tab.evaluate("() => new Promise((next) => setTimeout(next))")
    assert box.input_value() == typed


def test_a_list_that_is_pasted_over_a_file_is_not_read_as_the_file_was(page):
    chosen(page, "mine.csv", "id,text\n1,The dogs bark.\n")
    page.tab.wait_for_selector("h2:text-is('mine.csv')")
    box = page.tab.locator("textarea")
    box.press("Control+A")
    page.tab.keyboard.insert_text("text\nShe sings.")  # one input, as a paste is
    page.tab.get_by_role("button", name="Compute").click()
    page.tab.wait_for_selector("h2:text-is('The list')")
    assert [row["text"] for row in table(page)] == ["text", "She sings."]


def test_how_an_empty_list_is_read_can_be_chosen(page):
    """Before the list is pasted."""
    page.open("#/batch")
    page.tab.wait_for_selector("[aria-label='rows of the batch'] tbody tr")
    box = page.tab.locator("textarea")
    box.fill("")
    way = page.tab.get_by_label("Read as")
    way.select_option("lines")
    box.focus()
    page.tab.keyboard.insert_text("text\nShe sings.")
    assert way.input_value() == "lines"
    page.tab.get_by_role("button", name="Compute").click()
    page.tab.wait_for_selector("p.note:text-is('Read as one text per line.')")


DROP = """(names) => {
  const dataTransfer = new DataTransfer();
  for (const name of names) dataTransfer.items.add(new File(["She sings."], name));
  const event = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
  const files = { types: ["Files"], files: dataTransfer.files };
  Object.defineProperty(event, "dataTransfer", { value: files });
  document.querySelector("textarea").dispatchEvent(event);
}"""


def test_a_drop_of_several_files_is_refused_and_one_of_none_is_nothing(page):
    page.open("#/batch")
    page.tab.wait_for_selector("[aria-label='rows of the batch'] tbody tr")
    before = page.tab.locator("textarea").input_value()
    page.tab.evaluate(DROP, [])
    assert page.tab.locator(".error").count() == 0
    page.tab.evaluate(DROP, ["one.txt", "two.txt"])
    page.tab.wait_for_selector(".error:text-is('A list is one file: drop them one at a time.')")
    assert page.tab.locator("textarea").input_value() == before


def test_a_file_that_is_still_read_does_not_replace_a_refusal(page):
    page.open("#/batch")
    page.tab.wait_for_selector("[aria-label='rows of the batch'] tbody tr")
    before = page.tab.locator("textarea").input_value()
    page.tab.evaluate(HELD)
    choose(page, "first.txt", "The dogs bark.")
    page.tab.evaluate(DROP, ["one.txt", "two.txt"])
    page.tab.evaluate("() => window.held['first.txt'](true)")
    page.tab.evaluate("() => new Promise((next) => setTimeout(next))")
    assert page.tab.locator(".error").count() == 1
    assert page.tab.locator("textarea").input_value() == before


def test_the_chooser_does_not_name_a_file_that_was_refused(page):
    chosen(page, "large.txt", "a cat .\n" * 130_000)
    page.tab.wait_for_selector(".error")
    assert page.tab.locator("input[type=file]").input_value() == ""
