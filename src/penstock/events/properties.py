"""Rules for an event's properties."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from penstock.base.errors import MAX_FAULTS, Fault
from penstock.base.event_limits import MAX_PROPERTY_DEPTH, MAX_PROPERTY_KEYS, MAX_STRING_BYTES

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
    for key in properties:
        if key.startswith(RESERVED_PREFIX):
            checker.fault(
                _shortened_key(key),
                "reserved_property",
                "Names with $ are reserved for Penstock's own fields; use another name.",
            )
    checker.check_object("", properties, 1)
    if checker.keys > MAX_PROPERTY_KEYS:
        return [too_many_keys(), *checker.faults][:MAX_FAULTS]
    return checker.faults


def too_many_keys(field: str = "") -> Fault:
    message = f"At most {MAX_PROPERTY_KEYS} keys are allowed, nested ones included."
    return Fault(field, "too_many_keys", message)


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
    """Counts keys and collects faults. The top-level object is level 1."""

    def __init__(self) -> None:
        self.keys, self.faults = 0, list[Fault]()

    def fault(self, path: str, code: str, message: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(path, code, message))

    def check_object(self, path: str, value: Mapping[str, Any], level: int) -> None:
        self.keys += len(value)
        prefix = f"{path}." if path else ""
        for key, item in value.items():
            self.check_text(prefix + _shortened_key(key), key)
            self.check_value(prefix + _shortened_key(key), item, level)

    def check_value(self, path: str, value: Any, level: int) -> None:
        if isinstance(value, str):
            self.check_text(path, value)
        elif isinstance(value, float):
            if not isfinite(value):
                self.fault(path, "not_finite", "Must be a number between -1.79e308 and 1.79e308.")
        elif isinstance(value, int):
            if not LOWEST_INTEGER <= value <= HIGHEST_INTEGER:
                self.fault(
                    path,
                    "integer_out_of_range",
                    "Must be an integer between -2^63 and 2^64 - 1. "
                    "Send a longer number as a string.",
                )
        elif isinstance(value, dict | list):
            if level >= MAX_PROPERTY_DEPTH:
                self.fault(
                    path,
                    "too_deep",
                    f"Properties may nest at most {MAX_PROPERTY_DEPTH} levels deep.",
                )
            elif isinstance(value, dict):
                self.check_object(path, value, level + 1)
            else:
                self.check_array(path, value, level + 1)

    def check_array(self, path: str, value: Sequence[Any], level: int) -> None:
        for place, item in enumerate(value):
            self.check_value(f"{path}[{place}]", item, level)

    def check_text(self, path: str, value: str) -> None:
        if (
            len(value) * _MAX_BYTES_PER_CHARACTER > MAX_STRING_BYTES
            and len(value.encode()) > MAX_STRING_BYTES
        ):
            self.fault(path, "too_long", f"Must have at most {MAX_STRING_BYTES:,} bytes.")
        if "\x00" in value:
            self.fault(path, "nul_character", "Must not contain the NUL character.")


def _shortened_key(key: str) -> str:
    """Shorten a key for display in a path."""
    return key if len(key) <= _SHOWN_KEY_CHARS else key[:_SHOWN_KEY_CHARS] + "…"
