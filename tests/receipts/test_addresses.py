"""Numbers that leave the dashboard carry the address of their receipt."""

import csv
import io
import json

import pytest

from tests.answers import body_of
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
