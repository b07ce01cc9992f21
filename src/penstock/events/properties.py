"""The rules of an event's properties."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from penstock.base.errors import Fault
from penstock.settings import Settings

OWN_PREFIX = "$"
LOWEST_INTEGER, HIGHEST_INTEGER = -(2**63), 2**64 - 1

_EXACT = 2**53
_MOST_BYTES_OF_A_CHARACTER = 4
_MOST_FAULTS = 100
_SHOWN_KEY_CHARS = 64


def property_faults(properties: Mapping[str, Any], limits: Settings) -> list[Fault]:
    """Every rule that the properties break; fields are paths below `properties`. Bounded: who breaks hundreds is told of the first."""
    if _plainly_fine(properties, limits):
        return []
    walk = _Walk(limits)
    for key in properties:
        if key.startswith(OWN_PREFIX):
            walk.fault(_shown(key), "reserved_property", "Names with $ are Penstock's own event fields; use another name.")
    walk.object("", properties, 1)
    if walk.keys > limits.max_property_keys:
        walk.faults.insert(0, Fault("", "too_many_keys", f"At most {limits.max_property_keys} keys, nested ones included."))
    return walk.faults[:_MOST_FAULTS]


def _plainly_fine(properties: Mapping[str, Any], limits: Settings) -> bool:
    """Whether a glance is enough, as it is for most events: a few short texts and small numbers. False says nothing."""
    short = limits.max_string_bytes // _MOST_BYTES_OF_A_CHARACTER
    for key, value in properties.items():
        if key[:1] == OWN_PREFIX or len(key) > short or "\x00" in key:
            return False
        kind = type(value)
        if kind is str:
            if len(value) > short or "\x00" in value:
                return False
        elif kind is int or kind is float:
            if not -_EXACT <= value <= _EXACT:
                return False
        elif kind is not bool and value is not None:
            return False
    return len(properties) <= limits.max_property_keys


class _Walk:
    """One pass over properties: counts keys, collects faults. Level 1 are the properties themselves."""

    def __init__(self, limits: Settings) -> None:
        self.limits, self.keys, self.faults = limits, 0, list[Fault]()

    def fault(self, path: str, code: str, message: str) -> None:
        self.faults.append(Fault(path, code, message))

    def object(self, path: str, value: Mapping[str, Any], level: int) -> None:
        self.keys += len(value)
        prefix = f"{path}." if path else ""
        for key, item in value.items():
            self.text(prefix + _shown(key), key)
            self.value(prefix + _shown(key), item, level)

    def value(self, path: str, value: Any, level: int) -> None:
        if isinstance(value, str):
            self.text(path, value)
        elif isinstance(value, float):
            if not isfinite(value):
                self.fault(path, "not_finite", "Must be a finite number.")
        elif isinstance(value, int):
            if not LOWEST_INTEGER <= value <= HIGHEST_INTEGER:
                self.fault(path, "integer_out_of_range", "Must fit into 64 bits; send a longer number as a string.")
        elif isinstance(value, dict | list):
            if level >= self.limits.max_property_depth:
                self.fault(path, "too_deep", f"Properties may nest {self.limits.max_property_depth} levels deep.")
            elif isinstance(value, dict):
                self.object(path, value, level + 1)
            else:
                self.array(path, value, level + 1)

    def array(self, path: str, value: Sequence[Any], level: int) -> None:
        for place, item in enumerate(value):
            self.value(f"{path}[{place}]", item, level)

    def text(self, path: str, value: str) -> None:
        limit = self.limits.max_string_bytes
        if len(value) * _MOST_BYTES_OF_A_CHARACTER > limit and len(value.encode()) > limit:
            self.fault(path, "too_long", f"At most {limit:,} bytes.")
        if "\x00" in value:
            self.fault(path, "nul_character", "Must not contain the NUL character.")


def _shown(key: str) -> str:
    """A key as a path shows it."""
    return key if len(key) <= _SHOWN_KEY_CHARS else key[:_SHOWN_KEY_CHARS] + "…"
