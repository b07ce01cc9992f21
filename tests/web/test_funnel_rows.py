"""The rows of the list of funnels, each loaded by its own request."""

import re

import pytest

from penstock.base.clock import iso
from tests.recording_warehouse import ENDLESS, RecordingWarehouse
from tests.records import event_steps, track
from tests.tenant import visitor
from tests.web.reading import html_of, text_of, without_tags

FUNNEL = {"name": "Sign-up", "steps": event_steps("signed_up", "paid")}


@pytest.fixture
def warehouse(warehouse):
    return RecordingWarehouse(warehouse)


@pytest.fixture
def row(workspace):
    return f"/funnels/{workspace.client.post('/api/funnels', json=FUNNEL).json()['id']}/row"


@pytest.mark.usefixtures("warehouse")
def test_the_list_asks_for_the_figures_of_each_row(workspace, row):
    page = workspace.browser.get("/funnels").text
    assert f'hx-get="{row}?period=30d"' in page
    assert "hx-get" not in workspace.browser.get(row).text


def test_the_period_of_the_list_is_that_of_its_rows_and_reports(workspace, row):
    page = workspace.browser.get("/funnels?period=settled").text
    assert f'hx-get="{row}?period=settled"' in page
    assert f'href="{row.removesuffix("/row")}?period=settled"' in page
    assert "period=settled" in re.search(r'<th[^>]*><a[^>]*href="([^"]*)', page)[1]
    shown = workspace.browser.get(f"{row}?period=settled").text
    assert f'href="{row.removesuffix("/row")}?period=settled"' in shown


@pytest.mark.usefixtures("warehouse")
def test_the_totals_of_a_row_are_those_of_the_report(workspace, row, clock):
    """A visitor who signs up daily and pays once counts once, though on three days of the trend."""
    now_ms = clock()
    events = [(day, "signed_up") for day in (3, 2, 1)] + [(1, "paid")]
    for days, name in events:
        timestamp = iso(now_ms - days * 86_400_000 + len(name))
        own = {"name": name, "visitorId": "ann", "timestamp": timestamp}
        track(workspace.client, workspace.website_id, **own)
    page = re.sub(r"\s+", " ", workspace.browser.get(row).text)
    entered, rate = re.findall(r'data-label="(?:Entered|Conversion rate)">(.*?)</td>', page)
    assert [without_tags(cell) for cell in (entered, rate)] == ["1", "100.0%"]


@pytest.mark.usefixtures("warehouse")
def test_the_list_has_figures_of_all_time(workspace, row, clock):
    for days in range(100, 4_000, 200):
        own = {"visitorId": f"v-{days}", "timestamp": iso(clock() - days * 86_400_000)}
        for name in ("signed_up", "paid")[: 1 + (days == 100)]:
            track(workspace.client, workspace.website_id, name=name, **own)
    page = workspace.browser.get("/funnels?period=all").text
    assert re.search(r'aria-current="true"[^>]*>\s*All time', page)
    assert f'hx-get="{row}?period=all"' in page
    shown = workspace.browser.get(f"{row}?period=all").text
    assert without_tags(re.search(r'data-label="Entered">(.*?)</td>', shown)[1]) == "20"
    assert "Conversion rate by week" in shown


def test_a_row_whose_query_takes_too_long_says_so_and_can_be_retried(workspace, row, warehouse):
    workspace.client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": 0.5})
    with warehouse.running_before_reports(ENDLESS):
        page = html_of(workspace, row)
    assert "Took too long, try again" in re.sub(r"\s+", " ", page)
    workspace.client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": None})
    assert "No entries" in workspace.browser.get(row).text


def test_a_row_without_a_session_is_401(server, row):
    assert visitor(server, {"HX-Request": "true"}).get(row).status_code == 401


@pytest.mark.usefixtures("warehouse")
def test_a_step_that_was_never_received_is_named_instead_of_empty_bars(workspace, row, clock):
    sent = {"name": "signed_up", "visitorId": "ann", "timestamp": iso(clock() - 3_600_000)}
    track(workspace.client, workspace.website_id, **sent)
    assert "<bdi>paid</bdi> was never received" in workspace.browser.get(row).text
    report = row.removesuffix("/row")
    text = text_of(workspace, report, "overview", period="all")
    assert "2 paid paid was never received 0 0.0%" in text
    assert "paid was never received" in text
    paid = {"name": "paid", "visitorId": "bob", "timestamp": iso(clock() - 40 * 86_400_000)}
    track(workspace.client, workspace.website_id, **paid)
    assert "paid was not received in this period" in text_of(workspace, report, "overview")
    assert "<bdi>paid</bdi> was not received in this period" in workspace.browser.get(row).text
