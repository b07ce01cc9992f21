"""Value types for identity. No I/O."""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from penstock.base.ids import ImportId, ScopeId, VisitorId, WebsiteId


class Notice(NamedTuple):
    """A warning in a successful response. code: a stable identifier for programs."""

    code: str
    message: str


class Trust(IntEnum):
    """How much the IDs in a claim can be trusted. The values are stored, so they must never change.

    A claim never overrides a claim of higher trust. Links from before trust was stored count as
    `BACKEND`.
    """

    NONE = 0
    PUBLIC = 1
    """Sent by a browser or an app without proof: the sender could be anyone."""
    SIGNED = 2
    """Sent by a browser or an app, with a signature of the user ID made by the customer's
    backend.
    """
    BACKEND = 3
    """Sent by the customer's backend, with an API key."""
    PROVIDER = 4
    """Sent by a payment provider, in signed metadata."""


class StatedTraits(NamedTuple):
    """Traits of a user in an identify call or in a line of a file. `traits.py` has the rules.

    values: by name; null removes a trait. once: values for a user without the trait. at_ms: when
    they were stated, in milliseconds; None for now. is_import: whether a file states them.
    """

    values: Mapping[str, Any]
    once: Mapping[str, Any] = MappingProxyType({})
    at_ms: int | None = None
    is_import: bool = False


class Claim(NamedTuple):
    """The IDs in an event or an identify call, as sent. At least one of them is set.

    traits: None if the call has none. website_id: the website of an identify call; None for events.
    import_id: the import whose line states it.
    """

    scope_id: ScopeId
    visitor_id: str | None
    user_id: str | None
    traits: StatedTraits | None = None
    trust: Trust = Trust.BACKEND
    website_id: WebsiteId | None = None
    import_id: ImportId | None = None


class Resolution(NamedTuple):
    """The canonical visitor that a claim resolves to. merged: whether the claim merged two
    visitors.
    """

    visitor_id: VisitorId
    merged: bool = False
    notices: tuple[Notice, ...] = ()


PLACEHOLDER = Notice(
    "placeholder_id",
    "An ID is a placeholder such as null or anonymous. It was stored as sent, but not linked.",
)
CONFLICT = Notice(
    "identity_conflict",
    "This visitor belongs to another user. Nothing was merged; the user's own visitor was used.",
)
TOO_MANY_VISITORS = Notice(
    "too_many_visitors",
    "This user already has too many visitors to link another one without proof. The ID was stored, "
    "but not linked.",
)

MAX_VISITORS_BY_PUBLIC_CLAIMS = 1_000
"""Once a user has this many absorbed visitors, only a claim with proof can add another."""


def redact(resolution: Resolution, visitor_id: str) -> Resolution:
    """Remove all information that a sender without an API key did not send itself."""
    notices = tuple(
        notice for notice in resolution.notices if notice in (PLACEHOLDER, TOO_MANY_VISITORS)
    )
    return Resolution(VisitorId(visitor_id), notices=notices)


class Alias(NamedTuple):
    """A warehouse row for an absorbed or released visitor. version: the merge's number."""

    scope_id: ScopeId
    visitor_id: VisitorId
    canonical_id: VisitorId
    version: int


class TraitsChange(NamedTuple):
    """The traits that a canonical visitor has from now on. They are its user's; empty if there are
    none.
    """

    scope_id: ScopeId
    visitor_id: VisitorId
    traits: Mapping[str, Any]


class IdentityChanges(NamedTuple):
    """The changes of a transaction, for the caller to ship to the warehouse.

    aliases: one for each visitor that was absorbed or released. traits: one for each visitor.
    """

    aliases: list[Alias]
    traits: list[TraitsChange]


class AllIds(NamedTuple):
    """All IDs of a visitor at one moment, with the canonical ID first, and the visitor's user.

    merges: number of merges into the visitor. last_merge: number of the newest merge; 0 if there is
    none.
    """

    ids: Sequence[VisitorId]
    user_id: str | None
    merges: int
    last_merge: int


class VisitorRemoval(NamedTuple):
    """The rows that were removed with a visitor.

    ids: the canonical ID and all absorbed IDs; empty for a user without a visitor.
    visitors, user_links: number of removed rows.
    last_merge: number of the newest removed merge; 0 if there is none.
    is_open: whether rows of absorbed visitors remain; the caller removes them in batches.
    """

    ids: tuple[VisitorId, ...] = ()
    visitors: int = 0
    user_links: int = 0
    last_merge: int = 0
    user_id: str | None = None
    is_open: bool = False


_PLACEHOLDERS = frozenset(
    (
        "", "(null)", "-", "-1", "0", "[object object]", "anonymous", "distinct_id", "distinctid",
        "email", "false", "guest", "id", "n/a", "na", "nil", "none", "not_authenticated", "null",
        "true", "undefined", "unknown", "user_id", "userid", "visitor_id", "visitorid",
        "00000000-0000-0000-0000-000000000000",
    )
)  # fmt: skip

_TEMPLATE_MARKS = (("{{", "}}"), ("${", "}"), ("%", "%"))
"""Delimiters of a variable that a template engine failed to replace, such as `{{user.id}}`."""


@lru_cache(maxsize=20_000)
def is_placeholder(sent_id: str) -> bool:
    """Whether an ID identifies nobody. Clients send such IDs when a variable is empty.

    Linking a placeholder would merge strangers. The comparison ignores case, surrounding whitespace
    and quotes.
    """
    text = sent_id.strip(" \t\r\n\"'")
    return (
        text.casefold() in _PLACEHOLDERS
        or text == "NaN"  # "Nan" and "nan" may be names
        or any(
            text.startswith(begin) and text.endswith(end) and len(text) > len(begin + end)
            for begin, end in _TEMPLATE_MARKS
        )
    )
