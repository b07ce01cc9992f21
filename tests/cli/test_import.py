"""`penstock import` as a real process against a real service."""

import gzip
import io
import json
import socket
import sqlite3
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from urllib.parse import urlsplit

import httpx
import pytest

from penstock.events.imports.formats.table import READERS
from penstock.events.imports.worker import LARGE_BATCH_LINES
from tests.cli import commands
from tests.cli.commands import start
from tests.events.imports.exported import Mixpanel
from tests.records import create, ndjson, new_website
from tests.serving import Served, error_of, output_of, penstock
from tests.waiting import PATIENCE_S, eventually


def line(number, **more):
    at_ms = 1_588_327_200_000 + number * 1000
    return {"type": "event", "name": "step", "timestamp": at_ms, "visitorId": f"v{number}"} | more


def written(path, lines):
    path.write_text(
        "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines),
        "utf-8",
    )
    return path


def run(service, *arguments, **settings):
    return commands.run(service, "import", *arguments, **settings)


def website(service):
    return new_website(service.client, "Other")


def test_imports_a_file_and_repeats_without_duplicates(service, tmp_path):
    file, website_id = written(tmp_path / "past.ndjson", map(line, range(1200))), website(service)
    first = run(service, file, "--website", website_id)
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines() == [
        "1,200 events imported, 0 duplicates, 0 lines rejected.",
        "They occurred from 1 May 2020, 10:00 UTC to 1 May 2020, 10:19 UTC.",
    ]
    assert first.stderr.splitlines()[-1].startswith("Importing: ")
    output = output_of(run(service, file, "--website", website_id))
    assert output.splitlines()[0] == "0 events imported, 1,200 duplicates, 0 lines rejected."


def test_a_gzip_file_is_imported(service, tmp_path):
    file = tmp_path / "past.ndjson.gz"
    file.write_bytes(gzip.compress(json.dumps(line(1)).encode()))
    assert run(service, file, "--website", website(service)).stdout.startswith("1 event imported")


def test_empty_lines_are_mentioned(service, tmp_path):
    file = written(tmp_path / "past.ndjson", [line(1), "", "", line(2)])
    result = run(service, file, "--website", website(service))
    assert result.stdout.splitlines()[:2] == [
        "2 events imported, 0 duplicates, 0 lines rejected.",
        "2 empty lines skipped.",
    ]


def test_a_csv_file_is_imported_by_its_ending_and_its_rejected_rows_are_written(service, tmp_path):
    rows = ["timestamp;name;visitorId", '2024-05-01T10:00:00Z;"a\n\nb";v', "never;e;v", "x;e;v"]
    file = written(tmp_path / "Events.CSV", rows)
    result = run(service, file, "--website", website(service))
    assert result.returncode == 1
    assert result.stdout.startswith("1 event imported, 0 duplicates, 2 lines rejected.")
    rejected = (tmp_path / "Events.CSV.rejected.ndjson").read_text("utf-8").splitlines()
    assert [(line["line"], line["input"]["timestamp"]) for line in map(json.loads, rejected)] == [
        (5, "never"),
        (6, "x"),
    ]


def test_the_format_of_a_file_can_be_named_and_the_help_lists_all(service, tmp_path):
    file = written(tmp_path / "events.txt", ["timestamp,name,visitorId", "2024-05-01T10:00Z,e,v"])
    website_id = website(service)
    by_ending = run(service, file, "--website", website_id)
    assert (by_ending.returncode, by_ending.stdout) == (1, "")
    assert "the format csv, not ndjson. Add --from csv." in by_ending.stderr
    named = run(service, file, "--website", website_id, "--format", "csv")
    assert named.stdout.startswith("1 event imported"), named.stderr
    error = error_of(run(service, file, "--website", website_id, "--format", "xml"), 2)
    assert error.startswith("penstock: --from: Must be ndjson, csv")
    output = penstock("import", "--help", COLUMNS="200").stdout.replace("│", " ")
    for reader in READERS:
        assert f"{reader.description} ({', '.join(reader.endings)})." in " ".join(output.split())


def test_several_files_of_another_product_are_imported_one_after_the_other(service, tmp_path):
    story, website_id = Mixpanel().story().splitlines(keepends=True), website(service)
    first, second = tmp_path / "march.json", tmp_path / "april.json.gz"
    first.write_bytes(b"".join(story[:7]) + b'{"event": "timeless", "properties": {}}\n')
    second.write_bytes(gzip.compress(b"".join(story[5:])))
    result = run(service, first, second, "--from", "mixpanel", "--website", website_id)
    assert result.returncode == 1
    assert [line for line in result.stdout.splitlines() if "occurred" not in line] == [
        f"{first}:",
        "7 events imported, 0 duplicates, 1 line rejected.",
        f"Rejected lines and reasons: {first}.rejected.ndjson",
        f"{second}:",
        "5 events imported, 2 duplicates, 0 lines rejected.",
        "1 line named a visitor who already belongs to another user, so nothing was merged.",
    ]
    [rejected] = map(json.loads, (tmp_path / "march.json.rejected.ndjson").read_text().splitlines())
    assert rejected["line"] == 8
    assert rejected["input"] == {"event": "timeless", "properties": {}}
    assert rejected["errors"][0]["field"] == "properties.time"


def test_rejected_lines_go_to_a_file_with_their_reasons_and_the_exit_code_says_so(
    service, tmp_path
):
    lines = [line(1), "nonsense", line(2, timestamp="never"), line(3)]
    file, website_id = written(tmp_path / "past.ndjson", lines), website(service)
    result = run(service, file, "--website", website_id)
    assert result.returncode == 1
    assert "2 events imported, 0 duplicates, 2 lines rejected." in result.stdout
    rejected = tmp_path / "past.ndjson.rejected.ndjson"
    assert str(rejected) in result.stdout
    output = [json.loads(line) for line in rejected.read_text("utf-8").splitlines()]
    assert [(line["line"], line["input"], line["errors"][0]["code"]) for line in output] == [
        (2, "nonsense", "not_json"),
        (3, line(2, timestamp="never"), "not_a_time"),
    ]
    written(file, [line(1), line(3)])
    assert run(service, file, "--website", website_id).returncode == 0
    assert not rejected.exists()


def test_a_key_that_may_only_send_imports_a_file(service, tmp_path):
    website_id = website(service)
    form = {"name": "sender", "scopes": ["ingest"], "websiteId": website_id}
    login = {"email": "owner@example.com", "password": "correct horse battery"}
    with httpx.Client(base_url=service.url) as owner:
        assert owner.post("/api/auth/login", json=login).is_success
        sender = owner.post("/api/settings/api-keys", json=form).json()["key"]
    file = written(tmp_path / "past.ndjson", [line(1), "nonsense"])
    result = run(service, file, "--website", website_id, PENSTOCK_API_KEY=sender)
    assert result.returncode == 1, result.stderr
    assert result.stdout.startswith("1 event imported, 0 duplicates, 1 line rejected.")
    refused = run(service, file, "--website", service.website, PENSTOCK_API_KEY=sender)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert website_id in refused.stderr


def test_more_rejects_than_a_page_are_all_written(service, tmp_path):
    lines = ["x" if number % 3 else line(number) for number in range(400)]
    file = written(tmp_path / "past.ndjson", lines)
    assert run(service, file, "--website", website(service)).returncode == 1
    output = (tmp_path / "past.ndjson.rejected.ndjson").read_text("utf-8").splitlines()
    assert [json.loads(line)["line"] for line in output] == [
        number + 1 for number in range(400) if number % 3
    ]


def test_an_import_that_someone_cancels_says_so_and_fails(service, tmp_path):
    file, website_id = written(tmp_path / "past.ndjson", map(line, range(40_000))), website(service)

    def running():
        query = {"websiteId": website_id}
        imports = service.client.get("/api/imports", params=query).json()["data"]
        return next((job["id"] for job in imports if job["state"] == "running"), None)

    with ThreadPoolExecutor() as threads:
        command = threads.submit(run, service, file, "--website", website_id)
        eventually(running)
        assert service.client.post(f"/api/imports/{running()}/cancel").status_code == 200
        ended = command.result(60)
    assert ended.returncode == 1
    assert "the import was cancelled after line" in ended.stderr


@pytest.mark.parametrize(
    ("settings", "code", "reason"),
    [
        ({"PENSTOCK_API_KEY": ""}, 2, "set PENSTOCK_API_KEY"),
        ({"PENSTOCK_API_KEY": "wrong"}, 1, "The API key is not valid."),
        ({"PENSTOCK_URL": "http://127.0.0.1:1"}, 1, "no Penstock answers at http://127.0.0.1:1"),
        ({"PENSTOCK_URL": "127.0.0.1:8000"}, 2, "must start with http:// or https://"),
    ],
)
def test_an_error_is_one_line(service, tmp_path, settings, code, reason):
    file = written(tmp_path / "past.ndjson", [line(1)])
    ended = run(service, file, "--website", service.website, **settings)
    [output] = error_of(ended, code).splitlines()
    assert output.startswith("penstock: ")
    assert reason in output


def test_an_unknown_website_and_a_missing_file_are_errors(service, tmp_path):
    file = written(tmp_path / "past.ndjson", [line(1)])
    error = error_of(run(service, file, "--website", "web_x"))
    assert error == "penstock: There is no such website in this workspace.\n"
    assert run(service, tmp_path / "none.ndjson", "--website", service.website).returncode == 2


def test_a_pipe_is_refused(service):
    result = run(service, "/dev/stdin", "--website", service.website)
    assert (result.returncode, result.stdout) == (2, "")
    assert "is not a regular file" in result.stderr


def test_a_folder_is_refused_with_the_pattern_of_its_files(service, tmp_path):
    result = run(service, tmp_path, "--dry-run")
    assert (result.returncode, result.stdout) == (2, "")
    assert f"{tmp_path} is a folder; name its files: {tmp_path}/*" in result.stderr


def test_a_broken_upload_leaves_nothing_and_can_be_repeated(service, tmp_path):
    website_id, body = website(service), ndjson(map(line, range(2000)))
    address = urlsplit(service.url)
    with socket.create_connection((address.hostname, address.port)) as sender:
        head = (
            f"POST /api/imports?websiteId={website_id} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {service.key}\r\n"
            f"Content-Type: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        sender.sendall(head.encode() + body[: len(body) // 2])
        eventually(lambda: list(service.data.glob("imports/*.part")))
    eventually(lambda: not list(service.data.glob("imports/*")))
    assert service.client.get("/api/imports", params={"websiteId": website_id}).json()["total"] == 0
    (tmp_path / "past.ndjson").write_bytes(body)
    assert run(service, tmp_path / "past.ndjson", "--website", website_id).stdout.startswith(
        "2,000 events imported, 0 duplicates"
    )


def lines_read(data):
    """Of the only import of an installation."""
    with sqlite3.connect(data / "penstock.sqlite3") as db:
        [[number]] = db.execute("SELECT lines_read FROM imports")
    return number


def stored_keys(data):
    """The number of events that a stopped installation knows."""
    with sqlite3.connect(data / "penstock.sqlite3") as db:
        [[number]] = db.execute("SELECT count(*) FROM event_keys")
    return number


def interrupt_import(data, file, end, name="ndjson"):
    """Begin an import and stop or kill the service within it. Returns an API key and a website."""
    with Served(data) as service:
        key, website_id = service.first_account()
        headers = {"Content-Type": "application/x-ndjson"}
        path = f"/api/imports?websiteId={website_id}&format={name}"
        job = service.client.post(path, content=file.read_bytes(), headers=headers).json()["id"]
        eventually(lambda: service.client.get(f"/api/imports/{job}").json()["linesRead"] >= 3_000)
        getattr(service, end)()
    return key, website_id


def follow(service, file, website_id, key, log):
    """Run the command while the import is blocked, until it follows the import; then to its end.

    None when the import was quicker.
    """
    database = service.data / "penstock.sqlite3"
    with closing(sqlite3.connect(database, timeout=PATIENCE_S)) as db:
        db.isolation_level = None
        db.execute("BEGIN IMMEDIATE")
        if lines_read(service.data) == len(file.read_bytes().splitlines()):
            return None
        arguments = ("import", file, "--website", website_id)
        command = start(*arguments, log=log, PENSTOCK_URL=service.url, PENSTOCK_API_KEY=key)
        eventually(lambda: "Importing" in log.read_text() or command.poll() is not None)
        db.execute("ROLLBACK")
    return command.wait(PATIENCE_S)


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize(
    ("end", "max_repeated"),
    [
        pytest.param("stop", 0, marks=pytest.mark.full("a stop loses less than a kill")),
        ("kill", LARGE_BATCH_LINES),
    ],
)
@pytest.mark.slow("starts a service twice")
def test_an_import_resumes_after_a_restart_of_the_service(tmp_path, end, max_repeated):
    # Every line is in the file 15 times: equal lines must stay distinct across the restart.
    lines = [line(number) for number in range(2_000)] * 15
    file, log = written(tmp_path / "past.ndjson", lines), tmp_path / "command.log"
    for attempt in range(5):  # the import may be quicker than the test
        data = tmp_path / f"data-{attempt}"
        key, website_id = interrupt_import(data, file, end)
        with Served(data) as service:
            code = follow(service, file, website_id, key, log)
            service.client.headers["Authorization"] = f"Bearer {key}"
            jobs = service.client.get("/api/imports").json()["data"]
            assert service.stop() == 0
        if code is not None:
            break
    assert code == 0, log.read_text()
    assert "Uploading" not in log.read_text()  # the existing job continued
    [job] = jobs
    assert (job["state"], job["linesRead"], job["accepted"] + job["duplicates"]) == (
        "done",
        len(lines),
        len(lines),
    )
    assert job["duplicates"] <= max_repeated  # a kill repeats the one batch that was in flight
    assert stored_keys(data) == len(lines)


def amplitude_archive(number):
    """An archive of this many events, in two gzip files."""
    events = [
        json.dumps(
            {"event_type": "e", "device_id": f"d{n}", "event_time": f"2024-05-01 10:00:00.{n:06}"}
        )
        for n in range(number)
    ]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, part in (("1.gz", events[: number // 2]), ("2.gz", events[number // 2 :])):
            archive.writestr(name, gzip.compress("\n".join(part).encode(), 1))
    return content.getvalue()


@pytest.mark.full("a kill during an import, of an archive")
@pytest.mark.usefixtures("starts_service")
@pytest.mark.slow("starts a service twice")
def test_an_archive_of_another_product_resumes_after_a_kill(tmp_path):
    file, lines = tmp_path / "export.zip", 40_000
    file.write_bytes(amplitude_archive(lines))
    key, _ = interrupt_import(tmp_path / "data", file, "kill", "amplitude")
    with Served(tmp_path / "data") as service:
        service.client.headers["Authorization"] = f"Bearer {key}"

        def job():
            [job] = service.client.get("/api/imports").json()["data"]
            return job if job["state"] == "done" else None

        eventually(job)
        ended = job()
        assert service.stop() == 0
    assert (ended["linesRead"], ended["accepted"] + ended["duplicates"]) == (lines, lines)
    assert ended["duplicates"] <= LARGE_BATCH_LINES
    assert stored_keys(tmp_path / "data") == lines


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize(
    "moment",
    [pytest.param("Uploading", marks=pytest.mark.full("another moment of the kill")), "Importing"],
)
@pytest.mark.slow("starts a service and three commands")
def test_a_command_that_was_killed_and_runs_again_stores_nothing_twice(tmp_path, moment):
    lines = [line(number) for number in range(3_000)]
    file, log = written(tmp_path / "past.ndjson", lines), tmp_path / "command.log"
    with Served(tmp_path / "data") as service:
        key, website_id = service.first_account()
        settings = {"PENSTOCK_URL": service.url, "PENSTOCK_API_KEY": key}
        arguments = ("import", str(file), "--website", website_id)
        command = start(*arguments, log=log, **settings)
        eventually(lambda: moment in log.read_text())
        command.kill()
        command.wait(PATIENCE_S)
        again = output_of(penstock(*arguments, **settings))
        if moment == "Importing":  # The file was stored, so the import went on without the command.
            assert "An earlier run" in again or "0 events imported" in again
        last = penstock(*arguments, **settings)
        assert last.stdout.startswith("0 events imported, 3,000 duplicates, 0 lines rejected.")
        jobs = service.client.get("/api/imports").json()["data"]
        assert sum(job["accepted"] for job in jobs) == len(lines)
        assert service.stop() == 0
    assert stored_keys(tmp_path / "data") == len(lines)


def test_a_saved_mapping_is_used_by_its_name(service, tmp_path):
    file, website_id = tmp_path / "orders.csv", website(service)
    file.write_text("at,who,what\n1714557600,17,paid\n", "utf-8")
    columns = [
        {"column": "at", "use": "time", "unit": "seconds"},
        {"column": "who", "use": "user"},
        {"column": "what", "use": "event"},
    ]
    saved = {"name": "Orders of the shop", "mapping": {"columns": columns}}
    create(service.client, "/api/import-mappings", saved)
    output = output_of(run(service, file, "--map", "Orders of the shop", "--website", website_id))
    assert output.splitlines()[0] == "1 event imported, 0 duplicates, 0 lines rejected."
    error = error_of(run(service, file, "--map", "Others", "--website", website_id), 2)
    assert "no file and no saved mapping named Others" in error
