"""Plain types for managing links. No I/O."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.errors import Fault


class LinkUpload(NamedTuple):
    """The result of uploading a CSV file. created, updated, unchanged, faulty: numbers of rows.

    faults: errors, each with its row number. If there are any, nothing has changed.
    """

    created: int
    updated: int
    unchanged: int
    faulty: int
    faults: Sequence[tuple[int, Fault]]
