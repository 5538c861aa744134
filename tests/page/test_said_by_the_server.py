"""Every number on the page is a text that the server wrote: no script formats one."""

import json
import re

import pytest

pytestmark = pytest.mark.page
VIEWS = {
    "one blank": (
        "#/fill?text=A+man+is+riding+a+horse.&blanks=3",
        "[aria-label='best completions']",
    ),
    "two blanks": ("#/fill?text=A+man+is+riding+a+horse.&blanks=3,5&candidates=32", "svg.heat"),
    "a pin": (
        "#/fill?text=A+man+is+riding+a+horse.&blanks=3,5&candidates=32&pin=0:0:riding",
        "svg.heat",
    ),
    "three blanks": (
        "#/fill?text=A+man+is+riding+a+horse.&blanks=1,3,5",
        "[aria-label='best completions']",
    ),
    "dependence": ("#/dependence?text=She+drank+a+cup+of+coffee.&candidates=8", "svg.arcs"),
    "score": ("#/score?score=pll,energy_raw", "svg.profile"),
    "sample": ("#/sample?text=The+old+man+slept.&blanks=1,2&sweeps=5&speed=240", ".verdict"),
    "generate": (
        "#/generate?text=The+old+man+slept.&blanks=1,2&speed=240",
        "[aria-label='texts'] td",
    ),
    "batch": ("#/batch", "table.data td"),
}
SHOWN = """() => {
  const stage = document.querySelector(".stack");
  const walker = document.createTreeWalker(stage, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode.data);
  for (const one of stage.querySelectorAll("[title], [aria-label]")) {
    texts.push(one.getAttribute("title") ?? "", one.getAttribute("aria-label") ?? "");
  }
  return texts;
}"""


class Answers:
    """Everything that the server answers to a tab, as texts."""

    def __init__(self, page) -> None:
        self._bodies: list[str] = []
        page.tab.route("**/api/**", self._pass_on)

    def _pass_on(self, route) -> None:
        response = route.fetch(timeout=180_000)  # a stream of events as a whole
        self._bodies.append(response.text())
        route.fulfill(response=response)

    def texts(self) -> set[str]:
        """All texts in all answers and events."""
        found: set[str] = set()
        for body in self._bodies:
            for value in values_of(body):
                found |= set(texts_in(value))
        return found


def values_of(body: str) -> list[object]:
    """The value of an answer, or those of its events."""
    if body.startswith(("{", "[")):
        return [json.loads(body)]
    return [json.loads(data) for data in re.findall(r"^data: (.*)$", body, re.MULTILINE)]


def texts_in(value: object) -> list[str]:
    """All texts in a value of JSON, its keys, too."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, inside in value.items() for text in (key, *texts_in(inside))]
    if isinstance(value, list):
        return [text for inside in value for text in texts_in(inside)]
    return []


NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e-?\d+)?")


def numbers_not_said(shown: list[str], said: set[str]) -> list[str]:
    """The texts that have a number which is in no text of the server."""
    known = {number for text in said for number in NUMBER.findall(text)}
    return [text for text in shown if not set(NUMBER.findall(text)) <= known]


@pytest.mark.parametrize("view", VIEWS)
def test_every_number_of_a_view_is_a_text_of_the_server(page, view):
    address, ready = VIEWS[view]
    answers = Answers(page)
    page.open(address)
    page.settled(ready)
    shown = page.tab.evaluate(SHOWN)
    assert sum(bool(re.search(r"\d", text)) for text in shown) > 3, "numbers are shown"
    assert numbers_not_said(shown, answers.texts()) == []


def test_a_number_that_a_script_writes_is_found():
    assert numbers_not_said(["3.14 nats"], {"3.142", "nats"}) == ["3.14 nats"]
    assert numbers_not_said(["1,200 passes"], {"1200 passes"}) == ["1,200 passes"]
    assert numbers_not_said(["3.14"], {"it is 3.14 nats"}) == []
