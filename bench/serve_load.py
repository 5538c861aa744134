"""What serving costs many clients, as ratios measured side by side in one run; the server is a process of its own.

    python bench/serve_load.py [--requests 32] [--candidates 64] [--exact]

- Equal kinds in a batch: the throughput of 32 clients over that of one after the other, for one-blank fills, scores, fills of two
  blanks over candidates (whose passes fill the model's batches by themselves), and for one question asked by all.
- One-blank fills beside a long job (any_order of two sentences, an exact joint): their 95th percentile over that without it.
- Mixed work of 32 clients: fills, scores, dependence and chains; the 95th percentile of each kind over its time alone.
- Memory: the server's resident set a minute after the last request over that at the start; with --exact after an exact joint.
"""

from __future__ import annotations

import argparse
import http.client
import json
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
MINUTE = 60
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
        "fill, two blanks": [("fill", {"text": text, "joint": "balanced", "candidates": candidates}) for text in texts(count)],
        "dependence": [("dependence", {"text": "The [MASK] saw [MASK] [MASK].", "candidates": 16}) for _ in whole],
        "sample": [("sample", {"template": text, "sweeps": 5, "seed": n}) for n, text in enumerate(texts(count))],
    }


class Server:
    """A server of the bundled model in its own process."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> http.client.HTTPResponse:
        """A request, whose answer has begun."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        connection.request(method, path, None if body is None else json.dumps(body), {"content-type": "application/json"})
        return connection.getresponse()

    def ask(self, question: Question) -> float:
        """Seconds of one question."""
        start = time.perf_counter()
        answer = self.request("POST", f"/api/{question[0]}", question[1])
        found = answer.read()
        assert answer.status == 200, found
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

    @property
    def memory(self) -> float:
        """Resident set in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


@contextmanager
def serving() -> Iterator[Server]:
    """A server that ends with the block."""
    command = [sys.executable, "-m", "unmask", "serve", "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(process, int(re.findall(r":(\d+)/", process.stdout.readline())[0]))
        finally:
            process.terminate()


def equal_kinds(server: Server, asked: dict[str, list[Question]]) -> None:
    """Throughput of all at once over one after the other, each measured twice in turn."""
    chosen = {name: asked[name] for name in ("fill, one blank", "score, pll", "fill, two blanks")}
    chosen["one question of all"] = [asked["fill, two blanks"][0]] * CLIENTS
    for name, questions in chosen.items():
        alone, together = np.sum([[server.load(questions, n)[1] for n in (1, CLIENTS)] for _ in range(2)], axis=0) / 2
        both = f"{len(questions)} one after the other {alone:.2f} s, together {together:.2f} s"
        print(f"{name:22s} {both}: {alone / together:.2f} times", flush=True)


def mixed_work(server: Server, asked: dict[str, list[Question]]) -> None:
    """The 95th percentile of each kind among mixed work of all clients, over its median alone."""
    alone = {name: float(np.median(server.load(questions[:3], 1)[0])) for name, questions in asked.items()}
    every = [(name, question) for group in zip(*asked.values(), strict=True) for name, question in zip(asked, group, strict=True)]
    seconds, all_of_them = server.load([question for _, question in every], CLIENTS)
    print(f"mixed work of {CLIENTS} clients: {len(every)} requests in {all_of_them:.1f} s", flush=True)
    for name in asked:
        mine = [took for (kind, _), took in zip(every, seconds, strict=True) if kind == name]
        slow = float(np.quantile(mine, 0.95))
        print(f"  {name:20s} 95 % within {slow:.2f} s, {slow / alone[name]:.1f} times the {alone[name]:.2f} s alone", flush=True)


def beside_long_jobs(server: Server, questions: list[Question]) -> None:
    """The 95th percentile of one-blank fills while a long job runs, over that without it."""
    sentences = [
        "The old man walked his dog along the river in the morning.",
        "A woman saw two birds on the roof of the house today.",
    ]
    jobs = {
        "any_order of two sentences": ("score", {"texts": sentences, "scores": ["any_order"]}),
        "an exact joint": ("joint", {"text": "The [MASK] [MASK] at the casino.", "exact": True}),
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
            f"one-blank fills beside {name}{ended}: 95 % within {slow:.3f} s, {slow / usual:.2f} times the {usual:.3f} s alone",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=CLIENTS)
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--exact", action="store_true", help="let an exact joint end, for the memory that it leaves")
    options = parser.parse_args()
    asked = kinds(options.requests, options.candidates)
    with serving() as server:
        for questions in asked.values():
            server.load(questions[:4], 4)
        at_start = server.memory
        equal_kinds(server, asked)
        beside_long_jobs(server, asked["fill, one blank"])
        mixed_work(server, asked)
        if options.exact:
            print(f"an exact joint: {server.ask(('joint', {'text': 'The [MASK] [MASK] at the casino.', 'exact': True})):.0f} s")
        after = server.memory
        time.sleep(MINUTE)
        later = server.memory
        print(f"memory: {at_start:.0f} MiB at the start, {after:.0f} after, {later:.0f} a minute later: {later / at_start:.2f}")


if __name__ == "__main__":
    main()
