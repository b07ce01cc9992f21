"""The header `Prefer`. Source: RFC 7240."""

import re
from collections.abc import Iterable

RESPOND_ASYNC = "respond-async"

_NAME = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_WORD = rf'(?:{_NAME}|"(?:[^"\\]|\\.)*")'
_PARAMETER = rf"{_NAME}(?:\s*=\s*{_WORD})?"
_PREFERENCE = re.compile(
    rf"\s*(?P<name>{_NAME})(?:\s*=\s*(?P<value>{_WORD})?)?(?:\s*;\s*(?:{_PARAMETER})?)*\s*"
)
_PART = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')


def prefers_async(headers: Iterable[str]) -> bool:
    """Whether the client prefers a job. headers: the value of each `Prefer` header.

    Malformed and unknown preferences are ignored, as the RFC requires.
    """
    for header in headers:
        for part in _PART.findall(header):
            preference = _PREFERENCE.fullmatch(part)
            if (
                preference
                and preference["name"].lower() == RESPOND_ASYNC
                and preference["value"] in (None, '""')
            ):
                return True
    return False
