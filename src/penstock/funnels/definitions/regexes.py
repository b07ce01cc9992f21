"""Whether a regex is one that the engine can run. Asked of the engine itself, so that what is saved is what runs."""

from collections.abc import Callable

from penstock.http.schema import RuleBroken
from penstock.warehouse.client import QueryFailed, Warehouse, unavailable

_CANNOT_COMPILE = 427


def checked_by(warehouse: Warehouse) -> Callable[[str], None]:
    """A check that raises RuleBroken for a pattern which the engine cannot compile, and Unavailable when the engine cannot be asked."""

    def check(pattern: str) -> None:
        try:
            warehouse.query("SELECT match('', {pattern:String})", {"pattern": pattern})
        except QueryFailed as error:
            if error.code != _CANNOT_COMPILE:
                raise unavailable() from error
            raise RuleBroken("bad_regex", f"Is not a regex of the RE2 kind{_reason(str(error))}.") from None

    return check


def _reason(message: str) -> str:
    """RE2's own words out of the engine's message, when they stand where we know them."""
    reason = message.partition(", error: ")[2].partition(". Look at ")[0]
    return f": {reason}" if reason else ""
