"""Plain types of rejections. No I/O."""

from sys import getsizeof
from typing import NamedTuple

from penstock.base.errors import Fault
from penstock.base.ids import WebsiteId

_OBJECTS_BYTES = 1_000


class Rejection(NamedTuple):
    """A rejected item, or a rejected body.

    number: rises with each rejection. website_id: None when the item names none of the workspace.
    code: of the problem document; `invalid` for an item of a batch. item: a redacted excerpt; None
    for a body that is not JSON, and for a whole batch. more_faults: number of faults that `faults`
    leaves out.
    """

    number: int
    at_ms: int
    route: str
    website_id: WebsiteId | None
    code: str
    faults: tuple[Fault, ...]
    more_faults: int
    item: str | None

    @property
    def size(self) -> int:
        """About how many bytes it takes in memory."""
        texts = [self.route, self.item or ""]
        texts += [text for fault in self.faults for text in (fault.field, fault.message)]
        return _OBJECTS_BYTES + sum(map(getsizeof, texts))
