"""API keys: made with a session, shown once, kept as a hash, revocable at once."""

import pytest
from sqlalchemy import event, select

from penstock.accounts.keys.service import KeyService
from penstock.accounts.model import Caller
from penstock.base.clock import iso
from penstock.base.errors import Unauthorized
from penstock.metadb.tables import api_keys
from tests.answers import body_of, faults, problem
from tests.cases import cases
from tests.loops import run
from tests.records import new_key
from tests.serving import Served
from tests.tenant import log_in, visitor
from tests.waiting import eventually


def create(workspace, name="backend"):
    return body_of(workspace.browser.post("/api/settings/api-keys", json={"name": name}), 201)


def listed(workspace, **query):
    return workspace.browser.get("/api/settings/api-keys", params=query).json()


def record(workspace, key_id):
    [record] = [key for key in listed(workspace)["data"] if key["id"] == key_id]
    return record


def bearer(server, key):
    return visitor(server, {"Authorization": f"Bearer {key}"})


def test_a_new_key_is_shown_once(workspace):
    new_key = create(workspace)
    assert set(new_key) == {"id", "name", "key", "prefix", "createdAt"}
    assert new_key["key"].startswith("psk_")
    assert new_key["key"].startswith(new_key["prefix"])
    assert len(new_key["prefix"]) < len(new_key["key"]) // 2
    again = record(workspace, new_key["id"])
    assert set(again) == {
        "id", "name", "prefix", "createdAt", "createdBy", "scopes", "websiteId", "expiresAt",
        "lastUsedAt", "revokedAt",
    }  # fmt: skip
    assert again["lastUsedAt"] is None
    assert new_key["key"] not in str(listed(workspace))


def test_only_a_hash_of_the_key_is_stored(workspace, services):
    new_key = create(workspace)
    with services.database.read() as db:
        rows = [dict(row) for row in db.execute(select(api_keys)).mappings()]
    assert new_key["key"] not in str(rows)
    assert new_key["key"][12:] not in str(rows)


@pytest.mark.every_database
def test_the_list_is_paged_newest_first(workspace, clock):
    for number in range(4):
        clock.advance(seconds=1)
        create(workspace, f"key {number}")
    assert listed(workspace, pageSize=2)["total"] == 5
    names = [
        key["name"]
        for page in (1, 2, 3)
        for key in listed(workspace, page=page, pageSize=2)["data"]
    ]
    assert names == ["key 3", "key 2", "key 1", "key 0", "tests"]
    assert listed(workspace, page=9)["data"] == []


@cases(
    "query",
    [
        {"page": 0},
        {"pageSize": 0},
        {"pageSize": 101},
        {"page": "x"},
        {"page": 10**30},
        {"sort": "name"},
    ],
)
def test_a_malformed_page_is_400_with_the_parameter_named(workspace, query):
    answer = workspace.browser.get("/api/settings/api-keys", params=query)
    assert body_of(answer, 400)["errors"][0]["field"] in query


def test_a_revoked_key_is_unauthorized_at_once_and_stays_listed(server, workspace, clock):
    new_key = create(workspace)
    holder = bearer(server, new_key["key"])
    assert holder.get("/api/settings/websites").status_code == 200
    clock.advance(seconds=5)
    assert workspace.browser.delete(f"/api/settings/api-keys/{new_key['id']}").status_code == 204
    assert holder.get("/api/settings/websites").status_code == 401
    revoked_at = record(workspace, new_key["id"])["revokedAt"]
    assert revoked_at > new_key["createdAt"]
    clock.advance(seconds=5)
    assert workspace.browser.delete(f"/api/settings/api-keys/{new_key['id']}").status_code == 204
    assert record(workspace, new_key["id"])["revokedAt"] == revoked_at


@pytest.mark.every_database
def test_a_key_revoked_on_another_node_is_unauthorized_within_seconds(
    server, workspace, services, settings, clock
):
    new_key = create(workspace)
    holder = bearer(server, new_key["key"])
    assert holder.get("/api/settings/websites").status_code == 200
    other_node = KeyService(services.database, services.website_service, clock)
    other_node.revoke_key(Caller(workspace.id), new_key["id"])
    eventually(lambda: holder.get("/api/settings/websites").status_code == 401, within_s=30)


def test_a_revoked_and_an_unknown_key_get_the_same_answer(server, workspace):
    new_key = create(workspace)
    workspace.browser.delete(f"/api/settings/api-keys/{new_key['id']}")
    revoked = bearer(server, new_key["key"]).get("/api/settings/websites")
    unknown = bearer(server, "psk_" + "x" * 43).get("/api/settings/websites")
    assert revoked.status_code == 401
    assert revoked.headers["www-authenticate"] == "Bearer"
    assert revoked.json() == unknown.json()
    assert new_key["key"] not in revoked.text


@cases(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        "Basic YTpi",
        "psk_x",
        "Bearer psk_x y",
        "Token x",
        "Bearer " + "x" * 9000,
    ],
)
def test_a_header_without_a_valid_key_is_401(server, workspace, header):
    answer = visitor(server, {"Authorization": header}).get("/api/settings/websites")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_scheme_is_read_in_any_case(server, workspace):
    key = create(workspace)["key"]
    assert (
        visitor(server, {"Authorization": f"bearer {key}"})
        .get("/api/settings/websites")
        .status_code
        == 200
    )


def test_a_key_cannot_manage_keys(client, workspace):
    new_key = create(workspace)
    for answer in (
        client.post("/api/settings/api-keys", json={"name": "k"}),
        client.get("/api/settings/api-keys"),
        client.delete(f"/api/settings/api-keys/{new_key['id']}"),
    ):
        assert problem(answer) == (403, "session_required")
    assert record(workspace, new_key["id"])["revokedAt"] is None


def test_with_a_cookie_beside_a_key_keys_can_be_managed(workspace):
    headers = {"Authorization": workspace.client.headers["Authorization"]}
    assert workspace.browser.get("/api/settings/api-keys", headers=headers).status_code == 200


@pytest.mark.every_database
def test_the_last_use_is_listed_at_once_and_stored(server, workspace, services, clock):
    new_key = create(workspace)
    clock.advance(days=1)
    used_from = iso(clock())
    bearer(server, new_key["key"]).get("/api/settings/websites")
    last_used = record(workspace, new_key["id"])["lastUsedAt"]
    assert used_from <= last_used <= iso(clock())
    services.key_service.write_last_uses()
    assert record(workspace, new_key["id"])["lastUsedAt"] == last_used


@pytest.mark.usefixtures("starts_service")
def test_the_last_use_survives_a_clean_stop(tmp_path):
    with Served(tmp_path / "data") as service:
        form = {"email": "ada@example.com", "password": "correct horse", "workspaceName": "Acme"}
        service.client.post("/api/auth/signup", json=form)
        key = new_key(service.client)
        service.client.get("/api/settings/websites", headers={"Authorization": f"Bearer {key}"})
        assert service.stop() == 0
    with Served(tmp_path / "data") as service:
        log_in(service.client, form["email"], form["password"])
        [record] = service.client.get("/api/settings/api-keys").json()["data"]
        assert record["lastUsedAt"] is not None


def test_a_cached_key_is_authenticated_without_a_query(client, services):
    authorization = client.headers["Authorization"]
    client.get("/api/settings/websites")
    statements = []
    event.listen(
        services.database.engine,
        "before_cursor_execute",
        lambda *arguments: statements.append(arguments[2]),
    )
    caller = run(services.key_service.authenticate, authorization)
    assert caller.key_id is not None
    assert statements == []
    for wrong in (None, "Bearer psk_unknown"):
        with pytest.raises(Unauthorized):
            run(services.key_service.authenticate, wrong)


@cases(
    ("body", "code"), [({}, "required"), ({"name": ""}, "too_short"), ({"name": 1}, "wrong_type")]
)
def test_a_key_needs_a_name(workspace, body, code):
    answer = workspace.browser.post("/api/settings/api-keys", json=body)
    assert faults(answer) == {"name": code}
