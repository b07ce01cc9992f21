"""Wire types shared by visitors and recent events."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from msgspec import json
from pydantic import AfterValidator, Field

from penstock.base.clock import iso
from penstock.http.schema import Record, without_nul

Kind = Literal["pageview", "screenview", "event", "transaction", "provider"]
Source = Literal["server", "browser", "app", "import", "provider"]

Text = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(without_nul)]


class StoredEventRecord(Record):
    """A stored event. Missing fields are null."""

    event_id: str
    website_id: str
    kind: Kind
    name: str
    source: Source
    occurred_at: str
    received_at: str
    stated_at: str
    """Time as the sender stated it. In `occurredAt`, the error of the sender's clock is corrected.
    """
    visitor_id: str
    """Visitor ID when the event was stored. It may have been merged since."""
    user_id: str | None
    session_id: str | None
    external_session_id: str | None
    path: str | None
    url: str | None
    title: str | None
    referrer: str | None
    referrer_host: str | None
    country: str | None
    region: str | None
    device: str | None
    os: str | None
    browser: str | None
    utm_source: str | None
    utm_medium: str | None
    utm_campaign: str | None
    utm_content: str | None
    utm_term: str | None
    link: str | None
    """Slug of the managed link that an install or open came from."""
    link_method: str | None
    """How the install or open was matched: url, install_referrer, click_token or network."""
    client_event_id: str | None
    """The sender's own `eventId`, `dedupeKey` or `transactionId`."""
    verified: bool
    """For provider events: whether the signed payload identifies the visitor."""
    properties: dict[str, Any]

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the record for a row. The row may come from any statement in this room that
        returns events.
        """
        values = {name: value for name in cls.model_fields if (value := row.get(name)) is not None}
        values |= {
            name: values.get(name) or None
            for name, field in cls.model_fields.items()
            if field.annotation == (str | None)
        }
        times = {
            f"{name}_at": iso(row[f"{name}_ms"]) for name in ("occurred", "received", "stated")
        }
        return cls(**values | times | {"properties": json.decode(row["properties"] or "{}")})
