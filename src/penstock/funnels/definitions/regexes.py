"""Checks regular expressions with the engine that will run them."""

from collections.abc import Callable
from functools import lru_cache

from penstock.http.schema import RuleBroken
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed, unavailable_error

_CANNOT_COMPILE = {
    427: (", error: ", ". Look at "),
    36: ("not a valid re2 pattern: ", ": In scope "),
}
"""The text before and after RE2's message in the engine's error message, by error code."""

_COMPILE = "SELECT match('', {pattern:String}), replaceRegexpOne('', {pattern:String}, '')"
"""`match` first looks for plain text in a pattern and may not compile it, so `)` would match every
text. `replaceRegexpOne` always compiles. Running RE2 in this process would hold Python's lock, at
worst for half a second.
"""


def regex_checker(warehouse: Warehouse) -> Callable[[str], None]:
    """Create a check that raises RuleBroken for a pattern that the engine cannot compile.

    The check remembers patterns that compiled. It raises Unavailable if the engine does not
    respond.
    """

    @lru_cache(maxsize=500)
    def check(pattern: str) -> None:
        try:
            warehouse.query(_COMPILE, {"pattern": pattern})
        except QueryFailed as error:
            if error.code not in _CANNOT_COMPILE:
                raise unavailable_error() from error
            raise RuleBroken(
                "bad_regex", f"Must be a regular expression in RE2's syntax{_reason(error)}."
            ) from None

    return check


def _reason(error: QueryFailed) -> str:
    """Return RE2's message from the engine's message, if it has the expected form."""
    before, after = _CANNOT_COMPILE[error.code]
    reason = str(error).partition(before)[2].partition(after)[0]
    return f": {reason}" if reason else ""
