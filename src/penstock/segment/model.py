"""Plain types of the tracking protocol. No I/O."""

from typing import NamedTuple

from penstock.accounts.model import Website
from penstock.events.batch import ItemResult
from penstock.identity.model import Notice


class Sender(NamedTuple):
    """Whose write key a body has.

    is_trusted: the key is an API key, which a backend keeps; else it is the website's ID, which
    anybody may know.
    """

    website: Website
    is_trusted: bool


class CallResult(NamedTuple):
    """What became of one call. rejected: None for one that was accepted."""

    rejected: ItemResult | None = None
    warnings: tuple[Notice, ...] = ()
