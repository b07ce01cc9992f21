"""A forecast as people see it: in words, and never without its interval and its record."""

from dataclasses import dataclass, fields

from pydantic import MISSING

from penstock.base.rates import points
from penstock.funnels.forecasts.schema import ForecastRecord, NoForecast

_NARROW = 0.04
"""Intervals narrower than this are shown with a decimal."""


@dataclass(frozen=True, slots=True)
class ShownForecast:
    """A forecast. The fields are as in `ForecastRecord`."""

    rate: float
    low: float
    high: float
    completed: float
    replays: int
    mean_error: float
    held_share: float | None
    intervals: int = 0
    inside: int = 0
    late_share: float | None = None

    @property
    def about(self) -> str:
        """The rate in words: `about 60%`."""
        return f"about {self._digits(self.rate)}%"

    @property
    def interval(self) -> str:
        """The interval in percent: `58 to 62`."""
        return f"{self._digits(self.low)} to {self._digits(self.high)}"

    @property
    def text(self) -> str:
        return f"{self.about} ({self.interval})"

    @property
    def short(self) -> str:
        """The same beside other numbers: `forecast 60% (58 to 62)`."""
        return f"forecast {self.text.removeprefix('about ')}"

    @property
    def record(self) -> str:
        """How earlier forecasts did: `36 earlier forecasts were 1.2 points off on average, 29 of 36
        inside their interval`. Early ones may have no interval.
        """
        error = points(self.mean_error / 100)
        off = "1 point" if error == "1.0" else f"{error} points"
        text = f"{self.replays} earlier forecasts were {off} off on average"
        if not self.intervals:
            return text
        return f"{text}, {self.inside} of {self.intervals} inside their interval"

    @property
    def remark(self) -> str | None:
        """Why the record looks better than it was; None if it does not."""
        if self.late_share is None:
            return None
        late = f"{round(100 * self.late_share)}% of the events arrived over an hour late"
        return f"{late}, so they look better than they were"

    def _digits(self, share: float) -> str:
        return f"{100 * share:.{1 if self.high - self.low < _NARROW else 0}f}"


def shown_forecast(record: ForecastRecord | MISSING | None) -> ShownForecast | None:
    """Return the forecast to show; None if there is none, for whatever reason."""
    values = record.model_dump(by_alias=False) if isinstance(record, ForecastRecord) else {}
    if "rate" not in values:
        return None
    names = (field.name for field in fields(ShownForecast))
    return ShownForecast(**{name: values[name] for name in names if name in values})


def lacks(record: ForecastRecord | MISSING | None, reason: NoForecast) -> bool:
    """Whether there is no forecast for this reason."""
    return isinstance(record, ForecastRecord) and record.reason is reason
