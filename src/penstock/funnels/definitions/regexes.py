"""Checks regular expressions: their size with RE2, their syntax with the engine that will run them.

RE2 takes at most one step for each instruction of a pattern and each byte of a text. The limits of
instructions and of texts (8 KB) therefore limit the time that the engine needs for one event.
"""

from collections.abc import Callable
from functools import lru_cache
from time import monotonic
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from penstock.base.errors import Unavailable
from penstock.base.ids import WorkspaceId
from penstock.base.patterns import BadPattern, TooLargePattern, program_size
from penstock.funnels.definitions.schema import ValidationContext
from penstock.http.bodies import parse_model
from penstock.http.schema import RuleBroken
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed, unavailable_error

M = TypeVar("M", bound=BaseModel)

MAX_SIZE, MAX_TOTAL_SIZE = 4_000, 20_000
"""Maximum instructions of one pattern, and of all patterns of a request."""
_MAX_PARTS, _MAX_TOTAL_PARTS = 64, 256
"""Maximum numbers of costly parts. A part takes RE2 up to 0.13 ms, even if the pattern turns out to
be too large; everything else in a pattern of 16 KB takes a few milliseconds.
"""
_DEADLINE_S = 10.0
"""Maximum time to check the patterns of one request, in seconds."""
_REMEMBERED = 500

_CANNOT_COMPILE = {
    427: (", error: ", ". Look at "),
    36: ("not a valid re2 pattern: ", ": In scope "),
}
"""The text before and after RE2's message in the engine's error message, by error code."""

_COMPILE = "SELECT match('', {pattern:String}), replaceRegexpOne('', {pattern:String}, '')"
"""`match` first looks for plain text in a pattern and may not compile it, so `)` would match every
text. `replaceRegexpOne` always compiles.
"""


class _Verdict(NamedTuple):
    """The result of a check. size: instructions to count against the request's limit.

    fault: the broken rule; None if the pattern is accepted.
    """

    size: int
    fault: RuleBroken | None = None


class PatternChecker:
    """Checks patterns, and remembers the results for the last ones, including refusals."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._verdict = lru_cache(maxsize=_REMEMBERED)(self._examine)

    def begin(self) -> Callable[[str], None]:
        """Return the check for the patterns of one request, which has limits for all together.

        It raises RuleBroken for a bad pattern, and Unavailable if the engine does not respond.
        """
        return _RequestPatterns(self._verdict).check

    def read(self, _: WorkspaceId, body: bytes, model: type[M]) -> M:
        """Parse a body with filters or a match, and check its patterns.

        Raises Malformed if it is not JSON, and Invalid with all faults if it breaks rules.
        """
        return parse_model(body, model, ValidationContext({}, self.begin()))

    def _examine(self, pattern: str) -> _Verdict:
        if _costly_parts(pattern) > _MAX_PARTS:
            message = (
                f"Must have at most {_MAX_PARTS} counted repetitions such as {{2,5}} and Unicode "
                "classes such as \\pL."
            )
            return _Verdict(0, RuleBroken("too_costly", message))
        try:
            size = program_size(pattern, MAX_SIZE)
        except BadPattern as error:
            return _Verdict(0, _bad_regex(str(error)))
        except TooLargePattern:
            message = (
                f"Must compile to at most {MAX_SIZE:,} RE2 instructions. Use shorter counted "
                "repetitions such as {2,5}, or fewer Unicode classes such as \\pL."
            )
            return _Verdict(MAX_SIZE, RuleBroken("too_costly", message))
        return _Verdict(size, self._fault_in_engine(pattern))

    def _fault_in_engine(self, pattern: str) -> RuleBroken | None:
        """Return the fault of a pattern that only the engine's version of RE2 refuses."""
        try:
            self._warehouse.query_at_once(_COMPILE, {"pattern": pattern})
        except QueryFailed as error:
            if error.code not in _CANNOT_COMPILE:
                raise unavailable_error() from error
            return _bad_regex(_engines_reason(error))
        return None


class _RequestPatterns:
    """The patterns of one request. A pattern that occurs several times counts once."""

    def __init__(self, verdict: Callable[[str], _Verdict]) -> None:
        self._verdict = verdict
        self._seen: dict[str, _Verdict] = {}
        self._size = self._parts = 0
        self._until_s = monotonic() + _DEADLINE_S

    def check(self, pattern: str) -> None:
        if pattern not in self._seen:
            self._seen[pattern] = self._count(pattern)
        if (fault := self._seen[pattern].fault) is not None:
            # An exception that is raised twice would keep the trace of the first time.
            raise RuleBroken(fault.code, fault.message)

    def _count(self, pattern: str) -> _Verdict:
        if monotonic() > self._until_s:
            raise Unavailable(
                f"Checking the regular expressions took longer than {_DEADLINE_S:g} seconds. "
                "Send the request again, or use fewer of them.",
                code="busy",
            )
        self._parts += _costly_parts(pattern)
        if self._parts > _MAX_TOTAL_PARTS:
            limit = f"have at most {_MAX_TOTAL_PARTS} counted repetitions and Unicode classes"
            return _too_many(limit)
        verdict = self._verdict(pattern) if self._size < MAX_TOTAL_SIZE else _Verdict(MAX_SIZE)
        self._size += verdict.size
        if self._size > MAX_TOTAL_SIZE and verdict.fault is None:
            return _too_many(f"compile to at most {MAX_TOTAL_SIZE:,} RE2 instructions")
        return verdict


def _too_many(limit: str) -> _Verdict:
    message = f"All regular expressions together must {limit}. Use fewer or simpler ones."
    return _Verdict(0, RuleBroken("too_costly", message))


def _costly_parts(pattern: str) -> int:
    return pattern.count("{") + pattern.count("\\p") + pattern.count("\\P")


def _bad_regex(reason: str) -> RuleBroken:
    explanation = f": {reason}" if reason else ""
    return RuleBroken("bad_regex", f"Must be a regular expression in RE2's syntax{explanation}.")


def _engines_reason(error: QueryFailed) -> str:
    """Return RE2's message from the engine's message; empty if it has another form."""
    before, after = _CANNOT_COMPILE[error.code]
    return str(error).partition(before)[2].partition(after)[0]
