"""Built-in event fields, which filters and breakdowns name like properties, with a `$`."""

from collections.abc import Mapping

BUILTIN_COLUMNS: Mapping[str, str] = {
    "$path": "path",
    "$referrer_host": "referrer_host",
    "$country": "country",
    "$region": "region",
    "$device": "device",
    "$os": "os",
    "$browser": "browser",
    "$utm_source": "utm_source",
    "$utm_medium": "utm_medium",
    "$utm_campaign": "utm_campaign",
    "$utm_content": "utm_content",
    "$utm_term": "utm_term",
    "$source": "source",
    "$external_session_id": "external_session_id",
}
"""Property name -> column of the warehouse's `events`. An empty column means that the event lacks the field."""
