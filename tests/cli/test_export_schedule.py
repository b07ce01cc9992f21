"""`penstock export --every`: repeats, survives failures, and ends cleanly.

See docs/moving-out.md.
"""

import signal
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
import typer

from penstock.cli.export_schedule import repeat
from penstock.cli.options import FAILED, WRONG_USE
from tests.cli.commands import keys_of, start
from tests.cli.test_export import manifest_of, send, website_with_events
from tests.http_server import Answering, http_server
from tests.serving import error_of, penstock
from tests.waiting import PATIENCE_S, eventually


@contextmanager
def scheduled(folder, log, **settings):
    """Export every second, until a service manager ends it."""
    process = start("export", folder, "--every", "1s", log=log, **settings)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


def has_failed_twice(log):
    return log.read_text("utf-8").count("penstock: trying again in 1 second") >= 2


def events_in(folder):
    if not (folder / "manifest.json").exists():
        return 0
    return manifest_of(folder)["rows"].get("events", 0)


@pytest.mark.slow("starts the service of this module")
def test_a_schedule_exports_what_is_new_until_it_is_stopped(service, tmp_path):
    website_id, folder = website_with_events(service, [0]), tmp_path / "export"
    with scheduled(folder, tmp_path / "log", **keys_of(service)):
        eventually(lambda: events_in(folder) == 3, within_s=4 * PATIENCE_S)
        send(service, website_id, [1])
        eventually(lambda: events_in(folder) == 6, within_s=4 * PATIENCE_S)
    assert "Traceback" not in (tmp_path / "log").read_text("utf-8")


@pytest.mark.usefixtures("starts_service")
def test_a_schedule_survives_a_service_that_does_not_answer(tmp_path):
    log = tmp_path / "log"
    keys = {"PENSTOCK_URL": "http://127.0.0.1:9", "PENSTOCK_API_KEY": "key"}
    with scheduled(tmp_path / "export", log, **keys):
        eventually(lambda: has_failed_twice(log), within_s=4 * PATIENCE_S)
    assert "penstock: no Penstock answers at http://127.0.0.1:9" in log.read_text("utf-8")


class Portal(Answering, BaseHTTPRequestHandler):
    """Answers everything with a page, as a proxy does that wants a log-in."""

    def do_GET(self):
        self.answer(200, "text/html", b"<h1>Log in</h1>")


@pytest.mark.usefixtures("starts_service")
def test_a_schedule_survives_an_answer_that_is_not_json(tmp_path):
    log = tmp_path / "log"
    with http_server(Portal) as url:
        keys = {"PENSTOCK_URL": url, "PENSTOCK_API_KEY": "key"}
        with scheduled(tmp_path / "export", log, **keys) as process:
            eventually(lambda: process.poll() is not None or has_failed_twice(log))
    assert (
        "penstock: 127.0.0.1 answered GET /api/settings/websites with text/html. This is not "
        "a response from Penstock; check PENSTOCK_URL"
    ) in log.read_text("utf-8")


def test_pauses_grow_after_failures_and_the_rhythm_stays_after_success():
    now_s, waits = 0.0, []
    results = [FAILED] * 9 + [None, None, WRONG_USE]

    def run():
        nonlocal now_s
        now_s += 10
        code = results.pop(0)
        if code is not None:
            raise typer.Exit(code)

    def wait(seconds):
        nonlocal now_s
        now_s += seconds
        waits.append(seconds)

    with pytest.raises(typer.Exit) as ended:
        repeat(run, 86_400, elapsed_s=lambda: now_s, wait=wait)
    assert ended.value.exit_code == WRONG_USE
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600, 86_390, 86_390]


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize("interval", ["", "0h", "24", "h", "-1h", "1w", "1.5h"])
def test_a_wrong_interval_is_refused(tmp_path, interval):
    error = error_of(penstock("export", str(tmp_path / "export"), f"--every={interval}"), 2)
    assert "--every: " in error
