"""Parses the `Prefer` header. Source: RFC 7240."""

from collections.abc import Iterable, Iterator

RESPOND_ASYNC = "respond-async"

_MAX_CHARS = 4096
"""Maximum number of characters in a header. A longer header is ignored, like a malformed one."""
_TOKEN_CHARS = frozenset(
    "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)


def prefers_async(headers: Iterable[str]) -> bool:
    """Whether the client prefers a job. headers: the value of each `Prefer` header.

    Malformed and unknown preferences are ignored, as the RFC requires.
    """
    return any(
        _is_respond_async(preference)
        for header in headers
        if len(header) <= _MAX_CHARS
        for preference in _split_unquoted(header, ",")
    )


def _is_respond_async(preference: str) -> bool:
    name_and_value, *parameters = _split_unquoted(preference, ";")
    name, _, value = name_and_value.partition("=")
    return (
        name.strip().lower() == RESPOND_ASYNC
        and value.strip() in ("", '""')
        and all(not parameter.strip() or _is_parameter(parameter) for parameter in parameters)
    )


def _is_parameter(text: str) -> bool:
    name, equals, value = (part.strip() for part in text.partition("="))
    return _is_token(name) and (not equals or _is_token(value) or _is_quoted(value))


def _is_token(text: str) -> bool:
    return bool(text) and _TOKEN_CHARS.issuperset(text)


def _is_quoted(text: str) -> bool:
    """Whether the text is exactly one quoted string: its opening quote is closed at the end."""
    return len(text) > 1 and text[0] == '"' and _end_of_quoted(text, 0) == len(text)


def _split_unquoted(text: str, separator: str) -> Iterator[str]:
    """Yield the parts between separators outside quoted strings. Reads the text only once."""
    start = index = 0
    while index < len(text):
        if text[index] == '"':
            index = _end_of_quoted(text, index)
            continue
        if text[index] == separator:
            yield text[start:index]
            start = index + 1
        index += 1
    yield text[start:]


def _end_of_quoted(text: str, start: int) -> int:
    """Return the index after a quoted string; past the end of the text if it is not closed."""
    index = start + 1
    while index < len(text):
        if text[index] == '"':
            return index + 1
        index += 2 if text[index] == "\\" else 1
    return len(text) + 1
