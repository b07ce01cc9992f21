"""The trend of a report: the share of each cohort in the loss after a step."""

import json
import re
from html import unescape

import pytest

from tests.funnels.scenario import DAY_S
from tests.web.reading import html_of, text_of

pytestmark = pytest.mark.usefixtures("warehouse")


def test_each_cohort_has_its_share_of_the_loss_after_the_chosen_step(workspace, scene):
    stories = {"free": ["0/A", "1/A", "2/A", f"{DAY_S}/A 1/B"], "pro": ["3/A", "4/A 5/B"]}
    for plan, own_stories in stories.items():
        for number, story in enumerate(own_stories):
            scene.story(story, attempt=f"{plan} {number}", plan=plan)
    funnel = scene.attempts("A", "B", "C", breakdownProperties=["plan"])
    question = {"period": "all", "show": "trend", "measure": "loss", "timezone": "UTC"}
    html = html_of(workspace, f"/funnels/{funnel}", "detail", **question)
    chart = json.loads(unescape(re.search(r'data-chart="([^"]*)"', html)[1]))
    assert chart["axes"]["y"] == "Share of the loss"
    shares = {line["label"]: line["values"][0] for line in chart["series"]}
    assert shares == {"free": 0.75, "pro": 0.25}
    table = text_of(workspace, f"/funnels/{funnel}", "detail", **question)
    assert "a cohort's share of the attempts lost after step 1" in unescape(table)
    later = html_of(workspace, f"/funnels/{funnel}", "detail", **question, step="2")
    assert re.search(r'<option value="2" selected>', later)
    assert "Lost after step 2" in later


def test_the_trend_and_flows_are_between_the_chosen_steps(workspace, scene):
    for number, story in enumerate(("0/A", "1/A 2/B", "3/A 4/x 5/B 6/C", "7/A 8/y 9/B 10/C")):
        scene.story(story, attempt=f"a{number}", plan="pro")
    funnel = scene.attempts("A", "B", "C", breakdownProperties=["plan"])
    address = f"/funnels/{funnel}"
    question = {"period": "all", "show": "trend", "timezone": "UTC"}

    def lines(**more):
        html = html_of(workspace, address, "detail", **question, **more)
        chart = json.loads(unescape(re.search(r'data-chart="([^"]*)"', html)[1]))
        return {line["label"]: line["values"][0] for line in chart["series"]}, html

    rates, html = lines()
    assert rates == {"Conversion rate": 0.5}
    assert re.search(r'<option value="1-3" selected>', html)
    rates, html = lines(pair="2-3")
    assert rates == {"Step 2 to 3": 2 / 3}
    assert re.search(r'<option value="2-3" selected>', html)
    assert "fromStep=2&amp;toStep=3" in html
    assert lines(pair="2-3", measure="cohorts")[0] == {"pro": 2 / 3}
    assert 'name="pair"' not in lines(pair="2-3", measure="counts")[1]
    flows = {**question, "show": "flows", "where": "between"}
    text = text_of(workspace, address, "detail", **flows, pair="1-3")
    assert "after step 1 and before step 3 of 2 attempts that reached step 3" in text
    assert "before step 2 of 3 attempts" in text_of(workspace, address, "detail", **flows)
    two_steps = scene.attempts("A", "B")
    assert 'name="pair"' not in html_of(workspace, f"/funnels/{two_steps}", "detail", **question)
