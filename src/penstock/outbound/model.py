"""Plain types for deliveries. No I/O."""

from typing import NamedTuple


class Reply(NamedTuple):
    """The response to a delivery. text: the first 500 characters of its body."""

    status: int
    text: str

    @property
    def is_accepted(self) -> bool:
        return 200 <= self.status < 300


class DeliveryFailed(Exception):
    """A delivery got no response. reason: a sentence for the member who chose the address; it
    contains no address of the operator's network.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
