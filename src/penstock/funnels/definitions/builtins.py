"""Built-in fields of events. Filters and breakdowns use them like properties, with a `$` name."""

from collections.abc import Mapping

PATH = "$path"
"""The page on which an event occurred."""

BUILTIN_COLUMNS: Mapping[str, str] = {
    PATH: "path",
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
"""Column of `events` by property name. An empty column means that the event lacks the field."""

TOUCH_COLUMNS = ("utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term", "link")
"""An event with a value in any of these columns is a touch. See "First and last touch" in
docs/funnels.md.
"""

TOUCH_FIELDS: Mapping[str, tuple[str, str]] = {
    f"${which}_{column}": (which, column)
    for which in ("first", "last")
    for column in ("utm_source", "utm_medium", "utm_campaign", "link")
}
"""For each touch field: which touch it comes from (the first or the last up to the event), and the
column of that touch.
"""

TRAIT_PREFIX = "$trait."
"""The rest of such a name is the name of a trait of the event's canonical visitor."""
FIRST_TIME = "$first_time"
"""Whether an event is its visitor's first that satisfies the rest of its match. Only for filters.
"""

COHORT = "$cohort"
"""Whether the event's canonical visitor is in the saved cohort whose ID is the value of a filter.
Only for filters of steps and of a request.
"""
COHORT_PREFIX = "$cohort."
"""The rest of such a name is the ID of a saved cohort. The value is `IN_COHORT` for an event whose
canonical visitor is in it, and otherwise `OUT_OF_COHORT`. Only for breakdowns.
"""
IN_COHORT, OUT_OF_COHORT = "in", "out"

VISITOR_KEY = "$visitor"
"""Key of an attempt: the event's canonical visitor."""
SESSION_KEY = "$session"
"""Key of an attempt: the tracker's session, within its website and canonical visitor."""
ATTEMPT_BUILTINS = (VISITOR_KEY, SESSION_KEY)
"""Built-in keys of attempts. Filters and breakdowns do not have them."""

BUILTIN_FIELDS = (*BUILTIN_COLUMNS, *TOUCH_FIELDS)


def trait_of(key: str) -> str | None:
    """Return the name of the trait that a key stands for; None for other keys."""
    return key.removeprefix(TRAIT_PREFIX) if key.startswith(TRAIT_PREFIX) else None


def is_of_visitor(key: str) -> bool:
    """Whether a key of attempts comes from an event's visitor or session, not from a property of
    the event.
    """
    return key in ATTEMPT_BUILTINS or trait_of(key) is not None


def cohort_of(key: str) -> str | None:
    """Return the ID of the saved cohort that a key stands for; None for other keys."""
    return key.removeprefix(COHORT_PREFIX) if key.startswith(COHORT_PREFIX) else None
