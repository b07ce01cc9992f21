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
