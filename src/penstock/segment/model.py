"""Plain types of the tracking protocol. No I/O."""

from typing import NamedTuple

from penstock.accounts.model import Website
from penstock.events.batch import ItemResult
from penstock.identity.model import Notice


class Post(NamedTuple):
    """A body as it was posted.

    call_type: of a single call, or `batch` or `import`. path: names the body in the quarantine.
    address: of the client, empty for one without limits. write_key: of the headers; else the body
    has it.
    """

    call_type: str
    path: str
    body: bytes
    address: str
    write_key: str | None
    user_agent: str


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
