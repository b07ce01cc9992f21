"""The API document says what routes do. Random requests hold them to it in tests/fuzz."""

import re

import pytest

from tests.tenant import visitor


@pytest.fixture
def document(server):
    return server.get("/api/openapi.json").json()


def _address(path: str) -> str:
    return re.sub(r"\{\w+\}", "x", path)


def test_allow_lists_every_method_of_an_address(server, document):
    client = visitor(server)
    allowed = {
        (request, path): set(
            client.request(request, _address(path)).headers.get("allow", "").split(", ")
        )
        for path in document["paths"]
        for request in ("OPTIONS", "TRACE")
    }
    documented = {
        path: {"OPTIONS", *map(str.upper, methods), *(["HEAD"] if "get" in methods else [])}
        for path, methods in document["paths"].items()
    }
    assert len(allowed) > 100
    assert {key: methods for key, methods in allowed.items() if methods != documented[key[1]]} == {}


def test_operations_and_schemas_have_names_of_their_own(document):
    operations = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(operations)) == len(operations) > 100
    # Of two classes with one name, the document spells out the module.
    assert [name for name in document["components"]["schemas"] if "__" in name] == []


def test_a_field_that_is_null_by_default_may_be_sent_as_null(document):
    wrong = [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, shape in schema.get("properties", {}).items()
        if shape.get("default", ...) is None and {"type": "null"} not in shape.get("anyOf", [])
    ]
    assert wrong == []


def test_what_creates_a_record_links_to_the_routes_of_the_record(document):
    links = document["paths"]["/api/goals"]["post"]["responses"]["201"]["links"]
    assert set(links) == {"read_goal", "change_goal", "delete_goal"}
    assert links["read_goal"]["parameters"] == {"goal_id": "$response.body#/id"}


@pytest.mark.parametrize(
    ("path", "media"),
    [
        ("/api/personal-data", ["application/x-ndjson"]),
        ("/api/events/refused/export", ["application/x-ndjson"]),
        ("/api/mobile/deferred-links/{link_id}/qr", ["image/svg+xml", "image/png"]),
    ],
)
def test_the_media_type_of_files_is_documented(document, path, media):
    assert list(document["paths"][path]["get"]["responses"]["200"]["content"]) == media


def test_a_route_that_changes_something_needs_a_member(document):
    paths = document["paths"]
    assert paths["/api/goals"]["post"]["security"] == [{"key": ["manage"]}, {"session": ["member"]}]
    assert paths["/api/goals"]["get"]["security"] == [{"key": ["read"]}, {"session": []}]
    assert paths["/api/funnels/preview"]["post"]["security"][-1] == {"session": []}
    assert paths["/api/auth/password"]["post"]["security"] == [{"session": []}]


KEYED = ("/api/v1/events", "/api/v1/events/batch", "/api/v1/transactions")


def test_routes_that_accept_only_a_key_list_no_session(workspace, document):
    operations = {path: document["paths"][path]["post"] for path in KEYED}
    assert {path: operation["security"] for path, operation in operations.items()} == {
        path: [{"key": ["ingest"]}] for path in KEYED
    }
    assert {workspace.browser.post(path, json={}).status_code for path in KEYED} == {401}


@pytest.mark.slow("opens every list")
def test_a_session_is_listed_only_where_it_is_accepted(workspace, document):
    listed = [
        path
        for path, methods in document["paths"].items()
        if "{" not in path and {"session": []} in methods.get("get", {}).get("security", [])
    ]
    assert len(listed) > 20
    assert [path for path in listed if workspace.browser.get(path).status_code == 401] == []


def test_the_legacy_header_of_backends_is_documented(document):
    for path in KEYED:
        [header] = document["paths"][path]["post"]["parameters"]
        assert (header["name"], header["in"]) == ("x-service-identity-contract", "header")
        assert (header["required"], header["schema"]["enum"]) == (False, ["legacy-user-id"])
        assert "`userId`" in header["description"]


@pytest.mark.parametrize(
    "name", ["ServerEvent", "TransactionEvent", "TrackItem", "TrackBatch", "Identify"]
)
def test_every_field_of_what_senders_send_is_described(document, name):
    fields = document["components"]["schemas"][name]["properties"]
    assert [field for field, rule in fields.items() if not rule.get("description")] == []


def test_tracking_is_documented_with_one_item_and_with_many(document):
    schemas = document["components"]["schemas"]
    assert [part["$ref"].rpartition("/")[2] for part in schemas["Tracked"]["anyOf"]] == [
        "TrackItem",
        "TrackBatch",
    ]


def test_counts_of_events_have_the_documented_shape(workspace, document):
    answer = document["paths"]["/api/events/counts"]["get"]["responses"]["200"]
    name = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    counts = workspace.client.get("/api/events/counts").json()
    assert list(counts) == list(document["components"]["schemas"][name]["properties"])


def test_what_only_people_may_do_is_documented_as_theirs(workspace, document):
    """Only for these routes an API key is refused with `session_required`."""
    by_session = {
        path
        for path, methods in document["paths"].items()
        if methods.get("get", {}).get("security") == [{"session": []}]
    }
    refused = {
        path
        for path, methods in document["paths"].items()
        if "get" in methods and "{" not in path and methods["get"].get("security")
        if "session_required" in workspace.client.get(path).text
    }
    assert len(refused) >= 4
    assert by_session == refused


def test_docstrings_of_fields_are_their_descriptions(document):
    """Fields that a record inherits keep theirs."""
    schemas = document["components"]["schemas"]
    own = schemas["DeletionRecord"]["properties"]["createdAt"]
    inherited = schemas["QuarantinedContent"]["properties"]["number"]
    assert own["description"] == "Events received later are not deleted."
    assert inherited["description"] == "Increases with each entry."
