"""Plain types of rejections. No I/O."""

from typing import NamedTuple

from penstock.base.errors import Fault
from penstock.base.ids import WebsiteId


class Rejection(NamedTuple):
    """A rejected item, or a rejected body.

    number: rises with each rejection. website_id: None when the item names none of the workspace.
    code: of the problem document; `invalid` for an item of a batch. item: a redacted excerpt; None
    for a body that is not JSON, and for a whole batch.
    """

    number: int
    at_ms: int
    route: str
    website_id: WebsiteId | None
    code: str
    faults: tuple[Fault, ...]
    item: str | None
