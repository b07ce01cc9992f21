"""Fits events of other products into the limits of an event, so that they keep what fits.

These products allow larger events than Penstock, and nobody can send a past event again. IDs are
never cut, because a cut ID could name somebody else.
"""

from collections.abc import Mapping
from typing import Any, TypeGuard

from msgspec import json

from penstock.base.cut_texts import MARK, cut_text
from penstock.base.errors import Malformed
from penstock.base.event_limits import (
    MAX_EVENT_BYTES,
    MAX_NAME_CHARS,
    MAX_PROPERTY_DEPTH,
    MAX_PROPERTY_KEYS,
    MAX_STRING_BYTES,
)
from penstock.events.imports.formats.reader import Row, has_too_many_values
from penstock.events.properties import HIGHEST_INTEGER, LOWEST_INTEGER
from penstock.events.segment_fields import UTM
from penstock.http.bodies import parse_json

TEXT_CUT, NESTED_AS_TEXT = "text_cut", "nested_as_text"
KEYS_LEFT_OUT, VALUES_LEFT_OUT = "keys_left_out", "values_left_out"
NUL_REMOVED, INTEGER_AS_TEXT = "nul_removed", "integer_as_text"
"""Codes of warnings: what did not fit."""
_FEATURE_FLAG = "feature/"
"""Beginning of a property with a feature flag of PostHog, whose name was `$feature/...`."""
_MAX_BYTES = {
    "url": 24 * 1024,
    "path": 20 * 1024,
    **dict.fromkeys(("referrer", "title", *UTM), MAX_STRING_BYTES),
}
"""Maximum size of texts here. URL and path are cut further once the URL's campaign was read and the
path is canonical.
"""
_NAMES = ("name", "screen")
_FEW_BRACKETS = 2 + MAX_PROPERTY_DEPTH - 1
"""A line with this many opening brackets has no part that is nested too deeply."""
_NUL = b"\\u0000"
_AS_ZEROS, _LONG_NUMBER = bytes.maketrans(b"123456789", b"0" * 9), b"0" * 19
"""Fewer digits are always within 64 bits."""


def fitted(row: Row, translated: Mapping[str, Any]) -> Row:
    """Return the row of a translated line, with an event within the limits where possible.

    Content that can never be stored, such as too many values or an ID with a NUL character, stays,
    so that the line is rejected. translated: the fields of the line.
    """
    text = row.content
    if _fits(text, translated) or has_too_many_values(text):
        return row
    try:
        line = parse_json(text)
    except Malformed:
        return row
    fitter = _Fitter()
    fitter.fit(line)
    if not fitter.warnings:
        return row
    return row._replace(content=json.encode(line), warnings=fitter.warnings)


def _fits(text: bytes, line: Mapping[str, Any]) -> bool:
    """Whether a quick look at a line shows that its event is within the limits."""
    return (
        len(text) <= MAX_STRING_BYTES
        and text.count(b"[") + text.count(b"{") <= _FEW_BRACKETS
        and text.count(b":") <= MAX_PROPERTY_KEYS
        and _NUL not in text
        and _LONG_NUMBER not in text.translate(_AS_ZEROS)
        and not any(map(_is_long_name, map(line.get, _NAMES)))
    )


def _is_long_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) > MAX_NAME_CHARS


class _Fitter:
    """Changes one line. warnings: codes of what did not fit."""

    def __init__(self) -> None:
        self.warnings = set[str]()

    def fit(self, line: dict[str, Any]) -> None:
        for field, max_bytes in _MAX_BYTES.items():
            if isinstance(value := line.get(field), str):
                line[field] = self._text(value, max_bytes)
        for field in _NAMES:
            if isinstance(value := line.get(field), str):
                line[field] = value = self._without_nul(value)
            if _is_long_name(value):
                line[field] = value[: MAX_NAME_CHARS - len(MARK)] + MARK
                self.warnings.add(TEXT_CUT)
        for field in ("properties", "traits", "traitsOnce"):
            if isinstance(members := line.get(field), dict):
                line[field] = members = self._members(members, 1)
                self._limit_keys(members)
                self._limit_size(line, members)

    def _without_nul(self, value: str) -> str:
        if "\0" not in value:
            return value
        self.warnings.add(NUL_REMOVED)
        return value.replace("\0", "")

    def _text(self, value: str, max_bytes: int = MAX_STRING_BYTES) -> str:
        value = self._without_nul(value)
        cut = cut_text(value, max_bytes)
        if cut is not value:
            self.warnings.add(TEXT_CUT)
        return cut

    def _members(self, members: dict[str, Any], level: int) -> dict[str, Any]:
        return {self._text(key): self._value(value, level) for key, value in members.items()}

    def _value(self, value: Any, level: int) -> Any:
        """Return a value that fits. level: level of the object or array that contains it."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and not LOWEST_INTEGER <= value <= HIGHEST_INTEGER:
            self.warnings.add(INTEGER_AS_TEXT)
            return str(value)
        if not isinstance(value, dict | list):
            return value
        if level >= MAX_PROPERTY_DEPTH:
            return self._as_text(value)
        if isinstance(value, dict):
            return self._members(value, level + 1)
        return [self._value(item, level + 1) for item in value]

    def _as_text(self, value: Any) -> str:
        self.warnings.add(NESTED_AS_TEXT)
        return self._text(json.encode(value).decode())

    def _limit_keys(self, members: dict[str, Any]) -> None:
        """Keep as many keys as an event may have.

        Feature flags go first, the last ones before others. Then objects become text, and then the
        last keys go: names of the product stand after your own.
        """
        surplus = _count_keys(members) - MAX_PROPERTY_KEYS
        names = list(reversed(members))
        for name in names if surplus > 0 else ():
            if surplus > 0 and name.startswith(_FEATURE_FLAG):
                surplus -= 1 + _count_keys(members.pop(name))
                self.warnings.add(KEYS_LEFT_OUT)
        for name in [name for name in names if name in members] if surplus > 0 else ():
            if surplus > 0 and (nested := _count_keys(members[name])):
                surplus -= nested
                members[name] = self._as_text(members[name])
        while surplus > 0:
            members.popitem()
            surplus -= 1
            self.warnings.add(KEYS_LEFT_OUT)

    def _limit_size(self, line: dict[str, Any], members: dict[str, Any]) -> None:
        """Keep as much as an event may have bytes.

        The largest objects become text, and are cut. Then the largest properties go.
        """
        surplus = len(json.encode(line)) - MAX_EVENT_BYTES
        if surplus <= 0:
            return
        sizes = {name: len(json.encode({name: value})) for name, value in members.items()}
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            if surplus > 0 and isinstance(members[name], dict | list):
                members[name] = self._as_text(members[name])
                surplus -= sizes[name]
                sizes[name] = len(json.encode({name: members[name]}))
                surplus += sizes[name]
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            if surplus > 0:
                surplus -= sizes[name]
                del members[name]
                self.warnings.add(VALUES_LEFT_OUT)


def _count_keys(value: Any) -> int:
    """Return the number of keys in a value, nested ones included."""
    if isinstance(value, dict):
        return len(value) + sum(map(_count_keys, value.values()))
    return sum(map(_count_keys, value)) if isinstance(value, list) else 0
