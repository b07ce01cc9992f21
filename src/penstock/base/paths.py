"""Page paths: their canonical form, shared by events and funnel definitions, and those of URLs."""

from unicodedata import normalize
from urllib.parse import SplitResult, urlsplit

from penstock.base.patterns import Pattern

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_PLAIN = _UNRESERVED + b"!$&'()*+,;=:@/?#"
"""ASCII that stays as it is. Paths have no `?` and no `#`: they are cut off first."""
_INVISIBLE = (
    (0x80, 0xA0), (0xAD, 0xAD), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F),
    (0x890, 0x891), (0x8E2, 0x8E2), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200F),
    (0x2028, 0x202F), (0x205F, 0x2064), (0x2066, 0x206F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x13438),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0001, 0xE0001), (0xE0020, 0xE007F),
)  # fmt: skip
"""Controls, blanks and marks of format, from first to last. Not read from the tables of Python,
which grow with its version: a path keeps its canonical form."""
_HEX = frozenset("0123456789abcdefABCDEF")
_NOT_UTF_8 = range(0xDC80, 0xDD00)
"""What `surrogateescape` makes of bytes that are not UTF-8, plus 0xDC00."""

_MAX_MARKS = 30
_MORE_MARKS = Pattern(rf"\pM{{{_MAX_MARKS + 1}}}")

_ENCODED = {
    **{code: f"%{code:02X}" for code in range(0x80) if code not in (*_PLAIN, ord("%"))},
    **{
        code: "".join(f"%{byte:02X}" for byte in chr(code).encode())
        for first, last in _INVISIBLE
        for code in range(first, last + 1)
    },
    **{code: f"%{code - 0xDC00:02X}" for code in _NOT_UTF_8},
}
"""For `str.translate`: the characters that a path has only encoded."""


def page_path(path: str) -> str:
    """The canonical path without query, fragment, dot segments and trailing slash; `/` stays.

    Source: funnel semantics, matching; RFC 3986, section 6.2.2.
    """
    spelling = canonical_spelling(path.partition("?")[0].partition("#")[0])
    return _without_dot_segments(spelling).rstrip("/") or "/"


def page_path_or_text(text: str) -> str:
    """The canonical path of a text that begins as a path; any other text as it is.

    For texts that paths are compared with: no path equals the others.
    """
    return page_path(text) if text.startswith("/") else text


def canonical_spelling(text: str) -> str:
    """A path, or a part of one, with each character in the one way that stored paths have it.

    Percent-encoded UTF-8 is decoded, except reserved ASCII and what nobody sees; the rest is
    encoded, in capitals. What is not encoded is in NFC. Source: RFC 3986, section 6.2.2.
    """
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return text
    first, *others = _decoded(text).translate(_ENCODED).split("%")
    # Characters do not combine with the digits of an encoded one before them.
    composed = [_composed(first), *(piece[:2] + _composed(piece[2:]) for piece in others)]
    return "%".join(composed).translate(_ENCODED)


def _without_dot_segments(path: str) -> str:
    if "/." not in path or not path.startswith("/"):
        return path
    segments = list[str]()
    for segment in path.split("/"):
        if segment == "..":
            del segments[max(1, len(segments) - 1) :]  # the first is empty, before the slash
        elif segment != ".":
            segments.append(segment)
    return "/".join(segments)


def _decoded(text: str) -> str:
    """The text without encoded characters that need not be. Every `%` has two digits then.

    Bytes that are not UTF-8 become lone surrogates.
    """
    first, *others = text.split("%")
    content = bytearray(_bytes(first))
    for piece in others:
        digits = piece[:2]
        if len(digits) < 2 or not _HEX.issuperset(digits):
            content += b"%25" + _bytes(piece)
            continue
        byte = int(digits, 16)
        if byte < 0x80 and byte not in _UNRESERVED:
            content += b"%%%02X" % byte
        else:
            content.append(byte)
        content += _bytes(piece[2:])
    return content.decode("utf-8", "surrogateescape")


def _composed(text: str) -> str:
    """The text in NFC, unless it has more marks in a row than any language.

    The time for those grows with the square of their number.
    """
    if len(text) > _MAX_MARKS and _MORE_MARKS.search(text):
        return text
    return normalize("NFC", text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def split_url(url: str) -> SplitResult | None:
    """The parts of a URL; None when it is none."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


def path_of_url(url: SplitResult | None) -> str | None:
    """The page path of a URL; None when it has none."""
    return page_path(url.path) if url is not None and url.path[:1] in ("", "/") else None
