"""Formats counts and times in sentences as people write them."""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

from penstock.base.rates import percent


def count_of(number: int, noun: str) -> str:
    """Format a number with its noun: `1 event`, `1,200 events`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def describe_attempts(
    name: str,
    share: float,
    attempts: int,
    *,
    split_visitors: int,
    several_entries: int,
    several_visitors: int,
) -> str:
    """Say what a key does as an attempt ID.

    share: part of the events of all steps that has an ID. split_visitors: visitors with several
    attempts. several_entries, several_visitors: attempts with several of them.
    """
    on_events = f"{name} is on {percent(share)} of the steps' events"
    clauses = [f"{on_events} and makes {count_of(attempts, 'attempt')}"]
    clauses += [
        f"{count_of(number, noun)} {'has' if number == 1 else 'have'} several {what}"
        for number, noun, what in (
            (split_visitors, "visitor", "of them"),
            (several_entries, "attempt", "entries"),
            (several_visitors, "attempt", "visitors"),
        )
        if number
    ]
    return "; ".join(clauses) + "."


def ordinal(number: int) -> str:
    """Format a rank: `1st`, `2nd`, `3rd`, `11th`."""
    is_teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def listed(words: Sequence[str], conjunction: str = "and") -> str:
    """Join the words as a list in a sentence: `a`, `a and b`, `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def day_words(at_ms: int, zone: tzinfo, now_ms: int) -> str:
    """Format the day in a time zone: `29 October`, with the year if it is not that of now."""
    at, now = (datetime.fromtimestamp(time_ms / 1000, zone) for time_ms in (at_ms, now_ms))
    return f"{at.day} {at:%B}" if at.year == now.year else f"{at.day} {at:%B %Y}"


def utc_time(at_ms: int) -> str:
    """Format the time as people write it: `3 Mar 2025, 10:00 UTC`."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at.day} {at:%b %Y, %H:%M} UTC"
