"""OpenTelemetry spans. The library is only imported if a setting turns tracing on."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from penstock.base.request_ids import REQUEST_ID

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Tracer

Attributes = Mapping[str, str | int]

_tracer: "Tracer | None" = None
_NO_SPAN: AbstractContextManager[None] = nullcontext()


def use_tracer(tracer: "Tracer | None") -> None:
    """Set the tracer of the whole process; None turns tracing off."""
    global _tracer
    _tracer = tracer


def span(name: str, attributes: Attributes) -> "AbstractContextManager[Span | None]":
    """Start a span of the current trace. attributes: must not contain client input or secrets."""
    return _NO_SPAN if _tracer is None else _record_span(_tracer, name, attributes)


def request_span(
    name: str, parent: "Context", kind: "SpanKind"
) -> "AbstractContextManager[Span | None]":
    """Start the span of a whole request. parent: context from the client's `traceparent`, if
    any.
    """
    return _NO_SPAN if _tracer is None else _record_span(_tracer, name, {}, parent, kind)


@contextmanager
def _record_span(
    tracer: "Tracer",
    name: str,
    attributes: Attributes,
    parent: "Context | None" = None,
    kind: "SpanKind | None" = None,
) -> "Iterator[Span]":
    """Record a span. For errors, only the type is recorded, because their text may repeat client
    input.
    """
    from opentelemetry.trace import SpanKind, Status, StatusCode

    with tracer.start_as_current_span(
        name,
        parent,
        kind or SpanKind.CLIENT,
        {"penstock.request_id": REQUEST_ID.get(), **attributes},
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            current.set_status(Status(StatusCode.ERROR))
            raise
