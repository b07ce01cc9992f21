"""`penstock serve`, `migrate` and `--version` as real processes."""

import json
import os
import re
import shlex
import socket
import sqlite3
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from penstock import __version__
from tests.cli.commands import logged
from tests.processes import new_python
from tests.records import send_events
from tests.serving import Served, error_of, output_of, penstock
from tests.stores.schema_versions import DATABASE_VERSIONS, UP_TO_DATE, WAREHOUSE_VERSIONS

pytestmark = pytest.mark.usefixtures("starts_service")


@pytest.mark.slow("imports the whole service")
def test_serves_until_sigterm_and_stops_with_0(tmp_path):
    with Served(tmp_path / "data", start=new_python, migrates=True) as service:
        assert service.client.get("/health/live").status_code == 200
        ready = service.client.get("/health/ready").json()
        assert (ready["status"], ready["database"], ready["warehouse"]) == ("ready", True, True)
        assert not any(worker["failingSince"] for worker in ready["workers"])
        assert service.stop() == 0
        assert "error" not in service.output()
        # The migrations of a first start are one line.
        output = service.output()
        [created] = [line for line in logged(output) if line["event"] == "stores_created"]
        newest = (DATABASE_VERSIONS[-1], WAREHOUSE_VERSIONS[-1])
        assert (created["database"], created["event_store"]) == newest
        assert "migration" not in output


@pytest.mark.skipif(sys.platform != "linux", reason="needs a nice value for each thread")
def test_threads_of_the_engine_let_requests_go_first(tmp_path):
    with Served(tmp_path / "data") as service:
        service.first_account()
        assert service.client.get("/api/visitors").status_code == 200  # a query
        main = os.getpriority(os.PRIO_PROCESS, service.process.pid)
        engine = set[int]()
        for thread in Path(f"/proc/{service.process.pid}/task").iterdir():
            with suppress(OSError):  # it has ended
                if (thread / "comm").read_text().startswith(("ThreadPool", "BgSchPool", "Query")):
                    engine.add(os.getpriority(os.PRIO_PROCESS, int(thread.name)))
        assert main == os.getpriority(os.PRIO_PROCESS, 0)
        assert engine == {min(main + 5, 19)}


def test_head_answers_as_get_does_without_the_body(tmp_path):
    with Served(tmp_path / "data") as service:
        service.first_account()
        for path in (
            "/api/openapi.json",
            "/api/funnels",
            "/api/docs",
            "/.well-known/assetlinks.json",
        ):
            # Each page has another nonce, so its compressed length differs.
            headers = {"Accept-Encoding": "identity"} if path == "/api/docs" else {}
            head, whole = (
                service.client.request(method, path, headers=headers) for method in ("HEAD", "GET")
            )
            assert (head.status_code, head.content) == (200, b""), path
            assert [head.headers[name] for name in ("content-type", "content-length")] == [
                whole.headers[name] for name in ("content-type", "content-length")
            ]
        assert service.client.head("/api/nothing").status_code == 404
        assert service.client.head("/api/auth/login").status_code == 405


def test_banner_names_address_docs_and_data(tmp_path):
    with Served(tmp_path / "data") as service:
        output = service.output()
        assert f"serves {service.url}" in output
        assert f"{service.url}/api/docs" in output
        assert str(tmp_path / "data") in output


def test_banner_explains_how_to_create_the_first_account(tmp_path):
    with Served(tmp_path / "data") as service:
        command = service.output()[service.output().index("  curl ") :]
        _, url, *_, body = shlex.split(command.replace("\\\n", ""))
        account = service.client.post(url, json=json.loads(body)).json()
        assert account["user"]["email"] == "you@example.com"
        service.kill()
    with Served(tmp_path / "data") as again:
        assert "curl" not in again.output()


def test_banner_has_the_setup_token_that_clients_behind_a_proxy_need(tmp_path):
    account = {"email": "a@example.com", "password": "long enough", "workspaceName": "Acme"}
    proxied = {"X-Forwarded-For": "192.0.2.7"}
    with Served(tmp_path / "data") as service:
        [token] = re.findall(r"-H 'X-Setup-Token: (\S{40,})'", service.output())
        for headers, status in ((proxied, 403), (proxied | {"X-Setup-Token": token}, 201)):
            answer = service.client.post("/api/auth/signup", json=account, headers=headers)
            assert answer.status_code == status


def test_banner_names_the_public_url(tmp_path):
    with Served(tmp_path / "data", PENSTOCK_PUBLIC_URL="https://penstock.example.com") as service:
        assert f"Penstock {__version__} serves https://penstock.example.com\n" in service.output()


def test_flags_win_over_the_environment(tmp_path):
    with Served(tmp_path / "flag", PENSTOCK_DATA=str(tmp_path / "environment"), PENSTOCK_PORT="1"):
        assert (tmp_path / "flag" / "penstock.sqlite3").exists()
        assert not (tmp_path / "environment").exists()


def test_a_second_process_on_the_same_folder_fails_with_one_line(tmp_path):
    with Served(tmp_path / "data") as service:
        for command in (["serve", "--port", "0"], ["migrate"]):
            [line] = error_of(penstock(*command, "--data", str(tmp_path / "data"))).splitlines()
            assert f"in use by another Penstock (process {service.process.pid})" in line
        assert service.client.get("/health/ready").status_code == 200


def test_a_killed_process_leaves_the_folder_free(tmp_path):
    with Served(tmp_path / "data") as service:
        service.kill()
    with Served(tmp_path / "data") as again:
        assert again.client.get("/health/ready").status_code == 200


def test_a_clean_stop_ships_acknowledged_events(tmp_path):
    with Served(tmp_path / "data") as service:
        _, website = service.first_account()
        event = {"websiteId": website, "event": "opened"}
        send_events(service.client, [{**event, "visitorId": f"v{n}"} for n in range(1000)])
        assert service.stop() == 0
    with sqlite3.connect(tmp_path / "data" / "penstock.sqlite3") as db:
        assert db.execute("SELECT count(*) FROM outbox").fetchone() == (0,)


def test_a_port_in_use_fails_with_one_line_and_opens_no_store(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        run = penstock("serve", "--port", str(port), "--data", str(tmp_path / "data"))
    error = f"penstock: port {port} on 127.0.0.1 is in use; choose another with --port\n"
    assert error_of(run) == error
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"PENSTOCK_DATABASE_URL": "postgresql://127.0.0.1:1/none"},
            "cannot use the metadata database",
        ),
        (
            {"PENSTOCK_WAREHOUSE_URL": "http://127.0.0.1:1/none"},
            "no ClickHouse answers at 127.0.0.1; check PENSTOCK_WAREHOUSE_URL",
        ),
        ({"PENSTOCK_DATA": "/dev/null"}, "cannot use the data folder"),
    ],
)
def test_an_unreachable_store_is_named_in_the_last_line(tmp_path, settings, reason):
    error = error_of(
        penstock("serve", "--port", "0", **{"PENSTOCK_DATA": str(tmp_path / "data"), **settings})
    )
    assert reason in error.splitlines()[-1]
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("setting", "value", "output"),
    [
        ("PENSTOCK_PORT", "abc", ""),
        (
            "PENSTOCK_TRUSTED_PROXIES",
            "127.0.0.1, my-proxy",
            "'my-proxy' is not an IP address or a network",
        ),
        ("PENSTOCK_TRUSTED_PROXIES", "10.0.0.1/8", "'10.0.0.1/8' is not an IP address"),
        ("PENSTOCK_TRUSTED_PROXIES", "10.0.0.1,*", "'*' is not an IP address"),
    ],
)
def test_an_invalid_setting_is_wrong_use(tmp_path, setting, value, output):
    error = error_of(penstock("serve", "--data", str(tmp_path), **{setting: value}), 2)
    assert error.startswith(f"penstock: {setting}: {output}")


def test_a_cluster_without_a_server_is_wrong_use_and_opens_no_store(tmp_path):
    data = tmp_path / "data"
    error = error_of(
        penstock("migrate", "--data", str(data), PENSTOCK_WAREHOUSE_CLUSTER="shards"), 2
    )
    assert error == "penstock: PENSTOCK_WAREHOUSE_CLUSTER also needs PENSTOCK_WAREHOUSE_URL.\n"
    assert not data.exists()


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_mistyped_setting_is_logged_without_its_value(tmp_path, command):
    unknown = {"PENSTOCK_PROT": "canary", "penstock_daat": "canary"}
    known = {
        "PENSTOCK_API_KEY": "k",
        "PENSTOCK_URL": "http://127.0.0.1:1",
        "penstock_log_level": "info",
    }
    settings = {"PENSTOCK_DATABASE_URL": "postgresql://127.0.0.1:1/none", **known, **unknown}
    flags = ["--port", "0"] if command == "serve" else []
    output = penstock(command, *flags, "--data", str(tmp_path / "data"), **settings).stderr
    warned = [line["name"] for line in logged(output) if line["event"] == "unknown_setting"]
    assert warned == sorted(unknown)
    assert "canary" not in output


def test_logs_are_json_lines_when_not_at_a_terminal(tmp_path):
    with Served(tmp_path / "data", PENSTOCK_LOG_LEVEL="debug") as service:
        service.stop()
    assert {"event", "level", "timestamp"} <= set(logged(service.output())[0])


def test_migrate_prepares_both_stores(tmp_path):
    output = output_of(penstock("migrate", "--data", str(tmp_path / "data"), start=new_python))
    assert output == UP_TO_DATE
    assert penstock("migrate", "--data", str(tmp_path / "data")).returncode == 0


def test_version():
    assert output_of(penstock("--version")) == f"penstock {__version__}\n"


def test_help_lists_the_commands():
    output = penstock("--help").stdout
    assert all(command in output for command in ("demo", "import", "migrate", "serve"))
