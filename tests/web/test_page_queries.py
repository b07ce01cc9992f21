"""The address of a page: what it cannot use is named on the page, never dropped silently."""

import pytest

from tests.cases import cases
from tests.funnels.scenario import Scene
from tests.tenant import visitor
from tests.test_tenancy import link_into_app
from tests.web.reading import html_of, without_tags

INVALID_PERIOD = "period=custom&start=2026-05-05&end=2026-05-01"
MESSAGE = "The end date must not be before the start date."


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B")
    return scene.funnel("A", "B")


@cases("page", ["report", "units", "link"])
def test_a_custom_period_that_ends_before_it_starts_is_an_error_at_its_field(
    workspace, funnel, page
):
    path = {
        "report": f"/funnels/{funnel}",
        "units": f"/funnels/{funnel}/units",
        "link": f"/links/{link_into_app(workspace)}" if page == "link" else "",
    }[page]
    text = workspace.browser.get(f"{path}?{INVALID_PERIOD}").text
    assert f'id="period-fault" role="alert">{MESSAGE}' in text
    assert 'value="2026-05-05"' in text
    assert 'value="2026-05-01"' in text
    assert 'class="card loading"' not in text  # no numbers of another period are loaded


def test_parts_of_an_invalid_period_have_no_numbers(workspace, funnel):
    text = html_of(workspace, f"/funnels/{funnel}?{INVALID_PERIOD}", "overview")
    assert MESSAGE in text
    assert 'id="step-1"' not in text


@cases("dates", ["", "&start=2026-05-05", "&start=soon&end=2026-05-05"])
def test_a_custom_period_without_both_dates_is_an_error(workspace, funnel, dates):
    text = workspace.browser.get(f"/funnels/{funnel}?period=custom{dates}").text
    assert "Enter both a start date and an end date." in text


@cases(
    ("query", "name"),
    [
        ("timezone=Mars/Base", "timezone"),
        ("cohort=[", "cohort"),
        ("period=never", "period"),
        ("startAt=1780000000000", "endAt"),
        ("page=many", "page"),
        ("show=nothing", "show"),
        ("start=1969-12-31", "start"),
        ("compareStart=2300-01-01", "compareStart"),
    ],
)
def test_an_invalid_parameter_is_named(workspace, funnel, query, name):
    text = workspace.browser.get(f"/funnels/{funnel}?{query}").text
    assert "Part of this address was ignored" in text
    assert f"<code>{name}</code>:" in text


@pytest.mark.usefixtures("warehouse")
@cases("path", ["/live", "/refused", "/visitors", "/imports", "/deletions", "/links"])
def test_a_website_of_another_workspace_is_named(workspace, path):
    text = workspace.browser.get(f"{path}?websiteId=web_other").text
    assert "This workspace has no website or app with this ID." in text


@pytest.mark.usefixtures("warehouse")
@cases("path", ["", "/units"])
def test_a_report_of_a_website_that_is_gone_is_that_of_all(workspace, funnel, path):
    address = f"/funnels/{funnel}{path}?websiteId=web_gone"
    text = workspace.browser.get(address).text
    assert "This workspace has no website or app with this ID." in text
    assert "Try again" not in html_of(workspace, address, "list" if path else "overview")


def test_a_valid_address_has_no_notice(workspace, funnel):
    query = "timezone=Europe/Berlin&utm_source=mail&period=7d"
    assert "ignored" not in workspace.browser.get(f"/funnels/{funnel}?{query}").text


@pytest.mark.usefixtures("warehouse")
def test_pending_units_have_a_figure_of_the_shown_cohort_and_no_note(workspace, clock):
    scene = Scene(workspace, clock, ago_s=60)
    for number, plan in enumerate(("pro", "pro", "free")):
        scene.story("0/A", attempt=f"a{number}", plan=plan)
    path = f"/funnels/{scene.attempts('A', 'B', breakdownProperties=['plan'])}?period=all"
    whole = html_of(workspace, path, "overview")
    assert "still in progress" not in whole
    assert "3 in progress" in without_tags(whole)
    cohort = html_of(workspace, path + '&cohort={"plan":"free"}', "overview")
    assert "1 in progress" in without_tags(cohort)
    assert "3 in progress" not in without_tags(cohort)


@pytest.mark.usefixtures("warehouse")
@cases(
    ("target", "show"),
    [
        ("overview", "times"),
        ("detail", "cohorts"),
        pytest.param("detail", "trend", marks=pytest.mark.full("other parts")),
        pytest.param("detail", "next", marks=pytest.mark.full("other parts")),
    ],
)
def test_without_a_conversion_window_nobody_is_pending_or_drops_off(workspace, scene, target, show):
    for number in range(3):
        scene.story("0/A", visitor=f"v{number}", plan="pro")
    scene.story("0/A 5/B", visitor="buyer", plan="pro")
    path = f"/funnels/{scene.funnel('A', 'B', breakdownProperties=['plan'])}?period=all"
    text = without_tags(html_of(workspace, f"{path}&show={show}", target))
    for word in ("Pending", "pending", "Dropped off", "dropped off", "May still rise"):
        assert word not in text
    if target == "overview":
        assert "This funnel has no conversion window." in text
        assert "not converted" in text
    title = workspace.browser.get(path.replace("?", "/units?") + "&outcome=pending").text
    assert "Visitors who have not converted" in title


@pytest.mark.usefixtures("warehouse")
def test_with_a_conversion_window_pending_and_dropped_off_are_shown(workspace, scene):
    scene.story("0/A")
    path = f"/funnels/{scene.attempts('A', 'B')}?period=all"
    text = html_of(workspace, path, "overview")
    assert "Pending" in text
    assert "Dropped off" in text


def test_the_log_in_says_why_it_is_shown(workspace, server):
    browser = visitor(server, {"Cookie": "service_session=ended"})
    assert "Your session has ended." in browser.get("/login?next=/funnels").text
    text = visitor(server).get("/login?next=/funnels").text
    assert "Log in to open the page you requested." in text
    assert "session has ended" not in text
    assert "Log in to open" not in visitor(server).get("/login").text
