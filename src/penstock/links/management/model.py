"""Plain types of the management of links. No I/O."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.errors import Fault


class LinkUpload(NamedTuple):
    """What the rows of a CSV file do. created, updated, unchanged, faulty: numbers of rows.

    faults: each with the number of its row; with any, nothing is changed.
    """

    created: int
    updated: int
    unchanged: int
    faulty: int
    faults: Sequence[tuple[int, Fault]]
