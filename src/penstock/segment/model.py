"""Plain types of the tracking protocol. No I/O."""

from typing import NamedTuple

from penstock.accounts.model import Website
from penstock.events.batch import ItemResult
from penstock.identity.model import Notice


class Post(NamedTuple):
    """A posted body.

    call_type: a single call's type, or `batch` or `import`. path: names the body in the quarantine.
    address: the client's address; empty for a client without limits. write_key: the key in the
    headers; None when the body has it.
    """

    call_type: str
    path: str
    body: bytes
    address: str
    write_key: str | None
    user_agent: str


class Sender(NamedTuple):
    """The website of a write key.

    is_trusted: whether the key is an API key, which a backend keeps secret, rather than the
    website's ID, which anyone may know.
    """

    website: Website
    is_trusted: bool


class CallResult(NamedTuple):
    """The result of one call. rejected: None for an accepted call."""

    rejected: ItemResult | None = None
    warnings: tuple[Notice, ...] = ()
