"""Who may ask, how much, and what happens to work that nobody waits for."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from html import escape

import pytest
import torch
from fastapi.testclient import TestClient

import unmask
from unmask.runs.progress import Enough
from unmask.surfaces.serving import limits
from unmask.surfaces.serving.jobs import CURRENT, Cancelled, FairLock, Job, shared
from unmask.surfaces.serving.server import Guard, allowed_name

TWO = "the [MASK] sat on the [MASK] ."


HOSTS = [
    "evil.example",
    "evil.example:8000",
    "127.0.0.1.evil.example",
    "169.254.1.1",
    "",
    "127.0.0.1:8000@evil.example",
]


@pytest.mark.parametrize("host", HOSTS)
def test_another_name_is_refused(client, host):
    """In one line that says what to do: a page for a browser, JSON for everybody else."""
    answer = client.get("/api/about", headers={"host": host})
    page = client.get("/", headers={"host": host, "accept": "text/html,*/*;q=0.8"})
    assert answer.status_code == page.status_code == 400
    line = answer.json()["error"]
    assert "\n" not in line
    assert "--allow-host" in line or "the page's own address" in line
    assert page.headers["content-type"].startswith("text/html")
    assert escape(line) in page.text


def test_a_name_of_any_length_is_refused_in_a_short_line(client):
    """The longest name of a host has 253 characters."""
    for length in (253, 254, 30_000):
        answer = client.get("/", headers={"host": "a" * length})
        assert answer.status_code == 400
        line = answer.json()["error"]
        assert len(line) < 700
        assert ("--allow-host" in line) == (length == 253), "what it says to give is the whole name"


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
def test_a_refused_name_is_no_markup(client, accept):
    answer = client.get("/", headers={"host": "<script>x", "accept": accept})
    assert answer.status_code == 400
    assert ("<script>x" in answer.text) == (accept == "*/*")
    assert answer.headers["content-type"].split(";")[0] in ("application/json", "text/html")


def test_a_name_is_allowed_in_capitals_and_small_letters(served):
    guarded = TestClient(Guard(served[0], [allowed_name("Box.Local")]))
    for host in ("box.local", "BOX.LOCAL:8000"):
        assert guarded.get("/api/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "LOCALHOST"])
def test_names_of_this_machine_are_answered(client, host):
    assert client.get("/api/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("allowed", ["box.local", "192.168.1.7", "fe80::1", "*.box.local"])
def test_names_that_were_allowed_are_answered(served, allowed):
    """Behind a proxy that ends TLS the Origin is the proxy's."""
    host = f"[{allowed}]" if ":" in allowed else allowed.replace("*", "page")
    client = TestClient(Guard(served[0], [allowed_name(allowed)]), base_url=f"http://{host}")
    assert (
        client.post(
            "/api/words", json={"text": TWO}, headers={"origin": f"https://{host}"}
        ).status_code
        == 200
    )
    assert client.get("/api/about", headers={"host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8000"]
)
def test_another_site_is_refused(client, origin):
    answer = client.post("/api/fill", json={"text": TWO}, headers={"origin": origin})
    assert answer.status_code == 403
    assert "another site" in answer.json()["error"]
    assert (
        client.post(
            "/api/words", json={"text": TWO}, headers={"origin": "http://127.0.0.1:8000"}
        ).status_code
        == 200
    )


def test_the_page_has_no_script_or_style_of_its_own_text(client):
    for path in ("/", "/api"):
        page = client.get(path).text
        assert not re.search(
            r"<script(?![^>]*\bsrc=)|\son\w+=|\bstyle=|https?://(?!www\.w3\.org)", page
        )


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/%2e%2e/%2e%2e/__init__.py",
        "/..%2f..%2f__init__.py",
        "/api/runs/0",
        "/api/runs/x",
    ],
)
def test_no_path_leads_out_of_the_page(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 422)
    assert "import" not in answer.text


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("fill", {"text": "[MASK] " * 9}, "9 blanks, and the page takes 8"),
        ("fill", {"text": "the cat ."}, "has no blank"),
        ("fill", {"text": f"the [GAP:{'1' * 1000}] ."}, "is too long: give at most 100,000 tokens"),
        ("fill", {"text": "the [GAP:99999] ."}, "99,999 tokens at their shortest"),
        ("fill", {"text": "the \ud800 [MASK]"}, "the request holds half of a surrogate pair"),
        (
            "fill",
            {"text": TWO, "model": "/etc/passwd"},
            "model '/etc/passwd': Extra inputs are not permitted",
        ),
        ("fill", {"text": TWO, "construction": "balancd"}, "did you mean balanced?"),
        ("fill", {"text": TWO, "given": {"3": "cat"}}, "3"),
        ("fill", {"text": TWO, "given": {"cat": "cat"}}, "given.cat"),
        (
            "fill",
            b'{"text": "the [MASK] .", "given": {"1": "a", "1": "b"}}',
            "holds an object with the key '1' twice",
        ),
        (
            "score",
            b'{"texts": ["the cat ."], "texts": ["the dog ."]}',
            "holds an object with the key 'texts' twice: correct it",
        ),
        (
            "sample",
            {"template": TWO, "chains": 17},
            "chains 17: Input should be less than or equal to 16",
        ),
        ("fill", {}, "text: Field required"),
        ("fill", {"text": TWO, "body": 1}, "body 1: Extra inputs are not permitted"),
        (
            "differences",
            {"models": ["a", "b"], "told": [{"by": "x"}, {"by": "x", "values": {}}]},
            "told.0.values: Field required",
        ),
        (
            "fill",
            json.dumps({"text": TWO}).encode("utf-16"),
            "the request is not in UTF-8: send JSON in UTF-8",
        ),
        (
            "fill",
            '{"text": "thé [MASK] .", "text": "a"}'.encode("utf-8-sig"),
            "holds an object with the key 'text' twice",
        ),
        (
            "sample",
            {"template": "[MASK] " * 14, "chains": 16, "sweeps": 500, "kernel": "nonsense"},
            "kernel 'nonsense'",
        ),
    ],
)
def test_what_cannot_be_answered_is_one_line(client, path, body, said):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(
        f"/api/{path}", content=content, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422, answer.text
    assert said in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_a_byte_order_mark_is_left_out(client):
    content = json.dumps({"text": "the [MASK] ."}).encode("utf-8-sig")
    answer = client.post(
        "/api/words", content=content, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    assert answer.json() == client.post("/api/words", json={"text": "the [MASK] ."}).json()


def test_an_id_of_any_length_is_not_under_way(client):
    for length in (1, 40, 41, 5_000):
        answer = client.delete(f"/api/jobs/{'x' * length}")
        assert answer.status_code == 404
        assert "is not under way" in answer.json()["error"]
        assert len(answer.json()["error"]) < 300


def test_what_is_too_long_for_the_page_says_so(monkeypatch, client):
    monkeypatch.setattr(limits, "MOST_PASSES", 10)
    monkeypatch.setattr(limits, "MOST_STEPS", 10)
    # Dependence is refused by the verb: it can be stopped, and then shows the pairs so far.
    monkeypatch.setattr("unmask.tables.joint_limits.MAX_PASSES", 10)
    for path, body in {
        "fill": {"text": TWO, "candidates": "all"},
        "dependence": {"text": "the cat sat .", "candidates": 4},
        "sample": {"template": TWO, "sweeps": 6},
        "sample/events": {"template": TWO, "sweeps": 6},
    }.items():
        answer = client.post(f"/api/{path}", json=body)
        assert answer.status_code == 422
        assert "the command line" in answer.json()["error"]


def test_a_large_request_is_refused_with_and_without_its_length(client):
    large = b'{"text": "' + b"a" * limits.MOST_BYTES + b'"}'
    said = client.post("/api/fill", content=large, headers={"content-type": "application/json"})
    unsaid = client.post(
        "/api/fill",
        content=iter([large[:1000], large[1000:]]),
        headers={"content-type": "application/json"},
    )
    assert said.status_code == unsaid.status_code == 413
    assert "larger than 65,536 bytes" in said.json()["error"] == unsaid.json()["error"]


def test_too_many_at_once_are_told_to_come_back(client, served, monkeypatch):
    monkeypatch.setattr("unmask.surfaces.serving.jobs.MOST_JOBS", 0)
    answer = client.post("/api/fill", json={"text": TWO})
    assert answer.status_code == 429
    assert answer.headers["retry-after"]


def test_32_clients_at_once_get_the_answers_that_they_have_alone(client, tiny):
    words = ["the", "a", "cat", "dog", "sat", "ran", "on", "under"]
    texts = [f"{a} [MASK] {b} [MASK] ." for a in words[:4] for b in words]

    def ask(text):
        return client.post(
            "/api/fill", json={"text": text, "top": 5, "construction": "balanced"}
        ).json()

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(ask, texts))
    for text, answer in zip(texts, answers, strict=True):
        alone = unmask.fill(text, tiny, top=5, construction="balanced")
        assert answer["text"] == text
        assert [c["log_prob"] for c in answer["completions"]] == [
            c.log_prob for c in alone.completions
        ]


def test_the_lock_is_had_in_the_order_in_which_it_was_asked_for(until):
    """A thread that gives it up and asks again goes behind those that wait."""
    lock, order = FairLock(), []

    def work(name):
        with lock:
            order.append(name)

    others = [threading.Thread(target=work, args=(name,)) for name in ("first", "second")]
    with lock:
        for n, other in enumerate(others, 2):
            other.start()
            until(lambda n=n: len(lock._queue) == n)
    work("again")
    for other in others:
        other.join()
    assert order == ["first", "second", "again"]


def test_a_short_question_waits_for_one_batch_of_a_long_job(tiny, until):
    lock, order, third, go = FairLock(), [], threading.Event(), threading.Event()
    model = shared(tiny, lock)
    rows = torch.full((40, 5), 6), torch.ones((40, 1), dtype=torch.long)
    batches, plain = model.batches, tiny.head

    def slow(ids, positions):
        order.append(len(ids))
        if len(order) == 3:
            third.set()
            assert go.wait(300)
        return plain(ids, positions)

    batches.budget, model.head, model.encoder = 2 * tiny.cost.bytes(5, 1), slow, None
    long = threading.Thread(target=lambda: model.logits(*rows))
    long.start()
    assert third.wait(300)
    short = threading.Thread(target=lambda: model.logits(rows[0][:1], rows[1][:1]))
    short.start()
    until(lambda: len(lock._queue) == 2)
    go.set()
    for one in (long, short):
        one.join()
    assert order[3] == 1
    assert sum(order) == 41


@pytest.mark.parametrize(("flag", "error"), [("cancelled", Cancelled), ("stopping", Enough)])
def test_a_job_that_was_cancelled_or_stopped_gets_no_more_batches(tiny, flag, error):
    model, job = shared(tiny, FairLock()), Job()
    rows = torch.full((3, 5), 6), torch.ones((3, 1), dtype=torch.long)
    token = CURRENT.set(job)
    try:
        assert torch.equal(model.logits(*rows), tiny.logits(*rows))
        setattr(job, flag, True)
        with pytest.raises(error):
            model.logits(*rows)
        with pytest.raises(error):
            list(
                model.substitutions(
                    tiny.words.encode("the cat sat ."), [2], torch.arange(5, 9)[:, None], 3
                )
            )
    finally:
        CURRENT.reset(token)
    assert torch.equal(model.logits(*rows), tiny.logits(*rows)), "others go on"


def test_a_job_that_is_cancelled_while_it_waits_for_a_gpu_gets_no_batch(tiny, monkeypatch):
    """Its client leaves while the batch of another job is computed."""
    model, job = shared(tiny, FairLock()), Job()
    model.batches.device = torch.device("cuda")

    def synchronize(device):
        job.cancelled = True

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    token = CURRENT.set(job)
    try:
        with pytest.raises(Cancelled):
            model.logits(torch.full((3, 5), 6), torch.ones((3, 1), dtype=torch.long))
    finally:
        CURRENT.reset(token)


def test_kept_fillings_are_bounded_and_the_one_used_longest_ago_goes_first(tiny, monkeypatch):
    from unmask.surfaces.serving.questions import Answers, _key

    answers = Answers(tiny)
    monkeypatch.setattr("unmask.surfaces.serving.questions.CACHED_CELLS", 2 * 2 * 25)

    def asked(first, candidates=5):
        values = {"text": f"{first} [MASK] sat on the [MASK] .", "candidates": candidates}
        answers.fill(values)
        return values

    the, a, _the, cat = (asked(first) for first in ("the", "a", "the", "cat"))
    kept = [answers._kept.get(values) is not None for values in (the, a, cat)]
    assert kept == [True, False, True]
    large = asked("the", 12)
    assert answers._kept.get(large) is None, "too large to be kept"
    assert answers._kept.get(the) is not None, "and nothing went for it"
    a = asked("a")
    answers._kept.keep(the, answers._kept._fillings[_key(the)])  # two equal requests at once
    asked("cat")
    kept = [answers._kept.get(values) is not None for values in (the, a)]
    assert kept == [True, False], "what was kept again is new"


@pytest.mark.parametrize("path", ["fill", "score", "generate", "sample", "dependence", "mutants"])
def test_a_request_cannot_name_a_file_or_a_model(client, tmp_path, path):
    """Methods and models are those that the server was started with."""
    from unmask.surfaces.serving.requests import ENDPOINTS

    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit('loaded')\n")
    endpoint = ENDPOINTS[path]
    body = dict(endpoint.example)
    named = {"construction", "score", "decoder", "kernel", "energy"} & set(endpoint.types)
    assert named
    for name in named:
        value = f"{file}:Mine"[-40:]
        answer = client.post(
            f"/api/{path}", json={**body, name: [value] if name == "score" else value}
        )
        assert answer.status_code == 422, (path, name)
    for name in ("model", "out", "figure", "file", "judge", "alphabet"):
        answer = client.post(f"/api/{path}", json={**body, name: str(file)})
        assert answer.status_code == 422
        assert answer.json()["error"].startswith(name)
