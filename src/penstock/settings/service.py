"""Settings for the process: address, stores, request limits and monitoring."""

from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from platformdirs import user_data_path
from pydantic import Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError

from penstock.base.optional_packages import install_command
from penstock.base.service_urls import (
    is_http_url,
    is_public_url,
    public_url_without_scheme,
)
from penstock.settings.group import SettingGroup, rule

OLD_DATA_FOLDER = Path("penstock-data")
"""The default data folder of earlier versions, in the current folder."""


def user_data_folder() -> Path:
    return user_data_path("penstock")


def default_data_folder() -> Path:
    """Return the user's data folder, or the default of earlier versions if only that exists."""
    folder, old = user_data_folder(), OLD_DATA_FOLDER.absolute()
    return old if old.is_dir() and not folder.exists() else folder


def _check_networks(networks: str, message: str) -> None:
    """Require comma-separated networks. message: what to say about another `{entry}`."""
    for entry in (each.strip() for each in networks.split(",")):
        try:
            if entry:
                ip_network(entry)
        except ValueError as error:
            raise PydanticCustomError("not_an_address", message, {"entry": entry}) from error


class AddressSettings(SettingGroup):
    """The listening address, and the URL under which browsers reach the service."""

    title = "Address"

    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, Field(ge=0, le=65535, description="Port to listen on; 0 chooses a free port.")
    ] = 8000
    public_url: Annotated[
        str | None,
        Field(description="URL under which browsers reach the service; default: host and port."),
    ] = None
    trusted_proxies: Annotated[
        str,
        Field(
            description="Proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are "
            "trusted: comma-separated addresses or networks, or `*` for all."
        ),
    ] = "127.0.0.1,::1"

    @field_validator("public_url")
    @classmethod
    def _require_public_url(cls, url: str | None) -> str | None:
        if url is None or is_public_url(url):
            return url
        if meant := public_url_without_scheme(url):
            raise PydanticCustomError(
                "no_scheme", "Must begin with https:// or http://; write {meant}", {"meant": meant}
            )
        raise PydanticCustomError(
            "not_a_public_url", "Must be a URL such as https://penstock.example.com."
        )

    @field_validator("trusted_proxies")
    @classmethod
    def _require_addresses(cls, proxies: str) -> str:
        """Reject host names, because they would never match: only IP addresses are compared."""
        if proxies != "*":
            _check_networks(
                proxies,
                "'{entry}' is not an IP address or a network such as 10.0.0.0/8; "
                "use '*' alone to trust all proxies.",
            )
        return proxies


class StoreSettings(SettingGroup):
    """Location of the data, and encryption of secrets."""

    title = "Stores"

    data: Annotated[
        Path,
        Field(
            default_factory=default_data_folder,
            description="Folder of the embedded stores; default: the user's folder for data, such "
            "as `~/.local/share/penstock`.",
        ),
    ]
    min_free_disk_bytes: Annotated[
        int,
        Field(
            ge=0,
            description="Free bytes on the disk of the data folder below which uploads, dry runs, "
            "imports, exports, large results of jobs and new stored outcomes stop, so that events "
            "can still be stored.",
        ),
    ] = 1024**3
    workspace_files_bytes: Annotated[
        int,
        Field(
            ge=1024,
            description="Maximum size of the files of one workspace that wait on the disk: import "
            "files, before and after their start, saved mappings, and results of jobs. An API key "
            "without the permission `manage` can use half of it.",
        ),
    ] = 4 * 1024**3
    database_url: Annotated[
        str | None,
        Field(
            description="Metadata DB as an SQLAlchemy URL; default: SQLite in the data folder. "
            "PostgreSQL needs the extra `postgresql` of the package."
        ),
    ] = None
    database_connections: Annotated[
        int,
        Field(
            ge=2,
            le=1_000,
            description="Maximum number of connections from a node to PostgreSQL, in addition to "
            "one that listens.",
        ),
    ] = 20
    nodes: Annotated[
        int,
        Field(
            ge=1,
            le=1_000,
            description="Number of nodes that share the PostgreSQL database. Each node allows its "
            "share of the limits that guard the stores and the accounts: queries at a time, the "
            "rates of addresses and websites, clicks on links, and attempts to log in.",
        ),
    ] = 1
    warehouse_url: Annotated[
        str | None,
        Field(
            description="ClickHouse over HTTP, `http://user:password@host:8123/db`; "
            "default: chDB in the data folder."
        ),
        rule(
            is_http_url,
            "not_a_clickhouse_url",
            "Must be the HTTP address of a ClickHouse server, such as "
            "http://user:password@host:8123/penstock.",
        ),
    ] = None
    warehouse_cluster: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$",
            description="Name of the ClickHouse cluster whose shards and replicas hold the tables; "
            "default: one server holds them. Requires `PENSTOCK_WAREHOUSE_URL`.",
        ),
    ] = None
    secret_keys: Annotated[
        SecretStr | None,
        Field(
            description="Keys for stored secrets, comma-separated. The first key encrypts, and "
            "all keys decrypt. Default: the key file."
        ),
    ] = None
    secret_key_file: Annotated[
        Path | None,
        Field(
            description="File with the keys that encrypt stored secrets, one per line; default: "
            "`secret.key` in the data folder, created at the first start."
        ),
    ] = None


class RequestSettings(SettingGroup):
    """Limits for connections and requests."""

    title = "Requests"

    connections: Annotated[
        int,
        Field(ge=1, description="Maximum number of open connections; further connections get 503."),
    ] = 4000
    address_connections: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum number of connections from one address, or of its concurrent "
            "requests behind a proxy. IPv6 addresses are counted by their /64.",
        ),
    ] = 500
    address_requests_per_second: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum rate of requests from one address, on average over ten seconds.",
        ),
    ] = 5000
    idle_timeout_s: Annotated[
        float,
        Field(gt=0, description="Seconds that a connection may wait for its next request."),
    ] = 5.0
    bodies_bytes: Annotated[
        int,
        Field(
            ge=1024,
            description="Maximum size of all request bodies over 16 KiB that are in memory, as "
            "sent and decompressed, in bytes; half of it for one address. While a body is parsed, "
            "it briefly needs several times its size in addition.",
        ),
    ] = 128 * 1024 * 1024


class OutboundSettings(SettingGroup):
    """Requests to addresses that members choose, such as webhooks."""

    title = "Webhooks"

    outbound_networks: Annotated[
        str | None,
        Field(
            description="Private networks to which webhooks and messages of alerts may go, also "
            "over plain HTTP: comma-separated, such as `10.1.2.0/24`, or `127.0.0.0/8` for this "
            "machine. Default: only hosts on the internet, over HTTPS."
        ),
    ] = None

    @field_validator("outbound_networks")
    @classmethod
    def _require_networks(cls, networks: str | None) -> str | None:
        _check_networks(networks or "", "'{entry}' is not a network such as 10.1.2.0/24.")
        return networks


class MonitoringSettings(SettingGroup):
    """Metrics, traces and logs."""

    title = "Monitoring"

    metrics_port: Annotated[
        int | None,
        Field(
            ge=0,
            le=65535,
            description="Port of `/metrics` for Prometheus; 0 chooses a free port; default: none.",
        ),
    ] = None
    metrics_host: Annotated[
        str,
        Field(description="Address that `/metrics` listens on. It does not require a log-in."),
    ] = "127.0.0.1"
    otlp_endpoint: Annotated[
        str | None,
        Field(
            description="Base URL of an OpenTelemetry collector over HTTP, such as "
            "`http://localhost:4318`, to send traces to; default: none. Needs the extra "
            "`telemetry` of the package."
        ),
        rule(is_http_url, "not_a_collector", "Must be a URL such as http://localhost:4318."),
        rule(
            lambda _: find_spec("opentelemetry.sdk") is not None,
            "no_telemetry",
            f"Traces need more packages. Run: {install_command('telemetry')}",
        ),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="Minimum level of log messages."),
    ] = "info"
