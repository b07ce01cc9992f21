"""`penstock doctor` finds faults of an installation and says how to fix them."""

import json
import os
import sys

import pytest

from tests.mail_server import mail_server
from tests.other_programs import run_program
from tests.serving import PENSTOCK, Served, environment, penstock

pytestmark = pytest.mark.usefixtures("starts_service")

SECRET = "canary-6f1d"


def doctor(*flags, **settings):
    """The exit code, and the checks by name; the last of several with one name counts."""
    run = penstock("doctor", "--json", *flags, **settings)
    assert run.stderr == ""
    assert SECRET not in run.stdout
    report = json.loads(run.stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert all(check["advice"] for check in report["checks"] if check["status"] != "ok")
    return run.returncode, report["status"], checks


def test_a_new_machine_without_data(tmp_path):
    code, _, checks = doctor("--data", str(tmp_path / "data"))
    assert code == 0
    assert checks["stores"]["status"] == "warning"
    assert "penstock serve" in checks["stores"]["advice"]
    assert {"versions", "settings", "disk", "memory", "clock", "permissions"} <= checks.keys()
    assert not (tmp_path / "data").exists()


def test_a_package_with_the_same_files_is_a_warning(tmp_path):
    info = tmp_path / "site" / "penstock-0.2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: penstock\nVersion: 0.2.0\n", "utf-8")
    (info / "RECORD").write_text("penstock/__init__.py,,\n", "utf-8")
    path = f"{info.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    command = [sys.executable, "-m", *PENSTOCK, "doctor", "--data", str(tmp_path / "data")]
    shown = run_program(command, environment=environment(PYTHONPATH=path))
    assert "warning packages: The package penstock 0.2.0 is installed too." in shown
    assert "pip uninstall penstock penstock-server" in shown


def test_a_running_service_is_asked_through_its_public_url(tmp_path):
    with mail_server() as mails, Served(tmp_path / "data") as service:
        _, site = service.first_account()
        assert site
        port = service.url.rpartition(":")[2]
        flags = ("--data", str(service.data), "--port", port)
        code, _, checks = doctor(
            *flags,
            PENSTOCK_PUBLIC_URL=service.url,
            PENSTOCK_SMTP_URL=mails.url,
            PENSTOCK_MAIL_FROM="a@example.com",
        )
        names = ("service", "metadata database", "event store", "migrations", "outbox", "mail")
        statuses = {name: checks[name]["status"] for name in (*names, "public URL", "proxy")}
        assert statuses == dict.fromkeys(statuses, "ok")
        assert code == 0
        app = {
            "name": "App", "kind": "mobile", "iosBundleId": "com.example.a",
            "iosTeamId": "A1B2C3D4E5",
        }  # fmt: skip
        assert service.client.post("/api/settings/websites", json=app).status_code == 201
        _, _, checks = doctor(*flags, PENSTOCK_PUBLIC_URL=service.url)
        assert checks["association files"]["status"] == "ok"
        assert "apple-app-site-association" in checks["association files"]["message"]


def test_a_stopped_service(tmp_path):
    with Served(tmp_path / "data") as service:
        assert service.stop() == 0
    code, _, checks = doctor(
        "--data", str(service.data), PENSTOCK_PUBLIC_URL="http://127.0.0.1:1", PENSTOCK_PROT="1"
    )
    assert code == 1
    assert checks["event store"]["status"] == "ok"
    assert "the newest" in checks["migrations"]["message"]
    assert checks["outbox"]["status"] == "ok"
    assert checks["public URL"]["status"] == "failure"
    assert "PENSTOCK_PROT is not a setting" in checks["settings"]["message"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"PENSTOCK_DATABASE_URL": f"postgresql://u:{SECRET}@127.0.0.1:1/x"}, "metadata database"),
        (
            {
                "PENSTOCK_SMTP_URL": f"smtp+insecure://u:{SECRET}@127.0.0.1:1",
                "PENSTOCK_MAIL_FROM": "a@example.com",
            },
            "mail",
        ),
    ],
)
def test_a_server_that_does_not_respond_is_a_failure_without_its_password(tmp_path, settings, name):
    code, status, checks = doctor("--data", str(tmp_path / "data"), **settings)
    assert (code, status, checks[name]["status"]) == (1, "failure", "failure")
    assert not (tmp_path / "data").exists()


def test_a_key_file_that_others_may_read_is_a_warning(tmp_path):
    key = tmp_path / "key"
    key.write_text("x", "utf-8")
    key.chmod(0o644)
    run = penstock("doctor", "--data", str(tmp_path / "data"), PENSTOCK_SECRET_KEY_FILE=str(key))
    assert f"warning permissions: Other users may read {key}." in run.stdout
    assert f"chmod go= {key}" in run.stdout
