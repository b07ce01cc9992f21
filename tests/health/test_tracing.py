"""Traces: what a collector gets when a setting names one, and what never leaves the service."""

import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from litestar.testing import TestClient
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from penstock.app import build_routes, build_services, with_edge
from penstock.settings import Settings
from tests.tenant import BASE_URL, sign_up

CANARY = "canary-of-a-body"


class Collector:
    """An OTLP receiver on the loopback: the spans it got, each as a dictionary."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        received = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                received.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self) -> list[dict[str, Any]]:
        requests = map(ExportTraceServiceRequest.FromString, self.bodies)
        return [
            {
                "name": span.name,
                "trace": span.trace_id.hex(),
                "id": span.span_id.hex(),
                "parent": span.parent_span_id.hex(),
                **{
                    attribute.key: attribute.value.string_value or attribute.value.int_value
                    for attribute in span.attributes
                },
            }
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.server.shutdown()
    collector.server.server_close()


@pytest.fixture
def settings(settings: Settings, collector: Collector) -> Settings:
    return settings.model_copy(update={"otlp_endpoint": collector.url})


@pytest.fixture
def spans(settings, clock, warehouse, collector):
    """What the collector got of a sign-up, an event, a report and an error."""
    services = build_services(settings, clock, warehouse)
    app = with_edge(build_routes(services), services)
    with TestClient(app, base_url=BASE_URL) as server:
        tenant = sign_up(server, services.accounts.setup_token)
        event = {"websiteId": tenant.website_id, "event": CANARY, "userId": CANARY}
        assert tenant.client.post("/api/v1/events", json=event).status_code == 202
        answer = tenant.client.get(
            "/api/schema/events",
            params={"search": CANARY, "websiteId": tenant.website_id},
            headers={
                "X-Request-Id": "request-1",
                "Traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01",
            },
        )
        assert answer.status_code == 200, answer.text
        assert tenant.client.get(f"/api/funnels/{CANARY}").status_code == 404
        key = tenant.client.headers["Authorization"].removeprefix("Bearer ")
    return collector.spans(), key


def test_a_request_and_its_queries_are_one_trace_with_the_id_of_the_request(spans):
    recorded, _ = spans
    [request] = [span for span in recorded if span["name"] == "GET /api/schema/events"]
    assert request["trace"] == "ab" * 16
    assert request["parent"] == "cd" * 8
    assert request["penstock.request_id"] == "request-1"
    assert request["http.response.status_code"] == 200
    queries = [span for span in recorded if span["parent"] == request["id"]]
    assert queries
    assert {query["name"] for query in queries} == {"warehouse query"}
    assert {query["trace"] for query in queries} == {request["trace"]}
    assert {query["db.system.name"] for query in queries} == {"clickhouse"}


def test_errors_and_inserts_have_spans_too(spans):
    recorded, _ = spans
    [missing] = [span for span in recorded if span["name"] == "GET /api/funnels/{funnel_id}"]
    assert missing["http.response.status_code"] == 404
    assert any(span["name"] == "warehouse insert" for span in recorded)


def test_nothing_that_a_client_sent_is_in_a_span(spans, collector):
    _, key = spans
    for secret in (CANARY, key, "correct horse battery", "@example.com"):
        assert not [body for body in collector.bodies if secret.encode() in body], secret


@pytest.mark.slow("imports the whole service")
def test_a_service_without_the_setting_does_not_import_opentelemetry():
    program = "import sys, penstock.app; print('opentelemetry' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "False", run.stderr


def test_the_setting_says_what_is_missing(monkeypatch):
    # The API of OpenTelemetry is always there, because the library for assistants needs it.
    missing = {"opentelemetry.sdk": None}
    monkeypatch.setattr("penstock.settings.service.find_spec", lambda name: missing.get(name, name))
    with pytest.raises(ValueError, match=r"pip install 'penstock-server\[telemetry\]'"):
        Settings(otlp_endpoint="http://localhost:4318")
