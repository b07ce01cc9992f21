"""Invitations: who is let in by one, once, and for how long."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from litestar.testing import TestClient
from sqlalchemy import select

from penstock.app import build_app, build_services
from penstock.metadb.tables import invitations
from tests.tenant import BASE_URL, PASSWORD, beside, invited, token_of


def sign_up(tenant, invitation, **changes):
    form = {"email": invitation["email"], "password": PASSWORD, "invitation": token_of(invitation)} | changes
    return beside(tenant).post("/api/auth/signup", json=form)


def read(tenant, token):
    return beside(tenant).post("/api/auth/invitations/read", json={"token": token})


def accept(tenant, token):
    return tenant.browser.post("/api/auth/invitations/accept", json={"token": token})


def code(answer):
    return answer.status_code, answer.json()["code"]


def faults(answer):
    return {(fault["field"], fault["code"]) for fault in answer.json()["errors"]}


def test_an_invitation_has_a_url_that_is_shown_once(workspace):
    invitation = invited(workspace, "owner", "Bob@Example.com")
    assert invitation["url"].startswith("http://testserver.local/signup?invitation=")
    listed = workspace.browser.get("/api/settings/invitations").json()["data"]
    assert listed == [{name: value for name, value in invitation.items() if name != "url"}]
    assert (listed[0]["email"], listed[0]["role"], listed[0]["invitedBy"]) == ("bob@example.com", "owner", workspace.email)


def test_only_a_hash_of_the_token_is_kept(workspace, services):
    token = token_of(invited(workspace))
    with services.database.read() as db:
        [row] = db.execute(select(invitations)).all()
    assert len(row.token_hash) == 32
    assert token not in repr(row)


def test_who_is_invited_joins_while_sign_up_is_closed(workspace, settings, clock, warehouse):
    invitation = invited(workspace, "owner")
    closed = build_services(settings.model_copy(update={"signup_open": False}), clock, warehouse)
    with TestClient(build_app(closed), base_url=BASE_URL) as node:
        form = {"email": invitation["email"], "password": PASSWORD}
        assert code(node.post("/api/auth/signup", json=form | {"workspaceName": "Mine"})) == (403, "signup_closed")
        joined = node.post("/api/auth/signup", json=form | {"invitation": token_of(invitation)})
    assert joined.status_code == 201
    assert (joined.json()["workspace"]["id"], joined.json()["role"]) == (workspace.id, "owner")


def test_an_invitation_tells_what_it_is_for_without_being_used(workspace, other_workspace):
    invitation = invited(workspace)
    for _ in range(2):
        told = read(workspace, token_of(invitation))
        assert told.status_code == 200
        assert told.json() == {
            "workspaceName": "Acme",
            "email": invitation["email"],
            "role": "member",
            "invitedBy": workspace.email,
            "expiresAt": invitation["expiresAt"],
            "hasAccount": False,
        }
    assert read(workspace, token_of(invited(workspace, email=other_workspace.email))).json()["hasAccount"] is True


def test_an_invitation_works_once(workspace):
    invitation = invited(workspace)
    assert sign_up(workspace, invitation).status_code == 201
    assert code(sign_up(workspace, invitation)) == (404, "invitation_not_found")
    assert code(read(workspace, token_of(invitation))) == (404, "invitation_not_found")
    assert workspace.browser.get("/api/settings/invitations").json()["total"] == 0


def test_of_many_who_use_it_at_once_one_is_let_in(workspace):
    invitation = invited(workspace)
    with ThreadPoolExecutor(4) as many:
        answers = list(many.map(lambda _: sign_up(workspace, invitation), range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 404, 404, 404]
    assert workspace.browser.get("/api/settings/members").json()["total"] == 2


def test_an_invitation_holds_for_seven_days(workspace, clock):
    invitation = invited(workspace)
    clock.advance(days=7, seconds=-60)
    assert read(workspace, token_of(invitation)).status_code == 200
    clock.advance(seconds=60)
    assert code(sign_up(workspace, invitation)) == (404, "invitation_not_found")
    assert workspace.browser.get("/api/settings/invitations").json()["total"] == 0


def test_to_invite_again_ends_the_earlier_invitation(workspace):
    first = invited(workspace)
    second = invited(workspace, "owner", first["email"])
    assert code(read(workspace, token_of(first))) == (404, "invitation_not_found")
    assert [one["id"] for one in workspace.browser.get("/api/settings/invitations").json()["data"]] == [second["id"]]


def test_a_withdrawn_invitation_lets_nobody_in(workspace):
    invitation = invited(workspace)
    address = f"/api/settings/invitations/{invitation['id']}"
    assert workspace.browser.delete(address).status_code == 204
    assert workspace.browser.delete(address).status_code == 404
    assert code(sign_up(workspace, invitation)) == (404, "invitation_not_found")


def test_it_lets_in_nobody_but_the_invited(workspace, other_workspace):
    invitation = invited(workspace)
    assert code(sign_up(workspace, invitation, email="eve@example.com")) == (403, "invitation_for_another")
    assert code(accept(other_workspace, token_of(invitation))) == (403, "invitation_for_another")
    assert sign_up(workspace, invitation).status_code == 201


def test_who_has_an_account_accepts_and_is_in_two_workspaces(workspace, other_workspace):
    invitation = invited(workspace, email=other_workspace.email)
    assert code(sign_up(workspace, invitation)) == (409, "email_taken")
    joined = accept(other_workspace, token_of(invitation))
    assert joined.status_code == 200
    assert (joined.json()["workspace"]["id"], joined.json()["role"]) == (workspace.id, "member")
    assert other_workspace.browser.get("/api/auth/session").json()["workspace"]["id"] == other_workspace.id
    mine = other_workspace.browser.get("/api/auth/workspaces").json()["data"]
    assert [(one["workspace"]["id"], one["role"]) for one in mine] == [(other_workspace.id, "owner"), (workspace.id, "member")]


def test_a_member_is_not_invited_again(workspace):
    refused = workspace.browser.post("/api/settings/invitations", json={"email": workspace.email})
    assert code(refused) == (409, "already_member")


def test_an_invitation_leads_into_a_workspace_that_has_a_name(workspace):
    assert faults(sign_up(workspace, invited(workspace), workspaceName="Mine")) == {("workspaceName", "not_allowed")}


def test_without_an_invitation_a_sign_up_names_its_workspace(workspace):
    for form in ({}, {"invitation": None, "workspaceName": None}):
        refused = beside(workspace).post("/api/auth/signup", json={"email": "x@example.com", "password": PASSWORD} | form)
        assert faults(refused) == {("workspaceName", "required")}


@pytest.mark.parametrize("token", ["", "made-up", "\x00", "ü" * 2000])
def test_a_made_up_token_is_404(workspace, token):
    assert code(read(workspace, token)) == (404, "invitation_not_found")
    assert code(accept(workspace, token)) == (404, "invitation_not_found")


def test_no_refusal_repeats_the_token(workspace):
    token = "secret" * 50
    refused = beside(workspace).post("/api/auth/invitations/read", json={"token": token, "extra": 1})
    assert faults(refused) == {("extra", "unknown_field")}
    assert token not in refused.text


def test_a_foreign_page_cannot_use_an_invitation(workspace):
    token = token_of(invited(workspace))
    refused = beside(workspace).post("/api/auth/invitations/read", json={"token": token}, headers={"Origin": "https://evil.example"})
    assert code(refused) == (403, "foreign_origin")
