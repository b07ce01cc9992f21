"""Metrics for Prometheus.

Counters and histograms are module-level constants, created with `counter` or `histogram`. A value
that is already tracked elsewhere, such as a queue's length, becomes a `PolledGauge`, which is read
at each scrape. A room returns its gauges from `Room.gauges`. Names start with `penstock_`; units
are seconds and bytes.

Labels have few values, all defined by the code, such as a route's template. They never contain an
ID, an address or anything else that a client sends.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

T = TypeVar("T")

log = structlog.get_logger()

REGISTRY = CollectorRegistry()
"""All counters and histograms of this process. Gauges belong to an application instead."""

ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)

LATENCY_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper bounds of the buckets for durations, in seconds."""

_FAILED_READINGS = Counter(
    "penstock_metrics_failed_readings",
    "Gauges that could not be read.",
    ["gauge"],
    registry=REGISTRY,
)


def counter(name: str, description: str, labels: Sequence[str] = ()) -> Counter:
    """Create a counter, which only grows. Prometheus shows it as `<name>_total`."""
    return Counter(name, description, labels, registry=REGISTRY)


def histogram(
    name: str, description: str, labels: Sequence[str] = (), buckets: Sequence[float] = LATENCY_S
) -> Histogram:
    """Create a histogram: the distribution of values, such as durations in seconds."""
    return Histogram(name, description, labels, buckets=buckets, registry=REGISTRY)


class LoopHistogram(Collector):
    """A histogram that only the event loop writes. It needs no lock and is four times as fast."""

    def __init__(
        self,
        name: str,
        description: str,
        labels: Sequence[str],
        buckets: Sequence[float] = LATENCY_S,
    ) -> None:
        self._name, self._description, self._labels = name, description, labels
        self._buckets = tuple(buckets)
        # For each combination of label values: the number of values in each bucket, with the values
        # above all bounds last, and a list with the sum of the values.
        self._values: dict[tuple[str | int, ...], tuple[list[int], list[float]]] = {}
        REGISTRY.register(self)

    def observe(self, labels: tuple[str | int, ...], value: float) -> None:
        """Count one value. labels: the label values. Each label must have few different values."""
        state = self._values.get(labels)
        if state is None:
            state = self._values[labels] = ([0] * (len(self._buckets) + 1), [0.0])
        counts, total = state
        counts[bisect_left(self._buckets, value)] += 1
        total[0] += value

    def describe(self) -> Iterator[HistogramMetricFamily]:
        yield HistogramMetricFamily(self._name, self._description, labels=self._labels)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._description, labels=self._labels)
        bounds = [*(str(float(bound)) for bound in self._buckets), "+Inf"]
        for labels, (counts, total) in list(self._values.items()):
            cumulative = list(zip(bounds, accumulate(counts), strict=True))
            family.add_metric([str(label) for label in labels], cumulative, total[0])
        yield family


@dataclass(frozen=True)
class PolledGauge(Collector):
    """A gauge that is read at each scrape, in a thread, so reading may block.

    read: returns the value, or values by label value; None if there is currently no value. If it
    fails, only this gauge is missing from the response.
    """

    name: str
    description: str
    read: Callable[[], float | Mapping[str, float] | None]
    label: str | None = None

    def collect(self) -> Iterator[GaugeMetricFamily]:
        reading = _try_read(self.name, self.read)
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


@dataclass(frozen=True)
class PolledGauges(Collector):
    """Like `PolledGauge`, for several values from one reading.

    gauges: names and descriptions. read: returns the values in the same order.
    """

    gauges: tuple[tuple[str, str], ...]
    read: Callable[[], Sequence[float]]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for (name, description), value in zip(
            self.gauges, _try_read(self.gauges[0][0], self.read) or (), strict=False
        ):
            yield GaugeMetricFamily(name, description, value=value)


def _try_read(name: str, read: Callable[[], T]) -> T | None:
    """Return the result of `read`; None after an error, which is logged."""
    try:
        return read()
    except Exception as error:
        _FAILED_READINGS.labels(name).inc()
        log.warning("metric_not_read", gauge=name, error=type(error).__name__)
        return None
