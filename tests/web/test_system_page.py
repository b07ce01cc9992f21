"""The page "System": for owners, with the counts of their websites."""

from tests.tenant import join


def test_owners_see_how_the_node_is_and_what_became_of_events(workspace, services):
    event = {"websiteId": workspace.website_id, "userId": "ann", "event": "paid"}
    workspace.client.post("/api/v1/events", json=event)
    workspace.client.post("/api/v1/events", json=event | {"wrong": 1})
    assert services.shipper.wait_until_shipped(10)
    page = workspace.browser.get("/system")
    assert page.status_code == 200
    assert "Open files" in page.text
    assert f'<a href="/refused?websiteId={workspace.website_id}"><data value="1"' in page.text
    assert "metadata database" in page.text
    assert 'href="/system"' in workspace.browser.get("/goals").text


def test_members_do_not_see_it(workspace):
    member = join(workspace)
    assert member.get("/system").status_code == 403
    assert 'href="/system"' not in member.get("/goals").text
