"""Files that are no NDJSON are rejected at the upload, by their content."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.events.conftest import ndjson

EVENTS_PAGE = Path(__file__).parents[3] / "docs" / "events.md"
CSV = b"timestamp,name,visitorId\n2024-05-01T10:00:00Z,signed_up,v\n"
EVENT = {
    "type": "event", "name": "signed_up", "timestamp": "2024-05-01T10:00:00Z", "visitorId": "v",
}  # fmt: skip


def upload(client, workspace, content):
    return client.post(
        "/api/imports",
        params={"websiteId": workspace.website_id},
        content=content,
        headers={"Content-Type": "application/x-ndjson"},
    )


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (CSV, "csv.DictReader"),
        (b"\xef\xbb\xbf" + CSV, "csv.DictReader"),
        (json.dumps([EVENT]).encode(), "jq -c '.[]'"),
        (json.dumps([EVENT], indent=2).encode(), "jq -c '.[]'"),
        (json.dumps(EVENT, indent=2).encode(), "jq -c ."),
        (json.dumps(EVENT).encode("utf-16"), "UTF-8"),
        (b"PK\x03\x04 a spreadsheet", "JSON object"),
        (b"a word", "JSON object"),
        (b"\n \n" + CSV, "csv.DictReader"),
    ],
    ids=["csv", "csv-bom", "array", "indented-array", "indented", "utf16", "zip", "text", "blank"],
)
def test_other_content_is_rejected_with_a_way_to_convert_it(
    client, workspace, settings, content, hint, compress
):
    answer = upload(client, workspace, compress(content))
    assert (answer.status_code, answer.json()["code"]) == (415, "not_ndjson")
    assert hint in answer.json()["detail"]
    assert client.get("/api/imports").json()["total"] == 0
    assert list((settings.data / "imports").iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        ndjson([EVENT]),
        b"\xef\xbb\xbf\n\n  " + ndjson([EVENT]),
        gzip.compress(ndjson([EVENT])),
        ndjson([EVENT]).rstrip(),
        b" " * 10_000 + ndjson([EVENT]),
    ],
    ids=["plain", "bom-and-blank", "gzip", "no-newline", "late"],
)
def test_ndjson_is_accepted_however_it_begins(client, workspace, content):
    assert upload(client, workspace, content).status_code == 201


def converted(recipe, folder):
    """The NDJSON that a recipe makes of a CSV file with two events."""
    rows = "\ufefftimestamp,name,userId,country\n2024-05-01T10:00:00Z,signed_up,u-1,\n"
    rows += '1714557601000,"plan, changed",u-2,DE\n'
    (folder / "events.csv").write_text(rows, "utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["sh", "-ec", recipe], cwd=folder, env=os.environ | {"PATH": path}, check=True)
    return (folder / "events.ndjson").read_bytes()


def recipe_of_page(client, workspace):
    """From the documentation."""
    blocks = re.findall(r"```sh\n(.*?)```", EVENTS_PAGE.read_text("utf-8"), re.DOTALL)
    [recipe] = [block for block in blocks if "events.csv" in block]
    return recipe


def recipe_of_refusal(client, workspace):
    """From the 415 for a CSV file, which `penstock import` prints too."""
    detail = upload(client, workspace, CSV).json()["detail"]
    return re.search(r"python3 -c '.*' > events\.ndjson", detail)[0]


@pytest.mark.parametrize("recipe_of", [recipe_of_page, recipe_of_refusal])
def test_a_csv_file_converted_as_recommended_is_imported(
    client, workspace, run_import, tmp_path, recipe_of
):
    body = converted(recipe_of(client, workspace), tmp_path)
    job = run_import(body)
    assert (job["state"], job["accepted"], job["rejected"]) == ("done", 2, 0)
    assert [json.loads(line)["name"] for line in body.splitlines()] == [
        "signed_up",
        "plan, changed",
    ]
