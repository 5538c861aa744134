"""Stop: what the page says of it, and that nothing is asked after it."""

import json

import pytest

pytestmark = pytest.mark.page
SCORE = "#/score?text=It+rains.&second=&score=pll"
SAID = "document.querySelector('.status .said').textContent"
STOP = ".status button:text-is('Stop')"


def event(name, value):
    """A server-sent event."""
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"


def stream(*events):
    """An answer of the server, as events."""
    return {"status": 200, "content_type": "text/event-stream", "body": "".join(events)}


def held_after_job(page, path):
    """Questions of this path get the name of a job at once, and the rest with `release`: the page
    reads what the server writes as it comes. `release` with "broken" breaks the connection.
    """
    page.tab.evaluate(
        """(path) => {
  const fetched = window.fetch;
  window.held = { answers: [], broken: [] };
  window.fetch = async (address, options) => {
    const response = await fetched(address, options);
    if (!String(address).endsWith(path)) return response;
    const text = await response.text();
    const name = text.slice(0, text.indexOf("\\n\\n") + 2);
    const encoder = new TextEncoder();
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(encoder.encode(name));
        window.held.answers.push(() => {
          controller.enqueue(encoder.encode(text.slice(name.length)));
          controller.close();
        });
        options.signal.addEventListener("abort", () => controller.error(options.signal.reason));
        window.held.broken.push(() => controller.error(new TypeError("network error")));
      },
    });
    return new Response(body, { status: 200 });
  };
}""",
        path,
    )


def release(page, how="answers"):
    page.tab.evaluate("(how) => { for (const act of window.held[how].splice(0)) act(); }", how)


def asked_after_ready(page, path="score/events"):
    """A view with an answer asks once more, and is told the name of its job."""
    page.open(SCORE)
    page.settled("svg.profile")
    held_after_job(page, path)
    page.tab.get_by_label("Unit").select_option("bits")
    page.until("window.held.answers.length === 1")


def test_a_whole_answer_is_not_called_stopped(page):
    """The job has just ended, and the server knows it no more: nothing was stopped."""
    asked_after_ready(page)
    page.tab.locator(STOP).click()
    page.until(f"{SAID} === 'stopping …'")
    release(page)
    page.until(f"{SAID} !== 'stopping …'")
    assert page.tab.evaluate(SAID) == ""
    assert page.tab.locator(".status button").is_hidden()
    assert page.tab.locator(".stale").count() == 0
    page.console[:] = [line for line in page.console if "404" not in line]


def test_a_stop_after_the_first_of_two_answers_says_that_something_is_missing(page):
    page.open("#/fill?text=A+man+is+riding+a+horse.&blanks=3,5&candidates=64")
    page.settled()
    held_after_job(page, "fill/events")
    page.tab.get_by_label("Words considered", exact=True).select_option("128")
    page.until("window.held.answers.length === 1")
    page.tab.locator(STOP).click()
    page.until(f"{SAID} === 'stopping …'")
    release(page)
    page.stopped()
    assert page.tab.locator("[data-key='card:constructions']").count() == 0
    assert page.tab.get_by_role("button", name="Ask again").count() == 1
    assert page.tab.get_by_role("button", name="Compare every construction").count() == 1
    page.console[:] = [line for line in page.console if "404" not in line]


def test_a_comparison_that_was_stopped_can_be_asked_for(page):
    page.open("#/fill?text=A+man+is+riding+a+horse.&blanks=3,5&candidates=64")
    page.settled()
    held = []
    page.tab.route("**/compare/events", lambda route: held.append(route))
    page.tab.get_by_label("Words considered", exact=True).select_option("128")
    page.until(f"{SAID} === 'comparing constructions …'")
    compare = page.tab.get_by_role("button", name="Compare every construction")
    assert compare.count() == 0, "it is on its way"
    page.tab.locator(STOP).click()
    page.stopped()
    compare.wait_for()
    assert page.tab.locator("svg.heat").count() == 1
    page.tab.unroute_all()
    compare.click()
    page.tab.wait_for_selector("[data-key='card:constructions']")
    page.settled()
    assert compare.count() == 0


def test_stop_while_the_server_is_away_is_a_stop(page):
    asked_after_ready(page)
    page.tab.route("**/jobs/*", lambda route: route.abort())
    page.tab.locator(STOP).click()
    page.stopped()
    assert page.tab.locator(".slot .error").count() == 0
    page.console.clear()


def test_a_question_that_was_stopped_is_not_asked_again_by_itself(page):
    """The server goes away between the stop and the answer."""
    asked_after_ready(page)
    page.tab.locator(STOP).click()
    page.until(f"{SAID} === 'stopping …'")
    page.tab.evaluate(
        """() => {
  const set = window.setTimeout;
  window.waits = [];
  window.setTimeout = (act, wait) => { window.waits.push(wait); return set(act, wait); };
}"""
    )
    release(page, "broken")
    page.until(f"{SAID} !== 'stopping …'")
    assert page.tab.evaluate(SAID) == "Stopped."
    assert page.tab.locator(".slot .error").count() == 0
    assert page.tab.evaluate("window.waits") == [], "it does not look whether the server is back"
    page.console[:] = [line for line in page.console if "404" not in line]


def test_what_came_before_an_error_is_shown(page):
    """Also where both come at once."""
    page.open("#/dependence?text=She+drank+tea.&candidates=8")
    page.settled("svg.arcs")
    answers = []

    def keep(route):
        answer = route.fetch()
        answers.append(answer.text())
        route.fulfill(response=answer)

    page.tab.route("**/dependence/events", keep)
    page.tab.get_by_label("Construction", exact=True).select_option("mrf")
    page.until("document.querySelectorAll('.stale').length === 0")
    page.settled("svg.arcs")
    answer = json.loads(answers[0].split("event: answer\ndata: ")[1].split("\n\n")[0])
    answer["drawn"]["strongest"]["shown"][0][1] = "of the part"
    page.tab.unroute_all()
    stopped = {"error": "the job was stopped", "stopped": True}
    both = stream(event("job", {"id": "1"}), event("partial", answer), event("error", stopped))
    page.tab.route("**/dependence/events", lambda route: route.fulfill(**both))
    page.tab.get_by_label("Construction", exact=True).select_option("product")
    page.stopped()
    assert "of the part" in page.tab.inner_text(".stack")


def test_a_retry_of_a_text_can_be_stopped(page):
    """No question of the text is asked after that."""
    page.open(SCORE)
    page.settled("svg.profile")
    held_after_job(page, "score/events")
    page.tab.get_by_label("Unit").select_option("bits")
    page.until("window.held.answers.length === 1")  # its job has a name
    page.tab.route("**/api/words", lambda route: route.abort())
    page.tab.locator(".sentence input").first.press("End")
    page.tab.locator(".sentence input").first.press("!")
    page.tab.wait_for_selector(".error button:text-is('Retry')")
    page.tab.unroute_all()
    held, asked = [], []
    page.tab.route("**/api/words", lambda route: held.append(route))
    page.tab.on("request", lambda request: asked.append(request.url))
    page.tab.get_by_role("button", name="Retry").click()
    page.tab.locator(STOP).click()
    page.stopped()
    for route in held:
        route.continue_()
    page.tab.evaluate("() => fetch('api/about').then((answer) => answer.json())")
    assert not [url for url in asked if url.endswith("score/events")]
    assert page.tab.evaluate(SAID) == "Stopped."
    page.console.clear()


def test_a_refusal_that_is_cut_off_is_no_refusal(page):
    """A request that is aborted while the reason of its refusal comes."""
    page.tab.goto(page.address + "api")
    name = page.tab.evaluate(
        """async () => {
  const { Api } = await import("/page/ask.js");
  const cut = new DOMException("aborted", "AbortError");
  window.fetch = async () => ({ ok: false, status: 422, json: async () => { throw cut; } });
  try {
    await new Api().ask("words", { text: "" });
  } catch (error) {
    return error.name;
  }
  return "";
}"""
    )
    assert name == "AbortError"
