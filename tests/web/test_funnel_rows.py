"""The rows of the list of funnels, each loaded by its own request."""

import re

import pytest

from tests.recording_warehouse import ENDLESS, RecordingWarehouse
from tests.tenant import visitor

FUNNEL = {
    "name": "Sign-up",
    "steps": [{"type": "Event", "value": "signed_up"}, {"type": "Event", "value": "paid"}],
}


@pytest.fixture
def warehouse(warehouse):
    return RecordingWarehouse(warehouse)


@pytest.fixture
def row(workspace):
    return f"/funnels/{workspace.client.post('/api/funnels', json=FUNNEL).json()['id']}/row"


def test_the_list_asks_for_the_figures_of_each_row(workspace, row):
    page = workspace.browser.get("/funnels").text
    assert f'hx-get="{row}"' in page
    assert "hx-get" not in workspace.browser.get(row).text


def test_a_row_whose_query_takes_too_long_says_so_and_can_be_retried(workspace, row, warehouse):
    workspace.client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": 0.5})
    with warehouse.running_before_reports(ENDLESS):
        answer = workspace.browser.get(row)
    assert answer.status_code == 200
    assert "Took too long, try again" in re.sub(r"\s+", " ", answer.text)
    workspace.client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": None})
    assert "No entries" in workspace.browser.get(row).text


def test_a_row_without_a_session_is_401(server, row):
    assert visitor(server, {"HX-Request": "true"}).get(row).status_code == 401
