"""Cuts texts that are longer than their limit, and marks their end."""

from penstock.base.event_limits import MAX_PATH_CHARS, MAX_STRING_BYTES

MARK = "…"
"""The end of a text that was cut."""
_MARK_BYTES = len(MARK.encode())
_MAX_BYTES_PER_CHARACTER = 4
_ESCAPE_CHARS = 3
"""Length of a percent-encoded byte, such as `%2F`."""


def cut_text(text: str, max_bytes: int = MAX_STRING_BYTES) -> str:
    """Return the text with at most this many bytes."""
    if len(text) * _MAX_BYTES_PER_CHARACTER <= max_bytes:
        return text
    content = text.encode()
    if len(content) <= max_bytes:
        return text
    return content[: max_bytes - _MARK_BYTES].decode("utf-8", "ignore") + MARK


def cut_path(path: str) -> str:
    """Return a canonical page path with at most `MAX_PATH_CHARS` characters, canonical again."""
    if len(path) <= MAX_PATH_CHARS:
        return path
    start = path[: MAX_PATH_CHARS - len(MARK)]
    broken_escape = start.rfind("%", len(start) - _ESCAPE_CHARS + 1)
    return (start if broken_escape < 0 else start[:broken_escape]) + MARK
