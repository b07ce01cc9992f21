"""All settings: the environment variables `PENSTOCK_<NAME>`, which are read once at the start and
never change.
"""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from pydantic import PrivateAttr, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import SettingsConfigDict

from penstock.base.disk_space import DiskSpace
from penstock.base.service_urls import host_name
from penstock.base.wording import listed
from penstock.settings.group import SettingGroup
from penstock.settings.people import AccountSettings, MailSettings, SingleSignOnSettings
from penstock.settings.product import EventSettings, LinkSettings, ReportSettings
from penstock.settings.service import (
    AddressSettings,
    MonitoringSettings,
    OutboundSettings,
    RequestSettings,
    StoreSettings,
)

DAY_S = 86_400
SERVICE_LINK_SCHEMES = ("tcp://", "udp://", "sctp://")
"""URL schemes in the value of `PENSTOCK_PORT` that Kubernetes sets for a Service named
`penstock`.
"""
GROUPS: tuple[type[SettingGroup], ...] = (
    AddressSettings,
    StoreSettings,
    AccountSettings,
    MailSettings,
    SingleSignOnSettings,
    RequestSettings,
    EventSettings,
    LinkSettings,
    ReportSettings,
    OutboundSettings,
    MonitoringSettings,
)

_NEEDS = {
    "warehouse_cluster": ("warehouse_url",),
    "smtp_url": ("mail_from",),
    "oidc_issuer": ("oidc_client_id", "oidc_client_secret"),
    "oidc_join_workspace": ("oidc_email_domains",),
}
"""Settings that need others, by name."""


@dataclass(frozen=True)
class Limits:
    """Limits that operators cannot change. Only tests change them, using `with_limits`."""

    database_timeout_s: float = 15.0
    """Maximum time for one statement in the metadata DB, in seconds. Waiting for a lock or a free
    connection may take half of it.
    """
    header_timeout_s: float = 10.0
    """Maximum seconds for a request's headers, from their first byte."""
    body_timeout_s: float = 30.0
    """Maximum seconds for a request's body, plus one second for every 4 KiB that arrived."""
    failed_log_ins: int = 3000
    """Maximum number of failed log-ins in five minutes, in total. Beyond that, every log-in gets
    429.
    """
    max_body_bytes: int = 2 * 1024**2
    """Maximum size of a request body on the wire, in bytes."""
    max_inflated_bytes: int = 10 * 1024**2
    """Maximum size of a request body after decompression, in bytes."""
    max_import_inflated_bytes: int = 50 * 1024**3
    """Maximum size of an import file after decompression, in bytes."""
    quarantine_rows: int = 1000
    """Maximum number of events in one website's quarantine."""
    quarantine_bytes: int = 10 * 1024**2
    """Maximum size of one website's quarantine, in bytes."""
    fresh_wait_s: float = 5.0
    """Maximum seconds that a report waits for events that were acknowledged before the report was
    requested.
    """
    receipt_wait_s: float = 2.0
    """Seconds in which events that were received before a receipt's time reach the metadata DB."""
    stored_outcomes_after_ms: int = 200
    """Minimum query time in milliseconds at which a saved funnel's outcomes are stored."""


class Settings(
    MonitoringSettings,
    OutboundSettings,
    ReportSettings,
    LinkSettings,
    EventSettings,
    RequestSettings,
    SingleSignOnSettings,
    MailSettings,
    AccountSettings,
    StoreSettings,
    AddressSettings,
):
    """The configuration. Command-line flags override the environment, which overrides the
    defaults.
    """

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", frozen=True, extra="ignore")

    _limits: Limits = PrivateAttr(default=Limits())

    def share(self, limit: int) -> int:
        """Return this node's share of a limit that all nodes keep together; at least 1."""
        return max(1, limit // self.nodes)

    @field_validator("data", "secret_key_file", "geoip", mode="before")
    @classmethod
    def _require_path(cls, path: object) -> object:
        """Reject an empty path, for example from an unset variable, because it would mean the
        current folder.
        """
        if isinstance(path, str) and not path.strip():
            raise PydanticCustomError("empty_path", "Must not be empty; unset it for the default.")
        return path

    @field_validator("port", "metrics_port", mode="before")
    @classmethod
    def _ignore_service_link(cls, port: Any, info: ValidationInfo) -> Any:
        """Ignore a port that Kubernetes has set to a URL, so that the service still starts."""
        if isinstance(port, str) and port.startswith(SERVICE_LINK_SCHEMES):
            return cls.model_fields[info.field_name or ""].default
        return port

    @field_validator("database_url", "warehouse_url", "public_url", "otlp_endpoint", mode="before")
    @classmethod
    def _read_empty_url(cls, url: object) -> object:
        """Treat an empty URL, for example from an unset variable, as the default."""
        return None if isinstance(url, str) and not url.strip() else url

    @model_validator(mode="after")
    def _require_others(self) -> "Settings":
        for name, others in _NEEDS.items():
            if getattr(self, name) and not all(getattr(self, other) for other in others):
                variables = [f"PENSTOCK_{each.upper()}" for each in (name, *others)]
                message = f"{variables[0]} also needs {listed(variables[1:])}."
                raise PydanticCustomError("setting_missing", message)
        return self

    @model_validator(mode="after")
    def _require_separate_link_host(self) -> "Settings":
        if self.link_host and host_name(self.link_url) == host_name(self.base_url):
            raise PydanticCustomError(
                "same_host", "PENSTOCK_LINK_HOST must differ from the host of PENSTOCK_PUBLIC_URL."
            )
        return self

    @property
    def limits(self) -> Limits:
        return self._limits

    def with_limits(self, **limits: float) -> "Settings":
        """Return a copy with other limits, for tests; no environment variable sets them."""
        changed = self.model_copy()
        changed._limits = replace(self._limits, **limits)  # type: ignore[arg-type]
        return changed

    @property
    def base_url(self) -> str:
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def local_url(self) -> str:
        """URL under which this machine reaches the service."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def link_url(self) -> str:
        """Base URL of managed links."""
        if self.link_host is None:
            return self.base_url
        return f"{urlsplit(self.base_url).scheme}://{self.link_host}"

    @property
    def link_urls(self) -> tuple[str, ...]:
        """All base URLs that serve links: `link_url` first, always including `base_url`."""
        return tuple(dict.fromkeys((self.link_url, self.base_url)))

    @property
    def disk_space(self) -> DiskSpace:
        """The disk of the data folder."""
        return DiskSpace(self.data, self.min_free_disk_bytes)

    @property
    def metadb_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data / 'penstock.sqlite3'}"
