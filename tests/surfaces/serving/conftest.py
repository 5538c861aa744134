"""The page's server over the tiny model, in this process."""

import json
import threading
import time

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("fastapi.testclient")

GUARD = 300
"""Seconds after which a test that waits has hung; none waits for a clock."""
TWO = "the [MASK] sat on the [MASK] ."


@pytest.fixture(scope="module")
def served(tiny):
    """(application, jobs) over the tiny model."""
    from unmask.surfaces.serving.app import create_app
    from unmask.surfaces.serving.jobs import Jobs

    jobs = Jobs()
    yield create_app(tiny, jobs), jobs
    jobs.close()


@pytest.fixture
def client(served):
    """A browser's stand-in, under a name that the server answers to."""
    from fastapi.testclient import TestClient

    from unmask.surfaces.serving.server import Guard

    return TestClient(Guard(served[0]), base_url="http://127.0.0.1:8000")


@pytest.fixture
def events():
    """Server-sent events of a response as (name, value), after the first, which names the job."""

    def read(text: str) -> list[tuple[str, object]]:
        parsed = []
        for part in text.split("\n\n"):
            fields = dict(
                line.split(": ", 1) for line in part.splitlines() if not line.startswith(":")
            )
            if fields:
                parsed.append((fields["event"], json.loads(fields["data"])))
        assert parsed[0][0] == "job"
        assert len(parsed[0][1]["id"]) == 16
        return parsed[1:]

    return read


@pytest.fixture
def until():
    """Waits until a condition holds."""

    def wait(condition) -> None:
        end = time.monotonic() + GUARD
        while not condition():
            assert time.monotonic() < end, "this did not come true"
            time.sleep(0.002)

    return wait


class Gate:
    """Batches wait at it; `let` passes this many of them, and returns when the next `then` wait."""

    def __init__(self) -> None:
        self.changed, self.passes, self.waiting = threading.Condition(), 0, 0

    def enter(self) -> None:
        """Wait to be let through."""
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.passes > 0, GUARD)
            self.passes, self.waiting = self.passes - 1, self.waiting - 1
            self.changed.notify_all()

    def let(self, passes: int, then: int = 1) -> None:
        """Pass this many batches."""
        with self.changed:
            self.passes += passes
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: not self.passes and self.waiting == then, GUARD)

    def open(self) -> None:
        """Pass all that come."""
        with self.changed:
            self.passes = 10**9
            self.changed.notify_all()


@pytest.fixture
def gate(monkeypatch):
    """A gate before every batch of the model."""
    from unmask.surfaces.serving.jobs import FairLock

    barrier, plain = Gate(), FairLock.__enter__

    def enter(lock: FairLock) -> None:
        barrier.enter()
        plain(lock)

    monkeypatch.setattr(FairLock, "__enter__", enter)
    yield barrier
    barrier.open()
