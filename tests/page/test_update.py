"""`update` draws again and keeps what is in both drawings: the element, the keyboard, what a person
opened; in a page with nothing else.
"""

from pathlib import Path

import pytest

import unmask.surfaces.serving

pytestmark = pytest.mark.page
PAGE = Path(unmask.surfaces.serving.__file__).parent / "page"


@pytest.fixture
def drawn(browser, address):
    """Runs a function of JavaScript, which gets an empty box, `update`, `h` and `lasting`."""
    tab = browser.new_page()
    tab.goto(f"{address}api")

    def run(body: str):
        return tab.evaluate(
            "async () => {"
            " const { update, lasting } = await import('/page/drawing/update.js');"
            " const { h } = await import('/page/drawing/dom.js');"
            " const box = h('div', {}); document.body.append(box);"
            f" {body} }}"
        )

    yield run
    tab.close()


def test_an_element_with_the_same_key_stays_and_gets_what_the_new_one_has(drawn):
    assert drawn("""
        const draw = (text, act) => update(
            box, h("button", { "data-key": "one", title: text, onclick: act }, text));
        const said = [];
        draw("old", () => said.push("old"));
        const [button] = box.children;
        draw("new", () => said.push("new"));
        button.click();
        return [box.children[0] === button, button.title, button.textContent, said];
    """) == [True, "new", "new", ["new"]]


def test_what_is_not_drawn_again_goes(drawn):
    assert drawn("""
        const said = [];
        const inside = ["one ", h("b", {}, "two")];
        update(box, h("p", { title: "a", onclick: () => said.push(1) }, inside), h("i", {}));
        update(box, h("p", {}, "three"));
        box.children[0].click();
        return [box.innerHTML, said];
    """) == ["<p>three</p>", []]


def test_the_keyboard_stays_where_elements_are_added_moved_or_removed(drawn):
    assert drawn("""
        const key = (name) => h("button", { "data-key": `key:${name}` }, name);
        const keys = (...names) => names.map(key);
        const at = () => document.activeElement.dataset.key ?? document.activeElement.tagName;
        update(box, keys("a", "b", "c"));
        box.children[1].focus();
        const heard = [];
        update(box, keys("x", "b", "c")); heard.push(at());
        update(box, keys("b")); heard.push(at());
        update(box, keys("a", "b", "d")); heard.push(at());
        update(box, keys("a", "d")); heard.push(at());
        return heard;
    """) == ["key:b", "key:b", "key:b", "key:a"]


def test_the_keyboard_goes_to_nothing_of_another_kind(drawn):
    assert (
        drawn("""
        update(box, h("button", { "data-key": "word:1" }, "a"));
        box.children[0].focus();
        update(box, h("button", { "data-key": "bar:1" }, "a"));
        return document.activeElement.tagName;
    """)
        == "BODY"
    )


def test_what_a_person_opened_stays_open(drawn):
    assert drawn("""
        const inside = (title) => [h("summary", {}, "Save"), h("p", {}, title)];
        const draw = (title) => update(box, h("details", { title }, inside(title)));
        draw("one");
        box.children[0].open = true;
        draw("two");
        return [box.children[0].open, box.children[0].title];
    """) == [True, "two"]


def test_values_of_fields_follow_the_drawing(drawn):
    assert drawn("""
        const option = (one, value) => h("option", { value: one, selected: one === value }, one);
        const options = (value) => ["a", "b"].map((one) => option(one, value));
        const draw = (value, checked) => update(
            box, h("select", {}, options(value)), h("input", { type: "checkbox", checked }));
        draw("a", true);
        box.children[0].value = "b"; box.children[1].checked = false;
        draw("a", true);
        const back = [box.children[0].value, box.children[1].checked];
        draw("b", false);
        return [...back, box.children[0].value, box.children[1].checked];
    """) == ["a", True, "b", False]


def test_a_lasting_element_is_placed_as_it_is(drawn):
    assert drawn("""
        const own = lasting(h("p", {}, "mine"));
        update(box, h("section", {}, h("p", {}, "other"), own));
        own.textContent = "changed";
        update(box, h("section", {}, h("p", {}, "other"), own, h("p", {}, "more")));
        return [box.contains(own), box.textContent];
    """) == [True, "otherchangedmore"]


def test_a_figure_is_drawn_again_at_its_width(drawn):
    assert drawn("""
        const { svg } = await import('/page/drawing/dom.js');
        const { figure } = await import('/page/drawing/figure.js');
        const picture = (width, text) =>
            svg("svg", { width }, svg("text", { "data-key": "t" }, text));
        const draw = (text) => update(box, figure((width) => picture(width, text), "a"));
        draw("one");
        await new Promise((next) => setTimeout(next, 300));
        const one = box.querySelector("text");
        draw("two");
        const width = Number(box.querySelector("svg").getAttribute("width"));
        return [box.querySelector("text") === one, one.textContent, width > 100];
    """) == [True, "two", True]


def test_a_figure_and_a_plain_box_do_not_take_each_others_part(drawn):
    assert drawn("""
        const { svg } = await import('/page/drawing/dom.js');
        const { figure } = await import('/page/drawing/figure.js');
        const picture = () => figure((width) => svg("svg", { width }), "a");
        const wait = () => new Promise((next) => setTimeout(next, 300));
        update(box, picture());
        await wait();
        update(box, h("div", {}, "text"), picture());
        await wait();
        const both = [box.children[0].textContent, box.children[1].querySelectorAll("svg").length];
        update(box, picture());
        await wait();
        return [...both, box.querySelectorAll("svg").length, box.textContent];
    """) == ["text", 1, 1, ""]


def test_a_list_that_grows_keeps_its_choice(drawn):
    assert (
        drawn("""
        const option = (one, value) => h("option", { value: one, selected: one === value }, one);
        const draw = (value, ...all) => update(
            box, h("select", {}, all.map((one) => option(one, value))));
        draw("a", "a", "b");
        draw("d", "a", "b", "c", "d");
        return box.children[0].value;
    """)
        == "d"
    )


def test_what_a_person_closed_stays_closed(drawn):
    assert drawn("""
        const draw = (title) => update(
            box, h("details", { title, open: true }, h("summary", {}, "Save")));
        draw("one");
        box.children[0].open = false;
        draw("two");
        return [box.children[0].open, box.children[0].title];
    """) == [False, "two"]


def test_what_is_being_typed_stays_and_any_other_field_follows(drawn):
    assert drawn("""
        const draw = (value) => update(box, h("input", { type: "number", value, "data-key": "n" }));
        draw(3);
        const [field] = box.children;
        field.focus();
        field.value = "17";
        draw(4);
        const typed = field.value;
        field.blur();
        draw(5);
        return [typed, field.value];
    """) == ["17", "5"]


def test_a_number_that_is_refused_says_so_also_after_it_was_drawn_again(drawn):
    assert drawn("""
        const { number } = await import('/page/drawing/controls.js');
        const taken = [];
        const bounds = { min: 1, max: 16, step: 1, said: "1 to 16" };
        const draw = () => update(box, number("Chains", "3", bounds, (value) => taken.push(value)));
        draw();
        draw();
        const field = box.querySelector("input");
        field.value = "17";
        field.dispatchEvent(new Event("change"));
        const refused = box.querySelector("small").textContent;
        field.value = "5";
        field.dispatchEvent(new Event("change"));
        return [refused, box.querySelector("small").textContent, taken];
    """) == ["1 to 16: 3 is used", "", [5]]


def test_the_keyboard_stays_with_an_element_that_is_moved(drawn):
    assert (
        drawn("""
        const key = (name) => h("button", { "data-key": `key:${name}` }, name);
        update(box, ["a", "b", "c"].map(key));
        box.children[2].focus();
        update(box, ["c", "b", "a"].map(key));
        return document.activeElement.dataset.key;
    """)
        == "key:c"
    )


def test_no_view_draws_in_another_way():
    """Boxes that a view keeps up to date itself are few, and hold no control."""
    for file in [*PAGE.glob("views/*.js"), PAGE / "view.js"]:
        text = file.read_text(encoding="utf-8")
        assert "activeElement" not in text, file.name
        assert 'addEventListener("focus' not in text, file.name
