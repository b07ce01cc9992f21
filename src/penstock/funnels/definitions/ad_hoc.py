"""Ad hoc changes: changes to a saved funnel that apply to a single query and are not saved.

Source: funnel semantics, "Filters of a question" and "Settled".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import MISSING, BeforeValidator

from penstock.base.errors import Fault
from penstock.funnels.definitions.builtins import cohort_of
from penstock.funnels.definitions.matches import load_filters
from penstock.funnels.definitions.model import (
    ENTRY,
    FIRST,
    LAST,
    MAX_COHORTS,
    Definition,
    Filter,
)
from penstock.funnels.definitions.schema import (
    SavedDefinition,
    SavedFilter,
    SavedStep,
    SavedWindow,
)
from penstock.funnels.definitions.windows import (
    MAX_WINDOW_S,
    UNIT_S,
    WindowUnit,
    window_in_words,
)
from penstock.http.bodies import bad_parameter
from penstock.http.schema import RuleBroken

_MAX_DIGITS = 6  # 366 days have 527,040 minutes.
_UNITS: dict[str, WindowUnit] = {"m": "minute", "h": "hour", "d": "day"}


@dataclass(frozen=True, slots=True)
class AdHocChanges:
    """Changes to a definition for one query.

    breakdown: keys instead of the saved ones; None to keep those. filters: conditions on the event
    with which a unit enters; None if none were sent. window: length such as `30m`, `12h` or `45d`;
    None to keep the saved one. settled: whether to count only units whose window has ended.
    breakdown_at: the event that gives the values, instead of the saved one: `entry`, `first`,
    `last` or the number of a step; None to keep the saved one. segment: ID of a segment, whose
    filters apply like `filters`. internal: whether to count internal traffic.
    """

    breakdown: tuple[str, ...] | None = None
    filters: tuple[SavedFilter, ...] | None = None
    window: str | None = None
    settled: bool = False
    segment: str | None = None
    internal: bool = False
    breakdown_at: str | int | None = None

    def change(
        self,
        definition: Definition,
        check_regex: Callable[[str], None],
        *,
        of_segment: Sequence[SavedFilter] = (),
        internal_traffic: tuple[Filter, ...] = (),
    ) -> Definition:
        """Return the definition with these changes.

        of_segment: the filters of `segment`. internal_traffic: filters of the entries to leave out.

        Raises Malformed if a filter cannot be read, and for settled units of a funnel without a
        window.
        """
        faults: list[Fault] = []
        filters = tuple(load_filters(self.filters or (), check_regex, faults))
        faults_of_segment: list[Fault] = []
        filters += tuple(load_filters(of_segment, check_regex, faults_of_segment))
        faults += [replace(fault, field=f"segment.{fault.field}") for fault in faults_of_segment]
        if sum(cohort_of(item.property) is not None for item in filters) > MAX_COHORTS:
            message = f"At most {MAX_COHORTS} filters can name a cohort."
            faults.append(Fault("filters", "too_many", message))
        changed = replace(
            definition,
            breakdown_properties=definition.breakdown_properties
            if self.breakdown is None
            else self.breakdown,
            breakdown_at=definition.breakdown_at
            if self.breakdown_at is None
            else ENTRY
            if self.breakdown_at == 1
            else self.breakdown_at,
            window_s=definition.window_s if self.window is None else window_seconds(self.window),
            entry_filters=filters,
            internal_traffic=internal_traffic,
        )
        try:
            check_step(changed.breakdown_at, len(changed.steps))
        except RuleBroken as error:
            faults.append(Fault("breakdownAt", error.code, error.message))
        if self.settled and changed.window_s is None:
            message = (
                "This funnel has no conversion window, so its units never settle. Leave out "
                "settled, or send a window, such as window=30d."
            )
            faults.append(Fault("settled", "needs_window", message))
        if faults:
            raise bad_parameter(*faults)
        return changed

    def change_record(self, saved: SavedDefinition) -> SavedDefinition:
        """Return the stored form of a definition with these changes, except for `settled`,
        `segment` and `internal`.

        Filters become conditions of every match of step 1. So a unit enters with its first event
        that passes them, while the filters of a query look only at the first event of an attempt.
        """
        changed: dict[str, Any] = {}
        if self.breakdown is not None:
            changed["breakdown_properties"] = list(self.breakdown)
        if self.breakdown_at is not None:
            at = self.breakdown_at
            changed["breakdown_at"] = None if at in (ENTRY, 1) else at
        if self.window is not None:
            changed |= {
                "conversion_window": read_window(self.window),
                "conversion_window_seconds": MISSING,
            }
        if self.filters:
            index = next(at for at, step in enumerate(saved.steps) if not step.diagnostic)
            changed["steps"] = [
                self._filter_step(step) if at == index else step
                for at, step in enumerate(saved.steps)
            ]
        return saved.model_copy(update=changed)

    def _filter_step(self, step: SavedStep) -> SavedStep:
        more = list(self.filters or ())
        options = [
            option.model_copy(update={"filters": [*option.filters, *more]}) for option in step.or_
        ]
        return step.model_copy(update={"filters": [*step.filters, *more], "or_": options})


NO_CHANGES = AdHocChanges()


def read_breakdown_at(at: Any) -> Any:
    """Return the event that gives the values of a breakdown. Raises RuleBroken for other input."""
    is_number = isinstance(at, int) and not isinstance(at, bool)
    if not is_number and at not in (ENTRY, FIRST, LAST):
        raise RuleBroken("not_one_of", "Must be entry, first, last or the number of a step.")
    return at


BreakdownAt = Annotated[Literal["entry", "first", "last"] | int, BeforeValidator(read_breakdown_at)]


def check_step(at: str | int, steps: int) -> None:
    """Check the event that gives the values of a breakdown. Raises RuleBroken for a step that the
    funnel does not have. steps: number of its steps.
    """
    if isinstance(at, int) and not 1 <= at <= steps:
        raise RuleBroken(
            "out_of_range",
            f"Must be entry, first, last or the number of a step, 1 to {steps}.",
        )


def read_window(text: str) -> SavedWindow:
    """Read a length such as `30m`. Raises RuleBroken for any other text."""
    number, unit = text[:-1], _UNITS.get(text[-1:])
    is_number = number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS
    window = SavedWindow(value=int(number), unit=unit) if is_number and unit else None
    if window is None or not 60 <= window.value * UNIT_S[window.unit] <= MAX_WINDOW_S:
        raise RuleBroken(
            "not_a_window",
            "Must be a number of minutes, hours or days, such as 30m, 12h or 45d: one minute to "
            "366 days.",
        )
    return window


def describe_window(text: str) -> str:
    """Return a length such as `30m` in words: `30 minutes`. Raises RuleBroken for other texts."""
    window = read_window(text)
    return window_in_words(window.value, window.unit)


def window_seconds(text: str) -> int:
    """Return the seconds of a length such as `30m`. Raises RuleBroken for any other text."""
    window = read_window(text)
    return window.value * UNIT_S[window.unit]
