"""Annotations on the charts of a report: at the bucket of their time, in the reader's zone."""

import json
import re
from datetime import datetime
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.answers import body_of
from tests.funnels.scenario import DAY_S, Scene
from tests.records import new_website
from tests.tenant import Tenant
from tests.web.reading import html_of, text_of

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def funnel(scene: Scene) -> str:
    for day in range(4):
        scene.story(f"{day * DAY_S}/A {day * DAY_S + 60}/B", attempt=f"day {day}")
    return scene.attempts("A", "B")


def chart_of(tenant: Tenant, funnel: str, part: str = "detail", **query: Any) -> dict[str, Any]:
    query = {"period": "all", "show": "trend", "timezone": "UTC"} | query
    html = html_of(tenant, f"/funnels/{funnel}", part, **query)
    shown = re.search(r'data-chart="([^"]*)"', html)
    assert shown is not None
    chart: dict[str, Any] = json.loads(unescape(shown[1]))
    return chart


def annotate(tenant: Tenant, **body: Any) -> None:
    body_of(tenant.client.post("/api/annotations", json=body), 201)


def marks(chart: dict[str, Any]) -> dict[str, int]:
    return {mark["text"]: mark["index"] for mark in chart["marks"]}


def test_marks_are_at_the_bucket_of_their_time(workspace: Tenant, funnel: str) -> None:
    times = chart_of(workspace, funnel)["times"]
    days = [time * 1000 for time in times]
    annotate(workspace, text="Early", at=days[0] - 1)
    annotate(workspace, text="First", at=days[0])
    annotate(workspace, text="Second", at=days[2] - 1)
    annotate(workspace, text="Late", at=days[-1] + DAY_S * 1000)
    assert marks(chart_of(workspace, funnel)) == {"First": 0, "Second": 1}
    assert marks(chart_of(workspace, funnel, "verdict")) == {"First": 0, "Second": 1}
    text = text_of(workspace, f"/funnels/{funnel}", "detail", period="all", show="trend")
    assert "2 annotations" in text


def test_a_day_is_that_of_the_reader(workspace: Tenant, funnel: str) -> None:
    zone = {"timezone": "Pacific/Auckland"}
    chart = chart_of(workspace, funnel, **zone)
    begin = datetime.fromtimestamp(chart["times"][1], ZoneInfo(zone["timezone"]))
    annotate(workspace, text="Release", day=begin.date().isoformat())
    assert marks(chart_of(workspace, funnel, **zone)) == {"Release": 1}


def test_a_report_shows_its_own_annotations_and_those_of_all(
    workspace: Tenant, scene: Scene, funnel: str
) -> None:
    other, site = scene.attempts("A", "C"), new_website(workspace.client, "Other")
    at = chart_of(workspace, funnel)["times"][1] * 1000
    annotate(workspace, text="Everywhere", at=at)
    annotate(workspace, text="This funnel", at=at, funnelId=funnel)
    annotate(workspace, text="Other funnel", at=at, funnelId=other)
    annotate(workspace, text="Other website", at=at, websiteId=site)
    assert set(marks(chart_of(workspace, funnel))) == {
        "Everywhere",
        "This funnel",
        "Other website",
    }
    own = chart_of(workspace, funnel, websiteId=workspace.website_id)
    assert set(marks(own)) == {"Everywhere", "This funnel"}
