"""Questions that take long, and runs that are played: what is shown while they go on, when they
are stopped, and when the server fails.
"""

import json

import pytest

pytestmark = pytest.mark.page
SAMPLE = "#/sample?text=The+old+man+slept.&blanks=1,2&chains=2&sweeps=2&speed=240"
LONG = "#/sample?text=The+old+man+slept.&blanks=1,2&chains=16&sweeps=400&speed=240"
DONE = "document.querySelector('.stack[data-passes]')"
SCRUB = "Number(document.querySelector('[aria-label=\"step of the chain\"]')?.max)"


def event(name, value):
    """A server-sent event."""
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"


def stream(*events):
    """An answer of the server, as events."""
    return {"status": 200, "content_type": "text/event-stream", "body": "".join(events)}


@pytest.mark.parametrize(
    ("hash", "cards", "change"),
    [
        (SAMPLE, ["Texts of the chains", "How far to trust them", "Sweep by sweep"], "energy"),
        (SAMPLE.replace("sample", "generate"), ["Texts", "How the blanks were filled"], "decoder"),
    ],
)
def test_files_hold_the_question_of_what_is_shown(page, hash, cards, change):
    """While another question runs, and where it is stopped, the cards are of the one before."""
    page.open(hash)
    page.until(DONE)
    page.tab.route("**/events", lambda route: None)
    page.tab.get_by_label(change.capitalize(), exact=True).select_option(index=1)
    page.tab.wait_for_selector(".stack.stale")
    for card in cards:
        _, text = page.saved(card, "JSON")
        asked = json.loads(text)["asked"]
        assert asked["template"] == "The [MASK] [MASK] slept."
        assert change not in asked, card


def test_a_stopped_question_is_not_under_way(page):
    """Nobody works for it, and what stands there is of an older one."""
    page.open("#/score?text=It+rains.&score=pll")
    page.settled("svg.profile")
    page.tab.route("**/events", lambda route: None)
    page.tab.get_by_label("Unit").select_option("bits")
    page.tab.wait_for_selector("[aria-busy=true]")
    page.tab.get_by_role("button", name="Stop").click()
    page.stopped()
    page.until("document.querySelectorAll('[aria-busy=true]').length === 0")
    assert page.tab.locator(".stack.stale").count() == 1
    assert page.tab.locator(".busy").count() == 0


def test_a_job_that_was_stopped_elsewhere_is_not_shown_as_running(page):
    page.open("#/score?text=It+rains.&score=pll")
    page.settled("svg.profile")
    report = {"said": "1 of 9 passes", "share": 1 / 9}
    stopped = {"error": "the job was stopped", "stopped": True}
    answer = stream(event("job", {"id": "1"}), event("progress", report), event("error", stopped))
    page.tab.route("**/events", lambda route: route.fulfill(**answer))
    page.tab.get_by_label("Unit").select_option("bits")
    page.tab.wait_for_selector("button:text-is('Ask again')")
    assert page.tab.locator(".status .said").inner_text() == "Stopped."
    assert page.tab.locator(".status progress").is_hidden()


def test_a_question_that_always_fails_is_asked_four_times(page):
    """The server is there, and breaks at this question: the page does not ask it without end."""
    page.open("#/score?text=It+rains.&score=pll")
    page.settled("svg.profile")
    asked = []

    def break_off(route):
        asked.append(route)
        route.fulfill(**stream(": still working\n\n", event("job", {"id": "1"})))

    page.tab.route("**/events", break_off)
    page.tab.get_by_label("Unit").select_option("bits")
    page.tab.wait_for_timeout(15_000)  # it waits for 1.5, 3 and 6 seconds
    assert len(asked) == 4
    page.tab.wait_for_timeout(4000)
    assert len(asked) == 4
    assert page.tab.locator(".slot .error").inner_text().startswith("The answer broke off.")
    assert page.tab.locator("[aria-busy=true]").count() == 0
    page.tab.unroute_all()
    page.tab.get_by_role("button", name="Retry").click()
    page.settled("svg.profile")
    assert page.tab.locator(".slot .error").count() == 0


def test_an_answer_that_is_cut_off_can_be_asked_for_again(page):
    """Half an event is a failure of the connection, and no message of the browser is shown."""
    page.open("#/score?text=It+rains.&score=pll")
    page.settled("svg.profile")
    half = "event: answer\ndata: {"
    page.tab.route("**/events", lambda route: route.fulfill(**stream(half + "\n\n")))
    page.tab.get_by_label("Unit").select_option("bits")
    page.tab.wait_for_selector(".slot .error")
    assert page.tab.locator(".slot .error").inner_text() == "The server's answer is not JSON."


def test_an_answer_that_is_on_the_way_is_not_dropped(page):
    """Stop comes when the job has just ended: the server knows no such job any more."""
    page.open(LONG.replace("sweeps=400", "sweeps=30"))
    page.tab.wait_for_selector(".chain")
    page.tab.route("**/jobs/*", lambda route: route.fulfill(status=404, body='{"error": "?"}'))
    page.tab.get_by_role("button", name="Stop").click()
    page.until(DONE)
    assert page.tab.locator(".part").count() == 0, "all of it"
    page.console[:] = [line for line in page.console if "404" not in line]


def test_the_scrubber_of_a_paused_run_grows(page):
    page.open(LONG)
    page.until(f"{SCRUB} > 2")
    page.tab.get_by_role("button", name="Pause").click()
    scrub = page.tab.get_by_label("step of the chain")
    at = scrub.input_value()
    page.until("(reached) => " + SCRUB + " > reached + 20", int(scrub.get_attribute("max")))
    assert scrub.input_value() == at
    page.tab.get_by_role("button", name="Stop").click()


def test_a_run_is_paused_where_another_is_asked_for(page):
    """The button says what it does."""
    page.open(SAMPLE.replace("240", "2"))
    page.until(DONE)
    assert page.tab.get_by_role("button", name="Pause", exact=True).count() == 1
    page.tab.route("**/events", lambda route: None)
    page.tab.get_by_role("button", name="Run another").click()
    page.tab.wait_for_selector(".stack.stale")
    assert page.tab.get_by_role("button", name="Pause", exact=True).count() == 0
    assert page.tab.get_by_role("button", name="Play", exact=True).count() == 1


def test_a_frame_of_an_older_run_is_not_one_of_the_next(page):
    """Its number would hold the next run at that frame."""
    page.open(SAMPLE)
    page.until(DONE)
    page.until("document.querySelector('output').textContent === 'step 4 of 4, sweep 2'")
    held = []
    page.tab.route("**/sample/events", lambda route: held.append(route))
    page.tab.get_by_role("button", name="Run another").click()
    page.tab.wait_for_selector(".stack.stale")
    page.tab.get_by_role("button", name="Back one step").click()
    assert page.tab.locator("output").inner_text() == "step 3 of 4, sweep 2"
    assert "at=" not in page.tab.evaluate("location.hash")
    while not held:
        page.tab.wait_for_timeout(50)
    held.pop().continue_()
    page.until(DONE)
    page.until("document.querySelector('output').textContent === 'step 4 of 4, sweep 2'")
    page.tab.get_by_role("button", name="Back one step").click()
    page.until("location.hash.includes('at=3')")


@pytest.mark.parametrize("at", ["x", "-1", "2.5"])
def test_an_address_without_a_frame_plays(page, at):
    page.open(f"{SAMPLE}&at={at}")
    page.until(DONE)
    page.until("document.querySelector('output').textContent === 'step 4 of 4, sweep 2'")


def test_the_passes_of_a_run_are_not_said_of_the_next(page):
    page.open(SAMPLE)
    page.until(DONE)
    assert "passes of the model" in page.tab.locator("output").get_attribute("title")
    page.tab.get_by_label("Sweeps", exact=True).fill("400")
    page.tab.get_by_label("Sweeps", exact=True).press("Tab")
    page.until("document.querySelector('output').textContent.includes('of 800')")
    assert not page.tab.locator("output").get_attribute("title")
    page.tab.get_by_role("button", name="Stop").click()


def test_a_text_with_blanks_of_its_own_is_no_start(page):
    page.open(SAMPLE)
    page.until(DONE)
    start = page.tab.get_by_label("Start from")
    assert start.count() == 1
    page.open("#/sample?text=The+[MASK]+slept.&sweeps=2&chains=2&start=sentence")
    page.until(DONE)
    assert start.count() == 0


PLAYER = """async () => {
  const { Player } = await import("/page/player.js");
  const waiting = new Map();
  let number = 0;
  window.requestAnimationFrame = (tick) => {
    number += 1;
    waiting.set(number, tick);
    return number;
  };
  window.cancelAnimationFrame = (tick) => { waiting.delete(tick); };
  const shown = [];
  const player = new Player(() => { shown.push(player.at); });
  const tick = (now) => {
    const ticks = [...waiting.values()];
    waiting.clear();
    for (const each of ticks) each(now);
  };
"""


def test_a_run_that_is_played_again_begins_at_its_first_frame(page):
    """Time that was due at its end is not taken off the beginning."""
    page.tab.goto(page.address + "api")
    at = page.tab.evaluate(
        PLAYER
        + """
  player.begin(10); // frames a second
  for (let i = 0; i < 100; i += 1) player.add({});
  player.ended = true;
  player.go(99);
  player.play(); // it has ended: from the beginning
  tick(0);
  tick(9_900); // 99 frames: at the end
  tick(10_900); // ten more are due, and it pauses
  const isPaused = !player.playing;
  player.play();
  tick(20_000);
  tick(20_250);
  return [isPaused, player.at];
}"""
    )
    assert at == [True, 2]


def test_a_player_has_one_clock(page):
    """Also where it is told to play while it plays, or begins another run."""
    page.tab.goto(page.address + "api")
    clocks = page.tab.evaluate(
        PLAYER
        + """
  player.begin(10);
  player.add({});
  player.play();
  player.play();
  const playing = waiting.size;
  player.begin(10);
  return [playing, waiting.size, player.playing];
}"""
    )
    assert clocks == [1, 0, False]


def test_curves_of_a_run_without_a_sweep_with_gaps_and_alone(page):
    page.tab.goto(page.address + "api")
    paths, line = page.tab.evaluate(
        """async () => {
  const { trace } = await import("/page/drawing/curves.js");
  const axis = { low: 0, high: 1, ticks: [] };
  const drawn = (values, last) => {
    const points = values.map((value, sweep) => ({ sweep, values: [value] }));
    const box = trace(points, { label: "", axis, ends: { last, texts: ["", ""] }, now: 0 });
    return box.drawing(400);
  };
  const path = (values, last) => drawn(values, last).querySelector(".curve").getAttribute("d");
  const paths = [path([0], 0), path([0, 1, null, 0, 1], 4), path([null, 1], 1), path([null], 1)];
  return [paths, drawn([0], 0).querySelector(".now").getAttribute("x1")];
}"""
    )
    assert line == "46", "the left end"
    assert paths == ["M46 166h0", "M46 166L132 12M304 166L390 12", "M390 12h0", ""]


def test_another_run_has_a_seed_that_there_is_after_a_negative_one(page):
    page.open(f"{SAMPLE}&seed=-5")
    page.tab.wait_for_selector(".slot .error")
    page.tab.get_by_role("button", name="Run another").click()
    page.until(DONE, seconds=20)
    assert "seed=" not in page.tab.evaluate("location.hash")
    page.console[:] = [line for line in page.console if "422" not in line]


def test_another_run_has_another_seed_where_there_is_no_larger_one(page):
    largest = 2**53 - 1
    page.open(f"{SAMPLE}&seed={largest}")
    page.until(DONE)
    page.tab.get_by_role("button", name="Run another").click()
    page.until(f"!location.hash.includes('seed={largest}')", seconds=20)
    page.until(DONE)
