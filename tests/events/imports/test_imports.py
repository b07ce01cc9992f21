"""Imports over HTTP: accepted and rejected lines, repeats, limits, tenancy."""

import gzip
from typing import Any

import pytest

from penstock.base.clock import iso
from tests.answers import columns_of, faults, faults_in, problem
from tests.cases import cases
from tests.events.conftest import finished, ndjson, upload, upload_to
from tests.events.imports.conftest import counts, line, rejects, stored
from tests.records import new_website
from tests.waiting import eventually


@pytest.mark.usefixtures("warehouse")
def test_events_of_a_file_are_stored_with_their_own_times(run_import, workspace, services):
    job = run_import([line(number) for number in range(3)])
    assert counts(job) == (3, 3, 0, 0)
    assert (job["state"], job["error"], job["bytesRead"]) == ("done", None, job["bytesTotal"])
    assert (job["firstEventAt"], job["lastEventAt"]) == (
        "2020-05-01T10:00:00.000Z",
        "2020-05-01T10:00:02.000Z",
    )
    events = stored(
        services, workspace.website_id, "name, toString(occurred_at), visitor_id, toString(source)"
    )
    assert events[2] == ("step 2", "2020-05-01 10:00:02.000", "v2", "import")


@pytest.mark.usefixtures("warehouse")
def test_a_line_of_each_type_is_stored_as_the_tracker_would(run_import, workspace, services):
    common = {"visitorId": "v", "timestamp": 1_588_327_200_000}
    job = run_import(
        [
            common
            | {
                "type": "pageview",
                "path": "/pricing/?a=1",
                "referrer": "https://Example.com/x",
                "title": "Pricing",
            },
            common
            | {
                "type": "screenview",
                "screen": "Home",
                "device": "mobile",
                "os": "iOS",
                "browser": "Safari",
            },
            common
            | {
                "type": "transaction",
                "name": "purchase",
                "transactionId": "t1",
                "amount": 9.5,
                "currency": "EUR",
            },
            common
            | {
                "type": "event",
                "name": "signup",
                "country": "NL",
                "region": "Utrecht",
                "utmSource": "news",
                "properties": {"a": 1},
            },
        ]
    )
    assert counts(job) == (4, 4, 0, 0)
    assert stored(
        services,
        workspace.website_id,
        "name, toString(kind), path, referrer_host, device, country, utm_source, properties",
    ) == [
        ("/pricing", "pageview", "/pricing", "example.com", "", "", "", ""),
        ("Home", "screenview", "", "", "mobile", "", "", ""),
        (
            "purchase",
            "transaction",
            "",
            "",
            "",
            "",
            "",
            '{"amount":9.5,"currency":"EUR","transactionId":"t1"}',
        ),
        ("signup", "event", "", "", "", "NL", "news", '{"a":1}'),
    ]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.every_database
def test_the_same_file_twice_stores_nothing_twice(run_import, workspace, services):
    lines = [line(1), line(2, dedupeKey="own"), line(1)]
    assert counts(run_import(lines)) == (3, 3, 0, 0)
    assert counts(run_import(lines)) == (3, 0, 3, 0)
    assert stored(services, workspace.website_id) == ["step 1", "step 1", "step 2"]


def test_two_equal_lines_without_dedupe_key_are_two_events(run_import):
    assert counts(run_import([line(1), line(1)])) == (2, 2, 0, 0)


def test_two_lines_with_one_dedupe_key_are_one_event(run_import):
    assert counts(run_import([line(1, dedupeKey="a"), line(2, dedupeKey="a")])) == (2, 1, 1, 0)


def test_two_lines_with_one_transaction_id_are_one_event(run_import):
    bought = {
        "type": "transaction",
        "name": "purchase",
        "transactionId": "t-1",
        "amount": 5,
        "currency": "EUR",
    }
    assert counts(
        run_import(
            [line(1) | bought, line(2) | bought, line(3) | bought | {"transactionId": "t-2"}]
        )
    ) == (3, 2, 1, 0)
    assert counts(run_import([line(1) | bought, line(1) | bought | {"dedupeKey": "d"}])) == (
        2,
        1,
        1,
        0,
    )


def test_content_is_compared_without_regard_to_spelling(run_import):
    shuffled = dict(reversed(line(1).items()))
    assert counts(run_import([line(1)])) == (1, 1, 0, 0)
    assert counts(run_import([shuffled, line(2)])) == (2, 1, 1, 0)


def test_a_larger_file_with_the_same_beginning_adds_only_the_rest(run_import):
    run_import([line(1), line(1)])
    assert counts(run_import([line(1), line(1), line(1), line(2)])) == (4, 2, 2, 0)


def test_the_same_content_on_another_website_is_another_event(run_import, client):
    other = new_website(client, "Other")
    assert counts(run_import([line(1)])) == (1, 1, 0, 0)
    assert counts(run_import([line(1)], website_id=other)) == (1, 1, 0, 0)


@pytest.mark.usefixtures("warehouse")
def test_users_of_an_import_are_bound_like_any_others(run_import, workspace, services):
    run_import(
        [
            line(1, visitorId="before"),
            line(2, visitorId="before", userId="u"),
            {**line(3), "visitorId": None, "userId": "u"},
        ]
    )
    assert stored(services, workspace.website_id, "visitor_id") == ["before", "before", "before"]


def test_gzip_is_read_whether_or_not_the_header_says_so(run_import):
    assert counts(run_import([line(1)], zipped=True)) == (1, 1, 0, 0)
    assert counts(run_import(gzip.compress(ndjson([line(1), line(2)])))) == (2, 1, 1, 0)


def test_empty_lines_a_byte_order_mark_and_a_missing_last_newline_do_not_matter(run_import):
    body = b"\xef\xbb\xbf" + ndjson([line(1)]) + b"\r\n  \n" + ndjson([line(2)]).rstrip()
    job = run_import(body)
    assert (counts(job), job["emptyLines"]) == ((4, 2, 0, 0), 2)


def test_empty_lines_between_events_are_counted_and_line_numbers_stay_right(run_import, client):
    body = b"\n" * 200_000 + ndjson([line(1)]) + b" \r\n" * 100_000 + b"nonsense\n\n" + b"  "
    for content in (body, gzip.compress(body)):
        job = run_import(content)
        assert (job["state"], job["linesRead"], job["emptyLines"]) == ("done", 300_004, 300_002)
        assert [reject["line"] for reject in rejects(client, job)] == [300_002]


def test_an_empty_file_fails_at_once(run_import):
    job = run_import(b"")
    assert (counts(job), job["state"], job["firstEventAt"]) == ((0, 0, 0, 0), "failed", None)
    assert job["error"] == "The file is empty."


def test_a_file_that_begins_with_a_million_empty_lines_fails_early(run_import):
    job = run_import(gzip.compress(b"\n" * 30_000_000 + ndjson([line(1)]), 1))
    assert (job["state"], job["error"]) == ("failed", "The first 1,000,000 lines are empty.")
    assert job["linesRead"] < 1_000_000


# Gzip members -------------------------------------------------------------------------------------


def members(content, size):
    """Gzip with a member for each `size` bytes of the content, and the empty one of bgzip."""
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(gzip.compress(part, 1) for part in [*parts, b""])


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize(
    "size",
    [
        pytest.param(60, id="tiny"),
        pytest.param(7_000, id="small", marks=pytest.mark.full("other sizes")),
        pytest.param(65_280, id="bgzip", marks=pytest.mark.full("other sizes")),
    ],
)
def test_a_file_of_many_gzip_members_is_read_whole(run_import, size):
    body = ndjson(line(number, properties={"n": number * 7919}) for number in range(3_000))
    job = run_import(members(body, size))
    assert (job["state"], counts(job)) == ("done", (3_000, 3_000, 0, 0))
    assert counts(run_import(body)) == (3_000, 0, 3_000, 0)


@pytest.mark.usefixtures("warehouse")
def test_events_before_and_after_105_000_empty_gzip_members_are_read(run_import):
    empty = gzip.compress(b"") * 105_000
    first, second = (gzip.compress(ndjson([line(number)])) for number in (1, 2))
    job = run_import(first + empty + b"\0" * 1_000 + second + b"\0" * 1_000)
    assert (job["state"], counts(job)) == ("done", (2, 2, 0, 0))
    nothing = run_import(empty)
    assert (nothing["state"], nothing["error"]) == ("failed", "The file is empty.")


def test_a_damaged_or_truncated_later_gzip_member_fails_the_import(run_import):
    whole, last = gzip.compress(ndjson([line(1)])), gzip.compress(ndjson([line(2)]))
    for rest, reason in ((last[:-1], "truncated"), (b"no gzip", "damaged")):
        job = run_import(whole + rest)
        assert (job["state"], reason in job["error"]) == ("failed", True)


def test_rejected_lines_are_listed_with_every_reason_and_valid_ones_stored(run_import, client):
    body = b"\n".join(
        [
            ndjson([line(1)]).rstrip(),
            b"nonsense",
            ndjson(
                [{"type": "pageview", "timestamp": "yesterday", "sessionId": "s", "amount": 1}]
            ).rstrip(),
            b"[" * 3000,
            b'{"type": "event", "name": "\xff"}',
            b'"text"',
            ndjson([line(2)]).rstrip(),
        ]
    )
    job = run_import(body)
    assert counts(job) == (7, 2, 0, 5)
    faults_by_line = {
        reject["line"]: {(fault["field"], fault["code"]) for fault in reject["errors"]}
        for reject in rejects(client, job)
    }
    assert faults_by_line == {
        2: {("", "not_json")},
        3: {
            ("timestamp", "not_a_time"),
            ("path", "required"),
            ("visitorId", "identity_required"),
            ("userId", "identity_required"),
            ("sessionId", "session_id_not_accepted"),
            ("amount", "not_for_type"),
        },
        4: {("", "not_json")},
        5: {("", "not_json")},
        6: {("", "wrong_type")},
    }


FAULTY: list[tuple[dict[str, Any], str, str]] = [
    ({"timestamp": None}, "timestamp", "not_a_time"),
    ({"timestamp": "2999-01-01T00:00:00Z"}, "timestamp", "timestamp_in_future"),
    ({"timestamp": "2020-01-01T00:00:00"}, "timestamp", "not_a_time"),
    ({"name": ""}, "name", "too_short"),
    ({"name": "a\x00"}, "name", "nul_character"),
    ({"type": "Event"}, "type", "not_one_of"),
    ({"websiteId": "web_x"}, "websiteId", "unknown_field"),
    ({"properties": {"$country": "NL"}}, "properties.$country", "reserved_property"),
    ({"properties": {"n": 2**70}}, "properties.n", "integer_out_of_range"),
    ({"properties": {"a\x00": 1}}, "properties.a\x00", "nul_character"),
    ({"properties": {"a\ud800": 1}}, "", "not_json"),
    ({"dedupeKey": "x" * 201}, "dedupeKey", "too_long"),
    ({"dedupeKey": "\x00ab"}, "dedupeKey", "nul_character"),
]


def test_a_line_is_held_to_the_rules_of_every_event(run_import, client):
    job = run_import([line(1) | change for change, _, _ in FAULTY])
    assert counts(job) == (len(FAULTY), 0, 0, len(FAULTY))
    assert [columns_of(reject["errors"], "field", "code") for reject in rejects(client, job)] == [
        [(field, code)] for _, field, code in FAULTY
    ]


@pytest.mark.usefixtures("warehouse")
def test_a_timestamp_is_required(run_import, client):
    job = run_import([{"type": "event", "name": "a", "visitorId": "v"}])
    [reject] = rejects(client, job)
    assert faults_in(reject) == {"timestamp": "required"}


def test_a_line_over_the_limit_is_rejected_and_the_next_one_read(run_import, client):
    job = run_import([line(1, properties={"a": "x" * 70_000}), line(2)])
    assert counts(job) == (2, 1, 0, 1)
    assert rejects(client, job)[0]["errors"][0]["code"] == "too_large"


@pytest.mark.every_database
def test_rejects_are_paged(run_import, client):
    job = run_import(b"{}\n" * 25)
    page = client.get(
        f"/api/imports/{job['id']}/rejects", params={"page": 2, "pageSize": 10}
    ).json()
    assert (page["page"], page["pageSize"], page["total"]) == (2, 10, 25)
    assert [reject["line"] for reject in page["data"]] == list(range(11, 21))


@pytest.mark.usefixtures("warehouse")
def test_a_damaged_gzip_fails_the_import_and_events_read_before_stay(run_import):
    whole = gzip.compress(
        ndjson([line(number, properties={"n": number * 7919}) for number in range(3000)])
    )
    job = run_import(whole[:-100])
    assert job["state"] == "failed"
    assert "truncated" in job["error"]
    assert job["accepted"] == job["linesRead"] - job["linesRead"] % 500
    assert run_import(whole)["state"] == "done"


@pytest.mark.parametrize("limits", [{"max_import_inflated_bytes": 1_000_000}])
def test_a_gzip_bomb_fails_the_import(run_import):
    job = run_import(b"{" + b"\0" * 10_000_000, zipped=True)
    assert (job["state"], job["rejected"]) == ("failed", 0)
    assert "1,000,000 bytes after decompression" in job["error"]


@pytest.mark.parametrize("limits", [{"max_import_bytes": 1000}])
def test_a_file_over_the_limit_is_413_and_leaves_nothing(client, workspace, settings):
    assert problem(upload(workspace, b"{" * 1001)) == (413, "too_large")
    assert list((settings.data / "imports").iterdir()) == []
    assert client.get("/api/imports").json()["total"] == 0


@cases(
    "headers",
    [
        {"Content-Type": "application/json"},
        {"Content-Type": "text/plain", "Content-Encoding": "br"},
    ],
)
def test_another_content_type_or_encoding_is_415(client, workspace, headers):
    answer = client.post(
        f"/api/imports?websiteId={workspace.website_id}", content=b"{}", headers=headers
    )
    assert problem(answer) == (415, "unsupported_media_type")


def test_a_file_name_is_shown_and_held_to_the_rules_of_names(workspace):
    named = upload(workspace, b"", fileName="März 2020.ndjson").json()
    assert named["fileName"] == "März 2020.ndjson"
    for name in ("a\x00", "a\n", "x" * 201):
        assert list(faults(upload(workspace, b"", fileName=name), 400)) == ["fileName"]


def test_the_website_must_be_named_and_be_the_callers_own(client, other_workspace):
    headers = {"Content-Type": "application/x-ndjson"}
    assert client.post("/api/imports", content=b"", headers=headers).status_code == 400
    foreign = upload_to(client, other_workspace.website_id, b"")
    assert problem(foreign) == (401, "website_not_owned")


def test_an_import_of_another_workspace_is_404(run_import, other_workspace):
    job = run_import([line(1)])
    for path in ("", "/rejects"):
        assert other_workspace.client.get(f"/api/imports/{job['id']}{path}").status_code == 404
    assert other_workspace.client.get("/api/imports").json()["total"] == 0


@cases(
    ("method", "path"), [("POST", ""), ("GET", ""), ("GET", "/imp_x"), ("GET", "/imp_x/rejects")]
)
def test_without_a_key_it_is_401(server, method, path):
    assert server.request(method, f"/api/imports{path}").status_code == 401


def test_imports_are_listed_newest_first_and_by_website(run_import, client, workspace, clock):
    first = run_import([line(1)])
    clock.advance(seconds=1)
    second = run_import([line(2)])
    page = client.get("/api/imports").json()
    assert [job["id"] for job in page["data"]] == [second["id"], first["id"]]
    assert page["data"][1] == {name: first[name] for name in first if name != "mapping"}
    answer = client.get("/api/imports", params={"websiteId": workspace.website_id, "pageSize": 1})
    assert answer.json()["total"] == 2
    assert client.get("/api/imports", params={"websiteId": "web_other"}).status_code == 401


def test_spans_are_of_the_events_of_imports(run_import, workspace, services):
    job = run_import([line(1), line(5)])
    run_import([line(1), line(5)])
    spans = services.imports.gaps(workspace.id, [workspace.website_id])
    assert [(span.website_id, span.to_ms - span.from_ms, span.state) for span in spans] == [
        (workspace.website_id, 4000, "done")
    ] * 2
    assert services.imports.gaps("wsp_other", [workspace.website_id]) == []
    assert job["firstEventAt"] == "2020-05-01T10:00:01.000Z"


def test_rejected_lines_widen_the_affected_range_by_their_timestamps(
    run_import, workspace, services
):
    def span():
        last = services.imports.gaps(workspace.id, [workspace.website_id])[-1]
        return tuple(map(iso, last.affected_range))

    without_visitor = {"visitorId": None}
    job = run_import([line(3), line(1) | without_visitor, line(9) | without_visitor, line(5)])
    assert (job["firstEventAt"], job["lastEventAt"]) == (
        "2020-05-01T10:00:03.000Z",
        "2020-05-01T10:00:05.000Z",
    )
    assert span() == ("2020-05-01T10:00:01.000Z", "2020-05-01T10:00:09.000Z")
    run_import([line(7) | without_visitor, line(8)])
    assert span() == ("2020-05-01T10:00:07.000Z", "2020-05-01T10:00:08.000Z")
    job = run_import(ndjson([line(8)]) + b"nonsense")
    assert span() == ("1970-01-01T00:00:00.000Z", job["createdAt"])
    run_import(
        [
            line(9),
            line(timestamp=10**30),
            line(timestamp="9999-12-31T23:59:59Z"),
            line(timestamp=1e300),
        ]
    )
    assert span() == ("2020-05-01T10:00:09.000Z", "2299-12-31T23:59:59.999Z")


@pytest.mark.usefixtures("warehouse")
def test_an_import_that_stopped_may_miss_events_of_any_time(run_import, workspace, services):
    lines = [line(number, properties={"n": str(number) * 300}) for number in range(3000)]
    job = run_import(gzip.compress(ndjson(lines))[:-200])
    assert (job["state"], job["accepted"] > 0) == ("failed", True)
    [span] = services.imports.gaps(workspace.id, [workspace.website_id])
    assert tuple(map(iso, span.affected_range)) == ("1970-01-01T00:00:00.000Z", job["createdAt"])


def test_a_stored_file_is_removed_when_its_import_is_done(run_import, settings):
    run_import([line(1)])
    # The file goes after the job's end is saved, not before.
    eventually(lambda: list((settings.data / "imports").iterdir()) == [])


@pytest.mark.usefixtures("warehouse")
def test_an_import_of_a_website_deleted_meanwhile_fails_with_the_reason(client, workspace):
    upload_to(client, new_website(client, "Other"), [line(number) for number in range(5000)])
    waiting = upload(workspace, [line(1)]).json()
    assert waiting["state"] == "queued"
    assert client.delete(f"/api/settings/websites/{workspace.website_id}").status_code == 204
    failed = finished(client, waiting["id"])
    assert (failed["state"], failed["error"]) == ("failed", "The website was deleted.")


def test_a_number_too_large_for_any_type_rejects_its_line_only(run_import, client):
    bought = {"type": "transaction", "transactionId": "t", "currency": "EUR", "amount": 10**400}
    job = run_import([line(1), line(2) | bought])
    assert (job["state"], counts(job)) == ("done", (2, 1, 0, 1))
    [reject] = rejects(client, job)
    assert faults_in(reject) == {"amount": "out_of_range"}
