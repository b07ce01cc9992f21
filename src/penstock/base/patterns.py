"""Regular expressions for untrusted input. They use RE2, which runs in linear time.

Python's `re` backtracks, so a text of 50 bytes can take seconds; a test forbids it in the service.
RE2 does not support lookaround or back-references, and its classes `\\d`, `\\s` and `\\w` are
ASCII. Hot paths use handwritten checks instead, because an RE2 call takes a few microseconds.
"""

from collections.abc import Callable
from typing import Protocol

import re2  # type: ignore[import-untyped]

_MEMORY_PER_INSTRUCTION = 96
"""RE2 stops compiling when a program needs more than its memory limit: 96 bytes for each
instruction. It needs a third for the reverse program, and four times the size of an instruction.
"""


class Match(Protocol):
    """A match of a pattern. Groups have numbers, from 1, or names; an unused group is None."""

    def __getitem__(self, group: int | str) -> str: ...
    def groupdict(self) -> dict[str, str | None]: ...
    def start(self) -> int: ...
    def end(self) -> int: ...


class BadPattern(Exception):
    """RE2 cannot compile a pattern. The message is RE2's reason."""


class TooLargePattern(Exception):
    """A pattern compiles to a program with too many instructions."""


class Pattern:
    """A compiled regular expression. A lone surrogate in a text is read as U+FFFD."""

    def __init__(self, pattern: str, *, ignore_case: bool = False, captures: bool = True) -> None:
        """Compile a pattern. A dot matches any character except a newline.

        Raises an error if RE2 cannot compile it.

        captures: whether to record groups; a large pattern is much faster without them.
        """
        options = re2.Options()
        options.case_sensitive = not ignore_case
        options.never_capture = not captures
        options.log_errors = False
        self.pattern = pattern
        self._compiled = re2.compile(pattern, options)

    def fullmatch(self, text: str) -> Match | None:
        match: Match | None = self._compiled.fullmatch(_replace_surrogates(text))
        return match

    def search(self, text: str) -> Match | None:
        match: Match | None = self._compiled.search(_replace_surrogates(text))
        return match

    def split(self, text: str) -> list[str]:
        parts: list[str] = self._compiled.split(_replace_surrogates(text))
        return parts

    def sub(self, replace: Callable[[Match], str], text: str) -> str:
        replaced: str = self._compiled.sub(replace, _replace_surrogates(text))
        return replaced


class BytesPattern:
    """Like `Pattern`, but for bytes. Searching a large text does not block other threads."""

    def __init__(self, pattern: bytes) -> None:
        """pattern: its dots and classes match any byte."""
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.never_capture = options.dot_nl = True
        options.log_errors = False
        self._compiled = re2.compile(pattern, options)

    def end_of_match(self, content: bytes, start: int) -> int | None:
        """Return the end of the match that begins at `start`; None if there is no match."""
        match = self._compiled.match(content, start)
        return None if match is None else int(match.end())


def program_size(pattern: str, at_most: int) -> int:
    """Return the number of instructions of a pattern's program. A dot matches any character.

    A text of n bytes is matched in at most n times as many steps. RE2 holds the interpreter's lock
    while it compiles, but stops early at a program that is too large.

    Raises `TooLargePattern` if there are more instructions than `at_most`, and `BadPattern`.
    """
    options = re2.Options()
    options.max_mem = at_most * _MEMORY_PER_INSTRUCTION
    options.never_capture = options.dot_nl = True
    options.log_errors = False
    try:
        size = int(re2.compile(pattern, options).programsize)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace")
        if reason.startswith("pattern too large"):
            raise TooLargePattern from None
        raise BadPattern(reason) from None
    if size > at_most:
        raise TooLargePattern
    return size


def _replace_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def is_digits(text: str) -> bool:
    """Whether a text is one or more of the digits 0 to 9."""
    return text.isascii() and text.isdigit()


def is_decimal(text: str) -> bool:
    """Whether a text is a decimal number such as 19.99, without a plus sign or an exponent."""
    whole, dot, fraction = text.removeprefix("-").partition(".")
    return is_digits(whole) and (not dot or is_digits(fraction))


def is_integer(text: str) -> bool:
    """Whether a text is a decimal integer without a plus sign."""
    return is_digits(text.removeprefix("-"))
