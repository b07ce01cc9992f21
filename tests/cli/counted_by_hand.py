"""Counts the checkout funnel of the demo a second time, from the exported events.

This is written for this one funnel, from docs/funnels.md, with loops that can be followed by hand.
It uses no code of Penstock and none of the reference in `tests/funnels`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

WINDOW_MS = 7 * 86_400_000
STEPS = (
    {("event", "checkout_started")},
    {("event", "address_entered"), ("event", "saved_address_used")},
    {("event", "payment_submitted")},
    {("transaction", "purchase")},
)


class Step(NamedTuple):
    """An event of a step. number: the sequence number `n`; None if it was not sent."""

    at_ms: int
    number: int | None
    event_id: str
    event: tuple[str, str]


class Attempt(NamedTuple):
    """An attempt that entered. reached: number of completed steps, 1 to 4."""

    entered_at_ms: int
    reached: int


def steps_by_attempt(lines: Iterable[str]) -> Iterator[list[Step]]:
    """Return the steps of each attempt in their reading order. lines: of exported days."""
    attempts = defaultdict(list)
    for row in map(json.loads, lines):
        properties = json.loads(row["properties"] or "{}")
        event = row["kind"], row["name"]
        attempt_id = properties.get("checkout_id")
        if attempt_id and any(event in step for step in STEPS):
            at = datetime.fromisoformat(row["occurred_at"]).replace(tzinfo=UTC)
            at_ms = round(at.timestamp() * 1000)
            attempts[attempt_id].append(Step(at_ms, properties.get("n"), row["event_id"], event))
    for steps in attempts.values():
        yield sorted(
            steps,
            key=lambda step: (step.at_ms, step.number is None, step.number or 0, step.event_id),
        )


def follow(steps: Sequence[Step]) -> Attempt | None:
    """Follow one attempt through the funnel. Returns None if it never entered."""
    entry = next((step for step in steps if step.event in STEPS[0]), None)
    if entry is None:
        return None
    reached, last, number = 1, entry, entry.number
    for step in steps[steps.index(entry) + 1 :]:
        if reached == len(STEPS) or step.at_ms > entry.at_ms + WINDOW_MS:
            break
        if step.event not in STEPS[reached]:
            continue
        if step.at_ms == last.at_ms and (
            step.number is None or last.number is None or step.number <= last.number
        ):
            continue  # Nothing proves that it came after the last step.
        if step.number is not None and number is not None and step.number <= number:
            continue  # A stale sequence number is skipped.
        reached, last = reached + 1, step
        number = number if step.number is None else step.number
    return Attempt(entry.at_ms, reached)


def figures(attempts: Sequence[Attempt], evaluated_at_ms: int) -> dict[str, Any]:
    """Return the figures of a report, under their names in the API."""
    settled = [each for each in attempts if each.entered_at_ms + WINDOW_MS < evaluated_at_ms]
    still_open = [each for each in attempts if each.entered_at_ms + WINDOW_MS >= evaluated_at_ms]
    completed = [each for each in settled if each.reached == len(STEPS)]
    early = [each for each in still_open if each.reached == len(STEPS)]
    return {
        "entered": len(attempts),
        "completed": len(completed) + len(early),
        "settled": len(settled),
        "settledRate": round(len(completed) / len(settled), 4) if settled else None,
        "droppedOff": len(settled) - len(completed),
        "pending": len(still_open) - len(early),
        "earlyCompletions": len(early),
        "reached": [
            sum(each.reached >= step for each in attempts) for step in range(1, len(STEPS) + 1)
        ],
        "settledReached": [
            sum(each.reached >= step for each in settled) for step in range(1, len(STEPS) + 1)
        ],
    }
