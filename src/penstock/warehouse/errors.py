"""Errors of the event store: the one place that knows those of the driver and the engine."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError, ProgrammingError

from penstock.base.errors import StoreUnavailable, Unavailable
from penstock.base.patterns import Pattern

log = structlog.get_logger()

_RETRY_AFTER_S = 5

TIMEOUT_EXCEEDED, ABORTED, MEMORY_LIMIT_EXCEEDED, QUERY_WAS_CANCELLED = 159, 236, 241, 394
"""Error codes of the engine. ABORTED: of a merge."""

REFUSED_FORM = 1000
"""The code of a server that refuses a parameter, such as one that is too long."""

_SERVER_IS_AWAY = frozenset(
    # Users and passwords; too many queries, or no thread for one; sockets and networks; a Keeper or
    # replicas that are away; an insert of which the server does not know whether it was stored.
    (192, 193, 194, 516, 202, 439, 209, 210, 279, 225, 242, 999, 285, 286, 319)
)
"""Codes by which a server says that it, or what it needs, cannot be reached right now."""

_REFUSED_FORM = "HTML Form Exception"
"""In the message of that server. Other errors with this code are about connections."""

_DAMAGED = frozenset(
    # Data that end too early, whose checksum differs, or that are broken otherwise. Files of a
    # part: sizes of marks, missing, not expected, of another size. Parts that are not expected,
    # have bad names or may be broken.
    (33, 40, 246, 271, 91, 107, 226, 227, 228, 231, 233, 740)
)
"""Codes by which the engine says that it cannot read what it has written: see `written_parts`."""

_RIGHT_IS_MISSING = 497
_NEEDED_RIGHT = Pattern(r"have the grant (.*?)(?:\. | \(|\.?$)")
"""In the message of a server that refuses a statement for want of a right."""

WAREHOUSE_UNAVAILABLE = "warehouse_unavailable"
"""`StoreUnavailable.code` of this store."""
WAREHOUSE_DAMAGED = "warehouse_damaged"
"""`StoreUnavailable.code` when this store answers, but cannot read its files."""
WAREHOUSE_RIGHT_MISSING = "warehouse_right_missing"
"""`StoreUnavailable.code` when Penstock's user of this store lacks a right, which is its reason."""


class QueryFailed(Exception):
    """The engine refused or stopped a statement.

    code: the engine's error code, 0 when it gave none.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class NotEnoughDisk(Exception):
    """An upgrade of the event store needs more free disk than there is. The text is for people."""


@contextmanager
def translated_errors() -> Iterator[None]:
    """Errors of the driver as `StoreUnavailable` or `QueryFailed`."""
    try:
        yield
    except ClickHouseError as error:
        code = _code_of(error)
        is_driver_error = code == 0 and not isinstance(error, ProgrammingError)
        if code in _DAMAGED:
            raise _damaged(str(error)) from error
        if code == _RIGHT_IS_MISSING:
            raise _right_missing(str(error)) from error
        if is_driver_error or code in _SERVER_IS_AWAY:
            raise unavailable(str(error)) from error
        raise QueryFailed(str(error), code) from error


def _code_of(error: ClickHouseError) -> int:
    """The engine's error code; 0 when the error is not the engine's."""
    message = str(error)
    if _REFUSED_FORM in message:
        return REFUSED_FORM
    digits = message.partition("Code: ")[2].partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def explained(error: QueryFailed) -> Exception:
    """The error for the caller when a limit stopped the query; any other failure is ours."""
    if error.code == TIMEOUT_EXCEEDED:
        return Unavailable(
            "The query took longer than the workspace's queryTimeoutSeconds. "
            "Choose a shorter period or one website.",
            code="query_timeout",
        )
    if error.code == MEMORY_LIMIT_EXCEEDED:
        return Unavailable(
            "The query needed more memory than the workspace's queryMemoryBytes. "
            "Choose a shorter period or one website.",
            code="query_too_large",
        )
    return unavailable() if error.code in (0, QUERY_WAS_CANCELLED) else error


def unavailable(reason: str = "") -> StoreUnavailable:
    """reason: what the driver says, for logs."""
    return StoreUnavailable(
        "The event store does not answer right now; try again.",
        code=WAREHOUSE_UNAVAILABLE,
        retry_after_s=_RETRY_AFTER_S,
        reason=reason,
    )


def _right_missing(message: str) -> StoreUnavailable:
    needed = _NEEDED_RIGHT.search(message)
    return StoreUnavailable(
        "The event store refuses a right that Penstock needs: the operator must grant it.",
        code=WAREHOUSE_RIGHT_MISSING,
        retry_after_s=None,
        reason=needed[1] if needed else message.splitlines()[0],
    )


def _damaged(reason: str) -> StoreUnavailable:
    """No time to try again: the files stay as they are until somebody acts."""
    log.error("event_store_damaged", reason=reason.splitlines()[0])
    return StoreUnavailable(
        "The event store is damaged and cannot read some of its files: restore a backup.",
        code=WAREHOUSE_DAMAGED,
        retry_after_s=None,
        reason=reason,
    )
