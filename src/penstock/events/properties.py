"""Rules for an event's properties."""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from penstock.base.errors import MAX_FAULTS, Fault
from penstock.base.event_limits import MAX_PROPERTY_DEPTH, MAX_PROPERTY_KEYS, MAX_STRING_BYTES
from penstock.http.schema import field_path

RESERVED_PREFIX = "$"
LOWEST_INTEGER, HIGHEST_INTEGER = -(2**63), 2**64 - 1

EXACT = 2**53
"""Largest integer up to which every JSON parser reads integers exactly."""
_MAX_BYTES_PER_CHARACTER = 4
_SHOWN_KEY_CHARS = 64
_SHORT_CHARS = MAX_STRING_BYTES // _MAX_BYTES_PER_CHARACTER
"""Maximum length, in characters, of a string that cannot exceed the limit in bytes."""


def property_faults(properties: Mapping[str, Any]) -> list[Fault]:
    """Return a fault for each broken rule, at most 100. Fields are paths below `properties`."""
    if _is_simple(properties):
        return []
    checker = _PropertyChecker()
    checker.check_members(properties.items(), 1)
    if checker.keys > MAX_PROPERTY_KEYS:
        message = f"At most {MAX_PROPERTY_KEYS} keys are allowed, nested ones included."
        return [Fault("", "too_many_keys", message), *checker.faults][:MAX_FAULTS]
    return checker.faults


def _is_simple(properties: Mapping[str, Any]) -> bool:
    """Whether there are only a few short strings and small numbers. Other properties may be valid
    too.
    """
    for key, value in properties.items():
        if key[:1] == RESERVED_PREFIX or len(key) > _SHORT_CHARS or "\x00" in key:
            return False
        kind = type(value)
        if kind is str:
            if len(value) > _SHORT_CHARS or "\x00" in value:
                return False
        elif kind is int or kind is float:
            if not -EXACT <= value <= EXACT:
                return False
        elif kind is not bool and value is not None:
            return False
    return len(properties) <= MAX_PROPERTY_KEYS


class _PropertyChecker:
    """Counts keys and collects faults. The top-level object is level 1.

    The path to the current value is a list of keys and indexes. Only a fault joins them to a text,
    because an event may have thousands of values.
    """

    def __init__(self) -> None:
        self.keys, self.faults = 0, list[Fault]()
        self._path = list[str | int]()

    def add_fault(self, code: str, message: str) -> None:
        """Add a fault of the current value."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(field_path(self._path, _SHOWN_KEY_CHARS), code, message))

    def check_members(self, members: Iterable[tuple[str | int, Any]], level: int) -> None:
        """Check the values of an object with their keys, or those of an array with indexes."""
        self._path.append("")
        for key, value in members:
            self._path[-1] = key
            if isinstance(key, str):
                self.check_key(key, level)
            self.check_value(value, level)
        self._path.pop()

    def check_key(self, key: str, level: int) -> None:
        self.keys += 1
        if level == 1 and key.startswith(RESERVED_PREFIX):
            self.add_fault(
                "reserved_property",
                "Names with $ are reserved for Penstock's own fields; use another name.",
            )
        self.check_text(key)

    def check_value(self, value: Any, level: int) -> None:
        if isinstance(value, str):
            self.check_text(value)
        elif isinstance(value, float):
            if not isfinite(value):
                self.add_fault("not_finite", "Must be a number between -1.79e308 and 1.79e308.")
        elif isinstance(value, int):
            if not LOWEST_INTEGER <= value <= HIGHEST_INTEGER:
                self.add_fault(
                    "integer_out_of_range",
                    "Must be an integer between -2^63 and 2^64 - 1. "
                    "Send a longer number as a string.",
                )
        elif isinstance(value, dict | list):
            if level >= MAX_PROPERTY_DEPTH:
                self.add_fault(
                    "too_deep",
                    f"Properties may nest at most {MAX_PROPERTY_DEPTH} levels deep.",
                )
            elif value:
                members = value.items() if isinstance(value, dict) else enumerate(value)
                self.check_members(members, level + 1)

    def check_text(self, value: str) -> None:
        if (
            len(value) * _MAX_BYTES_PER_CHARACTER > MAX_STRING_BYTES
            and len(value.encode()) > MAX_STRING_BYTES
        ):
            self.add_fault("too_long", f"Must have at most {MAX_STRING_BYTES:,} bytes.")
        if "\x00" in value:
            self.add_fault("nul_character", "Must not contain the NUL character.")
