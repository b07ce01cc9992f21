"""The BigQuery export of Google Analytics 4: types of parameters, fields, and faulty lines."""

import json

import pytest

from tests.events.conftest import ndjson
from tests.events.imports.conftest import assert_faulty_rejected, between, importer, stored
from tests.events.imports.exported import GA4

pytestmark = pytest.mark.usefixtures("warehouse")

import_ga4 = importer("ga4")


def event(name="e", device="d", /, **columns):
    return {
        "event_name": name, "event_timestamp": "1714557600123456", "user_pseudo_id": device,
    } | columns  # fmt: skip


def parameters(**values):
    fields = {str: "string_value", float: "double_value"}
    return [
        {"key": key, "value": {fields.get(type(value), "int_value"): value}}
        for key, value in values.items()
    ]


def test_parquet_has_the_same_events_as_json_lines(import_ga4):
    first = import_ga4(GA4().story())
    again = import_ga4(GA4().as_parquet())
    assert (again["accepted"], again["duplicates"]) == (0, first["accepted"])


def test_an_event_has_its_parameters_fields_and_properties_of_the_user(
    import_ga4, workspace, services
):
    number = {"key": "items", "value": {"int_value": "3"}}
    import_ga4(
        event(
            user_id="ann",
            event_params=[*parameters(value=9.5, plan="pro", ga_session_id=17), number],
            user_properties=parameters(team="a"),
            device={"category": "Mobile", "operating_system": "iOS", "web_info": {"browser": "b"}},
            geo={"country": "DE", "region": "Hessen", "city": "(not set)"},
            collected_traffic_source={"manual_source": "news", "manual_medium": None},
            ecommerce={"purchase_revenue": 9.5, "refund_value": None},
            items=[{"item_id": "1", "coupon": "(not set)", "item_params": []}],
            platform="WEB",
        )
    )
    columns = (
        "toUnixTimestamp64Milli(occurred_at), user_id, external_session_id, country, region, "
        "device, os, browser, utm_source, properties"
    )
    [row] = stored(services, workspace.website_id, columns)
    assert row[:-1] == (
        1_714_557_600_123, "ann", "d.17", "DE", "Hessen", "mobile", "iOS", "b", "news",
    )  # fmt: skip
    assert json.loads(row[-1]) == {
        "value": 9.5, "plan": "pro", "items": 3, "platform": "WEB",
        "ecommerce": {"purchase_revenue": 9.5}, "ga4_items": [{"item_id": "1"}],
        "user.team": "a",
    }  # fmt: skip


def test_views_have_pages_and_screens(import_ga4, workspace, services):
    page = parameters(page_location="https://shop.example/a?utm_source=x", page_title="A")
    screen = parameters(firebase_screen="Home")
    import_ga4(
        event("page_view", event_params=page),
        event("page_view", event_params=[]),
        event("screen_view", event_params=screen),
    )
    rows = stored(services, workspace.website_id, "name, toString(kind), title, utm_source")
    assert rows == [
        ("/a", "pageview", "A", "x"),
        ("Home", "screenview", "", ""),
        ("page_view", "event", "", ""),
    ]


FAULTY = [
    ({"event_name": "e"}, "user_pseudo_id"),
    (event(None), "event_name"),
    (event("e", None), "user_pseudo_id"),
    (event(event_timestamp=None), "event_timestamp"),
    (event(event_timestamp="soon"), "timestamp"),
    (event(event_params={"plan": "pro"}), "event_params"),
    (event(user_properties=[{"key": 1}]), "user_properties"),
]


def test_a_faulty_line_costs_no_other_line(import_ga4, client):
    job = import_ga4(*between(event(), FAULTY))
    assert_faulty_rejected(client, job, FAULTY)


def test_a_line_of_json_lines_may_be_compressed_and_repeats_are_recognised(import_ga4):
    content = ndjson([event(), event("f")])
    assert import_ga4(content)["accepted"] == 2
    assert import_ga4(content)["duplicates"] == 2
