"""Parts of a report: the page waits for none, and a slow part says what to do."""

import pytest

from penstock.warehouse.client import Warehouse
from tests.funnels.scenario import Scene
from tests.recording_warehouse import ENDLESS, RecordingWarehouse


@pytest.fixture
def warehouse(warehouse: Warehouse) -> RecordingWarehouse:
    return RecordingWarehouse(warehouse)


@pytest.fixture
def funnel(workspace, clock):
    scene = Scene(workspace, clock)
    scene.story("0/A 60/B")
    return scene.funnel("A", "B")


def test_the_page_itself_asks_the_engine_nothing(workspace, funnel, warehouse):
    with warehouse.running_before_reports(ENDLESS):
        page = workspace.browser.get(f"/funnels/{funnel}?period=all")
    assert page.status_code == 200
    assert 'id="overview"' in page.text
    assert 'aria-busy="true"' in page.text


def test_a_part_that_takes_too_long_says_so_and_offers_less(workspace, client, funnel, warehouse):
    client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": 0.5})
    as_part = {"headers": {"HX-Request": "true", "HX-Target": "overview"}}
    with warehouse.running_before_reports(ENDLESS):
        part = workspace.browser.get(f"/funnels/{funnel}?period=all", **as_part)
    assert part.status_code == 200
    for text in ("This takes too long", "0.5 seconds", "Show last 7 days", "Try again"):
        assert text in part.text
    client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": None})
    assert 'id="step-1"' in workspace.browser.get(f"/funnels/{funnel}?period=all", **as_part).text


@pytest.mark.parametrize(
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
        part = workspace.browser.get(
            f"/funnels/{funnel}?show=times&{query}",
            headers={"HX-Request": "true", "HX-Target": target},
        )
        assert part.status_code == 200, part.text
