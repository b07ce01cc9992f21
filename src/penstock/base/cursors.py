"""Cursors of lists: opaque strings that are safe in URLs."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encode_cursor(content: bytes) -> str:
    """URL-safe base 64 without padding."""
    return urlsafe_b64encode(content).decode().rstrip("=")


def decode_cursor(text: str) -> bytes:
    """The content of a cursor. `ValueError` when the text is not base 64."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
