"""Keeping a number, and opening its receipt when nothing or something has changed."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from re import findall
from threading import Barrier, BrokenBarrierError

import pytest

from penstock.receipts.signatures import new_key_pair
from tests.answers import body_of, faults, problem, values_of
from tests.cases import cases
from tests.funnels.scenario import DAY_S, where
from tests.receipts.conftest import kinds
from tests.tenant import audit_log, join

pytestmark = pytest.mark.usefixtures("warehouse")


@pytest.fixture
def metadb_url(database_url):
    return database_url


def test_a_receipt_keeps_the_figures_of_the_report_and_stays_unchanged(keeping, clock):
    receipt = keeping.keep()
    figures = receipt["figures"]
    results = keeping.scene.results(keeping.funnel, **keeping.period)["aggregate"]
    assert (figures["entered"], figures["completed"]) == (20, 12)
    for name in ("entered", "completed", "settled", "excluded", "pending", "earlyCompletions"):
        assert figures[name] == results[name]
    assert [step["count"] for step in figures["steps"]] == [20, 12]
    assert [step["part"] for step in figures["steps"]] == [20, 12]
    assert values_of(figures["steps"][0], "pending", "droppedOff", "excluded") == (0, 8, 0)
    assert figures["medianCompletionMs"] == 600_000
    assert (figures["cohorts"], figures["cohortsTotal"]) == ([], 0)
    clock.advance(days=1)
    opened = keeping.open(receipt)
    assert opened["receipt"] == receipt
    assert (opened["isUnchanged"], opened["changes"], opened["gone"]) == (True, [], None)
    assert opened["now"] == opened["recount"] == figures
    assert opened["recountIsEqual"]
    [sentence] = opened["sentences"]
    assert sentence.startswith("Unchanged: 60.0% of 20 settled visitors completed, as on ")


def test_a_receipt_keeps_cohorts_without_their_values_and_compares_each(keeping, scene):
    receipt = keeping.keep(breakdown="plan")
    figures = receipt["figures"]
    free, pro = figures["cohorts"]
    assert figures["cohortsTotal"] == 2
    for cohort in (free, pro):
        assert values_of(cohort, "entered", "part", "whole", "steps") == (10, 6, 10, [10, 6])
    file = json.dumps(keeping.file(receipt)["receipt"]["figures"])
    assert "free" not in file
    assert "pro" not in file
    other = keeping.keep(breakdown="plan")["figures"]["cohorts"]
    assert other[0]["value"] != free["value"], "hashes of two receipts cannot be compared"
    opened = keeping.open(receipt)
    assert (opened["isUnchanged"], opened["recountIsEqual"]) == (True, True)
    assert [each["values"] for each in opened["now"]["cohorts"]] == [
        {"plan": "free"},
        {"plan": "pro"},
    ]
    scene.send_event(2 * DAY_S + 5, "A", "visitor-12", plan="pro")  # before its entry with free
    opened = keeping.open(receipt)
    assert opened["now"]["entered"] == 20
    assert [each["entered"] for each in opened["now"]["cohorts"]] == [9, 11]
    assert (opened["isUnchanged"], opened["recountIsEqual"]) == (False, True)
    assert "the rate stays 60.0%, other figures change" in opened["sentences"][0]


def test_the_page_of_a_receipt_shows_its_cohorts_with_the_values_that_are_stored_now(
    keeping, scene, workspace
):
    receipt = keeping.keep(breakdown="plan")
    scene.delete(visitorId="visitor-1")
    headers = {"HX-Request": "true", "HX-Target": "opened"}

    def page():
        answer = workspace.browser.get(f"/receipts/{receipt['id']}", headers=headers)
        return " ".join(findall(r">\s*([^<>]*[^<>\s])\s*<", answer.text))

    text = page()
    assert "pro 60.0% 6 of 10 55.6% 5 of 9" in text
    assert "B 12 60.0% 11 57.9%" in text
    for number in range(3, 20, 2):
        scene.delete(visitorId=f"visitor-{number}")
    text = page()
    assert "Values that are no longer stored 60.0% 6 of 10 –" in text
    assert "free 60.0% 6 of 10 60.0% 6 of 10" in text


def test_a_receipt_keeps_the_cohorts_with_most_units(keeping, scene, monkeypatch):
    scene.send_event(50, "A", "new", plan="third")
    monkeypatch.setattr("penstock.receipts.figures.MAX_COHORTS", 2)
    receipt = keeping.keep(breakdown="plan")
    assert [each["entered"] for each in receipt["figures"]["cohorts"]] == [10, 10]
    assert receipt["figures"]["cohortsTotal"] == 3
    scene.track([scene.item(60 + n, "A", f"more-{n}", plan="third") for n in range(20)])
    opened = keeping.open(receipt)
    assert [each["values"]["plan"] for each in opened["now"]["cohorts"]] == ["free", "pro"]
    assert (opened["isUnchanged"], opened["recountIsEqual"]) == (False, True)


def test_the_parts_of_steps_leave_excluded_units_out(keeping, scene):
    rows = ["A", {"type": "Event", "value": "X", "exclude": True}, "B"]
    keeping.funnel = scene.funnel(*rows, name="Excluding", conversionWindowSeconds=3600)
    scene.send_event(2 * DAY_S + 300, "X", "visitor-12")
    open_ = scene.funnel(*rows, name="No window")
    figures = keeping.keep()["figures"]
    assert values_of(figures, "entered", "excluded", "part", "whole") == (20, 1, 12, 19)
    assert [step["part"] for step in figures["steps"]] == [19, 12]
    keeping.funnel = open_
    figures = keeping.keep()["figures"]
    assert [step["part"] for step in figures["steps"]] == [19, 12]


def test_a_receipt_keeps_a_question_with_its_own_window(keeping, scene):
    keeping.funnel = scene.funnel("A", "B", name="Without window")
    receipt = keeping.keep(window="1h", filters=json.dumps([where("plan", "equals", "pro")]))
    assert (receipt["figures"]["of"], receipt["figures"]["whole"]) == ("settled", 10)
    assert receipt["question"]["window"] == "1h"
    assert keeping.open(receipt)["recountIsEqual"]
    everything = keeping.keep()
    assert (everything["figures"]["of"], everything["figures"]["whole"]) == ("entered", 20)
    assert keeping.open(everything)["isUnchanged"]


def test_the_list_is_newest_first_and_by_funnel(keeping, scene):
    first, last = keeping.keep(), keeping.keep()
    listed = body_of(keeping.client.get("/api/receipts"))
    assert listed["data"] == [last, first]
    other = scene.funnel("A", "C", name="Other")
    assert body_of(keeping.client.get("/api/receipts", params={"funnelId": other}))["total"] == 0


@pytest.mark.every_database
def test_late_events_are_named_and_the_recount_is_equal(keeping, scene, clock):
    receipt = keeping.keep()
    clock.advance(days=1)
    scene.send_event(2 * DAY_S + 700, "B", "visitor-12")
    scene.send_event(2 * DAY_S + 800, "C", "visitor-12")
    opened = keeping.open(receipt)
    assert kinds(opened) == ["late"]
    assert opened["changes"][0]["number"] == 2
    assert opened["now"]["completed"] == 13
    assert opened["recount"] == receipt["figures"]
    [sentence] = opened["sentences"]
    assert "2 events of " in sentence
    assert " arrived after it (received on " in sentence
    assert sentence.endswith(": 60.0% becomes 65.0%; without what came later it is 60.0% again.")


@pytest.mark.every_database
def test_two_nodes_that_need_the_first_key_make_one(services, monkeypatch):
    keys, barrier = services.receipt_keys, Barrier(2)

    def new_pair():
        with suppress(BrokenBarrierError):  # the other node waits for this one
            barrier.wait(1)
        return new_key_pair()

    monkeypatch.setattr("penstock.receipts.keys.new_key_pair", new_pair)
    with ThreadPoolExecutor(2) as nodes:
        ids = {future.result().id for future in [nodes.submit(keys.current) for _ in range(2)]}
    assert ids == {key.id for key in keys.all()}
    assert len(ids) == 1


def test_public_keys_are_listed_without_opening_the_private_ones(keeping, services, monkeypatch):
    receipt = keeping.keep()
    monkeypatch.setattr(services.receipt_keys, "_box", None)
    listed = body_of(keeping.client.get("/.well-known/penstock-receipt-keys.json"))
    assert [key["keyId"] for key in listed["keys"]] == [receipt["keyId"]]


def test_viewers_open_receipts_and_neither_make_nor_revoke_them(workspace, keeping):
    receipt = keeping.keep()
    viewer, path = join(workspace, "viewer"), f"/api/receipts/{receipt['id']}"
    assert body_of(viewer.get(path))["isUnchanged"]
    assert body_of(viewer.get("/api/receipts"))["total"] == 1
    form = {"funnelId": keeping.funnel}
    assert problem(viewer.post("/api/receipts", json=form)) == (403, "viewer_role")
    assert problem(viewer.delete(path)) == (403, "viewer_role")


def test_making_and_revoking_are_in_the_audit_log(workspace, keeping):
    receipt = keeping.keep()
    path = f"/api/receipts/{receipt['id']}"
    assert keeping.client.delete(path).status_code == 204
    assert problem(keeping.client.get(path)) == (404, "not_found")
    assert problem(keeping.client.delete(path)) == (404, "not_found")
    entries = [entry for entry in audit_log(workspace.browser) if "receipt" in entry["action"]]
    assert [(entry["action"], entry["target"]) for entry in entries] == [
        ("receipt_revoked", f"{receipt['id']} Checkout"),
        ("receipt_created", f"{receipt['id']} Checkout"),
    ]


@cases(
    ("parameters", "expected"),
    [
        ({"compare": "previous"}, {"parameters.compare": "unknown_field"}),
        ({"asOf": "0"}, {"parameters.asOf": "unknown_field"}),
        ({"period": "3d"}, {"parameters.period": "not_one_of"}),
        ({"period": "custom"}, {"parameters.end": "ends_before_start"}),
        ({"start": "1969-12-31"}, {"parameters.start": "greater_than_equal"}),
    ],
)
def test_faults_of_a_receipt(keeping, parameters, expected):
    form = {"funnelId": keeping.funnel, "parameters": parameters}
    assert faults(keeping.client.post("/api/receipts", json=form)) == expected
