"""Settings for events, links and reports."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from penstock.base.event_limits import MAX_IMPORT_REJECTED_PERCENT, MAX_IMPORT_REJECTS
from penstock.base.service_urls import is_host
from penstock.settings.group import SettingGroup, rule

MIN_QUERY_BYTES = 64 * 1024**2
"""Minimum memory for a funnel query, in bytes."""


class EventSettings(SettingGroup):
    """Limits for events and imports."""

    title = "Events"

    website_events_per_second: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum rate of events of one website, on average over ten seconds. "
            "Events with and without an API key count separately; imports do not count.",
        ),
    ] = 20_000
    daily_events: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum number of events without an API key that each website stores in a "
            "day (UTC). Events with a key, imports and payment providers do not count.",
        ),
    ] = 5_000_000
    max_website_property_keys: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum number of different property keys of one website. Events without "
            "an API key can add only half of this number.",
        ),
    ] = 2000
    max_import_bytes: Annotated[
        int, Field(ge=1024, description="Maximum size of an import file on the wire, in bytes.")
    ] = 2 * 1024**3
    max_import_rejects: Annotated[
        int,
        Field(
            ge=1,
            description="Rejected lines from which an import ends, if they also exceed "
            "`PENSTOCK_MAX_IMPORT_REJECTED_PERCENT` and have several reasons.",
        ),
    ] = MAX_IMPORT_REJECTS
    max_import_rejected_percent: Annotated[
        int,
        Field(
            ge=0,
            le=100,
            description="Share of rejected lines, in percent of the lines read so far, beyond "
            "which an import with `PENSTOCK_MAX_IMPORT_REJECTS` rejected lines ends.",
        ),
    ] = MAX_IMPORT_REJECTED_PERCENT
    dedupe_days: Annotated[
        int, Field(ge=100, description="Days for which deduplication keys are kept.")
    ] = 400


class LinkSettings(SettingGroup):
    """Managed links."""

    title = "Links"

    link_host: Annotated[
        str | None,
        Field(
            description="Host of managed links, such as `go.example.com`, which serves nothing "
            "else; default: the host of `PENSTOCK_PUBLIC_URL`."
        ),
        rule(
            is_host, "not_a_host", "Must be a host name such as go.example.com, without https://."
        ),
        AfterValidator(lambda host: host and host.lower()),
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
            "clicks. Penstock does not include one."
        ),
    ] = None
    install_referrer_days: Annotated[
        int,
        Field(
            ge=1,
            le=30,
            description="Number of days for which a Google Play install referrer still matches "
            "a click.",
        ),
    ] = 7
    clicks_per_minute: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum number of clicks per minute that one link stores; an app stores "
            "five times as many. Further clicks get the same response, but are only counted.",
        ),
    ] = 6_000


class ReportSettings(SettingGroup):
    """Limits for queries."""

    title = "Reports"

    query_timeout_s: Annotated[
        float,
        Field(
            gt=0,
            description="Maximum time of one funnel query, in seconds; a workspace may lower it.",
        ),
    ] = 60.0
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
            "other workspaces get a turn. At most half of all, but at least one.",
        ),
    ] = 2
    stored_outcomes: Annotated[
        int,
        Field(
            ge=0,
            le=200,
            description="Maximum number of saved funnels whose outcomes are stored; 0 stores none.",
        ),
    ] = 50
