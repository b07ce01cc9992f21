"""The record of a day: it holds enough to forecast again from the counts of a report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.base.ids import WorkspaceId

ALL = ""
"""The key of the forecast of all units, among those of cohorts or buckets."""


class PastForecast(NamedTuple):
    """An earlier forecast and its truth. days: how many days ago. is_inside: whether the truth was
    inside the interval, if there was one.
    """

    days: int
    rate: float
    truth: float
    low: float | None
    high: float | None
    is_inside: bool | None


@dataclass(frozen=True, slots=True)
class RateTable:
    """How the rate of reaching a step is forecast. q: standard deviations on each side of the
    interval, None for the certain bounds. success: chances by cell.
    """

    goal: int
    success: Sequence[float]
    q: float | None
    replays: Sequence[PastForecast]
    mean_error: float
    held_share: float | None

    @property
    def inside(self) -> Sequence[bool]:
        """Whether the truth was inside, for each earlier forecast with an interval."""
        return [each.is_inside for each in self.replays if each.is_inside is not None]


@dataclass(frozen=True, slots=True)
class ChanceTable:
    """The chances of open units, and how forecasts from them did.

    rates: empty if there is too little history. The other fields are as in `estimate.Chances` and
    `estimate.History`. After the cells of pending units there is one for other open units that are
    eligible, and one for those that are excluded.
    """

    cuts_ms: Sequence[int]
    excluded: Sequence[float]
    evidence: Sequence[float]
    units: int
    from_ms: int
    until_ms: int
    of_cohort: bool
    rates: Sequence[RateTable]


@dataclass(frozen=True, slots=True)
class DayRecord:
    """The forecasts of a question that are kept for a day.

    tables: chances by `ALL`, and by cohort or start of a bucket. share: share of all units that was
    read. late_share: share of the events of the history that arrived more than an hour late.
    """

    evaluated_at_ms: int
    share: float
    late_share: float
    tables: Mapping[str, ChanceTable]


class Turn(NamedTuple):
    """A saved funnel whose forecast a node makes. attempts: those before that failed."""

    workspace_id: WorkspaceId
    funnel_id: str
    revision: int
    attempts: int
