"""Plain types for the tracking protocol. No I/O."""

from typing import NamedTuple

from penstock.accounts.model import Website
from penstock.events.batch import ItemResult
from penstock.identity.model import Notice


class Post(NamedTuple):
    """A posted body.

    call_type: the type of a single call, or `batch` or `import`. path: the URL path, shown in the
    quarantine. address: the client's IP address; empty for clients without rate limits. write_key:
    the key from the headers; None if the body contains it.
    """

    call_type: str
    path: str
    body: bytes
    address: str
    write_key: str | None
    user_agent: str


class Sender(NamedTuple):
    """The website of a write key.

    is_trusted: True if the key is an API key, which a backend keeps secret; False if it is the
    website's ID, which anyone may know.
    """

    website: Website
    is_trusted: bool


class CallResult(NamedTuple):
    """The result of one call. rejected: the errors; None if the call was accepted."""

    rejected: ItemResult | None = None
    warnings: tuple[Notice, ...] = ()
