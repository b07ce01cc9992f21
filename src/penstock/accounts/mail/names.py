"""Makes texts that strangers chose safe to show in emails from the operator's server."""

import unicodedata
from itertools import groupby

from penstock.base.patterns import Pattern

_MAX_CHARS = 60
_PLAIN = frozenset("-&,'()!")
_MAX_DIGITS = 6
"""Maximum number of consecutive digits, because phones offer to call longer numbers."""

_MAX_SENTENCE_CHARS = 400
_DOMAIN_DOT = Pattern(r"[.\x{3002}]([\p{L}\p{M}])")
_DOTTED_NUMBER = Pattern(r"\d+(?:\.\d+){2,}")
_SCHEME_COLON = Pattern(r":([^\s\d])")


def plain_sentence(sentence: str) -> str:
    """Return a sentence, which may contain names, without anything that a mail client would turn
    into a link.

    Unlike `plain_name`, it keeps punctuation, quotes and numbers such as `61.3%`. Only the dots and
    colons of addresses and `@` go. Line breaks become spaces.
    """
    normal = unicodedata.normalize("NFKC", sentence).replace("@", " ")
    visible = "".join(
        "" if unicodedata.category(character) == "Cf" else character for character in normal
    )
    text = _DOMAIN_DOT.sub(lambda dot: f" {dot[1]}", " ".join(visible.split()))
    text = _DOTTED_NUMBER.sub(lambda number: number[0].replace(".", " "), text)
    text = _SCHEME_COLON.sub(lambda colon: f": {colon[1]}", text)
    cut = text[: _MAX_SENTENCE_CHARS - 1].rstrip() + "…"
    return text if len(text) <= _MAX_SENTENCE_CHARS else cut


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
