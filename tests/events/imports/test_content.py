"""Files that are not in the format of the request are rejected at the upload, by their content."""

import gzip
import json

from backports import zstd

from tests.answers import problem
from tests.cases import cases
from tests.events.conftest import ndjson, upload

CSV = b"timestamp,name,visitorId\n2024-05-01T10:00:00Z,signed_up,v\n"
EVENT = {
    "type": "event", "name": "signed_up", "timestamp": "2024-05-01T10:00:00Z", "visitorId": "v",
}  # fmt: skip


@cases(
    ("content", "hint"),
    [
        (CSV, "csv with Content-Type: text/csv"),
        (b"\xef\xbb\xbf" + CSV, "csv with Content-Type: text/csv"),
        (json.dumps([EVENT]).encode(), "jq -c '.[]'"),
        (json.dumps([EVENT], indent=2).encode(), "jq -c '.[]'"),
        (json.dumps(EVENT, indent=2).encode(), "jq -c ."),
        (json.dumps([EVENT]).encode("utf-16"), "jq -c '.[]'"),
        (b"PK\x03\x04 a spreadsheet", "JSON object"),
        (b"a word", "JSON object"),
        (b"\n \n" + CSV, "csv with Content-Type: text/csv"),
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


@cases(
    "content",
    [
        ndjson([EVENT]),
        b"\xef\xbb\xbf\n\n  " + ndjson([EVENT]),
        gzip.compress(ndjson([EVENT])),
        zstd.compress(ndjson([EVENT])),
        json.dumps(EVENT).encode("utf-16"),
        ndjson([EVENT]).rstrip(),
        b" " * 10_000 + ndjson([EVENT]),
    ],
)
def test_ndjson_is_accepted_however_it_begins(client, workspace, content):
    assert upload(workspace, content).status_code == 201
