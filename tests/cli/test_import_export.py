"""`penstock import --from penstock`: a new workspace has the same reports as the exported one."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import run
from tests.records import create, event_steps, new_website, send_events
from tests.serving import Served, error_of, output_of

pytestmark = pytest.mark.usefixtures("starts_service")

DAY_MS = 86_400_000
FIRST_MS = 1_790_000_000_000 // DAY_MS * DAY_MS
PERIOD = {"startAt": "2026-09-20T00:00:00Z", "endAt": "2026-10-01T00:00:00Z"}
GOAL = {"name": "Paid", "match": {"type": "Transaction", "value": "purchase"}}
FUNNELS: list[dict[str, Any]] = [
    {
        "name": "Checkout",
        "countingUnit": "attempt",
        "attemptProperty": "cart",
        "sequenceProperty": "n",
        "breakdownProperties": ["plan", "$country"],
        "steps": [
            {"type": "Event", "value": "started"},
            {"type": "Event", "value": "failed", "diagnostic": True},
            {"type": "Goal", "value": "Paid"},
        ],
    },
    {
        "name": "Visits",
        "breakdownProperties": ["$source"],
        "steps": [
            {"type": "Pageview", "value": "/*"},
            {"type": "Event", "value": "started"},
            {"type": "Goal", "value": "Paid"},
        ],
    },
    {
        "name": "Every step",
        "folder": "Shop",
        "conversionWindow": {"value": 3, "unit": "day"},
        "breakdownProperties": ["$trait.plan"],
        "steps": [
            {
                "type": "Pageview",
                "value": "/*",
                "filters": [{"property": "$first_time", "operator": "is_true"}],
                "or": [{"type": "Screen view", "value": "Home"}],
            },
            {"type": "Event", "value": "banner", "diagnostic": True},
            {"type": "Event", "value": "refused", "exclude": True},
            {
                "type": "Event",
                "value": "started",
                "mode": "all_of",
                "or": [{"type": "Event", "value": "terms"}],
                "name": "Started and agreed",
            },
            {"type": "Goal", "value": "Paid"},
        ],
    },
    {
        "name": "Runs",
        "repeat": True,
        "conversionWindowSeconds": 86_400,
        "steps": [*event_steps("started"), {"type": "Event", "value": "terms", "strict": True}],
    },
    {
        "name": "Carts of visitors",
        "countingUnit": "attempt",
        "attemptProperties": ["$visitor", "cart"],
        "steps": [*event_steps("started"), {"type": "Transaction", "value": "purchase"}],
    },
]
SEGMENT = {
    "name": "Pro",
    "filters": [{"property": "plan", "operator": "equals", "value": "pro"}],
}
MAPPING = {
    "name": "Orders",
    "mapping": {
        "columns": [
            {"column": "at", "use": "time", "unit": "seconds"},
            {"column": "who", "use": "user"},
        ],
        "eventName": "paid",
    },
}
INTERNAL = [{"property": "plan", "operator": "is_true"}]
OWN = ("funnelId", "computedAt", "evaluatedAt", "servedFrom", "directReason", "goals", "websiteId")
"""Fields of a report that name records of its workspace, or when it was computed."""


def fill(service):
    """Two websites that share visitors, with visits on devices that merge, and orders."""
    chance, client = random.Random(7), service.client
    sites = [new_website(client, name, identityScope="both") for name in ("Site", "Blog")]
    create(client, "/api/goals", GOAL)
    for funnel in FUNNELS:
        create(client, "/api/funnels", funnel)
    create(client, "/api/segments", SEGMENT)
    create(client, "/api/import-mappings", MAPPING)
    internal = client.put("/api/settings/internal-traffic", json={"filters": INTERNAL})
    assert internal.status_code == 200
    tracked, events, orders = [], [], []
    for number in range(120):
        visitor, user = f"device-{number % 40}", f"user-{number % 15}"
        at_ms = FIRST_MS + chance.randrange(5 * DAY_MS)
        site = chance.choice(sites)
        own = {"websiteId": site, "visitorId": visitor}
        page = {"type": "pageview", "url": "https://example.com/?utm_source=mail"}
        screen = {"type": "screenview", "screen": "Home"}
        tracked.append({**own, **(page if number % 3 else screen), "timestamp": at_ms})
        for name in ("banner", "terms", "refused"):
            if chance.random() < 0.4:
                later = at_ms + chance.randrange(5000)
                events.append({**own, "event": name, "timestamp": later})
        if chance.random() < 0.3:
            continue
        started = {"cart": f"cart-{number}", "plan": chance.choice(["pro", 1, True]), "n": 1}
        named = {"userId": user} if chance.random() < 0.6 else {}
        event = {**own, **named, "country": chance.choice(["DE", "FR"])}
        at = {"event": "started", "timestamp": at_ms + 1000}
        events.append({**event, **at, "properties": started})
        if chance.random() < 0.5:
            failed = {**started, "n": 2}
            at = {"event": "failed", "timestamp": at_ms + 1000}
            events.append({**event, **at, "properties": failed})
        if chance.random() < 0.5:
            order = {"transactionId": f"order-{number}", "amount": 19.99, "currency": "EUR"}
            bought = {"event": "purchase", "timestamp": at_ms + 60_000 * number}
            properties = {"cart": started["cart"], "n": 3}
            orders.append({**own, **named, **order, **bought, "properties": properties})
    send_events(client, events)
    for order in orders:
        assert client.post("/api/v1/transactions", json=order).status_code == 202
    for site in sites:
        own = [{**item} for item in tracked if item["websiteId"] == site]
        answer = client.post("/api/track", json={"websiteId": site, "events": own})
        assert answer.json()["accepted"] == len(own), answer.text
    for number, plan in enumerate(("pro", "basic", "pro"), start=1):
        person = {"websiteId": sites[0], "visitorId": f"device-{number}"}
        user = f"user-{number}"
        for stated in ({"city": "Bonn"}, {"plan": plan, "city": None}):
            sent = client.post("/api/identify", json={**person, "userId": user, "traits": stated})
            assert sent.status_code == 200
    save_cohorts(client, sites[0])


def save_cohorts(client, website_id):
    """A rule, a list, and a list with a website, a segment and another cohort."""
    ids = {name: record["id"] for name, record in named(client, "/api/funnels").items()}
    segment_id = named(client, "/api/segments")["Pro"]["id"]

    def save(name, kind, funnel, **parameters):
        body = {"name": name, "kind": kind, "funnelId": ids[funnel], "parameters": parameters}
        return create(client, "/api/cohorts", body)["id"]

    save("Buyers", "rule", "Checkout", outcome="completed", **PERIOD)
    lost = save("Lost", "list", "Visits", step="1", **PERIOD)
    filters = json.dumps([{"property": "$cohort", "operator": "not_equals", "value": lost}])
    chosen = {"websiteId": website_id, "segment": segment_id, "filters": filters}
    save("Pro on one site", "list", "Checkout", **chosen, **PERIOD)
    steps = event_steps("started", "terms")
    steps[1]["filters"] = [{"property": "$cohort", "operator": "not_equals", "value": lost}]
    by_cohort = {"name": "By cohort", "steps": steps, "breakdownProperties": [f"$cohort.{lost}"]}
    ids["By cohort"] = create(client, "/api/funnels", by_cohort)["id"]
    save("Of a funnel with a cohort", "list", "By cohort", step="1", **PERIOD)


def named(client, path):
    return {record["name"]: record for record in client.get(path).json()["data"]}


def with_names_of_cohorts(client, text):
    """Replace the IDs of saved cohorts, which a new workspace gives anew."""
    for name, cohort in named(client, "/api/cohorts").items():
        text = text.replace(cohort["id"], name)
    return text


def cohorts(service):
    """Each cohort with its visitors and, by name, its funnel, website, segment and cohorts."""
    client = service.client
    names = {
        record["id"]: name
        for path in ("cohorts", "funnels", "segments", "settings/websites")
        for name, record in named(client, f"/api/{path}").items()
    }
    shown = {}
    for name, cohort in named(client, "/api/cohorts").items():
        visitors = client.get(f"/api/cohorts/{cohort['id']}/visitors?pageSize=100").json()["data"]
        people = sorted((each["visitorId"], each["userId"] or "") for each in visitors)
        text = json.dumps([cohort["kind"], cohort["funnelId"], cohort["parameters"]])
        for record_id, record_name in names.items():
            text = text.replace(record_id, record_name)
        shown[name] = (text, people)
    return shown


def chosen_reports(service):
    """Results of each funnel for a segment, each cohort and internal traffic."""
    client, shown = service.client, {}
    segment_id = named(client, "/api/segments")["Pro"]["id"]
    questions = {"segment": {"segment": segment_id}, "internal": {"internal": "true"}}
    for name, cohort in named(client, "/api/cohorts").items():
        chosen = {"property": "$cohort", "operator": "equals", "value": cohort["id"]}
        questions[f"cohort {name}"] = {"filters": json.dumps([chosen])}
    for funnel in client.get("/api/funnels").json()["data"]:
        for name, question in questions.items():
            path = f"/api/funnels/{funnel['id']}/results"
            report = client.get(path, params={**PERIOD, "pageSize": 100, **question})
            assert report.status_code == 200, report.text
            fields = json.loads(with_names_of_cohorts(client, report.text))
            assert fields["asked"]["internalTraffic"] == (
                "included" if name == "internal" else "leftOut"
            )
            left_out = (*OWN, "asked")
            shown[funnel["name"], name] = {
                field: value for field, value in fields.items() if field not in left_out
            }
    return shown


def reports(service):
    client = service.client
    shown = {}
    for funnel in client.get("/api/funnels").json()["data"]:
        parts = {}
        for part in ("results", "trend", "timing"):
            path = f"/api/funnels/{funnel['id']}/{part}"
            report = client.get(
                path, params={**PERIOD, "pageSize": 100} if part == "results" else PERIOD
            )
            assert report.status_code == 200, report.text
            fields = json.loads(with_names_of_cohorts(client, report.text))
            parts[part] = {name: value for name, value in fields.items() if name not in OWN}
        path = f"/api/funnels/{funnel['id']}/unit-table"
        table = client.get(path, params={**PERIOD, "format": "ndjson"}).text
        rows = [json.loads(line) for line in with_names_of_cohorts(client, table).splitlines()]
        # The ID of a run has the ID of its entry event, and imported events have new IDs.
        rows = [{**row, "unit": row["unit"].partition("@evt_")[0]} for row in rows]
        parts["units"] = sorted(
            json.dumps({**row, "evaluated_at": None}, sort_keys=True) for row in rows
        )
        shown[funnel["name"]] = parts
    return shown


def merged_visitors(service):
    [site] = [
        site["id"]
        for site in service.client.get("/api/settings/websites").json()["data"]
        if site["name"] == "Site"
    ]
    query = {"websiteId": site, "format": "ndjson"}
    lines = service.client.get("/api/exports/identities", params=query).text.splitlines()
    return {
        (
            *(row[name] for name in ("visitor_id", "canonical_id", "user_id")),
            json.dumps(row["traits"]),
            json.dumps(row["trait_times"], sort_keys=True),
        )
        for row in map(json.loads, lines)
    }


def export_an_event(service, folder):
    """Store one event and export it. Returns the ID of its website."""
    service.key, website_id = service.first_account()
    event = {"websiteId": website_id, "visitorId": "v", "event": "a"}
    assert service.client.post("/api/v1/events", json=event).status_code == 202
    output_of(run(service, "export", folder))
    return website_id


@pytest.mark.full("moves a whole workspace in each format of files")
@pytest.mark.slow("starts two services")
@pytest.mark.parametrize("file_format", ["parquet", "ndjson"])
def test_a_new_workspace_has_the_same_reports(tmp_path, file_format):
    page = Path(__file__).parents[2].joinpath("docs/moving-out.md").read_text("utf-8")
    [documented] = [line for line in page.splitlines() if line.startswith("penstock import")]
    folder = tmp_path / "export"
    with Served(tmp_path / "old") as old:
        old.key, _ = old.first_account()
        fill(old)
        output_of(run(old, "export", folder, "--format", file_format))
        before, visitors = reports(old), merged_visitors(old)
        answers, saved = chosen_reports(old), cohorts(old)
        assert (folder / "cohorts").exists()
    assert before["Checkout"]["results"]["aggregate"]["entered"] > 50
    for name in ("segment", "internal", "cohort Buyers", "cohort Lost", "cohort Pro on one site"):
        assert answers["Checkout", name]["aggregate"]["entered"] > 0, name
    entered = [
        answers["Checkout", name]["aggregate"]["entered"] for name in ("segment", "internal")
    ]
    assert entered[0] < before["Checkout"]["results"]["aggregate"]["entered"] < entered[1]
    steps = before["Every step"]["results"]["aggregate"]["steps"]
    assert [step["count"] > 0 for step in steps] == [True, True, True]
    assert before["Runs"]["results"]["aggregate"]["completed"] > 0
    assert before["Every step"]["results"]["aggregate"]["excluded"] > 0
    values = [row["cohort"] for row in before["By cohort"]["results"]["cohorts"]["data"]]
    assert {"$cohort.Lost": "out"} in values
    assert any(visitor != canonical for visitor, canonical, *_ in visitors)
    with Served(tmp_path / "new") as new:
        new.key, _ = new.first_account()
        output_of(run(new, *documented.split()[1:-1], folder))
        assert reports(new) == before
        assert merged_visitors(new) == visitors
        assert cohorts(new) == saved
        assert named(new.client, "/api/import-mappings").keys() == {"Orders"}
        assert chosen_reports(new) == answers
        again = run(new, "import", "--from", "penstock", folder)
        assert again.returncode == 0, again.stderr
        assert "not imported" not in again.stderr
        assert reports(new) == before
        assert cohorts(new) == saved
        assert len(new.client.get("/api/settings/websites").json()["data"]) == 3


def test_a_changed_file_or_an_unfinished_export_is_refused(tmp_path):
    with Served(tmp_path / "old") as old:
        folder = tmp_path / "export"
        website_id = export_an_event(old, folder)
        [file] = (folder / "events" / website_id).iterdir()
        file.write_bytes(file.read_bytes() + b"x")
        result = run(old, "import", folder, "--from", "penstock")
        name = file.relative_to(folder)
        message = f"penstock: the file {name} of the export has changed or is damaged"
        assert (result.returncode, result.stderr.splitlines()[-1]) == (1, message)
        (folder / "manifest.json").rename(folder / "unfinished.ndjson")
        result = run(old, "import", folder, "--from", "penstock")
        assert "is not finished; run penstock export again first" in result.stderr
        error_of(run(old, "import", tmp_path / "data", "--from", "penstock"), 2)


def test_the_workspace_of_the_export_is_refused(tmp_path):
    with Served(tmp_path / "old") as old:
        folder = tmp_path / "export"
        export_an_event(old, folder)
        error = error_of(run(old, "import", "--from", "penstock", folder))
        assert "the export is from this workspace" in error
