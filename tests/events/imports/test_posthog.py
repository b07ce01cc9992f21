"""PostHog's exports: identities, traits, fields, CSV, and what is ignored or faulty."""

import csv
import io
import json
from datetime import datetime
from urllib.parse import quote

import pytest

from tests.answers import problem
from tests.cases import cases, full_except
from tests.events.conftest import ndjson, upload
from tests.events.imports.conftest import assert_faulty_rejected, between, counts, importer, stored
from tests.events.imports.exported import PostHog, parquet

pytestmark = pytest.mark.usefixtures("warehouse")

TIME = "2024-05-01T10:00:00Z"


def event(name="e", distinct_id="v", /, time=TIME, **properties):
    return {
        "event": name, "distinct_id": distinct_id, "timestamp": time, "properties": properties,
    }  # fmt: skip


import_posthog = importer("posthog")


def as_csv(lines):
    """The events as CSV from the SQL editor, with JSON text in the column `properties`."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["uuid", "event", "distinct_id", "timestamp", "properties"])
    for each in lines:
        time = each["timestamp"].replace("T", " ").removesuffix("+00:00")
        own = json.dumps(each["properties"])
        rows.writerow([each["uuid"], each["event"], each["distinct_id"], time, own])
    return out.getvalue().encode()


def test_csv_has_the_same_events_as_json_lines(import_posthog):
    export = PostHog()
    story = export.story()
    first = import_posthog(story)
    again = import_posthog(as_csv(export.lines))
    assert (again["accepted"], again["duplicates"]) == (0, first["accepted"])
    assert again["identifyLines"] == first["identifyLines"] == 4


def test_parquet_has_the_same_events_as_json_lines(import_posthog):
    export = PostHog()
    first = import_posthog(export.story())
    columns = {name: [each[name] for each in export.lines] for name in export.lines[0]}
    for name in ("properties", "person_properties"):
        columns[name] = [json.dumps(each) for each in columns[name]]
    columns["timestamp"] = [datetime.fromisoformat(each) for each in columns["timestamp"]]
    again = import_posthog(parquet(columns))
    assert (again["accepted"], again["duplicates"]) == (0, first["accepted"])
    assert again["identifyLines"] == first["identifyLines"] == 4


def test_a_column_of_csv_may_be_a_property(import_posthog, workspace, services):
    header = "event,distinct_id,timestamp,properties.$os,properties.plan"
    import_posthog(f"{header}\nbought,v,2024-05-01 10:00:00,Linux,pro\n".encode())
    assert stored(services, workspace.website_id, "os, properties") == [("Linux", '{"plan":"pro"}')]


@pytest.mark.parametrize("backwards", full_except([False], (False, True), "each kind of export"))
@pytest.mark.parametrize(
    "link",
    [
        event("$identify", "u", **{"$anon_distinct_id": "v"}),
        event("$create_alias", "v", alias="u"),
        event("$merge_dangerously", "u", alias="v"),
    ],
    ids=["identify", "alias", "merge"],
)
def test_the_ids_of_a_person_are_one_visitor_in_any_order(
    import_posthog, services, workspace, link, backwards
):
    lines = [event(), link, event("backend", "u")]
    job = import_posthog(*(reversed(lines) if backwards else lines))
    assert (counts(job), job["identifyLines"]) == ((3, 2, 0, 0), 1)
    stored(services, workspace.website_id)
    record = workspace.client.get("/api/visitors/v").json()
    assert set(record["ids"]) == {"u", "v"}
    assert record["user"]["userId"] == "u"


@cases(
    ("marks", "user"),
    [
        ({"$is_identified": True}, "v"),
        ({"$user_id": "v"}, "v"),
        ({"$is_identified": False, "$user_id": "v"}, None),
        ({"$user_id": "other"}, None),
        ({}, None),
    ],
)
def test_an_id_is_a_users_if_a_client_marked_it(import_posthog, services, workspace, marks, user):
    own = f"visitor of {sorted(marks.items())}"
    own_marks = {name: own if value == "v" else value for name, value in marks.items()}
    import_posthog(event("e", own, **own_marks))
    stored(services, workspace.website_id)
    record = workspace.client.get(f"/api/visitors/{quote(own)}").json()
    user = own if user == "v" else user
    assert (record["user"] or {}).get("userId") == user


def test_identify_stores_the_traits_of_the_user(import_posthog, services, workspace):
    line = event("$identify", "u", **{"$set": {"plan": "pro"}, "$set_once": {"$os": "iOS"}})
    import_posthog(event("e", "u"), line)
    stored(services, workspace.website_id)
    traits = workspace.client.get("/api/visitors/u").json()["user"]["traits"]
    assert traits == {"plan": "pro", "os": "iOS"}
    import_posthog(event("e", "u", "2024-05-01T11:00:00Z"), line | {"person_properties": {"a": 1}})
    traits = workspace.client.get("/api/visitors/u").json()["user"]["traits"]
    assert traits == {"plan": "pro", "os": "iOS", "a": 1}


@cases("backwards", [False, True])
def test_the_newest_person_properties_hold_in_any_order(
    import_posthog, services, workspace, backwards
):
    """A property that is set once never replaces another, and others stay."""
    user = f"user {backwards}"
    marks = {"$is_identified": True}
    lines = [
        event("$identify", user, "2024-05-01T10:00:00Z", **{"$set": {"plan": "free", "city": "B"}}),
        event("$set", user, "2024-06-01T10:00:00Z", **marks, **{"$set": {"plan": "pro"}}),
        event(
            "$set", user, "2024-07-01T10:00:00Z", **marks, **{"$set_once": {"plan": "c", "a": 2}}
        ),
        event("$set", user, "2024-08-01T10:00:00Z", **marks, **{"$set_once": {"a": 3}}),
        event("$set", user, "2024-08-02T10:00:00Z", **marks, **{"$unset": ["city"]}),
        event("e", user),
    ]
    for line in reversed(lines) if backwards else lines:
        import_posthog(line)
    stored(services, workspace.website_id)
    record = workspace.client.get(f"/api/visitors/{quote(user)}").json()
    assert record["user"]["traits"] == {"plan": "pro", "a": 2}


def test_what_is_no_event_is_ignored_and_counted(import_posthog):
    groups, person = event("$groupidentify"), event("$set", **{"$set": {"a": 1}})
    assert import_posthog(event(), groups, person)["ignoredLines"] == 2
    alone = import_posthog(groups)
    assert (alone["state"], alone["error"]) == (
        "failed",
        "The file has no line that Penstock stores.",
    )


def test_views_and_fields(import_posthog, workspace, services):
    import_posthog(
        event("$pageview", **{"$current_url": "https://a.example/a?utm_source=x", "title": "A"}),
        event("$pageview", **{"$pathname": "/b", "$device_type": "Mobile", "$session_id": "s"}),
        event("$pageview", **{"$current_url": "capacitor"}),
        event("$screen", **{"$screen_name": "Home"}),
        event("$screen"),
        event("$autocapture", **{"title": "own", "$elements": [{"tag": "a"}]}),
    )
    columns = "toString(kind), name, title, utm_source, device, external_session_id, properties"
    assert sorted(stored(services, workspace.website_id, columns)) == [
        (*("event", "$autocapture", "", "", "", ""), '{"title":"own","elements":[{"tag":"a"}]}'),
        ("event", "$pageview", "", "", "", "", '{"current_url":"capacitor"}'),
        ("event", "$screen", "", "", "", "", ""),
        ("pageview", "/a", "A", "x", "", "", ""),
        ("pageview", "/b", "", "", "mobile", "s", ""),
        ("screenview", "Home", "", "", "", "", ""),
    ]


FAULTY = [
    ({"distinct_id": "v", "timestamp": TIME}, "event"),
    ({"event": "e", "timestamp": TIME}, "distinct_id"),
    ({"event": "e", "distinct_id": "v"}, "timestamp"),
    (event(time="never"), "timestamp"),
    (event() | {"properties": "nonsense"}, "properties"),
    (event("$create_alias"), "properties.alias"),
]


def test_a_faulty_line_costs_no_other_line(import_posthog, client):
    job = import_posthog(*between(event(), FAULTY))
    assert_faulty_rejected(client, job, FAULTY)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"event,timestamp\na,b\n", "the column distinct_id"),
        (ndjson([{"type": "event"}]), "none of the fields event, distinct_id or timestamp"),
    ],
)
def test_another_file_is_not_posthogs(workspace, content, hint):
    answer = upload(workspace, content, "text/plain", format="posthog")
    assert problem(answer) == (415, "not_posthog")
    assert hint in answer.json()["detail"]
