"""Two models side by side: every view shows both, and what differs."""

import pytest

pytestmark = pytest.mark.page
SEQUENCE = "EVQLVESGGG"
MASKED = "EV[MASK]L[MASK]ESGGG"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two tiny models of amino acids."""
    from tokenizers.pre_tokenizers import WhitespaceSplit

    from support.small_models import save_bert

    made = []
    for seed in (5, 6):
        folder = tmp_path_factory.mktemp("models") / f"seed-{seed}"
        made.append(
            save_bert(
                folder,
                "ACDEFGHIKLMNPQRSTVWY",
                WhitespaceSplit(),
                positions=128,
                seed=seed,
                spread=0.5,
            )
        )
    return made


@pytest.fixture(scope="module")
def two(folders):
    from page.conftest import serving

    with serving("--model", str(folders[0]), "--beside", str(folders[1])) as address:
        yield address


@pytest.fixture
def page(open_page, two):
    return open_page(two)


def differences(page):
    page.tab.wait_for_selector("[aria-label='both models'] tbody tr")
    rows = [
        row.locator("td").all_inner_texts()
        for row in page.tab.locator("[aria-label='both models'] tbody tr").all()
    ]
    return {
        name: [None if value == "-" else float(value) for value in values] for name, *values in rows
    }


def test_fill_shows_both_maps_and_their_differences(page, folders):
    import unmask

    page.open(f"#/fill?text={SEQUENCE}&blanks=2,4&beside=1")
    page.until("document.querySelectorAll('svg.heat').length === 2")
    known = [
        {
            one.text: one.log_prob
            for filling in [unmask.fill(MASKED, str(f), top=12, answers=["Q V"])]
            for one in (*filling.completions, *filling.answers)
        }
        for f in folders
    ]
    differing = differences(page)
    assert set(differing) <= set(known[0]) | set(known[1])
    for text, (first, second, apart) in differing.items():
        for value, model in ((first, known[0]), (second, known[1])):
            assert value is None or value == pytest.approx(model[text], abs=6e-4)
        assert apart is None or apart == pytest.approx(first - second, abs=1.1e-3)
    from axe_playwright_python.sync_playwright import Axe

    assert [one["id"] for one in Axe().run(page.tab).response["violations"]] == []
    page.tab.locator(".words button.word").nth(6).click()
    page.until(
        'document.querySelectorAll(\'.second [aria-label^="best completions"] tbody'
        " tr').length > 0"
    )
    page.until("document.querySelectorAll('svg.heat').length === 0")
    page.tab.go_back()
    page.until("document.querySelectorAll('svg.heat').length === 2")


def test_every_view_follows(page, folders):
    import unmask

    page.open(f"#/score?text={SEQUENCE}&second=EVQLVESGGA&score=pll&beside=1")
    known = [
        unmask.score([SEQUENCE, "EVQLVESGGA"], "pll", model=str(folder)).rows for folder in folders
    ]
    differing = differences(page)
    for n in (0, 1):
        first, second, apart = differing[f"pll, sequence {n + 1}"]
        assert first == pytest.approx(known[0][n]["pll"], abs=6e-4)
        assert second == pytest.approx(known[1][n]["pll"], abs=6e-4)
        assert apart == pytest.approx(first - second, abs=1.1e-3)
    page.open(f"#/dependence?text={SEQUENCE}&blanks=2,4,6&beside=1")
    assert len(differences(page)) == 3
    page.open(f"#/sample?text={SEQUENCE}&blanks=2,4&chains=2&sweeps=2&speed=240&beside=1")
    assert {"accepted", "energy of chain 1"} <= set(differences(page))
    page.open(f"#/mutants?text={SEQUENCE}&blanks=2,4&beside=1")
    assert all(values[2] is not None for values in differences(page).values())
    assert page.tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_head_lists_the_models(page, folders):
    import unmask

    page.open(f"#/score?text={SEQUENCE}&second=&score=pll")
    page.tab.wait_for_selector("svg.profile")
    assert page.tab.locator(".panes").count() == 0
    page.tab.get_by_label("Model", exact=True).select_option("1")
    page.until("location.hash.includes('model=1')")
    known = unmask.score([SEQUENCE], "pll", model=str(folders[1])).rows[0]["pll"]
    page.until(
        "(n) => document.querySelector(`[aria-label^='scores of'] td.n`)?.textContent === n",
        f"{known:.3f}",
    )
    page.tab.get_by_label("Beside", exact=True).select_option("0")
    page.until("document.querySelectorAll('.panes svg.profile').length === 2")
    assert page.tab.locator(".panes h2").first.inner_text() == folders[1].name


def test_a_new_answer_is_not_compared_with_an_old_one(page):
    """Between a question to the first model and that to the second, which waits a moment."""
    page.open(f"#/fill?text={SEQUENCE}&blanks=2,4&beside=1")
    page.tab.wait_for_selector("[aria-label='both models'] tbody tr")
    page.until("document.querySelectorAll('.stale, .busy').length === 0")
    page.tab.evaluate(
        "() => { const own = window.setTimeout;"
        " window.setTimeout = (work, wait) => own(work, wait === 60 ? 3000 : wait); }"
    )
    compared = []
    page.tab.on("request", lambda one: compared.append(one.url) if "differences" in one.url else 0)
    page.tab.locator(".pane ol.bars button").first.click()
    page.until("document.querySelector('.pane ol.bars button').ariaPressed === 'true'")
    page.until("document.querySelector('.status .said').textContent === ''")
    page.tab.wait_for_timeout(300)
    assert compared == []
    assert page.tab.locator(".slot.stale").count() == 1
    page.until("document.querySelectorAll('.stale, .busy').length === 0")
    assert len(compared) == 1


def test_differences_are_dimmed_until_those_of_the_new_answers_are_there(page):
    page.open(f"#/score?text={SEQUENCE}&second=&score=pll&beside=1")
    page.tab.wait_for_selector("[aria-label='both models'] tbody tr")
    page.until("document.querySelectorAll('.stale').length === 0")
    held = []
    page.tab.route("**/differences", lambda route: held.append(route))
    page.tab.get_by_label("Unit").first.select_option("bits")
    for _ in range(400):
        if held:
            break
        page.tab.wait_for_timeout(50)
    assert page.tab.locator(".slot.stale").count() == 1
    held[0].continue_()
    page.until("document.querySelectorAll('.slot.stale').length === 0")


def test_a_text_that_one_model_refuses_is_not_compared(open_page, folders, tmp_path):
    """The answer of the first model is to the text before."""
    from tokenizers.pre_tokenizers import WhitespaceSplit

    from page.conftest import serving
    from support.small_models import save_bert

    other = save_bert(
        tmp_path, "ABCDEFGHIKLMNPQRSTVWY", WhitespaceSplit(), positions=128, seed=7, spread=0.5
    )
    with serving("--model", str(folders[0]), "--beside", str(other)) as address:
        page = open_page(address)
        page.open(f"#/score?text={SEQUENCE}&second=&score=pll&beside=1")
        page.tab.wait_for_selector("[aria-label='both models'] tbody tr")
        page.until("document.querySelectorAll('.stale').length === 0")
        compared = []
        page.tab.on(
            "request", lambda one: compared.append(one.url) if "differences" in one.url else 0
        )
        page.tab.locator(".sentence input").first.press("End")
        page.tab.locator(".sentence input").first.press("B")
        page.tab.wait_for_selector(".slot .error")
        page.until(
            "document.querySelector('.pane.second svg.profile')?.closest('.stale') === null"
            " && document.querySelectorAll('.pane.second .words button.word').length === 11"
        )
        assert compared == []
        assert page.tab.locator(".slot.stale").count() == 1
        page.console[:] = [line for line in page.console if "422" not in line]
