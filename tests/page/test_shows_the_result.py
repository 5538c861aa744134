"""The default question of each view: the page shows every sentence and every number of the result
that "Copy as Python" gives, and "Copy as command" prints them.
"""

import re
import shlex
import subprocess
import sys

import pytest

from unmask.common.errors import in_python
from unmask.surfaces.serving.names import in_request

pytestmark = pytest.mark.page
VIEWS = {
    "fill": "[aria-label='best completions']",
    "dependence": "svg.arcs",
    "score": "svg.profile",
    "sample": ".verdict",
    "generate": "[aria-label='texts'] td",
}


def without_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)


def missing(view: dict, shown: str) -> list[str]:
    """The sentences and cells of a result that are not in a text; notices are about files."""
    said = [*view["about"], *view["verdict"]]
    for table in view["tables"]:
        said += [cell for row in table["shown"] for cell in row]
    every = without_spaces(shown).replace("-", "").replace("`", "").lower()
    written = [without_spaces(text).replace("-", "").replace("`", "").lower() for text in said]
    return [text for text, as_shown in zip(said, written, strict=True) if as_shown not in every]


def result_of(python: str):
    """The result that copied lines of Python print."""
    *lines, _, _ = python.splitlines()  # the last two print
    names: dict = {}
    exec("\n".join(lines), names)
    return names["result"]


@pytest.mark.parametrize("view", VIEWS)
def test_page_python_and_command_say_the_same(page, view):
    page.open(f"#/{view}")
    page.settled(VIEWS[view])
    shown = page.tab.evaluate("document.querySelector('main').textContent")
    result = result_of(page.copied("Copy as Python"))
    assert missing(result.view(in_request), shown) == []
    command = shlex.split(page.copied("Copy as command"))
    printed = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=True
    )
    terminal = result.view(in_python)
    sentences = {**terminal, "tables": []}
    assert missing(sentences, printed.stdout) == []
    numbers = {
        cell
        for table in terminal["tables"]
        for row in table["shown"]
        for cell in row
        if re.fullmatch(r"[-\d.,% ]+", cell)
    }
    assert numbers, "there are numbers to compare"
    assert [cell for cell in numbers if cell not in printed.stdout] == []


def test_a_number_that_is_not_shown_is_found():
    view = {"about": ["one text"], "verdict": [], "tables": [{"shown": [["0.123"]]}]}
    assert missing(view, "one text nats 0.124") == ["0.123"]
    assert missing(view, "One  text\nnats 0.123") == []
