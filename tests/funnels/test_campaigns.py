"""The attribution report over HTTP has the figures that were counted by hand."""

import csv
from dataclasses import replace
from io import StringIO
from typing import Any

import httpx
import pytest
from litestar import Litestar
from litestar.testing import TestClient

from penstock.funnels.campaigns import service
from tests import user_agents
from tests.conftest import ShiftedClock
from tests.funnels.answers import code, fields
from tests.funnels.scenario import DAY_S, Json, Scene, column
from tests.tenant import Tenant, visitor

pytestmark = pytest.mark.usefixtures("warehouse")

FIGURES = ("clicks", "installs", "opens", "entered", "completed", "pending")


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    """Stories that started a few minutes ago, in the app of the links."""
    app = workspace.client.post("/api/settings/websites", json={"name": "Shop", "kind": "mobile"})
    return Scene(replace(workspace, website_id=app.json()["id"]), clock, ago_s=600)


class Phone:
    """A phone that taps links and opens the app."""

    def __init__(self, scene: Scene, server: TestClient[Litestar]) -> None:
        self.scene = scene
        self.browser = visitor(server, {"User-Agent": user_agents.IOS["safari"]})

    def link(self, slug: str, **utm: str) -> Json:
        body = {"name": slug, "slug": slug, "destinationPath": "/", **utm}
        body["websiteId"] = self.scene.tenant.website_id
        answer = self.scene.client.post("/api/mobile/deferred-links", json=body)
        assert answer.status_code == 201, answer.text
        record: Json = answer.json()
        return record

    def tap(self, link: Json) -> None:
        self.browser.get(f"/l/{link['slug']}", follow_redirects=False)

    def open(self, link: Json, visitor_id: str, *, first: bool) -> None:
        body = {
            "websiteId": self.scene.tenant.website_id,
            "installId": f"install-of-{visitor_id}-0123456789",
            "visitorId": visitor_id,
            "platform": "ios",
            "firstOpen": first,
            "url": link["hostedUrl"],
        }
        answer = self.browser.post("/api/mobile/deferred-links/resolve", json=body)
        assert answer.json()["matched"], answer.text


@pytest.fixture
def shop(scene: Scene, server: TestClient[Litestar]) -> Scene:
    """Ann installs through `spring`, then opens through `summer`. Bob installs through `plain`.

    Cid used no link. `spring` has three clicks, `summer` one and `plain` none. Ann and Cid enter,
    and Ann pays.
    """
    phone = Phone(scene, server)
    spring = phone.link("spring", utmSource="mail", utmMedium="email", utmCampaign="may")
    summer = phone.link("summer", utmSource="ads", utmCampaign="may")
    plain = phone.link("plain")
    for link in (spring, spring, spring, summer):
        phone.tap(link)
    phone.open(spring, "ann", first=True)
    phone.open(summer, "ann", first=False)
    phone.open(plain, "bob", first=True)
    items = [("A", "ann"), ("A", "cid"), ("B", "ann"), ("A", "bob")]
    for name, who in items:
        scene.client.post(
            "/api/track",
            json={
                "websiteId": scene.tenant.website_id,
                "type": "event",
                "name": name,
                "visitorId": who,
            },
        )
    return scene


def ask(scene: Scene, path: str = "/api/attribution", **query: Any) -> httpx.Response:
    answer = scene.client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer


def figures(report: Json) -> dict[str | None, tuple[int, ...]]:
    return {row["value"]: tuple(row[name] for name in FIGURES) for row in report["data"]}


BY_GROUP: list[tuple[Json, dict[str | None, tuple[int, ...]]]] = [
    (
        {"groupBy": "source"},
        {"mail": (3, 1, 0, 0, 0, 0), "ads": (1, 0, 1, 1, 1, 0), None: (0, 1, 0, 2, 0, 2)},
    ),
    (
        {"groupBy": "source", "touch": "first"},
        {"mail": (3, 1, 0, 1, 1, 0), "ads": (1, 0, 1, 0, 0, 0), None: (0, 1, 0, 2, 0, 2)},
    ),
    ({"groupBy": "medium"}, {"email": (3, 1, 0, 0, 0, 0), None: (1, 1, 1, 3, 1, 2)}),
    ({"groupBy": "campaign"}, {"may": (4, 1, 1, 1, 1, 0), None: (0, 1, 0, 2, 0, 2)}),
    (
        {"groupBy": "link"},
        {
            "spring": (3, 1, 0, 0, 0, 0),
            "summer": (1, 0, 1, 1, 1, 0),
            "plain": (0, 1, 0, 1, 0, 1),
            None: (0, 0, 0, 1, 0, 1),
        },
    ),
]
"""The expected figures of each value, by query."""


def test_traffic_and_a_funnel_by_group(shop: Scene) -> None:
    funnel_id = shop.funnel("A", "B", conversionWindowSeconds=DAY_S)
    for query, expected in BY_GROUP:
        report = ask(shop, funnelId=funnel_id, **query).json()
        assert figures(report) == expected, query
        totals = tuple(report["totals"][name] for name in FIGURES)
        assert totals == (4, 2, 1, 3, 1, 2)
        assert report["totals"]["conversionRate"] == 0.3333
        assert report["total"] == len(expected)
        assert (report["funnelId"], report["definitionRevision"]) == (funnel_id, 1)
        assert report["coverage"]["openWindows"] == 2
        assert [row["label"] for row in report["data"] if row["value"] is None] == ["Unknown"]


def test_without_a_funnel_its_figures_are_null_in_any_order_and_page(shop: Scene) -> None:
    report = ask(shop).json()
    assert figures(report) == {
        "mail": (3, 1, 0, None, None, None),
        "ads": (1, 0, 1, None, None, None),
        None: (0, 1, 0, None, None, None),
    }
    assert (report["coverage"], report["evaluatedAt"], report["funnelId"]) == (None, None, None)

    def values(**query: Any) -> list[str | None]:
        return column(ask(shop, **query).json()["data"], "value")

    assert values(sort="opens") == ["ads", "mail", None]
    assert values(page=2, pageSize=2) == [None]
    assert values(page=3, pageSize=2) == []
    assert ask(shop, page=3, pageSize=2).json()["total"] == 3


def test_the_period_selects_clicks_opens_and_entries(
    shop: Scene, server: TestClient[Litestar]
) -> None:
    funnel_id = shop.attempts("A", "B", breakdownProperties=["plan"])
    before = shop.period(-DAY_S, -60)
    for group in ("source", "link"):
        report = ask(shop, funnelId=funnel_id, groupBy=group, **before).json()
        assert (report["data"], report["total"], report["totals"]["clicks"]) == ([], 0, 0)
    around = shop.period(-60, DAY_S)
    report = ask(shop, funnelId=funnel_id, **around).json()
    assert report["totals"]["entered"] == 0  # The events have no attempt ID.
    assert figures(report)["mail"] == (3, 1, 0, 0, 0, 0)
    # A new click counts at once, and a click by a bot never counts.
    phone = Phone(shop, server)
    phone.tap({"slug": "spring"})
    phone.browser.head("/l/spring")
    assert ask(shop, **around).json()["totals"]["clicks"] == 5


def test_traffic_over_time_has_each_day_and_the_most_clicked_values(shop: Scene) -> None:
    yesterday = shop.at(0)[:10]
    period = shop.period(-DAY_S, DAY_S)
    for group, values in (
        ("source", {"mail": 3, "ads": 1}),
        ("medium", {"email": 3, None: 1}),
        ("campaign", {"may": 4}),
        ("link", {"spring": 3, "summer": 1}),
    ):
        report = ask(shop, "/api/attribution/trend", groupBy=group, **period).json()
        assert len(report["data"]) == 3
        assert {row["value"]: sum(row["clicks"]) for row in report["values"]} == values
        assert report["values"][0]["value"] == next(iter(values))
        assert [sum(row[name] for row in report["data"]) for name in FIGURES[:3]] == [4, 2, 1]
        busy = [row for row in report["data"] if row["clicks"]]
        assert {row["from"][:10] for row in busy} <= {yesterday, shop.at(600)[:10]}
    before = shop.period(-9 * DAY_S, -8 * DAY_S)
    quiet = ask(shop, "/api/attribution/trend", interval="month", **before).json()
    assert {row["clicks"] for row in quiet["data"]} == {0}
    assert quiet["values"] == []


def test_traffic_over_time_needs_a_period(workspace: Tenant) -> None:
    answer = workspace.client.get("/api/attribution/trend")
    assert fields(answer) == ["startAt", "endAt"]


def test_the_export_has_every_row(shop: Scene) -> None:
    funnel_id = shop.funnel("A", "B", conversionWindowSeconds=DAY_S)
    query = {"funnelId": funnel_id, "groupBy": "campaign", "page": 2, "pageSize": 1}
    answer = ask(shop, "/api/attribution/export", **query)
    name = "attribution-campaign-all-time.csv"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert list(csv.reader(StringIO(answer.text))) == [
        [
            *("row", "campaign", "clicks", "installs", "opens", "entered", "completed", "pending"),
            *("dropped_off", "excluded", "conversion_rate"),
            *("settled", "settled_rate", "early_completions"),
        ],
        ["total", "", "4", "2", "1", "3", "1", "2", "0", "0", "0.3333", "0", "", "1"],
        ["value", "may", "4", "1", "1", "1", "1", "0", "0", "0", "1", "0", "", "1"],
        ["value", "Unknown", "0", "1", "0", "2", "0", "2", "0", "0", "0", "0", "", "0"],
    ]
    exported = ask(shop, "/api/attribution/export", format="json").json()
    figures = {"clicks": 3, "installs": 1, "opens": 0}
    assert exported[1] == {"row": "value", "cohort": {"source": "mail"}, **figures}


def test_bad_parameters_are_refused(workspace: Tenant) -> None:
    start = "2026-01-01T00:00:00Z"
    for query, named in (
        ({"groupBy": "term", "touch": "middle"}, {"groupBy", "touch"}),
        ({"sort": "conversionRate", "startAt": start}, {"sort", "endAt"}),
        ({"timezone": "Europe/Berlin"}, {"timezone"}),
    ):
        for path in ("/api/attribution", "/api/attribution/export"):
            answer = workspace.client.get(path, params=query)
            assert answer.status_code == 400, answer.text
            assert {error["field"] for error in answer.json()["errors"]} == named


def test_a_funnel_of_another_workspace_is_unknown(
    workspace: Tenant, other_workspace: Tenant, clock: ShiftedClock
) -> None:
    funnel_id = Scene(other_workspace, clock).funnel("A", "B")
    answer = workspace.client.get("/api/attribution", params={"funnelId": funnel_id})
    assert code(answer, 404) == "not_found"


def test_a_report_by_link_has_a_limit_of_clicked_links(
    shop: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_CLICKED_LINKS", 1)
    answer = shop.client.get("/api/attribution", params={"groupBy": "link"})
    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert (error["field"], error["code"]) == ("groupBy", "too_many_links")
    assert ask(shop, groupBy="source").json()["total"] == 3
