"""The decisions on the events of one unit by the rules of another tool."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

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
    rows = [row for row, _ in required_rows(rules.definition)]
    of_steps = [[event for event in events if event.matched[row]] for row in rows]
    paths = [_path(rules, greedy, of_steps, entry) for entry in _entries(rules, greedy, of_steps)]
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


def _entries(
    rules: Rules, greedy: Greedy, of_steps: Sequence[Sequence[MatchedEvent]]
) -> Sequence[MatchedEvent]:
    """Return the entries that may count. of_steps: the events of each step, in order."""
    period = rules.params.start_ms, rules.params.end_ms
    starts = [
        event for event in of_steps[0] if all(event.met) and is_in_period(event.at_ms, *period)
    ]
    return starts if greedy.entries is Entries.BEST else starts[:1]


def _path(
    rules: Rules,
    greedy: Greedy,
    of_steps: Sequence[Sequence[MatchedEvent]],
    entry: MatchedEvent,
) -> list[MatchedEvent]:
    """Return the events that do the steps, from the entry on."""
    window_s = rules.definition.window_s
    path = [entry]
    for events in of_steps[1:]:
        since_ms = path[-1].at_ms - (greedy.within_ms or 0)
        at = bisect_left(events, since_ms, key=attrgetter("at_ms"))
        if at == len(events):
            break
        if window_s is not None and events[at].at_ms > entry.at_ms + window_s * 1000:
            break
        path.append(events[at])
    return path
