"""Amplitude's exports: columns, properties of the event and the user, and faulty lines."""

import json

import pytest

from tests.answers import problem
from tests.events.conftest import ndjson, upload
from tests.events.imports.conftest import assert_faulty_rejected, between, importer, stored

pytestmark = pytest.mark.usefixtures("warehouse")


def event(name="e", /, **more):
    return {
        "event_type": name,
        "event_time": "2024-05-01 10:00:00.123000",
        "device_id": "d",
        "user_id": None,
        **more,
    }


import_amplitude = importer("amplitude")


def test_columns_and_properties_of_event_and_user(import_amplitude, workspace, services):
    job = import_amplitude(
        event(
            "bought",
            country="DE",
            region="Berlin",
            os_name="ios",
            session_id=17,
            dma="",
            city="Berlin",
            platform="iOS",
            device_carrier=None,
            uuid="id-1",
            event_properties={"city": "own", "$price": 9.5, "utm_source": "news"},
            user_properties={"plan": "pro", "$x": 1},
        ),
        event("later", session_id=-1),
    )
    assert (job["state"], job["accepted"], job["warnings"]) == ("done", 2, [])
    columns = (
        "name, toUnixTimestamp64Milli(occurred_at), country, region, os, utm_source,"
        " external_session_id, client_event_id"
    )
    at_ms = 1714557600123
    assert stored(services, workspace.website_id, columns) == [
        ("bought", at_ms, "DE", "Berlin", "ios", "news", "17", "id-1"),
        ("later", at_ms, "", "", "", "", "", ""),
    ]
    properties = stored(services, workspace.website_id, "name, properties")[0][1]
    assert json.loads(properties) == {
        "city": "own",
        "price": 9.5,
        "amplitude_city": "Berlin",
        "platform": "iOS",
        "user.plan": "pro",
        "user.x": 1,
    }


def test_views_have_their_path_or_screen(import_amplitude, workspace, services):
    import_amplitude(
        event(
            "[Amplitude] Page Viewed",
            event_properties={"[Amplitude] Page Path": "/a/", "[Amplitude] Page Title": "A"},
        ),
        event("[Amplitude] Page Viewed", event_properties={}),
        event("[Amplitude] Screen Viewed", event_properties={"[Amplitude] Screen Name": "Home"}),
    )
    assert sorted(stored(services, workspace.website_id, "toString(kind), name, title")) == [
        ("event", "[Amplitude] Page Viewed", ""),
        ("pageview", "/a", "A"),
        ("screenview", "Home", ""),
    ]


def test_identify_links_and_stores_traits_and_is_ignored_without_a_user(
    import_amplitude, workspace, services
):
    job = import_amplitude(
        event(),
        event("$identify", user_properties={"plan": "free"}),
        event("$identify", user_id="u", user_properties={"plan": "pro"}),
        event(
            "$identify",
            user_id="u",
            event_time="2023-01-01 10:00:00.000000",
            user_properties={"plan": "none"},
        ),
    )
    assert (job["accepted"], job["identifyLines"], job["ignoredLines"]) == (1, 2, 1)
    stored(services, workspace.website_id)
    user = workspace.client.get("/api/visitors/d").json()["user"]
    assert (user["userId"], user["traits"]) == ("u", {"plan": "pro"})


FAULTY = [
    (event(event_type=None), "event_type"),
    (event(event_time=None), "event_time"),
    (event(event_time="never"), "timestamp"),
    (event(device_id=None), "device_id"),
    (event(event_properties=[1]), "event_properties"),
]


def test_a_faulty_line_costs_no_other_line(import_amplitude, client):
    job = import_amplitude(*between(event(), FAULTY))
    assert_faulty_rejected(client, job, FAULTY)


def test_another_file_is_not_amplitudes(workspace):
    content = ndjson([{"type": "event"}])
    answer = upload(workspace, content, "text/plain", format="amplitude")
    assert problem(answer) == (415, "not_amplitude")
