"""Who is in a workspace, and who may say so."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.answers import columns_of, faults, faults_in, problem
from tests.cases import cases
from tests.tenant import PASSWORD, create_invitation, join, log_in, new_browser, token_of


def me(browser):
    return browser.get("/api/auth/session").json()["user"]["id"]


def members(browser):
    return columns_of(browser.get("/api/settings/members").json()["data"], "email", "role")


def role(browser, user_id, role):
    return browser.patch(f"/api/settings/members/{user_id}", json={"role": role})


def remove(browser, user_id):
    return browser.delete(f"/api/settings/members/{user_id}")


def test_members_are_listed_in_the_order_in_which_they_joined(workspace, clock):
    clock.advance(seconds=1)
    mate = join(workspace)
    mail = mate.get("/api/auth/session").json()["user"]["email"]
    assert (
        members(workspace.browser)
        == members(mate)
        == [(workspace.email, "owner"), (mail, "member")]
    )
    second = workspace.browser.get(
        "/api/settings/members", params={"page": 2, "pageSize": 1}
    ).json()
    assert (second["total"], [member["email"] for member in second["data"]]) == (2, [mail])


def test_the_session_contains_the_role(workspace):
    assert workspace.browser.get("/api/auth/session").json()["role"] == "owner"
    assert join(workspace).get("/api/auth/session").json()["role"] == "member"


def test_a_member_may_be_changed_with_its_own_record(workspace):
    mate = join(workspace)
    route = f"/api/settings/members/{me(mate)}"
    [_, record] = workspace.browser.get("/api/settings/members").json()["data"]
    answer = workspace.browser.patch(route, json=record | {"role": "owner"})
    assert (answer.status_code, answer.json()) == (200, record | {"role": "owner"})
    answer = workspace.browser.patch(route, json=record | {"email": "other@example.com"})
    assert faults(answer) == {"email": "read_only"}
    assert members(workspace.browser)[1] == (record["email"], "owner")


def test_an_api_key_cannot_manage_people(client):
    assert problem(client.get("/api/settings/members")) == (403, "session_required")


def test_a_member_can_do_everything_but_manage_people(workspace):
    mate, other = join(workspace), join(workspace)
    invitation = create_invitation(workspace)
    assert mate.post("/api/settings/api-keys", json={"name": "mine"}).status_code == 201
    assert mate.get("/api/settings/invitations").status_code == 200
    response = [
        mate.post("/api/settings/invitations", json={"email": "x@example.com"}),
        mate.delete(f"/api/settings/invitations/{invitation['id']}"),
        role(mate, me(mate), "owner"),
        role(mate, me(workspace.browser), "member"),
        remove(mate, me(other)),
    ]
    assert [problem(answer) for answer in response] == [(403, "owner_required")] * 5
    assert len(members(workspace.browser)) == 3
    assert workspace.browser.get("/api/settings/invitations").json()["total"] == 1


def test_a_viewer_reads_manages_their_own_account_and_changes_nothing_else(workspace):
    viewer = join(workspace, "viewer")
    goal = {"name": "Paid", "match": {"type": "Event", "value": "paid"}}
    assert viewer.get("/api/auth/session").json()["role"] == "viewer"
    assert viewer.get("/api/goals").status_code == 200
    assert viewer.get("/api/settings/members").status_code == 200
    refused = viewer.post("/api/goals", json=goal)
    assert problem(refused) == (403, "viewer_role")
    assert "Ask an owner" in refused.json()["detail"]
    assert problem(viewer.get("/api/personal-data?userId=ada")) == (403, "viewer_role")
    change = {"current": PASSWORD, "new": "another password"}
    assert viewer.post("/api/auth/password", json=change).status_code == 204
    assert problem(remove(viewer, me(workspace.browser))) == (403, "owner_required")
    assert remove(viewer, me(viewer)).status_code == 204


def test_a_change_of_role_holds_from_the_next_request_on(workspace):
    mate = join(workspace, "viewer")
    goal = {"name": "Paid", "match": {"type": "Event", "value": "paid"}}
    assert role(workspace.browser, me(mate), "member").json()["role"] == "member"
    goal_id = mate.post("/api/goals", json=goal).json()["id"]
    assert role(workspace.browser, me(mate), "viewer").json()["role"] == "viewer"
    assert problem(mate.delete(f"/api/goals/{goal_id}")) == (403, "viewer_role")


def test_an_owner_can_make_another_member_an_owner(workspace):
    mate = join(workspace)
    changed = role(workspace.browser, me(mate), "owner")
    assert (changed.status_code, changed.json()["role"]) == (200, "owner")
    assert role(mate, me(workspace.browser), "member").json()["role"] == "member"
    assert problem(role(workspace.browser, me(mate), "member")) == (403, "owner_required")


def test_an_unknown_role_is_rejected_by_name(workspace):
    response = role(workspace.browser, me(workspace.browser), "king").json()
    assert faults_in(response) == {"role": "not_one_of"}


def test_the_last_owner_cannot_leave_or_be_demoted(workspace):
    join(workspace)
    owner = me(workspace.browser)
    assert problem(role(workspace.browser, owner, "member")) == (409, "last_owner")
    assert problem(remove(workspace.browser, owner)) == (409, "last_owner")
    assert role(workspace.browser, owner, "owner").status_code == 200


@pytest.mark.every_database
def test_of_two_owners_who_leave_concurrently_one_stays(workspace):
    mate = join(workspace, "owner")
    browsers = [workspace.browser, mate]
    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(lambda browser: remove(browser, me(browser)), browsers))
    assert sorted(answer.status_code for answer in answers) == [204, 409]


def test_removing_a_member_ends_their_sessions(workspace):
    mate = join(workspace)
    assert remove(workspace.browser, me(mate)).status_code == 204
    assert problem(mate.get("/api/auth/session")) == (401, "session_ended")
    assert len(members(workspace.browser)) == 1


def test_a_removed_session_stays_ended_when_its_user_returns(workspace, other_workspace):
    invitation = create_invitation(workspace, email=other_workspace.email)
    answer = other_workspace.browser.post(
        "/api/auth/invitations/accept", json={"token": token_of(invitation)}
    )
    assert answer.status_code == 200
    other_workspace.browser.post("/api/auth/workspace", json={"workspaceId": workspace.id})
    user = me(other_workspace.browser)
    assert remove(workspace.browser, user).status_code == 204
    again = new_browser(other_workspace)
    signed_in = log_in(again, other_workspace.email)
    assert signed_in.json()["workspace"]["id"] == other_workspace.id
    token = token_of(create_invitation(workspace, email=other_workspace.email))
    assert again.post("/api/auth/invitations/accept", json={"token": token}).status_code == 200
    assert other_workspace.browser.get("/api/auth/session").status_code == 401


def test_a_member_may_leave(workspace):
    mate = join(workspace)
    assert remove(mate, me(mate)).status_code == 204
    assert len(members(workspace.browser)) == 1


@pytest.mark.every_database
def test_a_user_without_workspace_is_deleted_and_can_be_invited_again(workspace):
    mate = join(workspace)
    user = mate.get("/api/auth/session").json()["user"]
    remove(workspace.browser, user["id"])
    form = {"email": user["email"], "password": PASSWORD}
    answer = log_in(new_browser(workspace), user["email"])
    assert problem(answer) == (401, "wrong_login")
    again = form | {"invitation": token_of(create_invitation(workspace, email=user["email"]))}
    assert new_browser(workspace).post("/api/auth/signup", json=again).status_code == 201


@cases("user_id", ["usr_unknown", "%00", "ü"])
def test_an_unknown_member_is_404(workspace, user_id):
    assert remove(workspace.browser, user_id).status_code == 404
    assert role(workspace.browser, user_id, "owner").status_code == 404
