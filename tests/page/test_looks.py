"""Every view in light and dark, wide and narrow: axe finds nothing, nothing is wider than the
window.
"""

import pytest

axe = pytest.importorskip("axe_playwright_python.sync_playwright")
pytestmark = pytest.mark.page
FILL = "#/fill?text=A+woman+is+reading+a+book+in+the+park.&blanks=3,5&candidates=128"
READY = {
    "fill": (FILL, "svg.heat"),
    "dependence": (
        "#/dependence?text=She+drank+hot+coffee+slowly.&candidates=10",
        "[aria-label='the chosen pair'] svg.heat",
    ),
    "sample": ("#/sample?chains=2&sweeps=4&speed=240", ".words button"),
    "generate": ("#/generate?n_texts=2&speed=240", "[aria-label='texts'] tbody tr"),
    "score": ("#/score", "svg[aria-label^='the first against']"),
    "batch": ("#/batch", "table.data"),
    "api": ("api", "section.card table"),
}
LOOKS = [("light", 1440), ("dark", 1440), ("light", 512), ("light", 390), ("dark", 390)]


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
@pytest.mark.parametrize("view", READY)
def test_a_view_is_accessible_and_fits(open_page, address, view, scheme, width):
    page = open_page(color_scheme=scheme, reduced_motion="reduce")
    page.tab.set_viewport_size({"width": width, "height": 900})
    hash, ready = READY[view]
    page.tab.goto(address + hash)
    page.tab.wait_for_selector(ready)
    if view == "fill":
        page.until("document.querySelector('.status .said').textContent === ''")
        page.tab.locator("ol.bars").first.locator("button").nth(1).click()
        page.tab.wait_for_selector("h3:has-text('given')")
        page.settled()
    if view == "sample":
        page.until("document.querySelector('.stack[data-passes]')")
    check(page)
    if width != 512:
        page.shot(f"{view}-{scheme}-{'wide' if width > 1000 else 'narrow'}")


def check(page):
    violations = axe.Axe().run(page.tab).response["violations"]
    assert [f"{v['id']}: {v['nodes'][0]['html'][:160]}" for v in violations] == []
    assert page.tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
@pytest.mark.parametrize("view", ["fill", "mutants"])
def test_a_protein_is_accessible_and_fits(open_page, protein_address, view, scheme, width):
    page = open_page(protein_address, color_scheme=scheme, reduced_motion="reduce")
    page.tab.set_viewport_size({"width": width, "height": 900})
    page.open(f"#/{view}")
    page.tab.wait_for_selector(
        "svg[aria-label='effects of single changes']" if view == "mutants" else "svg.heat"
    )
    page.until("document.querySelector('.status .said').textContent === ''")
    check(page)
