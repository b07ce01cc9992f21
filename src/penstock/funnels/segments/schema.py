"""Wire types for segments."""

from penstock.funnels.definitions.filter_lists import SegmentFilters
from penstock.funnels.definitions.schema import SavedFilter
from penstock.http.schema import Input, Name, Omittable, Record


class SegmentIn(Input):
    """A new segment. filters: conditions on the entry event, which must all hold."""

    name: Name
    filters: SegmentFilters


class SegmentChange(Input):
    """Changes to a segment. Fields that are left out keep their values."""

    name: Omittable[Name] = None
    filters: Omittable[SegmentFilters] = None
    """New filters, which replace the old ones."""


class SavedSegmentRecord(Record):
    """A saved segment. Reports refer to it by its ID.

    revision: counts from 1 and increases with each change of the filters.
    """

    id: str
    name: str
    filters: list[SavedFilter]
    revision: int
    created_at: str
    updated_at: str
