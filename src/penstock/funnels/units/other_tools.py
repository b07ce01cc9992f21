"""The decisions on the events of one unit by the rules of another tool."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.funnels.statements.entries import MAX_COMPARISONS
from penstock.funnels.statements.other_tools import Entries, Greedy, Rules
from penstock.funnels.units.explanation import Explanation
from penstock.funnels.units.path import Decision, MatchedEvent, required_rows
from penstock.funnels.units.trace import is_in_period


def rows_by_rules(rules: Rules, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the events of a unit as the rules read them."""
    read: list[Mapping[str, Any]] = []
    seen = set()
    for row in rows:
        at_ms = row["ts"] // rules.tick_ms * rules.tick_ms
        if rules.one_of_kind and row["mask"] and (at_ms, row["mask"]) in seen:
            continue
        seen.add((at_ms, row["mask"]))
        read.append({**row, "ts": at_ms})
    return read


def explain_greedy(rules: Rules, events: Sequence[MatchedEvent]) -> dict[str, Explanation]:
    """Return the decision on each event by a greedy fold, which the statement applies to all units.

    The order of events need not be proven. Of several entries, the first that leads furthest
    counts.
    """
    greedy = rules.greedy
    assert greedy is not None
    events = sorted(events, key=lambda event: event.order)
    paths = [_path(rules, greedy, events, entry) for entry in _entries(rules, greedy, events)]
    path = max(paths, key=len, default=[])
    steps = {event.event_id: step for step, event in enumerate(path, start=1)}
    return {event.event_id: _explanation(steps.get(event.event_id)) for event in events}


def _explanation(step: int | None) -> Explanation:
    if step is None:
        sentence = "Does no step by the rules of the other tool."
        return Explanation(Decision.NO_MATCH, None, None, (), sentence)
    if step == 1:
        return Explanation(Decision.ENTRY, 1, None, (), "Enters: it is the first of step 1.")
    sentence = f"Completes step {step}: it is the first that may follow."
    return Explanation(Decision.ACCEPTED, step, None, (), sentence)


def _entries(rules: Rules, greedy: Greedy, events: Sequence[MatchedEvent]) -> list[MatchedEvent]:
    row, _ = required_rows(rules.definition)[0]
    period = rules.params.start_ms, rules.params.end_ms
    starts = [
        event
        for event in events
        if event.matched[row] and all(event.met) and is_in_period(event.at_ms, *period)
    ]
    if greedy.entries is not Entries.BEST:
        return starts[:1]
    read = sum(any(event.matched) for event in events)
    return starts[: max(1, MAX_COMPARISONS // max(1, read))]  # as in a report


def _path(
    rules: Rules, greedy: Greedy, events: Sequence[MatchedEvent], entry: MatchedEvent
) -> list[MatchedEvent]:
    """Return the events that do the steps, from the entry on."""
    window_s = rules.definition.window_s
    path = [entry]
    for row, _ in required_rows(rules.definition)[1:]:
        since_ms = path[-1].at_ms - (greedy.within_ms or 0)
        following = (
            event
            for event in events
            if event.matched[row]
            and event.at_ms >= since_ms
            and (window_s is None or event.at_ms <= entry.at_ms + window_s * 1000)
        )
        event = next(following, None)
        if event is None:
            break
        path.append(event)
    return path
