"""The page of an import offers its undo, and shows what goes before it asks."""

from typing import Any

import pytest
from sqlalchemy import update

from penstock.app import Services
from penstock.metadb.tables import imports
from tests.answers import body_of
from tests.events.conftest import imported
from tests.events.deletions.conftest import finished
from tests.tenant import Tenant
from tests.web.reading import html_of, text_of


def line(number: int) -> dict[str, Any]:
    at = f"2020-05-01T10:00:{number:02d}Z"
    return {"type": "event", "name": "step", "timestamp": at, "userId": f"user-{number}"}


@pytest.mark.usefixtures("warehouse")
def test_an_import_is_undone_after_its_page_has_shown_the_numbers(workspace: Tenant) -> None:
    job = imported(workspace, [line(1), line(2), line(3)], fileName="wrong.csv")
    other = imported(workspace, [line(3), line(4)], fileName="<b>other</b>")
    path = f"/imports/{job['id']}"
    assert f'href="{path}/undo"' in html_of(workspace, path)
    text = " ".join(text_of(workspace, f"{path}/undo").split())
    assert "Everything that wrong.csv stored" in text
    assert "1 May 2020" in text
    assert text.count("3 known only from this import") == 2  # visitors and users
    page = html_of(workspace, f"{path}/undo")
    assert f'href="/imports/{other["id"]}"' in page
    assert "&lt;b&gt;other" in page
    assert f'action="/api/imports/{job["id"]}/undo"' in page
    undo = body_of(workspace.client.post(f"/api/imports/{job['id']}/undo"))
    finished(workspace.client, undo["deletion"]["id"])
    assert "This import was undone" in text_of(workspace, path)
    assert f'href="{path}/undo"' not in html_of(workspace, path)
    assert "1 line was a duplicate" in " ".join(
        text_of(workspace, f"/imports/{other['id']}").split()
    )
    assert "Undone import" in text_of(workspace, "/deletions")
    assert path in html_of(workspace, "/deletions")
    assert workspace.browser.get(f"{path}/undo").status_code == 409
    assert "Undone" in text_of(workspace, "/imports")


@pytest.mark.usefixtures("warehouse")
def test_the_page_of_an_earlier_import_says_why_it_cannot_be_undone(
    workspace: Tenant, services: Services
) -> None:
    job = imported(workspace, [line(1)])
    with services.database.write() as db:
        db.execute(update(imports).values(is_undoable=False))
    page = html_of(workspace, f"/imports/{job['id']}")
    assert "an earlier version of Penstock read the file" in page
    assert "/undo" not in page
    assert f"/deletions/new?websiteId={workspace.website_id}" in page
