"""Reads request bodies and query parameters. It never trusts declared lengths and types."""

import sys
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from anyio import to_thread
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from penstock.base.errors import Fault, Invalid, Malformed, TooLarge, UnsupportedMedia
from penstock.base.value_budget import DEFINITION, EVENTS, ValueBudget
from penstock.http.body_memory import SCOPE_KEY, BodyMemory, HeldBody
from penstock.http.requests import AnyRequest, media_type_of
from penstock.http.schema import Query, faults_of

M = TypeVar("M", bound=BaseModel)
Q = TypeVar("Q", bound=Query)
T = TypeVar("T")

DEFAULT_BODY_BYTES = 1024 * 1024
FORM_BYTES = 64 * 1024
"""Maximum size of a body with few fields, in bytes."""
SMALL_BYTES = 6 * 1024
"""Maximum size of a body that the event loop parses, in bytes."""
_TINY_BYTES = 1024
"""Maximum size of a body that is always quick to parse, in bytes."""
_FEW_VALUES = 150
_FEW_ITEMS = 100
_PIECE_BYTES = 1024 * 1024
MAX_GZIP_MEMBERS = 16
"""Maximum number of gzip members in a body. Each member takes time, even an empty one of 20
bytes.
"""
_MAX_LISTED_FAULTS = 10_000

NO_SUCH_PARAMETER = "This route has no such parameter."

MAX_LENGTH_DIGITS = 20
"""Maximum number of digits in a Content-Length. Python rejects a number with thousands of
digits.
"""


def require_json(request: AnyRequest, *, text_plain: bool = False) -> None:
    """Require a JSON Content-Type. text_plain: also accept `text/plain`, for `sendBeacon`."""
    content_type = media_type_of(request)
    if content_type == "application/json" or (text_plain and content_type == "text/plain"):
        return
    raise UnsupportedMedia("Send the body as JSON with the header Content-Type: application/json.")


def has_body(request: AnyRequest) -> bool:
    """Whether the headers of a request announce a body."""
    return request.headers.get("content-length", "0") != "0" or (
        "transfer-encoding" in request.headers
    )


async def read_bytes(
    request: AnyRequest,
    *,
    max_bytes: int = DEFAULT_BODY_BYTES,
    max_inflated_bytes: int | None = None,
) -> bytes:
    """Read the body, and decompress it if it is gzip.

    max_bytes: maximum size on the wire. max_inflated_bytes: maximum size after decompression;
    defaults to `max_bytes`.
    """
    zipped = is_zipped(request)
    body = await read_raw(request, max_bytes)
    limit = max_inflated_bytes or max_bytes
    if not zipped:
        return body
    held = _held_body(request)
    return await held.run_in_turn(_inflate, body, limit, held)


async def compute_on(
    body: bytes,
    function: Callable[..., T],
    *args: Any,
    items: int = 1,
    max_values: int = _FEW_VALUES,
) -> T:
    """Return the result of a function that processes a body. The function runs in a thread unless
    the body is light.

    items: number of items in the body that the function processes. max_values: maximum number of
    values in a light body, as in `is_light`.
    """
    if items <= _FEW_ITEMS and is_light(body, max_values):
        return function(*args)
    return await to_thread.run_sync(partial(function, *args))


def is_light(body: bytes, max_values: int = _FEW_VALUES) -> bool:
    """Whether a JSON body is small enough, in bytes and values, for the event loop to process it.

    Parsing, validating and rejecting a larger body takes more than a millisecond: up to 5 µs per
    value.
    """
    if len(body) <= _TINY_BYTES:
        return True
    if len(body) > SMALL_BYTES:
        return False
    return body.count(b",") + body.count(b"{") + body.count(b"[") <= max_values


def is_zipped(request: AnyRequest) -> bool:
    """Whether Content-Encoding is gzip. Raises `UnsupportedMedia` for any encoding except gzip and
    `identity`.
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise UnsupportedMedia(
            f"Content-Encoding {encoding!r} is not supported. Send the body plain or as gzip."
        )
    return encoding == "gzip"


async def read_raw(request: AnyRequest, max_bytes: int) -> bytes:
    """Read the body exactly as it was sent, because signatures cover its bytes."""
    declared, held = request.headers.get("content-length", ""), _held_body(request)
    if declared.isdigit():
        if len(declared) > MAX_LENGTH_DIGITS or int(declared) > max_bytes:
            raise _too_large(max_bytes)
        held.require_room(int(declared))
    chunks, received, is_whole = list[bytes](), 0, False
    while not is_whole:
        message = await request.receive()
        if message["type"] != "http.request":
            raise Malformed("The connection was closed before the whole body had arrived.")
        received += len(message["body"])
        if received > max_bytes:
            raise _too_large(max_bytes)
        held.grow_to(received)
        chunks.append(message["body"])
        is_whole = not message["more_body"]
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def sender_address(request: AnyRequest) -> str:
    """Return the sender's network, by which senders take turns. Empty for a sender without
    limits.
    """
    return _held_body(request).address


def _held_body(request: AnyRequest) -> HeldBody:
    """Return the request's `HeldBody`. Without an edge, as in some tests, return one without
    limits.
    """
    held = request.scope.get(SCOPE_KEY)
    return held if isinstance(held, HeldBody) else HeldBody(BodyMemory(sys.maxsize), "")


def _inflate(body: bytes, limit: int, held: HeldBody) -> bytes:
    pieces, size, rest, members = [], 0, body, 0
    try:
        while rest:
            members += 1
            if members > MAX_GZIP_MEMBERS:
                raise TooLarge(
                    f"The body has more than {MAX_GZIP_MEMBERS} gzip members. Compress it as one.",
                    code="too_many_gzip_members",
                )
            member = zlib.decompressobj(wbits=31)
            while not member.eof:
                piece = member.decompress(rest, min(_PIECE_BYTES, limit + 1 - size))
                rest = member.unconsumed_tail
                if not (piece or rest or member.eof):
                    raise Malformed("The gzip body is truncated.", code="bad_gzip")
                size += len(piece)
                if size > limit:
                    raise TooLarge(f"The decompressed body is larger than {limit:,} bytes.")
                held.grow_to(len(body) + size)
                pieces.append(piece)
            rest = member.unused_data.lstrip(b"\0")  # padding is allowed
    except zlib.error:
        raise Malformed(
            "Content-Encoding is gzip, but the body is not valid gzip.", code="bad_gzip"
        ) from None
    return b"".join(pieces)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit:,} bytes.")


def parse_json(body: bytes, budget: ValueBudget | None = None) -> Any:
    """Parse JSON. Raises `Malformed` for invalid JSON or UTF-8, or if the nesting is too deep.

    budget: maximum number of values, if they were not counted before. Raises `Invalid` beyond it.
    """
    if budget is not None:
        budget.require(body)
    try:
        return from_json(body)
    except ValueError as error:
        raise not_json(str(error)) from None


def parse_object(body: bytes, for_arrays: str = "", budget: ValueBudget = EVENTS) -> dict[str, Any]:
    """Parse a body that must be a JSON object.

    Raises `Malformed` if it is not JSON, and `Invalid` if it is not an object or exceeds the
    budget. for_arrays: a sentence that says where to send an array, added to the error if the body
    is an array.
    """
    value = parse_json(body, budget)
    if not isinstance(value, dict):
        raise not_an_object(for_arrays if isinstance(value, list) else "")
    return value


def not_an_object(hint: str = "") -> Invalid:
    """Build the error for a value that is not an object. hint: a sentence that says where to send
    it.
    """
    message = f"Must be a JSON object, such as {{...}}. {hint}".rstrip()
    return Invalid([Fault("body", "wrong_type", message)])


def parse_model(
    body: bytes, model: type[M], context: object = None, budget: ValueBudget = DEFINITION
) -> M:
    """Parse and validate an input.

    context: passed to the model's validators. Raises `Malformed` if the body is not JSON, and
    `Invalid` with all faults if it breaks rules or exceeds the budget.
    """
    budget.require(body)
    try:
        return model.model_validate_json(body, context=context)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise not_json(first["msg"].removeprefix("Invalid JSON: ")) from None
        if not first["loc"] and first["type"] in ("model_type", "model_attributes_type"):
            raise not_an_object() from None
        raise input_error(error, model) from None


def input_error(error: ValidationError, model: type[BaseModel] | None = None) -> Invalid:
    """Build the error with all faults. If there are too many to collect, it contains only their
    number.
    """
    count = error.error_count()
    if count <= _MAX_LISTED_FAULTS:
        return Invalid(faults_of(error, model=model))
    message = f"The body breaks {count:,} rules, which are too many to list."
    return Invalid([Fault("body", "too_many_faults", message)])


def not_json(reason: str) -> Malformed:
    return Malformed(f"The body is not valid JSON: {reason}.", code="not_json")


def read_query(request: AnyRequest, model: type[Q]) -> Q:
    """Read the query parameters. Raises `Malformed` (400) with all faults if any is invalid."""
    pairs = list(request.query_params.multi_items())
    parameters = dict(pairs)
    repeated = [
        Fault(name, "repeated", "This parameter must appear only once.")
        for name, times in Counter(name for name, _ in pairs).items()
        if times > 1
    ]
    try:
        query = model.model_validate(parameters)
    except ValidationError as error:
        faults = [
            replace(fault, message=model.REFUSED.get(fault.field, NO_SUCH_PARAMETER))
            if fault.code == "unknown_field"
            else fault
            for fault in faults_of(error)
        ]
        raise bad_parameter(*faults, *repeated) from None
    if repeated:
        raise bad_parameter(*repeated)
    return query


def bad_parameter(*faults: Fault) -> Malformed:
    """Build the error for invalid query parameters."""
    return Malformed(f"{faults[0].field}: {faults[0].message}", code="bad_parameter", faults=faults)
