"""The line of a report that says whom it counts."""

import json

import pytest

from tests.funnels.scenario import HOUR_S, where
from tests.funnels.test_internal_traffic import leave_out
from tests.funnels.test_segments import save
from tests.web.reading import html_of, text_of

pytestmark = pytest.mark.usefixtures("warehouse")

STAFF = where("email", "ends_with", "@example.com")
PRO = where("plan", value="pro")


def line_of(workspace, funnel, **query):
    question = {"period": "all", "timezone": "UTC", **query}
    text = text_of(workspace, f"/funnels/{funnel}", "audience", **question)
    return text.replace("( ", "(").replace(" )", ")")


def test_the_line_names_the_share_and_what_each_choice_left_out(workspace, scene):
    scene.story("0/A", visitor="ann", attempt="a1", plan="pro")
    scene.story("0/A", visitor="ann", attempt="a2", plan="basic")
    scene.story("0/A", visitor="bob", attempt="a3", email="bob@example.com", plan="pro")
    scene.story("0/x", visitor="eve", attempt=None)
    visitors, attempts = scene.funnel("A", "B"), scene.attempts("A", "B")
    assert line_of(workspace, visitors) == "2 of 3 visitors of all time entered (66.7%)."
    leave_out(workspace.client, STAFF)
    segment = save(workspace.client, {"name": "Pro", "filters": [PRO]})["id"]
    assert line_of(workspace, attempts, segment=segment) == (
        "1 of 3 visitors of all time had an attempt (33.3%). "
        "Left out: 1 attempt by internal traffic, 1 by the segment."
    )
    filters = json.dumps([where("plan", value="free")])
    assert line_of(workspace, visitors, filters=filters, internal="true") == (
        "0 of 3 visitors of all time entered (0.0%). Left out: 2 visitors by filters."
    )
    period = scene.period(HOUR_S, 2 * HOUR_S)
    assert line_of(workspace, visitors, **period).startswith("0 of 0 visitors in this period")


def test_the_line_loads_by_itself(workspace, scene):
    scene.story("0/A")
    overview = html_of(workspace, f"/funnels/{scene.funnel('A', 'B')}?period=all", "overview")
    assert 'id="audience" class="soft small" aria-busy="true"' in overview
