"""The error tree of the domain.

    PenstockError
    ├── Malformed             400  the body is not JSON, or a query parameter is malformed
    ├── Unauthorized          401  no valid key or session for what is asked
    ├── Forbidden             403  a valid session, but from a foreign origin or without the right
    ├── NotFound              404  no such record in this workspace
    ├── Conflict              409  taken, or in use
    ├── TooLarge              413  over a published limit of size
    ├── UnsupportedMedia      415  not JSON, or an encoding that is not gzip
    ├── Invalid               422  well-formed, but breaks rules of the resource
    ├── RateLimited           429  too many requests; says when to come back
    └── Unavailable           503  a store does not answer; nothing was kept

Rooms raise these; `penstock.http.problems` is the one place that turns them into responses.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule of an input.

    field: the path in the input, as `steps[2].filters[0].operator`; empty for the input as a whole.
    code: stable, snake_case, for programs. message: one sentence for people, with the way out.
    """

    field: str
    code: str
    message: str


class PenstockError(Exception):
    """Base of all errors that a caller is meant to see. `code` is stable and documented."""

    status = 500
    title = "Internal error"
    code = "internal_error"

    def __init__(self, detail: str, *, code: str | None = None, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or type(self).code
        self.faults = tuple(faults)


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
    """All faults of one input at once."""

    status, title, code = 422, "Invalid input", "invalid"

    def __init__(self, faults: Sequence[Fault], detail: str | None = None) -> None:
        count = len(faults)
        default = _told(faults[0]) if count == 1 else f"The input breaks {count} rules; see errors."
        super().__init__(detail or default, faults=faults)


@dataclass(frozen=True, slots=True)
class RatePolicy:
    """At most `quota` requests in each window. name: stable, for the `RateLimit-Policy` header."""

    name: str
    quota: int
    window_s: int


class RateLimited(PenstockError):
    status, title, code = 429, "Too many requests", "rate_limited"

    def __init__(self, detail: str, *, retry_after_s: int, policy: RatePolicy) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
        self.policy = policy


class Unavailable(PenstockError):
    status, title, code = 503, "Service unavailable", "unavailable"

    def __init__(self, detail: str, *, code: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(detail, code=code)
        self.retry_after_s = retry_after_s


def _told(fault: Fault) -> str:
    return f"{fault.field}: {fault.message}" if fault.field else fault.message
