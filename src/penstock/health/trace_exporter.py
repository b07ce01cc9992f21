"""Sends spans to a collector over OTLP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from anyio import to_thread

from penstock import __version__
from penstock.base.tracing import use_tracer

log = structlog.get_logger()

_ANSWER_S = 5
"""Timeout for the collector, in seconds. Shutdown waits this long for the last spans."""


class TraceExporter:
    """Sends spans in batches from a separate thread.

    Its queue is bounded: if the collector is unreachable, spans are lost, and nothing else is
    affected.
    """

    def __init__(self, endpoint: str | None) -> None:
        """endpoint: base URL of a collector; None disables the exporter."""
        self._endpoint = endpoint

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Export spans during the context, and send the last spans when it ends."""
        if self._endpoint is None:
            yield
            return
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource.create({SERVICE_NAME: "penstock", SERVICE_VERSION: __version__})
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{self._endpoint.rstrip('/')}/v1/traces", timeout=_ANSWER_S)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        use_tracer(provider.get_tracer("penstock", __version__))
        log.info("traces_sent")
        try:
            yield
        finally:
            use_tracer(None)
            await to_thread.run_sync(provider.shutdown)
