"""All settings: environment variables `PENSTOCK_<NAME>`, read once at start, frozen."""

from email.utils import parseaddr
from functools import cached_property
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from penstock.base.service_urls import (
    host_name,
    is_host,
    is_http_url,
    is_provider_url,
    is_public_url,
    public_url_without_scheme,
)

DAY_S = 86_400
MOST_WAITING_EVENTS = 20_000
"""Maximum events that wait for a commit of the intake. A larger batch could never be accepted."""
SMTP_PORTS = {"smtp": 587, "smtps": 465, "smtp+insecure": 25}
"""Default port by scheme of the mail server's URL."""
SERVICE_LINK_SCHEMES = ("tcp://", "udp://", "sctp://")
"""Schemes of the `PENSTOCK_PORT` that Kubernetes sets beside a Service named `penstock`."""
MIN_QUERY_BYTES = 64 * 1024**2
"""Minimum memory for a funnel query."""


class ItemLimits(NamedTuple):
    """Limits of the fields of one event."""

    max_id_bytes: int
    max_name_chars: int
    max_path_chars: int
    max_string_bytes: int
    max_property_keys: int


class Settings(BaseSettings):
    """The configuration. Flags of a command override the environment, which overrides defaults."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", frozen=True, extra="ignore")

    host: Annotated[str, Field(description="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int, Field(ge=0, le=65535, description="Port to listen on; 0 chooses a free one.")
    ] = 8000
    data: Annotated[Path, Field(description="Folder of the embedded stores.")] = Path(
        "penstock-data"
    )
    database_url: Annotated[
        str | None,
        Field(description="Metadata DB as an SQLAlchemy URL; default: SQLite in the data folder."),
    ] = None
    database_timeout_s: Annotated[
        float,
        Field(
            gt=0,
            description="Maximum time of one statement of the metadata DB, in seconds; "
            "half of it for a lock or a free connection.",
        ),
    ] = 15.0
    database_connections: Annotated[
        int,
        Field(
            ge=2,
            le=1_000,
            description="Connections of a node to PostgreSQL at once, beside one that listens.",
        ),
    ] = 20
    warehouse_url: Annotated[
        str | None,
        Field(
            description="ClickHouse over HTTP, `http://user:password@host:8123/db`; "
            "default: chDB in the data folder."
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

    connections: Annotated[
        int, Field(ge=1, description="Maximum number of open connections; further ones get 503.")
    ] = 4000
    address_connections: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum number of connections from one address, and of its requests "
            "at once behind a proxy; an IPv6 address counts by its /64.",
        ),
    ] = 500
    address_requests_per_second: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum rate of requests from one address, on average over ten seconds.",
        ),
    ] = 5000
    website_events_per_second: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum rate of events of one website, on average over ten seconds. "
            "Events with an API key and events without one count separately; imports do not count.",
        ),
    ] = 20_000
    header_bytes: Annotated[
        int,
        Field(ge=1024, description="Maximum size of all headers of a request, in bytes."),
    ] = 64 * 1024
    header_timeout_s: Annotated[
        float,
        Field(gt=0, description="Seconds for a request's headers, from their first byte."),
    ] = 10.0
    body_timeout_s: Annotated[
        float,
        Field(
            gt=0,
            description="Seconds for a request's body; one more for every 4 KiB that arrived.",
        ),
    ] = 30.0
    idle_timeout_s: Annotated[
        float,
        Field(gt=0, description="Seconds that a connection may wait for its next request."),
    ] = 5.0
    secret_keys: Annotated[
        SecretStr | None,
        Field(
            description="Keys that encrypt stored secrets, comma-separated; the first encrypts, "
            "all decrypt. Default: the key file."
        ),
    ] = None
    secret_key_file: Annotated[
        Path | None,
        Field(
            description="File with the keys that encrypt stored secrets, one per line; default: "
            "`secret.key` in the data folder, created at the first start."
        ),
    ] = None

    signup_open: Annotated[
        bool,
        Field(
            description="Whether anyone may sign up without an invitation once an account exists."
        ),
    ] = False
    smtp_url: Annotated[
        SecretStr | None,
        Field(
            description="Mail server, `smtp://user:password@host:587` (with STARTTLS) or "
            "`smtps://`; `smtp+insecure://` does not encrypt. Default: no email is sent."
        ),
    ] = None
    mail_from: Annotated[
        str | None,
        Field(description="Sender of emails, such as `Penstock <penstock@example.com>`."),
    ] = None
    oidc_issuer: Annotated[
        str | None,
        Field(
            description="Identity provider for single sign-on (OpenID Connect): its issuer URL, "
            "`https` except on this machine. Default: none."
        ),
    ] = None
    oidc_client_id: Annotated[
        str | None, Field(description="Client ID of Penstock at the identity provider.")
    ] = None
    oidc_client_secret: Annotated[
        SecretStr | None,
        Field(description="Client secret of Penstock at the identity provider."),
    ] = None
    oidc_scopes: Annotated[str, Field(description="Scopes to ask for, separated by spaces.")] = (
        "openid email"
    )
    oidc_name: Annotated[
        str, Field(max_length=60, description="Name in the button `Log in with ...`.")
    ] = "single sign-on"
    oidc_email_domains: Annotated[
        str | None,
        Field(
            description="Domains of email addresses that may log in by single sign-on, "
            "comma-separated; default: all."
        ),
    ] = None
    oidc_join_workspace: Annotated[
        str | None,
        Field(
            description="ID of the workspace that people without an account join by single "
            "sign-on; needs domains. Default: they are refused."
        ),
    ] = None
    oidc_join_role: Annotated[
        Literal["member", "owner"],
        Field(description="Role of people who join `PENSTOCK_OIDC_JOIN_WORKSPACE`."),
    ] = "member"
    session_days: Annotated[int, Field(ge=1, description="Days until an unused session ends.")] = 30
    failed_log_ins: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum number of failed log-ins in five minutes, of all accounts from "
            "all networks together; beyond it, every log-in gets 429.",
        ),
    ] = 3000

    max_event_bytes: Annotated[
        int, Field(ge=1024, description="Maximum size of one event, in bytes of JSON.")
    ] = 64 * 1024
    max_batch_events: Annotated[
        int,
        Field(
            ge=1,
            le=MOST_WAITING_EVENTS,
            description=f"Maximum number of events in one batch; {MOST_WAITING_EVENTS:,} or less.",
        ),
    ] = 1000
    max_body_bytes: Annotated[
        int, Field(ge=1024, description="Maximum size of a request body on the wire, in bytes.")
    ] = 2 * 1024 * 1024
    max_inflated_bytes: Annotated[
        int,
        Field(ge=1024, description="Maximum size of a request body after decompression, in bytes."),
    ] = 10 * 1024 * 1024
    bodies_bytes: Annotated[
        int,
        Field(
            ge=1024,
            description="Maximum size of all request bodies over 16 KiB that are in memory, as "
            "sent and decompressed, in bytes; half of it for one address. While a body is parsed, "
            "it briefly needs several times its size in addition.",
        ),
    ] = 128 * 1024 * 1024
    max_id_bytes: Annotated[
        int, Field(ge=1, description="Maximum length of an ID that a client sends, in bytes.")
    ] = 200
    max_name_chars: Annotated[
        int,
        Field(ge=1, description="Maximum length of an event, screen or goal name, in characters."),
    ] = 200
    max_path_chars: Annotated[
        int, Field(ge=1, description="Maximum length of a page path, in characters.")
    ] = 2000
    max_property_keys: Annotated[
        int,
        Field(
            ge=1, description="Maximum number of property keys of one event, including nested keys."
        ),
    ] = 255
    max_website_property_keys: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum number of different property keys of one website. Events without "
            "an API key add none beyond half of it.",
        ),
    ] = 2000
    max_property_depth: Annotated[
        int, Field(ge=1, description="Maximum nesting depth of properties.")
    ] = 5
    max_string_bytes: Annotated[
        int, Field(ge=1, description="Maximum length of a string in properties, in bytes.")
    ] = 8 * 1024
    max_import_bytes: Annotated[
        int, Field(ge=1024, description="Maximum size of an import file on the wire, in bytes.")
    ] = 2 * 1024**3
    max_import_inflated_bytes: Annotated[
        int,
        Field(ge=1024, description="Maximum size of an import file after decompression, in bytes."),
    ] = 50 * 1024**3
    max_import_rejects: Annotated[
        int,
        Field(
            ge=1,
            le=1_000_000,
            description="Number of rejected lines after which an import stops.",
        ),
    ] = 10_000
    future_tolerance_s: Annotated[
        int, Field(ge=0, description="Seconds that a timestamp may be ahead of the server's clock.")
    ] = 300
    dedupe_days: Annotated[
        int, Field(ge=100, description="Days that deduplication keys are kept, at least 100.")
    ] = 400
    daily_events: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum number of events without an API key that each website stores in a "
            "day (UTC). Events with a key, imports and payment providers do not count.",
        ),
    ] = 5_000_000
    quarantine_rows: Annotated[
        int,
        Field(ge=1, description="Maximum number of events in the quarantine of one website."),
    ] = 1000
    quarantine_bytes: Annotated[
        int,
        Field(ge=1024, description="Maximum size of the quarantine of one website, in bytes."),
    ] = 10 * 1024**2
    outbox_age_s: Annotated[
        int,
        Field(
            ge=1,
            description="Age of the oldest waiting event, in seconds, at which a node is not "
            "ready.",
        ),
    ] = 300

    link_host: Annotated[
        str | None,
        Field(
            description="Host of managed links, such as `go.example.com`, which serves nothing "
            "else; default: that of `PENSTOCK_PUBLIC_URL`."
        ),
    ] = None
    links_to_private_hosts: Annotated[
        bool,
        Field(
            description="Whether the fallback URL of a managed link may point to a private "
            "host, such as `localhost`."
        ),
    ] = False

    geoip: Annotated[
        Path | None,
        Field(
            description="Country or city database in MaxMind's format, for the country of "
            "clicks; none is included."
        ),
    ] = None
    install_referrer_days: Annotated[
        int,
        Field(
            ge=1,
            le=30,
            description="Days after a click in which a Google Play install referrer still "
            "matches it.",
        ),
    ] = 7
    clicks_per_minute: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum number of clicks per minute that one link stores; an app stores "
            "five times as many. People are led on all the same, and more clicks are counted only.",
        ),
    ] = 6_000
    resolves_per_minute: Annotated[
        int,
        Field(ge=1, description="Maximum number of app opens per minute from one network address."),
    ] = 300

    query_timeout_s: Annotated[
        float,
        Field(
            gt=0,
            description="Maximum time of one funnel query, in seconds; a workspace may lower it.",
        ),
    ] = 60.0
    stored_outcomes: Annotated[
        int,
        Field(
            ge=0,
            le=200,
            description="Maximum number of saved funnels whose outcomes are stored; 0: none.",
        ),
    ] = 50
    stored_outcomes_after_ms: Annotated[
        int,
        Field(
            ge=0,
            description="A saved funnel's outcomes are stored once a query about it takes longer "
            "than this, in milliseconds.",
        ),
    ] = 200
    query_memory_bytes: Annotated[
        int,
        Field(
            ge=MIN_QUERY_BYTES,
            description="Maximum memory of one funnel query, in bytes; a workspace may lower it.",
        ),
    ] = 4 * 1024**3
    queries_at_once: Annotated[
        int,
        Field(
            ge=1, le=64, description="Maximum number of concurrent warehouse queries; others wait."
        ),
    ] = 4
    queries_per_workspace: Annotated[
        int,
        Field(
            ge=1,
            le=64,
            description="Maximum number of concurrent warehouse queries of one workspace, so that "
            "others get a turn.",
        ),
    ] = 3
    fresh_wait_s: Annotated[
        float,
        Field(
            ge=0,
            description="Maximum seconds that a report waits for events acknowledged before it.",
        ),
    ] = 5.0
    metrics_port: Annotated[
        int | None,
        Field(
            ge=0,
            le=65535,
            description="Port of `/metrics` for Prometheus; 0 chooses a free one; default: none.",
        ),
    ] = None
    metrics_host: Annotated[
        str,
        Field(description="Address that `/metrics` listens on; it has no log-in."),
    ] = "127.0.0.1"
    otlp_endpoint: Annotated[
        str | None,
        Field(
            description="Base URL of an OpenTelemetry collector over HTTP, such as "
            "`http://localhost:4318`, that gets traces; default: none. Needs "
            "`.venv/bin/pip install -e '.[telemetry]'` in the checkout."
        ),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Field(description="Minimum level of log messages."),
    ] = "info"

    @field_validator("data", "secret_key_file", "geoip", mode="before")
    @classmethod
    def _require_path(cls, path: object) -> object:
        """Reject an empty path from a script's unset variable: it means the current folder."""
        if isinstance(path, str) and not path.strip():
            raise PydanticCustomError("empty_path", "Must not be empty; unset it for the default.")
        return path

    @field_validator("port", "metrics_port", mode="before")
    @classmethod
    def _ignore_service_link(cls, port: Any, info: ValidationInfo) -> Any:
        """Ignore an address that Kubernetes set instead of a port, so that the start succeeds."""
        if isinstance(port, str) and port.startswith(SERVICE_LINK_SCHEMES):
            return cls.model_fields[info.field_name or ""].default
        return port

    @field_validator("database_url", "warehouse_url", "public_url", "otlp_endpoint", mode="before")
    @classmethod
    def _read_empty_url(cls, url: object) -> object:
        """Treat an empty URL, from a script's unset variable, as the default."""
        return None if isinstance(url, str) and not url.strip() else url

    @field_validator("warehouse_url")
    @classmethod
    def _require_clickhouse(cls, url: str | None) -> str | None:
        if url is not None and not is_http_url(url):
            raise PydanticCustomError(
                "not_a_clickhouse_url",
                "Must be the HTTP address of a ClickHouse server, such as "
                "http://user:password@host:8123/penstock.",
            )
        return url

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

    @field_validator("otlp_endpoint")
    @classmethod
    def _require_telemetry(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not is_http_url(endpoint):
            raise PydanticCustomError(
                "not_a_collector", "Must be a URL such as http://localhost:4318."
            )
        if endpoint is not None and find_spec("opentelemetry") is None:
            raise PydanticCustomError(
                "no_telemetry",
                "Traces need more packages. Run this in the checkout: "
                ".venv/bin/pip install -e '.[telemetry]'",
            )
        return endpoint

    @field_validator("trusted_proxies")
    @classmethod
    def _require_addresses(cls, proxies: str) -> str:
        """Reject host names, which never match: the connection's IP address is compared."""
        entries = (
            []
            if proxies == "*"
            else [proxy.strip() for proxy in proxies.split(",") if proxy.strip()]
        )
        for proxy in entries:
            try:
                ip_network(proxy)
            except ValueError as error:
                message = (
                    "'{proxy}' is not an IP address or a network such as 10.0.0.0/8; "
                    "use '*' alone to trust all proxies."
                )
                raise PydanticCustomError("not_an_address", message, {"proxy": proxy}) from error
        return proxies

    @field_validator("smtp_url")
    @classmethod
    def _require_smtp(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not _is_smtp_url(url.get_secret_value()):
            raise PydanticCustomError(
                "not_an_smtp_url", "Must be a URL such as smtp://user:password@host:587."
            )
        return url

    @field_validator("link_host")
    @classmethod
    def _require_host(cls, host: str | None) -> str | None:
        if host is not None and not is_host(host):
            raise PydanticCustomError(
                "not_a_host", "Must be a host name such as go.example.com, without https://."
            )
        return host and host.lower()

    @field_validator("mail_from")
    @classmethod
    def _require_sender(cls, sender: str | None) -> str | None:
        if sender is not None and not ("@" in parseaddr(sender)[1] and sender.isprintable()):
            raise PydanticCustomError(
                "not_a_sender", "Must be an address such as Penstock <penstock@example.com>."
            )
        return sender

    @field_validator("oidc_issuer")
    @classmethod
    def _require_issuer(cls, issuer: str | None) -> str | None:
        if issuer is not None and not is_provider_url(issuer):
            raise PydanticCustomError(
                "not_an_issuer", "Must be an https URL; http only for this machine."
            )
        return issuer

    @model_validator(mode="after")
    def _require_server_of_cluster(self) -> "Settings":
        if self.warehouse_cluster and not self.warehouse_url:
            raise PydanticCustomError(
                "warehouse_url_missing",
                "PENSTOCK_WAREHOUSE_CLUSTER also needs PENSTOCK_WAREHOUSE_URL.",
            )
        return self

    @model_validator(mode="after")
    def _require_client(self) -> "Settings":
        if self.oidc_issuer and not (self.oidc_client_id and self.oidc_client_secret):
            raise PydanticCustomError(
                "client_missing",
                "PENSTOCK_OIDC_ISSUER also needs PENSTOCK_OIDC_CLIENT_ID and "
                "PENSTOCK_OIDC_CLIENT_SECRET.",
            )
        if self.oidc_join_workspace and not self.oidc_email_domains:
            raise PydanticCustomError(
                "domains_missing",
                "PENSTOCK_OIDC_JOIN_WORKSPACE also needs PENSTOCK_OIDC_EMAIL_DOMAINS.",
            )
        return self

    @model_validator(mode="after")
    def _require_host_of_its_own(self) -> "Settings":
        if self.link_host and host_name(self.link_url) == host_name(self.base_url):
            raise PydanticCustomError(
                "same_host", "PENSTOCK_LINK_HOST must differ from the host of PENSTOCK_PUBLIC_URL."
            )
        return self

    @model_validator(mode="after")
    def _require_mail_from(self) -> "Settings":
        if self.smtp_url is not None and self.mail_from is None:
            raise PydanticCustomError(
                "mail_from_missing", "PENSTOCK_SMTP_URL also needs PENSTOCK_MAIL_FROM."
            )
        return self

    @cached_property
    def item_limits(self) -> ItemLimits:
        return ItemLimits(*(getattr(self, name) for name in ItemLimits._fields))

    @property
    def base_url(self) -> str:
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def link_url(self) -> str:
        """Base URL of managed links."""
        if self.link_host is None:
            return self.base_url
        return f"{urlsplit(self.base_url).scheme}://{self.link_host}"

    @property
    def link_urls(self) -> tuple[str, ...]:
        """All base URLs that serve links: `link_url` first, and always `base_url`."""
        return tuple(dict.fromkeys((self.link_url, self.base_url)))

    @property
    def metadb_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data / 'penstock.sqlite3'}"


def _is_smtp_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in SMTP_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not a number
        return False
