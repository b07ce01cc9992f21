"""`/metrics`: what this node does, for Prometheus, on a port of its own."""

import json

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.base.metrics import PolledGauge
from tests.serving import Served


def figures(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Values by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def logged(service: Served, event: str) -> dict[str, object]:
    """The first line of the log about an event."""
    lines = (line for line in service.output().splitlines() if line.startswith("{"))
    return next(entry for entry in map(json.loads, lines) if entry["event"] == event)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("metrics") / "data", PENSTOCK_METRICS_PORT="0") as service:
        service.first_account()
        yield service


@pytest.fixture
def scrape(service):
    address = logged(service, "metrics_served")
    return lambda: figures(httpx.get(f"http://127.0.0.1:{address['port']}/metrics").text)


def test_workers_have_their_state(service, scrape):
    assert scrape()[("penstock_worker_failing", frozenset({("worker", "shipper")}))] == 0


def test_the_public_port_has_no_metrics(service):
    assert service.client.get("/metrics").status_code == 404


def test_a_gauge_that_cannot_be_read_is_left_out_alone():
    def gone() -> float:
        raise OSError

    assert list(PolledGauge("penstock_gone", "Gone.", gone).collect()) == []
    [family] = PolledGauge("penstock_waiting", "Waiting.", lambda: 3).collect()
    assert [sample.value for sample in family.samples] == [3]
