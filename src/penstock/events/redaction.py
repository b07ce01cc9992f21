"""Redacted excerpts of rejected items: shortened, without secrets or network addresses."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from msgspec import json

from penstock.base.patterns import Match, Pattern

_MAX_CHARS, _MAX_TEXT, _MAX_FIELDS, _MAX_ENTRIES, _MAX_DEPTH = 1_000, 80, 30, 5, 4
_MAX_PLAIN_TEXT = 200
_ELLIPSIS = "…"
_HIDDEN = "***"
_SENSITIVE_NAMES = (
    r"(?:pass|secret|token|authori[sz]ation|cookie|credential|api.?key|private|signature|user.?hash"
    r"|card|cvc|cvv|iban)"
)
_SECRET_STARTS = ("psk_", "sk_", "whsec_", "idsec_", "bearer ", "basic ", "eyj", "-----begin")
_SECRET_NAME = Pattern(_SENSITIVE_NAMES, ignore_case=True)
_SECRET_FIELD = Pattern(
    rf"""(?P<name>[\pL\pN_-]*{_SENSITIVE_NAMES}[\pL\pN_-]*["']?\s*[:=]\s*)"""
    r"""(?P<value>"(?:\\.|[^"\n])*"?|'(?:\\.|[^'\n])*'?|[^\s,}\]]+)""",
    ignore_case=True,
)
_SECRET_WORD = Pattern(
    r"(?:psk_|sk_|whsec_|idsec_|eyJ)[^\s\"',}]*|(?:bearer|basic)\s+[^\s\"',}]+|-----BEGIN(?s:.*)",
    ignore_case=True,
)
_ADDRESS = Pattern(
    r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\b"
    r"|(?:[0-9a-f]{1,4}:)*[0-9a-f]{0,4}::(?:[0-9a-f]{1,4}:)*[0-9a-f]{0,4}",
    ignore_case=True,
)
_QUERY = Pattern(r"([?#])\S+")


def redact(item: Any) -> str:
    """Return a redacted item as JSON, at most 1,000 characters.

    Shortened parts end in an ellipsis.
    """
    text = json.encode(_redacted(item, 0)).decode()
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + _ELLIPSIS


def redact_text(text: str) -> str:
    """Redact text that is not JSON, and shorten it to 200 characters."""
    shown = text[:_MAX_PLAIN_TEXT]
    shown = _SECRET_FIELD.sub(_hide_value, shown)
    for pattern in (_SECRET_WORD, _ADDRESS):
        shown = pattern.sub(lambda _: _HIDDEN, shown)
    if "://" in shown:
        shown = _QUERY.sub(_hide_query, shown)
    is_short = len(text) <= _MAX_PLAIN_TEXT and len(shown) <= _MAX_PLAIN_TEXT
    return shown if is_short else shown[: _MAX_PLAIN_TEXT - 1] + _ELLIPSIS


def _hide_value(field: Match) -> str:
    quote = field["value"][0] if field["value"][0] in "\"'" else ""
    return f"{field['name']}{quote}{_HIDDEN}{quote}"


def _hide_query(query: Match) -> str:
    return query[1] + _ELLIPSIS


def _redacted(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _redacted_text(value)
    if isinstance(value, Mapping | list) and depth == _MAX_DEPTH:
        return _ELLIPSIS
    if isinstance(value, Mapping):
        fields = list(value.items())
        shown = {
            _redacted_text(name): _HIDDEN
            if _SECRET_NAME.search(name[:_MAX_CHARS])
            else _redacted(field, depth + 1)
            for name, field in fields[:_MAX_FIELDS]
        }
        return shown | ({_ELLIPSIS: len(fields) - _MAX_FIELDS} if len(fields) > _MAX_FIELDS else {})
    if isinstance(value, list):
        entries = [_redacted(entry, depth + 1) for entry in value[:_MAX_ENTRIES]]
        return entries + ([_ELLIPSIS] if len(value) > _MAX_ENTRIES else [])
    return value


def _redacted_text(value: str) -> str:
    if value[:_MAX_TEXT].lower().startswith(_SECRET_STARTS) or _is_network_address(value):
        return _HIDDEN
    shown = value[:_MAX_CHARS]
    if "://" in shown:
        shown = _QUERY.sub(_hide_query, shown)  # A URL's query may contain anything.
    return shown if len(shown) <= _MAX_TEXT else shown[: _MAX_TEXT - 1] + _ELLIPSIS


def _is_network_address(value: str) -> bool:
    if len(value) > 45 or not ("." in value or ":" in value):
        return False
    try:
        ip_address(value.strip())
    except ValueError:
        return False
    return True
