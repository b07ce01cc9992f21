"""Rules about the rows of a funnel as a whole, and about the parts of a group."""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.base.errors import Fault
from penstock.funnels.definitions.matches import resolve_match
from penstock.funnels.definitions.schema import (
    GOAL,
    MatchIn,
    ValidationContext,
)
from penstock.http.schema import RulesBroken

MIN_STEPS, MAX_STEPS, MAX_ROWS = 2, 20, 30
MAX_MATCHES = 256


def row_faults(rows: list[Any]) -> Iterator[Fault]:
    """Yield the faults of the list of rows as a whole. rows: not yet validated."""
    objects = [row if isinstance(row, dict) else {} for row in rows]
    required = sum(map(_is_step, objects))
    if len(rows) > MAX_ROWS:
        yield Fault("", "too_many", f"A funnel has at most {MAX_ROWS} rows, not {len(rows)}.")
    if required < MIN_STEPS:
        yield Fault(
            "",
            "too_few_steps",
            f"A funnel needs at least {MIN_STEPS} required steps, not {required}.",
        )
    if required > MAX_STEPS:
        yield Fault(
            "",
            "too_many_steps",
            f"A funnel has at most {MAX_STEPS} required steps, not {required}. "
            "Diagnostic and exclusion rows do not count.",
        )
    yield from _order_faults(objects, required)
    matches = sum(1 + len(row["or"]) if isinstance(row.get("or"), list) else 1 for row in objects)
    if matches > MAX_MATCHES:
        yield Fault(
            "",
            "too_many_matches",
            f"A funnel has at most {MAX_MATCHES} matches including `or` rows, not {matches}.",
        )


def _is_step(row: Mapping[str, Any]) -> bool:
    return row.get("diagnostic") is not True and row.get("exclude") is not True


def _order_faults(rows: list[dict[str, Any]], required: int) -> Iterator[Fault]:
    """Yield the faults of exclusion rows and strict steps that are at a wrong position.

    rows: not yet validated. required: number of required steps.
    """
    step, previous = 0, None
    for index, row in enumerate(rows):
        if _is_step(row):
            step, previous = step + 1, None
            if step == 1 and row.get("strict") in (True, "all"):
                yield Fault(
                    f"[{index}].strict",
                    "not_allowed",
                    "The first step has no step before it. Set strict on a later step.",
                )
        elif row.get("exclude") is True and row.get("diagnostic") is not True:
            if not 0 < step < required:
                yield Fault(
                    f"[{index}].exclude",
                    "misplaced",
                    "An exclusion row stands between two steps. Move it below the first step and "
                    "above the last.",
                )
            elif previous is not None:
                yield Fault(
                    f"[{index}].exclude",
                    "repeated",
                    f"steps[{previous}] is the exclusion row between these steps. "
                    "Add this match to its `or`.",
                )
            previous = index


def not_in_any_order(reason: str) -> str:
    """Return the message for a field that a funnel in any order cannot have."""
    return f"{reason}: steps count in any order. Leave it out, or set order to given."


def any_order_faults(rows: list[Any]) -> Iterator[Fault]:
    """Yield the faults of rows that need an order. rows: not yet validated."""
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or not _is_step(row):
            continue
        if row.get("mode") is not None:
            message = not_in_any_order("A group cannot be a step")
            yield Fault(f"[{index}].mode", "not_allowed", message)
        if row.get("strict") in (True, "all"):
            message = not_in_any_order("A step cannot be strict")
            yield Fault(f"[{index}].strict", "not_allowed", message)


def identical_parts(parts: list[MatchIn], context: ValidationContext) -> Iterator[Fault]:
    """Yield the faults of parts that match the same events as an earlier part.

    parts: the parts of a group, starting with the row's own match.
    """
    seen: set[object] = set()
    for at, part in enumerate(parts):
        saved = part.saved()
        if saved.type == GOAL and saved.value not in context.goals:
            continue
        try:
            match = resolve_match(saved, context.goals, context.check_regex)
        except RulesBroken:  # The routes for goals report invalid goals.
            continue
        meaning = (match.type, match.value, frozenset(match.filters))
        if meaning in seen:
            yield Fault(
                f"[{at - 1}]",
                "identical_parts",
                "An earlier part of this row matches the same events. Change one of the two.",
            )
        seen.add(meaning)
