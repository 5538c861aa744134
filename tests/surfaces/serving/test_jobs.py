"""Jobs: how far they are, what a stopped one gives, who goes first, and what happens when the
server ends.
"""

import asyncio
import gc
import json
import threading
import time
from math import comb, log

import pytest
from fastapi.testclient import TestClient

import unmask
from unmask.common.plain import in_json
from unmask.runs.progress import Enough
from unmask.surfaces.serving.app import create_app
from unmask.surfaces.serving.jobs import AHEAD, ENDING, FAILED, Cancelled, FairLock, Jobs
from unmask.surfaces.serving.server import Guard

WHOLE = "the cat sat on the mat ."
GUARD = 300
"""Seconds after which a test that waits has hung."""
FIVE = "the [MASK] [MASK] [MASK] [MASK] [MASK] ."


class EndsAfter:
    """Makes a model raise `Enough` once it has passed this many rows."""

    def __init__(self, model, rows, monkeypatch):
        self.left, plain = rows, model.logits_at

        def logits(ids, positions):
            self.left -= len(ids)
            if self.left < 0:
                raise Enough
            return plain(ids, positions)

        monkeypatch.setattr(model, "logits_at", logits)


@pytest.fixture
def model(tiny_folder):
    """A tiny model of one's own: tests change it."""
    return unmask.MaskedLM.load(tiny_folder)


def test_a_stopped_search_gives_the_fillings_so_far(model, monkeypatch):
    whole = unmask.fill("the [MASK] [MASK] [MASK] .", model, top=10**3)
    EndsAfter(model, 120, monkeypatch)
    filling = unmask.fill("the [MASK] [MASK] [MASK] .", model, top=10**3)
    assert filling.search.stopped == "asked"
    assert 0 < filling.search.passes <= 120
    assert 0 < filling.search.mass < whole.search.mass
    known = {c.text: c.log_prob for c in whole.completions}
    assert filling.completions
    assert all(c.log_prob == pytest.approx(known[c.text], abs=1e-5) for c in filling.completions)
    missed = [
        value for text, value in known.items() if text not in {c.text for c in filling.completions}
    ]
    assert missed
    assert max(missed) <= log(filling.search.bound)


def test_a_search_that_found_nothing_is_just_stopped(model, monkeypatch):
    EndsAfter(model, 5, monkeypatch)
    with pytest.raises(Enough):
        unmask.fill(FIVE, model)


def test_stopped_scores_are_those_done(model, monkeypatch):
    known = unmask.score([WHOLE], ["pll", "any_order"], model=model).rows[0]
    EndsAfter(model, 20, monkeypatch)
    row = unmask.score([WHOLE], ["pll", "any_order"], model=model).rows[0]
    assert row["pll"] == known["pll"]
    assert row["any_order"] is None
    assert "stopped before this score" in row["reason"]


def test_stopped_dependence_has_the_pairs_done(model, monkeypatch):
    known = unmask.dependence(WHOLE, model, candidates=4)
    EndsAfter(model, known.passes - 20, monkeypatch)
    dependence = unmask.dependence(WHOLE, model, candidates=4)
    assert 0 < len(dependence.pairs()) < len(known.pairs()) == comb(7, 2)
    for i, j, value in dependence.pairs():
        assert value == pytest.approx(float(known.matrix[i, j]), abs=1e-6)
    assert dependence.least_mass > 0
    assert dependence.to_dict()["matrix"][5][6] is None
    assert dependence.figure() is not None
    assert "nats" in repr(dependence)


def test_stopped_mutants_are_those_done(model, monkeypatch):
    text = "the cat sat on a dog ."
    known = unmask.mutants(text, model=model, positions=[1, 2, 3, 4]).to_dict()["mutants"]
    monkeypatch.setattr("unmask.studies.variants.scan.SETS_AT_ONCE", 1)
    EndsAfter(model, 2, monkeypatch)
    done = unmask.mutants(text, model=model, positions=[1, 2, 3, 4]).to_dict()["mutants"]
    assert 0 < len(done) < len(known)
    by_name = {row["mutant"]: row["log_prob"] for row in known}
    assert all(row["log_prob"] == pytest.approx(by_name[row["mutant"]], abs=1e-4) for row in done)


class Asked(threading.Thread):
    """A request in the background; `text` is that of its stream, once it has ended."""

    def __init__(self, client, path, body):
        super().__init__()
        self.ask, self.text = lambda: client.post(path, json=body).text, ""
        self.start()

    def run(self):
        self.text = self.ask()


def test_a_job_stops_with_what_it_has(client, served, gate, events, until):
    request = Asked(client, "/api/fill/events", {"text": "the [MASK] [MASK] [MASK] .", "top": 100})
    gate.let(12)
    (name,) = served[1].under_way
    assert client.delete(f"/api/jobs/{name}").json() == {"id": name, "stopping": True}
    gate.open()
    request.join()
    *before, (last, answer) = events(request.text)
    assert last == "answer"
    assert answer["search"]["stopped"] == "asked"
    assert answer["completions"]
    assert answer["search"]["passes"] < 1000
    done = [
        value["done"] for kind, value in before if kind == "progress" and value["what"] == "passes"
    ]
    assert done == sorted(done)
    assert done[-1] > 0
    for kind, value in before:
        if kind == "progress":
            assert value["share"] == value["done"] / value["total"]
            assert f"{value['done']:,} of {value['total']:,} {value['what']}" in value["said"]
    until(lambda: not served[1].under_way)
    assert client.delete(f"/api/jobs/{name}").status_code == 404


@pytest.mark.parametrize(
    ("body", "batches"),
    [
        ({"text": "the [MASK] ran under a [MASK] .", "candidates": "all"}, 1),
        ({"text": "the [MASK] under [MASK] [MASK] .", "top": 50}, 12),
    ],
)
def test_a_stopped_filling_does_not_answer_the_same_question_later(
    client, served, gate, events, tiny, body, batches
):
    """Fillings are kept for the next pin: over a table, and after a search."""
    request = Asked(client, "/api/fill/events", body)
    gate.let(batches)
    (job,) = served[1].under_way
    assert client.delete(f"/api/jobs/{job}").status_code == 200
    gate.open()
    request.join()
    name, value = events(request.text)[-1]
    assert name == "error" or value["search"]["stopped"] == "asked"
    again = client.post("/api/fill", json=body).json()
    text = body["text"]
    options = {option: value for option, value in body.items() if option != "text"}
    known = in_json(unmask.fill(text, tiny, **options).to_dict())
    assert {name: again[name] for name in known} == known


@pytest.mark.parametrize(
    ("path", "body", "batches", "last"),
    [
        (
            "/api/fill/events",
            {"text": "the [MASK] ran on a [MASK] .", "candidates": "all"},
            1,
            "error",
        ),
        (
            "/api/sample/events",
            {"template": "the [MASK] [MASK] [MASK] [MASK] .", "sweeps": 400, "chains": 1},
            40,
            "answer",
        ),
    ],
)
def test_a_stopped_joint_is_an_error_and_a_stopped_chain_ends(
    client, served, gate, events, path, body, batches, last
):
    request = Asked(client, path, body)
    gate.let(batches)
    (job,) = served[1].under_way
    assert client.delete(f"/api/jobs/{job}").status_code == 200
    gate.open()
    request.join()
    name, value = events(request.text)[-1]
    assert name == last, value
    if last == "error":
        assert "was stopped" in value["error"]
    else:
        draws = value["diagnosis"]["draws"]
        assert 0 < draws < 400
        assert value["drawn"]["part"] == f"{draws} of 400 sweeps"
        assert value["drawn"]["ends"] == {"last": draws, "texts": ["0", f"{draws} sweeps"]}


def test_a_stopped_decoder_has_no_whole_text(client, served, gate, events):
    """Its steps so far are events, and there is no answer."""
    body = {"template": FIVE, "n_texts": 1}
    request = Asked(client, "/api/generate/events", body)
    gate.let(2)
    (job,) = served[1].under_way
    assert client.delete(f"/api/jobs/{job}").status_code == 200
    gate.open()
    request.join()
    *before, (last, value) = events(request.text)
    assert last == "error"
    assert value["stopped"]
    assert any(name == "step" and step["kind"] == "begun" for name, step in before)


def test_the_bar_of_dependence_is_the_share_of_the_pairs(client, events, monkeypatch):
    """Pairs are measured as their passes are made: 60 % of the bar were once 16 of 45 pairs."""
    monkeypatch.setattr("unmask.surfaces.serving.questions.BETWEEN_PARTIALS", 0)
    body = {"text": "the cat sat on the mat the dog ran .", "candidates": 4}
    pairs = comb(10, 2)
    measured = 0
    shares = []
    for name, value in events(client.post("/api/dependence/events", json=body).text):
        if name == "partial":
            known = [one for row in value["matrix"] for one in row if one is not None]
            measured = len(known) // 2  # a pair stands in both halves
        if name == "progress":
            shares.append(value["share"])
            ahead = value["share"] - measured / pairs
            assert -1e-9 <= ahead <= 4 / pairs + 1e-9, "no more than the pairs that are on the way"
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert len(set(shares)) > 10


def test_a_client_that_leaves_before_the_first_line_ends_its_job(served, until, monkeypatch):
    app, jobs = served
    begun, start = [], jobs._start

    def starting(run):
        begun.append(start(run))
        return begun[-1]

    monkeypatch.setattr(jobs, "_start", starting)
    body = json.dumps({"template": "the [MASK] [MASK] .", "sweeps": 400, "chains": 8}).encode()
    coming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if coming:
            return coming.pop()
        while len(begun) < 2:  # the check of the settings, then the chains
            await asyncio.sleep(0.001)
        return {"type": "http.disconnect"}

    async def send(message):
        await asyncio.sleep(0)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/sample/events",
        "query_string": b"",
        "headers": headers,
    }
    asyncio.run(app(scope, receive, send))
    _, chains = begun
    assert chains.cancelled
    until(lambda: not jobs.under_way)


def test_a_defect_ends_a_stream_with_a_line(client, events, monkeypatch, caplog):
    monkeypatch.setattr(
        "unmask.surfaces.serving.questions.Answers.result", lambda *args, **more: 1 // 0
    )
    answer = client.post("/api/fill/events", json={"text": "the [MASK] ."})
    assert events(answer.text)[-1] == ("error", {"error": FAILED})
    assert "ZeroDivisionError" in caplog.text


def test_a_stream_ends_where_the_reason_of_a_failure_cannot_be_said(
    client, events, monkeypatch, caplog
):
    """Else its reader would wait for ever: the job is under way no more."""

    def fails(error, write):
        return 1 // 0

    monkeypatch.setattr("unmask.common.errors.UnmaskError.written", fails)
    answer = client.post("/api/fill/events", json={"text": "no blank ."})
    assert events(answer.text) == []  # neither an answer nor an error, and an end
    assert "ZeroDivisionError" in caplog.text


class PanicException(BaseException):
    """As a panic of a Rust library, such as tokenizers: it is no `Exception`."""


@pytest.mark.parametrize("failure", [ZeroDivisionError, PanicException])
@pytest.mark.parametrize("ending", ["", "/events"])
def test_a_defect_of_any_kind_is_a_line_and_the_terminal_shows_where(
    served, events, monkeypatch, caplog, failure, ending
):
    """Of a stream and of a plain answer; nobody waits for ever."""

    def fail(*given, **hooks):
        raise failure("the place of the defect")

    monkeypatch.setattr("unmask.surfaces.serving.questions.Answers.result", fail)
    # A server of uvicorn logs what the application raises; this client stands in its place.
    client = TestClient(
        Guard(served[0]), base_url="http://127.0.0.1:8000", raise_server_exceptions=False
    )
    answer = client.post(f"/api/fill{ending}", json={"text": "the [MASK] ."})
    if ending:
        assert events(answer.text)[-1] == ("error", {"error": FAILED})
        assert failure.__name__ in caplog.text
    else:
        assert answer.status_code == 500
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == {"error": FAILED}
        loud = TestClient(Guard(served[0]), base_url="http://127.0.0.1:8000")
        with pytest.raises(Exception) as raised:  # noqa: PT011  its kind is the question
            loud.post("/api/fill", json={"text": "the [MASK] ."})
        chain = (raised.value, raised.value.__cause__)
        assert any("the place of the defect" in str(one) for one in chain)
    assert not served[1].under_way


class SlowToLeave(dict):
    """Jobs under way, which take long to leave."""

    def pop(self, *key):
        time.sleep(0.2)
        return super().pop(*key)


def test_a_job_that_has_ended_leaves_its_place_to_the_next_step(tiny, events, monkeypatch):
    """Chains are two jobs: the check of their settings, then the chains."""
    monkeypatch.setattr("unmask.surfaces.serving.jobs.MOST_JOBS", 1)
    jobs = Jobs()
    jobs.under_way = SlowToLeave()
    client = TestClient(create_app(tiny, jobs))
    body = {"template": "the [MASK] [MASK] .", "sweeps": 2, "chains": 1}
    for _ in range(2):  # the second request follows the end of the first one's stream
        answer = client.post("/api/sample/events", json=body)
        assert answer.status_code == 200, answer.text
        assert events(answer.text)[-1][0] == "answer"


@pytest.mark.parametrize("ending", ["", "/events"])
def test_a_job_whose_thread_cannot_start_takes_no_place(tiny, monkeypatch, ending):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    jobs = Jobs()
    client = TestClient(create_app(tiny, jobs), raise_server_exceptions=False)
    ask = {"json": {"text": "the [MASK] ."}}
    with client, monkeypatch.context() as broken:
        client.get("/healthz")  # the client's own thread
        broken.setattr("unmask.surfaces.serving.jobs.threading.Thread.start", refuse)
        assert client.post(f"/api/fill{ending}", **ask).status_code == 500
    assert not jobs.under_way
    assert client.post(f"/api/fill{ending}", **ask).status_code == 200


def test_an_interrupt_while_waiting_for_the_lock_leaves_no_gap(monkeypatch):
    lock = FairLock()

    def interrupt(condition):
        raise KeyboardInterrupt

    def take():
        with lock:
            pass

    with lock, monkeypatch.context() as interrupted:
        interrupted.setattr(lock._changed, "wait_for", interrupt)
        with pytest.raises(KeyboardInterrupt):
            take()
    behind = threading.Thread(target=take, daemon=True)
    behind.start()
    behind.join(10)
    assert not behind.is_alive(), "it waits for a ticket that nobody has"


def test_when_the_server_ends_waiting_clients_get_503_and_streams_an_error(tiny, gate):
    jobs = Jobs()
    client = TestClient(create_app(tiny, jobs))
    answers, body = [], {"text": "the [MASK] [MASK] .", "candidates": 3}

    def ask(path):
        answers.append(client.post(path, json=body))

    threads = [
        threading.Thread(target=ask, args=[path]) for path in ("/api/fill", "/api/fill/events")
    ]
    for thread in threads:
        thread.start()
    gate.let(0, then=2)
    assert client.get("/healthz").json()["jobs"] == 2
    jobs.close()
    for thread in threads:
        thread.join()
    plain_one, stream = sorted(answers, key=lambda a: -a.status_code)
    assert plain_one.status_code == 503
    assert plain_one.json() == {"error": ENDING}
    assert plain_one.headers["retry-after"]
    assert stream.status_code == 200
    assert stream.text.endswith(f"event: error\ndata: {json.dumps({'error': ENDING})}\n\n")
    assert (
        client.post("/api/words", json={"text": WHOLE}).status_code
        == client.get("/healthz").status_code
        == 503
    )


@pytest.mark.parametrize(
    ("steps", "read"),
    [
        (5, 1),
        (AHEAD, 1),  # the job has ended, and waits for room to say so
        (5, 6),  # all of them: there is nothing left to send
    ],
)
def test_a_stream_that_is_not_read_to_its_end_has_an_error_when_the_server_ends(until, steps, read):
    """The client has read some events of a job that has ended."""
    jobs = Jobs()
    threads, sent = [], []

    def ask(emit):
        threads.append(threading.current_thread())
        for number in range(steps):
            emit("step", number)

    def has_ended():
        waits_for_room = steps == AHEAD
        return not jobs.under_way and (waits_for_room or not threads[0].is_alive())

    async def receive():
        await asyncio.Event().wait()  # the client stays

    async def send(message):
        if message["type"] != "http.response.body":
            return
        sent.append(message["body"].decode())
        if len(sent) == read:
            await asyncio.to_thread(until, has_ended)
            jobs.close()

    async def serve():
        scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
        await jobs.stream(ask)(scope, receive, send)

    asyncio.run(serve())
    said = [f"event: error\ndata: {json.dumps({'error': ENDING})}\n\n"] if read <= steps else []
    assert [text.partition("\n")[0] for text in sent[:read]] == [
        "event: job",
        *["event: step"] * (read - 1),
    ]
    assert sent[read:] == [*said, ""]
    (thread,) = threads
    thread.join(GUARD)
    assert not thread.is_alive(), "it waits for a reader"


def test_the_error_of_a_job_whose_client_has_left_is_not_logged():
    """The job fails while the server looks whether its client has left."""
    jobs = Jobs()
    threads, logged = [], []
    looks = threading.Event()

    def ask():
        threads.append(threading.current_thread())
        assert looks.wait(GUARD)
        raise ZeroDivisionError

    class Leaves:
        async def is_disconnected(self):
            looks.set()
            while not threads or threads[0].is_alive():
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)  # the loop takes what the thread has handed over
            return True

    async def serve():
        asyncio.get_running_loop().set_exception_handler(lambda loop, said: logged.append(said))
        with pytest.raises(Cancelled):
            await jobs.answer(Leaves(), ask)
        gc.collect()

    asyncio.run(serve())
    assert logged == []
