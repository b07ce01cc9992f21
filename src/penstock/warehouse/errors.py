"""Translates errors of the driver and the engine into errors of the event store."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from clickhouse_connect.driver.exceptions import ClickHouseError, ProgrammingError

from penstock.base.errors import StoreUnavailable, Unavailable
from penstock.base.patterns import Pattern

log = structlog.get_logger()

_RETRY_AFTER_S = 5

TIMEOUT_EXCEEDED, ABORTED, MEMORY_LIMIT_EXCEEDED, QUERY_WAS_CANCELLED = 159, 236, 241, 394
"""Error codes of the engine. ABORTED: a merge was aborted."""

_DISK_IS_FULL = (
    "The disk of the event store is full. Ask the operator for more disk space, then try again."
)

REFUSED_FORM = 1000
"""Error code for a parameter that the server refuses, for example a parameter that is too long."""

_SERVER_IS_AWAY = frozenset(
    # Wrong users or passwords; too many queries or no free thread; failed sockets or networks; an
    # unreachable Keeper or replica; an insert that the server may or may not have stored.
    (192, 193, 194, 516, 202, 439, 209, 210, 279, 225, 242, 999, 285, 286, 319)
)
"""Error codes of a server that cannot be reached now, or cannot reach Keeper or its replicas."""

_REFUSED_FORM = "HTML Form Exception"
"""Part of the error message for a refused parameter. Network errors can have the same code."""

_LOST_SHARD = "Attempt to read after eof: while receiving packet from "
"""Start of the error message of a server that lost its connection to another server. The error
code, 32, does not identify this error, because a row that ends too early has the same code.
"""

_NOT_ENOUGH_SPACE = 243
_NO_SPACE = "No space left on device"
"""Part of the message of other errors that a full disk causes."""

_DAMAGED = frozenset(
    # Truncated data, wrong checksums and other corruption; files of a part that are missing,
    # unexpected or of the wrong size; parts that are unexpected, badly named or possibly broken.
    (33, 40, 246, 271, 91, 107, 226, 227, 228, 231, 233, 740)
)
"""Error codes for files that the engine cannot read. See `written_parts`."""

_RIGHT_IS_MISSING = 497
_NEEDED_RIGHT = Pattern(r"have the grant (.*?)(?:\. | \(|\.?$)")
"""Extracts the missing right from the server's error message."""

WAREHOUSE_UNAVAILABLE = "warehouse_unavailable"
"""`StoreUnavailable.code` if the event store does not respond."""
WAREHOUSE_DAMAGED = "warehouse_damaged"
"""`StoreUnavailable.code` if the event store responds but cannot read its files."""
WAREHOUSE_RIGHT_MISSING = "warehouse_right_missing"
"""`StoreUnavailable.code` if Penstock's database user lacks a right; `reason` names the right."""


class QueryFailed(Exception):
    """The engine refused or stopped a statement. code: the engine's error code; 0 if none."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class NotEnoughDisk(Exception):
    """An upgrade of the event store needs more disk space. The message is shown to people."""


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate the driver's errors into `StoreUnavailable` or `QueryFailed`."""
    try:
        yield
    except ClickHouseError as error:
        code = _code_of(error)
        if str(error).partition("Exception: ")[2].startswith(_LOST_SHARD):
            raise unavailable_error(str(error)) from error
        is_driver_error = code == 0 and not isinstance(error, ProgrammingError)
        if code in _DAMAGED:
            raise _damage_error(str(error)) from error
        if code == _RIGHT_IS_MISSING:
            raise _missing_right_error(str(error)) from error
        is_full = code == _NOT_ENOUGH_SPACE or _NO_SPACE in str(error)
        if is_driver_error or is_full or code in _SERVER_IS_AWAY:
            raise unavailable_error(str(error)) from error
        raise QueryFailed(str(error), code) from error


def _code_of(error: ClickHouseError) -> int:
    """Return the engine's error code; 0 if the error comes from the driver."""
    message = str(error)
    if _REFUSED_FORM in message:
        return REFUSED_FORM
    digits = message.partition("Code: ")[2].partition(".")[0]
    return int(digits) if digits.isdigit() else 0


def explain_failure(error: QueryFailed) -> Exception:
    """Return the error to raise to the caller. Any failure other than an exceeded limit is a
    bug.
    """
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
    return unavailable_error() if error.code in (0, QUERY_WAS_CANCELLED) else error


def unavailable_error(reason: str = "") -> StoreUnavailable:
    """Return the error for an unresponsive store. reason: the driver's message, for logs."""
    is_full = _NO_SPACE in reason or f"Code: {_NOT_ENOUGH_SPACE}." in reason
    return StoreUnavailable(
        _DISK_IS_FULL if is_full else "The event store is not responding. Try again.",
        code=WAREHOUSE_UNAVAILABLE,
        retry_after_s=_RETRY_AFTER_S,
        reason=reason,
    )


def _missing_right_error(message: str) -> StoreUnavailable:
    needed = _NEEDED_RIGHT.search(message)
    return StoreUnavailable(
        "Penstock's user lacks a privilege in the event store. The operator must grant it.",
        code=WAREHOUSE_RIGHT_MISSING,
        retry_after_s=None,
        reason=needed[1] if needed else message.splitlines()[0],
    )


def _damage_error(reason: str) -> StoreUnavailable:
    """Return the error for damaged files. It has no retry time: an operator must act first."""
    log.error("event_store_damaged", reason=reason.splitlines()[0])
    return StoreUnavailable(
        "The event store is damaged and cannot read some of its files. Restore a backup.",
        code=WAREHOUSE_DAMAGED,
        retry_after_s=None,
        reason=reason,
    )
