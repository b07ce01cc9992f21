"""Plain types of the outbox. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.events.model import Target


class Bundle(NamedTuple):
    """Rows of one table, a JSON object per line. number: its row in the outbox."""

    number: int
    lines: str


class UnshippableRow(NamedTuple):
    """The only row of a shipment, which the warehouse refuses. message: what it says."""

    line: str
    code: str
    message: str


@dataclass(slots=True)
class Shipment:
    """Bundles of rows that go to the warehouse together; a number always has the same bundles.

    shipped: how many of the bundles, from the first, are in the warehouse; whoever ships it says
    so, whatever happened to the rest. refused: the row to put into the quarantine.
    """

    number: int
    target: Target
    bundles: Sequence[Bundle]
    shipped: int = 0
    refused: UnshippableRow | None = None
