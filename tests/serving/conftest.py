"""The page's server over the tiny model, in this process."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("fastapi.testclient")

TWO = "the [MASK] sat on the [MASK] ."


@pytest.fixture(scope="module")
def served(tiny):
    """(application, jobs) over the tiny model."""
    from unmask.serving.app import create_app
    from unmask.serving.jobs import Jobs

    jobs = Jobs()
    yield create_app(tiny, jobs), jobs
    jobs.close()


@pytest.fixture
def client(served):
    """A browser's stand-in, under a name that the server answers to."""
    from fastapi.testclient import TestClient

    from unmask.serving.server import Guard

    return TestClient(Guard(served[0]), base_url="http://127.0.0.1:8000")


@pytest.fixture
def events():
    """Server-sent events of a response as (name, value), after the first, which names the job."""

    def read(text: str) -> list[tuple[str, object]]:
        found = []
        for part in text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in part.splitlines() if not line.startswith(":"))
            if fields:
                found.append((fields["event"], json.loads(fields["data"])))
        assert found[0][0] == "job" and len(found[0][1]["id"]) == 16
        return found[1:]

    return read
