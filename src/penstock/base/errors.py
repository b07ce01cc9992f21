"""The error tree of the domain.

    PenstockError
    ├── Malformed             400  the body is not JSON, or a query parameter is malformed
    ├── Unauthorized          401  no valid API key or session
    ├── Forbidden             403  a valid session from a foreign origin or without the right
    ├── NotFound              404  no such record in this workspace
    ├── Conflict              409  already taken, or in use
    ├── TooLarge              413  larger than a documented limit
    ├── UnsupportedMedia      415  not JSON, or an encoding other than gzip
    ├── Invalid               422  well-formed, but breaks rules of the resource
    ├── RateLimited           429  too many requests; says when to retry
    └── Unavailable           503  cannot be done now; try again later
        ├── QueueFull              too many callers wait for their turn
        ├── OutOfDisk         507  the disk, or the workspace's share of it, has no room
        └── StoreUnavailable       a store cannot be reached, went away or took too long
            └── ConcurrentUpdate   another transaction was in the way

Rooms raise these errors; only `penstock.http.problems` turns them into responses. Stores also
raise `StoreConflict`, which is not a `PenstockError`: only the calling room knows what it means.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule of an input.

    field: path in the input, such as `steps[2].filters[0].operator`; empty for the whole input.
    code: stable snake_case code for programs. message: text for people that says what to do.
    """

    field: str
    code: str
    message: str


MAX_FAULTS = 100
"""Maximum number of faults in one error, to keep its response small; `more_faults` counts the rest.
"""


class PenstockError(Exception):
    """Base class of all errors that API callers see. `code` is stable and documented.

    faults: the first `MAX_FAULTS` faults. more_faults: number of remaining faults.
    """

    status = 500
    title = "Internal error"
    code = "internal_error"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        faults: Sequence[Fault] = (),
        more_faults: int = 0,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.faults = tuple(faults[:MAX_FAULTS])
        self.more_faults = more_faults + len(faults) - len(self.faults)


class Malformed(PenstockError):
    status, title, code = 400, "Malformed request", "malformed"


class Unauthorized(PenstockError):
    status, title, code = 401, "Unauthorized", "unauthorized"


class Forbidden(PenstockError):
    status, title, code = 403, "Forbidden", "forbidden"


class NotFound(PenstockError):
    status, title, code = 404, "Not found", "not_found"


class Conflict(PenstockError):
    status, title, code = 409, "Conflict", "conflict"


class TooLarge(PenstockError):
    status, title, code = 413, "Too large", "too_large"


class UnsupportedMedia(PenstockError):
    status, title, code = 415, "Unsupported media type", "unsupported_media_type"


class Invalid(PenstockError):
    """All faults of an input. more_faults: number of faults that are not in `faults`."""

    status, title, code = 422, "Invalid input", "invalid"

    def __init__(
        self, faults: Sequence[Fault], detail: str | None = None, *, more_faults: int = 0
    ) -> None:
        count = len(faults) + more_faults
        if count == 1:
            default = _fault_text(faults[0])
        elif count <= MAX_FAULTS:
            default = f"The input breaks {count} rules; see errors."
        else:
            default = f"The input breaks {count:,} rules; errors has the first {MAX_FAULTS}."
        super().__init__(detail or default, faults=faults, more_faults=more_faults)


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """A limit of `quota` per window. name: stable name for the `RateLimit-Policy` header.

    counted: plural noun for the counted things, such as `attempts`, for messages.
    """

    name: str
    quota: int
    window_s: int
    counted: str = "attempts"


class RateLimited(PenstockError):
    status, title, code = 429, "Too many requests", "rate_limited"

    def __init__(
        self, detail: str, *, retry_after_s: int, policy: RatePolicy, code: str | None = None
    ) -> None:
        super().__init__(detail, code=code)
        self.retry_after_s = retry_after_s
        self.policy = policy


class Unavailable(PenstockError):
    status, title, code = 503, "Service unavailable", "unavailable"

    def __init__(
        self, detail: str, *, code: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(detail, code=code)
        self.retry_after_s = retry_after_s


class QueueFull(Unavailable):
    """Too many callers are already queued, for one workspace or in total.

    Nothing was done.
    """

    code = "busy"


class OutOfDisk(Unavailable):
    """The disk has too little free space, or the workspace has used its share. Nothing was done."""

    status, title, code = 507, "Insufficient storage", "disk_low"


class StoreUnavailable(Unavailable):
    """A store cannot be reached, went away or took too long.

    A commit in progress may have succeeded. reason: the driver's message, for logs; it may name
    hosts, so callers do not see it.
    """

    code = "store_unavailable"

    def __init__(
        self,
        detail: str = "The metadata database is not responding right now; try again.",
        *,
        code: str | None = None,
        retry_after_s: int | None = 1,
        reason: str = "",
    ) -> None:
        super().__init__(detail, code=code, retry_after_s=retry_after_s)
        self.reason = reason or detail


DISK_IS_FULL = (
    "The disk of this service is full, so nothing more can be stored. Ask the operator for more "
    "disk space, then send the request again."
)
"""Detail of `StoreUnavailable` if an embedded store cannot write."""


class ConcurrentUpdate(StoreUnavailable):
    """Another transaction interfered (deadlock, serialization failure or lock). Callers may try
    again.
    """


class StoreConflict(Exception):
    """A constraint rejected a write: a name is taken, or another row needs the row."""


def _fault_text(fault: Fault) -> str:
    return f"{fault.field}: {fault.message}" if fault.field else fault.message
