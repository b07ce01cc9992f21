"""Cursors for lists: opaque strings that are safe in URLs."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def encode_cursor(content: bytes) -> str:
    """Encode a cursor as URL-safe base 64 without padding."""
    return urlsafe_b64encode(content).decode().rstrip("=")


def decode_cursor(text: str) -> bytes:
    """Return the content of a cursor. Raises `ValueError` if the text is not base 64."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
