"""Invitations: whom an invitation admits, once, and for how long."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from litestar.testing import TestClient
from sqlalchemy import select

from penstock.app import build_services
from penstock.metadb.tables import invitations
from tests.answers import faults, problem
from tests.applications import application
from tests.cases import cases
from tests.tenant import BASE_URL, PASSWORD, create_invitation, new_browser, token_of


def sign_up(tenant, invitation, **changes):
    form = {
        "email": invitation["email"],
        "password": PASSWORD,
        "invitation": token_of(invitation),
    } | changes
    return new_browser(tenant).post("/api/auth/signup", json=form)


def read(tenant, token):
    return new_browser(tenant).post("/api/auth/invitations/read", json={"token": token})


def accept(tenant, token):
    return tenant.browser.post("/api/auth/invitations/accept", json={"token": token})


def test_an_invitation_has_a_url_that_is_shown_once(workspace):
    invitation = create_invitation(workspace, "owner", "Bob@Example.com")
    assert invitation["url"].startswith("http://testserver.local/signup?invitation=")
    listed = workspace.browser.get("/api/settings/invitations").json()["data"]
    shown_once = ("url", "mailed")
    assert listed == [{name: value for name, value in invitation.items() if name not in shown_once}]
    assert (listed[0]["email"], listed[0]["role"], listed[0]["invitedBy"]) == (
        "bob@example.com",
        "owner",
        workspace.email,
    )


def test_the_page_of_an_invitation_names_the_role(workspace):
    for role, words in (("owner", "an owner"), ("member", "a member"), ("viewer", "a viewer")):
        url = create_invitation(workspace, role)["url"]
        page = " ".join(new_browser(workspace).get(url).text.split())
        assert f"has invited you to this workspace as {words}." in page


def test_only_a_hash_of_the_token_is_stored(workspace, services):
    token = token_of(create_invitation(workspace))
    with services.database.read() as db:
        [row] = db.execute(select(invitations)).all()
    assert len(row.token_hash) == 32
    assert token not in repr(row)


def test_an_invited_person_joins_while_sign_up_is_closed(workspace, settings, clock, warehouse):
    invitation = create_invitation(workspace, "owner")
    closed = build_services(settings.model_copy(update={"signup_open": False}), clock, warehouse)
    with TestClient(application(closed), base_url=BASE_URL) as node:
        form = {"email": invitation["email"], "password": PASSWORD}
        answer = node.post("/api/auth/signup", json=form | {"workspaceName": "Mine"})
        assert problem(answer) == (403, "signup_closed")
        joined = node.post("/api/auth/signup", json=form | {"invitation": token_of(invitation)})
    assert joined.status_code == 201
    assert (joined.json()["workspace"]["id"], joined.json()["role"]) == (workspace.id, "owner")


def test_reading_an_invitation_does_not_use_it(workspace, other_workspace):
    invitation = create_invitation(workspace)
    for _ in range(2):
        body = read(workspace, token_of(invitation))
        assert body.status_code == 200
        assert body.json() == {
            "workspaceName": "Acme",
            "email": invitation["email"],
            "role": "member",
            "invitedBy": workspace.email,
            "expiresAt": invitation["expiresAt"],
            "hasAccount": False,
        }
    answer = read(workspace, token_of(create_invitation(workspace, email=other_workspace.email)))
    assert answer.json()["hasAccount"] is True


def test_an_invitation_works_once(workspace):
    invitation = create_invitation(workspace)
    assert sign_up(workspace, invitation).status_code == 201
    assert problem(sign_up(workspace, invitation)) == (404, "invitation_not_found")
    assert problem(read(workspace, token_of(invitation))) == (404, "invitation_not_found")
    assert workspace.browser.get("/api/settings/invitations").json()["total"] == 0


@pytest.mark.every_database
def test_of_concurrent_uses_of_an_invitation_one_succeeds(workspace):
    invitation = create_invitation(workspace)
    with ThreadPoolExecutor(4) as many:
        answers = list(many.map(lambda _: sign_up(workspace, invitation), range(4)))
    assert sorted(answer.status_code for answer in answers) == [201, 404, 404, 404]
    assert workspace.browser.get("/api/settings/members").json()["total"] == 2


def test_an_invitation_expires_after_seven_days(workspace, clock):
    invitation = create_invitation(workspace)
    clock.advance(days=7, seconds=-60)
    assert read(workspace, token_of(invitation)).status_code == 200
    clock.advance(seconds=60)
    assert problem(sign_up(workspace, invitation)) == (404, "invitation_not_found")
    assert workspace.browser.get("/api/settings/invitations").json()["total"] == 0


@pytest.mark.every_database
def test_a_second_invitation_replaces_the_first(workspace):
    first = create_invitation(workspace)
    second = create_invitation(workspace, "owner", first["email"])
    assert problem(read(workspace, token_of(first))) == (404, "invitation_not_found")
    assert [
        record["id"] for record in workspace.browser.get("/api/settings/invitations").json()["data"]
    ] == [second["id"]]


def test_a_withdrawn_invitation_is_404(workspace):
    invitation = create_invitation(workspace)
    address = f"/api/settings/invitations/{invitation['id']}"
    assert workspace.browser.delete(address).status_code == 204
    assert workspace.browser.delete(address).status_code == 404
    assert problem(sign_up(workspace, invitation)) == (404, "invitation_not_found")


def test_an_invitation_is_for_one_email_address(workspace, other_workspace):
    invitation = create_invitation(workspace)
    answer = sign_up(workspace, invitation, email="eve@example.com")
    assert problem(answer) == (403, "invitation_for_another")
    assert problem(accept(other_workspace, token_of(invitation))) == (403, "invitation_for_another")
    assert sign_up(workspace, invitation).status_code == 201


def test_a_user_accepts_an_invitation_and_is_in_two_workspaces(workspace, other_workspace):
    invitation = create_invitation(workspace, email=other_workspace.email)
    assert problem(sign_up(workspace, invitation)) == (409, "email_taken")
    joined = accept(other_workspace, token_of(invitation))
    assert joined.status_code == 200
    assert (joined.json()["workspace"]["id"], joined.json()["role"]) == (workspace.id, "member")
    answer = other_workspace.browser.get("/api/auth/session")
    assert answer.json()["workspace"]["id"] == other_workspace.id
    mine = other_workspace.browser.get("/api/auth/workspaces").json()["data"]
    assert [(record["workspace"]["id"], record["role"]) for record in mine] == [
        (other_workspace.id, "owner"),
        (workspace.id, "member"),
    ]


def test_a_member_cannot_be_invited_again(workspace):
    response = workspace.browser.post("/api/settings/invitations", json={"email": workspace.email})
    assert problem(response) == (409, "already_member")


def test_a_sign_up_with_an_invitation_names_no_workspace(workspace):
    answer = sign_up(workspace, create_invitation(workspace), workspaceName="Mine")
    assert faults(answer) == {"workspaceName": "not_allowed"}


def test_a_sign_up_without_an_invitation_names_its_workspace(workspace):
    for form in ({}, {"invitation": None, "workspaceName": None}):
        response = new_browser(workspace).post(
            "/api/auth/signup", json={"email": "x@example.com", "password": PASSWORD} | form
        )
        assert faults(response) == {"workspaceName": "required"}


@cases("token", ["", "made-up", "\x00", "ü" * 2000])
def test_an_unknown_token_is_404(workspace, token):
    assert problem(read(workspace, token)) == (404, "invitation_not_found")
    assert problem(accept(workspace, token)) == (404, "invitation_not_found")


def test_no_error_repeats_the_token(workspace):
    token = "secret" * 50
    response = new_browser(workspace).post(
        "/api/auth/invitations/read", json={"token": token, "extra": 1}
    )
    assert faults(response) == {"extra": "unknown_field"}
    assert token not in response.text


def test_a_foreign_page_cannot_use_an_invitation(workspace):
    token = token_of(create_invitation(workspace))
    response = new_browser(workspace).post(
        "/api/auth/invitations/read",
        json={"token": token},
        headers={"Origin": "https://evil.example"},
    )
    assert problem(response) == (403, "foreign_origin")
