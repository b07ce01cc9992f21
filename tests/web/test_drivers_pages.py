"""What differs on a report: its events lead to their units, and can be those of visitors."""

import json
import re
from html import unescape

import pytest

from tests.cases import questions_about_one_scene
from tests.funnels.scenario import Scene
from tests.funnels.test_visitor_filters import identify
from tests.web.reading import html_of, query_of, text_of

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def path(scene):
    """Every other attempt has an error after step 1, and is lost."""
    items = []
    for number in range(80):
        at_s, who = 60 * number, f"visitor {number}"
        items.append(scene.item(at_s, "A", who, attempt=who))
        if number % 2:
            items.append(scene.item(at_s + 1, "error", who, attempt=who))
            items.append(scene.item(at_s + 2, "chat", who))  # of the visitor, not of the attempt
        else:
            items.append(scene.item(at_s + 30, "B", who, attempt=who))
    scene.track(items)
    return f"/funnels/{scene.attempts('A', 'B')}?period=all&show=drivers"


def an_event_leads_to_its_units(workspace, path):
    href = re.search(
        r'<a href="([^"]*)"[^>]*><bdi>error</bdi>', html_of(workspace, path, "detail")
    )[1]
    query = query_of(href)
    assert query["eventName"] == "error"
    assert (query["eventType"], query["step"], "of" in query) == ("Event", "1", False)
    page = html_of(workspace, unescape(href))
    assert "With error soon after step 1" in page
    assert "1: <bdi>A</bdi>" in page
    assert "2: <bdi>B</bdi>" not in page  # no event comes after the last step
    listed = text_of(workspace, unescape(href), "list")
    assert "40 attempts." in listed
    assert "visitor 79 " in listed
    [rest] = re.findall(r'href="([^"]*)" aria-label="Remove the filter With error', page)
    assert "event" not in rest
    assert "80 attempts." in text_of(workspace, unescape(rest), "list")


def a_list_by_an_event_gives_its_conditions_to_files_and_cohorts(workspace, path):
    path = path.split("?")[0]
    query = "period=all&step=1&eventType=Event&eventName=chat&of=visitor&hasEvent=false"
    page = html_of(workspace, f"{path}/units?{query}")
    assert "Without chat of the visitor soon after step 1" in page
    [parameters] = re.findall(r'name="parameters" data-as="json"\s+value="([^"]*)"', page)
    conditions = {
        "step": "1",
        "eventType": "Event",
        "eventName": "chat",
        "of": "visitor",
        "hasEvent": "false",
    }
    assert json.loads(unescape(parameters)) == conditions
    listed = html_of(workspace, f"{path}/units?{query}", "list")
    [file] = re.findall(r'href="([^"]*/export/units[^"]*)"', listed)
    assert conditions.items() <= query_of(file).items()
    assert len(workspace.browser.get(unescape(file)).text.splitlines()) == 41


def test_a_trait_is_named_as_one_of_the_visitor(workspace, clock, path):
    scene = Scene(workspace, clock)
    for number in range(1, 80, 2):
        identify(scene, f"user {number}", f"visitor {number}", tier="gold")
    text = text_of(workspace, path, "detail")
    assert "tier = gold Trait of the visitor" in text


def events_are_those_of_the_attempt_or_of_its_visitors(workspace, path):
    own = text_of(workspace, path, "detail")
    assert "error Event after the step" in own
    assert "Sorted by loss explained" in own
    assert re.search(r"of the other 40 ?: 40 more", own)
    assert "chat" not in own
    visitors = text_of(workspace, f"{path}&of=visitor", "detail")
    assert "chat Event after the step" in visitors
    following = text_of(workspace, f"{path}&of=visitor".replace("drivers", "next"), "detail")
    assert "chat Event 40" in following


test_pages_of_attempts_that_differ_by_an_event = questions_about_one_scene(
    an_event_leads_to_its_units,
    a_list_by_an_event_gives_its_conditions_to_files_and_cohorts,
    events_are_those_of_the_attempt_or_of_its_visitors,
)
