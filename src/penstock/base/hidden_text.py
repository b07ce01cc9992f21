"""Characters that people cannot see: invisible ones, and those that turn the direction of text.

The invisible characters are those that Unicode calls format characters or default-ignorable, and
fillers, which are drawn as nothing. Source: Unicode 15, DerivedCoreProperties, UAX #9, UTS #51.
"""

from penstock.base.patterns import Match, Pattern

_CLASS = (
    r"\p{Cf}\x{034f}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{2028}\x{2029}\x{2065}"
    r"\x{2800}\x{3164}\x{fe00}-\x{fe0f}\x{ffa0}\x{fff0}-\x{fff8}\x{e0000}-\x{e0fff}"
)
_SHOWN = r"\x{0600}-\x{0605}\x{06dd}\x{070f}\x{0890}\x{0891}\x{08e2}\x{110bd}\x{110cd}"
"""Format characters that are drawn, such as the Arabic number sign."""
_HIDDEN = Pattern(f"[{_CLASS}]")
_CONTROL = Pattern(r"[\p{Cc}\x{fffe}\x{ffff}]")
"""Characters that have no meaning in a text and that XML does not allow."""
_LEADING = Pattern(rf"^[{_CLASS}\pZ\p{{Cc}}]+")

_JOINERS = r"[\x{200c}\x{200d}]"
_SELECTORS = r"[\x{fe00}-\x{fe0f}\x{e0100}-\x{e01ef}]"
_JOINED_LETTERS = (
    r"\p{Arabic}\p{Syriac}\p{Mandaic}\p{Nko}\p{Mongolian}\p{Phags_Pa}\p{Manichaean}\p{Adlam}"
    r"\p{Hanifi_Rohingya}\p{Sogdian}\p{Devanagari}\p{Bengali}\p{Gurmukhi}\p{Gujarati}\p{Oriya}"
    r"\p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Sinhala}\p{Tibetan}\p{Myanmar}\p{Khmer}"
    r"\p{Javanese}\p{Balinese}\p{Sundanese}\p{Grantha}\p{Newa}\p{Tirhuta}\p{Sharada}\p{Thai}\p{Lao}"
    r"\x{064b}-\x{0655}\x{0670}\x{0951}-\x{0954}"
)
"""Scripts in which a joiner changes how a letter or a conjunct is drawn, with marks that several of
them share.
"""
_EMOJI = r"[\p{So}\x{2194}\x{2139}\x{203c}\x{2049}\x{3030}][\x{1f3fb}-\x{1f3ff}]?"
_DRAWN = Pattern(
    rf"[{_SHOWN}]"
    # The flag of a part of a country: a black flag and the letters of the part's code.
    r"|\x{1f3f4}[\x{e0030}-\x{e0039}\x{e0061}-\x{e007a}]{2,6}\x{e007f}"
    rf"|{_EMOJI}\x{{fe0f}}?(?:\x{{200d}}{_EMOJI}\x{{fe0f}}?)*\x{{fe0e}}?"
    r"|[0-9#*]\x{fe0f}\x{20e3}"
    rf"|[\p{{Han}}]{_SELECTORS}"
    r"|[\p{Mongolian}][\x{180b}-\x{180f}]"
    rf"|[{_JOINED_LETTERS}](?:{_JOINERS}[{_JOINED_LETTERS}])+"
)
"""Uses of these characters that people can see, with the characters around them."""
_MARKS = Pattern(rf"{_JOINERS}|{_SELECTORS}|[{_SHOWN}\x{{180b}}-\x{{180f}}\x{{e0030}}-\x{{e007f}}]")


def has_hidden_text(text: str) -> bool:
    """Whether a text has a character that people cannot see.

    A joiner between two letters of a script that joins letters, or between two emoji, is visible:
    it changes how they are drawn. So are the variation selectors of emoji and of Chinese
    characters.
    """
    return not text.isascii() and _HIDDEN.search(_DRAWN.sub(_without_marks, text)) is not None


def without_hidden_start(text: str) -> str:
    """Return a text without white space, control and invisible characters at its start."""
    if text[:1].isascii() and text[:1].isalnum():
        return text  # Most texts need no search.
    return _LEADING.sub(_remove, text)


def _without_marks(drawn: Match) -> str:
    return _MARKS.sub(_remove, drawn[0])


def _remove(_: Match) -> str:
    return ""


def printable(text: str) -> str:
    """Replace control characters, which could change what a terminal shows."""
    return "".join(character if character.isprintable() else "?" for character in text)


def visible(text: str) -> str:
    """Replace characters that people cannot see, if a text has any, by question marks."""
    return printable(text) if _CONTROL.search(text) or has_hidden_text(text) else text
