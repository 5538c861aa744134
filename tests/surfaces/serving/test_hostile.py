"""A server in its own process under requests that nobody should send, under many users at once,
and when it is killed.
"""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, IncompleteRead
from itertools import product

import pytest

import unmask
from support.hostile import Hostile, hostile_requests, send
from unmask.common.plain import in_json
from unmask.surfaces.serving.jobs import ENDING, FAILED
from unmask.surfaces.serving.requests import ENDPOINTS
from unmask.surfaces.serving.server import HEADERS

WAIT = 300
"""Seconds after which a test that waits has hung."""
SMALL = {
    "words": {"text": "the [MASK] sat ."},
    "fill": {"text": "the [MASK] sat on a [MASK] .", "candidates": 4, "cells": 4},
    "compare": {"text": "the [MASK] sat on a [MASK] .", "candidates": 4},
    "dependence": {"text": "the cat sat .", "candidates": 4},
    "mutants": {"sequence": "the cat sat .", "positions": [1, 2], "changes": 2},
    "differences": {
        "models": ["one", "another"],
        "told": [
            {"by": "log-probability", "values": {"the cat sat .": -1.25}},
            {"by": "log-probability", "values": {"the cat sat .": -1.5}},
        ],
    },
    "score": {"texts": ["the cat sat ."], "score": ["pll"]},
    "batch": {"content": "the cat sat .\nthe dog sat .\n"},
    "sample": {"template": "the [MASK] [MASK] .", "kernel": "mh", "chains": 2, "sweeps": 3},
    "generate": {"template": "the [MASK] [MASK] .", "decoder": "verified", "n_texts": 2},
}
"""Questions of each endpoint that the tiny model answers at once."""


class Server:
    """`unmask serve` of the tiny model."""

    def __init__(self, folder):
        command = [sys.executable, "-m", "unmask", "serve", "--port", "0", "--model", str(folder)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.port = int(re.findall(r":(\d+)/", self.process.stdout.readline())[0])
        self.said = []
        self.listening = threading.Thread(target=self.listen)
        self.listening.start()

    def listen(self):
        self.said += self.process.stderr

    def ask(self, method, path, body=None):
        """(status, headers, content)."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()

    def end(self, number):
        """The exit code of the process after this signal, and seconds until it ended."""
        start = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(WAIT)
        self.listening.join(WAIT)
        return code, time.monotonic() - start


@pytest.fixture(scope="module")
def server(tiny_folder):
    """A server of this file, which ends without a line about a defect."""
    server = Server(tiny_folder)
    yield server
    server.end(signal.SIGTERM)
    assert not [line for line in server.said if "Traceback" in line or "Error" in line]


@pytest.fixture(scope="module")
def examples(server):
    """(body, names of fields) of each operation that takes a body."""
    _, _, content = server.ask("GET", "/openapi.json")
    document = json.loads(content)
    found = {}
    for path, methods in document["paths"].items():
        if "requestBody" in methods.get("post", {}):
            reference = methods["post"]["requestBody"]["content"]["application/json"]["schema"]
            schema = document["components"]["schemas"][reference["$ref"].rpartition("/")[2]]
            found[path] = (SMALL[path.split("/")[2]], tuple(schema["properties"]))
    assert {"/api/fill", "/api/fill/events", "/api/fill/copy", "/api/sample/events"} <= set(found)
    assert set(SMALL) == set(ENDPOINTS)
    return found


def sweep(server, examples, count, seed):
    """Send that many requests, and check every reply; returns how many had which status."""
    statuses = Counter()
    for request in hostile_requests(count, seed, examples):
        reply = send(request, server.port, WAIT)
        check(request, reply)
        statuses[reply.status] += 1
    assert server.process.poll() is None
    status, _, content = server.ask("GET", "/healthz")
    assert status == 200, content
    status, _, content = server.ask("POST", "/api/fill", SMALL["fill"])
    assert status == 200, content
    return statuses


def check(request, reply):
    """No defect, and every refusal is a line of JSON."""
    what = (request, reply)
    if reply.status == 0:  # nobody is there to read an answer
        assert request.stops, what
        return
    assert reply.status < 500, what
    assert FAILED.encode() not in reply.body, what
    if reply.status < 400 or request.method == "HEAD":
        return
    assert "content-type: application/json" in reply.headers, what
    refusal = json.loads(reply.body)
    assert list(refusal) == ["error"], what
    assert refusal["error"].strip(), what
    assert "\n" not in refusal["error"], what
    assert len(refusal["error"]) < 1_000, what


def test_hostile_requests_are_refused_in_a_line(server, examples):
    statuses = sweep(server, examples, count=300, seed=0)
    assert {200, 400, 403, 404, 405, 413, 422} <= set(statuses)


@pytest.mark.slow
def test_2000_hostile_requests_are_refused_in_a_line(server, examples):
    statuses = sweep(server, examples, count=2_000, seed=1)
    assert statuses.total() == 2_000


def test_the_checks_of_a_reply_find_what_is_wrong():
    from support.hostile import Reply

    request = Hostile("raw", "POST", "/api/fill")
    fine = Reply(400, "content-type: application/json", b'{"error": "a line"}')
    check(request, fine)
    for status, headers, body in (
        (500, fine.headers, fine.body),
        (400, "content-type: text/plain", fine.body),
        (422, fine.headers, b'{"error": "two\\nlines"}'),
        (422, fine.headers, b'{"detail": "a line"}'),
        (200, "", f"event: error\ndata: {FAILED}".encode()),
        (0, "", b""),
    ):
        with pytest.raises(AssertionError):
            check(request, Reply(status, headers, body))


def test_what_is_not_http_gets_the_headers_of_every_answer(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) as connection:
        connection.sendall(b"this is not HTTP\r\n\r\n")
        answer = connection.makefile("rb").read()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    lines = head.decode().lower().splitlines()
    for name, value in HEADERS.items():
        assert f"{name}: {value}".lower() in lines
    assert "is not HTTP" in json.loads(body)["error"]


def test_a_key_twice_among_many_holds_nobody_up(server):
    """The event loop looks for it; one look per pair of keys took minutes, in which all waited."""
    values = ",".join(f'"{number:05}": 1' for number in range(60_000))
    body = (
        f'{{"models": ["a", "b"], "told": [{{"by": "x", "values": {{{values}, "z": 1, "z": 2}}}}]}}'
    )
    connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("POST", "/api/differences", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 422
    assert "an object with the key 'z' twice" in json.load(answer)["error"]


def test_60_users_at_once_get_the_answers_of_one_after_the_other(server, tiny):
    """More users than jobs: who is told to come back comes back."""
    words = ["the", "a", "cat", "dog", "sat", "ran", "on", "under"]
    bodies = [
        {"text": f"{a} [MASK] {b} [MASK] {c}", "construction": "balanced", "top": 4}
        for a, b, c in product(words, words, [".", "on ."])
    ]
    bodies = [*bodies, *bodies][:180]
    told = []

    def ask(body):
        while True:
            status, headers, content = server.ask("POST", "/api/fill", body)
            if status != 429:
                assert status == 200, content
                return json.loads(content)
            told.append(headers["retry-after"])
            time.sleep(0.05)

    def use(user):
        return [ask(body) for body in bodies[3 * user : 3 * user + 3]]

    with ThreadPoolExecutor(60) as pool:
        answers = [answer for three in pool.map(use, range(60)) for answer in three]
    assert len(answers) == 180
    for body, answer in zip(bodies, answers, strict=True):
        known = in_json(unmask.fill(body["text"], tiny, construction="balanced", top=4).to_dict())
        assert {name: answer[name] for name in known} == known
    assert set(told) <= {"2"}
    status, _, content = server.ask("GET", "/healthz")
    assert (status, json.loads(content)["jobs"]) == (200, 0)


LONG_SAMPLE = {"template": "[MASK] [MASK] [MASK] sat .", "chains": 16, "sweeps": 500}


class Reader(threading.Thread):
    """A client that reads a stream to its end."""

    def __init__(self, server, path, body):
        super().__init__(daemon=True)
        self.server, self.path, self.body = server, path, body
        self.begun = threading.Event()
        self.read = b""
        self.error = None
        self.start()

    def run(self):
        connection = HTTPConnection("127.0.0.1", self.server.port, timeout=WAIT)
        connection.request(
            "POST", self.path, json.dumps(self.body), {"content-type": "application/json"}
        )
        answer = connection.getresponse()
        self.read = answer.readline()
        self.begun.set()
        try:
            self.read += answer.read()
        except IncompleteRead as error:
            self.read += error.partial
            self.error = error
        except (OSError, HTTPException) as error:
            self.error = error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_server_leaves_no_client_waiting(tiny_folder, number):
    """Streams end with `error` where the server can say so, and else break off."""
    server = Server(tiny_folder)
    readers = [Reader(server, "/api/sample/events", LONG_SAMPLE) for _ in range(8)]
    for reader in readers:
        assert reader.begun.wait(WAIT)
    code, seconds = server.end(number)
    for reader in readers:
        reader.join(WAIT)
        assert not reader.is_alive()
        assert reader.read.startswith(b"event: job\n")
    if number == signal.SIGKILL:
        assert code == -signal.SIGKILL
        assert all(reader.error for reader in readers)
        return
    assert code == 130
    assert seconds < WAIT / 10, "it waits for work that nobody needs"
    last = f"event: error\ndata: {json.dumps({'error': ENDING})}\n\n".encode()
    for reader in readers:
        assert reader.error is None
        assert reader.read.endswith(last)
    assert server.said == []
