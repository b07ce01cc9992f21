"""Numbers that leave the dashboard carry the address of their receipt."""

import csv
import io
import json
from datetime import datetime, timedelta

import pytest

from tests.answers import body_of
from tests.assistants.client import connected
from tests.funnels.scenario import where
from tests.records import create
from tests.shares.conftest import path_of

pytestmark = pytest.mark.usefixtures("warehouse")


def exported(keeping, **more):
    query = {**keeping.period, "format": "csv", **more}
    answer = keeping.client.get(f"/api/funnels/{keeping.funnel}/export", params=query)
    [total] = csv.DictReader(io.StringIO(answer.text))
    return total["receipt"]


def test_an_export_has_the_address_of_the_newest_receipt(keeping):
    assert exported(keeping) == ""
    keeping.keep()
    receipt = keeping.keep()
    assert exported(keeping) == receipt["url"]
    filters = json.dumps([where("plan", "equals", "pro")])
    assert exported(keeping, filters=filters) == ""
    filtered = keeping.keep(filters=filters)
    assert exported(keeping, filters=filters) == filtered["url"]
    keeping.client.delete(f"/api/receipts/{filtered['id']}").raise_for_status()
    assert exported(keeping, filters=filters) == ""


def test_a_shared_report_has_the_address(keeping):
    receipt = keeping.keep(breakdown="plan")
    form = {"funnelId": keeping.funnel, "parameters": {**keeping.period, "breakdown": "country"}}
    path = path_of(create(keeping.client, "/api/shares", form))
    assert body_of(keeping.client.get(f"{path}.json"))["receipt"] == receipt["url"]
    assert f'<a href="{receipt["url"]}">' in keeping.client.get(path).text


def test_a_receipt_of_an_earlier_revision_is_not_that_of_the_number(keeping, scene):
    keeping.keep()
    definition = scene.definition(keeping.funnel)
    definition["steps"][1]["value"] = "C"
    keeping.client.put(f"/api/funnels/{keeping.funnel}", json=definition).raise_for_status()
    assert exported(keeping) == ""


def test_the_results_and_what_an_assistant_answers_have_the_address(keeping, wire, workspace):
    path = f"/api/funnels/{keeping.funnel}/results"
    assert body_of(keeping.client.get(path, params=keeping.period))["receipt"] is None
    receipt = keeping.keep()
    assert body_of(keeping.client.get(path, params=keeping.period))["receipt"] == receipt["url"]
    assistant = connected(wire, workspace.client.headers["Authorization"])
    question = {"funnelId": keeping.funnel, **keeping.period}
    answer = assistant.call("ask_funnel", question="results", **question)
    assert answer["data"]["receipt"] == receipt["url"]
    assert assistant.call("explain_number", **question)["data"]["receipt"] == receipt["url"]


def test_a_shared_report_has_the_address_of_the_earlier_period_and_its_picture_has_both(
    keeping, scene
):
    days = [datetime.fromisoformat(keeping.period[name]).date() for name in ("startAt", "endAt")]
    start, length = days[0], days[1] - days[0]
    later = {"period": "custom", "start": str(start), "end": str(days[1])}
    earlier = {
        "period": "custom",
        "start": str(start - length - timedelta(days=1)),
        "end": str(start - timedelta(days=1)),
    }
    keeping.period = earlier
    before = keeping.keep()
    keeping.period = later
    receipt = keeping.keep()
    form = {"funnelId": keeping.funnel, "parameters": {**later, "compare": "previous"}}
    path = path_of(create(keeping.client, "/api/shares", form))
    report = body_of(keeping.client.get(f"{path}.json"))
    assert (report["receipt"], report["earlier"]["receipt"]) == (receipt["url"], before["url"])
    page = keeping.client.get(path).text
    assert all(f'<a href="{each["url"]}">' in page for each in (receipt, before))
    assert f"Receipt: {receipt['url']}" in keeping.client.get(f"{path}.svg").text


def test_the_page_of_a_report_has_the_address(keeping, workspace):
    path = f"/funnels/{keeping.funnel}"
    headers = {"HX-Request": "true", "HX-Target": "overview"}

    def page():
        return workspace.browser.get(path, params=keeping.period, headers=headers).text

    assert 'id="receipt"' not in page()
    receipt = keeping.keep()
    assert f'href="{receipt["url"]}"' in page().partition('id="receipt"')[2]
