"""`penstock export` as a real process against a real service."""

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from itertools import repeat
from pathlib import Path

import httpx
import pytest
import yaml
from docsite.pages import blocks
from jinja2 import Template
from pyarrow import parquet

from penstock.base.row_files import RowFormat
from penstock.exports.folder import open_export
from penstock.exports.storage import ExportFailed, Folder
from tests.cli import commands
from tests.cli.commands import keys_of, start
from tests.cli.few_units import MAX_UNITS
from tests.http_server import Answering, http_server
from tests.other_programs import run_program
from tests.records import create, event_steps, new_website, send_events
from tests.serving import Served, error_of, output_of
from tests.waiting import eventually

DAY_MS = 86_400_000
FIRST_MS = 1_790_000_000_000 // DAY_MS * DAY_MS
FIRST_DAY, LAST_DAY = "2026-09-21", "2026-09-25"


@pytest.fixture(scope="module")
def service(starts_service, tmp_path_factory):
    data = tmp_path_factory.mktemp("export") / "data"
    with Served(data, program=("tests.cli.few_units",)) as running:
        running.key, running.website = running.first_account()
        yield running


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "export"


def run(service, *arguments, **settings):
    return commands.run(service, "export", *arguments, **settings)


def exported(service, folder, *arguments):
    return output_of(run(service, folder, *arguments))


def send(service, website_id, days, *, per_day=3, prefix="e", event="step"):
    events = [
        {
            "websiteId": website_id,
            "visitorId": f"v{number}",
            "event": event,
            "eventId": f"{prefix}-{day}-{number}",
            "timestamp": FIRST_MS + day * DAY_MS + number,
            "properties": {"plan": "pro", "n": number},
        }
        for day in days
        for number in range(per_day)
    ]
    send_events(service.client, events)


def website_with_events(service, days, **more):
    """Create a website with events (`send`). Returns its ID."""
    website_id = new_website(service.client)
    send(service, website_id, days, **more)
    return website_id


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text("utf-8"))


def rows_of(folder, table, website_id):
    paths = sorted((folder / table / website_id).iterdir())
    if paths[0].suffix == ".parquet":
        return [row for path in paths for row in parquet.read_table(path).to_pylist()]
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow("starts the service of this module")
@pytest.mark.parametrize(
    "file_format", ["parquet", pytest.param("ndjson", marks=pytest.mark.full("another format"))]
)
def test_every_event_is_in_the_file_of_its_day(service, folder, file_format):
    website_id = website_with_events(service, range(5))
    exported(service, folder, "--format", file_format)
    days = {path.stem for path in (folder / "events" / website_id).iterdir()}
    assert (min(days), max(days), len(days)) == (FIRST_DAY, LAST_DAY, 5)
    rows = rows_of(folder, "events", website_id)
    assert [row["client_event_id"] for row in rows] == [
        f"e-{day}-{number}" for day in range(5) for number in range(3)
    ]
    assert {row["kind"] for row in rows} == {"event"}
    assert {row["source"] for row in rows} == {"server"}
    assert json.loads(rows[2]["properties"]) == {"plan": "pro", "n": 2}


def test_the_manifest_has_counts_checksums_version_and_span(service, folder):
    website_id = website_with_events(service, range(5))
    exported(service, folder)
    manifest = manifest_of(folder)
    for file in manifest["files"]:
        content = (folder / file["path"]).read_bytes()
        assert (len(content), sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    listed = {file["path"] for file in manifest["files"]} | {"manifest.json"}
    assert listed == {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    own = [file for file in manifest["files"] if file.get("websiteId") == website_id]
    assert sum(file["rows"] for file in own if file["table"] == "events") == 15
    assert website_id in manifest["websites"]
    assert manifest["span"]["firstDay"] <= FIRST_DAY
    assert manifest["workspace"] == "Acme"
    assert manifest["version"]


def test_a_repeat_writes_only_days_that_changed(service, folder):
    website_id = website_with_events(service, range(3))
    exported(service, folder)
    files = folder / "events" / website_id
    before = {path.name: path.stat().st_ino for path in files.iterdir()}
    send(service, website_id, [1], prefix="late")
    assert "unchanged days not written again" in exported(service, folder)
    after = {path.name: path.stat().st_ino for path in files.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"2026-09-22.parquet"}
    assert len(rows_of(folder, "events", website_id)) == 12


def test_a_repeat_removes_deleted_people(service, folder):
    website_id = website_with_events(service, range(2), per_day=1)
    exported(service, folder)
    deletion = {"websiteId": website_id, "visitorId": "v0"}
    job = service.client.post("/api/deletions", json=deletion).json()["id"]
    eventually(lambda: service.client.get(f"/api/deletions/{job}").json()["state"] == "done")

    def copies():
        exports = service.client.get(f"/api/deletions/{job}").json()["exports"]
        return [each for each in exports if each["destination"].endswith(f":{folder}")]

    [copy] = copies()
    assert (copy["firstDay"] <= FIRST_DAY, copy["lastDay"] >= "2026-09-22") == (True, True)
    exported(service, folder)
    assert copies() == []
    assert list((folder / "events" / website_id).iterdir()) == []
    assert not [
        f for f in manifest_of(folder)["files"] if f.get("websiteId") == website_id and f["rows"]
    ]


def test_identities_name_the_canonical_visitor_and_the_user(service, folder):
    website_id = new_website(service.client)
    for visitor in ("phone", "laptop"):
        body = {"websiteId": website_id, "visitorId": visitor, "userId": "ada"}
        answer = service.client.post("/api/identify", json={**body, "traits": {"plan": "pro"}})
        assert answer.status_code == 200, answer.text
    send(service, website_id, [0], per_day=1)  # a visitor without a user is in no file
    exported(service, folder)
    rows = parquet.read_table(folder / "identities" / f"{website_id}.parquet").to_pylist()
    assert [(row["visitor_id"], row["canonical_id"], row["user_id"]) for row in rows] == [
        ("laptop", "phone", "ada"),
        ("phone", "phone", "ada"),
    ]
    assert [row["merged_at"] is not None for row in rows] == [True, False]
    assert [row["traits"] for row in rows] == [None, '{"plan":"pro"}']


def test_websites_that_share_visitors_have_one_file_of_identities(service, folder):
    first = new_website(service.client, identityScope="group")
    second = new_website(service.client, identityScope="group")
    exported(service, folder)
    names = {path.stem for path in (folder / "identities").iterdir()}
    assert names & {first, second} == {first}


def test_definitions_goals_links_and_members_are_exported(service, folder):
    goal = {"name": "Paid", "match": {"type": "Event", "value": "paid"}}
    create(service.client, "/api/goals", goal)
    steps = [*event_steps("step"), {"type": "Goal", "value": "Paid"}]
    create(service.client, "/api/funnels", {"name": "Checkout", "steps": steps})
    app = new_website(service.client, kind="mobile")
    for slug in ("spring", "autumn"):
        link = {"websiteId": app, "name": slug, "slug": slug, "destinationPath": "/sale"}
        record = create(service.client, "/api/mobile/deferred-links", link)
    change = {"id": record["id"], "isArchived": True}
    assert service.client.patch("/api/mobile/deferred-links", json=change).status_code == 200
    exported(service, folder)

    def names(table, field="name"):
        lines = (folder / f"{table}.ndjson").read_text("utf-8").splitlines()
        return {json.loads(line)[field] for line in lines}

    assert names("goals") == {"Paid"}
    assert names("funnels") == {"Checkout"}
    assert names("cohorts") == names("segments") == set()
    assert names("links") == {"spring", "autumn"}
    assert names("members", "email") == {"owner@example.com"}


def test_outcomes_of_saved_funnels_are_exported(service, folder):
    send(service, new_website(service.client), [0], per_day=2, prefix="outcomes")
    body = {"name": "Steps", "steps": event_steps("step", "never")}
    funnel = create(service.client, "/api/funnels", body)
    exported(service, folder)
    table = parquet.read_table(folder / "outcomes" / f"{funnel['id']}.parquet")
    report = service.client.get(f"/api/funnels/{funnel['id']}/results").json()
    assert table.num_rows == report["aggregate"]["entered"] > 0
    last = ("step_1_at", "step_2_at", "excluded_at", "window_ends_at", "evaluated_at")
    assert tuple(table.column_names[-5:]) == last


def test_a_funnel_with_too_many_units_is_named_and_stops_nothing_else(service, folder):
    website_id = website_with_events(service, [0], per_day=MAX_UNITS + 1, event="many")
    funnels = [
        create(service.client, "/api/funnels", {"name": name, "steps": event_steps(first, "never")})
        for name, first in (("Large", "many"), ("Small", "never"))
    ]
    result = run(service, folder)
    for funnel in funnels:
        assert service.client.delete(f"/api/funnels/{funnel['id']}").status_code == 204
    assert result.returncode == 0, result.stderr
    reason = f"The table has more than {MAX_UNITS} units, the most that a file can have."
    warning = f"penstock: the export has no outcomes of the funnel Large: {reason}"
    assert warning in result.stderr
    manifest = manifest_of(folder)
    [omitted] = manifest["omitted"]
    assert omitted.pop("reason").startswith(reason)
    assert omitted == {"table": "outcomes", "funnelId": funnels[0]["id"], "name": "Large"}
    assert (folder / "outcomes" / f"{funnels[1]['id']}.parquet").exists()
    assert len(rows_of(folder, "events", website_id)) == MAX_UNITS + 1


def documented(beginning):
    [block] = [
        block.text
        for block in blocks(Path("docs/moving-out.md"))
        if block.text.startswith(beginning)
    ]
    return block


DUCKDB = """
import duckdb, json, sys
rows = duckdb.sql(sys.stdin.read()).project("COLUMNS(*)::VARCHAR")
print(json.dumps([dict(zip(rows.columns, row)) for row in rows.fetchall()]))
"""
"""A process of its own, because the library writes warnings when its process ends."""


def read_by_duckdb(statement, folder):
    """Return the rows of a statement. Values are texts."""
    text = statement.replace("/backups/acme", str(folder))
    return json.loads(run_program([sys.executable, "-c", DUCKDB], text, may_warn=True))


@pytest.fixture(scope="module")
def shop(starts_service, service, tmp_path_factory):
    """An export with orders on two days and a visitor of two devices, and its funnel."""
    website_id = new_website(service.client)
    for number, (day, visitor, amount) in enumerate(
        [(0, "phone", 19.9), (0, "laptop", 5), (1, "guest", 100)]
    ):
        at_ms = FIRST_MS + day * DAY_MS + number
        own = {"websiteId": website_id, "visitorId": visitor}
        view = {**own, "type": "pageview", "url": "https://shop.example/?utm_source=advert"}
        order = {"transactionId": f"o-{number}", "amount": amount, "currency": "EUR"}
        bought = {**own, **order, "event": "purchase", "timestamp": at_ms + 60_000}
        for path, body in (("track", {**view, "timestamp": at_ms}), ("v1/transactions", bought)):
            answer = service.client.post(f"/api/{path}", json=body)
            assert answer.status_code == 202, answer.text
    for visitor in ("phone", "laptop"):
        body = {"websiteId": website_id, "visitorId": visitor, "userId": "grace"}
        assert service.client.post("/api/identify", json=body).status_code == 200
    steps = [{"type": "Pageview", "value": "/"}, {"type": "Transaction", "value": "purchase"}]
    funnel = {"name": "Shop", "breakdownProperties": ["plan"], "steps": steps}
    created = create(service.client, "/api/funnels", funnel)
    folder = tmp_path_factory.mktemp("shop") / "export"
    exported(service, folder)
    return folder, created["id"]


@pytest.mark.slow("starts DuckDB in processes of its own")
def test_the_documented_statements_of_duckdb_read_an_export(shop):
    folder, funnel_id = shop
    block = documented("-- Orders").replace("fun_01m7y0fr9gctca442s2h09dctx", funnel_id)
    orders, events, steps = (
        read_by_duckdb(statement, folder) for statement in block.split(";") if statement.strip()
    )
    assert orders == [
        {"day": FIRST_DAY, "orders": "2", "revenue": "24.90"},
        {"day": "2026-09-22", "orders": "1", "revenue": "100.00"},
    ]
    canonical = {row["visitor_id"]: row["canonical_id"] for row in events}
    assert {**canonical, "laptop": "phone", "phone": "phone", "guest": "guest"} == canonical
    assert [(row["outcome"], row["units"], row["first_step"]) for row in steps] == [
        ("completed", "2", "00:01:00")
    ]


@pytest.mark.full("runs the statements of a document in another engine")
@pytest.mark.slow("starts DuckDB in processes of its own")
def test_the_documented_model_of_dbt_reads_an_export(shop):
    """DuckDB runs the model, with the locations of its sources as `dbt-duckdb` fills them in."""
    folder, _ = shop
    sources = {
        source["name"]: source for source in yaml.safe_load(documented("sources:"))["sources"]
    }

    def location(name, table):
        assert table in [each["name"] for each in sources[name]["tables"]]
        template = sources[name]["config"]["meta"]["external_location"]
        return f"'{template.format(name=table)}'"

    for name, source in sources.items():
        for table in source["tables"]:
            if table["name"] != "clicks":  # the export has no clicks, and so no file
                assert read_by_duckdb(f"FROM {location(name, table['name'])}", folder)
    model = Template(documented("-- models/")).render(source=location)
    rows = read_by_duckdb(model, folder)
    assert {"utm_source": "advert", "visitors": "2"} in rows


def test_secrets_are_never_exported(service, folder):
    website_id = website_with_events(service, [0])
    secret = service.client.post(f"/api/settings/websites/{website_id}/identity-secrets")
    exported(service, folder, "--format", "ndjson")
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"owner@example.com" in content
    assert service.key.encode() not in content
    assert b"argon2" not in content
    assert secret.json()["secret"].encode() not in content
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.full("kills the command")
def test_a_killed_export_continues_and_never_looks_complete(service, folder):
    website_id = website_with_events(service, range(60))
    command = start("export", folder, **keys_of(service))
    events = folder / "events" / website_id
    eventually(lambda: len(list(events.glob("*.parquet"))) >= 5)
    command.kill()
    command.wait()
    finished = {path.name: path.stat().st_ino for path in events.glob("*.parquet")}
    assert 5 <= len(finished) < 60
    assert not (folder / "manifest.json").exists()
    assert all(parquet.read_table(events / name).num_rows == 3 for name in finished)
    # What a power failure may leave: half a file, and half a line about it.
    (events / "2026-12-31.parquet.part").write_bytes(b"PAR1")
    with (folder / "unfinished.ndjson").open("ab") as notes:
        notes.write(b'{"path": "ev')
    exported(service, folder)
    after = {path.name: path.stat().st_ino for path in events.iterdir()}
    assert len(after) == 60
    assert finished.items() <= after.items()
    assert not (folder / "unfinished.ndjson").exists()


def test_files_that_no_list_names_are_removed_but_never_those_of_others(service, tmp_path):
    """A kill between a file and its line leaves a file whose events can be deleted afterwards."""
    website_id = new_website(service.client)
    folder, day = tmp_path / "export", f"events/{website_id}/2026-12-31.parquet"
    exported(service, folder)
    own = [day, f"outcomes/fun_{'0' * 26}.parquet", "goals.ndjson.part", f"{day}.part"]
    others = ["notes.txt", "events/readme.md", f"events/{website_id}/mine.parquet", "big.iso.part"]
    for path in own + others:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(b"PAR1")
    manifest = manifest_of(folder)
    manifest["files"].append({**manifest["files"][0], "path": "notes.txt"})
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    exported(service, folder)
    assert [path for path in own + others if (folder / path).exists()] == others


Reply = tuple[int, str, bytes]
"""Status, content type and content of a response."""
LOG_IN_PAGE: Reply = (200, "text/html", b"<h1>Log in</h1>\n")
TIMEOUT: Reply = (503, "application/problem+json", b'{"code": "query_timeout", "detail": "Busy."}')


class ReplyingProxy(Answering, BaseHTTPRequestHandler):
    """Forwards requests, but answers those whose path contains a text with the next reply."""

    service: httpx.Client
    text: str
    replies: Iterator[Reply]

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {
            name: self.headers[name]
            for name in ("Authorization", "Content-Type")
            if name in self.headers
        }
        answer = self.service.request(self.command, self.path, content=body, headers=headers)
        reply = next(self.replies, None) if self.text in self.path else None
        status, kind, content = reply or (
            answer.status_code,
            answer.headers["Content-Type"],
            answer.content,
        )
        self.answer(status, kind, content)

    def do_GET(self):
        self.forward()

    def do_POST(self):
        self.forward()


@pytest.fixture
def behind_proxy(starts_service, service):
    """Exports through a proxy that replies to requests whose path contains a text."""

    def export(folder, text, replies):
        attributes = {"service": service.client, "text": text, "replies": iter(replies)}
        handler = type("Handler", (ReplyingProxy,), attributes)
        with http_server(handler) as url:
            return run(service, folder, "--format", "ndjson", PENSTOCK_URL=url)

    return export


def test_outcomes_that_a_busy_engine_refuses_are_read_again(service, tmp_path, behind_proxy):
    body = {"name": "Busy", "steps": event_steps("step", "other")}
    funnel = create(service.client, "/api/funnels", body)
    files = [tmp_path / name / f"outcomes/{funnel['id']}.ndjson" for name in ("once", "twice")]
    once = behind_proxy(tmp_path / "once", f"{funnel['id']}/unit-table", [TIMEOUT])
    twice = behind_proxy(tmp_path / "twice", f"{funnel['id']}/unit-table", [TIMEOUT] * 2)
    assert service.client.delete(f"/api/funnels/{funnel['id']}").status_code == 204
    assert (once.returncode, twice.returncode) == (0, 0), once.stderr + twice.stderr
    assert [file.exists() for file in files] == [True, False]
    assert "no outcomes of the funnel Busy: Busy." in twice.stderr


def test_a_page_of_a_proxy_is_not_stored_as_events(service, folder, behind_proxy):
    website_with_events(service, [0])
    result = behind_proxy(folder, "/api/exports/day?", repeat(LOG_IN_PAGE))
    message = "penstock: 127.0.0.1 answered GET /api/exports/day with text/html. This is not"
    assert (result.returncode, message in result.stderr) == (1, True), result.stderr
    assert not list(folder.glob("events/*/*"))
    assert not (folder / "manifest.json").exists()


def test_a_folder_that_moves_stays_the_same_destination(service, tmp_path):
    folder, moved = tmp_path / "export", tmp_path / "moved"
    exported(service, folder)
    folder.rename(moved)
    folder_id = manifest_of(moved)["id"]
    exported(service, moved)
    listed = service.client.get("/api/exports", params={"pageSize": 100}).json()["data"]
    own = [each for each in listed if each["destinationId"] == folder_id]
    assert [each["destination"].partition(":")[2] for each in own] == [str(moved)]
    assert manifest_of(moved)["id"] == folder_id


def test_a_folder_of_something_else_is_refused(service, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"")
    error = error_of(run(service, tmp_path))
    assert (
        error.splitlines()[-1]
        == f"penstock: {tmp_path} is not empty and has no export; choose a new folder"
    )


def test_a_folder_whose_manifest_names_a_file_outside_is_refused(service, tmp_path):
    folder, outside = tmp_path / "out", tmp_path / "outside"
    outside.write_text("stays", "utf-8")
    exported(service, folder)
    manifest = manifest_of(folder)
    manifest["files"].append({**manifest["files"][0], "path": "../outside"})
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    assert "names a file outside it: ../outside" in error_of(run(service, folder))
    assert outside.read_text("utf-8") == "stays"


def test_a_workspace_without_websites_never_replaces_the_export_of_another(service, folder):
    exported(service, folder)
    other = open_export(Folder(folder), RowFormat.PARQUET, [])
    with pytest.raises(ExportFailed, match="has the export of another workspace"), other:
        pass
    assert (folder / "manifest.json").exists()


def test_another_format_in_the_same_folder_is_refused(service, folder):
    exported(service, folder)
    error = error_of(run(service, folder, "--format", "ndjson"))
    assert "has an export as parquet; add --format parquet" in error
    assert (folder / "manifest.json").exists()


def test_a_key_that_may_only_read_is_refused(service, tmp_path):
    # Only a session may create keys.
    form = {"email": "owner@example.com", "password": "correct horse battery"}
    assert service.client.post("/api/auth/login", json=form).status_code in (200, 201)
    key = {"name": "reader", "scopes": ["read"]}
    created = service.client.post("/api/settings/api-keys", json=key, headers={"Authorization": ""})
    service.client.cookies.clear()
    error = error_of(run(service, tmp_path / "export", PENSTOCK_API_KEY=created.json()["key"]))
    assert 'lacks the scope "manage"' in error
