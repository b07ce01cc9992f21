"""Settings of a real process: what an operator mistypes is named in one line."""

import sys

import pytest
from pydantic import ValidationError

from penstock.metadb.database import Database, InvalidUrl
from penstock.settings import Settings
from tests.cli.commands import logged
from tests.serving import Served, error_of, penstock

DATABASE = (
    "PENSTOCK_DATABASE_URL must be a URL such as postgresql://user:password@host/name "
    "or sqlite:///path/to/file"
)
WAREHOUSE = (
    "PENSTOCK_WAREHOUSE_URL: Must be the HTTP address of a ClickHouse server, such as "
    "http://user:password@host:8123/penstock."
)
PUBLIC = "PENSTOCK_PUBLIC_URL: Must be a URL such as https://penstock.example.com."


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize(
    ("setting", "url", "message"),
    [
        ("DATABASE_URL", "mysql://u:canary@127.0.0.1/x", DATABASE),
        (
            "DATABASE_URL",
            "postgres://u:canary@127.0.0.1/x?schema=public",
            'PENSTOCK_DATABASE_URL: invalid connection option "schema"',
        ),
        ("WAREHOUSE_URL", "clickhouse://u:canary@127.0.0.1:9000/x", WAREHOUSE),
        ("PUBLIC_URL", "https://user:canary@go.example.com", PUBLIC),
    ],
)
def test_a_wrong_address_is_one_line_without_the_password(tmp_path, setting, url, message):
    error = error_of(
        penstock("migrate", "--data", str(tmp_path), **{f"PENSTOCK_{setting}": url}), 2
    )
    assert error == f"penstock: {message}\n"


@pytest.mark.parametrize(
    ("setting", "urls"),
    [
        ("warehouse_url", ["127.0.0.1:8123", "tcp://h:9000", "http://h:port", "http://[::1"]),
        ("otlp_endpoint", ["localhost:4318", "grpc://localhost:4317"]),
        (
            "public_url",
            ["go.example.com", "ftp://go.example.com", "https://", "https://[::1",
             "https://h:port", "https://h?x=1", "https://h#x", "https://links example.com",
             "https://a..b"],
        ),
    ],
)  # fmt: skip
def test_what_is_not_the_address_of_a_service_is_refused(setting, urls):
    for url in urls:
        with pytest.raises(ValidationError):
            Settings(**{setting: url})


@pytest.mark.parametrize(
    "url",
    ["postgresql+asyncpg://h/x", "postgresql://h:port/x", "h:5432/x", "sqlite+aiosqlite:///x", ""],
)
def test_what_is_not_the_url_of_a_database_is_refused(url):
    with pytest.raises(InvalidUrl):
        Database(url)


def test_postgresql_without_its_packages_is_refused_with_the_command_that_installs_them(
    monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidUrl) as refused:
        Database("postgresql://user:canary@127.0.0.1/penstock")
    assert str(refused.value) == (
        "PENSTOCK_DATABASE_URL: PostgreSQL needs more packages. "
        f"Run: {sys.executable} -m pip install 'penstock-server[postgresql]'"
    )
    Database(f"sqlite:///{tmp_path}/penstock.sqlite3").close()


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("penstock.example.com", "https://penstock.example.com"),
        ("penstock.example.com:8443/stats", "https://penstock.example.com:8443/stats"),
        ("localhost:8000", "http://localhost:8000"),
    ],
)
def test_a_public_url_without_scheme_is_refused_with_the_right_spelling(tmp_path, address, meant):
    run = penstock("serve", "--port", "0", "--data", str(tmp_path), PENSTOCK_PUBLIC_URL=address)
    expected = f"PENSTOCK_PUBLIC_URL: Must begin with https:// or http://; write {meant}."
    assert (run.returncode, run.stderr) == (2, f"penstock: {expected}\n")


@pytest.mark.usefixtures("starts_service")
def test_postgres_means_postgresql(tmp_path):
    url = "postgres://user:password@127.0.0.1:1/none?sslmode=prefer"
    error = error_of(
        penstock("migrate", "--data", str(tmp_path / "data"), PENSTOCK_DATABASE_URL=url)
    )
    assert error.splitlines()[-1].startswith("penstock: cannot use the metadata database: ")
    assert "Connection refused" in error


@pytest.mark.usefixtures("starts_service")
def test_an_empty_url_is_the_default(tmp_path):
    names = ("DATABASE_URL", "WAREHOUSE_URL", "PUBLIC_URL", "OTLP_ENDPOINT")
    with Served(tmp_path / "data", **{f"PENSTOCK_{name}": "" for name in names}) as service:
        ready = service.client.get("/health/ready").json()
        assert (ready["database"], ready["warehouse"]) == (True, True)


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize("url", ["127.0.0.1:8000", "http://[::1", "http://a..b"])
def test_a_wrong_address_of_the_service_is_one_line(tmp_path, url):
    (tmp_path / "events.ndjson").write_text("{}\n", "utf-8")
    error = error_of(
        penstock(
            "import",
            str(tmp_path / "events.ndjson"),
            "--website",
            "web_1",
            PENSTOCK_URL=url,
            PENSTOCK_API_KEY="key",
        ),
        2,
    )
    assert len(error.splitlines()) == 1
    assert error.startswith(f"penstock: {url} is not a valid service URL")


def warnings_of(output):
    return [line for line in logged(output) if line["level"] == "warning"]


@pytest.mark.usefixtures("starts_service")
@pytest.mark.parametrize("command", ["migrate", "verify"])
def test_an_unknown_setting_is_one_warning_with_the_nearest_name(tmp_path, command):
    nearest = {
        "PENSTOCK_PROT": "PENSTOCK_PORT",
        "PENSTOCK_CLICKHOUSE_URL": "PENSTOCK_WAREHOUSE_URL",
        "PENSTOCK_SECRET_KEY": "PENSTOCK_SECRET_KEYS",
        "PENSTOCK_BASE_URL": "PENSTOCK_PUBLIC_URL",
        "PENSTOCK_XYZZY": None,
    }
    settings = {"PENSTOCK_DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    settings |= dict.fromkeys(nearest, "canary")
    run = penstock(command, "--data", str(tmp_path / "data"), **settings)
    warned = warnings_of(run.stderr)
    assert {line["name"]: line["nearest"] for line in warned} == nearest
    assert len(warned) == len(nearest)
    [prot] = [line["message"] for line in warned if line["name"] == "PENSTOCK_PROT"]
    assert prot == "PENSTOCK_PROT is not a setting and has no effect. Did you mean PENSTOCK_PORT?"
    assert "canary" not in run.stderr


@pytest.mark.usefixtures("starts_service")
def test_removed_settings_are_one_warning_with_the_values_in_force(tmp_path):
    removed = {"PENSTOCK_MAX_ID_BYTES": "canary", "PENSTOCK_HEADER_TIMEOUT_S": "3"}
    unreachable = {"PENSTOCK_DATABASE_URL": "postgresql://127.0.0.1:1/none"}
    run = penstock("migrate", "--data", str(tmp_path / "data"), **removed, **unreachable)
    [warning] = warnings_of(run.stderr)
    assert warning["message"] == (
        "These settings no longer exist and have no effect. The values in force: "
        "PENSTOCK_HEADER_TIMEOUT_S is 10.0, PENSTOCK_MAX_ID_BYTES is 200"
    )
    assert "canary" not in run.stderr


@pytest.mark.usefixtures("starts_service")
def test_variables_that_kubernetes_sets_for_a_service_do_not_stop_the_start(tmp_path):
    links = {
        "PENSTOCK_PORT": "tcp://10.0.0.7:8000",
        "PENSTOCK_PORT_8000_TCP": "tcp://10.0.0.7:8000",
        "PENSTOCK_PORT_8000_TCP_ADDR": "10.0.0.7",
        "PENSTOCK_PORT_8000_TCP_PORT": "8000",
        "PENSTOCK_PORT_8000_TCP_PROTO": "tcp",
        "PENSTOCK_SERVICE_HOST": "10.0.0.7",
        "PENSTOCK_SERVICE_PORT": "8000",
        "PENSTOCK_SERVICE_PORT_HTTP": "8000",
        "PENSTOCK_METRICS_PORT": "tcp://10.0.0.8:9000",
        "PENSTOCK_METRICS_SERVICE_HOST": "10.0.0.8",
    }
    with Served(tmp_path / "data", **links) as service:
        assert service.client.get("/health/ready").json()["status"] == "ready"
        [warning] = warnings_of(service.output())
    assert warning["names"] == sorted(links)
