"""Built-in event fields. Filters and breakdowns name them like properties, with a `$`."""

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
    "$link": "link",
    "$link_method": "link_method",
    "$source": "source",
    "$external_session_id": "external_session_id",
}
"""Property name -> column of `events`. An empty column means that the event lacks the field."""
