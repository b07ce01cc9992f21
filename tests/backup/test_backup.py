"""A backup of a running service is consistent over both stores, and a restore brings it back."""

import fcntl
import json
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import psycopg
import pytest
from litestar.testing import TestClient
from sqlalchemy import insert
from typer.testing import CliRunner

from penstock.app import Services
from penstock.backup import fence, service
from penstock.backup.staging import remove_left_over_links
from penstock.backup.verification import verify_stores
from penstock.base.clock import system_clock
from penstock.cli.main import app
from penstock.edge.layer import EdgeLayer
from penstock.metadb.database import Database
from penstock.metadb.tables import event_counts, visitors
from penstock.settings import Settings
from penstock.stores import Stores
from tests.faults.test_kills import ALL
from tests.processes import ForkedProcess, new_python
from tests.records import create, new_website
from tests.serving import Served, Start, environment, error_of, output_of, penstock, query_warehouse
from tests.stores.build_data_0_1_0 import create_funnels, merge_visitors, send_events
from tests.stores.reports import comparable, report_paths
from tests.tenant import Tenant
from tests.waiting import PATIENCE_S, eventually

Command = Callable[..., str]
"""Runs a command, which must end with the exit code `code`. Returns its output."""


def ran(*arguments: str, start: Start = ForkedProcess, **settings: str) -> str:
    return output_of(penstock(*arguments, start=start, **settings))


def refused(*arguments: str, **settings: str) -> str:
    error = error_of(penstock(*arguments, **settings))
    assert "Traceback" not in error
    return " ".join(error.split())


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command in this process; for those that open no event store."""
    monkeypatch.setattr("penstock.cli.configuration.configure_logs", lambda _: None)
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        monkeypatch.delenv(name)

    def run(*arguments: str, code: int = 0) -> str:
        mask = os.umask(0o077)  # commands set it, and this process runs more tests
        try:
            result = CliRunner().invoke(app, arguments)
        finally:
            os.umask(mask)
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    return run


def live_event(website_id: str, name: str) -> dict[str, str]:
    return {"websiteId": website_id, "userId": "poster", "event": name, "eventId": name}


Acknowledged = Mapping[str, str]
"""Names of events, the oldest first, with the IDs that Penstock gave them."""


@contextmanager
def posting(client: httpx.Client, website_id: str) -> Iterator[Callable[[], Acknowledged]]:
    """Posts batches of new events; yields what reads those that are acknowledged by then.

    A post that fails is raised at the end.
    """
    stop, acknowledged = Event(), list[tuple[str, str]]()

    def post() -> None:
        batch = 0
        while not stop.is_set():
            names = [f"live-{batch}-{number}" for number in range(20)]
            events = [live_event(website_id, name) for name in names]
            answer = client.post("/api/v1/events/batch", json={"events": events})
            assert answer.status_code == 202, answer.text
            results = answer.json()["results"]
            acknowledged.extend(
                (name, result["eventId"]) for name, result in zip(names, results, strict=True)
            )
            batch += 1

    with ThreadPoolExecutor(1) as pool:
        posted = pool.submit(post)
        try:
            eventually(lambda: acknowledged or posted.done())
            # A dictionary that grows meanwhile could not be read.
            yield lambda: dict(acknowledged[-1000:])
        finally:
            stop.set()
        posted.result(PATIENCE_S)


def answers(client: httpx.Client, paths: list[str]) -> dict[str, Any]:
    """What each path answers, but for the time of the newest event."""
    return {
        path: without_last_event(comparable(client.get(path).raise_for_status().json()))
        for path in paths
    }


def without_last_event(answer: Any) -> Any:
    if isinstance(answer, dict) and "lastKnownEventAt" in answer:
        answer = answer | {"lastKnownEventAt": None}
    if isinstance(answer, dict) and "coverage" in answer:
        answer = answer | {"coverage": answer["coverage"] | {"lastEventAt": None}}
    return answer


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts two services and runs seven commands")
@pytest.mark.parametrize(
    "reports", ["results", pytest.param("all", marks=pytest.mark.full("each kind of report"))]
)
def test_a_backup_taken_while_events_arrive_restores_the_same_reports(
    tmp_path: Path, quickly: Command, reports: str
) -> None:
    data, first, second = tmp_path / "data", tmp_path / "first", tmp_path / "second"
    restored = tmp_path / "restored"
    with Served(data) as service:
        key, website_id = service.first_account()
        client = service.client
        send_events(client, website_id)
        merge_visitors(client, website_id)
        paths = [
            path
            for path in report_paths(client, create_funnels(client), website_id)
            if "/api/visitors" not in path  # lists the poster, too
            if reports == "all" or path.endswith("/results") or "/funnels/" not in path
        ]
        before = answers(client, paths)
        assert (data / "penstock.sock").stat().st_mode & 0o777 == 0o600
        assert "is in use by another" in refused("verify", "--data", str(data))
        with posting(client, website_id) as acknowledged:
            copied = ran("backup", str(first), "--data", str(data), start=new_python)
            assert "Backup of" in copied
            acknowledged_before = acknowledged()
            output = ran("backup", str(second), "--base", str(first), "--data", str(data))
        assert "shared with the base" in output
        service.kill()
    quickly("verify", str(second))
    quickly("restore", str(second), "--data", str(restored))
    assert "PROBLEM" not in ran("verify", "--data", str(restored))
    with Served(restored) as service:
        service.client.headers["Authorization"] = f"Bearer {key}"
        assert answers(service.client, paths) == before
        events = [live_event(website_id, name) for name in acknowledged_before]
        repeated = service.client.post("/api/v1/events/batch", json={"events": events}).json()
        assert [(receipt["status"], receipt["eventId"]) for receipt in repeated["results"]] == [
            ("duplicate", event_id) for event_id in acknowledged_before.values()
        ]
    assert not (data / "snapshots").exists()
    assert not any((data / "warehouse" / "shadow").glob("penstock_*"))


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts two services")
def test_a_restore_brings_back_what_questions_use(tmp_path: Path) -> None:
    """Segments, internal traffic, cohorts, saved mappings, traits, folders and names of steps."""
    data, copy, restored = tmp_path / "data", tmp_path / "copy", tmp_path / "restored"
    pro = [{"property": "$trait.plan", "operator": "equals", "value": "pro"}]
    steps = [
        {"type": "Event", "value": "seen", "name": "Saw it"},
        {"type": "Event", "value": "bought"},
    ]
    with Served(data) as service:
        key, website_id = service.first_account()
        client = service.client
        person = {"websiteId": website_id, "visitorId": "ann", "userId": "u-ann"}
        sent = {**person, "traits": {"plan": "pro"}}
        client.post("/api/identify", json=sent).raise_for_status()
        client.post("/api/v1/events", json={**person, "event": "seen"}).raise_for_status()
        funnel = {"name": "Shop", "folder": "Sales", "conversionWindowSeconds": 3600}
        funnel_id = create(client, "/api/funnels", {**funnel, "steps": steps})["id"]
        segment = create(client, "/api/segments", {"name": "Pro", "filters": pro})["id"]
        internal = {"filters": [{**pro[0], "value": "internal"}]}
        client.put("/api/settings/internal-traffic", json=internal).raise_for_status()
        saved = {"name": "All", "kind": "list", "funnelId": funnel_id, "parameters": {}}
        cohort = create(client, "/api/cohorts", saved)["id"]
        columns = [
            {"column": "at", "use": "time", "unit": "seconds"},
            {"column": "who", "use": "user"},
            {"column": "what", "use": "event"},
        ]
        mapped = {"name": "Orders", "mapping": {"columns": columns}}
        create(client, "/api/import-mappings", mapped)
        create(client, "/api/exports", {"destination": "backups:/srv/acme"})
        service.await_shipped()
        paths = [
            "/api/exports",
            "/api/import-mappings",
            f"/api/funnels/{funnel_id}",
            f"/api/segments/{segment}",
            "/api/settings/internal-traffic",
            f"/api/cohorts/{cohort}/visitors",
        ]
        before = [client.get(path).json() for path in paths]
        assert [record["visitorId"] for record in before[-1]["data"]] == ["ann"]
        assert service.stop() == 0
    ran("backup", str(copy), "--data", str(data))
    ran("restore", str(copy), "--data", str(restored))
    assert "PROBLEM" not in ran("verify", "--data", str(restored))
    with Served(restored) as service:
        service.client.headers["Authorization"] = f"Bearer {key}"
        assert [service.client.get(path).json() for path in paths] == before
        results = f"/api/funnels/{funnel_id}/results"
        answer = service.client.get(results, params={"segment": segment}).json()
        assert answer["aggregate"]["entered"] == 1


@pytest.fixture(scope="module")
def stopped(starts_service: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a stopped service with some events."""
    data = tmp_path_factory.mktemp("stopped") / "data"
    with Served(data) as service:
        _, website_id = service.first_account()
        send_events(service.client, website_id)
        assert service.stop() == 0
    return data


@pytest.fixture(scope="module")
def backup(starts_service: None, stopped: Path) -> Path:
    folder = stopped.parent / "backup"
    ran("backup", str(folder), "--data", str(stopped))
    return folder


def test_parts_that_did_not_change_are_shared_with_the_base(stopped: Path, backup: Path) -> None:
    folder = stopped.parent / "incremental"
    ran("backup", str(folder), "--base", str(backup), "--data", str(stopped))
    in_base = list((backup / "data" / "warehouse" / "store").rglob("checksums.txt"))
    parts = [folder / part.relative_to(backup) for part in in_base]
    assert any(part.exists() for part in parts)  # some may have been merged since
    for part, base in zip(parts, in_base, strict=True):
        assert not part.exists() or part.samefile(base)
    database = folder / "data" / "penstock.sqlite3"
    assert database.stat().st_nlink == 1


def test_a_folder_that_is_not_empty_is_never_written(
    stopped: Path, backup: Path, quickly: Command
) -> None:
    data = ("--data", str(stopped))
    for command, reason in (("backup", "each backup needs"), ("restore", "restore into a new")):
        assert f"is not empty; {reason}" in quickly(command, str(backup), *data, code=1)


def test_a_folder_without_a_complete_backup_is_refused(
    stopped: Path, tmp_path: Path, quickly: Command
) -> None:
    data, new = ("--data", str(stopped)), ("--data", str(tmp_path / "new"))
    for arguments in (
        ("restore", str(tmp_path), *new),
        ("verify", str(tmp_path), *new),
        ("backup", str(tmp_path / "b"), "--base", str(tmp_path), *data),
    ):
        assert "is not a complete backup" in quickly(*arguments, code=1)
    nothing = ("backup", str(tmp_path / "b"), "--data", str(tmp_path / "nothing"))
    assert "contains no Penstock data" in quickly(*nothing, code=1)


def copy_of(backup: Path, target: Path) -> Path:
    subprocess.run(["cp", "-a", backup, target], check=True)
    return target


def test_a_backup_of_a_newer_penstock_is_refused(
    backup: Path, tmp_path: Path, quickly: Command
) -> None:
    copy = copy_of(backup, tmp_path / "newer")
    manifest = json.loads((copy / "manifest.json").read_text())
    schemas = manifest["schemas"]
    known = f"knows schemas {schemas['database']} (metadata) and {schemas['event_store']} (events)"
    for content, reason in (
        (manifest | {"schemas": {"database": "9999", "event_store": 1}}, "has schemas 9999"),
        (manifest | {"schemas": {"database": "0001", "event_store": 99}}, "and 99 (events)"),
        (manifest | {"schemas": {"database": "9999", "event_store": 1}}, known),
        ({"format": 2, "other": 1}, "made by a newer Penstock"),
        ({"format": "x"}, "is damaged"),
    ):
        (copy / "manifest.json").write_text(json.dumps(content))
        assert reason in quickly("restore", str(copy), "--data", str(tmp_path / "data"), code=1)
    assert not (tmp_path / "data").exists()


def test_damage_is_detected_and_never_restored(
    backup: Path, tmp_path: Path, quickly: Command
) -> None:
    copy, data = copy_of(backup, tmp_path / "damaged"), ("--data", str(tmp_path / "data"))
    largest = max((copy / "data").rglob("*.bin"), key=lambda path: path.stat().st_size)
    content = largest.read_bytes()
    largest.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    assert "PROBLEM" in quickly("verify", str(copy), code=1)
    assert f"{largest.name} is damaged" in quickly("restore", str(copy), *data, code=1)
    assert "only partly restored" in refused("serve", "--port", "0", *data)
    output = quickly("restore", str(backup), *data)
    assert re.search(r"Restored \d+ events as of \d+ \w{3} \d{4}, \d\d:\d\d UTC into", output)


def test_differences_between_the_stores_are_found(
    backup: Path, tmp_path: Path, quickly: Command
) -> None:
    data = ("--data", str(tmp_path / "data"))
    quickly("restore", str(backup), *data)
    delete = "ALTER TABLE events DELETE WHERE name = 'order_placed' SETTINGS mutations_sync = 1"
    query_warehouse(tmp_path / "data", delete)
    verified = penstock("verify", *data)
    assert verified.returncode == 1
    problems = [line for line in verified.stdout.splitlines() if line.startswith("PROBLEM")]
    assert [line.split(":")[0] for line in problems] == [
        "PROBLEM rows of events",
        "PROBLEM accepted events",
        "PROBLEM catalogue",
    ]
    assert "40 accepted events are missing" in problems[1]


def test_counts_of_one_are_singular(backup: Path, tmp_path: Path, quickly: Command) -> None:
    copy = copy_of(backup, tmp_path / "one")
    manifest = json.loads((copy / "manifest.json").read_text())
    ones = {"rows": {"websites": 1}, "stored_rows": {"events": 1}}
    [file] = [file for file in manifest["files"] if file["path"] == "secret.key"]
    text = json.dumps(manifest | ones | {"files": [file]})
    (copy / "manifest.json").write_text(text)
    assert quickly("verify", str(copy)) == (
        "ok files: 1 file, 45 bytes ok event store: 1 row of events ok metadata database: 1 row"
    )


def open_app(client: httpx.Client, website_id: str) -> None:
    event = {"websiteId": website_id, "event": "opened", "eventId": "1", "visitorId": "v"}
    assert client.post("/api/v1/events", json=event).status_code == 202


def texts_about(services: Services) -> dict[str, str]:
    """The findings of a verification of both stores, by the name of their check."""
    findings = verify_stores(Stores(services.database, services.warehouse))
    return {finding.check: finding.text for finding in findings}


@pytest.mark.usefixtures("warehouse")
def test_texts_about_the_stores_have_the_right_plurals(
    workspace: Tenant, services: Services
) -> None:
    client, website_id = workspace.client, workspace.website_id
    open_app(client, website_id)
    for visitor_id in ("v", "w"):
        identity = {"websiteId": website_id, "visitorId": visitor_id, "userId": "ada"}
        assert client.post("/api/identify", json=identity).status_code == 200
    eventually(lambda: services.shipper.outbox_state().bundles == 0)
    with services.database.write() as db:
        row = {"website_id": "web_x", "received": 1, "stored": 0, "duplicates": 0, "refused": 0}
        db.execute(
            insert(event_counts).values(row | {"quarantined": 0, "waiting": 0, "dropped": 0})
        )
    texts = texts_about(services)
    assert texts["accepted events"] == "1 ID, 0 of them of deleted periods"
    assert texts["merges"] == "1 merged visitor"
    assert texts["counts of events"] == "website web_x received 1 event; accounted for: 0"


def test_a_database_url_that_is_none_is_one_line(
    stopped: Path, tmp_path: Path, quickly: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", "nonsense")
    output = quickly("backup", str(tmp_path / "backup"), "--data", str(stopped), code=2)
    assert "PENSTOCK_DATABASE_URL must be a URL such as postgresql:" in output


def test_no_snapshot_is_open_while_files_are_copied(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    sqlite_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An open one keeps SQLite from reusing its log, which then grows with all traffic."""
    copy_tree, checkpoints = service.copy_tree, list[tuple[int, int, int]]()

    def write() -> None:
        with closing(Database(sqlite_url)) as database, database.write() as db:
            row = {"scope_id": "s", "visitor_id": "v", "canonical_id": "v", "created_at": 1}
            db.execute(insert(visitors).values(row))

    @contextmanager
    def local_fence(_: Path, __: str) -> Iterator[tuple[None, Callable[[], None]]]:
        yield None, write  # while the event store is frozen

    def copy_later(*arguments: Any) -> Any:
        with closing(sqlite3.connect(tmp_path / "penstock.sqlite3", timeout=0)) as db:
            checkpoints.append(db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
        return copy_tree(*arguments)

    monkeypatch.setattr(service, "local_fence", local_fence)
    monkeypatch.setattr(service, "copy_tree", copy_later)
    folder = tmp_path_factory.mktemp("backups") / "backup"
    result = service.back_up(Settings(data=tmp_path), folder, None, system_clock, is_running=False)
    assert checkpoints == [(0, 0, 0)], "busy, pages in the log, pages copied"
    assert result.manifest.rows["visitors"] == 0, "the snapshot was taken before"
    with closing(sqlite3.connect(folder / "data" / "penstock.sqlite3")) as db:
        assert db.execute("SELECT count(*) FROM visitors").fetchone() == (0,)


def left_over_links(data: Path) -> list[Path]:
    """Links of a killed backup, and of a service that was killed while it froze the engine."""
    links = [
        data / "snapshots" / "0a" / "warehouse" / "data.bin",
        data / "warehouse" / "shadow" / "penstock_0a" / "store" / "data.bin",
    ]
    for link in links:
        link.parent.mkdir(parents=True)
        link.touch()
    return links


def test_hard_links_of_a_killed_backup_are_removed_at_the_start(
    edge: EdgeLayer, tmp_path: Path
) -> None:
    links = left_over_links(tmp_path)
    with TestClient(edge):
        eventually(lambda: not any(link.exists() for link in links))


@contextmanager
def running_backup(data: Path) -> Iterator[None]:
    """Holds what another process holds while it makes a backup."""
    with (data / "backup.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_hard_links_of_a_killed_backup_are_removed_while_the_service_runs(
    edge: EdgeLayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "_LEFT_OVER_PAUSE_S", 0.01)
    with TestClient(edge):
        with running_backup(tmp_path):
            links = left_over_links(tmp_path)
        eventually(lambda: not any(link.exists() for link in links))


def test_hard_links_of_a_running_backup_stay(tmp_path: Path) -> None:
    links = left_over_links(tmp_path)
    with running_backup(tmp_path):
        remove_left_over_links(tmp_path)
        assert all(link.exists() for link in links)
    remove_left_over_links(tmp_path)
    assert not any(link.exists() for link in links)


KILLED = """
import os, signal, sys
from penstock.backup import service
from penstock.cli.main import app

name, moment = sys.argv.pop(1).split()
passed = getattr(service, name)

def die(*arguments):
    if moment == "after":
        passed(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(service, name, die)
app()
"""
BACKUP_KILLS = (
    "write_durably after",  # the manifest is there, but the backup is not finished
    "_begin after",
    "_link_local_files after",
    "snapshot before",
    "copy_tree before",
    "copy_tree after",
    "sync_folder before",
)
RESTORE_KILLS = ("copy_listed after", "_clear after", "copy_listed before", "sync_folder after")


def killed(boundary: str, *arguments: str) -> None:
    """Run a command that dies at a boundary."""
    run = subprocess.run(
        [sys.executable, "-c", KILLED, boundary, *arguments],
        env=environment(),
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr


@pytest.mark.slow("kills a backup and makes another one")
@pytest.mark.parametrize("boundary", BACKUP_KILLS if ALL else BACKUP_KILLS[:1])
@pytest.mark.full("kills beyond one of each store")
def test_a_killed_backup_is_never_taken_for_a_backup(
    stopped: Path, backup: Path, tmp_path: Path, quickly: Command, boundary: str
) -> None:
    folder, restored = str(tmp_path / "backup"), ("--data", str(tmp_path / "data"))
    arguments = ("backup", folder, "--base", str(backup), "--data", str(stopped))
    killed(boundary, *arguments)
    if boundary != "sync_folder before":  # everything is there by then
        for command in ("verify", "restore"):
            assert "is not a complete backup" in quickly(command, folder, *restored, code=1)
        based = ("backup", str(tmp_path / "b"), "--base", folder, "--data", str(stopped))
        assert "is not a complete backup" in quickly(*based, code=1)
        ran(*arguments)
    assert not any((stopped / "snapshots").glob("*")) or boundary == "sync_folder before"
    quickly("verify", folder)
    quickly("restore", folder, *restored)
    assert (tmp_path / "data" / "penstock.sqlite3").stat().st_size
    # The engine may merge parts while the killed backup runs: only those of the base are shared.
    store = Path("data", "warehouse", "store")
    unchanged = [
        (part, tmp_path / "backup" / part.relative_to(backup))
        for part in (backup / store).rglob("checksums.txt")
        if (tmp_path / "backup" / part.relative_to(backup)).exists()
    ]
    assert unchanged
    assert all(part.samefile(again) for part, again in unchanged), "shared with the base"


@pytest.mark.parametrize("boundary", RESTORE_KILLS if ALL else RESTORE_KILLS[:1])
@pytest.mark.full("kills beyond one of each store")
def test_a_killed_restore_is_never_served_and_can_be_repeated(
    backup: Path, tmp_path: Path, quickly: Command, boundary: str
) -> None:
    data = ("--data", str(tmp_path / "data"))
    killed(boundary, "restore", str(backup), *data)
    if boundary != "_clear after":  # nothing was written yet
        assert "only partly restored" in refused("serve", "--port", "0", *data)
    assert "Restored" in quickly("restore", str(backup), *data)
    if ALL:
        assert penstock("verify", *data).returncode == 0


@pytest.mark.usefixtures("starts_service")
@pytest.mark.skipif(not ALL, reason="make faults runs it")
@pytest.mark.slow("kills two backups of a running service")
def test_a_killed_backup_does_not_disturb_the_service(tmp_path: Path, quickly: Command) -> None:
    data, folder = tmp_path / "data", tmp_path / "backup"
    arguments = ["backup", str(folder), "--data", str(data)]
    with Served(data) as service:
        _, website_id = service.first_account()
        send_events(service.client, website_id)
        for boundary in ("snapshot before", "copy_tree before"):
            killed(boundary, *arguments)
            assert "is not a complete backup" in quickly("verify", str(folder), code=1)
            answer = service.client.get("/health/ready").json()
            assert answer["status"] == "ready"
        ran(*arguments)
        assert service.stop() == 0
    quickly("verify", str(folder))
    assert not (data / "snapshots").exists()


def failing_workers(service: Served) -> list[str]:
    workers = service.client.get("/health/ready").json()["workers"]
    return [worker["name"] for worker in workers if worker["failingSince"]]


@pytest.mark.usefixtures("starts_service")
@pytest.mark.skipif(sys.platform != "linux", reason="limits another process, as only Linux can")
@pytest.mark.full("faults of a service")
def test_a_service_out_of_descriptors_goes_on_and_takes_the_next_backup(tmp_path: Path) -> None:
    with Served(tmp_path / "data") as service:
        _, website_id = service.first_account()
        pid = service.process.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
        lowest_free = min(set(range(max(used) + 2)) - used)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        with socket.socket(socket.AF_UNIX) as command:
            command.connect(str(service.data / "penstock.sock"))
            eventually(lambda: "worker_failed" in service.output())
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        event = live_event(website_id, "signed_up")
        assert service.client.post("/api/v1/events", json=event).status_code == 202
        assert "Backup of" in ran("backup", str(tmp_path / "copy"), "--data", str(service.data))
        eventually(lambda: failing_workers(service) == [])  # whichever lacked one tries again
        assert service.stop() == 0


@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("runs six commands over PostgreSQL")
@pytest.mark.full("repeats the backup on PostgreSQL")
def test_postgresql_is_dumped_at_the_time_of_the_fence(
    tmp_path: Path, postgres_server: Any
) -> None:
    data, folder, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    source = {"PENSTOCK_DATABASE_URL": postgres_server.fresh()}
    target = {"PENSTOCK_DATABASE_URL": postgres_server.fresh()}
    with Served(data, **source) as service:
        _, website_id = service.first_account()
        send_events(service.client, website_id)
        without = refused("backup", str(folder), "--data", str(data), **source, PATH="/nowhere")
        assert "postgresql-client" in without
        other = refused("backup", str(folder), "--data", str(data), **target)
        assert "not the metadata database of the data folder" in other
        ran("backup", str(folder), "--data", str(data), **source)
        service.kill()
    to_folder = ("restore", str(folder), "--data", str(restored))
    assert "set PENSTOCK_DATABASE_URL" in refused(*to_folder)
    assert "is not empty; create a new one" in refused(*to_folder, **source)
    ran(*to_folder, start=new_python, **target)
    assert "PROBLEM" not in ran("verify", "--data", str(restored), **target)
    with psycopg.connect(target["PENSTOCK_DATABASE_URL"]) as connection:
        assert connection.execute("SELECT count(*) FROM event_keys").fetchone() == (240,)


@pytest.mark.usefixtures("warehouse")
def test_a_running_deletion_explains_what_it_has_removed_so_far(
    workspace: Tenant, services: Services
) -> None:
    """And nothing else: another website with the same difference is reported."""
    client = workspace.client
    other = new_website(client, "Other")
    for website_id in (workspace.website_id, other):
        open_app(client, website_id)
    eventually(lambda: services.shipper.outbox_state().bundles == 0)

    def remove_events(website_id: str) -> None:
        services.warehouse.command(
            "ALTER TABLE events DELETE WHERE website_id = {website:String} "
            "SETTINGS mutations_sync = 1",
            {"website": website_id},
        )

    services.deletions.worker.stop()  # it stays where it is
    request = {"websiteId": workspace.website_id, "visitorId": "v"}
    assert client.post("/api/deletions", json=request).status_code == 201
    remove_events(workspace.website_id)
    assert "1 website not compared: a deletion runs" in texts_about(services)["catalogue"]
    assert "missing" not in texts_about(services)["accepted events"]
    remove_events(other)
    assert texts_about(services)["catalogue"] == "differs by 1 event"
    assert "1 accepted event is missing" in texts_about(services)["accepted events"]
