"""Unicode texts in the one spelling that Penstock compares."""

from unicodedata import is_normalized, normalize

from penstock.base.patterns import Pattern

_MAX_MARKS = 30
_MORE_MARKS = Pattern(rf"\pM{{{_MAX_MARKS + 1}}}")


def composed(text: str) -> str:
    """Return the text in NFC, in which `é` is one character however it was sent.

    A text with more consecutive combining marks than any language uses stays as it is, because the
    time for normalising such marks grows with the square of their number.
    """
    if text.isascii() or (len(text) > _MAX_MARKS and _MORE_MARKS.search(text)):
        return text
    return text if is_normalized("NFC", text) else normalize("NFC", text)


def is_composed(text: bytes) -> bool:
    """Whether a text in UTF-8 is surely in NFC, so that `composed` changes no part of it."""
    if text.isascii():
        return True
    decoded = text.decode()
    return not _MORE_MARKS.search(decoded) and is_normalized("NFC", decoded)


def spellings(text: str) -> set[str]:
    """Return the text, and its spelling in NFC. History may have either."""
    return {text, composed(text)}
