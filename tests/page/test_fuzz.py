"""The interface, fuzzed from its own OpenAPI document: no fault of the server, no answer that the document does not foresee."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

schemathesis = pytest.importorskip("schemathesis")
pytest.importorskip("fastapi.testclient")
pytestmark = pytest.mark.page


@pytest.fixture(scope="module")
def interface(tiny):
    from unmask.serving.app import create_app

    guard, desk = create_app(tiny)
    yield schemathesis.openapi.from_asgi("/openapi.json", guard.app)
    desk.close()
    assert desk.model.worker.close(5)


schema = schemathesis.pytest.from_fixture("interface")


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_foreseen(case):
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    case.call_and_validate(
        checks=[
            schemathesis.checks.not_a_server_error,
            response_schema_conformance,
            status_code_conformance,
            content_type_conformance,
        ]
    )
