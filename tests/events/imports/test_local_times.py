"""Local times of files: hours that occur twice or never, dates that read both ways, and zones."""

import json
from dataclasses import replace

import pytest

from tests.answers import body_of
from tests.cases import cases
from tests.events.conftest import finished, upload
from tests.events.imports.conftest import stored
from tests.events.imports.test_dry_run import summary_of
from tests.records import new_website

pytestmark = pytest.mark.usefixtures("warehouse")

BERLIN = {"timezone": "Europe/Berlin"}


def mapping(time_format="%Y-%m-%d %H:%M", **more):
    time = {"column": "at", "use": "time", "unit": "text", "format": time_format}
    columns = [time, {"column": "who", "use": "visitor"}, {"column": "what", "use": "event"}]
    return {"columns": columns, **more}


def table(times):
    rows = [f"{time},v,e{number:02d}" for number, time in enumerate(times)]
    return "\n".join(["at,who,what", *rows, ""]).encode()


def import_table(workspace, times, **how):
    answer = upload(workspace, table(times), "text/csv", mapping=json.dumps(mapping(**how)))
    return finished(workspace.client, body_of(answer, 201)["id"])


def lines_by_warning(job):
    return {each["code"]: each["lines"] for each in job["warnings"]}


def clock(services, website_id):
    """The stored times in UTC, in the order of the file."""
    rows = stored(services, website_id, "name, formatDateTime(occurred_at, '%H:%i', 'UTC')")
    return [at for _, at in sorted(rows)]


@cases(
    ("times", "utc"),
    [
        # In order: 02:10 after 02:50 is the second time that clocks show it.
        (["01:59", "02:50", "02:10", "02:30", "03:00"], "23:59 00:50 01:10 01:30 02:00"),
        (["02:10", "02:50", "02:50"], "00:10 00:50 00:50"),
        (["03:05", "02:50", "02:10", "02:50", "02:10", "01:59"],
         "02:05 01:50 01:10 00:50 00:10 23:59"),
        # Blocks of rows in order, such as those of each person.
        (["01:00", "02:20", "04:00", "01:00", "02:40", "02:20"],
         "23:00 00:20 03:00 23:00 00:40 01:20"),
    ],
)  # fmt: skip
def test_the_order_of_lines_decides_the_hour_that_occurs_twice(workspace, services, times, utc):
    tenant = replace(workspace, website_id=new_website(workspace.client))
    job = import_table(tenant, [f"2024-10-27 {time}" for time in times], **BERLIN)
    assert clock(services, tenant.website_id) == utc.split()
    twice = sum(time.startswith("02") for time in times)
    assert lines_by_warning(job) == {"repeated_hour": twice}
    assert "occurs twice" in job["warnings"][0]["message"]


def test_the_hour_that_never_occurs_is_read_later_and_counted(workspace, services):
    times = [f"2024-03-31 {time}" for time in ("01:59", "02:30", "03:00")]
    job = import_table(workspace, times, **BERLIN)
    assert clock(services, workspace.website_id) == ["00:59", "01:30", "01:00"]
    assert lines_by_warning(job) == {"missing_hour": 1}
    utc = import_table(workspace, [f"2024-03-31 {time}" for time in ("01:58", "02:31")])
    assert lines_by_warning(utc) == {}


def dry_run(workspace, dates):
    rows = [f"{date} 10:00,v,e{number:02d}" for number, date in enumerate(dates)]
    content = "\n".join(["at,visitor,event", *rows, ""]).encode()
    answer = upload(workspace, content, "text/csv", dryRun="true")
    return body_of(answer, 201)


@cases(
    ("dates", "read_as", "other"),
    [
        # The first 20 rows read both ways, and a later row does not.
        (["01/02/2024"] * 30 + ["13/02/2024"], "%d/%m/%Y %H:%M", None),
        (["01/02/2024"] * 30 + ["02/13/2024"], "%m/%d/%Y %H:%M", None),
        (["01/02/2024"] * 30, "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M"),
        (["13-02-2024", "01-02-2024"], "%d-%m-%Y %H:%M", None),
        (["13.02.2024", "01.02.2024"], "%d.%m.%Y %H:%M", None),
    ],
)
def test_dates_are_read_as_all_rows_allow(workspace, dates, read_as, other):
    summary = summary_of(workspace.client, job := dry_run(workspace, dates))
    [time] = [each for each in summary["mapping"]["columns"] if each["use"] == "time"]
    assert (time["format"], summary["otherDateFormat"]) == (read_as, other)
    assert (summary["events"], summary["rejected"]) == (len(dates), 0)
    shown = workspace.browser.get(f"/imports/{job['id']}").text
    assert ("with the day or the month first" in shown) is (other is not None)


def test_a_mapping_that_was_sent_is_never_changed(workspace):
    job = dry_run(workspace, ["13/02/2024", "01/02/2024"])
    columns = summary_of(workspace.client, job)["mapping"]["columns"]
    columns[0]["format"] = "%m/%d/%Y %H:%M"
    changed = workspace.client.put(f"/api/imports/{job['id']}/mapping", json={"columns": columns})
    summary = summary_of(workspace.client, body_of(changed))
    assert (summary["mapping"]["columns"][0]["format"], summary["rejected"]) == (
        "%m/%d/%Y %H:%M",
        1,
    )


TIME_S = 1_714_557_600  # 10:00 UTC on 1 May 2024
PRODUCTS = {
    "mixpanel": {"event": "e", "properties": {"time": TIME_S, "distinct_id": "v"}},
    "amplitude": {"event_type": "e", "event_time": "2024-05-01 10:00:00.000000", "device_id": "v"},
    "posthog": {"event": "e", "timestamp": "2024-05-01 10:00:00", "distinct_id": "v"},
    "segment": {"type": "track", "event": "e", "timestamp": "2024-05-01T10:00:00",
                "anonymousId": "v"},
}  # fmt: skip


def import_products(workspace, name, line, **how):
    text = json.dumps(line).encode() + b"\n"
    return upload(workspace, text, "application/x-ndjson", format=name, **how)


@cases("name", PRODUCTS)
def test_files_of_products_may_have_local_times(workspace, services, name):
    tenant = replace(workspace, website_id=new_website(workspace.client))
    for zone, staged in (("Europe/Berlin", "true"), ("America/New_York", "false")):
        answer = import_products(tenant, name, PRODUCTS[name], timezone=zone, dryRun=staged)
        job = body_of(answer, 201)
        assert job["timezone"] == zone
        if staged == "true":
            summary = summary_of(tenant.client, job)
            assert summary["firstEventAt"] == "2024-05-01T08:00:00.000Z"
        else:
            finished(tenant.client, job["id"])
    assert clock(services, tenant.website_id) == ["14:00"]


def test_a_time_with_an_offset_ignores_the_time_zone(workspace, services):
    line = PRODUCTS["segment"] | {"timestamp": "2024-05-01T10:00:00Z"}
    answer = import_products(workspace, "segment", line, timezone="Europe/Berlin")
    finished(workspace.client, body_of(answer, 201)["id"])
    assert clock(services, workspace.website_id) == ["10:00"]


@cases(
    ("name", "zone", "fault"),
    [
        ("ndjson", "Europe/Berlin", "timezone not_for_format"),
        ("mixpanel", "Europe/Bonn", "timezone unknown_timezone"),
    ],
)
def test_a_time_zone_that_cannot_apply_is_refused(workspace, name, zone, fault):
    answer = import_products(workspace, name, PRODUCTS["mixpanel"], timezone=zone)
    [error] = answer.json()["errors"]
    assert (answer.status_code, f"{error['field']} {error['code']}") == (400, fault)
