"""The catalogue over HTTP: names, properties and values of accepted events."""

from collections import Counter
from random import Random
from typing import Any

import httpx
import pytest

from penstock.base.clock import system_clock
from penstock.base.ids import EventId, ScopeId, VisitorId, WebsiteId, new_id
from penstock.events.model import Kind, NewEvent, Source
from penstock.events.rows import EVENT_COLUMNS, event_row
from penstock.funnels.definitions.builtins import BUILTIN_COLUMNS, BUILTIN_FIELDS
from penstock.warehouse.client import Warehouse
from tests.answers import body_of, columns_of, faults_in, problem
from tests.cases import cases
from tests.one_server import one_server
from tests.records import new_key, new_website
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

TRAIT = "$trait.email"


def take(tenant: Tenant, *events: dict[str, Any], website_id: str | None = None) -> None:
    """Send events: items of a browser where they have a `type`, server events otherwise."""
    site = website_id or tenant.website_id
    items = [{"websiteId": site, "visitorId": "v"} | event for event in events]
    for route, batch in (
        ("/api/track", [item for item in items if "type" in item]),
        ("/api/v1/events/batch", [item for item in items if "type" not in item]),
    ):
        if batch:
            answer = tenant.client.post(route, json={"events": batch})
            assert (answer.status_code, answer.json()["accepted"]) == (202, len(batch)), answer.text


def fetch(tenant: Tenant, what: str, **parameters: Any) -> Any:
    return body_of(tenant.client.get(f"/api/schema/{what}", params=parameters))


def names(tenant: Tenant, **parameters: Any) -> list[str]:
    return [seen["name"] for seen in fetch(tenant, "events", **parameters)["data"]]


def own_properties(tenant: Tenant, **parameters: Any) -> list[str]:
    return [
        seen["property"]
        for seen in fetch(tenant, "properties", pageSize=100, **parameters)["data"]
        if not seen["builtin"]
    ]


def values(tenant: Tenant, property_: str, **parameters: Any) -> list[tuple[Any, int]]:
    return columns_of(
        fetch(tenant, "values", property=property_, **parameters)["data"], "value", "count"
    )


def of(value: Any, **more: Any) -> dict[str, Any]:
    return {"event": "e", "properties": {"p": value}} | more


@pytest.fixture
def second_site(workspace: Tenant) -> str:
    return new_website(workspace.client, "App", "mobile")


def test_names_have_kind_count_and_last_time(workspace):
    take(
        workspace,
        {"event": "paid", "timestamp": "2024-05-02T10:00:00Z"},
        {"event": "paid", "timestamp": "2024-05-01T10:00:00Z"},
        {"event": "paid", "timestamp": "2024-05-01T11:00:00Z"},
        {"type": "pageview", "path": "/pricing", "timestamp": "2024-05-03T00:00:00Z"},
        {"type": "pageview", "path": "/pricing/", "timestamp": "2024-05-03T00:00:01Z"},
        {"type": "screenview", "screen": "Home", "timestamp": "2024-05-04T00:00:00Z"},
    )
    purchase = {
        "websiteId": workspace.website_id,
        "userId": "u",
        "event": "paid",
        "amount": 5,
        "currency": "EUR",
        "transactionId": "t",
    }
    answer = workspace.client.post(
        "/api/v1/transactions", json=purchase | {"timestamp": "2024-05-05T00:00:00Z"}
    )
    assert answer.status_code == 202
    assert fetch(workspace, "events") == {
        "data": [
            {"name": "paid", "kind": "event", "count": 3, "lastSeenAt": "2024-05-02T10:00:00.000Z"},
            {
                "name": "/pricing", "kind": "pageview", "count": 2,
                "lastSeenAt": "2024-05-03T00:00:01.000Z",
            },
            {
                "name": "Home", "kind": "screenview", "count": 1,
                "lastSeenAt": "2024-05-04T00:00:00.000Z",
            },
            {
                "name": "paid", "kind": "transaction", "count": 1,
                "lastSeenAt": "2024-05-05T00:00:00.000Z",
            },
        ],
        "page": 1, "pageSize": 20, "total": 4,
    }  # fmt: skip
    assert fetch(workspace, "events", kind="transaction")["total"] == 1


TRICKY = ["100%_off", "100x_off", "ключ", "кл", "a'b", "a\\nb", "a\tb", 'q"', "Upper"]


@pytest.fixture
def tricky(workspace):
    take(workspace, *({"event": name, "properties": {name: name, "p": name}} for name in TRICKY))


@pytest.mark.usefixtures("tricky")
@cases(
    ("search", "expected"),
    [
        ("100%", {"100%_off"}),
        ("100_", set()),
        ("_OFF", {"100%_off", "100x_off"}),
        ("ЛЮ", {"ключ"}),
        ("100", {"100%_off", "100x_off"}),
        ("кл", {"ключ", "кл"}),
        ("клю", {"ключ"}),
        ("a'", {"a'b"}),
        ("a\\", {"a\\nb"}),
        ("a\t", {"a\tb"}),
        ('q"', {'q"'}),
        ("u", {"Upper"}),
        ("", set(TRICKY)),
    ],
)
def test_a_search_is_plain_text_of_either_case(workspace, search, expected):
    assert set(names(workspace, search=search)) == expected
    assert set(own_properties(workspace, search=search)) - {"p"} == expected
    assert {value for value, _ in values(workspace, "p", search=search)} == expected


def test_properties_have_the_types_of_their_values(workspace):
    sent = [
        "pro",
        "free",
        5,
        0.5,
        True,
        {"a": 1},
        [1],
        None,
    ]  # equally common types come by their names
    take(
        workspace,
        *(of(value, timestamp=f"2024-05-0{day}T00:00:00Z") for day, value in enumerate(sent, 1)),
        {"event": "f"},
    )
    [seen] = [entry for entry in fetch(workspace, "properties")["data"] if entry["property"] == "p"]
    assert seen == {
        "property": "p", "builtin": False, "count": 7, "lastSeenAt": "2024-05-07T00:00:00.000Z",
        "types": [
            {"type": "number", "count": 2, "lastSeenAt": "2024-05-04T00:00:00.000Z"},
            {"type": "object", "count": 2, "lastSeenAt": "2024-05-07T00:00:00.000Z"},
            {"type": "string", "count": 2, "lastSeenAt": "2024-05-02T00:00:00.000Z"},
            {"type": "boolean", "count": 1, "lastSeenAt": "2024-05-05T00:00:00.000Z"},
        ],
        "distinctValues": None,
    }  # fmt: skip


def test_values_keep_their_json_type(workspace):
    take(
        workspace,
        *map(of, ["1", 1, 1.0, 1, True, "true", "", 0.1, -5, 2**64 - 1, [1], 'ü "q" \\ / \n']),
    )
    answer = fetch(workspace, "values", property="p")
    entries = [(type(seen["value"]), seen["value"], seen["count"]) for seen in answer["data"]]
    assert entries[0] == (int, 1, 3)
    assert set(entries[1:]) == {
        (str, "1", 1), (bool, True, 1), (str, "true", 1), (str, "", 1), (float, 0.1, 1),
        (int, -5, 1), (int, 2**64 - 1, 1),
        (str, "ü \"q\" \\ / \n", 1),
    }  # fmt: skip
    assert (answer["total"], answer["complete"]) == (9, True)


def test_properties_and_values_of_one_event(workspace):
    take(
        workspace,
        {"event": "paid", "properties": {"plan": "pro", "paid only": 1}},
        {"event": "left", "properties": {"plan": "free"}},
        {"type": "pageview", "path": "/a", "properties": {"plan": "team", "page only": 1}},
        {"type": "pageview", "path": "/b", "properties": {"b only": 1}},
    )
    assert own_properties(workspace, event="left") == ["plan"]
    assert set(own_properties(workspace, event="paid")) == {"plan", "paid only"}
    assert own_properties(workspace, event="nobody sent this") == []
    assert values(workspace, "plan", event="paid") == [("pro", 1)]
    assert set(values(workspace, "plan")) == {("pro", 1), ("free", 1), ("team", 1)}
    assert values(workspace, "plan", kind="pageview") == [("team", 1)]


def test_properties_of_one_event_say_how_many_different_values_they_have(workspace):
    take(
        workspace,
        *({"event": "paid", "properties": {"id": f"{n}", "n": n, "plan": "pro"}} for n in range(9)),
        {"event": "left", "properties": {"plan": "free", "id": "9"}},
    )

    def counted(**parameters):
        listed = fetch(workspace, "properties", **parameters)["data"]
        return {seen["property"]: seen["distinctValues"] for seen in listed}

    assert {"id": 9, "n": 9, "plan": 1}.items() <= counted(event="paid").items()
    assert set(counted().values()) == {None}


def test_a_path_selects_all_page_views(workspace):
    take(
        workspace,
        *({"type": "pageview", "path": f"/{page}", "properties": {page: 1}} for page in "ab"),
        {"event": "e"},
    )
    assert set(own_properties(workspace, event="/a")) == {"a", "b"}
    assert own_properties(workspace, event="/unknown") == []


def test_built_in_fields_are_properties_with_values(workspace):
    page = {
        "type": "pageview",
        "url": "https://shop.example/pricing?utm_source=news",
        "referrer": "https://search.example/?q=1",
    }
    take(
        workspace,
        page,
        {"event": "paid", "country": "DE", "externalSessionId": "s1"},
        {"event": "paid", "country": "FR"},
    )
    entries = {
        seen["property"]: seen for seen in fetch(workspace, "properties", search="$")["data"]
    }
    assert entries.keys() <= set(BUILTIN_FIELDS)
    assert {
        "$path",
        "$referrer_host",
        "$country",
        "$utm_source",
        "$source",
        "$external_session_id",
    } <= entries.keys()
    assert all(seen["builtin"] for seen in entries.values())
    assert (
        entries["$country"]["count"],
        [entry["type"] for entry in entries["$country"]["types"]],
    ) == (2, ["string"])
    assert values(workspace, "$country") == [("DE", 1), ("FR", 1)]
    assert values(workspace, "$path") == [("/pricing", 1)]
    assert values(workspace, "$source") == [("server", 2), ("browser", 1)]
    assert values(workspace, "$utm_source", event="paid") == []


def test_fields_of_touches_are_suggested_for_every_event(workspace):
    page = {"type": "pageview", "path": "/", "url": "https://shop.example/?utm_source=news"}
    take(workspace, page, {"event": "paid"})
    listed = fetch(workspace, "properties", event="paid", search="utm")["data"]
    assert {(seen["property"], seen["count"], seen["builtin"]) for seen in listed} == {
        ("$first_utm_source", 1, True),
        ("$last_utm_source", 1, True),
    }
    assert values(workspace, "$last_utm_source", event="paid") == [("news", 1)]


def test_every_built_in_field_is_in_the_catalogue(warehouse, workspace):
    """Held against the fields that funnels know, with rows that have all of them."""
    columns = {column: f'["{column}' for column in BUILTIN_COLUMNS.values() if column != "source"}
    put(warehouse, workspace.website_id, [{}], columns=columns)
    for field, column in BUILTIN_COLUMNS.items():
        assert values(workspace, field) == [(columns.get(column, "server"), 1)], field


def test_one_website_or_all_of_the_workspace(workspace, other_workspace, second_site):
    take(workspace, of("here"))
    take(workspace, of("there", event="f"), website_id=second_site)
    take(other_workspace, of("elsewhere", event="g"))
    assert names(workspace) == ["e", "f"]
    assert names(workspace, websiteId=second_site) == ["f"]
    assert values(workspace, "p", websiteId=second_site) == [("there", 1)]
    assert values(workspace, "p") == [("here", 1), ("there", 1)]
    assert own_properties(workspace, event="g") == []
    assert (names(other_workspace), values(other_workspace, "p")) == (["g"], [("elsewhere", 1)])


def test_a_workspace_without_events_or_websites_has_empty_lists(workspace):
    empty = {"data": [], "page": 1, "pageSize": 20, "total": 0}
    for _ in range(2):
        assert fetch(workspace, "events") == fetch(workspace, "properties") == empty
        assert fetch(workspace, "values", property="p") == empty | {"complete": True}
        workspace.client.delete(f"/api/settings/websites/{workspace.website_id}")


@pytest.fixture
def ranked(workspace):
    """Seven names, properties and values, the first of which is the most frequent."""
    shared = [
        {"event": f"x{n}", "properties": {f"x{n}": 1, "p": f"x{n}"}}
        for n in range(7)
        for _ in range(7 - n)
    ]
    take(workspace, *shared)


@pytest.mark.usefixtures("ranked")
@cases(("what", "key"), [("events", "name"), ("properties", "property"), ("values", "value")])
def test_lists_are_paged_most_frequent_first(workspace, what, key):
    narrowed = {"search": "x"} | ({"property": "p"} if what == "values" else {})
    pages = [fetch(workspace, what, page=page, pageSize=3, **narrowed) for page in (1, 2, 3, 4)]
    assert [[seen[key] for seen in page["data"]] for page in pages] == [
        ["x0", "x1", "x2"],
        ["x3", "x4", "x5"],
        ["x6"],
        [],
    ]
    assert {(page["total"], page["pageSize"]) for page in pages} == {(7, 3)}
    assert [seen["count"] for seen in pages[0]["data"]] == [7, 6, 5]


def put(
    warehouse: Warehouse,
    website_id: str,
    properties: list[dict[str, Any]],
    *,
    token: str = "",
    columns: Any = None,
) -> None:
    """Ship one event of each properties, past the intake. A repeat has the same event IDs."""
    now_ms = system_clock()
    token = token or new_id("tok", now_ms)
    rows = [
        event_row(
            NewEvent(
                WebsiteId(website_id), ScopeId(website_id), Kind.EVENT, "e", Source.SERVER,
                now_ms, now_ms, now_ms, "v", None, b"",
                columns=columns or {}, properties=entry,
            ),
            EventId(f"{token}-{number}"), VisitorId("v"),
        )
        for number, entry in enumerate(properties)
    ]  # fmt: skip
    warehouse.insert_json_rows("events", "\n".join(rows).encode(), EVENT_COLUMNS, token)


def test_a_repeated_shipment_counts_once(workspace, warehouse):
    token = new_id("tok", system_clock())
    for _ in range(3):
        put(warehouse, workspace.website_id, [{"p": "a"}] * 3, token=token)
    put(warehouse, workspace.website_id, [{"p": "a"}] * 3)
    assert [seen["count"] for seen in fetch(workspace, "events")["data"]] == [6]
    assert values(workspace, "p") == [("a", 6)]


def test_an_interrupted_shipment_is_repeated_without_loss_or_duplicates(workspace, warehouse):
    """The insert fails in the view, after the events' table had its part in the making."""
    token, site = new_id("tok", system_clock()), workspace.website_id
    put(warehouse, site, [{"p": "a"}])
    put(warehouse, site, [{"p": "a"}])
    warehouse.command("SYSTEM STOP MERGES catalogue")
    warehouse.command(
        "ALTER TABLE catalogue MODIFY SETTING parts_to_delay_insert = 1, parts_to_throw_insert = 1"
    )
    try:
        with pytest.raises(Exception, match="Too many parts"):
            put(warehouse, site, [{"p": "a"}], token=token)
    finally:
        warehouse.command(
            "ALTER TABLE catalogue RESET SETTING parts_to_delay_insert, parts_to_throw_insert"
        )
        warehouse.command("SYSTEM START MERGES catalogue")
    for _ in range(2):
        put(warehouse, site, [{"p": "a"}], token=token)
    stored = warehouse.query(
        "SELECT count() FROM events WHERE website_id = {site:String}", {"site": site}
    )[1]
    assert ([tuple(row) for row in stored], values(workspace, "p")) == ([(3,)], [("a", 3)])


@one_server("a table over shards cannot be merged by OPTIMIZE")
def test_a_property_with_many_values_is_bounded_and_incomplete(workspace, warehouse):
    """An attempt ID and a skewed value, in several inserts. Counts are close lower bounds."""
    random, expected_counts, site = Random(7), Counter[str](), workspace.website_id
    for _ in range(5):
        batch = [
            {
                "id": f"attempt-{random.getrandbits(60):x}",
                "city": f"c{int(random.paretovariate(1))}",
            }
            for _ in range(4000)
        ]
        expected_counts.update(entry["city"] for entry in batch)
        put(warehouse, site, batch)
    warehouse.command("OPTIMIZE TABLE catalogue FINAL")
    ids, cities = (
        fetch(workspace, "values", property=name, pageSize=100) for name in ("id", "city")
    )
    assert (ids["complete"], ids["total"] <= 100, {seen["count"] for seen in ids["data"]}) == (
        False,
        True,
        {1},
    )
    assert (cities["complete"], len(expected_counts) > 200) == (False, True)
    assert all(seen["count"] <= expected_counts[seen["value"]] for seen in cities["data"])
    for (city, count), seen in zip(
        expected_counts.most_common(10), cities["data"][:10], strict=True
    ):
        assert (seen["value"], seen["count"] >= 0.95 * count) == (city, True)
    [(size,)] = warehouse.query(
        "SELECT sum(length(toString(top))) FROM catalogue "
        "WHERE website_id = {site:String} AND property = 'id'",
        {"site": site},
    )[1]
    assert size < 50_000, "twenty thousand IDs of 24 bytes are a list of a hundred"


def test_a_list_without_its_long_values_is_not_complete(workspace):
    take(workspace, of("short"), of("x" * 300))
    answer = fetch(workspace, "values", property="p")
    assert ([seen["value"] for seen in answer["data"]], answer["complete"]) == (["short"], False)
    [seen] = [entry for entry in fetch(workspace, "properties")["data"] if entry["property"] == "p"]
    assert seen["count"] == 2


@cases(
    ("what", "parameters", "field", "code"),
    [
        ("values", {}, "property", "required"),
        ("values", {"property": ""}, "property", "too_short"),
        ("values", {"property": "$nonsense"}, "property", "unknown_builtin"),
        ("values", {"property": "x" * 201}, "property", "too_long"),
        ("values", {"property": "p", "event": ""}, "event", "too_short"),
        ("properties", {"event": "x" * 2001}, "event", "too_long"),
        ("properties", {"event": "a\0"}, "event", "nul_character"),
        ("events", {"search": "\0"}, "search", "nul_character"),
        ("events", {"kind": "click"}, "kind", "not_one_of"),
        ("events", {"event": "a"}, "event", "unknown_field"),
        ("events", {"page": "0"}, "page", "greater_than_equal"),
        ("properties", {"pageSize": "101"}, "pageSize", "less_than_equal"),
        ("events", {"search": ["a", "b"]}, "search", "repeated"),
    ],
)
def test_a_malformed_parameter_is_400_and_named(workspace, what, parameters, field, code):
    answer: httpx.Response = workspace.client.get(f"/api/schema/{what}", params=parameters)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (400, "bad_parameter")
    assert faults_in(problem) == {field: code}


def test_unusual_but_valid_parameters_are_accepted(workspace):
    for text in ("%", "\\", "'", "{x:String}", "\ud7ff", "\U0001f600", "\n"):
        for what in ("events", "properties"):
            assert fetch(workspace, what, search=text)["total"] == 0
        assert fetch(workspace, "values", property=text, event=text, search=text)["total"] == 0
    assert fetch(workspace, "events", page=2**31 - 1)["data"] == []


def test_traits_are_listed_with_the_numbers_of_their_visitors(workspace):
    take(workspace, {"event": "e", "properties": {"plan": "pro"}})
    traits = [{"plan": "pro", "age": 5}, {"plan": "basic"}, {"plan": 5}, {"plan": "pro"}]
    for index, of_user in enumerate([*traits, {"plan": {}}]):
        body = {
            "websiteId": workspace.website_id,
            "visitorId": f"v{index}",
            "userId": f"u{index}",
            "traits": of_user,
        }
        assert workspace.client.post("/api/identify", json=body).status_code == 200
    listed = fetch(workspace, "properties", search="trait.", event="other", pageSize=100)["data"]
    assert [(seen["property"], seen["count"], seen["builtin"]) for seen in listed] == [
        ("$trait.plan", 4, True),
        ("$trait.age", 1, True),
    ]
    types = [{"type": "string", "count": 3, "lastSeenAt": None}]
    types += [{"type": "number", "count": 1, "lastSeenAt": None}]
    assert (listed[0]["types"], listed[0]["lastSeenAt"]) == (types, None)
    assert values(workspace, "$trait.plan") == [("pro", 2), (5, 1), ("basic", 1)]
    assert values(workspace, "$trait.plan", search="PR") == [("pro", 2)]
    assert fetch(workspace, "values", property="$trait.plan")["complete"] is True
    assert values(workspace, "$trait.none") == []


def test_a_key_for_one_website_lists_no_traits_that_may_come_from_another(workspace):
    """Traits belong to visitors, which websites with the same identityScope share."""

    def site() -> str:
        return new_website(workspace.client, identityScope="shop")

    def read(what: str, **parameters: Any) -> httpx.Response:
        return workspace.browser.get(
            f"/api/schema/{what}", params={"websiteId": own} | parameters, headers=limited
        )

    own = site()
    key = new_key(workspace.browser, scopes=["read"], websiteId=own)
    limited = {"Authorization": f"Bearer {key}", "Cookie": ""}
    for email, may_list in (("ann@own", True), ("bob@other", False)):
        website_id = own if may_list else site()
        body = {"websiteId": website_id, "visitorId": email, "userId": email}
        body["traits"] = {"email": email}
        assert workspace.client.post("/api/identify", json=body).status_code == 200
        listed, answer = read("properties", search="trait."), read("values", property=TRAIT)
        assert [row["property"] for row in body_of(listed)["data"]] == [TRAIT] * may_list
        if may_list:
            assert [row["value"] for row in answer.json()["data"]] == [email]
        else:
            assert problem(answer) == (403, "website_not_of_key")
    assert values(workspace, TRAIT, websiteId=own) == [("ann@own", 1), ("bob@other", 1)]
