"""The undo of an import removes what it stored, and nothing that anything else stated too."""

import json
from collections.abc import Callable
from threading import Event
from typing import Any

import httpx
import pytest
from sqlalchemy import select, update

from penstock.app import Services
from penstock.base.clock import iso
from penstock.base.ids import WebsiteId, WorkspaceId
from penstock.events.deletions.warehouse_deletion import WarehouseDeletion
from penstock.events.intake import Intake
from penstock.events.quarantine import store as quarantine_store
from penstock.events.quarantine.model import QuarantineEntry, QuarantineLimits, Reason
from penstock.metadb.tables import (
    import_identities,
    import_traits,
    imports,
    merges,
    quarantine,
    user_links,
    visitors,
)
from tests.answers import body_of, problem
from tests.cases import every_database_in_full_tier
from tests.conftest import ShiftedClock
from tests.events.conftest import Import, upload
from tests.events.deletions.conftest import finished, request_deletion
from tests.events.event_keys import imports_of_keys
from tests.events.imports.conftest import line, stored
from tests.funnels.scenario import Scene
from tests.records import new_key
from tests.tenant import Tenant, audit_log
from tests.waiting import PATIENCE_S, eventually

Json = dict[str, Any]
Undo = Callable[[Json], Json]


def ask(tenant: Tenant, job: Json, **query: Any) -> httpx.Response:
    return tenant.client.post(f"/api/imports/{job['id']}/undo", params=query)


def preview(tenant: Tenant, job: Json) -> Json:
    answer = body_of(ask(tenant, job, dryRun="true"))
    assert answer["deletion"] is None
    removes: Json = answer["removes"]
    return removes


@pytest.fixture
def undo(workspace: Tenant) -> Undo:
    """Undo an import, and return its deletion when it is done."""

    def run(job: Json) -> Json:
        answer = body_of(ask(workspace, job))
        return finished(workspace.client, answer["deletion"]["id"])

    return run


def identify(tenant: Tenant, visitor_id: str, user_id: str, **more: Any) -> None:
    who = {"websiteId": tenant.website_id, "visitorId": visitor_id, "userId": user_id}
    body = {**who, **more}
    assert tenant.client.post("/api/identify", json=body).status_code == 200


def identity_line(visitor_id: str | None, user_id: str, **traits: Any) -> Json:
    who = {} if visitor_id is None else {"visitorIds": [visitor_id]}
    more = {"traits": traits, "timestamp": "2020-05-01T10:00:00Z"} if traits else {}
    return {"type": "identify", "userId": user_id, **who, **more}


def rows(services: Services, *columns: Any) -> list[tuple[Any, ...]]:
    with services.database.read() as db:
        return sorted(tuple(row) for row in db.execute(select(*columns)))


def links(services: Services) -> dict[str, str]:
    """The canonical visitor of each user."""
    return dict(rows(services, user_links.c.user_id, user_links.c.visitor_id))


def known(services: Services) -> dict[str, tuple[str, str | None]]:
    """The canonical visitor and the user of each visitor."""
    c = visitors.c
    stored_visitors = rows(services, c.visitor_id, c.canonical_id, c.user_id)
    return {own_id: (canonical_id, user_id) for own_id, canonical_id, user_id in stored_visitors}


def traits(services: Services) -> list[Json]:
    """The traits of the users that have any."""
    with services.database.read() as db:
        return [each for each in db.execute(select(user_links.c.traits)).scalars() if each]


@every_database_in_full_tier
@pytest.mark.usefixtures("warehouse")
def test_events_and_dedupe_keys_of_an_undone_import_go(
    workspace: Tenant, services: Services, run_import: Import, undo: Undo
) -> None:
    right = run_import([line(90)])
    wrong = run_import([line(1), line(2), line(2)])
    assert preview(workspace, wrong) == {
        "events": 3,
        "firstEventAt": "2020-05-01T10:00:01.000Z",
        "lastEventAt": "2020-05-01T10:00:02.000Z",
        "visitors": 2,
        "merges": 0,
        "userLinks": 0,
        "usersWithTraits": 0,
        "duplicateLines": 0,
        "duplicates": [],
    }
    assert stored(services, workspace.website_id) == ["step 1", "step 2", "step 2", "step 90"]
    deletion = undo(wrong)
    assert stored(services, workspace.website_id) == ["step 90"]
    assert (deletion["target"], deletion["importId"]) == ("import", wrong["id"])
    assert (deletion["eventsFound"], deletion["eventsRemoved"]) == (3, 3)
    assert deletion["removed"]["database"]["dedupeKeys"] == 3
    assert imports_of_keys(services) == [right["id"]]
    assert known(services) == {"v90": ("v90", None)}
    job = body_of(workspace.client.get(f"/api/imports/{wrong['id']}"))
    assert (job["state"], job["undoId"]) == ("undone", deletion["id"])
    again = run_import([line(1), line(2)])
    assert (again["accepted"], again["duplicates"]) == (2, 0)
    assert [each["id"] for each in workspace.client.get("/api/deletions").json()["data"]] == [
        deletion["id"]
    ]


@pytest.mark.usefixtures("warehouse")
def test_an_undo_is_safe_to_repeat_and_a_dry_run_of_it_is_409(
    workspace: Tenant, run_import: Import, undo: Undo
) -> None:
    job = run_import([line(1)])
    deletion = undo(job)
    again = body_of(ask(workspace, job))
    assert (again["removes"], again["deletion"]["id"]) == (None, deletion["id"])
    answer = ask(workspace, job, dryRun="true")
    assert answer.status_code == 409
    assert answer.json()["code"] == "import_undone"


@every_database_in_full_tier
@pytest.mark.usefixtures("warehouse")
def test_a_file_can_be_imported_again_at_once(
    workspace: Tenant, services: Services, run_import: Import
) -> None:
    """Before the deletion is done, the keys of the undone import no longer count."""
    job = run_import([line(1), line(2)])
    deletion = body_of(ask(workspace, job))["deletion"]
    again = run_import([line(1), line(2)])
    finished(workspace.client, deletion["id"])
    assert (again["accepted"], again["duplicates"]) == (2, 0)
    assert stored(services, workspace.website_id, "name, import_id") == [
        ("step 1", again["id"]),
        ("step 2", again["id"]),
    ]
    assert run_import([line(1)])["duplicates"] == 1


@every_database_in_full_tier
@pytest.mark.usefixtures("warehouse")
def test_lines_of_other_files_that_would_be_missing_are_counted(
    workspace: Tenant, run_import: Import, undo: Undo, scene: Scene
) -> None:
    first = run_import([line(1), line(2), line(3)])
    second = run_import([line(2), line(3), line(3), line(4)])
    third = run_import([line(3)])
    assert preview(workspace, first)["duplicateLines"] == 3
    assert preview(workspace, first)["duplicates"] == [
        {"importId": second["id"], "fileName": None, "lines": 2},
        {"importId": third["id"], "fileName": None, "lines": 1},
    ]
    assert preview(workspace, second)["duplicates"] == []
    undo(third)
    assert preview(workspace, first)["duplicateLines"] == 2
    funnel_id = scene.funnel("step 1", "step 2")
    assert scene.results(funnel_id)["coverage"]["gaps"] == []
    undo(first)
    job = body_of(workspace.client.get(f"/api/imports/{second['id']}"))
    assert job["missingLines"] == 2
    [gap] = scene.results(funnel_id)["coverage"]["gaps"]
    assert (gap["kind"], gap["state"]) == ("import", "done")
    [note] = [
        each for each in scene.results(funnel_id)["coverage"]["notes"] if "undone since" in each
    ]
    assert "dropped 2 lines as duplicates" in note
    again = run_import([line(2), line(3), line(3), line(4)])
    assert (again["accepted"], again["duplicates"]) == (2, 2)
    dismissed = workspace.browser.post(f"/api/imports/{second['id']}/dismiss-gap")
    assert body_of(dismissed)["gapDismissedAt"] is not None


@every_database_in_full_tier
@pytest.mark.usefixtures("warehouse")
def test_identities_that_only_the_import_stated_go(
    workspace: Tenant, services: Services, run_import: Import, undo: Undo
) -> None:
    job = run_import(
        [
            line(1, visitorId="phone", userId="ann"),
            line(2, visitorId="laptop", userId="ann"),
            line(3, visitorId=None, userId="ben"),
            identity_line("tablet", "cid", plan="free"),
        ]
    )
    removes = preview(workspace, job)
    assert [removes[name] for name in ("visitors", "merges", "userLinks", "usersWithTraits")] == [
        4, 1, 3, 1,
    ]  # fmt: skip
    deletion = undo(job)
    assert known(services) == links(services) == {}
    assert rows(services, merges.c.id) == []
    assert rows(services, import_identities.c.user_id) == []
    assert rows(services, import_traits.c.user_id) == []
    assert (deletion["visitorsRemoved"], deletion["userLinksRemoved"]) == (4, 3)
    database = deletion["removed"]["database"]
    assert (database["merges"], database["usersWithTraits"]) == (1, 1)


@every_database_in_full_tier
@pytest.mark.usefixtures("warehouse")
def test_a_link_a_merge_and_a_trait_stay_if_something_else_stated_them_too(
    workspace: Tenant, services: Services, run_import: Import, undo: Undo
) -> None:
    identify(workspace, "early", "ann")
    job = run_import(
        [
            identity_line("early", "ann", plan="free", city="Berlin"),
            identity_line("phone", "ann"),
            identity_line("tablet", "ann"),
            identity_line("laptop", "ben"),
            identity_line(None, "cid"),
            line(1, visitorId="seen"),
        ]
    )
    identify(workspace, "phone", "ann", traits={"plan": "pro"})
    for who in ({"visitorId": "seen"}, {"userId": "ben"}):
        body = {"websiteId": workspace.website_id, "event": "later", **who}
        assert workspace.client.post("/api/v1/events", json=body).status_code == 202
    undo(job)
    assert known(services) == {
        "early": ("early", "ann"),
        "phone": ("early", "ann"),
        "laptop": ("laptop", "ben"),  # Events of ben may be stored under it.
        "seen": ("seen", None),
    }
    assert links(services) == {"ann": "early", "ben": "laptop"}
    assert traits(services) == [{"plan": "pro"}]


@every_database_in_full_tier
@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("first", [0, 1])
def test_what_two_imports_stated_goes_with_the_last_of_them(
    workspace: Tenant, services: Services, run_import: Import, undo: Undo, first: int
) -> None:
    """The newest value of a trait belongs to the first import."""
    lines = [identity_line("phone", "ann"), identity_line("laptop", "ann")]
    newer = identity_line(None, "ann", plan="team") | {"timestamp": "2021-05-01T10:00:00Z"}
    older = identity_line(None, "ann", plan="free")
    jobs = [
        run_import([*lines, trait, line(number, visitorId=None, userId="ben")])
        for number, trait in enumerate([newer, older])
    ]
    undo(jobs[first])
    assert known(services)["laptop"] == ("phone", "ann")
    assert set(links(services)) == {"ann", "ben"}
    assert traits(services) == [{"plan": ("free", "team")[first]}]
    undo(jobs[1 - first])
    assert known(services) == links(services) == {}


@every_database_in_full_tier
@pytest.mark.usefixtures("warehouse")
def test_a_live_trait_holds_again_after_the_undo(
    workspace: Tenant, services: Services, run_import: Import, undo: Undo, clock: ShiftedClock
) -> None:
    identify(workspace, "phone", "ann", traits={"plan": "pro"})
    clock.advance(seconds=60)
    job = run_import([identity_line(None, "ann", plan="free") | {"timestamp": iso(clock())}])
    assert traits(services) == [{"plan": "free"}]
    undo(job)
    assert traits(services) == [{"plan": "pro"}]


@pytest.mark.usefixtures("warehouse")
def test_values_of_imports_that_may_hold_again_are_personal_data_until_a_newer_call(
    workspace: Tenant, services: Services, run_import: Import
) -> None:
    newer = {"timestamp": "2021-05-01T10:00:00Z"}
    run_import([identity_line("phone", "ann", plan="free")])
    run_import([identity_line(None, "ann", plan="team") | newer])
    query = {"websiteId": workspace.website_id, "userId": "ann"}

    def values() -> list[Any]:
        text = workspace.client.get("/api/personal-data", params=query).text
        records = [json.loads(each) for each in text.splitlines()]
        return [each["data"]["value"] for each in records if each["type"] == "trait"]

    assert values() == ["free"]
    identify(workspace, "phone", "ann", traits={"plan": None})
    assert values() == []
    assert rows(services, import_traits.c.user_id) == []


@pytest.mark.usefixtures("warehouse")
def test_a_deleted_person_does_not_come_back_with_the_file(
    workspace: Tenant, services: Services, run_import: Import, undo: Undo
) -> None:
    lines = [line(1, visitorId="ann"), line(2, visitorId="ben")]
    job = run_import(lines)
    person = request_deletion(workspace.client, workspace.website_id, visitorId="ann")
    finished(workspace.client, person["id"])
    named = rows(services, import_identities.c.visitor_id, import_identities.c.user_id)
    assert named == [("ben", "")]
    assert undo(job)["eventsRemoved"] == 1
    again = run_import(lines)
    assert (again["accepted"], again["duplicates"]) == (1, 1)


@pytest.mark.usefixtures("warehouse")
def test_an_import_of_an_earlier_version_cannot_be_undone(
    workspace: Tenant, services: Services, run_import: Import
) -> None:
    job = run_import([line(1)])
    with services.database.write() as db:
        db.execute(update(imports).values(is_undoable=False))
    for query in ({}, {"dryRun": "true"}):
        answer = ask(workspace, job, **query)
        assert answer.status_code == 409
        assert answer.json()["code"] == "import_not_undoable"
        assert "new website" in answer.json()["detail"]


@pytest.mark.usefixtures("warehouse")
def test_an_unfinished_import_is_cancelled_first(workspace: Tenant, services: Services) -> None:
    job = body_of(upload(workspace, [line(1)], dryRun="true"), 201)
    assert job["isUndoable"]
    answer = ask(workspace, job)
    assert answer.status_code == 409
    assert answer.json()["code"] == "import_not_finished"
    assert "Cancel it first" in answer.json()["detail"]


@every_database_in_full_tier
@pytest.mark.usefixtures("warehouse")
def test_lines_that_are_on_their_way_during_the_undo_are_not_stored(
    workspace: Tenant, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import is cancelled and undone after its worker has read the lines."""
    submit, answers, outcomes = Intake.submit_from_thread, list[Json](), list[Any]()

    def submitted(intake: Intake, items: Any) -> Any:
        [job] = workspace.client.get("/api/imports").json()["data"]
        workspace.client.post(f"/api/imports/{job['id']}/cancel").raise_for_status()
        answers.append(body_of(ask(workspace, job)))
        outcomes.append(submit(intake, items))
        return outcomes[-1]

    monkeypatch.setattr(Intake, "submit_from_thread", submitted)
    content = [line(1), identity_line("phone", "ann")]
    job = body_of(upload(workspace, content), 201)
    [undone] = eventually(lambda: answers)
    deletion = finished(workspace.client, undone["deletion"]["id"])
    path = f"/api/imports/{job['id']}"
    assert eventually(lambda: outcomes) == [[None, None]]
    assert (deletion["eventsFound"], deletion["visitorsRemoved"]) == (0, 0)
    assert stored(services, workspace.website_id) == []
    assert known(services) == links(services) == {}
    assert imports_of_keys(services) == []
    assert workspace.client.get(path).json()["state"] == "undone"


@pytest.mark.usefixtures("warehouse")
def test_reports_count_only_what_the_undo_leaves(
    workspace: Tenant, scene: Scene, run_import: Import, undo: Undo
) -> None:
    """Also the stored outcomes, and the catalogue."""
    run_import([line(1, visitorId="a", name="A"), line(2, visitorId="a", name="B")])
    wrong = run_import([line(3, visitorId="b", name="A"), line(4, visitorId="b", name="wrong")])
    funnel_id = scene.funnel("A", "B")
    period = {"startAt": "2020-05-01T00:00:00Z", "endAt": "2020-05-02T00:00:00Z"}

    assert scene.counts(funnel_id, **period) == [2, 1]
    undo(wrong)
    assert scene.counts(funnel_id, **period) == [1, 1]
    names = workspace.client.get("/api/schema/events").json()["data"]
    assert "wrong" not in str(names)


@pytest.mark.usefixtures("warehouse")
def test_reports_are_incomplete_while_an_undo_is_running(
    workspace: Tenant, scene: Scene, run_import: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = run_import([line(1, name="A")])
    funnel_id = scene.funnel("A", "B")
    begin, may_continue = WarehouseDeletion.begin_removal, Event()

    def begin_later(*arguments: Any) -> None:
        assert may_continue.wait(PATIENCE_S)
        begin(*arguments)

    monkeypatch.setattr(WarehouseDeletion, "begin_removal", begin_later)
    path = f"/api/deletions/{body_of(ask(workspace, job))['deletion']['id']}"
    eventually(lambda: workspace.client.get(path).json()["eventsFound"])
    [gap] = scene.results(funnel_id)["coverage"]["gaps"]
    assert (gap["kind"], gap["state"]) == ("deletion", "running")
    may_continue.set()
    finished(workspace.client, path.rpartition("/")[2])
    assert scene.results(funnel_id)["coverage"]["gaps"] == []


@pytest.mark.usefixtures("warehouse")
def test_quarantined_events_of_an_undone_import_go(
    workspace: Tenant, services: Services, run_import: Import, undo: Undo
) -> None:
    job, other = run_import([line(1)]), run_import([line(2)])
    entries = [
        QuarantineEntry(
            workspace_id=WorkspaceId(workspace.id),
            website_id=WebsiteId(workspace.website_id),
            at_ms=1,
            reason=Reason.UNSHIPPABLE,
            origin="events",
            code="refused_by_event_store",
            faults=(),
            content=json.dumps({"website_id": workspace.website_id, "import_id": each["id"]}),
        )
        for each in (job, other)
    ]
    with services.database.write() as db:
        quarantine_store.add(db, entries, QuarantineLimits(10, 10_000))
    assert undo(job)["removed"]["database"]["quarantined"] == 1
    [remaining] = rows(services, quarantine.c.content)
    assert other["id"] in remaining[0]


@pytest.mark.usefixtures("warehouse")
def test_an_undo_needs_the_permission_manage_and_is_in_the_audit_log(
    workspace: Tenant, run_import: Import
) -> None:
    job = run_import([line(1)])
    path = f"/api/imports/{job['id']}/undo"
    key = new_key(workspace.browser, scopes=["ingest", "read"])
    headers = {"Authorization": f"Bearer {key}"}
    assert problem(workspace.client.post(path, headers=headers)) == (403, "scope_missing")
    body_of(ask(workspace, job))
    body_of(ask(workspace, job))
    [entry] = audit_log(workspace.browser, "import_undone")
    assert entry["target"] == f"{job['id']} {workspace.website_id}"
