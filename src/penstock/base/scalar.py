"""Scalar JSON values in the form that funnels compare.

The warehouse stores each scalar property as a tagged text: `s` and the string, `n` and the number's
canonical text, or `b` and `true` or `false`. The tag keeps `"1"`, `1` and `true` apart; filters
compare the text after it. JSON has one number type, so `1` and `1.0` are both `n1`. A missing value
is the empty text. Objects and arrays are stored as `o`: filters and cohorts treat them as missing,
but a sequence number that is an object counts as sent.
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

from msgspec import json

from penstock.base.patterns import is_digits
from penstock.base.unicode_text import composed

Scalar = str | int | float | bool
MISSING = ""
COMPOSITE = "o"

_EXACT_INTEGERS = 2**53


def number_text(value: int | float) -> str:
    """Return the canonical text of a JSON number: `5` for 5 and 5.0, otherwise the shortest
    round-trip form.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_INTEGERS:
        value = int(value)
    return repr(value)


def tagged(value: Any) -> str:
    """Return the tagged text of a JSON value, in NFC; `MISSING` for null, objects and arrays."""
    if isinstance(value, str):
        return "s" + composed(value)
    if isinstance(value, bool):
        return "btrue" if value else "bfalse"
    if isinstance(value, int | float):
        return "n" + number_text(value)
    return MISSING


def scalar_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the tagged text of each scalar value by name. Other values are left out."""
    return {name: text for name, value in values.items() if (text := tagged(value))}


def untagged(text: str) -> Scalar | None:
    """Return the JSON value of a tagged text; None for `MISSING`."""
    if not text:
        return None
    if text[0] == "s":
        return text[1:]
    value: int | float | bool = json.decode(text[1:])
    return value


def plain_text(value: Scalar) -> str:
    """Return the text that filters compare: `5`, `true`, `pro`."""
    return tagged(value)[1:]


@lru_cache(maxsize=20_000)
def column_key(key: str) -> str:
    """Encode a property key as a column name in the warehouse: percent-encoded UTF-8 in NFC.

    Dots, quotes and backticks have a meaning in the engine's JSON paths, so every byte outside
    `A-Za-z0-9_-` becomes `%XX`. An empty key becomes `%`, which differs from all other keys.
    """
    return quote(composed(key), safe="").replace(".", "%2E").replace("~", "%7E") or "%"


STRING, INTEGER, BIG_INTEGER, FRACTION, BOOLEAN = range(1, 6)
"""Type codes in the lower three bits of a value hash. INTEGER: -2**60 to 2**60-1."""

_SMALL = 2**60


def value_hash(text: str) -> int:
    """Return the signed 64-bit hash of a tagged text: 61 bits of value, 3 bits of type. 0 means
    missing.

    An integer below 2**60 is stored as itself, so sequence numbers do not need another column; any
    other text is hashed (BLAKE2b). `"5"` and `5` share the upper bits, so attempt IDs compare as
    text. Grouping by integers instead of texts halves the time of a funnel query. The probability
    that any two of ten million random IDs collide is 1 in 46,000.
    """
    kind, plain = text[0], text[1:]
    is_small = (
        plain[:1] in _FIRST_OF_INTEGERS  # most texts are not integers
        and _is_canonical_integer(plain)
        and -_SMALL <= int(plain) < _SMALL
    )
    if is_small:
        upper = int(plain) << 3
    else:
        digest = blake2b(plain.encode(), digest_size=8).digest()
        upper = int.from_bytes(digest, "little", signed=True) & ~7
    if kind == "s":
        return upper | STRING
    if kind == "b":
        return upper | BOOLEAN
    if is_small:
        return upper | INTEGER
    return upper | (BIG_INTEGER if plain.lstrip("-").isdigit() else FRACTION)


_FIRST_OF_INTEGERS = frozenset("-0123456789")


def _is_canonical_integer(text: str) -> bool:
    """Whether an integer has at most 19 digits, no leading zero, and is not `-0`."""
    digits = text.removeprefix("-")
    return len(digits) <= 19 and is_digits(digits) and (digits[0] != "0" or text == "0")


def property_columns(properties: Mapping[str, Any]) -> dict[str, dict[str, str] | dict[str, int]]:
    """Convert properties to the form that the warehouse stores for funnels, by encoded key.

    `scalars`: tagged texts; `COMPOSITE` for objects and arrays. `hashes`: `value_hash` of each
    scalar. Neither contains nulls.
    """
    scalars: dict[str, str] = {}
    hashes: dict[str, int] = {}
    for name, value in properties.items():
        kind = type(value)
        if kind is dict or kind is list:
            scalars[column_key(name)] = COMPOSITE
        elif value is not None:
            is_common = len(name) <= _CACHED_CHARS and (
                kind is not str or len(value) <= _COMMON_CHARS
            )
            column_of = _scalar_column if is_common else _scalar_column.__wrapped__
            key, text, text_hash = column_of(name, value)
            scalars[key], hashes[key] = text, text_hash
    return {"scalars": scalars, "hashes": hashes}


_CACHED_CHARS, _COMMON_CHARS = 200, 16
"""Maximum lengths of a name and a text in the cache. A longer text is usually an ID that no other
event has, and caching it takes longer than computing it.
"""


# Return key, text and hash from a single cached lookup, because most events repeat earlier values.
@lru_cache(maxsize=20_000, typed=True)
def _scalar_column(name: str, value: Scalar) -> tuple[str, str, int]:
    """Return the encoded key, the tagged text and its hash."""
    text = tagged(value)
    return column_key(name), text, value_hash(text)
