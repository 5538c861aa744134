"""The interface, fuzzed from its own OpenAPI document: no fault of the server, no answer that
the document does not foresee.
"""

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis")
pytest.importorskip("fastapi.testclient")
pytestmark = pytest.mark.page


def test_every_answer_is_foreseen(tiny):
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    from unmask.surfaces.serving.app import create_app
    from unmask.surfaces.serving.jobs import Jobs

    jobs = Jobs()
    checks = [schemathesis.checks.not_a_server_error]
    checks += [content_type_conformance, response_schema_conformance, status_code_conformance]
    paths = set()
    for result in schemathesis.openapi.from_asgi(
        "/openapi.json", create_app(tiny, jobs)
    ).get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
        def ask(case):
            case.call_and_validate(checks=checks, timeout=600)  # a busy machine is no failure

        ask()
        paths.add(operation.path)
    assert {"/api/fill", "/api/compare", "/api/sample", "/api/batch"} <= paths
    jobs.close()
