"""Every view in light and dark, wide and narrow: no serious fault of accessibility, nothing wider than the window."""

from __future__ import annotations

import pytest

axe = pytest.importorskip("axe_playwright_python.sync_playwright")
pytestmark = pytest.mark.page
FILL = "#/fill?text=A+woman+is+reading+a+book+in+the+park.&blanks=3,5&size=128"
READY = {
    "fill": (FILL, "table.heat"),
    "dependence": ("#/dependence?text=She+drank+hot+coffee+slowly.&candidates=10", "[aria-label='the chosen pair'] table.heat"),
    "sample": ("#/sample?chains=2&sweeps=4&speed=240", ".words button"),
    "score": ("#/score", "table.aligned"),
    "runs": ("#/runs", "svg.trace"),
    "api": ("api", "section.card table"),
}
LOOKS = [("light", 1280), ("dark", 1280), ("light", 420), ("dark", 420)]


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
@pytest.mark.parametrize("view", READY)
def test_a_view_is_accessible_and_fits(open_page, address, view, scheme, width):
    page = open_page(color_scheme=scheme)
    page.tab.set_viewport_size({"width": width, "height": 900})
    hash, ready = READY[view]
    page.tab.goto(address + hash)
    page.tab.wait_for_selector(ready)
    if view == "fill":
        page.until("document.querySelector('.status span').textContent === ''")
        page.tab.locator("ol.bars").first.locator("button").nth(1).click()
        page.tab.wait_for_selector("h3:has-text('given')")
    if view == "sample":
        page.tab.get_by_role("button", name="Run").click()
        page.until("document.querySelector('.status').textContent.includes('passes of the model')")
        page.tab.wait_for_timeout(300)
    page.tab.wait_for_timeout(600)
    found = axe.Axe().run(page.tab).response["violations"]
    serious = [f"{v['id']}: {v['nodes'][0]['html'][:160]}" for v in found if v["impact"] in ("serious", "critical")]
    assert serious == []
    assert page.tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.shot(f"{view}-{scheme}-{'wide' if width > 1000 else 'narrow'}")
