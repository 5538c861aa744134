"""What the page costs its clients: seconds of questions, alone, at once and beside long work.

    python bench/serve_load.py [--requests 16] [--candidates 64] [--runs 1] [--against SRC ...]

Each server is a process of its own, of the bundled model on the CPU. For each kind of question it
prints, per question,

- one client, which asks one after the other: seconds (the median), and processor seconds of the
  server;
- 32 clients at once: seconds until all are answered, over the number of questions, and processor
  seconds of the server.

It then prints the 95th percentile of one-blank fills

- alone;
- beside a long job: any_order of two sentences, an exact joint.

And the seconds from SIGTERM to the end of the process (--ends times)

- while chains run;
- while constructions are derived, which asks the model for no batch.

With --against, servers of other checkouts are measured in turn with this one; who is first changes
with each run. After each run it prints, for each server but the last, the median of the ratios of
its seconds to those of the last, with the smallest and the largest. Give two checkouts of one
commit to see how far ratios differ by chance:

    python bench/serve_load.py --runs 7 --against CONTROL/src OTHER/src

On a machine with other work, processor seconds are the ones to read.
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

SUBJECTS = ["man", "woman", "boy", "girl", "dog", "crowd", "child", "player"]
PLACES = ["park", "street", "house", "water", "field", "city", "garden", "crowd"]
SIZES = ["big", "small", "tall", "young", "old", "little", "tired", "happy"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
ONE_BLANK = "fill, one blank"
KINDS = (ONE_BLANK, "score, pll", "fill, two blanks", "dependence", "sample")
CLIENTS = 32
BEGUN = 1
"""Second that a long job runs before others ask beside it."""
PROCESS_CLOCK = 2
"""The kind of a Linux clock that counts the processor time of a process."""
Question = tuple[str, dict[str, Any]]
Seconds = list[float]
"""One or more things that are measured at the same time."""
LONG_JOBS: dict[str, Question] = {
    "any_order": (
        "score/events",
        {
            "texts": [
                "The old man walked his dog along the river in the morning.",
                "A woman saw two birds on the roof of the house today.",
            ],
            "score": ["any_order"],
        },
    ),
    "an exact joint": (
        "fill/events",
        {"text": "The [MASK] [MASK] at the casino.", "candidates": "all"},
    ),
}
"""Jobs that take longer than the questions asked beside them."""
ENDED_IN: dict[str, tuple[Question, bytes]] = {
    "chains": (
        (
            "sample/events",
            {"template": "The [MASK] [MASK] by the river.", "chains": 16, "sweeps": 500},
        ),
        b"swept",
    ),
    "deriving": (
        ("compare/events", {"text": "The [MASK] [MASK] at the casino.", "candidates": 1000}),
        b"deriving",
    ),
}
"""Jobs in which a server is ended, each with what its stream says when it is time."""


class Questions:
    """Questions of each kind, of which none is asked twice: the server keeps fillings."""

    def __init__(self, candidates: int) -> None:
        self.candidates = candidates
        words = list(product(DAYS, PLACES, SUBJECTS, SIZES))
        np.random.default_rng(0).shuffle(words)
        self.words = iter(words)

    def text(self, first: str = "[MASK]", second: str = "[MASK]") -> str:
        """A sentence that was not asked before, of the same length as all others."""
        day, place, subject, size = next(self.words)
        return f"On {day} the {size} {subject} {first} a {second} in the {place}."

    def ask(self, kind: str) -> Question:
        """A question of this kind."""
        if kind == "fill, one blank":
            return "fill", {"text": self.text("saw")}
        if kind == "score, pll":
            return "score", {"texts": [self.text("saw", "bird")]}
        if kind == "fill, two blanks":
            pair = {"construction": "balanced", "candidates": self.candidates}
            return "fill", {"text": self.text(), **pair}
        if kind == "dependence":
            pair = {"positions": [6, 8], "candidates": 8}
            return "dependence", {"text": self.text("saw", "bird"), **pair}
        assert kind == "sample"
        return "sample", {"template": self.text(), "chains": 2, "sweeps": 5, "seed": 0}

    def some(self, kind: str, count: int) -> list[Question]:
        """`count` questions of this kind."""
        return [self.ask(kind) for _ in range(count)]


class Server:
    """A server of the bundled model in its own process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        printed = process.stdout.readline()  # once the model is loaded
        self.process = process
        self.port = int(re.findall(r":(\d+)/", printed)[0])

    def request(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> http.client.HTTPResponse:
        """A request, whose answer has begun."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        content = None
        if body is not None:
            content = json.dumps(body)
        connection.request(method, path, content, {"content-type": "application/json"})
        return connection.getresponse()

    def ask(self, question: Question) -> float:
        """Seconds of one question."""
        path, body = question
        start = time.perf_counter()
        answer = self.request("POST", f"/api/{path}", body)
        content = answer.read()
        assert answer.status == 200, content
        assert b"event: error" not in content, content
        return time.perf_counter() - start

    def processor(self) -> float:
        """Processor seconds of the server until now, all of its threads together."""
        clock = (~self.process.pid << 3) | PROCESS_CLOCK
        return time.clock_gettime(clock)

    def in_turn(self, questions: Sequence[Question]) -> Seconds:
        """Of one client: the median of the seconds, and processor seconds per question."""
        begun = self.processor()
        seconds = [self.ask(question) for question in questions]
        used = self.processor() - begun
        return [float(np.median(seconds)), used / len(questions)]

    def at_once(self, questions: Sequence[Question]) -> Seconds:
        """Of CLIENTS clients: seconds until all have their answers, and processor seconds; both
        over the number of questions.
        """
        begun = self.processor()
        start = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(self.ask, questions))
        seconds = time.perf_counter() - start
        used = self.processor() - begun
        return [seconds / len(questions), used / len(questions)]

    def slowest(self, questions: Sequence[Question]) -> Seconds:
        """The 95th percentile of the seconds of one question, asked one after the other."""
        return [float(np.quantile([self.ask(question) for question in questions], 0.95))]

    def slowest_beside(self, job: Question, questions: Sequence[Question]) -> Seconds:
        """The same, while `job` runs."""
        with self.long_job(job) as reading:
            time.sleep(BEGUN)
            seconds = self.slowest(questions)
            assert reading.is_alive(), f"{job} ended while others were asked beside it"
        return seconds

    @contextmanager
    def long_job(self, job: Question) -> Iterator[threading.Thread]:
        """A job that runs within the block, and is stopped at its end; the thread reads it."""
        path, body = job
        answer = self.request("POST", f"/api/{path}", body)
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
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(source.resolve()), *filter(None, [environment.get("PYTHONPATH")])]
        )
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        try:
            yield Server(process)
        finally:
            process.terminate()


def seconds_to_end(source: Path | None, job: Question, sign: bytes) -> Seconds:
    """Seconds from SIGTERM, sent when the stream of `job` says `sign`, to the end of a server."""
    path, body = job
    with serving(source) as server:
        answer = server.request("POST", f"/api/{path}", body)
        while sign not in answer.readline():
            assert not answer.isclosed(), f"the stream of {path} ended before {sign!r}"
        start = time.perf_counter()
        server.process.terminate()
        server.process.wait()
        return [time.perf_counter() - start]


Measure = Callable[[], Seconds]


class Table:
    """Seconds of each server: a row for each thing measured, a column for each server."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[list[float]]] = {}

    def add(self, names: Sequence[str], measures: Sequence[Measure], first: int) -> None:
        """Measure each server once, beginning with the one of number `first`; what is measured at
        the same time has a name each.
        """
        count = len(measures)
        measured: list[Seconds] = [[]] * count
        for step in range(count):
            number = (first + step) % count
            measured[number] = measures[number]()
        for place, name in enumerate(names):
            row = [seconds[place] for seconds in measured]
            self.seconds.setdefault(name, []).append(row)

    def print(self) -> None:
        """A line for each thing: medians, and those of the ratios to the last server."""
        for name, rows in self.seconds.items():
            seconds = np.array(rows)
            medians = " ".join(f"{median:7.3f}" for median in np.median(seconds, axis=0))
            line = f"{name:43s} {medians} s"
            for ratios in (seconds / seconds[:, -1:]).T[:-1]:
                spread = f"{ratios.min():.2f} to {ratios.max():.2f}"
                line += f", {np.median(ratios):.2f} times ({spread})"
            print(line, flush=True)


def measure(
    table: Table, servers: Sequence[Server], questions: Questions, count: int, first: int
) -> None:
    """One run: each thing is measured on each server, before the next thing is."""
    for kind in KINDS:
        some = questions.some(kind, count)
        in_turn = [partial(server.in_turn, some) for server in servers]
        names = [f"{kind}, one client", f"{kind}, one client: processor"]
        table.add(names, in_turn, first)
        some = questions.some(kind, count)
        at_once = [partial(server.at_once, some) for server in servers]
        names = [f"{kind}, {CLIENTS} clients", f"{kind}, {CLIENTS} clients: processor"]
        table.add(names, at_once, first)
    fills = questions.some(ONE_BLANK, count)
    alone = [partial(server.slowest, fills) for server in servers]
    table.add(["95 % of one-blank fills, alone"], alone, first)
    for name, job in LONG_JOBS.items():
        fills = questions.some(ONE_BLANK, count)
        beside = [partial(server.slowest_beside, job, fills) for server in servers]
        table.add([f"95 % of them, beside {name}"], beside, first)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--ends", type=int, default=1)
    parser.add_argument(
        "--against", type=Path, nargs="*", default=[], help="src folders of other checkouts"
    )
    options = parser.parse_args()
    questions = Questions(options.candidates)
    sources: list[Path | None] = [None, *options.against]  # None: this checkout
    table = Table()
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(source)) for source in sources]
        for kind in KINDS:
            some = questions.some(kind, 4)
            for server in servers:
                server.at_once(some)  # the first questions of a process are slower
        for run in range(options.runs):
            measure(table, servers, questions, options.requests, first=run)
            print(f"{run + 1} of {options.runs} runs")
            table.print()
    ends = Table()
    for run in range(options.ends):
        for name, (job, sign) in ENDED_IN.items():
            measures = [partial(seconds_to_end, source, job, sign) for source in sources]
            ends.add([f"ended in the midst of {name}"], measures, first=run)
    ends.print()


if __name__ == "__main__":
    main()
