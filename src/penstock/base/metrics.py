"""Figures for Prometheus.

What is counted where it happens is a module's constant: `counter` or `histogram`. What exists
anyway, such as a queue's length, is a `PolledGauge`, read when Prometheus asks; a room returns
its own from `Room.gauges`. Names start with `penstock_`; units are seconds and bytes.

Labels have few values that the code chooses, such as a route's template: never an ID, an address
or anything else that a client sends.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

log = structlog.get_logger()

REGISTRY = CollectorRegistry()
"""Everything that this process counts. Gauges belong to an application and are not in it."""

ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

LATENCY_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Buckets of times, in seconds."""

_FAILED_READINGS = Counter(
    "penstock_metrics_failed_readings",
    "Gauges that could not be read.",
    ["gauge"],
    registry=REGISTRY,
)


def counter(name: str, description: str, labels: Sequence[str] = ()) -> Counter:
    """A number that only grows. Prometheus shows it as `<name>_total`."""
    return Counter(name, description, labels, registry=REGISTRY)


def histogram(
    name: str, description: str, labels: Sequence[str] = (), buckets: Sequence[float] = LATENCY_S
) -> Histogram:
    """How values are distributed over buckets, such as times in seconds."""
    return Histogram(name, description, labels, buckets=buckets, registry=REGISTRY)


@dataclass(frozen=True)
class PolledGauge(Collector):
    """A value that is read at each request for metrics, in a thread; reading may block.

    read: the value, or values by the label's value; None when there is none now. An error leaves
    this gauge out of the answer and no other.
    """

    name: str
    description: str
    read: Callable[[], float | Mapping[str, float] | None]
    label: str | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            reading = self.read()
        except Exception as error:
            _FAILED_READINGS.labels(self.name).inc()
            log.warning("metric_not_read", gauge=self.name, error=type(error).__name__)
            return
        if reading is None:
            return
        family = GaugeMetricFamily(
            self.name, self.description, labels=[self.label] if self.label else []
        )
        if isinstance(reading, Mapping):
            for value, number in reading.items():
                family.add_metric([value], number)
        else:
            family.add_metric([], reading)
        yield family
