"""The format of an import is named by `format` or `Content-Type`; one table has them all."""

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.base.wording import listed
from penstock.events.imports.formats.table import READERS, reader_of_request
from penstock.events.imports.formats.unpacking import COMPRESSED_MEDIA_TYPES
from tests.answers import body_of, problem
from tests.cases import cases, full_except
from tests.events.conftest import finished, imported, ndjson, upload
from tests.events.imports.conftest import rejects
from tests.events.imports.exported import parquet

EVENT = {
    "type": "event", "name": "signed_up", "timestamp": "2024-05-01T10:00:00Z", "visitorId": "v",
}  # fmt: skip
FILES = {
    "ndjson": ndjson([EVENT]),
    "csv": b"name,timestamp,visitorId\nsigned_up,2024-05-01T10:00:00Z,v\n",
    "parquet": parquet(
        {"name": ["signed_up"], "timestamp": ["2024-05-01T10:00:00Z"], "visitorId": ["v"]}
    ),
    "mixpanel": ndjson(
        [{"event": "signed_up", "properties": {"time": 1714557600, "distinct_id": "v"}}]
    ),
    "posthog": ndjson(
        [{"event": "signed_up", "distinct_id": "v", "timestamp": "2024-05-01T10:00:00Z"}]
    ),
    "amplitude": ndjson(
        [{"event_type": "signed_up", "device_id": "v", "event_time": "2024-05-01 10:00:00"}]
    ),
    "ga4": ndjson(
        [
            {
                "event_name": "signed_up",
                "event_timestamp": "1714557600000000",
                "user_pseudo_id": "v",
            }
        ]
    ),
    "segment": ndjson(
        [
            {
                "type": "track",
                "event": "signed_up",
                "anonymousId": "v",
                "timestamp": "2024-05-01T10:00:00Z",
            }
        ]
    ),
}
NAMES = [reader.name for reader in READERS]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    "name", full_except({*NAMES} - {"parquet"}, NAMES, "starts a process for each media type")
)
def test_the_same_event_in_each_format_is_one_event(workspace, run_import, name):
    if name in ("ndjson", "csv"):
        run_import([EVENT])
    else:
        assert imported(workspace, FILES[name], "text/plain", format=name)["accepted"] == 1
    reader = next(reader for reader in READERS if reader.name == name)
    media_types = (*reader.media_types, *COMPRESSED_MEDIA_TYPES, "text/plain")
    for media_type, query in [
        *((each, {}) for each in media_types if reader_of_request(None, each) is reader),
        *((each, {"format": name}) for each in media_types),
    ]:
        answer = upload(workspace, FILES[name], media_type, **query)
        assert (answer.status_code, answer.json()["format"]) == (201, name)
        job = finished(workspace.client, answer.json()["id"])
        assert (job["state"], job["duplicates"]) == ("done", 1)
    listed = workspace.client.get("/api/imports").json()["data"]
    assert {job["format"] for job in listed} <= {"ndjson", name}


def test_an_unknown_format_is_an_error_that_names_the_formats(workspace):
    [fault] = body_of(upload(workspace, FILES["csv"], "text/csv", format="xml"), 400)["errors"]
    assert (fault["field"], fault["message"]) == ("format", f"Must be {listed(NAMES, 'or')}.")


@cases("media_type", ["application/json", "application/pdf", ""])
def test_an_unknown_media_type_is_an_error_that_names_the_formats(workspace, media_type):
    answer = upload(workspace, FILES["csv"], media_type)
    assert problem(answer) == (415, "unsupported_media_type")
    for reader in READERS:
        assert f"Content-Type: {reader.media_types[0]} for {reader.name}" in answer.json()["detail"]


def test_a_format_that_contradicts_the_media_type_is_an_error(workspace):
    answer = upload(workspace, FILES["csv"], "application/x-ndjson", format="csv")
    assert "The parameter format is csv" in body_of(answer, 415)["detail"]


def test_a_file_in_another_format_is_rejected_with_the_format_that_fits(workspace, settings):
    for name, content in (("ndjson", FILES["csv"]), ("csv", FILES["ndjson"])):
        answer = upload(workspace, content, "text/plain", format=name)
        assert problem(answer) == (415, f"not_{name}")
        detail = answer.json()["detail"]
        other = "ndjson" if name == "csv" else "csv"
        assert f"looks like the format {other}, not {name}. Send Content-Type: " in detail
    assert list((settings.data / "imports").iterdir()) == []


def test_the_api_document_has_every_format(client):
    operation = client.get("/api/openapi.json").json()["paths"]["/api/imports"]["post"]
    [parameter] = [each for each in operation["parameters"] if each["name"] == "format"]
    assert parameter["schema"]["enum"] == NAMES
    media_types = list(dict.fromkeys(reader.media_types[0] for reader in READERS))
    assert list(operation["requestBody"]["content"]) == media_types
    for reader in READERS:
        assert f"`{reader.name}` is {reader.description}" in parameter["description"]


@cases("name", NAMES)
def test_a_session_may_upload_each_format_but_no_type_that_a_form_can_send(workspace, name):
    reader = next(reader for reader in READERS if reader.name == name)

    def status(media_type):
        sender = replace(workspace, client=workspace.browser)
        return upload(sender, FILES[name], media_type, format=name).status_code

    assert (status(reader.media_types[0]), status("text/plain")) == (201, 415)


def test_the_documentation_has_every_format():
    page = (Path(__file__).parents[3] / "docs" / "events.md").read_text("utf-8")
    for reader in READERS:
        media_types, endings = (
            ", ".join(f"`{value}`" for value in values)
            for values in (reader.media_types, reader.endings)
        )
        row = f"| `{reader.name}` | {reader.description} | {media_types} | {endings} |"
        assert row in page.splitlines()


NO_IDS = ({"a": 1}, ["a"], 1.5, True)
LINES_BY_ID = {
    "mixpanel": lambda sent: {
        "event": "e",
        "properties": {"time": 1588327200, "distinct_id": "d", "$user_id": sent},
    },
    "posthog": lambda sent: {
        "event": "e", "timestamp": "2020-05-01T10:00:00Z", "distinct_id": "d", "uuid": sent,
    },
    "amplitude": lambda sent: {
        "event_type": "e", "event_time": "2020-05-01 10:00:00", "device_id": "d", "user_id": sent,
    },
}  # fmt: skip


@cases("name", LINES_BY_ID)
def test_an_id_that_is_no_text_or_whole_number_rejects_its_line_only(workspace, name):
    lines = ndjson([LINES_BY_ID[name](sent) for sent in ("u", *NO_IDS, 7)])
    job = imported(workspace, lines, format=name)
    assert (job["state"], job["accepted"], job["rejected"]) == ("done", 2, len(NO_IDS))
    [reject, *_] = rejects(workspace.client, job)
    assert [fault["code"] for fault in reject["errors"]] == ["wrong_type"]
