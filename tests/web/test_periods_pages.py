"""Each figure of a report carries its change from an earlier period, chosen in the address."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from tests.cases import cases, questions_about_one_scene
from tests.funnels.scenario import DAY_S, Scene
from tests.web.reading import html_of, query_of, text_of


@pytest.fixture
def scene(workspace, clock):
    """A scene that starts at midnight 20 days ago."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    scene = Scene(workspace, clock)
    scene.start_ms = round((midnight - timedelta(days=20)).timestamp() * 1000)
    return scene


@pytest.fixture
def report(scene):
    """40 attempts on day 3, of which 10 completed, and 40 on day 4, of which 30 completed."""
    for day, completed in ((3, 10), (4, 30)):
        items = []
        for number in range(40):
            attempt, at_s = f"{day}-{number}", day * DAY_S + number
            names = ("A", "B") if number < completed else ("A",)
            items += [
                scene.item(at_s + 60 * index, name, attempt, attempt=attempt, plan="pro")
                for index, name in enumerate(names)
            ]
        scene.track(items)
    more = {"conversionWindowSeconds": DAY_S, "breakdownProperties": ["plan"]}
    return f"/funnels/{scene.attempts('A', 'B', **more)}"


def day_of(scene, day):
    return scene.at(day * DAY_S)[:10]


def one_day(scene, day):
    """The period of one day, in the address of a page."""
    date = day_of(scene, day)
    return {"period": "custom", "start": date, "end": date, "timezone": "UTC"}


def verdict_of(workspace, report, **query):
    return text_of(workspace, report, "verdict", **query)


def steps_and_cohorts_carry_their_change(workspace, scene, report):
    query = {**one_day(scene, 4), "compare": "previous"}
    text = text_of(workspace, report, "overview", **query)
    assert "2 B 30 75.0% +50.0" in text
    assert "2 B 30 75.0% 25.0% +50.0 +28.5 to +65.3 75.0%" in text  # the table
    assert "pro 40 75.0% +50.0 +28.5 to +65.3" in text_of(workspace, report, "detail", **query)
    [mark] = re.findall(r'class="mark" x1="([\d.]+)%"', step_of(workspace, report, 2, query))
    assert float(mark) == 25
    assert "50.0 points up from 25.0% on the day before" in verdict_of(workspace, report, **query)


def step_of(workspace, report, step, query):
    page = html_of(workspace, report, "overview", **query)
    return page.split('<li class="step"')[step].partition('<div class="between-steps')[0]


def fewer_than_thirty_units_are_too_few(workspace, scene, report):
    query = {**one_day(scene, 5), "compare": "previous"}
    text = text_of(workspace, report, "overview", **query)
    assert "Too few to compare: 0 attempts in this period and 40 in the earlier one." in text


def two_young_periods_are_compared_so_far(workspace, scene, report):
    query = {**one_day(scene, 4), "window": "60d", "compare": "previous"}
    text = text_of(workspace, report, "overview", **query)
    assert (
        "So far 75.0% of 40 attempts completed, 50.0 points up from 25.0% on the day before (95%: "
        "28.5 to 65.3) at the same age." in text
    )
    assert "2 B 30 75.0% +50.0" in text
    assert "pro 40 So far 75.0% +50.0" in text_of(workspace, report, "detail", **query)


def a_period_before_all_events_has_no_data(workspace, scene, report):
    text = text_of(workspace, report, "overview", **one_day(scene, 3), compare="previous")
    first = datetime.fromtimestamp(scene.start_ms / 1000 + 3 * DAY_S, UTC)
    assert re.search(rf"No data before {first.day} {first:%B}( {first.year})?\.", text)


def the_earlier_period_can_start_on_a_date_or_lie_a_year_back(workspace, scene, report):
    own = {"compare": "custom", "compareStart": day_of(scene, 3)}
    text = verdict_of(workspace, report, **one_day(scene, 4), **own)
    assert "50.0 points up from 25.0%" in text
    page = html_of(workspace, report, "overview", **one_day(scene, 4), compare="year")
    compared = re.search(r'id="compared".*?</p>', page, re.DOTALL)[0]
    [first, last] = re.findall(r'datetime="(\d+)-(\d+-\d+)', compared)[:2]
    year, month_and_day = day_of(scene, 4).split("-", 1)
    assert (int(first[0]), first[1]) == (int(year) - 1, month_and_day)
    assert last == first


@cases(
    ("query", "reason"),
    [
        ({"period": "all", "compare": "previous"}, "Choose a period with a start and an end"),
        ({"compare": "custom"}, "Choose the first day of the earlier period"),
        ({"compare": "custom", "compareStart": "2298-01-01"}, "must start before the other"),
        (
            {"period": "custom", "start": "1970-01-05", "end": "1970-03-05", "compare": "year"},
            "must not start before 1970",
        ),
    ],
)
def test_a_comparison_that_is_not_possible_says_why(workspace, report, query, reason):
    assert reason in text_of(workspace, report, "overview", timezone="UTC", **query)


def test_without_a_window_the_page_offers_one(workspace, scene):
    report = f"/funnels/{scene.funnel('A', 'B', conversionWindowSeconds=None)}"
    page = html_of(workspace, report, "overview", timezone="UTC", compare="previous")
    assert "Without a conversion window, no visitor settles" in page
    assert "window=30d" in page


def the_verdict_leads_to_the_comparison(workspace, scene, report):
    page = html_of(workspace, report, "verdict", **one_day(scene, 4))
    href = unescape(re.search(r'href="([^"]*)"[^>]*><bdi>50.0 points up', page)[1])
    assert query_of(href) == {**one_day(scene, 4), "compare": "previous"}


def a_report_that_is_not_compared_has_no_comparison(workspace, scene, report):
    page = html_of(workspace, report, "overview", **one_day(scene, 4))
    assert 'id="compared"' not in page
    assert 'class="mark"' not in page


test_pages_of_two_periods = pytest.mark.usefixtures("warehouse")(
    questions_about_one_scene(
        steps_and_cohorts_carry_their_change,
        fewer_than_thirty_units_are_too_few,
        two_young_periods_are_compared_so_far,
        a_period_before_all_events_has_no_data,
        the_earlier_period_can_start_on_a_date_or_lie_a_year_back,
        the_verdict_leads_to_the_comparison,
        a_report_that_is_not_compared_has_no_comparison,
    )
)
