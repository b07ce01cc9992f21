"""What an opened receipt says changed: each change is named, and the recount is equal or none."""

import json

import pytest
from sqlalchemy import delete, update

from penstock.metadb.tables import funnel_revisions, funnels
from tests.answers import body_of, faults
from tests.events.deletions.conftest import finished
from tests.funnels.scenario import DAY_S, step, where
from tests.receipts.conftest import kinds
from tests.records import create, ndjson, new_website, send_file
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")


def test_an_import_is_named_and_the_recount_is_equal(keeping, scene, clock):
    receipt = keeping.keep()
    clock.advance(days=2)
    line = scene.item(3 * DAY_S + 900, "B", "visitor-13")
    query = {"websiteId": scene.tenant.website_id}
    send_file(keeping.client, ndjson([line]), "application/x-ndjson", query, "done")
    opened = keeping.open(receipt)
    assert kinds(opened) == ["late"]
    [sentence] = opened["sentences"]
    assert " arrived after it (import of " in sentence
    assert opened["now"]["completed"] == 13
    assert (opened["recount"], opened["recountIsEqual"]) == (receipt["figures"], True)


def test_a_merge_is_named_and_the_recount_is_equal(keeping, scene):
    receipt = keeping.keep()
    scene.identify("ann", "visitor-0", "visitor-5")
    scene.identify("bob", "visitor-99", "visitor-98")
    opened = keeping.open(receipt)
    assert kinds(opened) == ["merges"]
    assert opened["changes"][0]["number"] == 1
    assert opened["now"]["entered"] == 19
    assert (opened["recount"], opened["recountIsEqual"]) == (receipt["figures"], True)
    [sentence] = opened["sentences"]
    assert sentence == (
        "1 visitor was merged into another: 60.0% becomes 57.9%; "
        "without what came later it is 60.0% again."
    )


def test_merges_before_the_receipt_are_part_of_it(keeping, scene):
    scene.identify("ann", "visitor-0", "visitor-5")
    receipt = keeping.keep()
    assert receipt["figures"]["entered"] == 19
    assert keeping.file(receipt)["receipt"]["sums"]["merges"]["number"] == 1
    scene.identify("bob", "visitor-1", "visitor-6")
    opened = keeping.open(receipt)
    assert opened["now"]["entered"] == 18
    assert (opened["recount"], opened["recountIsEqual"]) == (receipt["figures"], True)


def test_a_lost_merge_leaves_no_recount(keeping, scene, warehouse):
    """The event store keeps only the newest merge of a visitor once it has merged its parts."""
    scene.identify("ann", "visitor-0", "visitor-5")
    receipt = keeping.keep()
    website = scene.tenant.website_id
    scope = f"(SELECT any(scope_id) FROM events WHERE website_id = '{website}')"  # noqa: S608
    columns = "scope_id, visitor_id, canonical_id, version"
    warehouse.command(
        f"INSERT INTO visitor_aliases ({columns}) "  # noqa: S608
        "SELECT scope_id, visitor_id, visitor_id, version + 1 FROM visitor_aliases "
        f"WHERE visitor_id = 'visitor-5' AND scope_id = {scope}"
    )
    opened = keeping.open(receipt)
    assert kinds(opened) == ["separations"]
    assert opened["recountIsEqual"]
    warehouse.command("OPTIMIZE TABLE visitor_aliases FINAL")
    opened = keeping.open(receipt)
    assert kinds(opened) == ["separations", "altered"]
    assert (opened["now"]["entered"], opened["recount"]) == (20, None)
    assert opened["sentences"][0].startswith(
        "1 visitor was separated again and the merges that it counted are not stored as they were: "
    )


def test_changed_traits_are_named(keeping, scene, warehouse):
    people = [f"visitor-{number}" for number in range(4)]
    for person in people:
        scene.identify(f"u-{person}", person, traits={"plan": "gold", "city": "Bonn"})
    gold = [where("$trait.plan", "equals", "gold")]
    receipt = keeping.keep(filters=json.dumps(gold))
    assert receipt["figures"]["entered"] == 4
    assert keeping.file(receipt)["receipt"]["sums"]["traits"]["number"] == 4
    scene.identify("u-visitor-0", "visitor-0", traits={"city": "Ulm"})
    for _ in range(2):
        opened = keeping.open(receipt)
        assert (opened["changes"], opened["recountIsEqual"]) == ([], True)
        warehouse.command("OPTIMIZE TABLE visitor_traits FINAL")
    scene.identify("u-visitor-1", "visitor-1", traits={"plan": "free"})
    warehouse.command("OPTIMIZE TABLE visitor_traits FINAL")
    opened = keeping.open(receipt)
    assert kinds(opened) == ["traits", "altered"]
    assert (opened["now"]["entered"], opened["recount"]) == (3, None)


def test_another_version_is_named_and_the_recount_is_equal(keeping, scene, monkeypatch):
    receipt = keeping.keep()
    monkeypatch.setattr("penstock.receipts.changes.__version__", "9.0.0")
    scene.send_event(2 * DAY_S + 700, "B", "visitor-12")
    opened = keeping.open(receipt)
    assert kinds(opened) == ["late", "version"]
    assert opened["recountIsEqual"]
    [sentence] = opened["sentences"]
    assert (
        " and the version of Penstock changed (0.3.0, now 9.0.0): 60.0% becomes 65.0%; " in sentence
    )


def test_a_deletion_is_named_and_nothing_is_counted_again(keeping, scene, clock):
    receipt = keeping.keep()
    clock.advance(days=1)
    scene.delete(visitorId="visitor-1")
    scene.send_event(2 * DAY_S + 700, "B", "visitor-12")
    opened = keeping.open(receipt)
    assert kinds(opened) == ["late", "gone"]
    assert opened["gone"] == {"events": 2, "units": 1}
    assert (opened["recount"], opened["recountIsEqual"]) == (None, None)
    first, units, last = opened["sentences"]
    assert "2 events of " in first
    assert " that it counted are gone (deletion of " in first
    assert first.endswith(": 60.0% becomes 63.2%.")
    assert units == "1 visitor that it counted is gone."
    assert last == (
        "Nothing is counted again without these changes, because what it counted is not stored as "
        "it was."
    )
    stored = str(keeping.file(receipt))
    assert "visitor-1" not in stored


def test_retention_is_named_and_nothing_is_counted_again(keeping, scene, services, workspace):
    receipt = keeping.keep()
    address = f"/api/settings/websites/{workspace.website_id}"
    workspace.client.patch(address, json={"eventRetentionDays": 18}).raise_for_status()
    services.retention._step()
    deletions = workspace.client.get("/api/deletions").json()["data"]
    finished(workspace.client, deletions[0]["id"])
    opened = keeping.open(receipt)
    assert kinds(opened) == ["gone"]
    assert "that it counted are gone (retention): " in opened["sentences"][0]
    assert opened["gone"]["events"] > 0
    assert opened["gone"]["units"] == receipt["figures"]["entered"] - opened["now"]["entered"] > 0
    assert opened["recount"] is None


def test_a_changed_definition_is_named_and_nothing_is_counted_again(keeping, scene):
    receipt = keeping.keep()
    definition = scene.definition(keeping.funnel)
    definition["steps"][1]["filters"] = [where("plan", "equals", "gold")]
    keeping.client.put(f"/api/funnels/{keeping.funnel}", json=definition).raise_for_status()
    opened = keeping.open(receipt)
    assert kinds(opened) == ["definition"]
    assert opened["sentences"] == [
        "The funnel's definition changed (revision 1, now 2): 60.0% becomes 0.0%.",
        "Nothing is counted again without these changes, because the definition changed.",
    ]
    assert opened["now"]["completed"] == 0
    assert opened["recount"] is None
    pinned = keeping.keep(revision="1")
    assert pinned["figures"] == receipt["figures"]
    assert keeping.open(pinned)["isUnchanged"]


def test_another_definition_with_the_same_revision_is_named(keeping, scene, services):
    """After a restore from an older backup, the next revisions have the numbers of lost ones."""
    receipt = keeping.keep()
    definition = scene.definition(keeping.funnel)
    definition["steps"][1]["filters"] = [where("plan", "equals", "gold")]
    keeping.client.put(f"/api/funnels/{keeping.funnel}", json=definition).raise_for_status()
    with services.database.write() as db:
        db.execute(delete(funnel_revisions).where(funnel_revisions.c.revision == 1))
        db.execute(update(funnel_revisions).values(revision=1))
        db.execute(update(funnels).values(revision=1))
    opened = keeping.open(receipt)
    assert kinds(opened) == ["definition"]
    assert opened["recount"] is None
    assert opened["sentences"][0] == (
        "The funnel's definition changed (revision 1 is now another): 60.0% becomes 0.0%."
    )


def test_a_new_name_changes_nothing(keeping, scene):
    receipt = keeping.keep()
    definition = scene.definition(keeping.funnel) | {"name": "Buying"}
    definition["steps"][0]["name"] = "Looked"
    keeping.client.put(f"/api/funnels/{keeping.funnel}", json=definition).raise_for_status()
    opened = keeping.open(receipt)
    assert (opened["isUnchanged"], opened["changes"]) == (True, [])
    assert opened["recountIsEqual"]
    assert opened["now"]["steps"][0]["name"] == "Looked"
    assert opened["receipt"]["name"] == "Checkout"


def test_changed_filters_of_internal_traffic_are_named(keeping):
    receipt, with_internal = keeping.keep(), keeping.keep(internal="true")
    body = {"filters": [where("plan", "equals", "pro")]}
    keeping.client.put("/api/settings/internal-traffic", json=body).raise_for_status()
    opened = keeping.open(receipt)
    assert kinds(opened) == ["definition"]
    assert opened["changes"][0]["text"].startswith("the filters of internal traffic changed (rev")
    assert (opened["now"]["entered"], opened["recount"]) == (10, None)
    assert keeping.open(with_internal)["isUnchanged"]


def test_a_deleted_funnel_leaves_the_receipt(keeping):
    receipt = keeping.keep()
    keeping.client.delete(f"/api/funnels/{keeping.funnel}").raise_for_status()
    opened = keeping.open(receipt)
    assert opened["receipt"] == receipt
    assert (kinds(opened), opened["now"], opened["recount"]) == (["refused"], None, None)
    [sentence] = opened["sentences"]
    assert sentence.startswith("Its question can no longer be answered: ")


def test_units_that_were_open_settle_without_any_late_event(scene, keeping, clock):
    keeping.period["endAt"] = scene.at(30 * DAY_S)
    now_s = (clock() - scene.start_ms) / 1000
    scene.send_event(now_s - 60, "A", "open")
    receipt = keeping.keep()
    assert receipt["figures"]["pending"] == 1
    clock.advance(days=1)
    opened = keeping.open(receipt)
    assert (opened["changes"], opened["isUnchanged"]) == ([], False)
    assert opened["recountIsEqual"]
    [sentence] = opened["sentences"]
    assert sentence.startswith("Windows have ended since: 1 visitor settled: 60.0% becomes 57.1%;")


def test_earlier_events_are_named(scene, keeping):
    receipt = keeping.keep()
    scene.send_event(-5 * DAY_S, "A", "visitor-1")
    opened = keeping.open(receipt)
    assert kinds(opened) == ["earlier"]
    assert opened["isUnchanged"]
    assert opened["recountIsEqual"]


def test_an_import_of_stored_events_is_later_although_they_were_received_earlier(keeping, scene):
    receipt = keeping.keep()
    earlier = scene.at(3 * DAY_S + 901)
    line = {
        "type": "stored",
        "eventId": "evt_elsewhere",
        "kind": "event",
        "name": "B",
        "source": "server",
        "visitorId": "visitor-13",
        "occurredAt": scene.at(3 * DAY_S + 900),
        "statedAt": scene.at(3 * DAY_S + 900),
        "receivedAt": earlier,
    }
    query = {"websiteId": scene.tenant.website_id}
    send_file(keeping.client, ndjson([line]), "application/x-ndjson", query, "done")
    opened = keeping.open(receipt)
    assert kinds(opened) == ["late"]
    assert "(import of events with earlier times of receipt)" in opened["sentences"][0]
    assert (opened["now"]["completed"], opened["recountIsEqual"]) == (13, True)


def test_events_that_claim_to_be_older_are_named_and_leave_no_recount(keeping, scene, warehouse):
    """Such as those of a request that took longer than a receipt waits."""
    receipt = keeping.keep()
    website = scene.tenant.website_id
    copied = ("website_id", "kind", "occurred_at", "received_at", "stated_at", "scope_id", "source")
    warehouse.command(
        f"INSERT INTO events ({', '.join(copied)}, name, visitor_id, event_id) "  # noqa: S608
        f"SELECT {', '.join(copied)}, 'B', 'visitor-12', 'evt_late' FROM events "
        f"WHERE website_id = '{website}' AND visitor_id = 'visitor-12'"
    )
    opened = keeping.open(receipt)
    assert kinds(opened) == ["unknown"]
    assert opened["recount"] is None


def test_content_that_changed_is_named_and_leaves_no_recount(keeping, scene, warehouse):
    receipt = keeping.keep()
    website = scene.tenant.website_id
    warehouse.command(
        "ALTER TABLE events UPDATE country = 'FR' "
        f"WHERE website_id = '{website}' AND visitor_id = 'visitor-12' SETTINGS mutations_sync = 2"
    )
    opened = keeping.open(receipt)
    assert kinds(opened) == ["altered"]
    assert (opened["isUnchanged"], opened["recount"]) == (True, None)


def test_added_and_deleted_websites_are_named(keeping, scene, workspace):
    other = new_website(workspace.client)
    event = scene.item(60, "A", "other") | {"websiteId": other}
    workspace.client.post("/api/track", json=event).raise_for_status()
    receipt = keeping.keep()
    assert receipt["figures"]["entered"] == 21
    new_website(workspace.client)
    opened = keeping.open(receipt)
    assert (kinds(opened), opened["recountIsEqual"]) == (["websites"], True)
    workspace.client.delete(f"/api/settings/websites/{other}").raise_for_status()
    opened = keeping.open(receipt)
    assert kinds(opened) == ["gone", "websites", "websites"]
    assert (opened["now"]["entered"], opened["recount"]) == (20, None)


def test_goals_segments_and_cohorts_are_part_of_the_definition(keeping, scene):
    goal = create(keeping.client, "/api/goals", {"name": "Won", "match": step("B")})
    pro = [where("plan", "equals", "pro")]
    segment = create(keeping.client, "/api/segments", {"name": "Pro", "filters": pro})
    rule = {"name": "All", "kind": "rule", "funnelId": keeping.funnel, "parameters": {"step": "1"}}
    cohort = create(keeping.client, "/api/cohorts", rule)
    keeping.funnel = scene.funnel(
        "A",
        {"type": "Goal", "value": "Won"},
        name="Goals",
        conversionWindowSeconds=3600,
    )
    of_cohort = json.dumps([where("$cohort", "equals", cohort["id"])])
    receipt = keeping.keep(segment=segment["id"], filters=of_cohort)
    uses = keeping.file(receipt)["receipt"]["uses"]
    assert [use["kind"] for use in uses] == ["goal", "segment", "cohort", "internalTraffic"]
    assert keeping.open(receipt)["isUnchanged"]
    change = {"match": step("C")}
    keeping.client.patch(f"/api/goals/{goal['id']}", json=change).raise_for_status()
    change = {"filters": [where("plan", "equals", "free")]}
    keeping.client.patch(f"/api/segments/{segment['id']}", json=change).raise_for_status()
    scene.send_event(100, "A", "new")
    texts = [each["text"] for each in keeping.open(receipt)["changes"]]
    assert texts[1:] == [
        "the goal Won changed (revision 1, now 2)",
        "the segment Pro changed (revision 1, now 2)",
        "the saved cohort All changed",
    ]
    assert keeping.open(receipt)["recount"] is None


def test_a_receipt_is_made_as_a_job(keeping):
    form = {"funnelId": keeping.funnel, "parameters": keeping.period}
    headers = {"Prefer": "respond-async"}
    job = body_of(keeping.client.post("/api/receipts", json=form, headers=headers), 202)
    path = f"/api/jobs/{job['id']}"
    eventually(lambda: keeping.client.get(path).json()["state"] == "done")
    receipt = keeping.client.get(f"{path}/result").json()
    assert keeping.open(receipt)["isUnchanged"]


def test_a_receipt_that_is_cancelled_is_not_made(keeping, services):
    services.receipts._wait_s = 600
    form = {"funnelId": keeping.funnel, "parameters": keeping.period}
    headers = {"Prefer": "respond-async"}
    job = body_of(keeping.client.post("/api/receipts", json=form, headers=headers), 202)
    path = f"/api/jobs/{job['id']}"
    eventually(lambda: keeping.client.get(path).json()["state"] == "running")
    keeping.client.delete(path).raise_for_status()
    eventually(lambda: keeping.client.get(path).json()["state"] == "cancelled")
    assert body_of(keeping.client.get("/api/receipts"))["total"] == 0


def test_a_receipt_needs_days_within_its_limit(keeping, monkeypatch):
    monkeypatch.setattr("penstock.receipts.sums.MAX_SUMS", 3)
    form = {"funnelId": keeping.funnel, "parameters": keeping.period}
    answer = keeping.client.post("/api/receipts", json=form)
    assert faults(answer) == {"parameters.period": "too_long"}
