"""Jobs: how far they are, what a stopped one gives, who goes first, and what happens when the server ends."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import weakref
from math import comb, log

import pytest
import torch

import unmask
from unmask.runs.progress import Enough
from unmask.serving.desk import FAILED
from unmask.serving.questions import Questions
from unmask.serving.requests import JointAsked, Pin
from unmask.serving.worker import CURRENT, Job, SharedLM, _Question

WHOLE = "the cat sat on the mat ."
FIVE = "the [MASK] [MASK] [MASK] [MASK] [MASK] ."


class EndsAfter:
    """Makes a model raise `Enough` once it has passed this many rows."""

    def __init__(self, model, rows, monkeypatch):
        self.left, plain = rows, model.logits

        def logits(ids, positions):
            self.left -= len(ids)
            if self.left < 0:
                raise Enough
            return plain(ids, positions)

        monkeypatch.setattr(model, "logits", logits)


@pytest.fixture
def model(tiny_folder):
    """A tiny model of one's own: tests change it."""
    return unmask.MaskedLM.load(tiny_folder)


def test_a_stopped_search_gives_the_fillings_so_far(model, monkeypatch):
    whole = unmask.fill("the [MASK] [MASK] [MASK] .", model, top=10**3)
    EndsAfter(model, 120, monkeypatch)
    found = unmask.fill("the [MASK] [MASK] [MASK] .", model, top=10**3)
    assert found.stopped == "asked" and 0 < found.passes <= 120 and 0 < found.mass < whole.mass
    known = {c.text: c.log_prob for c in whole.completions}
    assert found.completions and all(c.log_prob == pytest.approx(known[c.text], abs=1e-5) for c in found.completions)
    missed = [value for text, value in known.items() if text not in {c.text for c in found.completions}]
    assert missed and max(missed) <= log(found.bound)


def test_a_search_that_found_nothing_is_just_stopped(model, monkeypatch):
    EndsAfter(model, 5, monkeypatch)
    with pytest.raises(Enough):
        unmask.fill(FIVE, model)


def test_stopped_scores_are_those_done(model, monkeypatch):
    known = unmask.score([WHOLE], ["pll", "any_order"], model=model).rows[0]
    EndsAfter(model, 20, monkeypatch)
    row = unmask.score([WHOLE], ["pll", "any_order"], model=model).rows[0]
    assert row["pll"] == known["pll"] and row["any_order"] is None and "stopped before this score" in row["reason"]


def test_stopped_dependence_has_the_pairs_done(model, monkeypatch):
    known = unmask.dependence(WHOLE, model, candidates=4)
    EndsAfter(model, known.passes - 20, monkeypatch)
    monkeypatch.setattr("unmask.answers.dependence.PAIRS_AT_ONCE", 4)
    found = unmask.dependence(WHOLE, model, candidates=4)
    assert 0 < len(found.pairs()) < len(known.pairs()) == comb(7, 2)
    for i, j, value in found.pairs():
        assert value == pytest.approx(float(known.matrix[i, j]), abs=1e-6)
    assert found.least_mass > 0 and found.to_dict()["matrix"][5][6] is None
    assert found.figure() is not None and "nats" in repr(found)


def test_stopped_mutants_are_those_done(model, monkeypatch):
    text = "the cat sat on a dog ."
    known = unmask.mutants(text, model=model, positions=[1, 2, 3, 4]).to_dict()["mutants"]
    monkeypatch.setattr("unmask.variants.mutants.TOGETHER", 1)
    EndsAfter(model, 2, monkeypatch)
    found = unmask.mutants(text, model=model, positions=[1, 2, 3, 4]).to_dict()["mutants"]
    assert 0 < len(found) < len(known)
    by_name = {row["mutant"]: row["log_prob"] for row in known}
    assert all(row["log_prob"] == pytest.approx(by_name[row["mutant"]], abs=1e-4) for row in found)


def test_any_order_counts_its_passes(model):
    said = []
    unmask.score([WHOLE], "any_order", model=model, progress=lambda *told: said.append(told))
    passes = [(done, total) for done, total, what in said if what == "passes"]
    assert passes[-1] == (2**7 - 1, 2**7 - 1) and passes == sorted(passes)


@pytest.fixture
def gated(served, monkeypatch):
    """The served model waits at a gate before each call; the gate is given."""
    worker, gate, plain = served[1].model.worker, threading.Semaphore(0), served[1].model.worker._answer

    def answer(chosen):
        gate.acquire(timeout=20)
        plain(chosen)

    monkeypatch.setattr(worker, "_answer", answer)
    yield gate
    for _ in range(10**4):
        gate.release()


def ask_in_background(client, path, body):
    """The text of a stream, once it ends, as the only item of a list."""
    found = []
    thread = threading.Thread(target=lambda: found.append(client.post(path, json=body).text))
    thread.start()
    return thread, found


def the_job(desk):
    end = time.monotonic() + 20
    while not desk._jobs:
        assert time.monotonic() < end
        time.sleep(0.01)
    return next(iter(desk._jobs))


def test_a_job_says_how_far_it_is_and_stops_with_what_it_has(client, served, gated, events):
    thread, found = ask_in_background(client, "/api/fill/events", {"text": "the [MASK] [MASK] [MASK] .", "top": 100})
    name = the_job(served[1])
    for _ in range(12):
        gated.release()
    end = time.monotonic() + 20
    while not (told := client.get(f"/api/jobs/{name}").json())["done"] > 100:
        assert time.monotonic() < end
        gated.release()
        time.sleep(0.01)
    assert told["what"] == "passes" and told["total"] == 1000 and told["left"] > 0 and told["passes"] >= told["done"]
    assert client.delete(f"/api/jobs/{name}").json()["stopping"] is True
    for _ in range(3):
        gated.release()
    thread.join(20)
    last, answer = events(found[0])[-1]
    assert last == "answer" and answer["stopped"] == "asked" and answer["completions"] and answer["passes"] < 1000
    assert client.get(f"/api/jobs/{name}").status_code == client.delete(f"/api/jobs/{name}").status_code == 404


def test_a_stopped_joint_is_an_error_and_a_stopped_chain_ends(client, served, gated, events):
    for path, body, last in (
        ("/api/joint/events", {"text": "the [MASK] ran on a [MASK] .", "exact": True}, "error"),
        ("/api/sample", {"template": "the [MASK] sat .", "sweeps": 400}, "end"),
    ):
        thread, found = ask_in_background(client, path, body)
        for _ in range(1 if last == "error" else 60):
            gated.release()
        time.sleep(0.3)
        assert client.delete(f"/api/jobs/{the_job(served[1])}").status_code == 200
        for _ in range(5):
            gated.release()
        thread.join(20)
        name, value = events(found[0])[-1]
        assert name == last and (value == {"stopped": True} if last == "end" else "was stopped" in value["error"])


def test_a_small_question_is_not_left_out_by_new_ones(tiny):
    """A chain has had 200 rows in a long time; questions that begin now, with their first rows, do not always go first."""
    model = SharedLM(tiny)
    worker, now = model.worker, time.monotonic()
    chain, exact, fills, small = Job(apart=True), Job(), [Job() for _ in range(31)], Job(spent=20)
    chain.spent, chain.began = 200, now - 30
    exact.spent, exact.began = 60_000, now - 60
    for fill in fills:
        fill.spent, fill.began = 150, now - 3
    small.began = now - 0.2
    worker._waiting = [_Question(job, n, 4, call=lambda: 0) for n, job in enumerate([*fills, exact, chain, small])]
    order = []
    while worker._waiting:
        order.append(worker._choose()[0].job)
    assert order[0] is chain and order[1] is small and order[-1] is exact and set(order[2:-1]) == set(fills)
    assert worker.close(5)


def test_a_large_job_does_not_wait_for_one_that_is_silent(tiny):
    """A chain whose client does not read asks for nothing: others must not be slowed down by it."""
    model = SharedLM(tiny)
    large, silent = Job(spent=10**6), Job()
    for job in (large, silent):
        model.worker.begin(job)
    model.worker._waiting = [_Question(large, 0, 4, call=lambda: 0)]
    assert model.worker._smaller_may_ask()
    silent.heard -= 2
    assert not model.worker._smaller_may_ask()
    assert model.worker.close(5)


def test_an_error_before_a_pass_is_that_requests_alone(tiny, monkeypatch):
    """The thread that runs the model for all must outlive it."""
    model, rows = SharedLM(tiny), (torch.full((2, 5), 6), torch.ones((2, 1), dtype=torch.long))
    found = []

    def ask():
        try:
            found.append(model.worker.rows(*rows).shape)
        except ZeroDivisionError as error:
            found.append(error)

    for broken in (True, False):
        with monkeypatch.context() as patch:
            if broken:
                patch.setattr(tiny, "rows_at_once", lambda *shape: 1 // 0)
            thread = threading.Thread(target=ask, daemon=True)
            thread.start()
            thread.join(10)
    assert isinstance(found[0], ZeroDivisionError) and found[1] == (2, 1, tiny.vocab_size)
    assert model.worker.close(5)


def test_a_client_that_leaves_before_the_first_line_ends_its_job(served):
    app, desk = served
    body = json.dumps({"template": "the [MASK] [MASK] .", "sweeps": 400, "chains": 8}).encode()
    coming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return coming.pop() if coming else {"type": "http.disconnect"}

    async def send(message):
        await asyncio.sleep(0)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/sample", "query_string": b"", "headers": headers}
    asyncio.run(app(scope, receive, send))
    end = time.monotonic() + 20
    while desk.jobs:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_defect_ends_a_stream_with_a_line(client, events, monkeypatch):
    monkeypatch.setattr("unmask.serving.questions.fill", lambda **asked: 1 // 0)
    monkeypatch.setattr(threading, "excepthook", lambda found: None)
    found = client.post("/api/fill/events", json={"text": "the [MASK] ."})
    assert events(found.text)[-1] == ("error", {"error": FAILED})


def test_a_large_job_asks_for_small_slices_while_there_are_others(tiny, monkeypatch):
    model, sizes = SharedLM(tiny), []
    monkeypatch.setattr(model.worker, "rows", lambda ids, at: (sizes.append(len(ids)), tiny.logits(ids, at))[1])
    job, other = Job(spent=10**6), Job()
    token = CURRENT.set(job)
    try:
        for one in (job, other):
            model.worker.begin(one)
            model.logits(torch.full((50, 5), 6), torch.ones((50, 1), dtype=torch.long))
    finally:
        CURRENT.reset(token)
    assert sizes == [50, 16, 16, 16, 2]
    assert model.worker.close(5)


def test_when_the_server_ends_waiting_clients_get_503_and_streams_an_error(tiny, events):
    from fastapi.testclient import TestClient

    from unmask.serving.app import create_app

    app, desk = create_app(tiny)
    client, held = TestClient(app, base_url="http://127.0.0.1"), threading.Event()
    plain = desk.model.worker._answer
    desk.model.worker._answer = lambda chosen: (held.wait(20), plain(chosen))
    answers, body = [], {"text": "the [MASK] [MASK] .", "candidates": 3}

    def ask(path):
        answers.append(client.post(path, json=body))

    threads = [threading.Thread(target=ask, args=[path]) for path in ("/api/joint", "/api/joint/events")]
    for thread in threads:
        thread.start()
    while desk.jobs < 2:
        time.sleep(0.01)
    assert client.get("/healthz").json()["jobs"] == 2
    time.sleep(0.1)
    desk.close()
    for thread in threads:
        thread.join(20)
    held.set()
    plain_one, stream = sorted(answers, key=lambda a: -a.status_code)
    assert (
        plain_one.status_code == 503 and "the server is ending" in plain_one.json()["error"] and plain_one.headers["retry-after"]
    )
    assert stream.status_code == 200 and events(stream.text)[-1] == (
        "error",
        {"error": "the server is ending: ask again when it is back"},
    )
    assert client.post("/api/words", json={"text": WHOLE}).status_code == client.get("/healthz").status_code == 503
    assert desk.model.worker.close(5)


def test_equal_questions_under_way_are_computed_once(client, served, gated):
    worker, answers = served[1].model.worker, []
    before = worker.questions
    body = {"text": "a [MASK] ran under the [MASK] .", "joint": "balanced"}
    threads = [threading.Thread(target=lambda: answers.append(client.post("/api/fill", json=body).json())) for _ in range(6)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 20
    while sum(one.waiting for one in served[1]._same.values()) < 6:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert served[1].jobs == 1
    for _ in range(100):
        gated.release()
    for thread in threads:
        thread.join(20)
    assert len(answers) == 6 and all(one == answers[0] for one in answers)
    together = worker.questions - before
    client.post("/api/fill", json=body)
    assert worker.questions - before == 2 * together and not served[1]._same


def test_a_joint_that_is_not_used_leaves_memory_and_comes_back(tiny, monkeypatch):
    monkeypatch.setattr("unmask.serving.memory.SECONDS_IN_MEMORY", 0.1)
    model = SharedLM(tiny)
    questions = Questions(model)
    asked = JointAsked(text="a [MASK] sat under a [MASK] .", candidates=6)
    first = questions.joint(asked)
    (entry,) = questions._kept._kept.values()
    tables = weakref.ref(next(iter(entry.found.joints.values())).tables)
    end = time.monotonic() + 20
    while tables() is not None:
        assert time.monotonic() < end
        time.sleep(0.05)
    calls = model.worker.calls
    again = questions.joint(asked.model_copy(update={"pin": Pin(blank=0, token=first.map.axes[0].ids[0])}))
    assert model.worker.calls == calls + 1  # the number of candidates, and no pass
    assert again.map.given is not None
    again.map.given = None
    assert again == first
    assert model.worker.close(5)


def test_a_joint_that_cannot_be_written_whole_is_computed_again(tiny, monkeypatch):
    """A request that changes it while it is written must not leave half a file behind, nor stop the others' move."""
    model = SharedLM(tiny)
    questions = Questions(model)
    asked = JointAsked(text="a [MASK] sat under a [MASK] .", candidates=6)
    first = questions.joint(asked)
    monkeypatch.setattr("unmask.serving.memory.SECONDS_IN_MEMORY", 0.0)
    kept = questions._kept
    (entry,) = kept._kept.values()
    entry.found.__dict__["changing"] = ChangesDict()
    kept._move()
    assert questions.joint(asked) == first
    assert model.worker.close(5)


class ChangesDict:
    """Raises what pickle raises for a dictionary that another thread adds to."""

    def __reduce__(self):
        raise RuntimeError("dictionary changed size during iteration")


def test_a_joint_on_its_way_to_the_disk_keeps_nobody_waiting(tiny, monkeypatch):
    model, held, writes = SharedLM(tiny), threading.Event(), threading.Event()
    questions = Questions(model)
    questions.joint(JointAsked(text="a [MASK] sat under a [MASK] .", candidates=6))
    monkeypatch.setattr("unmask.serving.memory.SECONDS_IN_MEMORY", 0.0)
    monkeypatch.setattr("unmask.serving.memory._Writer.dump", lambda self, found: (writes.set(), held.wait(20)))
    mover = threading.Thread(target=questions._kept._move)
    mover.start()
    assert writes.wait(20)
    other = threading.Thread(target=questions.joint, args=[JointAsked(text="the [MASK] [MASK] .", candidates=6)])
    other.start()
    other.join(10)
    assert not other.is_alive()
    held.set()
    mover.join(20)
    assert model.worker.close(5)


def test_memory_goes_back_once_it_is_quiet(tiny, monkeypatch):
    from fastapi.testclient import TestClient

    from unmask.serving.app import create_app

    monkeypatch.setattr("unmask.serving.desk.SECONDS_QUIET", 0.1)
    given = threading.Event()
    monkeypatch.setattr("unmask.serving.memory.give_back", given.set)
    app, desk = create_app(tiny)
    assert TestClient(app, base_url="http://127.0.0.1").post("/api/words", json={"text": WHOLE}).status_code == 200
    assert given.wait(10)
    desk.close()
    assert desk.model.worker.close(5)
