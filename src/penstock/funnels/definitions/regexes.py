"""Checks regular expressions with the engine that runs them."""

from collections.abc import Callable
from functools import lru_cache

from penstock.http.schema import RuleBroken
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed, unavailable

_CANNOT_COMPILE = {
    427: (", error: ", ". Look at "),
    36: ("not a valid re2 pattern: ", ": In scope "),
}
"""Codes of the engine, and what its message has before and after RE2's own words."""

_COMPILE = "SELECT match('', {pattern:String}), replaceRegexpOne('', {pattern:String}, '')"
"""`match` looks for plain text in a pattern first and may not compile it; then `)` matches every
text. The other function always compiles. RE2 in this process would hold Python's lock, for half a
second at worst."""


def regex_checker(warehouse: Warehouse) -> Callable[[str], None]:
    """A check that raises RuleBroken for a pattern that the engine cannot compile.

    Unavailable when the engine does not answer. The check remembers the patterns that compiled.
    """

    @lru_cache(maxsize=500)
    def check(pattern: str) -> None:
        try:
            warehouse.query(_COMPILE, {"pattern": pattern})
        except QueryFailed as error:
            if error.code not in _CANNOT_COMPILE:
                raise unavailable() from error
            raise RuleBroken(
                "bad_regex", f"Must be a regular expression in RE2's syntax{_reason(error)}."
            ) from None

    return check


def _reason(error: QueryFailed) -> str:
    """RE2's own words from the engine's message, if they are where we expect them."""
    before, after = _CANNOT_COMPILE[error.code]
    reason = str(error).partition(before)[2].partition(after)[0]
    return f": {reason}" if reason else ""
