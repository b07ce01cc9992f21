"""Plain types for annotations. No I/O. Times are milliseconds since 1970-01-01 UTC."""

from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

from penstock.base.calendar import start_of_day_ms
from penstock.base.ids import WorkspaceId


@dataclass(frozen=True, slots=True)
class Annotation:
    """A note on the time axes of reports.

    id: unique in the workspace; the client may have chosen it. day: a whole day, such as
    2026-11-20, whose start depends on the time zone of the reader; `at_ms` is its start in UTC.
    funnel_id, website_id: the only one whose reports show it; None for all.
    """

    workspace_id: WorkspaceId
    id: str
    text: str
    at_ms: int
    created_at_ms: int
    updated_at_ms: int
    day: str | None = None
    funnel_id: str | None = None
    website_id: str | None = None

    def starts_at_ms(self, zone: ZoneInfo) -> int:
        return (
            self.at_ms if self.day is None else start_of_day_ms(date.fromisoformat(self.day), zone)
        )
