"""Checks regular expressions with the engine that runs them."""

from collections.abc import Callable
from functools import lru_cache

from penstock.http.schema import RuleBroken
from penstock.warehouse.client import Warehouse
from penstock.warehouse.errors import QueryFailed, unavailable

_CANNOT_COMPILE = 427


def regex_checker(warehouse: Warehouse) -> Callable[[str], None]:
    """A check that raises RuleBroken for a pattern that the engine cannot compile.

    Unavailable when the engine does not answer. The check remembers the patterns that compiled.
    """

    @lru_cache(maxsize=500)
    def check(pattern: str) -> None:
        try:
            warehouse.query("SELECT match('', {pattern:String})", {"pattern": pattern})
        except QueryFailed as error:
            if error.code != _CANNOT_COMPILE:
                raise unavailable() from error
            raise RuleBroken(
                "bad_regex", f"Must be a regular expression in RE2's syntax{_reason(str(error))}."
            ) from None

    return check


def _reason(message: str) -> str:
    """RE2's own words from the engine's message, if they are where we expect them."""
    reason = message.partition(", error: ")[2].partition(". Look at ")[0]
    return f": {reason}" if reason else ""
