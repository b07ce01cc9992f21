"""Evaluates a story in the notation of `scenario` without a store."""

import json
from typing import Any

from penstock.funnels.units.path import MatchedEvent
from tests.funnels import reference
from tests.funnels.reference.report import read_units
from tests.funnels.scenario import DAY_S, EVENT, Json
from tests.funnels.traces import matched_event

_AT_MS = DAY_S * 1000


def evaluate_story(story: str, funnel: Json, **properties: Any) -> tuple[Json, list[MatchedEvent]]:
    """Return the reference evaluation of a unit's story, and its events in the order of a trace.

    properties: the properties of every event.
    """
    events = []
    for index, (seconds, name, number) in enumerate(EVENT.findall(story)):
        own = properties | ({"n": json.loads(number)} if number else {})
        at_ms = round(float(seconds) * 1000)
        events.append(
            reference.Event(f"e{index}", "w", "event", name, at_ms, "ann", "s", properties=own)
        )
    history = reference.History(tuple(events))
    report = reference.evaluate(history, funnel, website_ids=["w"], evaluated_at_ms=_AT_MS)
    [unit] = read_units(history, funnel, ["w"], _AT_MS).by_unit.values()
    return report, list(map(matched_event, unit))
