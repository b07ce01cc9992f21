"""What differs on a report: its events lead on, and can be those of visitors."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.funnels.scenario import DAY_S, Scene
from tests.web.test_settled_pages import text_of


@pytest.fixture
def path(workspace, clock):
    """Every other attempt has an error after step 1, and is lost."""
    scene = Scene(workspace, clock, ago_s=10 * DAY_S)
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


def detail_of(workspace, path):
    answer = workspace.browser.get(path, headers={"HX-Request": "true", "HX-Target": "detail"})
    assert answer.status_code == 200, answer.text
    return answer.text


def test_an_event_leads_to_the_events_after_its_step(workspace, path):
    href = re.search(r'<a href="([^"]*)"[^>]*><bdi>error</bdi>', detail_of(workspace, path))[1]
    query = parse_qs(urlsplit(unescape(href)).query)
    assert (query["show"], query["step"], query["of"]) == (["next"], ["1"], ["unit"])
    text = text_of(workspace, unescape(href).removesuffix("#detail"), "detail")
    assert "error Event 40 100.0%" in text


def test_events_are_those_of_the_attempt_or_of_its_visitors(workspace, path):
    own = text_of(workspace, path, "detail")
    assert "error Event after the step" in own
    assert "chat" not in own
    visitors = text_of(workspace, f"{path}&of=visitor", "detail")
    assert "chat Event after the step" in visitors
    following = text_of(workspace, f"{path}&of=visitor".replace("drivers", "next"), "detail")
    assert "chat Event 40" in following
