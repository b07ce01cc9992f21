"""What users say about their own accounts: password, sessions, workspace."""

from tests.answers import body_of, faults
from tests.cases import cases
from tests.tenant import PASSWORD, create_invitation, join, new_browser, token_of

NEW = "another horse battery"


def log_in(tenant, password=PASSWORD):
    browser = new_browser(tenant)
    answer = browser.post("/api/auth/login", json={"email": tenant.email, "password": password})
    return browser, answer.status_code


def change(browser, current, new):
    return browser.post("/api/auth/password", json={"current": current, "new": new})


def sessions(browser):
    return browser.get("/api/auth/sessions").json()["data"]


def test_a_new_password_ends_the_other_sessions(workspace):
    other, _ = log_in(workspace)
    assert change(workspace.browser, PASSWORD, NEW).status_code == 204
    assert workspace.browser.get("/api/auth/session").status_code == 200
    assert other.get("/api/auth/session").status_code == 401
    assert log_in(workspace)[1] == 401
    assert log_in(workspace, NEW)[1] == 200


def test_a_wrong_current_password_changes_nothing(workspace):
    response = change(workspace.browser, "wrong password", NEW)
    assert faults(response) == {"current": "wrong_password"}
    assert log_in(workspace)[1] == 200


def test_password_attempts_are_limited(workspace, clock):
    for _ in range(10):
        assert change(workspace.browser, "wrong password", NEW).status_code == 422
    assert change(workspace.browser, PASSWORD, NEW).status_code == 429
    clock.advance(seconds=300)
    assert change(workspace.browser, PASSWORD, NEW).status_code == 204


def test_a_new_password_follows_the_rules_and_is_in_no_error(workspace):
    response = change(workspace.browser, PASSWORD, "secret!")
    assert faults(response) == {"new": "too_short"}
    assert "secret!" not in response.text


def test_the_current_session_is_marked_in_the_list(workspace, clock):
    [mine] = sessions(workspace.browser)
    assert mine["current"] is True
    assert mine["createdAt"] == mine["lastSeenAt"]
    clock.advance(seconds=4000)
    other, _ = log_in(workspace)
    assert [(record["current"], record["id"] == mine["id"]) for record in sessions(other)] == [
        (True, False),
        (False, True),
    ]
    [seen] = [record for record in sessions(workspace.browser) if record["id"] == mine["id"]]
    assert seen["lastSeenAt"] > seen["createdAt"]


def test_only_its_user_can_end_a_session(workspace, other_workspace):
    other, _ = log_in(workspace)
    [other_session] = [
        record["id"] for record in sessions(workspace.browser) if not record["current"]
    ]
    assert other_workspace.browser.delete(f"/api/auth/sessions/{other_session}").status_code == 404
    assert workspace.browser.delete(f"/api/auth/sessions/{other_session}").status_code == 204
    assert workspace.browser.delete(f"/api/auth/sessions/{other_session}").status_code == 404
    assert other.get("/api/auth/session").status_code == 401


def test_an_ended_session_is_not_listed(workspace, clock):
    clock.advance(days=29)
    other, _ = log_in(workspace)
    clock.advance(days=2)
    assert len(sessions(other)) == 1


def test_a_session_switches_to_another_workspace_of_its_user(workspace, other_workspace):
    token = token_of(create_invitation(workspace, email=other_workspace.email))
    browser = other_workspace.browser
    assert browser.post("/api/auth/invitations/accept", json={"token": token}).status_code == 200
    switched = browser.post("/api/auth/workspace", json={"workspaceId": workspace.id})
    assert body_of(switched) == browser.get("/api/auth/session").json()
    assert (switched.json()["workspace"]["id"], switched.json()["role"]) == (workspace.id, "member")
    assert [record["id"] for record in browser.get("/api/settings/websites").json()["data"]] == [
        workspace.website_id
    ]


@cases(("workspace_id", "status"), [("wsp_unknown", 404), ("\x00", 422), ("", 422)])
def test_a_session_cannot_switch_to_a_foreign_workspace(
    workspace, other_workspace, workspace_id, status
):
    browser = workspace.browser
    answer = browser.post("/api/auth/workspace", json={"workspaceId": workspace_id})
    assert answer.status_code == status
    answer = browser.post("/api/auth/workspace", json={"workspaceId": other_workspace.id})
    assert answer.status_code == 404
    assert browser.get("/api/auth/session").json()["workspace"]["id"] == workspace.id


def test_the_workspace_can_be_renamed(workspace):
    changed = workspace.browser.patch("/api/settings/workspace", json={"name": "Acme & Söhne"})
    assert (changed.status_code, changed.json()["name"]) == (200, "Acme & Söhne")
    limited = workspace.client.patch(
        "/api/settings/workspace", json={"queryTimeoutSeconds": 5}
    ).json()
    assert (limited["name"], limited["queryTimeoutSeconds"]) == ("Acme & Söhne", 5)
    assert join(workspace).get("/api/auth/session").json()["workspace"]["name"] == "Acme & Söhne"
    answer = workspace.client.patch("/api/settings/workspace", json={"name": None})
    assert faults(answer) == {"name": "not_null"}
    answer = workspace.client.patch("/api/settings/workspace", json={"name": " "})
    assert faults(answer) == {"name": "too_short"}
