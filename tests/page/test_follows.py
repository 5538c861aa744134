"""The page follows the verb: another default, threshold and sentence of the library are those of
the page, which has none of its own.
"""

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.page
CHANGED = """
import inspect
import unmask
from unmask.surfaces.serving.drawings import dependence as drawings
from unmask.surfaces.serving.drawings import lists
from unmask.verbs import dependence, generate

declared = inspect.signature(unmask.generate)
parameters = dict(declared.parameters)
parameters["n_texts"] = parameters["n_texts"].replace(default=3)
unmask.generate.__signature__ = declared.replace(parameters=list(parameters.values()))
inspect.unwrap(unmask.generate).__kwdefaults__["n_texts"] = 3
generate.Generation.about = lambda self: ["A sentence of this test."]
dependence.LITTLE_MASS = 1.5  # no candidates hold as much
drawings.LISTED_PAIRS = 2
drawings.FAR = -1.0  # all pairs are beyond it
lists.SHOWN_ROWS = 2
unmask.serve(port=0)
"""


@pytest.fixture
def changed():
    """The address of a server whose verbs are others."""
    command = [sys.executable, "-c", CHANGED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        match = re.search(r"http://\S+/", server.stdout.readline())
        yield match[0]
        server.terminate()
        server.wait(300)


def test_a_default_a_sentence_and_a_threshold_of_a_verb_are_those_of_the_page(open_page, changed):
    page = open_page(changed)
    page.open("#/generate?text=The+old+man+slept.&blanks=1,2&speed=240")
    page.settled("[aria-label='texts'] tbody tr")
    assert page.tab.get_by_role("spinbutton", name="Texts").input_value() == "3"
    assert page.tab.locator("[aria-label='texts'] tbody tr").count() == 3
    assert "A sentence of this test." in page.tab.inner_text("main")
    page.open("#/dependence?text=She+slept.&candidates=256&colour=off")
    page.settled("svg.arcs")
    assert "about them only" in page.tab.inner_text("main")
    assert page.tab.locator("[aria-label='pairs by mutual information'] tbody tr").count() == 2
    assert page.tab.locator("path.arc.off").count() == page.tab.locator("path.arc").count() > 2
    page.open("#/batch")
    page.tab.wait_for_selector("p.note:has-text('The first 2 of')")
    assert page.tab.locator("[aria-label='rows of the batch'] tbody tr").count() == 2
