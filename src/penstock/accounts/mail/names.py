"""Makes names that strangers chose safe to show in emails from the operator's server."""

import unicodedata
from itertools import groupby

_MAX_CHARS = 60
_PLAIN = frozenset("-&,'()!")
_MAX_DIGITS = 6
"""Maximum number of consecutive digits, because phones offer to call longer numbers."""


def plain_name(name: str) -> str:
    """Return the name without anything that a mail client would turn into a link.

    Removes addresses, numbers and quotes. Keeps letters, digits, spaces and a few punctuation
    marks. Dots, colons, slashes and `@`, which addresses need, become spaces in every script. Empty
    if nothing is left.
    """
    # Normalise first, because browsers read a full-width dot as a dot.
    text = "".join(map(_plain_character, unicodedata.normalize("NFKC", name.replace("’", "'"))))
    words = [word for word in text.split() if word == "&" or any(map(str.isalnum, word))]
    remaining = [
        word
        for is_number, group in groupby(words, _is_number)
        for word in _drop_long_number(list(group), is_number)
    ]
    plain = " ".join(remaining)
    return plain if len(plain) <= _MAX_CHARS else plain[: _MAX_CHARS - 1].rstrip() + "…"


def _plain_character(character: str) -> str:
    if character in _PLAIN or unicodedata.category(character)[0] in "LMN":
        return character
    return "" if unicodedata.category(character) == "Cf" else " "


def _is_number(word: str) -> bool:
    return not any(map(str.isalpha, word)) or _digits(word) > _MAX_DIGITS


def _digits(text: str) -> int:
    return sum(map(str.isnumeric, text))


def _drop_long_number(words: list[str], is_number: bool) -> list[str]:
    """Return the words, or an empty list for a long number. is_number: whether the words are
    digits.
    """
    return [] if is_number and _digits("".join(words)) > _MAX_DIGITS else words
