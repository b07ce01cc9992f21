"""A refused item, cut short and without what nobody should read twice: secrets and network addresses."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from msgspec import json

_MOST_CHARS, _MOST_TEXT, _MOST_FIELDS, _MOST_ENTRIES, _MOST_DEPTH = 1_000, 80, 30, 5, 4
_CUT = "…"
_HIDDEN = "***"
_SECRET_NAME = re.compile(
    r"pass|secret|token|authori[sz]ation|cookie|credential|api.?key|private|signature|card|cvc|cvv|iban", re.IGNORECASE
)
_SECRET_TEXT = re.compile(r"psk_|sk_|whsec_|bearer |basic |eyJ|-----BEGIN", re.IGNORECASE)
_QUERY = re.compile(r"(?<=[?#])\S+")


def excerpt(item: Any) -> str:
    """The item as JSON, at most 1,000 characters; longer texts and lists end in …, and the whole may be cut."""
    text = json.encode(_shown(item, 0)).decode()
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + _CUT


def _shown(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping | list) and depth == _MOST_DEPTH:
        return _CUT
    if isinstance(value, Mapping):
        fields = list(value.items())
        shown = {_text(name): _HIDDEN if _SECRET_NAME.search(name) else _shown(kept, depth + 1) for name, kept in fields[:_MOST_FIELDS]}
        return shown | ({_CUT: len(fields) - _MOST_FIELDS} if len(fields) > _MOST_FIELDS else {})
    if isinstance(value, list):
        return [_shown(one, depth + 1) for one in value[:_MOST_ENTRIES]] + ([_CUT] if len(value) > _MOST_ENTRIES else [])
    return value


def _text(value: str) -> str:
    if _SECRET_TEXT.match(value) or _is_address(value):
        return _HIDDEN
    shown = value[:_MOST_CHARS]
    if "://" in shown:
        shown = _QUERY.sub(_CUT, shown)  # the query of an address may hold anything
    return shown if len(shown) <= _MOST_TEXT else shown[: _MOST_TEXT - 1] + _CUT


def _is_address(value: str) -> bool:
    if len(value) > 45 or not ("." in value or ":" in value):
        return False
    try:
        ip_address(value.strip())
    except ValueError:
        return False
    return True
