"""Settings from a file: precedence, faults, `penstock init` and `penstock config`."""

import os
import pty
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.other_programs import run_program
from tests.serving import Served, environment, error_of, penstock
from tests.waiting import PATIENCE_S

SECRET = "canary-6f1d"

pytestmark = pytest.mark.usefixtures("starts_service")


def file_with(folder, text):
    file = folder / "penstock.toml"
    file.write_text(text, "utf-8")
    return str(file)


def lines_of(run):
    """Value and source by name, as `penstock config` prints them."""
    assert run.returncode == 0, run.stderr
    return {
        match[1]: (match[2], match[3])
        for match in re.finditer(r"^(\w+) = (.*?) +# (\w+)$", run.stdout, re.MULTILINE)
    }


def test_a_flag_overrides_the_environment_which_overrides_the_file_and_defaults(tmp_path):
    file = file_with(tmp_path, 'port = 1001\nhost = "10.0.0.1"\nsession_days = 7\n')
    run = penstock(
        "config", "--config", file, "--port", "1003",
        PENSTOCK_PORT="1002", PENSTOCK_HOST="10.0.0.2",
    )  # fmt: skip
    shown = lines_of(run)
    assert shown["port"] == ("1003", "flag")
    assert shown["host"] == ('"10.0.0.2"', "environment")
    assert shown["session_days"] == ("7", "file")
    assert shown["queries_at_once"] == ("4", "default")
    assert tomllib.loads(run.stdout)["port"] == 1003


def test_the_service_reads_its_file(tmp_path):
    file = file_with(tmp_path, 'signup_open = true\npublic_url = "https://go.example.com"\n')
    with Served(tmp_path / "data", "--config", file) as service:
        assert "serves https://go.example.com" in service.output()


def test_an_unknown_name_in_the_file_is_a_failure_with_the_closest_name(tmp_path):
    file = file_with(tmp_path, "prot = 1\nclickhouse_url = 'x'\nxyzzy = 'canary'\n")
    error = error_of(penstock("migrate", "--data", str(tmp_path / "data"), "--config", file), 2)
    assert error == (
        f"penstock: {file}: prot is not a setting. Did you mean port? "
        "clickhouse_url is not a setting. Did you mean warehouse_url? xyzzy is not a setting.\n"
    )
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("port = 70000", "port: "),
        ("port", "Expected '=' after a key"),
        ("[mail]\nsmtp_url = 'x'", "mail is not a setting."),
    ],
)
def test_a_fault_of_the_file_is_one_line_with_its_path(tmp_path, text, fault):
    file = file_with(tmp_path, text)
    error = error_of(penstock("config", "--config", file), 2)
    assert error.startswith(f"penstock: {file}: {fault}")
    assert len(error.splitlines()) == 1


def test_relative_paths_in_a_file_start_at_its_folder(tmp_path):
    shown = lines_of(penstock("config", "--config", file_with(tmp_path, "data = 'stores'")))
    assert shown["data"] == (f'"{tmp_path / "stores"}"', "file")


def test_config_hides_secrets(tmp_path):
    file = file_with(
        tmp_path,
        f'database_url = "postgresql://u:{SECRET}@h/x?password={SECRET}"\n'
        f'warehouse_url = "http://u:{SECRET}@h:8123/x"\nsecret_keys = "{SECRET}"\n'
        f'smtp_url = "smtp://u:{SECRET}@h"\nmail_from = "a@example.com"\n',
    )
    run = penstock("config", "--config", file)
    assert lines_of(run)["database_url"] == ('"postgresql://u:***@h/x?***"', "file")
    assert SECRET not in run.stdout + run.stderr


def test_init_writes_a_file_that_the_service_can_use_without_a_terminal(tmp_path):
    file, data = tmp_path / "new.toml", tmp_path / "data"
    flags = (
        "init", "--config", str(file), "--data", str(data), "--public-url", "https://a.example.com",
        "--smtp-url", f"smtp://u:{SECRET}@h", "--mail-from", "a@example.com",
    )  # fmt: skip
    run = penstock(*flags)
    assert run.returncode == 0, run.stderr
    assert SECRET not in run.stdout + run.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert tomllib.loads(file.read_text("utf-8")) == {
        "public_url": "https://a.example.com",
        "data": str(data),
        "smtp_url": f"smtp://u:{SECRET}@h",
        "mail_from": "a@example.com",
    }
    assert lines_of(penstock("config", "--config", str(file)))["data"] == (f'"{data}"', "file")
    assert error_of(penstock(*flags), 2) == f"penstock: {file} exists; --force replaces it\n"


def test_init_refuses_wrong_values_and_writes_nothing(tmp_path):
    file = tmp_path / "new.toml"
    error = error_of(
        penstock("init", "--config", str(file), "--smtp-url", f"smtp://u:{SECRET}@h"), 2
    )
    assert "PENSTOCK_SMTP_URL also needs PENSTOCK_MAIL_FROM" in error
    assert SECRET not in error
    assert not file.exists()


class TestDefaultDataFolder:
    def data_of(self, home, folder):
        """The default data folder of a command that runs in a folder, and its warnings."""
        file = file_with(folder, "port = 0\n")  # found, because it is in the current folder
        run = penstock("config", XDG_DATA_HOME=str(home), HOME=str(home))
        assert f"# File: {file}" in run.stdout
        return lines_of(run)["data"], run.stderr

    def test_is_an_absolute_path_of_the_user(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        home = tmp_path / "home"
        assert self.data_of(home, tmp_path) == ((f'"{home / "penstock"}"', "default"), "")

    def test_is_the_earlier_default_while_only_that_exists(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        home, old = tmp_path / "home", tmp_path / "penstock-data"
        old.mkdir()
        data, warning = self.data_of(home, tmp_path)
        assert data == (f'"{old}"', "default")
        assert f"Uses {old}, the default of earlier versions" in warning
        (home / "penstock").mkdir(parents=True)
        data, warning = self.data_of(home, tmp_path)
        assert data == (f'"{home / "penstock"}"', "default")
        assert f"{old}, the default of earlier versions, is not used." in warning


@pytest.mark.usefixtures("warehouse")
def test_init_asks_on_a_terminal_and_hides_secrets(tmp_path):
    file, (terminal, other_end) = tmp_path / "new.toml", pty.openpty()
    command = [sys.executable, "-m", "penstock.cli.main", "init", "--config", str(file)]
    answers = {
        "browsers reach": "https://a.example.com",
        "embedded stores": str(tmp_path / "data"),
        "metadata database": "",
        "Mail server": f"smtp://u:{SECRET}@h",
        "Sender": "a@b.co",
    }
    with subprocess.Popen(
        command, stdin=other_end, stdout=other_end, stderr=other_end, env=environment()
    ) as process:
        os.close(other_end)
        shown = all_shown = ""
        for question, answer in answers.items():
            while question not in shown or not shown.endswith(": "):
                shown += os.read(terminal, 4096).decode()
            os.write(terminal, f"{answer}\n".encode())
            shown, all_shown = "", all_shown + shown
        assert process.wait(PATIENCE_S) == 0
    os.close(terminal)
    assert SECRET not in all_shown
    assert tomllib.loads(file.read_text("utf-8")) == {
        "public_url": "https://a.example.com",
        "data": str(tmp_path / "data"),
        "smtp_url": f"smtp://u:{SECRET}@h",
        "mail_from": "a@b.co",
    }


def test_a_shell_completes_commands():
    command = Path(sys.executable).with_name("penstock")
    words = {"COMP_WORDS": "penstock do", "COMP_CWORD": "1"}
    settings = environment(_PENSTOCK_COMPLETE="complete_bash", **words)
    assert run_program([command], environment=settings, may_warn=True).split() == ["doctor"]
