"""Names that strangers chose, in mails that the operator's server sends."""

import unicodedata
from itertools import groupby

_MAX_CHARS = 60
_PLAIN = frozenset("-&,'()!")
_MOST_DIGITS = 6
"""Longer numbers are left out: phones offer to call them."""


def plain_name(name: str) -> str:
    """The name with nothing in it that a mail client links: no addresses, numbers, or quotes.

    Letters, digits, spaces and a little punctuation stay. Dots, colons, slashes and `@`, which
    addresses need, become spaces, whatever script writes them. Empty if nothing is left.
    """
    # Compatible forms first: browsers read a full-width dot as a dot.
    text = "".join(map(_plain, unicodedata.normalize("NFKC", name.replace("’", "'"))))
    words = [word for word in text.split() if word == "&" or any(map(str.isalnum, word))]
    remaining = [
        word
        for is_number, group in groupby(words, _is_number)
        for word in _without_long(list(group), is_number)
    ]
    plain = " ".join(remaining)
    return plain if len(plain) <= _MAX_CHARS else plain[: _MAX_CHARS - 1].rstrip() + "…"


def _plain(character: str) -> str:
    if character in _PLAIN or unicodedata.category(character)[0] in "LMN":
        return character
    return "" if unicodedata.category(character) == "Cf" else " "


def _is_number(word: str) -> bool:
    return not any(map(str.isalpha, word)) or _digits(word) > _MOST_DIGITS


def _digits(text: str) -> int:
    return sum(map(str.isnumeric, text))


def _without_long(words: list[str], is_number: bool) -> list[str]:
    """Words in a row, without those that are a long number together. is_number: of all words."""
    return [] if is_number and _digits("".join(words)) > _MOST_DIGITS else words
