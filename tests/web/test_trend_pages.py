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
