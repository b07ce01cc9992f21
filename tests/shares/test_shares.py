"""Sharing, listing and revoking reports, and what a share contains."""

import json
from pathlib import Path

import pytest
from docsite.pages import blocks

from tests.answers import body_of, faults, problem
from tests.cases import cases
from tests.funnels.scenario import where
from tests.shares.conftest import path_of
from tests.tenant import audit_log, sign_up

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def metadb_url(database_url):
    return database_url


def test_a_share_shows_its_address_once_and_expires_after_90_days(workspace, sharing, clock):
    share = sharing.share()
    assert share["name"] == "Checkout"
    assert share["createdBy"] == "tests"
    token = path_of(share).removeprefix("/s/")
    listed = workspace.client.get("/api/shares", params={"funnelId": sharing.funnel})
    [record] = body_of(listed)["data"]
    assert record == {name: value for name, value in share.items() if name != "url"}
    assert token not in listed.text
    assert token not in json.dumps(audit_log(workspace.browser))
    assert body_of(workspace.client.get("/api/shares", params={"funnelId": "fun_x"}))["total"] == 0
    clock.advance(days=89.9)
    assert workspace.client.get(f"/s/{token}.json").status_code == 200
    clock.advance(days=0.2)
    assert problem(workspace.client.get(f"/s/{token}.json")) == (404, "share_not_found")


def test_sharing_and_revoking_are_in_the_audit_log(workspace, sharing):
    share = sharing.share(name="For the board")
    path = path_of(share)
    assert workspace.client.get(f"{path}.json").status_code == 200
    assert workspace.client.delete(f"/api/shares/{share['id']}").status_code == 204
    assert problem(workspace.client.get(f"{path}.json")) == (404, "share_not_found")
    assert problem(workspace.client.delete(f"/api/shares/{share['id']}")) == (404, "not_found")
    entries = [entry for entry in audit_log(workspace.browser) if "share" in entry["action"]]
    assert [(entry["action"], entry["target"]) for entry in entries] == [
        ("share_revoked", f"{share['id']} For the board"),
        ("share_created", f"{share['id']} For the board"),
    ]


@pytest.mark.every_database
def test_opening_is_counted(workspace, sharing, services):
    share = sharing.share()
    for ending in ("", ".svg", ".json"):
        assert workspace.client.get(path_of(share) + ending).status_code == 200
    workspace.client.head(path_of(share))
    workspace.client.get(path_of(share), headers={"Sec-Purpose": "prefetch"})
    services.shares.write_opens()
    [record] = workspace.client.get("/api/shares").json()["data"]
    assert record["opens"] == 3
    assert record["lastOpenedAt"] >= record["createdAt"]
    assert not [entry for entry in audit_log(workspace.browser) if "opened" in entry["action"]]


def test_the_example_of_the_documentation_works(workspace, sharing):
    examples = [block.text for block in blocks(Path("docs/sharing.md"))]
    [example] = [json.loads(text) for text in examples if "funnelId" in text]
    del example["funnelId"]
    report = body_of(workspace.client.get(sharing.path(**example) + ".json"))
    assert report["timezone"] == "Europe/Berlin"


@cases(
    ("form", "expected"),
    [
        ({"funnelId": "fun_x"}, (404, "not_found")),
        ({"parameters": {"websiteId": "web_x"}}, (401, "unauthorized")),
        ({"parameters": {"segment": "seg_x"}}, (422, "invalid")),
        ({"parameters": {"breakdown": "$cohort.coh_x"}}, (400, "bad_parameter")),
    ],
)
def test_what_a_share_cannot_name(workspace, sharing, form, expected):
    answer = workspace.client.post("/api/shares", json={"funnelId": sharing.funnel, **form})
    assert problem(answer)[0] == expected[0], answer.text


@cases(
    ("form", "expected"),
    [
        ({"parameters": {"revision": "1"}}, {"parameters.revision": "unknown_field"}),
        ({"parameters": {"page": "2"}}, {"parameters.page": "unknown_field"}),
        ({"parameters": {"asOf": "0"}}, {"parameters.asOf": "unknown_field"}),
        ({"parameters": {"period": "3d"}}, {"parameters.period": "not_one_of"}),
        ({"parameters": {"period": "custom"}}, {"parameters.end": "ends_before_start"}),
        ({"parameters": {"timezone": "Moon"}}, {"parameters.timezone": "unknown_timezone"}),
        ({"expiresAt": "2001-01-01T00:00:00Z"}, {"expiresAt": "in_the_past"}),
    ],
)
def test_faults_of_a_share(workspace, sharing, form, expected):
    answer = workspace.client.post("/api/shares", json={"funnelId": sharing.funnel, **form})
    assert faults(answer) == expected


def test_the_figures_are_those_of_the_api(workspace, scene, sharing):
    parameters = {"period": "7d", "timezone": "Europe/Berlin", "filters": json.dumps([where("plan",
        "equals", "pro")])}  # fmt: skip
    report = body_of(workspace.client.get(sharing.path(parameters=parameters) + ".json"))
    period = report["period"]
    results = scene.results(sharing.funnel, **period, filters=parameters["filters"])
    assert results["aggregate"]["entered"] == 30
    assert report["aggregate"] == results["aggregate"]
    assert report["steps"] == ["A", "B"]
    verdict = scene.report(sharing.funnel, "verdict", **period, filters=parameters["filters"])
    assert report["sentences"] == [sentence["text"] for sentence in verdict["sentences"]]


def test_a_report_is_complete_unless_events_are_missing(workspace, scene, sharing, clock):
    path = sharing.path(parameters={"period": "7d"})
    assert not workspace.client.get(f"{path}.json").json()["isComplete"]  # no earlier events
    scene.send_event(-10 * 86_400, "A", visitor="earlier")
    scene.send_event((clock() - scene.start_ms) / 1000 - 1, "A", visitor="pending")
    clock.advance(seconds=60)
    report = workspace.client.get(f"{path}.json").json()
    assert report["isComplete"]
    assert report["aggregate"]["pending"] == 1


def test_a_share_follows_the_saved_funnel_and_a_relative_period(workspace, sharing, scene, clock):
    path = sharing.path(parameters={"period": "7d"})
    before = body_of(workspace.client.get(f"{path}.json"))
    definition = scene.definition(sharing.funnel)
    definition["steps"][1]["value"] = "C"
    workspace.client.put(f"/api/funnels/{sharing.funnel}", json=definition).raise_for_status()
    clock.advance(days=1)
    after = body_of(workspace.client.get(f"{path}.json"))
    assert (before["steps"], after["steps"]) == (["A", "B"], ["A", "C"])
    assert after["period"]["startAt"] > before["period"]["startAt"]
    fixed = {"period": "custom", "start": "2026-01-01", "end": "2026-01-02"}
    report = body_of(workspace.client.get(sharing.path(parameters=fixed) + ".json"))
    assert report["period"]["endAt"] == "2026-01-03T00:00:00.000Z"


def test_a_share_ends_with_its_funnel(workspace, sharing):
    path = sharing.path()
    workspace.client.delete(f"/api/funnels/{sharing.funnel}").raise_for_status()
    assert workspace.client.get("/api/shares").json()["total"] == 0
    assert problem(workspace.client.get(f"{path}.json")) == (404, "share_not_found")


def test_values_are_numbered_unless_their_property_is_shared(workspace, sharing):
    hidden = {
        "period": "7d",
        "compare": "previous",
        "filters": json.dumps([where("country", "equals", "DE")]),
    }
    path = sharing.path(parameters=hidden)
    pages = [workspace.client.get(path + ending).text for ending in ("", ".svg", ".json")]
    for page in pages:
        assert "pro" not in page.replace("property", "").replace("progress", ""), page
        assert "DE" not in page
    report = json.loads(pages[2])
    assert [cohort["values"] for cohort in report["cohorts"]] == [
        {"plan": "1st value"},
        {"plan": "2nd value"},
    ]
    assert report["conditions"] == ["filtered by country"]
    assert report["sentences"] == [
        "40.0% of 80 settled visitors completed.",
        "48 visitors were lost on the way from A to B, mostly with one value of plan.",
    ]
    sharing.show("plan", "country")
    report = workspace.client.get(f"{path}.json").json()
    assert [cohort["values"] for cohort in report["cohorts"]] == [{"plan": "free"}, {"plan": "pro"}]
    assert report["conditions"] == ["country equals DE"]
    assert report["sentences"][1].endswith(", mostly with plan = free.")
    assert report["sentences"][2].startswith("plan = pro converts 80.0 points better than free")


def test_a_workspace_has_at_most_200_shares_and_expired_ones_go_after_30_days(
    workspace, sharing, clock, monkeypatch
):
    monkeypatch.setattr("penstock.shares.service.MAX_SHARES", 1)
    sharing.share()
    answer = workspace.client.post("/api/shares", json={"funnelId": sharing.funnel})
    assert problem(answer) == (409, "too_many_shares")
    clock.advance(days=121)
    sharing.share()


def test_a_share_of_another_workspace_is_unknown(workspace, sharing, server):
    other = sign_up(server)
    share = sharing.share()
    assert problem(other.client.delete(f"/api/shares/{share['id']}")) == (404, "not_found")
    assert other.client.get("/api/shares").json()["total"] == 0
    answer = other.client.post("/api/shares", json={"funnelId": sharing.funnel})
    assert problem(answer) == (404, "not_found")
