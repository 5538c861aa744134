"""Drawings by themselves, in a page with nothing else, and the files that are made of them."""

from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.page
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def alone(browser, address):
    """Runs a function of JavaScript in a page without a view."""
    tab = browser.new_page()
    tab.goto(f"{address}api")
    yield lambda body: tab.evaluate(f"async () => {{ {body} }}")
    tab.close()


def test_a_map_with_long_names_has_its_cells_inside(alone):
    widest, corners = alone("""
        const { heatmap } = await import("/page/drawing/heatmap.js");
        const head = (id) => ({ id, label: "a", title: "a", number: "", share: null, mark: null });
        const heads = [0, 1, 2].map(head);
        const cells = heads.map(() => heads.map(() => ({ name: "", numbers: "" })));
        const shares = heads.map(() => heads.map(() => 0.5));
        const layer = { name: "one", shares, signed: false, scale: "", ticks: [] };
        const corner = ["long".repeat(30), "long".repeat(30)];
        const grid = {
          label: "", corner, rows: heads, columns: heads, layers: [layer], shown: "one", cells,
          edges: [],
        };
        const drawn = heatmap(grid, {}).drawing(300);
        const ends = [...drawn.querySelectorAll("[data-at]")].map(
            (cell) => Number(cell.getAttribute("x")) + Number(cell.getAttribute("width")));
        const corners = [...drawn.querySelectorAll("g > .axis")].map((text) => text.textContent);
        return [Math.max(...ends), corners];
    """)
    assert 150 < widest <= 300
    assert [corner.split("…")[1] for corner in corners[:2]] == [" ↓", " →"]


def test_residues_from_right_to_left_are_numbered(alone):
    numbers = alone("""
        const { profile } = await import("/page/drawing/profile.js");
        const bar = { texts: ["א"], share: 0.5, number: "", title: "", differs: false };
        const drawn = { label: "", text: "א".repeat(40), bars: Array(40).fill(bar), scale: "1" };
        const figure = profile(drawn, { letters: true }).drawing(600);
        return [...figure.querySelectorAll(".column .axis")].map((text) => text.textContent);
    """)
    assert numbers == ["1", "10", "20", "30", "40"]


def test_a_single_letter_is_not_cut(alone):
    assert alone("""
        const { clipped } = await import("/page/drawing/text.js");
        return [clipped("W", 1, 13), clipped("Wide", 1, 13)];
    """) == ["W", "W…"]


def test_a_file_of_a_picture_has_the_ends_of_its_lines_and_what_is_underlined(page):
    page.open("#/dependence?text=She+drank+tea.&candidates=8")
    page.settled("svg.arcs")
    drawn = ElementTree.fromstring(page.saved("Mutual information", "SVG")[1])
    ends = {path.get("stroke-linecap") for path in drawn.iter(f"{SVG}path")}
    assert ends == {"round"}
    stands = page.tab.locator("svg.heat .head.stands").count()
    pair = page.tab.locator("[aria-label='the chosen pair'] h2").inner_text()
    drawn = ElementTree.fromstring(page.saved(pair, "SVG")[1])
    underlined = [text for text in drawn.iter(f"{SVG}text") if text.get("text-decoration")]
    assert len(underlined) == stands > 0
