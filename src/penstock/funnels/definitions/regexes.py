"""Checks regular expressions with RE2, and with the engine that runs them.

The engine looks for plain text in a pattern before it compiles it, and accepts some that RE2
refuses: to match `)` finds every text.
"""

from collections.abc import Callable
from functools import lru_cache

from penstock.base.patterns import pattern_error
from penstock.http.schema import RuleBroken
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed, unavailable

_CANNOT_COMPILE = 427


def regex_checker(warehouse: Warehouse) -> Callable[[str], None]:
    """A check that raises RuleBroken for a pattern that RE2 or the engine cannot compile.

    Unavailable when the engine does not answer. The check remembers the patterns that compiled.
    """

    @lru_cache(maxsize=500)
    def check(pattern: str) -> None:
        if reason := pattern_error(pattern):
            raise _bad_regex(reason)
        try:
            warehouse.query("SELECT match('', {pattern:String})", {"pattern": pattern})
        except QueryFailed as error:
            if error.code != _CANNOT_COMPILE:
                raise unavailable() from error
            raise _bad_regex(_reason(str(error))) from None

    return check


def _bad_regex(reason: str) -> RuleBroken:
    words = f": {reason}" if reason else ""
    return RuleBroken("bad_regex", f"Must be a regular expression in RE2's syntax{words}.")


def _reason(message: str) -> str:
    """RE2's own words from the engine's message, if they are where we expect them."""
    return message.partition(", error: ")[2].partition(". Look at ")[0]
