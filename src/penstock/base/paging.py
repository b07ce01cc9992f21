"""Pages of a list: `{"data": [...], "page": 1, "pageSize": 20, "total": 57}`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")

MAX_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Page:
    """The requested part of a list. number: page number, starting at 1. size: records per page, at
    most 100.
    """

    number: int = 1
    size: int = 20

    @property
    def offset(self) -> int:
        return (self.number - 1) * self.size


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """One page of records. total: number of records on all pages."""

    data: Sequence[T]
    page: Page
    total: int

    def map(self, convert: Callable[[T], S]) -> "Listing[S]":
        """Return the page with each entry converted."""
        return Listing([convert(entry) for entry in self.data], self.page, self.total)
