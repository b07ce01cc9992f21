"""Pages show where a rate will settle, always with the interval and how earlier forecasts did."""

import re
from html import unescape

import pytest
from msgspec.json import decode

from penstock.base.errors import Unavailable
from penstock.funnels.forecasts import service
from tests.cases import questions_about_one_scene
from tests.funnels.scenario import DAY_S, Scene
from tests.web.reading import html_of, link_of, query_of, text_of, without_tags

pytestmark = pytest.mark.usefixtures("warehouse")

DAYS = 60
WEEK = "?period=7d&timezone=UTC"
SETTLES = re.compile(
    r"Will settle at about [\d.]+% \( ?[\d.]+ to [\d.]+ ?\) \d+ earlier forecasts were "
    r"[\d.]+ points? off on average, \d+ of \d+ inside their interval\."
)


@pytest.fixture
def scene(workspace, clock):
    """Sixty days until now, each with ten attempts of two plans: see `funnel`."""
    return Scene(workspace, clock, ago_s=DAYS * DAY_S)


@pytest.fixture
def funnel(scene):
    """Attempts of which half, or a little more, complete two days later. The window is a week,
    so those of the last week are open.
    """
    items = []
    for day in range(DAYS):
        for number in range(10):
            at, own = day * DAY_S + number * 3600, {"attempt": f"{day}-{number}"}
            own["plan"] = "pro" if number % 2 else "basic"
            items.append(scene.item(at, "A", f"v{day}-{number}", **own))
            if number < 5 + day % 2 and day < DAYS - 2:
                items.append(scene.item(at + 2 * DAY_S - 1800, "B", f"v{day}-{number}", **own))
    for first in range(0, len(items), 100):
        scene.track(items[first : first + 100])
    return scene.attempts("A", "B", conversionWindowSeconds=7 * DAY_S)


def the_report_says_where_the_rate_will_settle_and_how_sure_that_is(workspace, funnel):
    path = f"/funnels/{funnel}{WEEK}"
    assert 'id="forecast"' in html_of(workspace, path, "overview")
    part = html_of(workspace, path, "forecast")
    assert SETTLES.search(without_tags(part)), without_tags(part)
    [label] = re.findall(r'<svg class="whisker"[^>]*aria-label="([^"]*)"[^>]*swap-oob', part)
    assert re.fullmatch(r"Forecast: about [\d.]+% \([\d.]+ to [\d.]+\)", label)


def the_whisker_lies_over_the_hatched_part_of_the_bar(workspace, funnel):
    path = f"/funnels/{funnel}{WEEK}"
    part = html_of(workspace, path, "forecast")
    low, high = (float(each) for each in re.search(r'x1="([\d.]+)%" x2="([\d.]+)%"', part).groups())
    step = html_of(workspace, path, "overview").split('<li class="step"')[2]
    pending = r'class="pending" x="([\d.]+)%"\s+width="([\d.]+)%"'
    start, width = (float(each) for each in re.search(pending, step).groups())
    assert start - 0.01 <= low < high <= start + width + 0.01


def bars_of_the_previous_step_have_no_whiskers(workspace, funnel):
    part = html_of(workspace, f"/funnels/{funnel}{WEEK}&bars=steps", "forecast")
    assert SETTLES.search(without_tags(part))
    assert "whisker" not in part


def cohorts_have_their_own_forecasts(workspace, funnel):
    path = f"/funnels/{funnel}{WEEK}&breakdown=plan&show=cohorts"
    text = text_of(workspace, path, "detail")
    assert len(re.findall(r"So far [\d.]+% forecast [\d.]+% \([\d.]+ to [\d.]+\)", text)) == 2
    assert "Forecasts, with their intervals, say where rates will settle." in text


def a_row_of_the_list_shows_only_a_forecast_that_exists(workspace, funnel):
    forecast = re.compile(r"forecast [\d.]+% \([\d.]+ to [\d.]+\)")
    path = f"/funnels/{funnel}/row?timezone=UTC"
    assert not forecast.search(text_of(workspace, path))
    html_of(workspace, f"/funnels/{funnel}?period=30d&timezone=UTC", "forecast")
    assert forecast.search(text_of(workspace, path))


def a_shared_report_shows_only_a_forecast_that_exists(workspace, funnel):
    selection = {"period": "90d", "timezone": "UTC"}
    body = {"funnelId": funnel, "parameters": selection}
    share = workspace.client.post("/api/shares", json=body).json()
    path = "/s/" + share["url"].partition("/s/")[2]
    assert workspace.client.get(f"{path}.json").json()["forecast"] is None
    other = workspace.client.post("/api/shares", json=body).json()
    html_of(workspace, f"/funnels/{funnel}?period=90d&timezone=UTC", "forecast")
    path = "/s/" + other["url"].partition("/s/")[2]
    assert SETTLES.search(text_of(workspace, path))
    assert workspace.client.get(f"{path}.json").json()["forecast"]["replays"] > 10


def open_buckets_of_the_trend_have_a_band_in_the_band_of_their_bounds(workspace, funnel):
    path = f"/funnels/{funnel}{WEEK}&interval=week&show=trend"
    detail = html_of(workspace, path, "detail")
    assert 'aria-busy="true"' in detail.partition('id="bands"')[2][:20], "forecasts load separately"
    part = html_of(workspace, path, "bands")
    rates, forecast = decode(unescape(re.search(r'data-chart="([^"]*)"', part)[1]))["series"]
    edges = zip(rates["least"], forecast["least"], forecast["most"], rates["most"], strict=True)
    known = [each for each in edges if None not in each]
    assert known
    assert all(list(each) == sorted(each) for each in known)
    assert re.search(r"about [\d.]+% \([\d.]+ to [\d.]+\)", without_tags(part))


def a_tab_shows_how_earlier_forecasts_did(workspace, funnel):
    path = f"/funnels/{funnel}{WEEK}"
    part = html_of(workspace, path, "forecast")
    rate = re.search(r"about [\d.]+%", part.partition("<strong>")[2])[0]
    assert query_of(link_of(part, rate))["show"] == "forecasts"
    text = text_of(workspace, f"{path}&show=forecasts", "detail")
    row = r"\d+ \w+ 2026 [\d.]+% [\d.]+% to [\d.]+% [\d.]+% [\d.]+ points (Inside|Outside)"
    assert len(re.findall(row, text)) > 10
    assert re.search(r"points off on average, \d+ of \d+ inside their interval\.", text)


def a_period_without_open_units_has_no_forecast(workspace, funnel):
    path = f"/funnels/{funnel}?period=settled&timezone=UTC"
    assert 'id="forecast"' not in html_of(workspace, path, "overview")


test_pages_of_a_funnel_with_a_forecast = questions_about_one_scene(
    the_report_says_where_the_rate_will_settle_and_how_sure_that_is,
    the_whisker_lies_over_the_hatched_part_of_the_bar,
    bars_of_the_previous_step_have_no_whiskers,
    cohorts_have_their_own_forecasts,
    a_row_of_the_list_shows_only_a_forecast_that_exists,
    a_shared_report_shows_only_a_forecast_that_exists,
    open_buckets_of_the_trend_have_a_band_in_the_band_of_their_bounds,
    a_tab_shows_how_earlier_forecasts_did,
    a_period_without_open_units_has_no_forecast,
)


def test_too_little_history_is_a_quiet_sentence(workspace, scene):
    late = (DAYS - 1) * DAY_S
    scene.story(f"{late}/A {late + 60}/B", attempt="won")
    scene.story(f"{late}/A", attempt="open")
    funnel = scene.attempts("A", "B", conversionWindowSeconds=7 * DAY_S)
    text = text_of(workspace, f"/funnels/{funnel}{WEEK}", "forecast")
    assert text == "No forecast yet: too few settled attempts"


@pytest.mark.parametrize("show", ["cohorts", "trend"])
def test_a_forecast_that_takes_too_long_takes_nothing_else_away(
    workspace, funnel, monkeypatch, show
):
    def take_too_long(*_):
        raise Unavailable("It took too long.", code="query_timeout")

    monkeypatch.setattr(service, "make_day", take_too_long)
    path = f"/funnels/{funnel}{WEEK}&breakdown=plan&show={show}"
    part = html_of(workspace, path, "bands" if show == "trend" else "detail")
    assert "took too long" not in part
    assert "<table" in part
