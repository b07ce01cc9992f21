"""Every setting, read once at the start, frozen. Each is an environment variable `PENSTOCK_<NAME>`."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

DAY_S = 86_400
MIN_QUERY_BYTES = 64 * 1024**2
"""Less memory than this is not enough for any funnel."""


class Settings(BaseSettings):
    """The whole configuration. A command's flag wins over the environment, the environment over the default."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", frozen=True, extra="ignore")

    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port to listen on; 0 takes a free one.")] = 8000
    data: Annotated[Path, Field(description="Folder of the embedded stores.")] = Path("penstock-data")
    database_url: Annotated[str | None, Field(description="Metadata DB as an SQLAlchemy URL; by default SQLite in the data folder.")] = None
    warehouse_url: Annotated[
        str | None, Field(description="ClickHouse over HTTP, `http://user:password@host:8123/db`; by default chDB in the data folder.")
    ] = None
    public_url: Annotated[
        str | None, Field(description="Address under which people and browsers reach the service; by default host and port.")
    ] = None
    trusted_proxies: Annotated[
        str,
        Field(
            description="Proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed: addresses or networks with commas between "
            "them, or `*` for any."
        ),
    ] = "127.0.0.1,::1"

    signup_open: Annotated[bool, Field(description="Whether accounts after the first may sign up without an invitation.")] = False
    session_days: Annotated[int, Field(ge=1, description="Days until an unused session ends.")] = 30

    max_event_bytes: Annotated[int, Field(ge=1024, description="Largest single event, in bytes of JSON.")] = 64 * 1024
    max_batch_events: Annotated[int, Field(ge=1, description="Most events in one batch.")] = 1000
    max_body_bytes: Annotated[int, Field(ge=1024, description="Largest body on the wire, in bytes.")] = 2 * 1024 * 1024
    max_inflated_bytes: Annotated[int, Field(ge=1024, description="Largest body once inflated, in bytes.")] = 10 * 1024 * 1024
    max_id_bytes: Annotated[int, Field(ge=1, description="Longest ID that a client may send, in bytes.")] = 200
    max_name_chars: Annotated[int, Field(ge=1, description="Longest event, screen or goal name, in characters.")] = 200
    max_path_chars: Annotated[int, Field(ge=1, description="Longest page path, in characters.")] = 2000
    max_property_keys: Annotated[int, Field(ge=1, description="Most property keys of one event, nested ones included.")] = 255
    max_property_depth: Annotated[int, Field(ge=1, description="Deepest nesting of properties.")] = 5
    max_string_bytes: Annotated[int, Field(ge=1, description="Longest string value in properties, in bytes.")] = 8 * 1024
    max_import_bytes: Annotated[int, Field(ge=1024, description="Largest import file on the wire, in bytes.")] = 2 * 1024**3
    max_import_inflated_bytes: Annotated[int, Field(ge=1024, description="Largest import file once inflated, in bytes.")] = 50 * 1024**3
    future_tolerance_s: Annotated[int, Field(ge=0, description="How far ahead of the server's clock a timestamp may be.")] = 300
    dedupe_days: Annotated[
        int | None, Field(ge=100, description="Days that deduplication keys are kept, at least 100; for ever when unset.")
    ] = None

    links_to_private_hosts: Annotated[
        bool, Field(description="Whether the web address of a managed link may lead to a private host, such as `localhost`.")
    ] = False

    geoip: Annotated[
        Path | None, Field(description="File of countries or cities in MaxMind's format, for the country of clicks; none is shipped.")
    ] = None
    install_referrer_days: Annotated[
        int, Field(ge=1, le=30, description="Days after a click in which an install referrer of Google Play still leads to it.")
    ] = 7
    resolves_per_minute: Annotated[int, Field(ge=1, description="App opens that one network address may report in a minute.")] = 300

    query_timeout_s: Annotated[
        float, Field(gt=0, description="Longest time for one funnel query, in seconds; a workspace may lower it.")
    ] = 60.0
    query_memory_bytes: Annotated[
        int, Field(ge=MIN_QUERY_BYTES, description="Most memory of one funnel query; a workspace may lower it.")
    ] = 4 * 1024**3
    queries_at_once: Annotated[int, Field(ge=1, le=64, description="How many queries may read the warehouse at once; more wait.")] = 4
    fresh_wait_s: Annotated[float, Field(ge=0, description="How long a report waits for events acknowledged before it.")] = 5.0
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="Least level that is logged.")] = "info"

    @field_validator("trusted_proxies")
    @classmethod
    def _can_be_met(cls, proxies: str) -> str:
        """A name would never match: what is compared is the address of a connection."""
        named = [] if proxies == "*" else [proxy.strip() for proxy in proxies.split(",") if proxy.strip()]
        for proxy in named:
            try:
                ip_network(proxy)
            except ValueError as error:
                message = "'{proxy}' is neither an address nor a network such as 10.0.0.0/8; '*' alone stands for any."
                raise PydanticCustomError("not_an_address", message, {"proxy": proxy}) from error
        return proxies

    @property
    def base_url(self) -> str:
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def metadb_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data / 'penstock.sqlite3'}"
