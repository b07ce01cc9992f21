"""Plain types of the tracking protocol. No I/O."""

from typing import NamedTuple

from penstock.accounts.model import Website
from penstock.events.batch import ItemResult
from penstock.identity.model import Notice


class Sender(NamedTuple):
    """The website of a write key.

    is_trusted: the key is an API key, which a backend keeps; else it is the website's ID, which
    anybody may know.
    """

    website: Website
    is_trusted: bool


class CallResult(NamedTuple):
    """The result of one call. rejected: None for an accepted call."""

    rejected: ItemResult | None = None
    warnings: tuple[Notice, ...] = ()
