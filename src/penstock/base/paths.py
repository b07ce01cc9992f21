"""Canonical page paths, which events and funnel definitions share, and paths in URLs."""

from urllib.parse import SplitResult, urlsplit

from penstock.base.unicode_text import composed

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_PLAIN = _UNRESERVED + b"!$&'()*+,;=:@/?#"
"""ASCII characters that stay unencoded. `?` and `#` never occur, because paths end before them."""
_INVISIBLE = (
    (0x80, 0xA0), (0xAD, 0xAD), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F),
    (0x890, 0x891), (0x8E2, 0x8E2), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200F),
    (0x2028, 0x202F), (0x205F, 0x2064), (0x2066, 0x206F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x13438),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0001, 0xE0001), (0xE0020, 0xE007F),
)  # fmt: skip
"""Control characters, spaces and format marks, as inclusive ranges.

Python's own tables change between versions, but canonical paths must not change.
"""
_HEX = frozenset("0123456789abcdefABCDEF")
_NOT_UTF_8 = range(0xDC80, 0xDD00)
"""Code points that `surrogateescape` creates for bytes that are not UTF-8: 0xDC00 plus the byte."""

_ENCODED = {
    **{code: f"%{code:02X}" for code in range(0x80) if code not in (*_PLAIN, ord("%"))},
    **{
        code: "".join(f"%{byte:02X}" for byte in chr(code).encode())
        for first, last in _INVISIBLE
        for code in range(first, last + 1)
    },
    **{code: f"%{code - 0xDC00:02X}" for code in _NOT_UTF_8},
}
"""Characters that a canonical path contains only in encoded form, for `str.translate`."""


def page_path(path: str) -> str:
    """Return the canonical path without query, fragment, dot segments or trailing slash; `/` is
    kept.

    Source: funnel semantics, matching; RFC 3986, section 6.2.2.
    """
    spelling = canonical_spelling(path.partition("?")[0].partition("#")[0])
    return _drop_dot_segments(spelling).rstrip("/") or "/"


def page_path_or_text(text: str) -> str:
    """Return the canonical path if the text starts like a path, otherwise the text unchanged.

    Use it for values that are compared with paths. A text that is not a path never equals a path.
    """
    return page_path(text) if text.startswith("/") else text


def canonical_spelling(text: str) -> str:
    """Return a path, or part of one, with each character in the only form that stored paths use.

    Percent-encoded UTF-8 is decoded, except reserved ASCII and invisible characters; the rest is
    encoded with upper-case hex digits. Unencoded text is normalised to NFC. Source: RFC 3986,
    section 6.2.2.
    """
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return text
    first, *others = _decode(text).translate(_ENCODED).split("%")
    # A combining character must not combine with the digits of an encoded character before it.
    pieces = [composed(first), *(piece[:2] + composed(piece[2:]) for piece in others)]
    return "%".join(pieces).translate(_ENCODED)


def _drop_dot_segments(path: str) -> str:
    if "/." not in path or not path.startswith("/"):
        return path
    segments = list[str]()
    for segment in path.split("/"):
        if segment == "..":
            # Keep the empty first segment, before the leading slash.
            del segments[max(1, len(segments) - 1) :]
        elif segment != ".":
            segments.append(segment)
    return "/".join(segments)


def _decode(text: str) -> str:
    """Decode the text where allowed. Every `%` in the result is followed by two digits.

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


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def split_url(url: str) -> SplitResult | None:
    """Split a URL into its parts; None if it cannot be parsed."""
    try:
        return urlsplit(url)
    except ValueError:
        return None


def path_of_url(url: SplitResult | None) -> str | None:
    """Return the page path of a URL; None if it has no path."""
    return page_path(url.path) if url is not None and url.path[:1] in ("", "/") else None
