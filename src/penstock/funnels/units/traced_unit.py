"""One unit: its events as the engine matched them, and the decision on each."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.base.scalar import COMPOSITE, MISSING
from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.statements.query import UNUSABLE, QueryParams
from penstock.funnels.units.explanation import Explanation, explain_events, explain_left_out
from penstock.funnels.units.path import FunnelPath, MatchedEvent
from penstock.funnels.units.trace import chosen_path, is_in_period, visitor_runs

ChooseRun = Callable[[Sequence[FunnelPath]], FunnelPath | None]
"""A function that chooses among the runs of a visitor, earliest first."""


def choose_run(runs: Sequence[FunnelPath], entry_id: str | None = None) -> FunnelPath | None:
    """Return the run with the given entry, or the last run."""
    named = [run for run in runs if entry_id in (None, run.entry.event_id)]
    return named[-1] if named else None


@dataclass(frozen=True, slots=True)
class Unit:
    """The events of a unit, and the decision on each of them.

    path: the path that counts or, if every run of a visitor counts, the path of one run; for a unit
    that does not count, the path that would count without the period and the query's entry filters.
    selected: whether the unit counts. matching_only: whether events that match no row are left out.
    truncated: whether only the first of the events that match a row were read.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]
    path: FunnelPath | None
    selected: bool
    decisions: Mapping[str, Explanation]
    matching_only: bool
    truncated: bool


def trace_unit(
    definition: Definition,
    params: QueryParams,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    visitors: Collection[int],
    *,
    choose: ChooseRun = choose_run,
    matching_only: bool = False,
    truncated: bool = False,
    also: Mapping[str, Any] | None = None,
    check: Callable[[], None] = lambda: None,
) -> Unit:
    """Return a unit with the decision on each of its events.

    visitors: keys of the visitors of the attempt's events that do not come from a payment provider
    (R18). choose: chooses the path, if every run counts. matching_only, truncated: see `Unit`.
    also: another event of a truncated unit; it gets a decision unless an event that was not read
    can change it. check: see `chosen_path`.
    """
    in_order = sorted(
        ((matched_event(definition, row), row) for row in rows), key=lambda pair: pair[0].order
    )
    outside = [row for row in rows if not _takes_part(definition, row, visitors)]
    outside_ids = {row["event_id"] for row in outside}
    events = [event for event, _ in in_order if event.event_id not in outside_ids]
    period = params.start_ms, params.end_ms
    is_filtered = True
    if definition.repeat:
        path = choose(visitor_runs(definition, events, check))
        selected = (
            path is not None
            and path.passes
            and is_in_period(path.entry_ms, *period)
            and fits_settled(definition, path, params)
        )
    else:
        path = chosen_path(definition, events, *period, check)
        selected = path is not None and fits_settled(definition, path, params)
    if path is None and not definition.repeat:
        period, is_filtered = (None, None), False
        path = chosen_path(definition, events, *period, check, is_filtered=is_filtered)
    decisions = explain_events(definition, path, events)
    decisions |= {row["event_id"]: explain_left_out(verified=row["verified"]) for row in outside}
    if also is not None and also["event_id"] not in decisions:
        if not _takes_part(definition, also, visitors):
            decisions[also["event_id"]] = explain_left_out(verified=also["verified"])
        elif _is_settled(definition, path, rows[-1]["ts"], also["ts"]):
            event = matched_event(definition, also)
            whole_path = chosen_path(
                definition, [*events, event], *period, check, is_filtered=is_filtered
            )
            decisions |= explain_events(definition, whole_path, [event])
    in_order_rows = [row for _, row in in_order]
    return Unit(name, in_order_rows, path, selected, decisions, matching_only, truncated)


def fits_settled(definition: Definition, path: FunnelPath, params: QueryParams) -> bool:
    """Whether a unit with this path counts in a query that may be about settled units only."""
    return not params.settled or path.is_settled(definition, params.evaluated_at_ms)


def _takes_part(definition: Definition, row: Mapping[str, Any], visitors: Collection[int]) -> bool:
    """Whether an event counts in its unit (R18). visitors: see `trace_unit`."""
    if not definition.attempt_keys or not row["provider"]:
        return True
    return bool(row["verified"]) and (not visitors or row["visitor"] in visitors)


def _is_settled(definition: Definition, path: FunnelPath | None, read_ms: int, at_ms: int) -> bool:
    """Whether the events up to `read_ms` settle an event at `at_ms`, whatever is in between."""
    if path is None or at_ms <= read_ms or definition.repeat:
        return False
    if path.reached == len(definition.steps):  # no later entry leads further
        return True
    by_attempt = definition.counting_unit is CountingUnit.ATTEMPT
    has_ended = path.excluded_by is not None or not path.in_window(read_ms)
    return by_attempt and has_ended


def matched_event(definition: Definition, row: Mapping[str, Any]) -> MatchedEvent:
    """Return an event as the engine matched it. row: a row of the statement `unit_events`."""
    matched, bits = [], row["mask"]
    for definition_row in definition.rows:
        matched.append(frozenset(at for at in range(len(definition_row.matches)) if bits >> at & 1))
        bits >>= len(definition_row.matches)
    texts = dict(zip(definition.read_properties, row["texts"], strict=True))
    values = tuple(
        MISSING if texts[name] == COMPOSITE else texts[name]
        for name in definition.breakdown_properties
    )
    number = None if row["seq"] == UNUSABLE else row["seq"]
    return MatchedEvent(
        row["event_id"],
        row["ts"],
        number,
        bool(row["invalid"]),
        tuple(matched),
        values,
        bool(row["coarse"]),
        tuple(map(bool, row.get("met", ()))),
        tuple(row.get("compared", ())),
        bool(bits & 1),
    )
