"""The key of the unit that an event belongs to, as SQL over the table `events`.

Source: funnel semantics, "Units".
"""

from collections.abc import Iterator, Sequence
from itertools import product

from penstock.base.scalar import BIG_INTEGER, STRING, tagged, value_hash
from penstock.funnels.definitions.builtins import SESSION_KEY, VISITOR_KEY
from penstock.funnels.statements.binder import Binder
from penstock.funnels.statements.matching import property_hash, property_text
from penstock.funnels.statements.query import Plan
from penstock.funnels.statements.sources import visitor_key


def unit_key(plan: Plan) -> str:
    """Return the unit of an event; 0 for an event without an attempt ID."""
    return unit_of_parts(plan, attempt_parts(plan))


def attempt_parts(plan: Plan) -> list[str]:
    """Return a hash for each key of the attempt ID, from which `unit_of_parts` makes the unit."""
    return [_part(plan, key) for key in plan.definition.attempt_keys]


def unit_of_parts(plan: Plan, parts: Sequence[str]) -> str:
    """Return the unit of an event.

    parts: for each key of the attempt ID, its hash (see `attempt_parts`) or a column that has it.
    """
    keys = plan.definition.attempt_keys
    if not keys:
        return visitor_key(plan)
    ids = [
        part if key in (VISITOR_KEY, SESSION_KEY) else _attempt_key(part, plan.binder)
        for key, part in zip(keys, parts, strict=True)
    ]
    if len(ids) == 1:
        return ids[0]
    has_all = " AND ".join(f"{part} != 0" for part in ids)
    return f"if({has_all}, sipHash64({', '.join(ids)}), 0)"


def _part(plan: Plan, key: str) -> str:
    if key == VISITOR_KEY:
        only_visitor = set(plan.definition.attempt_keys) == {VISITOR_KEY}
        if only_visitor and plan.profile.has_provider_events:  # They need an attempt ID (R18).
            return f"if(events.source = 'provider', 0, {visitor_key(plan)})"
        return visitor_key(plan)
    if key == SESSION_KEY:
        session = f"sipHash64(events.website_id, {visitor_key(plan)}, events.session_id)"
        return f"if(events.session_id = '', 0, {session})"
    return property_hash(key, plan.binder)


def has_attempt_text(key: str, text: str, binder: Binder) -> str:
    """Whether a property is the attempt ID with this text. Most events fail by their hash."""
    number = binder.bind("UInt64", ((value_hash(tagged(text)) % 2**64) >> 3) + 1)
    texts = binder.bind("Array(String)", [tag + text for tag in "sn"])
    return (
        f"{_attempt_key(property_hash(key, binder), binder)} = {number} "
        f"AND {property_text(key, binder)} IN {texts}"
    )


def _attempt_key(value: str, binder: Binder) -> str:
    """Return the unit of an attempt property's value hash; 0 if the value is not an attempt ID.

    An attempt ID is an integer, or a string that does not stand for a missing ID.
    """
    no_ids = binder.bind("Array(UInt64)", _NO_IDS)
    is_id = f"bitAnd({value}, 7) BETWEEN {STRING} AND {BIG_INTEGER} AND {value} NOT IN {no_ids}"
    return f"if({is_id}, bitShiftRight({value}, 3) + 1, 0)"


def _spellings(word: str) -> Iterator[str]:
    """Return all combinations of upper and lower case for a word."""
    return map("".join, product(*zip(word, word.upper(), strict=True)))


_MAX_BLANKS = 64
_NO_ID_TEXTS = (
    *(" " * count for count in range(_MAX_BLANKS + 1)),
    *("\t", "\n", "\r\n", "\u00a0"),
    *(*_spellings("null"), *_spellings("undefined")),
)
"""Strings for a missing attempt ID: empty, blank, or null or undefined in any letter case."""
_NO_IDS = [value_hash(tagged(text)) % 2**64 for text in _NO_ID_TEXTS]
