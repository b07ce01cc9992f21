"""Files that are not in the format of the request are rejected at the upload, by their content."""

import gzip
import json
from itertools import product

import pytest
from backports import zstd

from tests.answers import body_of, problem
from tests.cases import cases
from tests.events.conftest import imported, ndjson, upload
from tests.events.imports.exported import GA4, PostHog

CSV = b"timestamp,name,visitorId\n2024-05-01T10:00:00Z,signed_up,v\n"
LIKE_CSV = "looks like the format csv, not ndjson. Send Content-Type: text/csv."
EVENT = {
    "type": "event", "name": "signed_up", "timestamp": "2024-05-01T10:00:00Z", "visitorId": "v",
}  # fmt: skip


@cases(
    ("content", "hint"),
    [
        (CSV, LIKE_CSV),
        (
            b"\xef\xbb\xbf" + CSV,
            LIKE_CSV,
        ),
        (json.dumps([EVENT]).encode(), "jq -c '.[]'"),
        (json.dumps([EVENT], indent=2).encode(), "jq -c '.[]'"),
        (json.dumps(EVENT, indent=2).encode(), "jq -c ."),
        (json.dumps([EVENT]).encode("utf-16"), "jq -c '.[]'"),
        (b"PK\x03\x04 a spreadsheet", "JSON object"),
        (b"a word", "JSON object"),
        (b"\n \n" + CSV, LIKE_CSV),
    ],
)
def test_other_content_is_rejected_with_a_way_to_convert_it(
    client, workspace, settings, content, hint
):
    for compress in (bytes, gzip.compress):
        answer = upload(workspace, compress(content))
        assert problem(answer) == (415, "not_ndjson")
        assert hint in answer.json()["detail"]
    assert client.get("/api/imports").json()["total"] == 0
    assert list((settings.data / "imports").iterdir()) == []


LINES = {
    "posthog": {"event": "e", "distinct_id": "v", "timestamp": "2024-05-01T10:00:00Z"},
    "mixpanel": {"event": "e", "properties": {"time": 1714557600, "distinct_id": "v"}},
    "amplitude": {"event_type": "e", "device_id": "v", "event_time": "2024-05-01 10:00:00"},
    "ga4": {"event_name": "e", "event_timestamp": "1714557600000000", "user_pseudo_id": "v"},
    "segment": {"type": "track", "event": "e", "anonymousId": "v", "timestamp": 1714557600000},
}
PARQUET_FILES = {
    "posthog": lambda: PostHog().as_parquet(), "ga4": lambda: GA4().as_parquet(),
}  # fmt: skip
PARQUET = "application/vnd.apache.parquet"
MARK = b"\xef\xbb\xbf"


@cases("name", LINES)
def test_an_export_is_recognised_after_a_byte_order_mark(workspace, name):
    content = MARK + ndjson([LINES[name]])
    answer = upload(workspace, content, "text/plain", format="ndjson")
    assert problem(answer) == (415, "not_ndjson")
    assert f"the format {name}, not ndjson" in answer.json()["detail"]
    job = imported(workspace, content * 2, "text/plain", format=name)
    assert (job["linesRead"], job["rejected"]) == (2, 0)


@cases("name", LINES)
def test_an_export_is_recognised_by_a_long_first_line(workspace, name):
    """PostHog writes 260 feature flags into an event, and properties before `distinct_id`."""
    flags = {f"$feature/{number}": "a variant of the flag" for number in range(1000)}
    line = {**LINES[name], "properties": {**flags, **LINES[name].get("properties", {})}}
    first = {each: line[each] for each in ("properties", *LINES[name])}
    for compress in (bytes, gzip.compress, zstd.compress):
        content = compress(ndjson([first]) * 5)
        answer = upload(workspace, content, "text/plain", format="ndjson")
        assert problem(answer) == (415, "not_ndjson")
        assert f"the format {name}, not ndjson" in answer.json()["detail"]


@cases(("sent", "name"), [(sent, name) for sent in LINES for name in LINES if sent != name])
def test_an_error_names_the_one_format_that_the_file_has(workspace, sent, name):
    answer = upload(workspace, ndjson([LINES[sent]]), "text/plain", format=name)
    assert problem(answer) == (415, f"not_{name}")
    assert answer.json()["detail"] == (
        f"The file looks like the format {sent}, not {name}. Send format={sent} and Content-Type: "
        "application/x-ndjson."
    )


@cases(
    ("content", "name", "reason"),
    [
        (b"event,timestamp\ne,2024-05-01\n", "posthog", "does not name the column distinct_id"),
        (ndjson([{"a": 1}]), "mixpanel", "has none of the fields event or properties"),
        (b'[{"event_type": "e"}]', "amplitude", "does not begin with a JSON object"),
        (b"Report of May\n\n" + CSV, "csv", "The first row is a title, and the second row names"),
        (b"Report of May;;\nwhen;who\n", "csv", "has a single cell, 'Report of May'. It must name"),
        (
            b'"date","visitors","pageviews","bounces"\n"2024-05-01",10,20,5\n', "csv",
            "A funnel cannot be made of sums",
        ),
    ],
)  # fmt: skip
def test_an_error_names_the_real_cause_and_no_other_format(workspace, content, name, reason):
    for query in ({}, {"dryRun": "true"}):
        answer = upload(workspace, content, "text/plain", format=name, **query)
        assert problem(answer) == (415, f"not_{name}")
        assert reason in answer.json()["detail"]
        assert "looks like" not in answer.json()["detail"]


@cases(
    ("name", "first"),
    [(name, first) for name in ("ndjson", "posthog", "csv") for first in (b"[", b"\x1b", b"a,")],
)
def test_a_file_that_is_neither_text_nor_parquet_names_the_compressions(workspace, name, first):
    """PostHog also exports files with Brotli, which has no mark at its beginning."""
    answer = upload(workspace, first + bytes(range(256)) * 10, "text/plain", format=name)
    assert problem(answer) == (415, f"not_{name}")
    assert "compressed in another way than gzip, Zstandard or ZIP" in answer.json()["detail"]


def test_a_title_of_several_cells_is_recognised(workspace):
    answer = upload(workspace, b"Report,May 2024,,\n\n" + CSV, "text/csv")
    assert problem(answer) == (415, "not_csv")
    assert answer.json()["detail"].startswith("The first row is a title, and the second row names")


@cases(
    "content",
    [
        ndjson([EVENT]),
        b"\xef\xbb\xbf\n\n  " + ndjson([EVENT]),
        gzip.compress(ndjson([EVENT])),
        zstd.compress(ndjson([EVENT])),
        json.dumps(EVENT).encode("utf-16"),
        ndjson([EVENT]).rstrip(),
        b" " * 100_000 + ndjson([EVENT]),
    ],
)
def test_ndjson_is_accepted_however_it_begins(client, workspace, content):
    assert upload(workspace, content).status_code == 201


@pytest.mark.usefixtures("warehouse")
@cases(("name", "dry_run"), product(("posthog", "ga4"), ("false", "true")))
def test_a_parquet_file_with_the_columns_of_a_product_is_its_export(workspace, name, dry_run):
    content = PARQUET_FILES[name]()
    job = body_of(upload(workspace, content, PARQUET, dryRun=dry_run), 201)
    assert job["format"] == name
    answer = upload(workspace, content, PARQUET, format="parquet", dryRun=dry_run)
    assert problem(answer) == (415, "not_parquet")
    assert f"looks like the format {name}, not parquet" in answer.json()["detail"]


@pytest.mark.usefixtures("warehouse")
def test_a_mapping_decides_how_a_file_with_the_columns_of_posthog_is_read(workspace):
    columns = [
        {"column": "timestamp", "use": "time", "unit": "text"},
        {"column": "distinct_id", "use": "visitor"},
        {"column": "event", "use": "event"},
    ]
    mapping = json.dumps({"columns": columns, "otherColumns": "ignored"})
    job = imported(workspace, PostHog().as_parquet(), PARQUET, mapping=mapping)
    assert (job["format"], job["rejected"]) == ("parquet", 0)


def test_a_dry_run_of_csv_with_the_columns_of_posthog_names_its_format(workspace):
    content = b"uuid,event,distinct_id,timestamp,properties\n1,e,v,2024-05-01 10:00:00,{}\n"
    answer = upload(workspace, content, "text/csv", dryRun="true")
    assert problem(answer) == (415, "not_csv")
    assert "looks like the format posthog, not csv" in answer.json()["detail"]
