"""The key of the unit that an event belongs to, as SQL over the table `events`.

Source: funnel semantics, "Units".
"""

from collections.abc import Iterator, Sequence
from itertools import product

from penstock.base.scalar import BIG_INTEGER, STRING, tagged, value_hash
from penstock.funnels.definitions.builtins import SESSION_KEY, VISITOR_KEY, is_of_visitor, trait_of
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
        part if is_of_visitor(key) else _attempt_key(part, plan.binder)
        for key, part in zip(keys, parts, strict=True)
    ]
    if len(ids) == 1:
        return ids[0]
    has_all = " AND ".join(f"{part} != 0" for part in ids)
    return f"if({has_all}, sipHash64({', '.join(ids)}), 0)"


def _part(plan: Plan, key: str) -> str:
    if not is_of_visitor(key):
        return property_hash(key, plan.binder)
    if key == VISITOR_KEY:
        part = visitor_key(plan)
    elif key == SESSION_KEY:
        session = f"sipHash64(events.website_id, {visitor_key(plan)}, events.session_id)"
        part = f"if(events.session_id = '', 0, {session})"
    else:
        part = _trait_key(property_text(key, plan.binder), plan.binder)
    # Payment events need one of their properties in their attempt ID (R18).
    if plan.profile.has_provider_events and all(map(is_of_visitor, plan.definition.attempt_keys)):
        return f"if(events.source = 'provider', 0, {part})"
    return part


def _trait_key(text: str, binder: Binder) -> str:
    """Return the key of a trait's tagged text; 0 if it is not an attempt ID (`_attempt_key`)."""
    no_ids = binder.bind("Array(String)", [tagged(text) for text in _NO_ID_TEXTS])
    is_id = f"(startsWith({text}, 's') AND {text} NOT IN {no_ids}) OR match({text}, '^n-?[0-9]+$')"
    return f"if({is_id}, cityHash64(substring({text}, 2)), 0)"


def has_attempt_text(key: str, text: str, binder: Binder) -> str:
    """Whether a property or trait is the attempt ID with this text. Most events fail by the hash of
    a property.
    """
    texts = binder.bind("Array(String)", [tag + text for tag in "sn"])
    has_text = f"{property_text(key, binder)} IN {texts}"
    if trait_of(key) is not None:
        return has_text
    number = binder.bind("UInt64", ((value_hash(tagged(text)) % 2**64) >> 3) + 1)
    return f"{_attempt_key(property_hash(key, binder), binder)} = {number} AND {has_text}"


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
