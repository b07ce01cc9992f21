"""Plain types for the outbox. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.events.model import Target


class Bundle(NamedTuple):
    """Rows of one table, as one JSON object per line. number: ID of the bundle's row in the
    outbox.
    """

    number: int
    lines: str


class UnshippableRow(NamedTuple):
    """The only unshipped row of a shipment, which the warehouse refused.

    message: the warehouse's error.
    """

    line: str
    code: str
    message: str


@dataclass(slots=True)
class Shipment:
    """Bundles of rows that go to the warehouse together.

    A shipment number always stands for the same bundles.
    shipped: number of leading bundles that are in the warehouse; the shipper sets it, even if the
    rest failed. refused: the row to put into the quarantine.
    """

    number: int
    target: Target
    bundles: Sequence[Bundle]
    shipped: int = 0
    refused: UnshippableRow | None = None
