"""Times that senders, filters and periods name: each is read or refused, and none stops a batch."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.base.clock import LATEST_MS, iso, parse_time
from tests.answers import body_of, faults
from tests.events.conftest import Stored
from tests.fuzz.examples import fuzz_settings
from tests.tenant import Tenant

UNUSUAL_TIMES: list[Any] = [
    10**15,
    1e15,
    -(10**15),
    10**30,
    1e300,
    "9999-12-31T23:59:59-14:00",
    "9999-12-31T23:59:59.999999Z",
    "0001-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00Z",
    "2300-01-01T00:00:00Z",
    LATEST_MS + 1,
    253402300800000,
    8640000000000001,
    "1" + "0" * 17,
    "9" * 60,
    "9" * 5000,
]


@pytest.mark.parametrize("fields", [("timestamp",), ("sentAt",), ("timestamp", "sentAt")])
def test_an_unusual_time_refuses_its_item_and_no_other(
    workspace: Tenant, site: str, stored: Stored, fields: tuple[str, ...]
) -> None:
    good = {"type": "event", "name": "good", "visitorId": "v"}
    unusual = [{**good, "name": "odd", **dict.fromkeys(fields, time)} for time in UNUSUAL_TIMES]
    answer = workspace.client.post(
        "/api/track", json={"websiteId": site, "events": [good, *unusual, good]}
    )
    first, *rejected, last = body_of(answer, 202)["results"]
    assert first["status"] == last["status"] == "accepted"
    for time, result in zip(UNUSUAL_TIMES, rejected, strict=True):
        assert result["status"] == "rejected", time
        assert {error["field"] for error in result["errors"]} <= set(fields), time
    assert len(stored()) == 2


def test_an_unusual_time_of_a_server_event_names_its_field(workspace: Tenant, site: str) -> None:
    for unusual in UNUSUAL_TIMES:
        event = {"websiteId": site, "event": "e", "visitorId": "v", "timestamp": unusual}
        answer = workspace.client.post("/api/v1/events", json=event)
        assert list(faults(answer)) == ["timestamp"], unusual


def test_an_unusual_time_of_a_period_names_its_parameter(workspace: Tenant) -> None:
    for unusual in UNUSUAL_TIMES:
        for parameters in (
            {"startAt": 10**12, "endAt": unusual},
            {"startAt": unusual, "endAt": unusual},
        ):
            answer = workspace.client.get("/api/funnels/none/results", params=parameters)
            assert answer.status_code == 400, (unusual, answer.text)
            fields = {error["field"] for error in answer.json()["errors"]}
            assert fields <= {"startAt", "endAt"}, (unusual, answer.text)


def test_a_time_of_a_filter_beyond_the_years_is_refused_with_the_range(workspace: Tenant) -> None:
    for unusual in ("999999999999999", "-999999999999999", "9999-12-31T23:59:59-14:00"):
        filters = [{"property": "at", "operator": "before", "value": unusual}]
        rows = [{"type": "Event", "value": name, "filters": filters} for name in ("a", "b")]
        body = {"name": unusual, "countingUnit": "visitor", "steps": rows}
        error = body_of(workspace.client.post("/api/funnels", json=body), 422)["errors"][0]
        assert error["field"] == "steps[0].filters[0].value"
        assert error["message"] == "Must be in the years 1 to 9999."


@pytest.mark.usefixtures("warehouse")
def test_an_unusual_time_of_a_filter_is_refused_or_answered(workspace: Tenant) -> None:
    for unusual in UNUSUAL_TIMES:
        filters = [{"property": "at", "operator": "before", "value": str(unusual)}]
        rows = [{"type": "Event", "value": name, "filters": filters} for name in ("a", "b")]
        body = {"name": str(unusual)[:40], "countingUnit": "visitor", "steps": rows}
        answer = workspace.client.post("/api/funnels", json=body)
        if answer.status_code == 201:
            results = workspace.client.get(f"/api/funnels/{answer.json()['id']}/results")
            assert results.status_code == 200, (unusual, results.text)
        else:
            assert answer.status_code == 422, (unusual, answer.text)


@fuzz_settings(100, times=20)
@given(
    st.one_of(
        st.integers(),
        st.floats(),
        st.text(max_size=80),
        st.booleans(),
        st.none(),
        st.from_regex(r"-?[0-9]{1,70}", fullmatch=True),
        st.from_regex(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
            r"(Z|[+-][0-9]{2}:?[0-9]{2}(:[0-9]{2})?)?",
            fullmatch=True,
        ),
    )
)
@example("\ud800")
@example(float("inf"))
@example("9999-12-31T23:59:59-23:59")
def test_every_input_is_a_valid_time_or_a_value_error(value: object) -> None:
    for naive_is_utc in (False, True):
        try:
            at_ms = parse_time(value, naive_is_utc=naive_is_utc)
        except ValueError:
            continue
        assert parse_time(iso(at_ms)) == at_ms


@fuzz_settings(100, times=20)
@given(
    st.datetimes(timezones=st.timezones() | st.just(UTC)),
    st.sampled_from(["milliseconds", "microseconds", "seconds"]),
)
def test_a_time_is_the_same_in_every_spelling(at: datetime, unit: str) -> None:
    text = at.isoformat(timespec=unit)
    instant_ms = parse_time(text)
    assert parse_time(instant_ms) == parse_time(str(instant_ms)) == instant_ms
    assert parse_time(text.replace("T", " ")) == instant_ms
