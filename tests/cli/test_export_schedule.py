"""`penstock export --every`: repeats, survives failures, and ends cleanly.

See docs/moving-out.md.
"""

import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import typer

from penstock.cli.export_schedule import repeat
from penstock.cli.options import FAILED, WRONG_USE
from tests.cli.test_export import manifest_of, new_website, send
from tests.serving import PENSTOCK, Served, environment, penstock
from tests.waiting import PATIENCE_S, eventually


@pytest.fixture(scope="module")
def service(starts_service, tmp_path_factory):
    with Served(tmp_path_factory.mktemp("export") / "data") as running:
        running.key, running.website = running.first_account()
        yield running


def start(folder, log, **settings):
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", *PENSTOCK, "export", str(folder), "--every", "1s"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(**settings),
        )


def events_in(folder):
    return (
        manifest_of(folder)["rows"].get("events", 0) if (folder / "manifest.json").exists() else 0
    )


@pytest.mark.slow("starts the service of this module")
def test_a_schedule_exports_what_is_new_until_it_is_stopped(service, tmp_path):
    website_id, folder = new_website(service), tmp_path / "export"
    send(service, website_id, [0])
    process = start(
        folder, tmp_path / "log", PENSTOCK_URL=service.url, PENSTOCK_API_KEY=service.key
    )
    try:
        eventually(lambda: events_in(folder) == 3, within_s=4 * PATIENCE_S)
        send(service, website_id, [1])
        eventually(lambda: events_in(folder) == 6, within_s=4 * PATIENCE_S)
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert "Traceback" not in (tmp_path / "log").read_text("utf-8")


@pytest.mark.usefixtures("warehouse")
def test_a_schedule_survives_a_service_that_does_not_answer(tmp_path):
    log = tmp_path / "log"
    process = start(
        tmp_path / "export", log, PENSTOCK_URL="http://127.0.0.1:9", PENSTOCK_API_KEY="key"
    )
    try:
        eventually(
            lambda: log.read_text("utf-8").count("penstock: trying again in 1 second") >= 2,
            within_s=4 * PATIENCE_S,
        )
    finally:
        process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    assert "penstock: no Penstock answers at http://127.0.0.1:9" in log.read_text("utf-8")


class Portal(BaseHTTPRequestHandler):
    """Answers everything with a page, as a proxy does that wants a log-in."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>Log in</h1>")

    def log_message(self, *_):
        pass


@pytest.mark.usefixtures("warehouse")
def test_a_schedule_survives_an_answer_that_is_not_json(tmp_path):
    log, server = tmp_path / "log", ThreadingHTTPServer(("127.0.0.1", 0), Portal)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    process = start(tmp_path / "export", log, PENSTOCK_URL=url, PENSTOCK_API_KEY="key")
    try:
        eventually(
            lambda: (
                process.poll() is not None
                or log.read_text("utf-8").count("penstock: trying again in 1 second") >= 2
            )
        )
    finally:
        process.send_signal(signal.SIGTERM)
        server.shutdown()
        server.server_close()
    assert process.wait(PATIENCE_S) == 0
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
    result = penstock("export", str(tmp_path / "export"), f"--every={interval}")
    assert (result.returncode, "--every: " in result.stderr) == (2, True)
