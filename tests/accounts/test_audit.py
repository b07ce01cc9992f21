"""The audit log: every sensitive action is in it, for owners, for a year."""

from typing import Any

import pytest

from penstock.app import Services
from tests.answers import body_of, problem
from tests.conftest import ShiftedClock
from tests.tenant import PASSWORD, Tenant, create_invitation, join, log_in, new_browser, token_of

LOG = "/api/settings/audit-log"
SECRET = {"signingSecret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
FUNNEL = {
    "name": "Sign-up",
    "steps": [{"type": "Event", "value": "a"}, {"type": "Event", "value": "b"}],
}


def entries(tenant: Tenant, **query: Any) -> list[dict[str, Any]]:
    return body_of(tenant.browser.get(LOG, params=query))["data"]


def test_a_change_names_the_fields_that_differ_and_one_without_a_difference_is_none(
    workspace: Tenant,
) -> None:
    address = f"/api/settings/websites/{workspace.website_id}"
    record = workspace.client.get(address).json()
    for answer in (
        workspace.client.patch(address, json=record),
        workspace.client.patch(address, json=record | {"eventRetentionDays": 30}),
        workspace.client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": None}),
        workspace.client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": 5}),
    ):
        assert answer.status_code == 200, answer.text
    changes = [entry["target"].partition(": ")[2] for entry in entries(workspace)[:2]]
    assert changes == ["queryTimeoutSeconds", "eventRetentionDays"]
    assert [entry["action"] for entry in entries(workspace)].count("website_changed") == 1


@pytest.mark.usefixtures("warehouse")
@pytest.mark.every_database
def test_every_action_is_recorded_with_who_did_it_and_what_it_concerned(
    workspace: Tenant, services: Services
) -> None:
    owner, client, site = workspace.browser, workspace.client, workspace.website_id
    log_in(new_browser(workspace), workspace.email, "no")
    services.audit_log.write_queued()
    log_in(new_browser(workspace), workspace.email)
    key = owner.post("/api/settings/api-keys", json={"name": "Shop"}).json()
    owner.delete(f"/api/settings/api-keys/{key['id']}")
    user = join(workspace).get("/api/auth/session").json()["user"]
    owner.patch(f"/api/settings/members/{user['id']}", json={"role": "owner"})
    owner.delete(f"/api/settings/members/{user['id']}")
    owner.delete(f"/api/settings/invitations/{create_invitation(workspace)['id']}")
    client.patch(f"/api/settings/websites/{site}", json={"name": "New"})
    client.patch("/api/settings/workspace", json={"queryTimeoutSeconds": 5})
    client.post(f"/api/settings/websites/{site}/identity-secrets")
    client.delete(f"/api/settings/websites/{site}/identity-secrets")
    client.put(f"/api/settings/websites/{site}/providers/stripe", json=SECRET)
    client.delete(f"/api/settings/websites/{site}/providers/stripe")
    client.post("/api/deletions", json={"websiteId": site, "userId": "ada-lovelace"})
    funnel_id = client.post("/api/funnels", json=FUNNEL).json()["id"]
    assert client.get(f"/api/funnels/{funnel_id}/export?format=csv").status_code == 200
    assert client.get("/api/mobile/deferred-links/csv").status_code == 200
    change = {"current": PASSWORD, "new": "another password"}
    assert owner.post("/api/auth/password", json=change).status_code == 204
    client.delete(f"/api/settings/websites/{site}")
    log = entries(workspace, pageSize=100)
    assert [entry["action"] for entry in reversed(log)] == [
        "signed_up", "key_created", "website_created", "sign_in_failed", "signed_in",
        "key_created", "key_revoked", "member_invited", "member_joined", "role_changed",
        "member_removed", "member_invited", "invitation_withdrawn", "website_changed",
        "workspace_changed", "identity_secret_created", "identity_secrets_deleted",
        "provider_secret_set", "provider_removed", "deletion_requested", "exported", "exported",
        "password_changed", "website_deleted",
    ]  # fmt: skip
    by_action = {entry["action"]: entry for entry in log}
    assert by_action["key_revoked"]["actor"] == workspace.email
    assert by_action["key_revoked"]["target"] == key["id"]
    assert by_action["website_changed"]["actor"] == "tests", "the name of the key"
    assert by_action["website_changed"]["target"] == f"{site} New: name"
    exports = [entry["target"] for entry in log if entry["action"] == "exported"]
    assert exports == ["links csv", f"{funnel_id} csv"]
    for secret in (PASSWORD, "another password", SECRET["signingSecret"], key["key"], "lovelace"):
        assert secret not in str(log)


def test_only_owners_and_managing_keys_read_it_each_of_their_workspace(
    workspace: Tenant, other_workspace: Tenant
) -> None:
    assert problem(join(workspace).get(LOG)) == (403, "owner_required")
    assert workspace.client.get(LOG).status_code == 200
    assert {entry["actor"] for entry in entries(other_workspace)} == {
        other_workspace.email,
        "tests",
    }


@pytest.mark.every_database
def test_it_is_paged_and_kept_for_a_year(
    workspace: Tenant, clock: ShiftedClock, services: Services
) -> None:
    assert [entry["action"] for entry in entries(workspace, page=2, pageSize=2)] == ["signed_up"]
    clock.advance(days=300)
    workspace.client.patch("/api/settings/workspace", json={"name": "Acme Ltd"})
    clock.advance(days=66)
    while services.audit_log._delete_chunk() is not None:
        pass
    assert log_in(workspace.browser, workspace.email).status_code == 200
    assert [entry["action"] for entry in entries(workspace)] == ["signed_in", "workspace_changed"]


def test_an_action_that_was_refused_is_not_recorded(workspace: Tenant) -> None:
    before = len(entries(workspace))
    workspace.client.delete("/api/settings/websites/web_unknown")
    workspace.browser.delete("/api/settings/api-keys/key_unknown")
    workspace.browser.delete(
        f"/api/settings/members/{workspace.browser.get('/api/auth/session').json()['user']['id']}"
    )
    assert len(entries(workspace)) == before


def test_accepting_an_invitation_is_recorded_in_the_inviting_workspace(
    workspace: Tenant, other_workspace: Tenant
) -> None:
    token = token_of(create_invitation(workspace, email=other_workspace.email))
    answer = other_workspace.browser.post("/api/auth/invitations/accept", json={"token": token})
    assert answer.status_code == 200
    [joined, *_] = entries(workspace)
    assert (joined["action"], joined["actor"]) == ("member_joined", other_workspace.email)
