"""The bars of a shared report, and its picture for wikis and other pages."""

from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime, tzinfo
from hashlib import sha256
from typing import NamedTuple
from zoneinfo import ZoneInfo

from markupsafe import Markup

from penstock.base.clock import parse_time
from penstock.base.hidden_text import visible
from penstock.base.rates import percent
from penstock.base.wording import utc_time
from penstock.funnels.periods import ChangeRecord
from penstock.funnels.shown_rates import Parts, ShownRate, bar_parts, shown_rate, step_share
from penstock.shares.schema import SharedReportRecord

_WIDTH, _MARGIN, _ROW_HEIGHT, _BAR_HEIGHT = 720, 24, 46, 12
_HEAD_HEIGHT, _FOOT_HEIGHT = 88, 20
_MAX_TITLE_CHARS, _MAX_LINE_CHARS, _MAX_STEP_CHARS = 60, 100, 62

_STYLE = """
.ground{fill:#fff;stroke:#e1e5ea}
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-size:13px;fill:#17202b}
.title{font-size:17px;font-weight:600}
.soft{fill:#556070}
.number{text-anchor:end;font-variant-numeric:tabular-nums}
.track{fill:#dfe3e9}
.reached{fill:#17869e}
.pending{fill:#a5d0da}
@media (prefers-color-scheme:dark){
.ground{fill:#171d25;stroke:#2b3542}
text{fill:#e6eaf0}
.soft{fill:#a3aebd}
.track{fill:#323d4b}
.reached{fill:#49aec4}
.pending{fill:#2c6271}
}
""".replace("\n", "")

PICTURE_POLICY = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)
"""Content Security Policy of a picture: only its own style."""


class Bar(NamedTuple):
    """A step of a shared report. units: those beside the bar, settled or all. share: their
    share of all such units. change: the change of the share from the earlier period.
    """

    title: str
    units: int
    share: float | None
    parts: Parts
    change: ChangeRecord | None


def rate_of(report: SharedReportRecord) -> ShownRate:
    """Return the rate that a report shows."""
    return shown_rate(report.aggregate, has_window=report.has_window)


def bars_of(report: SharedReportRecord) -> list[Bar]:
    """Return a bar for each step of a report."""
    rate, steps, earlier = rate_of(report), report.aggregate.steps, report.earlier
    changes: list[ChangeRecord | None] = [None] * len(steps)
    if earlier is not None and earlier.is_so_far == rate.is_so_far:
        _, *later = earlier.steps  # all units reach the first step
        changes[1:] = [each.so_far if rate.is_so_far else each.from_start for each in later]
    return [
        Bar(
            title,
            step.settled if rate.of == "settled" else step.count,
            step_share(step, rate),
            bar_parts(steps, index),
            change,
        )
        for index, (title, step, change) in enumerate(
            zip(report.steps, steps, changes, strict=True)
        )
    ]


def rate_words(report: SharedReportRecord) -> str:
    """Return the rate of a report in words: `61.3% of 1,200 settled visitors completed`."""
    rate = rate_of(report)
    if rate.rate is None:
        return f"No {report.unit}s entered"
    so_far = "So far " if rate.is_so_far else ""
    kind = "settled " if rate.of == "settled" else ""
    nouns = report.unit if rate.whole == 1 else f"{report.unit}s"
    return f"{so_far}{percent(rate.rate)} of {rate.whole:,} {kind}{nouns} completed"


def period_words_of(report: SharedReportRecord) -> str:
    """Return the period of a report in words: `29 Oct 2026 to 27 Nov 2026`."""
    start, end = report.period.start_at, report.period.end_at
    if start is None or end is None:
        return "All time"
    return days_in_words(parse_time(start), parse_time(end), ZoneInfo(report.timezone))


def days_in_words(start_ms: int, end_ms: int, zone: tzinfo) -> str:
    """Return the first and last day of a period. end_ms: its end, exclusive."""
    first, last = (_day(at_ms, zone) for at_ms in (start_ms, end_ms - 1))
    return first if first == last else f"{first} to {last}"


def picture(report: SharedReportRecord) -> str:
    """Return the bars of a report as SVG, for light and dark pages."""
    bars = bars_of(report)
    subtitle = " · ".join([rate_words(report), period_words_of(report)])
    conditions = _sentence(", ".join(report.conditions))
    as_of = f"As of {utc_time(parse_time(report.evaluated_at))}"
    legend = "Pale: may still reach" if report.aggregate.pending else ""
    foot = " · ".join(filter(None, [as_of, legend, conditions]))
    feet = [foot, *([f"Receipt: {report.receipt}"] if report.receipt else [])]
    height = _HEAD_HEIGHT + len(bars) * _ROW_HEIGHT + 20 + len(feet) * _FOOT_HEIGHT
    lines = [
        _text(_MARGIN, 40, _cut(report.name, _MAX_TITLE_CHARS), "title"),
        _text(_MARGIN, 64, _cut(subtitle, _MAX_LINE_CHARS), "soft"),
        *(line for row, bar in enumerate(bars) for line in _bar(bar, row)),
        *(
            _text(_MARGIN, height - _FOOT_HEIGHT * at, _cut(each, _MAX_LINE_CHARS), "soft")
            for at, each in enumerate(reversed(feet), 1)
        ),
    ]
    table = "; ".join(f"{bar.title}: {_figures(bar)}" for bar in bars)
    return _drawing(height, report.name, f"{subtitle}. {table}. {'. '.join(feet)}.", lines)


def missing_picture(text: str) -> str:
    """Return a picture that says why there is no report."""
    sentences = [f"{each.removesuffix('.')}." for each in text.split(". ")]
    lines = [
        _text(_MARGIN, 40, "No report", "title"),
        *(_text(_MARGIN, 64 + 20 * at, each, "soft") for at, each in enumerate(sentences)),
    ]
    return _drawing(_HEAD_HEIGHT + 20, "No report", text, lines)


def _drawing(height: int, title: str, description: str, lines: list[Markup]) -> str:
    head = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
        'role="img" aria-labelledby="t d"><title id="t">{title}</title><desc id="d">{text}</desc>'
        '<style>{style}</style><rect class="ground" x="0.5" y="0.5" width="{x}" height="{y}" '
        'rx="8"/>'
    ).format(
        w=_WIDTH, h=height, title=visible(title), text=visible(description), style=Markup(_STYLE),
        x=_WIDTH - 1, y=height - 1,
    )  # fmt: skip
    return f"{head}{''.join(lines)}</svg>\n"


def _bar(bar: Bar, row: int) -> Iterator[Markup]:
    top, width = _HEAD_HEIGHT + row * _ROW_HEIGHT, _WIDTH - 2 * _MARGIN
    yield _text(_MARGIN, top + 12, _cut(f"{row + 1}  {bar.title}", _MAX_STEP_CHARS))
    yield _text(_WIDTH - _MARGIN, top + 12, _figures(bar), "number")
    yield _rect("track", _MARGIN, top + 20, width)
    x = float(_MARGIN)
    for kind, share in bar.parts:
        if kind in ("reached", "pending") and share:
            yield _rect(kind, x, top + 20, share * width)
        x += share * width


def _figures(bar: Bar) -> str:
    share = "–" if bar.share is None else percent(bar.share)
    return f"{bar.units:,} · {share}"


def _text(x: float, y: float, text: str, kind: str = "") -> Markup:
    return Markup('<text x="{}" y="{}" class="{}">{}</text>').format(x, y, kind, visible(text))


def _rect(kind: str, x: float, y: float, width: float) -> Markup:
    shape = Markup('<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"/>')
    return shape.format(kind, x, y, width, _BAR_HEIGHT)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _day(at_ms: int, zone: tzinfo) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, zone)
    return f"{at.day} {at:%b %Y}"
