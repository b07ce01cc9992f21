"""JSON lines of any shape, whose mapping has paths: parts, other parts, faults and limits."""

import json

import pytest

from tests.answers import body_of, problem
from tests.cases import cases
from tests.events.conftest import finished, imported, ndjson, upload
from tests.events.imports.conftest import counts, rejects, stored
from tests.events.imports.exported import parquet
from tests.waiting import eventually

PAGE = {"key": "page_url", "value": {"text": "https://shop.example/a"}}
LINE = {
    "at": "2024-05-01T10:00:00Z",
    "user": {"id": 17, "plan": "pro"},
    "event": {"name": "paid"},
    "params": [PAGE, {"key": "n", "value": {"number": 3}}],
    "items": [{"sku": "a"}, {"sku": "b"}],
}
COLUMNS = [
    {"column": "at", "use": "time", "unit": "text"},
    {"column": "user.id", "use": "user"},
    {"column": "event.name", "use": "event"},
    {"column": "params[key=page_url].value.text", "use": "field", "name": "url"},
    {"column": "items[1].sku", "use": "property", "name": "second"},
]


def mapping(*columns, **more):
    return json.dumps({"columns": [*COLUMNS, *columns], **more})


@pytest.mark.usefixtures("warehouse")
@cases(
    ("others", "properties"),
    [
        ("ignored", {"second": "b"}),
        ("property", {"second": "b", "plan": "pro", "n": 3, "items": LINE["items"]}),
    ],
)
def test_the_columns_of_a_mapping_are_paths(workspace, services, others, properties):
    content = ndjson([{**LINE, "user": {**LINE["user"], "id": others}}])
    job = imported(workspace, content, mapping=mapping(otherColumns=others))
    assert (job["format"], counts(job)) == ("ndjson", (1, 1, 0, 0))
    rows = stored(services, workspace.website_id, "user_id, name, url, properties")
    [row] = [row for row in rows if row[0] == others]
    assert row[1:3] == ("paid", "https://shop.example/a")
    assert json.loads(row[3]) == properties


@pytest.mark.usefixtures("warehouse")
def test_paths_lead_into_the_structs_of_parquet(workspace, services):
    columns = {name: [value] for name, value in LINE.items()}
    columns["params"] = [[PAGE, {"key": "other", "value": {"text": "x"}}]]
    job = imported(
        workspace,
        parquet(columns),
        "application/vnd.apache.parquet",
        mapping=mapping(otherColumns="ignored"),
    )
    assert counts(job) == (1, 1, 0, 0)
    rows = stored(services, workspace.website_id, "user_id, url, properties")
    assert rows == [("17", "https://shop.example/a", '{"second":"b"}')]


def test_a_part_that_the_mapping_does_not_list_is_an_error_that_names_it(workspace, client):
    job = imported(workspace, ndjson([LINE]), mapping=mapping())
    [fault] = rejects(client, job)[0]["errors"]
    assert (fault["field"], fault["code"]) == ("user.plan", "not_in_mapping")


def test_a_faulty_line_costs_no_other_line(workspace, client):
    deep = json.loads("[" * 40 + "]" * 40)
    faulty = [
        {**LINE, "user": {"plan": "pro"}},
        {**LINE, "at": "soon"},
        {**LINE, "items": [[]] * 6_000},
        {**LINE, "items": deep},
        ["no object"],
    ]
    lines = [LINE, *(part for line in faulty for part in (line, LINE))]
    job = imported(workspace, ndjson(lines), mapping=mapping(otherColumns="property"))
    assert counts(job) == (len(lines), len(faulty) + 1, 0, len(faulty))
    codes = [reject["errors"][0]["code"] for reject in rejects(client, job)]
    assert codes[:3] == ["identity_required", "not_a_time", "too_many_values"]


@cases(
    ("path", "reason"),
    [
        ("a..b", "two dots in a row"),
        ("a[b]", "without an index or key=value"),
        ("a[0]b", "no dot after a bracket"),
        ("a[0", "open bracket"),
        (".".join("abcdefghijk"), "more than 10 steps"),
    ],
)
def test_a_wrong_path_is_an_error_that_says_what_is_wrong(workspace, path, reason):
    sent = mapping({"column": path, "use": "property", "name": "p"})
    answer = upload(workspace, ndjson([LINE]), mapping=sent)
    assert problem(answer) == (415, "not_ndjson")
    assert reason in answer.json()["detail"]


def summary_of(client, job):
    return eventually(
        lambda: (
            (answer := client.get(f"/api/imports/{job['id']}/summary")).status_code == 200
            and answer.json()
        )
    )


@pytest.mark.usefixtures("warehouse")
def test_a_dry_run_guesses_the_paths_and_events_need_no_mapping(workspace, client):
    job = body_of(upload(workspace, ndjson([LINE]), dryRun="true"), 201)
    summary = summary_of(client, job)
    uses = {each["column"]: each["use"] for each in summary["mapping"]["columns"]}
    assert uses["user.id"] == "user"
    assert uses["event.name"] == "event"
    assert uses["params[key=page_url].value.text"] == "field"
    assert (summary["events"], summary["error"]) == (1, None)
    assert body_of(client.post(f"/api/imports/{job['id']}/start"))["state"] == "queued"
    assert finished(client, job["id"])["accepted"] == 1
    event = {"type": "event", "name": "a", "timestamp": LINE["at"], "userId": "u"}
    job = body_of(upload(workspace, ndjson([event]), dryRun="true"), 201)
    summary = summary_of(client, job)
    assert (summary["mapping"], summary["sample"], summary["events"]) == (None, None, 1)


def test_many_paths_into_a_long_list_are_read_in_a_moment(workspace):
    items = [{"key": str(number), "n": number} for number in range(2_000)]
    paths = [
        {"column": f"list[key={number}].n", "use": "property", "name": f"p{number}"}
        for number in range(200)
    ]
    line = {**LINE, "list": items}
    job = imported(workspace, ndjson([line] * 20), mapping=mapping(*paths, otherColumns="ignored"))
    assert job["accepted"] == 20
