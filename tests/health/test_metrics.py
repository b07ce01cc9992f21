"""`/metrics`: figures of this node for Prometheus, on a separate port."""

import json
import re
from pathlib import Path

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


def described(text: str) -> set[str]:
    """Names of all figures, with or without values."""
    return {
        line.split()[2].removesuffix("_total") for line in text.splitlines() if "# TYPE " in line
    }


def logged(service: Served, event: str) -> dict[str, object]:
    """The first line of the log about an event."""
    lines = (line for line in service.output().splitlines() if line.startswith("{"))
    return next(entry for entry in map(json.loads, lines) if entry["event"] == event)


@pytest.fixture(scope="module")
def service(starts_service, tmp_path_factory):
    with Served(tmp_path_factory.mktemp("metrics") / "data", PENSTOCK_METRICS_PORT="0") as service:
        service.first_account()
        yield service


@pytest.fixture
def scrape(service):
    address = logged(service, "metrics_served")

    def text() -> str:
        return httpx.get(f"http://127.0.0.1:{address['port']}/metrics", verify=False).text

    def scrape():
        return figures(text())

    scrape.text = text
    return scrape


def test_workers_have_their_state(service, scrape):
    assert scrape()[("penstock_worker_failing", frozenset({("worker", "shipper")}))] == 0


def test_an_event_is_counted_on_its_way(service, scrape):
    website_id = service.client.get("/api/settings/websites").json()["data"][0]["id"]
    event = {"websiteId": website_id, "visitorId": "v", "event": "opened"}
    assert service.client.post("/api/v1/events", json=event).status_code == 202
    assert service.client.get(f"/api/visitors?websiteId={website_id}").status_code == 200
    now = scrape()
    assert now[("penstock_intake_items_total", frozenset({("outcome", "stored")}))] == 1
    assert now[("penstock_intake_waiting_items", frozenset())] == 0
    assert now[("penstock_intake_commit_seconds_count", frozenset())] == 1
    assert now[("penstock_warehouse_query_seconds_count", frozenset())] >= 1
    assert now[("penstock_event_loop_lag_seconds_count", frozenset())] >= 1
    assert now[("penstock_edge_connections", frozenset())] >= 1


DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize("name", ["grafana-dashboard.json", "prometheus-alerts.yml"])
def test_dashboard_and_alerts_name_only_figures_that_exist(name, scrape):
    text = (DEPLOY / name).read_text("utf-8")
    named = set(re.findall(r"penstock_[a-z_]+", text)) - {"penstock_down"}
    assert named, name
    families = {family.split("{")[0] for family in described(scrape.text())}
    missing = {
        name
        for name in named
        if name.removesuffix("_bucket")
        .removesuffix("_count")
        .removesuffix("_sum")
        .removesuffix("_total")
        not in families
    }
    assert missing == set()


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("grafana-dashboard.json", "deriv(penstock_store_bytes"),
        ("grafana-dashboard.json", "predict_linear(penstock_disk_free_bytes"),
        ("prometheus-alerts.yml", "predict_linear(penstock_disk_free_bytes"),
    ],
)
def test_dashboard_and_alerts_show_how_both_stores_grow(name, expression):
    assert expression in (DEPLOY / name).read_text("utf-8")


def test_the_metrics_forbid_sniffing_too(service):
    address = f"http://127.0.0.1:{logged(service, 'metrics_served')['port']}"
    for method, path in (("GET", "/metrics"), ("GET", "/favicon.ico"), ("POST", "/metrics")):
        answer = httpx.request(method, address + path)
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


def test_the_public_port_has_no_metrics(service):
    assert service.client.get("/metrics").status_code == 404


def test_a_gauge_that_cannot_be_read_is_left_out_alone():
    def gone() -> float:
        raise OSError

    assert list(PolledGauge("penstock_gone", "Gone.", gone).collect()) == []
    [family] = PolledGauge("penstock_waiting", "Waiting.", lambda: 3).collect()
    assert [sample.value for sample in family.samples] == [3]
