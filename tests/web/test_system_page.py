"""The page "System": for owners, with the counts of their websites."""

import re

import pytest

from tests.tenant import join
from tests.waiting import eventually

_GROWTH = re.compile(
    r"The ([a-z ]+) is <data .*?</data>\. "
    r'It (?:grew|shrank) by <data .*?</data> in the last <data value="(\d+)"'
)


@pytest.mark.usefixtures("warehouse")
def test_owners_see_how_the_node_is_and_what_became_of_events(workspace, services):
    event = {"websiteId": workspace.website_id, "userId": "ann", "event": "paid"}
    workspace.client.post("/api/v1/events", json=event)
    workspace.client.post("/api/v1/events", json=event | {"wrong": 1})
    assert services.shipper.wait_until_shipped(10)
    page = workspace.browser.get("/system")
    assert page.status_code == 200
    assert "Open files" in page.text
    assert f'<a href="/refused?websiteId={workspace.website_id}"><data value="1"' in page.text
    assert "metadata database" in page.text
    assert 'href="/system"' in workspace.browser.get("/goals").text


@pytest.mark.usefixtures("warehouse")
def test_owners_see_how_much_both_stores_grew_since_the_start(workspace, clock):
    def growth_shown():
        return dict(_GROWTH.findall(" ".join(workspace.browser.get("/system").text.split())))

    eventually(growth_shown)
    clock.advance(seconds=3 * 3600)
    growth = growth_shown()
    assert set(growth) == {"metadata database", "event store"}
    assert all(3 * 3600 <= int(seconds) < 4 * 3600 for seconds in growth.values())


def test_members_do_not_see_it(workspace):
    member = join(workspace)
    assert member.get("/system").status_code == 403
    assert 'href="/system"' not in member.get("/goals").text
