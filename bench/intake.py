"""Measures how many events per second are durably stored, sent in every form, compared with an
empty handler.

Each server is one process of Litestar on uvicorn with uvloop and httptools. The servers take turns
and get the same requests from `wrk`. An event is on disk before the response, in the metadata DB
with its dedupe key and visitor, while shipping to the event store continues. An import is timed
from its upload until its last line is stored. Data from earlier rounds is kept, so later rounds
search more data.
"""

import json
import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx

from bench.model import Bench, Cell, Column, Plot, Table
from bench.service import ROOT, Account, Service, penstock, plain_server, sign_up
from bench.timing import wait_until_idle

EMPTY, OURS, OLD = "empty handler", "this commit", "older commit"
_SCRIPT = Path(__file__).with_name("load.lua")
_IMPORT_LINES = 40_000


class Form(NamedTuple):
    """A way to send events. form, items: parameters for the `wrk` script."""

    name: str
    form: str
    items: int
    connections: int


FORMS = (
    Form("single", "single", 1, 256),
    Form("batches of 100", "batch", 100, 32),
    Form("batches of 1,000", "batch", 1000, 8),
    Form("tracked, single", "track", 1, 256),
    Form("tracked, batches of 10", "tracks", 10, 32),
)
SINGLE = FORMS[0]

EMPTY_APP = """
import sys, uvicorn
from litestar import Litestar, post

@post(["/api/v1/events", "/api/v1/events/batch", "/api/track"], status_code=202)
async def empty() -> dict[str, str]:
    return {"status": "accepted"}

uvicorn.run(Litestar([empty], openapi_config=None, logging_config=None), port=int(sys.argv[1]),
            loop="uvloop", http="httptools", access_log=False, log_level="warning")
"""


class Load(NamedTuple):
    """Figures reported by `wrk`. rate: requests per second."""

    rate: float
    p50_ms: float
    p99_ms: float


def run(bench: Bench) -> list[Table]:
    """Measure each form on each server, round by round; the servers take turns."""
    require_wrk()
    seconds, rounds = (2, 1) if bench.small else (3, 4)
    lines = _IMPORT_LINES // 20 if bench.small else _IMPORT_LINES
    loads: dict[tuple[str, str], list[Load]] = {}
    imports: dict[str, list[float]] = {}
    failed = set[tuple[str, str]]()
    with ExitStack() as stack:
        empty = stack.enter_context(plain_server(EMPTY_APP))
        sources = {OURS: ROOT} | ({OLD: bench.base} if bench.base else {})
        services, accounts = dict[str, Service](), {EMPTY: Account("none", "web_none")}
        for name, source in sources.items():
            data = bench.folder / f"intake-{name.replace(' ', '-')}"
            services[name] = stack.enter_context(penstock(data, source))
            accounts[name] = sign_up(services[name].url)
        for round_number in range(rounds):
            bench.progress(f"round {round_number + 1} of {rounds}")
            for form in FORMS:
                prefix = f"{form.name}-{round_number}".replace(" ", "-")
                urls = {name: service.url for name, service in services.items()}
                for name, url in {EMPTY: empty, **urls}.items():
                    if (form.name, name) in failed or (name == EMPTY and form.items > 1):
                        continue
                    try:
                        took = send(url, accounts[name], form, prefix, seconds)
                        loads.setdefault((form.name, name), []).append(took)
                    except RuntimeError as error:
                        failed.add((form.name, name))
                        bench.failures.append(f"{form.name}, {name}: {error}")
                    if name in services:
                        wait_until_idle(services[name].pid)
            for name, service in services.items():
                rate = import_rate(service.url, accounts[name], lines, round_number)
                imports.setdefault(name, []).append(rate)
                wait_until_idle(service.pid)
    measured = {key: got for key, got in loads.items() if key not in failed}
    return [_rates(bench, measured, imports)]


def _rates(
    bench: Bench, loads: dict[tuple[str, str], list[Load]], imports: dict[str, list[float]]
) -> Table:
    rows: list[list[Cell]] = []
    for (form_name, name), got in loads.items():
        [form] = [form for form in FORMS if form.name == form_name]
        rates = [load.rate for load in got]
        empty, old = loads.get((form_name, EMPTY)), loads.get((form_name, OLD))
        rows.append(
            [
                form_name,
                name,
                median(rates) * form.items,
                median(load.p50_ms for load in got),
                median(load.p99_ms for load in got),
                _ratio(rates, [load.rate for load in empty]) if empty else None,
                _ratio(rates, [load.rate for load in old]) if old and name == OURS else None,
            ]
        )
    for name, rates in imports.items():
        old_rates = imports.get(OLD) if name == OURS else None
        ratio = _ratio(rates, old_rates) if old_rates else None
        rows.append(["import", name, median(rates), None, None, None, ratio])
    columns = (
        Column("form"),
        Column("server"),
        Column("events per s", 0),
        Column("p50, ms", 1),
        Column("p99, ms", 1),
        Column("of the empty handler", 3),
        *([Column("of the older commit", 3)] if bench.base else []),
    )
    if not bench.base:
        rows = [row[:-1] for row in rows]
    singles = (loads.get((SINGLE.name, name), []) for name in (OURS, EMPTY))
    ratios = ", ".join(f"{ours.rate / bare.rate:.2f}" for ours, bare in zip(*singles, strict=True))
    notes = (
        "One process each, in turn, each when the others are idle; medians of the rounds. Ratios "
        "are medians of those of each round. Single events to the empty handler, by round: "
        f"{ratios}; the target is 0.65. "
        f"Connections: {', '.join(f'{form.connections} for {form.name}' for form in FORMS)}."
    )
    plot = Plot("intake", "bars", "form", ("events per s",), "events per second", "server")
    return Table("Events in, stored durably", columns, rows, notes, (plot,))


def _ratio(rates: list[float], base: list[float]) -> float:
    return median(rate / other for rate, other in zip(rates, base, strict=True))


def require_wrk() -> None:
    """Raise `RuntimeError` if `wrk` is not installed."""
    if shutil.which("wrk") is None:
        raise RuntimeError("needs wrk (Debian: apt install wrk)")


def send(url: str, account: Account, form: Form, prefix: str, seconds: int) -> Load:
    """Load a server for the given number of seconds. prefix: start of the events' IDs."""
    variables = {
        "BENCH_KEY": account.key,
        "BENCH_WEBSITE": account.website_id,
        "BENCH_PREFIX": prefix,
        "BENCH_FORM": form.form,
        "BENCH_ITEMS": str(form.items),
    }
    command = ["wrk", "-t1", f"-c{form.connections}", f"-d{seconds}s", "--timeout=20s"]
    output = subprocess.run(
        [*command, "--latency", "-s", str(_SCRIPT), url],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    if figures["refused"] or figures["socket_errors"] or not figures["requests"]:
        raise RuntimeError(f"{url} refused requests, or answered none: {figures}")
    rate = figures["requests"] / figures["seconds"]
    return Load(rate, figures["p50_ms"], figures["p99_ms"])


def import_rate(url: str, account: Account, lines: int, number: int) -> float:
    """Return the events per second of one import, from the upload of its file until it is done."""
    body = "\n".join(import_line(f"import-{number}-{line}", line) for line in range(lines)).encode()
    headers = {"Authorization": f"Bearer {account.key}", "Content-Type": "application/x-ndjson"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        start_s = time.perf_counter()
        query = {"websiteId": account.website_id}
        job = client.post("/api/imports", params=query, content=body).raise_for_status().json()
        while job["state"] not in ("done", "failed", "cancelled"):
            time.sleep(0.05)
            job = client.get(f"/api/imports/{job['id']}").raise_for_status().json()
        if job["accepted"] != lines:
            raise RuntimeError(f"an import stored {job['accepted']} of {lines} lines: {job}")
        return lines / (time.perf_counter() - start_s)


def import_line(key: str, number: int) -> str:
    """Return an import line with an event like the events of the `wrk` script."""
    return json.dumps(
        {
            "type": "event",
            "name": "checkout_started",
            "timestamp": f"2025-02-{1 + number % 28:02}T10:{number % 60:02}:00Z",
            "userId": f"user-{number % 5000}",
            "dedupeKey": key,
            "country": "DE",
            "properties": {
                "attemptId": f"attempt-{key}",
                "n": number % 7,
                "plan": ("free", "pro", "team")[number % 3],
                "amount": number % 500 + 0.5,
                "variant": "b",
                "appVersion": f"4.2.{number % 10}",
                "retried": False,
            },
        }
    )
