"""The same story in the export of each product gives the same report, worked out by hand."""

import json

import pytest

from tests.answers import body_of, columns_of
from tests.events.conftest import finished, upload
from tests.events.imports.exported import FILES, PAID, STARTED, TABLE_MAPPING, TABLES

FUNNEL = {
    "name": "Purchase",
    "steps": [
        {"type": "Pageview", "value": "/pricing"},
        {"type": "Event", "value": STARTED},
        {"type": "Event", "value": PAID},
    ],
    "conversionWindowSeconds": 86_400,
}


def report(workspace, **more):
    return body_of(workspace.client.post("/api/funnels/preview", json={**FUNNEL, **more}))


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("name", [*FILES, *TABLES])
def test_a_funnel_over_an_export_has_the_figures_worked_out_by_hand(workspace, name):
    """Ann, Ben, Cem, Dia and Eve enter; Ann, Ben and Dia start a checkout; Ann and Dia pay, Ann
    after 10 and Dia after 20 minutes.
    """
    content, query = (FILES | TABLES)[name](), {}
    if name in TABLES:
        query = {"mapping": json.dumps(TABLE_MAPPING)}
    job = finished(
        workspace.client,
        upload(workspace, content, "text/plain", format=name, **query).json()["id"],
    )
    assert (job["state"], job["rejected"], job["identityConflicts"]) == ("done", 0, 1)
    total = report(workspace)["aggregate"]
    assert columns_of(total["steps"], "count", "droppedOff") == [(5, 2), (3, 1), (2, 0)]
    figures = ("entered", "completed", "pending", "conversionRate", "medianCompletionMinutes")
    assert [total[figure] for figure in figures] == [5, 2, 0, 0.4, 15.0]
    again = finished(
        workspace.client,
        upload(workspace, content, "text/plain", format=name, **query).json()["id"],
    )
    assert (again["accepted"], again["duplicates"]) == (0, job["accepted"])
    assert report(workspace)["aggregate"] == total
