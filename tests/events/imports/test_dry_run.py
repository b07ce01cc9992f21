"""A dry run over HTTP shows what a file contains, stores nothing, and can be started or left."""

import gzip
import json
import re
from dataclasses import replace
from html import unescape

import pytest
from sqlalchemy import update

from penstock.base.errors import StoreUnavailable, Unavailable
from penstock.events.imports import access, model, store
from penstock.events.imports.dry_runs import worker
from penstock.metadb.tables import imports
from tests.answers import body_of, problem
from tests.events.conftest import NDJSON_TYPE, finished, ndjson, upload
from tests.events.imports.conftest import counts, stored
from tests.events.imports.exported import FILES
from tests.records import new_key
from tests.tenant import visitor
from tests.waiting import eventually

MEDIA = {"amplitude": "application/zip", "csv": "text/csv"}


def event(name, visitor, second, **properties):
    return {
        "type": "event", "name": name, "visitorId": visitor, "properties": properties,
        "timestamp": f"2024-05-01T10:00:{second:02d}Z",
    }  # fmt: skip


@pytest.fixture
def send(workspace):
    """Upload a file for a dry run and return its import at once."""

    def post(body, name="ndjson", tenant=workspace):
        media_type = MEDIA.get(name, NDJSON_TYPE)
        return body_of(upload(tenant, body, media_type, dryRun="true", format=name), 201)

    return post


def checked(client, job):
    """Wait until the dry run has ended, and return the import."""
    path = f"/api/imports/{job['id']}"
    return eventually(lambda: (now := client.get(path).json())["state"] == "checked" and now)


def summary_of(client, job):
    checked(client, job)
    return body_of(client.get(f"/api/imports/{job['id']}/summary"))


@pytest.fixture
def slow(monkeypatch):
    """Dry runs read one row in each turn."""
    monkeypatch.setattr(worker, "_SLICE_S", 0.0)


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("name", FILES)
def test_the_story_has_the_figures_worked_out_by_hand(send, client, services, workspace, name):
    summary = summary_of(client, send(FILES[name](), name))
    assert summary["events"] == {"mixpanel": 12, "ga4": 12, "amplitude": 11}.get(name, 10)
    assert (summary["visitors"], summary["identityConflicts"], summary["rejected"]) == (5, 1, 0)
    assert summary["firstEventAt"] == "2024-05-01T10:00:00.000Z"
    assert summary["lastEventAt"] == "2024-05-01T12:00:00.000Z"
    assert summary["eventNames"][:2] == [
        {"type": "pageview", "name": "/pricing", "events": 5},
        {"type": "event", "name": "checkout_started", "events": 3},
    ]
    assert (summary["isComplete"], summary["error"]) == (True, None)
    assert stored(services, workspace.website_id) == []


@pytest.mark.usefixtures("warehouse")
@pytest.mark.every_database
def test_the_started_import_stores_the_file_and_the_summary_stays(
    send, client, services, workspace
):
    lines = [event("a", "v", 1), event("b", "v", 2), {"type": "event", "colour": "red"}]
    job = send(lines)
    summary = summary_of(client, job)
    assert (summary["events"], summary["rejected"]) == (2, 1)
    [reason] = summary["reasons"]
    assert (reason["firstLine"], reason["lines"]) == (3, 1)
    assert "red" in reason["excerpt"]
    assert stored(services, workspace.website_id) == []
    started = client.post(f"/api/imports/{job['id']}/start").json()
    assert (started["state"], started["sha256"]) == ("queued", job["sha256"])
    assert counts(finished(client, job["id"])) == (3, 2, 0, 1)
    assert stored(services, workspace.website_id) == ["a", "b"]
    later = client.get(f"/api/imports/{job['id']}/summary").json()
    assert later == summary | {"reasons": [reason | {"excerpt": None}]}


def test_an_attempt_id_comes_with_its_steps_in_the_order_of_attempts(send, client):
    steps = ("started", "shipped", "paid")
    lines = [
        event(name, visitor, 10 * number + second, cart=f"c-{number}")
        for number, visitor in enumerate(("a", "a", "b"))
        for second, name in enumerate(steps)
    ]
    # The export begins in the middle of an attempt, so `paid` is the earliest event of all.
    lines += [event("paid", "c", 0, cart="c-9"), event("paid", "b", 50, cart="c-8")]
    summary = summary_of(client, send(lines))
    [cart] = summary["attemptProperties"]
    assert (cart["name"], cart["values"], cart["eventNames"]) == ("cart", 5, 3)
    assert (cart["share"], cart["severalVisitors"], cart["splitVisitors"]) == (1.0, 0, 2)
    assert [step["name"] for step in cart["steps"]] == list(steps)


def test_an_attempt_id_says_what_is_wrong_with_it(send, client, workspace):
    """An ID that returns, and one with two visitors, beside events without an ID."""
    lines = [
        event(name, f"v-{number % 30}", number % 60, cart=f"c-{number}")
        for number in range(40)
        for name in ("started", "paid")
    ]
    lines += [event("started", "v-0", 50, cart="c-0"), event("paid", "v-2", 51, cart="c-1")]
    lines += [event("paid", "v-9", 52), event("paid", "v-9", 53)]
    [cart] = summary_of(client, job := send(lines))["attemptProperties"]
    assert (cart["severalEntries"], cart["severalVisitors"], cart["share"]) == (1, 1, 0.9762)
    assert cart["sentence"] == (
        "cart is on 97.6% of the steps' events and makes 40 attempts; 10 visitors have several of "
        "them; 1 attempt has several entries; 1 attempt has several visitors."
    )
    assert "1 attempt has several entries" in workspace.browser.get(f"/imports/{job['id']}").text


def test_steps_with_equal_times_are_in_the_order_that_other_visitors_show(send, client, workspace):
    """Most visitors start in the same second in which they view, and many only view."""
    lines = [event("opened", f"v-{number}", 0) for number in range(30)]
    lines += [event("viewed", f"v-{number}", 10) for number in range(30)]
    lines += [event("started", f"v-{number}", 10 + (number < 5)) for number in range(20)]
    steps = summary_of(client, job := send(lines))["steps"]
    assert [step["name"] for step in steps] == ["opened", "viewed", "started"]
    shown = " ".join(workspace.browser.get(f"/imports/{job['id']}").text.split())
    assert "such as a checkout. Import the file first" in shown


def test_the_last_step_is_kept_and_others_are_left_out(send, client):
    """Each step loses people, so that the last one is the least frequent."""
    names = ["viewed", "added", "started", "address", "payment", "paid"]
    lines = [
        event(name, f"v-{number}", second, cart=f"c-{number}-{half}")
        for second, name in enumerate(names)
        for number in range(40 - 6 * second)
        for half in range(2)
    ]
    summary = summary_of(client, send(lines))
    expected = ["viewed", "added", "started", "address", "paid"]
    assert [step["name"] for step in summary["steps"]] == expected
    [cart] = summary["attemptProperties"]
    assert [step["name"] for step in cart["steps"]] == expected


def test_an_event_that_most_do_without_is_no_step(send, client):
    names = ["viewed", "started", "coupon_entered", "card_declined", "paid"]
    users = {"viewed": 50, "started": 40, "coupon_entered": 8, "card_declined": 6, "paid": 30}
    lines = [
        event(name, f"v-{number}", second)
        for second, name in enumerate(names)
        for number in range(users[name])
    ]
    lines += [event("payment_failed", f"v-{number}", 50) for number in range(30, 36)]
    steps = summary_of(client, send(lines))["steps"]
    assert [step["name"] for step in steps] == ["viewed", "started", "paid"]


def test_an_attempt_id_that_the_mapping_names_is_offered(send, client, workspace):
    """Nobody has a second one, so that it looks like an ID of a person."""
    rows = ["at;who;what;visit;basket"] + [
        f"{1714557600 + 60 * number + second};{number};{name};s-{number};b-{number}"
        for number in range(5)
        for second, name in enumerate(("opened", "bought"))
    ]
    job = checked(client, send("\n".join(rows).encode(), "csv"))
    columns = [{"column": "at", "use": "time", "unit": "seconds"}, *WHO_AND_WHAT]
    for attempt, other in (("visit", "basket"), ("basket", "visit")):
        uses = [{"column": attempt, "use": "attempt"}, {"column": other, "use": "property"}]
        mapping = {"columns": [*columns, *uses]}
        client.put(f"/api/imports/{job['id']}/mapping", json=mapping).raise_for_status()
        [offered] = summary_of(client, job)["attemptProperties"]
        assert (offered["name"], offered["values"]) == (attempt, 5)
        assert [step["name"] for step in offered["steps"]] == ["opened", "bought"]


def test_events_that_a_product_records_by_itself_are_no_steps(send, client):
    names = ["$autocapture", "$exception", "viewed", "started", "$pageleave", "paid", "thanked"]
    lines = [
        event(name, f"v-{number}", second) for second, name in enumerate(names) for number in "abc"
    ]
    steps = summary_of(client, send(lines))["steps"]
    assert [step["name"] for step in steps] == ["viewed", "started", "paid", "thanked"]
    lines = [event("$autocapture", "a", 0), event("$rageclick", "a", 1)]
    steps = summary_of(client, send(lines))["steps"]
    assert [step["name"] for step in steps] == ["$autocapture", "$rageclick"]


@pytest.mark.usefixtures("warehouse")
def test_the_first_funnel_of_whole_seconds_counts_equal_times_in_step_order(
    send, client, workspace
):
    names = ("started", "paid", "shipped")
    lines = [
        event(name, f"v-{number}", number, cart=f"c-{number}-{half}")
        for number in range(20)
        for half in range(2)
        for name in names
    ]
    summary = summary_of(client, job := send(lines))
    assert (summary["wholeSeconds"], summary["sequenceProperty"]) == (True, None)
    shown = workspace.browser.get(f"/imports/{job['id']}").text
    assert "whole seconds. Events with equal times count in the order of the steps." in shown
    assert "The order of events in the same second is unknown" in shown
    client.post(f"/api/imports/{job['id']}/start")
    finished(client, job["id"])
    path = f"/funnels/new?import={job['id']}"
    assert first_funnel_counts(workspace, path) == [20, 20, 20]
    by_cart = workspace.browser.get(f"{path}&attemptProperty=cart").text
    assert "The order of events in the same second" in by_cart
    definition = suggested(by_cart)
    assert (definition["countingUnit"], definition["equalTimes"]) == ("attempt", None)


@pytest.mark.usefixtures("warehouse")
def test_a_number_that_rises_with_each_event_is_the_sequence_property(send, client, workspace):
    names = ("started", "paid", "shipped")
    lines = [
        event(name, f"v-{number}", number, cart=f"c-{number}-{half}", row=row, total=number)
        for number in range(20)
        for half in range(2)
        for row, name in enumerate(names, 3 * half)
    ]
    summary = summary_of(client, job := send(lines))
    assert (summary["wholeSeconds"], summary["sequenceProperty"]) == (True, "row")
    client.post(f"/api/imports/{job['id']}/start")
    finished(client, job["id"])
    path = f"/funnels/new?import={job['id']}&attemptProperty=cart"
    assert "The sequence property row orders events" in workspace.browser.get(path).text
    assert first_funnel_counts(workspace, path) == [40, 40, 40]
    finer = [each | {"timestamp": each["timestamp"].replace("Z", ".5Z")} for each in lines[:1]]
    assert summary_of(client, send(lines + finer))["wholeSeconds"] is False


def suggested(page):
    """The definition with which the builder starts."""
    data = re.search(r'id="funnel-data">(.*?)</script>', page, re.DOTALL)[1]
    return json.loads(unescape(data))["definition"]


def first_funnel_counts(workspace, path):
    """The number of units at each step of the funnel that the builder suggests."""
    definition = suggested(workspace.browser.get(path).text)
    del definition["name"]
    body = {name: value for name, value in definition.items() if value is not None}
    report = body_of(workspace.client.post("/api/funnels/preview", json=body))
    assert report["coverage"]["noteCodes"] in ([], ["open_windows"])
    return [step["count"] for step in report["aggregate"]["steps"]]


def test_an_import_before_its_dry_run_has_ended_cannot_be_started(send, client, slow):
    job = send([event("a", "v", second % 60, number=second) for second in range(500)])
    assert (job["state"], job["expiresAt"] > job["createdAt"]) == ("checking", True)
    for answer in (
        client.get(f"/api/imports/{job['id']}/summary"),
        client.post(f"/api/imports/{job['id']}/start"),
    ):
        assert problem(answer) == (409, "import_not_checked")
    assert eventually(lambda: client.get(f"/api/imports/{job['id']}").json()["linesRead"] > 2)
    cancelled = client.post(f"/api/imports/{job['id']}/cancel").json()
    assert (cancelled["state"], cancelled["expiresAt"]) == ("cancelled", None)
    assert problem(client.post(f"/api/imports/{job['id']}/start")) == (409, "import_finished")


def test_an_import_is_started_once_and_one_without_a_dry_run_has_no_summary(
    send, client, run_import
):
    job = checked(client, send([event("a", "v", 1)]))
    assert client.post(f"/api/imports/{job['id']}/start").status_code == 200
    assert problem(client.post(f"/api/imports/{job['id']}/start")) == (409, "import_started")
    direct = run_import([event("a", "v", 1)])
    assert problem(client.get(f"/api/imports/{direct['id']}/summary")) == (404, "no_summary")


def test_a_file_that_nobody_starts_is_removed(send, client, services, settings, monkeypatch):
    job = checked(client, send([event("a", "v", 1)]))
    [file] = (settings.data / "staged").iterdir()
    monkeypatch.setattr(model, "STAGED_MS", 0)
    services.dry_runs.worker.wake()
    assert eventually(lambda: not file.exists())
    ended = client.get(f"/api/imports/{job['id']}").json()
    assert ended["state"] == "cancelled"
    assert "within 24 hours" in ended["error"]
    assert client.get(f"/api/imports/{job['id']}/summary").status_code == 404


def refused(tenant):
    """Send one file too many for a dry run, and return why it was refused."""
    answer = upload(tenant, [event("a", "v", 1)], dryRun="true")
    assert problem(answer) == (409, "too_many_dry_runs")
    return answer.json()["detail"]


def test_a_workspace_has_a_limit_for_files_before_their_start(send, key, workspace):
    jobs = [send([event("a", "v", second)]) for second in range(20)]
    assert f"Start or cancel one, such as {jobs[0]['id']}" in refused(workspace)
    assert "Ask a member" in refused(key("ingest"))


def test_workspaces_take_turns(send, client, other_workspace, slow):
    long = send([event("a", "v", second % 60, number=second) for second in range(2_000)])
    summary_of(other_workspace.client, send([event("b", "v", 1)], tenant=other_workspace))
    assert client.get(f"/api/imports/{long['id']}").json()["state"] == "checking"


@pytest.mark.parametrize("limits", [{"max_import_rejects": 3}])
def test_a_file_that_would_fail_says_why(send, client):
    faulty = [{"colour": "red"}, event("a", "v", 1) | {"timestamp": "never"}] * 5
    summary = summary_of(client, send([event("a", "v", 1), *faulty]))
    assert (summary["linesRead"], summary["rejected"]) == (4, 3)
    assert "would stop after 3 rejected lines" in summary["error"]
    cut = gzip.compress(ndjson(event("a", "v", 1, number=n) for n in range(2_000)))[:-9]
    job = send(cut)
    assert "truncated" in summary_of(client, job)["error"]


def test_a_large_file_is_summarised_by_its_beginning(send, client, monkeypatch):
    monkeypatch.setattr(worker, "_SLICE_S", 0.0)
    monkeypatch.setattr(worker, "_MAX_READING_S", 0.0)
    summary = summary_of(client, send([event("a", "v", second) for second in range(30)]))
    assert (summary["isComplete"], summary["linesRead"] < 30) == (False, True)


def test_a_dry_run_of_another_workspace_is_not_found(send, client, other_workspace):
    job = checked(client, send([event("a", "v", 1)]))
    for method, path in (("GET", "summary"), ("POST", "start")):
        answer = other_workspace.client.request(method, f"/api/imports/{job['id']}/{path}")
        assert answer.status_code == 404


TABLE = b"""when;who;what;basket
1714557600;7;opened;b-1
1714557660;7;bought;b-1
1714557700;8;opened;b-2
"""


@pytest.mark.usefixtures("warehouse")
def test_the_mapping_of_a_table_is_guessed_corrected_and_used(send, client, services, workspace):
    job = send(TABLE, "csv")
    path = f"/api/imports/{job['id']}"
    summary = summary_of(client, job)
    assert summary["sample"]["columns"] == ["when", "who", "what", "basket"]
    assert summary["sample"]["rows"][0] == ["1714557600", "7", "opened", "b-1"]
    assert summary["mapping"]["columns"][0]["use"] == "time"
    assert "Choose the column" in summary["error"]
    assert problem(client.post(f"{path}/start")) == (422, "invalid")
    columns = [
        {"column": "when", "use": "time", "unit": "seconds"},
        {"column": "who", "use": "user"},
        {"column": "what", "use": "event"},
        {"column": "basket", "use": "attempt"},
    ]
    changed = client.put(f"{path}/mapping", json={"columns": columns})
    assert (changed.status_code, changed.json()["state"]) == (200, "checking"), changed.text
    summary = summary_of(client, job)
    assert (summary["error"], summary["events"], summary["visitors"]) == (None, 3, 2)
    assert client.post(f"{path}/start").status_code == 200
    assert counts(finished(client, job["id"]))[1:] == (3, 0, 0)
    assert stored(services, workspace.website_id) == ["opened", "bought", "opened"]
    assert client.get(f"{path}/summary").json()["sample"] is None
    again = client.put(f"{path}/mapping", json={"columns": columns})
    assert problem(again) == (409, "import_started")


def test_a_table_that_is_not_utf8_has_a_summary(send, client):
    job = send("when,who,what,town\n1714557600,7,opened,München\n".encode("latin-1"), "csv")
    assert summary_of(client, job)["sample"]["rows"] == [["1714557600", "7", "opened", "M?nchen"]]


def test_a_table_with_the_fields_of_an_event_needs_no_mapping(send, client):
    table = b"timestamp,name,userId,properties.plan\n2024-05-01T10:00:00Z,opened,u-1,pro\n"
    summary = summary_of(client, send(table, "csv"))
    assert (summary["mapping"], summary["events"], summary["error"]) == (None, 1, None)


def test_a_format_with_fields_of_its_own_has_no_mapping(send, client):
    job = checked(client, send(FILES["mixpanel"](), "mixpanel"))
    columns = [
        {"column": "at", "use": "time", "unit": "seconds"},
        {"column": "who", "use": "user"},
        {"column": "what", "use": "event"},
    ]
    answer = client.put(f"/api/imports/{job['id']}/mapping", json={"columns": columns})
    assert body_of(answer, 422)["errors"][0]["code"] == "not_for_format"


# -- Who may use a file before its start -----------------------------------------------------------


@pytest.fixture
def key(workspace, server):
    """Create a client with a key of the workspace."""

    def create(*scopes):
        key = new_key(workspace.browser, scopes=scopes)
        return replace(workspace, client=visitor(server, {"Authorization": f"Bearer {key}"}))

    return create


WHO_AND_WHAT = ({"column": "who", "use": "user"}, {"column": "what", "use": "event"})


def test_a_key_that_only_sends_reaches_only_its_own_files_before_their_start(send, key, client):
    sender, other, reader = key("ingest"), key("ingest"), key("read", "ingest")
    job = checked(client, send([event("a", "v", 1)], tenant=sender))
    path = f"/api/imports/{job['id']}"
    columns = {"columns": [{"column": "at", "use": "time", "unit": "text"}, *WHO_AND_WHAT]}
    assert sender.client.get(f"{path}/summary").status_code == 200
    assert reader.client.get(f"{path}/summary").status_code == 200
    assert other.client.get(path).status_code == 404
    assert other.client.get(f"{path}/summary").status_code == 404
    for stranger in (other.client, reader.client):
        assert stranger.put(f"{path}/mapping", json=columns).status_code == 404
        assert stranger.post(f"{path}/start").status_code == 404
        assert stranger.post(f"{path}/cancel").status_code == 404
    for _ in range(2):  # Requests are safe to repeat.
        assert sender.client.post(f"{path}/cancel").json()["state"] == "cancelled"


def test_a_start_respects_the_limit_of_unfinished_imports(send, client, monkeypatch):
    monkeypatch.setattr(access, "_MAX_OPEN_JOBS", 0)
    job = checked(client, send([event("a", "v", 1)]))
    assert problem(client.post(f"/api/imports/{job['id']}/start")) == (503, "too_many_imports")
    assert client.get(f"/api/imports/{job['id']}").json()["state"] == "checked"


def test_a_key_that_only_sends_cancels_what_it_sent_even_after_the_start(
    send, key, client, services, monkeypatch
):
    sender, other = key("ingest"), key("ingest")

    def overloaded(_):
        raise Unavailable("Live events have priority.", code="overloaded")

    monkeypatch.setattr(services.intake, "submit_from_thread", overloaded)
    job = checked(client, send([event("a", "v", 1)], tenant=sender))
    assert sender.client.post(f"/api/imports/{job['id']}/start").status_code == 200
    assert problem(other.client.post(f"/api/imports/{job['id']}/cancel")) == (403, "scope_missing")
    for _ in range(2):
        answer = sender.client.post(f"/api/imports/{job['id']}/cancel")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")


def test_a_key_that_only_sends_leaves_room_for_other_files(send, key, client, run_import):
    sender = key("ingest")
    jobs = [send([event("a", "v", second)], tenant=sender) for second in range(10)]
    assert "This key has sent 10 files that nobody has started" in refused(sender)
    send([event("b", "v", 1)])
    assert run_import([event("c", "v", 1)])["state"] == "done"
    assert sender.client.post(f"/api/imports/{jobs[0]['id']}/cancel").status_code == 200
    send([event("a", "v", 1)], tenant=sender)


def test_a_start_is_based_on_the_summary_of_the_current_mapping(send, client):
    job = checked(client, send(TABLE, "csv"))
    path = f"/api/imports/{job['id']}"
    columns = [{"column": "when", "use": "time", "unit": "seconds"}, *WHO_AND_WHAT]
    changed = client.put(f"{path}/mapping", json={"columns": columns}).json()
    assert changed["revision"] == job["revision"] + 1
    checked(client, job)
    answer = client.post(f"{path}/start", params={"revision": job["revision"]})
    assert problem(answer) == (409, "stale_revision")
    summary = client.get(f"{path}/summary").json()
    assert summary["revision"] == changed["revision"]
    answer = client.post(f"{path}/start", params={"revision": summary["revision"]})
    assert answer.json()["state"] == "queued"


def test_a_start_with_another_mapping_than_the_checked_one_is_refused(send, client):
    job = checked(client, send(TABLE, "csv"))
    path = f"/api/imports/{job['id']}"
    when = {"column": "when", "use": "time", "unit": "seconds"}
    basket = {"column": "basket", "use": "property"}
    mapping = {"columns": [when, *WHO_AND_WHAT, basket]}
    client.put(f"{path}/mapping", json=mapping).raise_for_status()
    checked(client, job)
    ignored = {"column": "basket", "use": "ignored"}
    for other, named in (
        ({"columns": [when, *WHO_AND_WHAT, ignored]}, "differs in the column basket."),
        (
            {"columns": [when, *WHO_AND_WHAT], "otherColumns": "ignored"},
            "the column basket and otherColumns.",
        ),
        ({**mapping, "timezone": "Europe/Berlin"}, "differs in timezone."),
    ):
        answer = client.post(f"{path}/start", json={"mapping": other})
        assert problem(answer) == (409, "mapping_not_checked")
        assert named in answer.json()["detail"]
    assert client.get(path).json()["state"] == "checked"
    mapping["columns"].reverse()
    assert client.post(f"{path}/start", json={"mapping": mapping}).json()["state"] == "queued"


def test_a_start_with_a_mapping_of_a_file_without_one_is_refused(send, client):
    job = checked(client, send([event("a", "v", 1)]))
    mapping = {"columns": [{"column": "at", "use": "time", "unit": "text"}, *WHO_AND_WHAT]}
    answer = client.post(f"/api/imports/{job['id']}/start", json={"mapping": mapping})
    assert problem(answer) == (409, "mapping_not_checked")
    assert "without a mapping" in answer.json()["detail"]
    assert client.post(f"/api/imports/{job['id']}/start", json={}).status_code == 200


def test_the_list_of_imports_leaves_mappings_out(send, client):
    checked(client, send(TABLE, "csv"))
    [job] = client.get("/api/imports").json()["data"]
    assert "mapping" not in job
    assert client.get(f"/api/imports/{job['id']}").json()["mapping"]


def test_a_fault_in_one_dry_run_does_not_stop_others(send, client, monkeypatch, capfd):
    summarise = worker.Summariser.summary
    cell = "-".join(("secret", "cell"))  # a traceback shows lines of source code

    def fail(summariser, **parts):
        summary = summarise(summariser, **parts)
        if summary.events == 2:
            raise KeyError(cell)
        return summary

    monkeypatch.setattr(worker.Summariser, "summary", fail)
    faulty = send([event("a", "v", 1), event("b", "v", 2)])
    assert summary_of(client, send([event("a", "v", 1)]))["events"] == 1
    job = client.get(f"/api/imports/{faulty['id']}").json()
    assert (job["state"], "internal error" in job["error"]) == ("failed", True)
    logged = "".join(capfd.readouterr())
    assert "import_check_failed" in logged
    assert "secret-cell" not in logged


def test_event_names_of_all_properties_have_a_common_limit(monkeypatch, send, client):
    """A file can have many properties, each on many event names."""
    limits = worker._LIMITS._replace(names=10)
    monkeypatch.setattr(worker, "_LIMITS", limits)
    lines = [
        event(f"name-{name}", "v", name, **{f"p{number}": "x" for number in range(9)})
        for name in range(9)
    ]
    summary = summary_of(client, send(lines))
    assert (summary["events"], summary["eventNameCount"]) == (81 // 9, 9)
    assert summary["hasReachedLimit"]
    assert summary["leftOut"] == [
        "Steps come from the first 10 combinations of an ID or a value with an event name."
    ]


JOURNEYS = ("checkout_id", "customer_order_id", "trip_id")


@pytest.mark.parametrize(
    "name",
    [*JOURNEYS, "device_id", "domain_userid", "sessionId", "visit_id", "idfa", "client_ip"],
)
def test_ids_of_people_devices_and_sessions_are_no_attempt_ids(send, client, name):
    lines = [
        event(step, visitor, at, **{name: f"{visitor}-{number}"})
        for visitor in ("ann", "bob")
        for number in range(2)
        for at, step in enumerate(("started", "paid"))
    ]
    lines += [event("paid", "cy", 9, **{name: empty}) for empty in ("", " ", "null", "undefined")]
    proposed = [each["name"] for each in summary_of(client, send(lines))["attemptProperties"]]
    assert proposed == ([name] if name in JOURNEYS else [])


def test_a_small_file_reaches_no_limit(send, client):
    assert not summary_of(client, send([event("a", "v", 1, cart="c")]))["hasReachedLimit"]


def test_a_problem_of_the_file_is_still_known_after_an_error_of_the_store(
    send, client, monkeypatch
):
    save, errors = store.save_summary, [StoreUnavailable()]

    def fail_once(*arguments):
        if errors:
            raise errors.pop()
        save(*arguments)

    monkeypatch.setattr(store, "save_summary", fail_once)
    cut = gzip.compress(ndjson(event("a", "v", 1, number=n) for n in range(2_000)))[:-9]
    summary = summary_of(client, send(cut))
    assert "truncated" in (summary["error"] or "")


@pytest.mark.parametrize("state", ["checking", "checked", "queued"])
def test_an_import_that_cannot_be_read_does_not_stop_others(
    send, client, services, monkeypatch, state
):
    """An import in the state `checking`, an expired one in `checked`, or one that was started."""
    job = checked(client, send(TABLE, "csv"))
    damaged = update(imports).where(imports.c.id == job["id"])
    values = {"mapping": {"columns": "none"}, "state": state}
    if state == "checked":
        values["created_at"] = 0
    with services.database.write() as db:
        db.execute(damaged.values(values))
    assert summary_of(client, send([event("a", "v", 1)]))["events"] == 1
    ended = {"checking": "failed", "checked": "cancelled", "queued": "failed"}

    def state_now():
        listed = client.get("/api/imports").json()["data"]
        return next(each["state"] for each in listed if each["id"] == job["id"])

    eventually(lambda: state_now() == ended[state])
