"""Plain types of a funnel, with goals already replaced by the match they stand for. No I/O.

A row is one entry of `steps[]`. Its matches are its options (plain step or diagnostic row: any of them) or its parts (`all_of`: every one).
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.base.errors import Fault


class CountingUnit(StrEnum):
    VISITOR = "visitor"
    ATTEMPT = "attempt"


class MatchType(StrEnum):
    """What kind of event a match is about; the value is the spelling of the API."""

    PAGEVIEW = "Pageview"
    SCREEN_VIEW = "Screen view"
    EVENT = "Event"
    TRANSACTION = "Transaction"


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition on a property. value: text as sent; a JSON list for `in`, `not_in`, `between` and `not_between`."""

    property: str
    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Match:
    """What one event must be: kind, name and all filters."""

    type: MatchType
    value: str
    filters: tuple[Filter, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of `steps[]`. matches: the parent's match first, then the `or` rows in order.

    saved_as: type and value as the definition has them, where a goal or a page path was replaced by what it stands for.
    """

    matches: tuple[Match, ...]
    all_of: bool = False
    diagnostic: bool = False
    saved_as: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class GoalUse:
    """A goal that rows refer to, in the revision whose match stands in them."""

    name: str
    id: str
    revision: int


@dataclass(frozen=True, slots=True)
class Definition:
    """A funnel ready to be evaluated. window_s: seconds; None: unlimited (visitor funnels only). goals: by name."""

    rows: tuple[Row, ...]
    counting_unit: CountingUnit
    window_s: int | None
    attempt_property: str | None = None
    sequence_property: str | None = None
    breakdown_properties: tuple[str, ...] = ()
    goals: tuple[GoalUse, ...] = ()

    def units(self, count: int) -> str:
        """So many of what is counted, in words: `1 attempt`, `1,200 visitors`."""
        return f"{count:,} {self.counting_unit}{'' if count == 1 else 's'}"

    def not_a_breakdown(self, field: str) -> Fault:
        """What to tell whoever names another property than those in a field."""
        if not self.breakdown_properties:
            return Fault(field, "not_a_breakdown", "This funnel has no breakdown properties.")
        known = ", ".join(self.breakdown_properties)
        return Fault(field, "not_a_breakdown", f"Is no breakdown property of this funnel; it has: {known}.")

    @property
    def steps(self) -> tuple[Row, ...]:
        """The required rows, which are steps 1 to n."""
        return tuple(row for row in self.rows if not row.diagnostic)
