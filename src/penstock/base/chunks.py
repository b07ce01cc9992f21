"""Splits long lists, because a statement can contain only a limited number of values."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

IN_LIST_SIZE = 500
"""Maximum number of values in one `IN (...)` of the metadata DB, well below SQLite's parameter
limit.
"""


def chunks(values: Sequence[T], size: int = IN_LIST_SIZE) -> Iterator[Sequence[T]]:
    """Split the values into consecutive slices of at most `size`."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
