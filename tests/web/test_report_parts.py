"""Parts of a report: the page waits for none, and a slow part says what to do.

A page has the parts whose answers are cached; what changes an answer takes them out again.
"""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.warehouse.client import Warehouse
from tests.cases import cases
from tests.funnels.scenario import Scene
from tests.recording_warehouse import ENDLESS, RecordingWarehouse
from tests.records import event_steps, ndjson, new_website, send_file
from tests.waiting import eventually
from tests.web.reading import html_of


@pytest.fixture
def warehouse(warehouse: Warehouse) -> RecordingWarehouse:
    return RecordingWarehouse(warehouse)


@pytest.fixture
def funnel(scene):
    scene.story("0/A 60/B")
    return scene.funnel("A", "B")


def test_the_badge_of_data_quality_counts_only_what_calls_for_something(workspace, scene):
    funnel = scene.funnel("A", "B", breakdownProperties=["plan"])
    path = f"/funnels/{funnel}?period=all&show=quality"
    scene.story("0/A 60/B")
    known = html_of(workspace, path, "detail")
    assert "visitor entered without plan" in known
    assert "badge warn" not in known
    scene.story("0/A 0/B", visitor="bob")
    tied = html_of(workspace, path, "detail")
    assert "event skipped as unordered ties" in tied
    assert '<span class="badge warn">1<' in tied


def test_rejected_lines_of_a_website_without_the_funnels_events_are_no_warning(
    workspace, client, scene, funnel
):
    blog = new_website(client, "blog")
    line = {"type": "event", "name": "read", "timestamp": scene.at(0), "userId": "u-1"}
    file = ndjson([line, {**line, "timestamp": "yesterday"}])
    path = f"/funnels/{funnel}?period=all"

    def rejected_lines_are_noted(website_id: str) -> bool:
        send_file(client, file, "application/x-ndjson", {"websiteId": website_id}, "done")
        return "rejected 1 line" in html_of(workspace, path, "overview")

    assert not rejected_lines_are_noted(blog)
    assert rejected_lines_are_noted(workspace.website_id)


def test_the_page_itself_waits_for_no_report(workspace, funnel, warehouse):
    with warehouse.running_before_reports(ENDLESS):
        page = html_of(workspace, f"/funnels/{funnel}?period=all")
    assert 'id="overview"' in page
    assert 'aria-busy="true"' in page


def test_a_part_that_takes_too_long_says_so_and_offers_less(workspace, client, funnel, warehouse):
    client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": 0.5})
    path = f"/funnels/{funnel}?period=all"
    with warehouse.running_before_reports(ENDLESS):
        part = html_of(workspace, path, "overview")
    for text in ("This takes too long", "0.5 seconds", "Show last 7 days", "Try again"):
        assert text in part
    client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": None})
    assert 'id="step-1"' in html_of(workspace, path, "overview")


@cases(
    "query",
    [
        "period=never",
        "start=x&period=custom",
        "timezone=Mars/Base",
        "cohort=[",
        "page=0&sort=x&order=y",
        "websiteId=web_of_another",
        "pair=9-1",
    ],
)
def test_invalid_query_parameters_are_ignored_or_reported_in_the_part(workspace, funnel, query):
    for target in ("overview", "detail"):
        html_of(workspace, f"/funnels/{funnel}?show=times&{query}", target)


ALL_TIME = "period=all&timezone=UTC"


class Report:
    """The report page of a funnel."""

    def __init__(self, workspace, funnel, query=ALL_TIME):
        self.workspace, self.path = workspace, f"/funnels/{funnel}?{query}"

    def load_parts(self):
        """As the browser does in a page without them. Returns them as they are from the cache."""
        for _ in range(2):
            for name in ("verdict", "audience", *self.slow_parts):
                html_of(self.workspace, self.path, name)
            overview, detail = (
                html_of(self.workspace, self.path, name) for name in ("overview", "detail")
            )
        steps = overview.partition('id="steps"')[2]  # the verdict above them loads by itself
        return steps.removesuffix("</div>\n"), detail

    @property
    def slow_parts(self):
        """The parts with forecasts."""
        return ("forecast", "bands") if "show=trend" in self.path else ("forecast",)

    @property
    def page(self):
        return html_of(self.workspace, self.path)

    @property
    def entered(self):
        """What the page itself says without its parts being loaded; None: nothing."""
        figure = re.search(r'id="entered">.*?<data value="(\d+)"', self.page)
        return figure and int(figure[1])


@cases(
    "show",
    [
        "cohorts",
        "trend",
        *(
            pytest.param(show, marks=pytest.mark.full("other parts"))
            for show in ("times", "compare", "next", "quality")
        ),
    ],
)
def test_a_page_whose_answers_are_cached_has_its_parts(workspace, scene, warehouse, show):
    scene.story("0/A 60/B", plan="pro")
    funnel = scene.attempts("A", "B", breakdownProperties=["plan"])
    report = Report(workspace, funnel, f"{ALL_TIME}&show={show}")
    assert "aria-busy" in report.page
    parts, statements = report.load_parts(), len(warehouse.reports)
    with warehouse.running_before_reports(ENDLESS):
        page = report.page
    assert "aria-busy" not in page
    for part in parts:
        assert part.strip() in page
    assert len(warehouse.reports) == statements


@pytest.mark.full("another part")
def test_a_cached_page_has_its_comparison_with_an_earlier_period(workspace, scene, warehouse):
    scene.story("0/A 60/B")
    report = Report(workspace, scene.attempts("A", "B"), "period=7d&timezone=UTC&compare=previous")
    report.load_parts()
    with warehouse.running_before_reports(ENDLESS):
        page = report.page
    assert "aria-busy" not in page
    assert 'id="compared"' in page


def test_a_cached_page_does_not_wait_for_a_turn_in_the_engine(workspace, funnel, warehouse):
    report = Report(workspace, funnel)
    report.load_parts()
    with ThreadPoolExecutor() as threads, warehouse.holding() as held:
        for period in ("7d", "30d"):
            path = f"/funnels/{funnel}?period={period}"
            threads.submit(html_of, workspace, path, "overview")
        eventually(lambda: held.statements == 2)  # all that one workspace may run
        assert report.entered == 1


@pytest.mark.usefixtures("warehouse")
def test_a_new_tab_another_time_zone_and_a_changed_funnel_load_what_is_not_cached(
    workspace, funnel
):
    report = Report(workspace, funnel)
    report.load_parts()
    page = Report(workspace, funnel, f"{ALL_TIME}&show=next").page
    assert 'id="step-1"' in page
    assert page.count("aria-busy") == 3  # the tab, and the parts after it
    assert Report(workspace, funnel, "period=all").entered is None  # in the reader's time zone
    body = {"name": "New", "steps": event_steps("B", "A")}
    workspace.client.put(f"/api/funnels/{funnel}", json=body).raise_for_status()
    assert report.entered is None


@pytest.mark.usefixtures("warehouse")
def test_new_events_merged_visitors_and_a_deletion_take_the_figures_out_of_the_page(
    workspace, services, scene, funnel
):
    scene.story("0/A", visitor="carol")
    report = Report(workspace, funnel)
    report.load_parts()
    assert report.entered == 2
    with services.shipper.paused():
        scene.story("0/A", visitor="bob")
        assert report.entered is None  # and the page does not wait for them
    eventually(lambda: services.shipper.outbox_state().bundles == 0)
    assert report.entered is None
    report.load_parts()
    assert report.entered == 3

    for visitor in ("ann", "bob"):
        who = {"websiteId": workspace.website_id, "visitorId": visitor, "userId": "both"}
        workspace.client.post("/api/identify", json=who).raise_for_status()
    eventually(lambda: services.shipper.outbox_state().bundles == 0)
    assert report.entered is None
    report.load_parts()
    assert report.entered == 2

    deletion = {"websiteId": workspace.website_id, "visitorId": "carol"}
    job = workspace.browser.post("/api/deletions", json=deletion).json()["id"]
    eventually(lambda: workspace.browser.get(f"/api/deletions/{job}").json()["state"] == "done")
    assert report.entered is None
    report.load_parts()
    assert report.entered == 1


@pytest.mark.usefixtures("warehouse")
def test_a_window_that_ends_takes_the_figures_out_of_the_page(workspace, clock):
    scene = Scene(workspace, clock, ago_s=60)
    scene.story("0/A")
    report = Report(workspace, scene.attempts("A", "B"))
    report.load_parts()
    pending = re.compile(r'id="pending">(?:<a[^>]*>)?<data value="1"')
    assert pending.search(report.page)
    clock.advance(days=1)
    assert report.entered is None
    report.load_parts()
    assert not pending.search(report.page)
    assert report.entered == 1


def test_an_error_appears_in_the_part_that_loads(workspace, funnel):
    report = Report(workspace, funnel, f'{ALL_TIME}&cohort={{"nothing":1}}')
    report.load_parts()
    assert report.page.count("aria-busy") == 2
    assert "Try again" in html_of(workspace, report.path, "overview")
