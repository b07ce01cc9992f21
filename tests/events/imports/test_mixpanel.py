"""Mixpanel's exports: identities of both ID merges, names of properties, page views, repeats."""

import json

import pytest

from tests.answers import problem
from tests.cases import full_except
from tests.events.conftest import ndjson, upload
from tests.events.imports.conftest import (
    assert_faulty_rejected,
    between,
    counts,
    importer,
    stored,
)


def event(name="e", time=1714557600, /, **properties):
    return {"event": name, "properties": {"time": time, **properties}}


def link(name, **properties):
    return {"event": name, "properties": properties}


import_mixpanel = importer("mixpanel")


SIMPLIFIED = [
    event(**{"distinct_id": "$device:d", "$device_id": "d", "n": 1}),
    event(**{"distinct_id": "u", "$device_id": "d", "$user_id": "u", "n": 2}),
    event(distinct_id="u", n=3),
]
ORIGINAL = [
    event(distinct_id="$device:d", n=1),
    link("$identify", **{"$identified_id": "u", "$anon_id": "d", "distinct_id": "u"}),
    event(distinct_id="u", n=3),
]
CANONICAL = [
    event(distinct_id="d", n=1),
    event(**{"distinct_id": "d", "$user_id": "u", "n": 2}),
    event(distinct_id="u", n=3),
]
ALIAS = [
    event(distinct_id="d", n=1),
    link("$create_alias", distinct_id="d", alias="u"),
    event(distinct_id="u", n=3),
]
MERGE = [
    event(distinct_id="d", n=1),
    link("$merge", **{"$distinct_ids": ["u", "$device:d"]}),
    event(distinct_id="u", n=3),
]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("backwards", full_except([False], (False, True), "each kind of export"))
@pytest.mark.parametrize(
    ("lines", "linked"),
    [(SIMPLIFIED, 0), (ORIGINAL, 1), (CANONICAL, 0), (ALIAS, 1), (MERGE, 1)],
    ids=["simplified", "original", "canonical", "alias", "merge"],
)
def test_the_ids_of_a_person_are_one_visitor_in_any_order(
    import_mixpanel, services, workspace, lines, linked, backwards
):
    job = import_mixpanel(*(reversed(lines) if backwards else lines))
    assert (job["state"], job["identifyLines"], job["identityConflicts"]) == ("done", linked, 0)
    assert counts(job) == (3, 3 - linked, 0, 0)
    stored(services, workspace.website_id)
    record = workspace.client.get("/api/visitors/d").json()
    assert set(record["ids"]) == {"d", "u"}
    assert record["user"]["userId"] == "u"


@pytest.mark.usefixtures("warehouse")
def test_a_device_of_another_user_is_a_conflict_and_merges_nothing(import_mixpanel, workspace):
    job = import_mixpanel(
        event(**{"distinct_id": "ann", "$device_id": "d", "$user_id": "ann"}),
        event(**{"distinct_id": "bob", "$device_id": "d", "$user_id": "bob"}),
        link("$identify", **{"$identified_id": "bob", "$anon_id": "d"}),
    )
    assert (job["accepted"], job["identifyLines"], job["identityConflicts"]) == (2, 1, 2)
    assert "d" in workspace.client.get("/api/visitors/ann").json()["ids"]


@pytest.mark.usefixtures("warehouse")
def test_properties_fill_fields_or_lose_their_sign_and_none_is_lost(
    import_mixpanel, workspace, services
):
    long = "x" * 300
    job = import_mixpanel(
        event(
            "bought",
            **{"distinct_id": "v", "mp_country_code": "DE", "$region": "Berlin", "$os": "iOS"},
            **{"$browser": long, "$referrer": "$direct", "$current_url": "https://a.example/b?x=1"},
            **{"$city": "Berlin", "city": "own", "$$odd": 1, "$": 2, "utm_source": "news"},
            nested={"$deep": [1, {"a": None}]},
            big=12345678901234567890,
            empty=None,
        )
    )
    assert job["state"] == "done"
    assert job["warnings"] == []
    columns = "country, region, os, browser, path, utm_source, referrer, properties"
    [(*fields, properties)] = stored(services, workspace.website_id, columns)
    assert fields == ["DE", "Berlin", "iOS", "", "/b", "news", ""]
    assert json.loads(properties) == {
        "city": "own",
        "mixpanel_city": "Berlin",
        "browser": long,
        "referrer": "$direct",
        "odd": 1,
        "mixpanel": 2,
        "nested": {"$deep": [1, {"a": None}]},
        "empty": None,
        "big": 12345678901234567890,
    }


@pytest.mark.usefixtures("warehouse")
def test_page_views_have_a_path_and_other_events_keep_their_name(
    import_mixpanel, workspace, services
):
    view = "$mp_web_page_view"
    import_mixpanel(
        event(view, **{"distinct_id": "v", "$current_url": "https://a.example/a"}),
        event(view, distinct_id="v", current_url_path="/b/", current_page_title="B"),
        event(view, distinct_id="v", current_url="no page"),
        event("$mp_click", distinct_id="v"),
    )
    assert sorted(stored(services, workspace.website_id, "toString(kind), name, title")) == [
        ("event", "$mp_click", ""),
        ("event", view, ""),
        ("pageview", "/a", ""),
        ("pageview", "/b", "B"),
    ]


@pytest.mark.usefixtures("warehouse")
def test_times_are_seconds_and_may_be_milliseconds(import_mixpanel, workspace, services):
    times = (1714557600, 1714557600.123, 1714557600456, "1714557601", "2024-05-01T10:00:02Z")
    import_mixpanel(*(event(str(n), time, distinct_id="v") for n, time in enumerate(times)))
    at = "toUnixTimestamp64Milli(occurred_at) - 1714557600000"
    assert stored(services, workspace.website_id, at) == [0, 123, 456, 1000, 2000]


def test_a_repeat_has_the_same_insert_id_event_person_and_time(import_mixpanel):
    first = event("a", distinct_id="v", **{"$insert_id": "i", "n": 1})
    repeat = event("a", distinct_id="v", **{"$insert_id": "i", "n": 2})
    other = event("b", distinct_id="v", **{"$insert_id": "i"})
    assert counts(import_mixpanel(first, repeat, other)) == (3, 2, 1, 0)


def test_names_that_all_lose_their_sign_to_one_name_take_no_time(import_mixpanel):
    names = {"$" * number + "x": 1 for number in range(1, 1_300)}
    job = import_mixpanel(*[event(distinct_id="v", **names)] * 20, event(distinct_id="v"))
    assert (job["accepted"], job["rejected"]) == (21, 0)
    lines = {warning["code"]: warning["lines"] for warning in job["warnings"]}
    assert lines["keys_left_out"] == 20


FAULTY: list[tuple[bytes, str]] = [
    (b'{"properties": {"time": 1, "distinct_id": "v"}}', "event"),
    (b'{"event": "", "properties": {"time": 1, "distinct_id": "v"}}', "event"),
    (b'{"event": "e"}', "properties.time"),
    (b'{"event": "e", "properties": [1]}', "properties"),
    (b'{"event": "e", "properties": {"time": [1], "distinct_id": "v"}}', "properties.time"),
    (b'{"event": "e", "properties": {"time": 1714557600}}', "properties.distinct_id"),
    (b'{"event": "e", "properties": {"time": "never", "distinct_id": "v"}}', "timestamp"),
    (b'{"event": "e", "properties": {"time": 1e300, "distinct_id": "v"}}', "timestamp"),
    (b'{"event": "$identify", "properties": {"$anon_id": "v"}}', "properties.$identified_id"),
    (b'{"event": "$merge", "properties": {"$distinct_ids": {}}}', "properties.$distinct_ids"),
    (b"[" * 100_000, ""),
    (b'{"event": "e", "properties": {"a": ' + b"[" * 100_000 + b"1", ""),
    (b'{"event": "e", "properties": {"time": 1714557600, "distinct_id": "\xff"}}', ""),
    (b'{"event": "e", "properties": {"time": 1, "distinct_id": "v", "a": "\xff"}}', ""),
    (b'{"event": "' + b"x" * 1_100_000 + b'"}', ""),
    (b"nonsense", ""),
]  # fmt: skip


def test_a_faulty_line_costs_no_other_line(import_mixpanel, client):
    good = json.dumps(event(distinct_id="v")).encode()
    job = import_mixpanel(b"\n".join(between(good, FAULTY)))
    assert_faulty_rejected(client, job, FAULTY)


def test_an_ndjson_file_of_our_own_is_not_mixpanels(workspace):
    own = {"type": "event", "name": "e", "timestamp": 1714557600000, "visitorId": "v"}
    answer = upload(workspace, ndjson([own]), "application/x-ndjson", format="mixpanel")
    assert problem(answer) == (415, "not_mixpanel")
    assert "none of the fields event or properties" in answer.json()["detail"]
