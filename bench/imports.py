"""Measures the processor time of an import per line, and of the engine's insert of its rows alone.

Processor time is user and system time of the whole service, from the upload until all rows are in
the event store and the service is idle. So it includes the merges that follow. For comparison, the
engine inserts the same rows, one JSON object per line, in a separate process.
"""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from bench.intake import OLD, OURS, SINGLE, import_line, require_wrk, send
from bench.model import Bench, Cell, Column, Table
from bench.service import ROOT, Account, Service, penstock, sign_up
from bench.timing import cpu_s, in_new_process, peak_mb, wait_until_idle
from penstock.events.rows import EVENT_COLUMNS
from penstock.warehouse import migrations
from penstock.warehouse.client import Warehouse

_LINES, _USERS, _PIECE_BYTES = 1_000_000, 5_000, 32 * 1024 * 1024
_ENDS = ("done", "failed", "cancelled")
_TARGET_US = 15
_TARGET_SHARE = 0.7
_POST_S = 15
"""Seconds of posts alone, and beside an import."""


def run(bench: Bench) -> list[Table]:
    """Import a file of each format into each service; the services take turns."""
    require_wrk()
    lines, rows = bench.events(_LINES), list[list[Cell]]()
    sources = {OURS: ROOT} | ({OLD: bench.base} if bench.base else {})
    for format_name, line in FORMATS.items():
        path = bench.folder / f"{format_name}.import"
        with path.open("w") as file:
            file.writelines(line(number) + "\n" for number in range(lines))
        engine_us = None
        for name, source in sources.items():
            bench.progress(f"{lines:,} lines of {format_name}, {name}")
            data = bench.folder / f"imports-{format_name}-{name.replace(' ', '-')}"
            with penstock(data, source) as service:
                account = sign_up(service.url)
                wait_until_idle(service.pid)
                import_us = _import_cpu_s(service, account, path, format_name, lines) / lines * 1e6
                memory_mb = peak_mb(service.pid)
            if engine_us is None:
                engine_us = in_new_process(_engine_cpu_s, data, bench.folder) / lines * 1e6
            beyond_us = import_us - engine_us
            rows.append([format_name, name, import_us, engine_us, beyond_us, memory_mb])
        path.unlink()
    columns = (
        Column("format"),
        Column("server"),
        Column("import, µs per line", 1),
        Column("engine's own insert, µs", 1),
        Column("beyond it, µs", 1),
        Column("peak memory, MB", 0),
    )
    notes = (
        f"Processor time of the whole service for a file of {lines:,} lines, each an event with "
        f"seven properties of one of {_USERS:,} users. The target is {_TARGET_US} µs beyond the "
        "engine's own insert of the same rows."
    )
    processor_time = Table("Processor time of imports", columns, rows, notes)
    return [processor_time, _posts_beside(bench, sources)]


def _posts_beside(bench: Bench, sources: dict[str, Path]) -> Table:
    """Measure the rate of single posts alone, and while a file is imported."""
    lines, seconds = bench.events(_LINES), 2 if bench.small else _POST_S
    path, rows = bench.folder / "beside.import", list[list[Cell]]()
    with path.open("w") as file:
        file.writelines(FORMATS["ndjson"](number) + "\n" for number in range(lines))
    for name, source in sources.items():
        bench.progress(f"posts beside an import of {lines:,} lines, {name}")
        with penstock(bench.folder / f"beside-{name.replace(' ', '-')}", source) as service:
            account = sign_up(service.url)
            wait_until_idle(service.pid)
            alone = send(service.url, account, SINGLE, "alone", seconds)
            wait_until_idle(service.pid)
            with _client(service, account) as client:
                import_id = _upload(client, account, path, "ndjson")["id"]
                beside = send(service.url, account, SINGLE, "beside", seconds)
                is_running = client.get(f"/api/imports/{import_id}").json()["state"] not in _ENDS
                client.post(f"/api/imports/{import_id}/cancel")
        if not is_running and not bench.small:
            bench.failures.append(f"the import ended before the posts beside it, {name}")
        share = beside.rate / alone.rate
        if share < _TARGET_SHARE and name == OURS and not bench.small:
            bench.failures.append(f"posts beside an import keep {share:.2f} of their rate")
        rows.append([name, alone.rate, beside.rate, share, beside.p99_ms])
    path.unlink()
    columns = (
        Column("server"),
        Column("alone, posts per s", 0),
        Column("beside an import, posts per s", 0),
        Column("of alone", 2),
        Column("p99 beside it, ms", 0),
    )
    notes = (
        f"Single events by {SINGLE.connections} connections for {seconds} s. The target is "
        f"{_TARGET_SHARE}."
    )
    return Table("Posts beside an import", columns, rows, notes)


def _import_cpu_s(
    service: Service, account: Account, path: Path, format_name: str, lines: int
) -> float:
    """Import a file. Returns the processor time until the service is idle again, in seconds."""
    before_s = cpu_s(service.pid)
    with _client(service, account) as client:
        job = _upload(client, account, path, format_name)
        while job["state"] not in _ENDS:
            time.sleep(1)
            job = client.get(f"/api/imports/{job['id']}").raise_for_status().json()
        if job["accepted"] != lines:
            raise RuntimeError(f"an import stored {job['accepted']} of {lines} lines: {job}")
        while client.get("/health/ready").json()["outbox"]["bundles"]:
            time.sleep(0.5)
    wait_until_idle(service.pid)
    return cpu_s(service.pid) - before_s


def _client(service: Service, account: Account) -> httpx.Client:
    headers = {
        "Authorization": f"Bearer {account.key}",
        "Content-Type": "application/x-ndjson",
    }
    return httpx.Client(base_url=service.url, headers=headers, timeout=600)


def _upload(client: httpx.Client, account: Account, path: Path, format_name: str) -> dict[str, Any]:
    """Upload a file. Returns its import."""
    query = {"websiteId": account.website_id, "format": format_name}
    with path.open("rb") as file:
        answer = client.post("/api/imports", params=query, content=file)
    job: dict[str, Any] = answer.raise_for_status().json()
    return job


def _engine_cpu_s(data: Path, folder: Path) -> float:
    """Insert the rows of a data folder into a new event store, as shipments are inserted.

    Returns the processor time in seconds.
    """
    stored, columns = Warehouse(data=data, url=None), ", ".join(EVENT_COLUMNS)
    rows = folder / "rows.jsonl"
    stored.command(
        f"SELECT {columns} FROM events INTO OUTFILE '{rows}' TRUNCATE FORMAT JSONEachRow "
        "SETTINGS output_format_json_quote_64bit_integers = 0, date_time_output_format = 'iso'"
    )
    stored.close()
    return in_new_process(_insert_cpu_s, rows, folder / "engine")


def _insert_cpu_s(rows: Path, data: Path) -> float:
    warehouse = Warehouse(data=data / str(time.monotonic_ns()), url=None)
    migrations.migrate(warehouse)
    before_s = time.process_time()
    for number, piece in enumerate(_pieces(rows)):
        warehouse.insert_json_rows("events", piece, EVENT_COLUMNS, f"piece-{number}")
    time.sleep(3)  # merges
    took_s = time.process_time() - before_s
    warehouse.close()
    rows.unlink()
    return took_s


def _pieces(rows: Path) -> Iterator[bytes]:
    with rows.open("rb") as file:
        while lines := file.readlines(_PIECE_BYTES):
            yield b"".join(lines)


# Lines of each format


def _properties(number: int) -> dict[str, object]:
    properties: dict[str, object] = json.loads(import_line(f"line-{number}", number))["properties"]
    return properties


def _time(number: int) -> datetime:
    return datetime.fromtimestamp(1_740_000_000 + number, UTC)


def _mixpanel(number: int) -> str:
    properties = _properties(number) | {
        "time": 1_740_000_000 + number,
        "distinct_id": f"user-{number % _USERS}",
        "$device_id": f"device-{number % _USERS}",
        "$user_id": f"user-{number % _USERS}",
        "$insert_id": f"insert-{number}",
        "mp_country_code": "DE",
    }
    return json.dumps({"event": "checkout_started", "properties": properties})


def _posthog(number: int) -> str:
    properties = _properties(number) | {"$is_identified": True, "$geoip_country_code": "DE"}
    return json.dumps(
        {
            "uuid": f"0190a000-0000-7000-8000-{number:012}",
            "event": "checkout_started",
            "distinct_id": f"user-{number % _USERS}",
            "timestamp": _time(number).isoformat(),
            "properties": properties,
        }
    )


def _segment(number: int) -> str:
    return json.dumps(
        {
            "type": "track",
            "event": "checkout_started",
            "messageId": f"message-{number}",
            "anonymousId": f"device-{number % _USERS}",
            "userId": f"user-{number % _USERS}",
            "timestamp": _time(number).isoformat().replace("+00:00", "Z"),
            "context": {"library": {"name": "analytics.js", "version": "2.1.0"}},
            "properties": _properties(number),
        }
    )


def _amplitude(number: int) -> str:
    return json.dumps(
        {
            "event_type": "checkout_started",
            "event_time": _time(number).strftime("%Y-%m-%d %H:%M:%S.%f"),
            "device_id": f"device-{number % _USERS}",
            "user_id": f"user-{number % _USERS}",
            "uuid": f"0190a000-0000-7000-8000-{number:012}",
            "session_id": -1,
            "country": "Germany",
            "event_properties": _properties(number),
        }
    )


FORMATS: dict[str, Callable[[int], str]] = {
    "ndjson": lambda number: import_line(f"line-{number}", number),
    "mixpanel": _mixpanel,
    "posthog": _posthog,
    "segment": _segment,
    "amplitude": _amplitude,
}
