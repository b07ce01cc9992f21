"""Splitting long lists for statements that limit how many values they can name."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

IN_LIST_SIZE = 500
"""Values in one `IN (...)` of the metadata DB, well below the parameter limits of SQLite."""


def chunks(values: Sequence[T], size: int = IN_LIST_SIZE) -> Iterator[Sequence[T]]:
    """Consecutive slices of at most `size` values."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
