"""Reading what a client sent. Nothing here trusts a length, an encoding or a type that the client merely claims."""

import zlib
from dataclasses import replace
from gzip import BadGzipFile, GzipFile
from io import BytesIO
from typing import Any, TypeVar

from litestar import Request
from pydantic import BaseModel, TypeAdapter, ValidationError

from penstock.base.errors import Fault, Invalid, Malformed, TooLarge, UnsupportedMedia
from penstock.http.schema import Query, faults_of

M = TypeVar("M", bound=BaseModel)
Q = TypeVar("Q", bound=Query)

_JSON = TypeAdapter(Any)
_CHUNK = 64 * 1024
DEFAULT_BODY_BYTES = 1024 * 1024


def require_json(request: Request[Any, Any, Any], *, text_plain: bool = False) -> None:
    """Refuse a body that is not labelled JSON. text_plain: also accept `text/plain`, which is all that `sendBeacon` can send."""
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type == "application/json" or (text_plain and content_type == "text/plain"):
        return
    raise UnsupportedMedia("Send the body as JSON, with the header Content-Type: application/json.")


async def read_bytes(
    request: Request[Any, Any, Any], *, max_bytes: int = DEFAULT_BODY_BYTES, max_inflated_bytes: int | None = None
) -> bytes:
    """The body, inflated when it is gzip. max_bytes: on the wire. max_inflated_bytes: after inflating, by default the same."""
    zipped = is_zipped(request)
    body = await read_raw(request, max_bytes)
    return _inflate(body, max_inflated_bytes or max_bytes) if zipped else body


def is_zipped(request: Request[Any, Any, Any]) -> bool:
    """Whether the body is labelled gzip. Refuses labels other than that and `identity`."""
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip"):
        raise UnsupportedMedia(f"Content-Encoding {encoding!r} is not understood; send the body plain or as gzip.")
    return encoding == "gzip"


async def read_raw(request: Request[Any, Any, Any], max_bytes: int) -> bytes:
    """The body as it came over the wire, whatever its headers say: what a signature was made over."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    chunks, received = [], 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def _inflate(body: bytes, limit: int) -> bytes:
    try:
        inflated = GzipFile(fileobj=BytesIO(body)).read(limit + 1)
    except EOFError:
        raise Malformed("The gzip body ends too early.", code="bad_gzip") from None
    except (BadGzipFile, zlib.error):
        raise Malformed("The body is not gzip throughout, though Content-Encoding says so.", code="bad_gzip") from None
    if len(inflated) > limit:
        raise TooLarge(f"The body is larger than {limit:,} bytes once inflated.")
    return inflated


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit:,} bytes.")


def parse_json(body: bytes) -> Any:
    """Plain Python values of a JSON text; `Malformed` when it is none, too deep, or not UTF-8."""
    try:
        return _JSON.validate_json(body)
    except ValidationError as error:
        raise not_json(error) from None


def parse_model(body: bytes, model: type[M], context: object = None) -> M:
    """A validated input; `Malformed` when the body is not JSON, `Invalid` with every fault when it breaks rules.

    context: what the model's validators need to know beyond the body.
    """
    try:
        return model.model_validate_json(body, context=context)
    except ValidationError as error:
        if error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid":
            raise not_json(error) from None
        raise Invalid(faults_of(error)) from None


def not_json(error: ValidationError) -> Malformed:
    reason = error.errors(include_url=False, include_input=False)[0]["msg"]
    return Malformed(f"The body is not valid JSON: {reason.removeprefix('Invalid JSON: ')}.", code="not_json")


async def read_json(request: Request[Any, Any, Any], model: type[M]) -> M:
    """The body of an ordinary route as a validated input."""
    require_json(request)
    return parse_model(await read_bytes(request), model)


def read_query(request: Request[Any, Any, Any], model: type[Q]) -> Q:
    """The query parameters of a route; `Malformed` (400) with every fault named."""
    pairs = list(request.query_params.multi_items())
    given = dict(pairs)
    repeated = [Fault(name, "repeated", "Give this parameter once.") for name in given if sum(1 for key, _ in pairs if key == name) > 1]
    try:
        query = model.model_validate(given)
    except ValidationError as error:
        faults = [
            replace(fault, message="There is no such parameter.") if fault.code == "unknown_field" else fault for fault in faults_of(error)
        ]
        raise bad_parameter(*faults, *repeated) from None
    if repeated:
        raise bad_parameter(*repeated)
    return query


def bad_parameter(*faults: Fault) -> Malformed:
    """A refusal of query parameters, which the faults name."""
    return Malformed(f"{faults[0].field}: {faults[0].message}", code="bad_parameter", faults=faults)
