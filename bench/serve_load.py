"""What the page costs its clients, as ratios measured side by side in one run; each server is a
process of its own.

    python bench/serve_load.py [--requests 16] [--candidates 64] [--against OTHER/src]

- One client: the median of each kind of question; with --against its ratio to the same question
asked of another checkout. - 32 clients at once: seconds over those of one client after the
other. - One-blank fills beside a long job (any_order of two sentences, an exact joint): their
95th percentile over that without it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

SUBJECTS = ["man", "woman", "boy", "girl", "dog", "crowd", "child", "player"]
PLACES = ["park", "street", "house", "water", "field", "city", "garden", "crowd"]
CLIENTS = 32
Question = tuple[str, dict[str, Any]]


def texts(count: int, first: str = "[MASK]", second: str = "[MASK]") -> list[str]:
    """Different sentences of one length."""
    every = [f"The {s} {first} a {second} in the {p}." for s in SUBJECTS for p in PLACES]
    return [every[i % len(every)] for i in range(count)]


def kinds(count: int, candidates: int) -> dict[str, list[Question]]:
    """Questions of each kind."""
    whole = texts(count, "saw", "bird")
    return {
        "fill, one blank": [("fill", {"text": text}) for text in texts(count, "saw")],
        "score, pll": [("score", {"texts": [text]}) for text in whole],
        "fill, two blanks": [
            ("fill", {"text": text, "construction": "balanced", "candidates": candidates})
            for text in texts(count)
        ],
        "dependence": [
            ("dependence", {"text": "The [MASK] saw [MASK] [MASK].", "candidates": 16})
            for _ in whole
        ],
        "sample": [
            ("sample", {"template": text, "sweeps": 5, "seed": n})
            for n, text in enumerate(texts(count))
        ],
    }


class Server:
    """A server of the bundled model in its own process."""

    def __init__(self, port: int) -> None:
        self.port = port

    def request(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> http.client.HTTPResponse:
        """A request, whose answer has begun."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        connection.request(
            method,
            path,
            None if body is None else json.dumps(body),
            {"content-type": "application/json"},
        )
        return connection.getresponse()

    def ask(self, question: Question) -> float:
        """Seconds of one question."""
        start = time.perf_counter()
        answer = self.request("POST", f"/api/{question[0]}", question[1])
        body = answer.read()
        assert answer.status == 200, body
        return time.perf_counter() - start

    def load(self, questions: Sequence[Question], clients: int) -> tuple[list[float], float]:
        """Seconds of each question, and seconds of all."""
        start = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            seconds = list(pool.map(self.ask, questions))
        return seconds, time.perf_counter() - start

    @contextmanager
    def long_job(self, path: str, body: dict[str, Any]) -> Iterator[threading.Thread]:
        """A job that runs within the block, and is stopped at its end."""
        answer = self.request("POST", f"/api/{path}/events", body)
        name = re.search(rb'"id": ?"(\w+)"', answer.readline() + answer.readline())
        assert name is not None

        def read() -> None:
            with suppress(OSError, http.client.HTTPException):
                answer.read()

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        yield reading
        self.request("DELETE", f"/api/jobs/{name[1].decode()}").read()
        reading.join()


@contextmanager
def serving(source: Path | None = None) -> Iterator[Server]:
    """A server that ends with the block; `source` is the src folder of another checkout."""
    command = [sys.executable, "-m", "unmask", "serve", "--port", "0", "--device", "cpu"]
    environment = os.environ | ({} if source is None else {"PYTHONPATH": str(source.resolve())})
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield Server(int(re.findall(r":(\d+)/", process.stdout.readline())[0]))
        finally:
            process.terminate()


def one_client(server: Server, other: Server | None, questions: dict[str, list[Question]]) -> None:
    """The median of each kind; with another server, questions go to both in turn."""
    for name, some in questions.items():
        if other is None:
            print(f"{name:20s} {np.median(server.load(some, 1)[0]):.3f} s", flush=True)
            continue
        pairs = [(server.ask(question), other.ask(question)) for question in some]
        here, there = np.median(pairs, axis=0)
        ratio = np.median([mine / theirs for mine, theirs in pairs])
        print(f"{name:20s} {here:.3f} s, there {there:.3f} s: {ratio:.2f} times", flush=True)


def all_at_once(server: Server, questions: dict[str, list[Question]]) -> None:
    """Seconds of all clients at once over one after the other, each measured twice in turn."""
    for name, some in questions.items():
        alone, together = (
            np.sum([[server.load(some, n)[1] for n in (1, CLIENTS)] for _ in range(2)], axis=0) / 2
        )
        print(
            f"{name:20s} {len(some)} one after the other {alone:.2f} s, at once {together:.2f} s:"
            f" {together / alone:.2f} times",
            flush=True,
        )


def beside_long_jobs(server: Server, questions: list[Question]) -> None:
    """The 95th percentile of one-blank fills while a long job runs, over that without it."""
    sentences = [
        "The old man walked his dog along the river in the morning.",
        "A woman saw two birds on the roof of the house today.",
    ]
    jobs = {
        "any_order of two sentences": ("score", {"texts": sentences, "score": ["any_order"]}),
        "an exact joint": (
            "fill",
            {"text": "The [MASK] [MASK] at the casino.", "candidates": "all"},
        ),
    }
    for name, (path, body) in jobs.items():
        before = server.load(questions, 1)[0]
        with server.long_job(path, body) as running:
            time.sleep(3)
            beside = server.load(questions, 1)[0]
            ended = "" if running.is_alive() else " (which ended meanwhile)"
        before += server.load(questions, 1)[0]
        slow, usual = (float(np.quantile(seconds, 0.95)) for seconds in (beside, before))
        print(
            f"one-blank fills beside {name}{ended}: 95 % within {slow:.3f} s, {slow / usual:.2f}"
            f" times the {usual:.3f} s alone",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--against", type=Path, help="src folder of another checkout")
    options = parser.parse_args()
    questions = kinds(options.requests, options.candidates)
    with serving() as server:
        for some in questions.values():
            server.load(some[:4], 4)
        if options.against is None:
            one_client(server, None, questions)
        else:
            with serving(options.against) as other:
                for some in questions.values():
                    other.load(some[:4], 4)
                one_client(server, other, questions)
        all_at_once(server, questions)
        beside_long_jobs(server, questions["fill, one blank"])


if __name__ == "__main__":
    main()
