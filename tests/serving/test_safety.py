"""Who may ask, how much, and what happens to work that nobody waits for."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partialmethod

import pytest
import torch

import unmask
from unmask.models.masked_lm import MaskedLM
from unmask.sampling.run.watching import watch
from unmask.sampling.settings import SampleSettings
from unmask.serving import requests
from unmask.serving.guard import Guard
from unmask.serving.worker import CURRENT, Cancelled, Job, SharedLM

TWO = "the [MASK] sat on the [MASK] ."


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "169.254.1.1", ""])
def test_another_name_is_refused(client, host):
    answer = client.get("/api/about", headers={"host": host})
    assert answer.status_code == 403 and "open the one that it printed" in answer.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "LOCALHOST"])
def test_names_of_this_machine_are_answered(client, host):
    assert client.get("/api/about", headers={"host": host}).status_code == 200


def test_beyond_loopback_addresses_are_answered_and_names_are_not(served):
    guard = Guard(served[0].app, "0.0.0.0")
    assert guard._is_own("192.168.1.7") and guard._is_own("localhost") and not guard._is_own("evil.example")
    assert Guard(None, "box.local")._is_own("box.local")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8000"])
def test_another_site_is_refused(client, origin):
    answer = client.post("/api/fill", json={"text": TWO}, headers={"origin": origin})
    assert answer.status_code == 403 and "another site" in answer.json()["error"]


def test_the_page_itself_is_answered(client):
    assert client.post("/api/words", json={"text": TWO}, headers={"origin": "http://127.0.0.1:8000"}).status_code == 200


def test_no_script_or_style_but_the_page_s_own(client):
    for path in ("/", "/api/about", "/nothing", "/api"):
        policy = client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    for path in ("/", "/api"):
        page = client.get(path).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\bstyle=|https?://(?!www\.w3\.org)", page)


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/%2e%2e/%2e%2e/__init__.py", "/..%2f..%2f__init__.py", "/api/runs/0", "/api/runs/x"]
)
def test_no_path_leads_out_of_the_page(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 422) and "import" not in answer.text


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("fill", {"text": "the " * 600 + "[MASK]"}, "at most 2000 characters"),
        ("fill", {"text": "[MASK] " * 9}, "9 blanks, and the page takes 8"),
        ("fill", {"text": "the cat ."}, "has no blank"),
        ("fill", {"text": " "}, "is empty"),
        ("fill", {"text": f"the [GAP:{'1' * 1000}] ."}, "is too long: give at most 100,000 tokens"),
        ("fill", {"text": "the [GAP:99999] ."}, "99,999 tokens at their shortest"),
        ("fill", {"text": "the \ud800 [MASK]"}, "unable to parse raw data as a unicode string"),
        ("fill", {"text": TWO, "model": "/etc/passwd"}, "model: Extra inputs are not permitted"),
        ("fill", {"text": TWO, "candidates": 5000}, "candidates: Input should be less than or equal to 1024"),
        ("fill", {"text": TWO, "joint": "balancd"}, "did you mean balanced?"),
        ("joint", {"text": "the [MASK] sat ."}, "has one blank"),
        ("joint", {"text": TWO, "pin": {"blank": 0, "token": 0}}, "not all among the candidates"),
        ("sample", {"template": TWO, "chains": 17}, "chains: Input should be less than or equal to 16"),
        ("sample", {"template": "[MASK] " * 14, "chains": 16, "sweeps": 500, "kernel": "nonsense"}, "kernel 'nonsense'"),
        ("score", {"texts": ["the cat ."], "scores": ["log_prob"]}, "takes minutes"),
        ("score", {"texts": ["the cat ."] * 5}, "texts: List should have at most 4 items"),
        ("conditionals", {"text": "the cat .", "positions": [99]}, "positions 99 is out of range"),
        ("dependence", {"text": "the cat .", "candidates": 1}, "candidates: Input should be greater than or equal to 2"),
    ],
)
def test_what_cannot_be_answered_is_one_line(client, path, body, said):
    import json

    answer = client.post(f"/api/{path}", content=json.dumps(body).encode(), headers={"content-type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert said in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_what_is_no_json_is_called_that(client):
    answer = client.post("/api/joint", content=b"no json", headers={"content-type": "application/json"})
    assert answer.status_code == 422 and answer.json()["error"] == "the request: JSON decode error"


def test_what_is_too_long_for_the_page_says_so(monkeypatch, client):
    monkeypatch.setattr(requests, "MOST_PASSES", 10)
    monkeypatch.setattr(requests, "MOST_DEPENDENCE_PASSES", 10)
    monkeypatch.setattr(requests, "MOST_STEPS", 10)
    for path, body in {
        "joint": {"text": TWO, "exact": True},
        "dependence": {"text": "the cat sat ."},
        "sample": {"template": TWO, "sweeps": 6},
    }.items():
        answer = client.post(f"/api/{path}", json=body)
        assert answer.status_code == 422 and "the command line" in answer.json()["error"]


def test_a_large_request_is_refused_with_and_without_its_length(client):
    large = b'{"text": "' + b"a" * requests.MOST_BYTES + b'"}'
    said = client.post("/api/fill", content=large, headers={"content-type": "application/json"})
    unsaid = client.post("/api/fill", content=iter([large[:1000], large[1000:]]), headers={"content-type": "application/json"})
    assert said.status_code == unsaid.status_code == 413
    assert "larger than 65,536 bytes" in said.json()["error"] == unsaid.json()["error"]


def test_too_many_at_once_are_told_to_come_back(client, served, monkeypatch):
    monkeypatch.setattr("unmask.serving.desk.MOST_JOBS", 0)
    answer = client.post("/api/fill", json={"text": TWO})
    assert answer.status_code == 429 and answer.headers["retry-after"]


def test_32_clients_at_once_get_right_answers(client, served, tiny):
    """Different questions at once, each with the answer that it has alone; their passes ran together."""
    words = ["the", "a", "cat", "dog", "sat", "ran", "on", "under"]
    texts = [f"{a} [MASK] {b} [MASK] ." for a in words[:4] for b in words]
    worker = served[1].model.worker
    calls, questions = worker.calls, worker.questions

    def ask(text):
        return client.post("/api/fill", json={"text": text, "top": 5, "joint": "balanced"}).json()

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(ask, texts))
    assert worker.calls - calls < worker.questions - questions
    for text, answer in zip(texts, found, strict=True):
        known = unmask.fill(text, tiny, top=5, joint="balanced")
        assert answer["text"] == text
        assert [c["log_prob"] for c in answer["completions"]] == pytest.approx([c.log_prob for c in known.completions], abs=1e-4)


class SlowModel(SharedLM):
    """A shared model whose passes wait for `gate`, and are counted."""

    def __init__(self, model):
        super().__init__(model)
        self.gate, self.seen = threading.Event(), []
        plain = model.logits

        def logits(ids, positions):
            self.gate.wait(10)
            self.seen.append(len(ids))
            return plain(ids, positions)

        self.worker.model = type("Counted", (), {"logits": staticmethod(logits), "rows_at_once": model.rows_at_once})()


def ask_for(model, job, rows, said):
    def work():
        CURRENT.set(job)
        try:
            said.append(("done", job, len(model.logits(torch.full((rows, 5), 6), torch.ones((rows, 1), dtype=torch.long)))))
        except Cancelled:
            said.append(("cancelled", job, 0))

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.05)
    return thread


def test_the_job_that_had_least_goes_first_and_equal_shapes_run_together(tiny):
    model, said = SlowModel(tiny), []
    large, small, other, apart = Job(), Job(), Job(), Job(apart=True)
    large.spent = 1000
    first = Job()
    threads = [ask_for(model, first, 1, said)]
    threads += [ask_for(model, job, rows, said) for job, rows in ((large, 7), (small, 3), (other, 2))]
    model.gate.set()
    for thread in threads:
        thread.join(10)
    assert model.seen[0] == 1 and model.seen[1] == 3 + 2 + 7
    assert small.spent == 3 and large.spent == 1007
    ask_for(model, apart, 4, said).join(10)
    assert said[-1] == ("done", apart, 4)
    assert model.worker.close(5)


def test_a_cancelled_job_gets_no_more_passes(tiny):
    model, said = SlowModel(tiny), []
    running, waiting = Job(), Job()
    threads = [ask_for(model, running, 1, said), ask_for(model, waiting, 2, said)]
    waiting.cancelled = True
    model.worker.wake()
    model.gate.set()
    for thread in threads:
        thread.join(10)
    assert ("cancelled", waiting, 0) in said and ("done", running, 1) in said and model.seen == [1]
    assert ask_for(model, waiting, 1, said).join(10) is None and said[-1][0] == "cancelled"
    assert model.worker.close(5)
    with pytest.raises(Cancelled):
        model.logits(torch.full((1, 5), 6), torch.ones((1, 1), dtype=torch.long))


def test_an_error_of_the_model_reaches_the_request(tiny):
    model = SharedLM(tiny)
    with pytest.raises(unmask.InputError, match="the model takes 16"):
        model.logits(torch.full((1, 40), 6), torch.ones((1, 1), dtype=torch.long))
    with pytest.raises(IndexError):
        model.worker.call(1, lambda: [][0])
    assert len(model.logits(torch.full((0, 5), 6), torch.ones((0, 1), dtype=torch.long))) == 0
    assert model.worker.close(5)


def test_slices_of_a_large_question_are_those_of_the_model(tiny):
    model = SharedLM(tiny)
    ids, values = tiny.words.encode("the cat sat on the mat ."), torch.arange(5, 17).repeat(40)[:, None]
    for rows in (3, len(values)):
        found = torch.cat([logits for _, logits in model.substitutions(ids, [2], values[:rows], 6)])
        plain = torch.cat([logits for _, logits in tiny.substitutions(ids, [2], values[:rows], 6)])
        assert torch.allclose(found, plain, atol=1e-5)
    assert model.worker.close(5)


@pytest.mark.parametrize("kernel", ["mh", "pair-joint", "mask-predict", "refined"])
def test_one_thread_runs_the_model_of_a_watched_chain(tiny, monkeypatch, kernel):
    threads = set()

    def noted(plain, *given):
        threads.add(threading.current_thread().name)
        return plain(*given)

    for name in ("logits", "states", "logits_of", "offers_states"):
        monkeypatch.setattr(
            MaskedLM, name, partialmethod(lambda model, plain, *given: noted(plain, model, *given), getattr(MaskedLM, name))
        )
    model = SharedLM(tiny)
    settings = SampleSettings.given(template=TWO, kernel=kernel, chains=2, sweeps=1)
    assert len(list(watch(settings, model))) > 2
    assert model.offers_states(torch.full((1, 5), 6)) in (True, False)
    assert threads == {"passes"}
    assert model.worker.close(5)
