"""Pages of a list: `{"data": [...], "page": 1, "pageSize": 20, "total": 57}`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for. number: from 1. size: 1 to 100."""

    number: int = 1
    size: int = 20

    @property
    def offset(self) -> int:
        return (self.number - 1) * self.size


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """One page of records and how many there are in all."""

    data: Sequence[T]
    page: Page
    total: int
