"""Every rule of a definition, over HTTP: bodies that are rejected and bodies that are stored."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from penstock.app import Services, build_services
from penstock.base.event_limits import MAX_NAME_CHARS, MAX_PATH_CHARS
from penstock.funnels.definitions.definition import resolve
from penstock.funnels.definitions.filters import parse_comparison
from penstock.funnels.definitions.matches import resolve_match
from penstock.funnels.definitions.model import Definition, Filter, GoalUse, Match, MatchType, Row
from penstock.funnels.definitions.operands import NumberRange
from penstock.funnels.definitions.operators import Comparison, Operator
from penstock.funnels.definitions.schema import (
    GoalRecord,
    SavedFilter,
    SavedMatch,
    ValidationContext,
)
from penstock.funnels.saved.schema import FunnelIn
from penstock.http.bodies import parse_model
from penstock.metadb.database import Database
from penstock.settings import Settings
from penstock.stores import Stores
from penstock.warehouse.client import Warehouse
from tests.applications import application
from tests.funnels.answers import faults
from tests.funnels.scenario import READ_ONLY, pick, where
from tests.tenant import BASE_URL, sign_up

Json = dict[str, Any]


def migrated_services(settings: Settings, warehouse: Warehouse) -> Services:
    database = Database(settings.metadb_url)
    database.migrate()
    return build_services(settings, stores=Stores(database, warehouse))


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, warehouse: Warehouse
) -> Iterator[httpx.Client]:
    """One workspace for all tests, as none depends on what another test saves."""
    settings = Settings(data=tmp_path_factory.mktemp("definitions"), public_url=BASE_URL)
    services = migrated_services(settings, warehouse)
    with TestClient(application(services), base_url=BASE_URL) as server:
        yield sign_up(server, services.accounts.setup_token).client


ATTEMPTS = {"countingUnit": "attempt", "attemptProperty": "attempt_id"}


def event(value: str = "a", **more: Any) -> Json:
    """A step or match of type Event. or_: its `or` rows."""
    return {
        "type": "Event",
        "value": value,
        **{name.rstrip("_"): given for name, given in more.items()},
    }


def funnel(**changes: Any) -> Json:
    return {"name": "Checkout", "steps": [event("a"), event("b")], **changes}


def attempts(**changes: Any) -> Json:
    return funnel(**{**ATTEMPTS, **changes})


def then(*rows: Json) -> Json:
    """Return a funnel whose first step is any event named a."""
    return funnel(steps=[event(), *rows])


def page(path: str, **more: Any) -> Json:
    return event(path, type="Pageview", **more)


def by(*properties: Any) -> Json:
    return attempts(breakdownProperties=list(properties))


def keyed(*keys: str) -> Json:
    return funnel(countingUnit="attempt", attemptProperties=list(keys))


def lasting(seconds: Any) -> Json:
    return funnel(conversionWindowSeconds=seconds)


def window(value: float, unit: str, **changes: Any) -> Json:
    return funnel(conversionWindow={"value": value, "unit": unit}, **changes)


def filtered(operator: str, *value: str) -> Json:
    return funnel(steps=[event(filters=[where("plan", operator, *value)]), event("b")])


def refused(client: httpx.Client, body: Any) -> list[str]:
    """Field and code of each fault in the response to a rejected body."""
    answer = client.post("/api/funnels", json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    return faults(answer)


def group(*parts: Json) -> Json:
    return event("p", mode="all_of", or_=list(parts))


REFUSED: dict[str, tuple[Any, list[str]]] = {
    "not an object": ([], ["body wrong_type"]),
    "nothing": ({}, ["name required", "steps required"]),
    "unknown field": (funnel(colour="red"), ["colour unknown_field"]),
    "snake case": (funnel(counting_unit="visitor"), ["counting_unit unknown_field"]),
    "empty name": (funnel(name=""), ["name too_short"]),
    "long name": (funnel(name="n" * 201), ["name too_long"]),
    "NUL in name": (funnel(name="a\0b"), ["name control_character"]),
    "name is a number": (funnel(name=5), ["name wrong_type"]),
    "steps is an object": (funnel(steps={}), ["steps wrong_type"]),
    "no step": (funnel(steps=[]), ["steps too_few_steps"]),
    "1 step": (funnel(steps=[event()]), ["steps too_few_steps"]),
    "1 required step": (then(event("d", diagnostic=True)), ["steps too_few_steps"]),
    "21 required steps": (funnel(steps=[event()] * 21), ["steps too_many_steps"]),
    "31 rows": (
        funnel(steps=[event()] * 20 + [event("d", diagnostic=True)] * 11),
        ["steps too_many"],
    ),
    "31 required rows": (funnel(steps=[event()] * 31), ["steps too_many", "steps too_many_steps"]),
    "only wildcards": (
        funnel(steps=[event("**"), event("b", or_=[event("***")])]),
        ["steps[0].value not_a_name", "steps[1].or[0].value not_a_name"],
    ),
    "any screen, any transaction": (
        funnel(steps=[event("*", type="Screen view"), event("*", type="Transaction")]),
        ["steps[0].value not_a_name", "steps[1].value not_a_name"],
    ),
    "diagnostic is a text": (
        then(event(), event(diagnostic="true")),
        ["steps[2].diagnostic wrong_type"],
    ),
    "step is null": (then(None, event()), ["steps[1] wrong_type"]),
    "step without type": (then({"value": "b"}), ["steps[1].type required"]),
    "unknown type": (then(event("b", type="event")), ["steps[1].type not_one_of"]),
    "unknown type, faulty value": (
        then(event("", type="Click")),
        ["steps[1].type not_one_of", "steps[1].value too_short"],
    ),
    "empty value": (then(event("")), ["steps[1].value too_short"]),
    "long event name": (then(event("e" * 201)), ["steps[1].value too_long"]),
    "long path": (then(page("/" * 2001)), ["steps[1].value too_long"]),
    "path without a slash": (then(page("cart/*")), ["steps[1].value not_a_path"]),
    "NUL in value": (then(event("a\0b")), ["steps[1].value nul_character"]),
    "unknown goal": (then(event("Bought", type="Goal")), ["steps[1].value goal_not_found"]),
    "unknown goal in an OR row": (
        then(event(or_=[event(), event("Bought", type="Goal")])),
        ["steps[1].or[1].value goal_not_found"],
    ),
    "unknown mode": (then(event(mode="any_of", or_=[event("c")])), ["steps[1].mode not_one_of"]),
    "group without parts": (then(event(mode="all_of")), ["steps[1].or required"]),
    "group with an empty list": (then(event(mode="all_of", or_=[])), ["steps[1].or required"]),
    "identical parts": (
        then(group(event("q"), event("p"), event("q"))),
        ["steps[1].or[1] identical_parts", "steps[1].or[2] identical_parts"],
    ),
    "identical parts in other words": (
        then(page("/cart/", mode="all_of", or_=[page("/cart?step=1")])),
        ["steps[1].or[0] identical_parts"],
    ),
    "21 OR rows": (then(event(or_=[event()] * 21)), ["steps[1].or too_many"]),
    "257 matches": (
        funnel(steps=[event(or_=[event()] * 20)] * 12 + [event(or_=[event()] * 4)]),
        ["steps too_many_matches"],
    ),
    "OR row with a mode": (
        then(event(or_=[event(mode="all_of")])),
        ["steps[1].or[0].mode unknown_field"],
    ),
    "21 filters": (then(event(filters=[where("p", "is_set")] * 21)), ["steps[1].filters too_many"]),
    "unknown counting unit": (funnel(countingUnit="session"), ["countingUnit not_one_of"]),
    "both forms of an attempt ID": (
        funnel(countingUnit="attempt", attemptProperty="a", attemptProperties=["b"]),
        ["attemptProperty not_allowed"],
    ),
    "attempt keys that are wrong": (
        keyed("a", "a", "$country", ""),
        [
            "attemptProperties[1] repeated",
            "attemptProperties[2] builtin_not_allowed",
            "attemptProperties[3] too_short",
        ],
    ),
    "no attempt key": (keyed(), ["attemptProperties too_short"]),
    "five attempt keys": (keyed("a", "b", "c", "d", "e"), ["attemptProperties too_many"]),
    "attempt keys of visitors": (
        funnel(attemptProperties=["$session"]),
        ["attemptProperties not_allowed"],
    ),
    "attempts without their property": (
        funnel(countingUnit="attempt"),
        ["attemptProperty required"],
    ),
    "attempt property on visitors": (
        funnel(attemptProperty="attempt_id"),
        ["attemptProperty not_allowed"],
    ),
    "attempt property built in": (
        attempts(attemptProperty="$external_session_id"),
        ["attemptProperty builtin_not_allowed"],
    ),
    "attempt property empty": (attempts(attemptProperty=""), ["attemptProperty too_short"]),
    "sequence property built in": (
        attempts(sequenceProperty="$source"),
        ["sequenceProperty builtin_not_allowed"],
    ),
    "sequence property long": (attempts(sequenceProperty="ä" * 101), ["sequenceProperty too_long"]),
    "fourth breakdown": (by("a", "b", "c", "d"), ["breakdownProperties too_many"]),
    "repeated breakdown": (by("a", "b", "a"), ["breakdownProperties[2] repeated"]),
    "empty breakdown": (by("a", ""), ["breakdownProperties[1] too_short"]),
    "breakdown with NUL": (by("a\0"), ["breakdownProperties[0] control_character"]),
    "breakdown is a number": (by(1), ["breakdownProperties[0] wrong_type"]),
    "unknown built-in": (by("$nope"), ["breakdownProperties[0] unknown_builtin"]),
    "null window on attempts": (
        attempts(conversionWindowSeconds=None),
        ["conversionWindowSeconds window_required"],
    ),
    "another window": (lasting(7200), ["conversionWindowSeconds not_one_of"]),
    "window as text": (lasting("3600"), ["conversionWindowSeconds not_one_of"]),
    "window is true": (lasting(True), ["conversionWindowSeconds not_one_of"]),
    "huge window": (lasting(10**30), ["conversionWindowSeconds not_one_of"]),
    "two windows": (
        window(1, "hour", conversionWindowSeconds=3600),
        ["conversionWindow not_allowed"],
    ),
    "an unlimited window and another": (
        window(1, "hour", conversionWindowSeconds=None),
        ["conversionWindow not_allowed"],
    ),
    "window of no length": (window(0, "minute"), ["conversionWindow.value out_of_range"]),
    "window of 367 days": (window(367, "day", **ATTEMPTS), ["conversionWindow.value out_of_range"]),
    "window of a minute over 366 days": (
        window(366 * 1440 + 1, "minute", **ATTEMPTS),
        ["conversionWindow.value out_of_range"],
    ),
    "huge window in days": (window(10**30, "day"), ["conversionWindow.value out_of_range"]),
    "window in weeks": (window(1, "week"), ["conversionWindow.unit not_one_of"]),
    "window with a fraction": (window(1.5, "hour"), ["conversionWindow.value wrong_type"]),
    "window without a unit": (
        funnel(conversionWindow={"value": 1}),
        ["conversionWindow.unit required"],
    ),
    "window as a string": (funnel(conversionWindow="30m"), ["conversionWindow wrong_type"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_broken_rule_is_reported_with_its_field(client: httpx.Client, name: str) -> None:
    body, expected = REFUSED[name]
    assert refused(client, body) == expected


def test_a_response_names_all_faults_of_a_body(client: httpx.Client) -> None:
    is_set = where("p", "is_set")
    body = {
        "name": 1,
        "countingUnit": "attempt",
        "sequenceProperty": "$os",
        "breakdownProperties": ["a", "a", "$nope", ""],
        "conversionWindowSeconds": None,
        "color": "red",
        "steps": [
            event("d", diagnostic=True, mode="all_of"),
            {"type": "Goal", "value": "Bought", "size": 3},
            event("a", or_=[event("b"), event("c", filters=[is_set, where("", "like")])]),
            event("r", filters=[where("$nope", "matches_regex", "(")]),
            group(event("p"), event("q", extra=1)),
        ],
    }  # fmt: skip
    assert sorted(refused(client, body)) == sorted(
        [
            "name wrong_type",
            "attemptProperty required",
            "sequenceProperty builtin_not_allowed",
            "breakdownProperties too_many",
            "breakdownProperties[1] repeated",
            "breakdownProperties[2] unknown_builtin",
            "conversionWindowSeconds window_required",
            "color unknown_field",
            "steps[0].or required",
            "steps[1].value goal_not_found",
            "steps[1].size unknown_field",
            "steps[2].or[1].filters[1].property too_short",
            "steps[2].or[1].filters[1].operator not_one_of",
            "steps[3].filters[0].property unknown_builtin",
            "steps[3].filters[0].value bad_regex",
            "steps[4].or[1].extra unknown_field",
        ]
    )


def test_every_message_is_a_sentence(client: httpx.Client) -> None:
    for body, _ in REFUSED.values():
        for fault in client.post("/api/funnels", json=body).json()["errors"]:
            assert fault["message"][0].isupper(), fault
            assert fault["message"].endswith((".", "?")), fault


REFUSED_VALUES = [
    ("equals", None, "required"),
    ("contains", None, "required"),
    ("equals", "x\0", "control_character"),
    ("equals", "x" * 16385, "too_long"),
    ("in", None, "required"),
    ("in", "", "bad_list"),
    ("in", "pro", "bad_list"),
    ("in", '"pro"', "bad_list"),
    ("in", "[]", "bad_list"),
    ("not_in", json.dumps(list(range(101))), "bad_list"),
    ("in", "[null]", "bad_list"),
    ("in", '[["a"]]', "bad_list"),
    ("in", '[{"a": 1}]', "bad_list"),
    ("in", "[NaN]", "bad_list"),
    ("in", "[1e999]", "not_finite"),
    ("in", '["\\u0000"]', "control_character"),
    ("in", '["\\ud800"]', "bad_list"),
    ("in", "[" * 5000, "bad_list"),
    ("between", "10", "bad_list"),
    ("between", "[1]", "bad_range"),
    ("between", "[1, 2, 3]", "bad_range"),
    ("between", '["1", "2"]', "bad_range"),
    ("between", "[true, 2]", "bad_range"),
    ("not_between", "[2, 1]", "bad_range"),
    ("between", f"[1, 1{'0' * 400}]", "out_of_range"),
    ("between", f"[1, 1{'0' * 5000}]", "bad_list"),
    ("greater_than", "", "bad_number"),
    ("greater_than", "five", "bad_number"),
    ("greater_than_or_equal", "+5", "bad_number"),
    ("less_than", " 5", "bad_number"),
    ("less_than", "5\n", "bad_number"),
    ("less_than", ".5", "bad_number"),
    ("less_than", "0x10", "bad_number"),
    ("less_than", "٥", "bad_number"),
    ("less_than", "NaN", "bad_number"),
    ("less_than_or_equal", "1e999", "not_finite"),
    ("before", "", "not_a_time"),
    ("before", "yesterday", "not_a_time"),
    ("after", "2026-02-30", "not_a_time"),
    ("after", "2026-W01-1", "not_a_time"),
    ("before", "2026-05-01T12:00:00+05:75", "not_a_time"),
    ("before", "2026-05-01T12:00:00+24:00", "not_a_time"),
    ("before", "2026-05-01T24:00:00Z", "not_a_time"),
    ("before", "2026-05-01T12:60Z", "not_a_time"),
    ("after", "2026-05-01T12:00:60Z", "not_a_time"),
    ("after", "0000-01-01", "not_a_time"),
    ("after", "1" * 16, "not_a_time"),
    ("after", "9" * 5000, "not_a_time"),
    ("matches_regex", "(", "bad_regex"),
    ("matches_regex", ")", "bad_regex"),  # the engine would find it in every text
    ("not_matches_regex", "a)", "bad_regex"),
    ("matches_regex", "(?<=a)b", "bad_regex"),
    ("not_matches_regex", "a{2000}", "bad_regex"),
    ("not_matches_regex", None, "required"),
    ("is_set", "x", "value_not_allowed"),
    ("is_not_set", "true", "value_not_allowed"),
    ("is_true", "true", "value_not_allowed"),
    ("is_false", "0", "value_not_allowed"),
]


@pytest.mark.parametrize(("operator", "value", "code"), REFUSED_VALUES)
def test_a_value_that_the_operator_does_not_accept_is_rejected(
    client: httpx.Client, operator: str, value: str | None, code: str
) -> None:
    body = filtered(operator) if value is None else filtered(operator, value)
    assert refused(client, body) == [f"steps[0].filters[0].value {code}"]


ACCEPTED_VALUES = [
    ("equals", ""),
    ("equals", "5"),
    ("not_equals", "O'Brien \\ \" {x} %s 🧾\n"),
    ("in", '["a", 1, 2.5, true, ""]'),
    ("not_in", json.dumps(list(range(100)))),
    ("contains", ""),
    ("not_contains", "x"),
    ("starts_with", "x"),
    ("ends_with", "x"),
    ("equals_ignore_case", "Straße"),
    ("contains_ignore_case", ""),
    ("matches_regex", r"^(\d+|[a-zé]{2,3}) .*\\$"),
    ("not_matches_regex", "(?i)'; DROP"),
    ("is_set", ""),
    ("is_not_set",),
    ("is_true",),
    ("is_false",),
    ("greater_than", "-0.5"),
    ("greater_than_or_equal", "1e3"),
    ("less_than", "1.25E-7"),
    ("less_than_or_equal", "007"),
    ("between", "[-1, 2.5]"),
    ("not_between", "[3, 3]"),
    ("before", "2026-05-01"),
    ("after", "2026-05-01T12:00:00+02:00"),
    ("after", "1767225600000"),
]


def test_the_accepted_values_cover_every_operator() -> None:
    assert {operator for operator, *_ in ACCEPTED_VALUES} == set(Operator)


@pytest.mark.parametrize("case", ACCEPTED_VALUES)
def test_a_value_is_stored_as_sent(client: httpx.Client, case: tuple[str, ...]) -> None:
    answer = client.post("/api/funnels", json=filtered(*case))
    assert answer.status_code == 201, answer.text
    assert answer.json()["steps"][0]["filters"] == [{"value": "", **where("plan", *case)}]


def test_openapi_lists_the_operators(client: httpx.Client) -> None:
    assert client.get("/api/openapi.json").json()["components"]["schemas"]["Operator"]["enum"] == [
        str(operator) for operator in Operator
    ]


ACCEPTED: dict[str, Json] = {
    "20 required and 10 diagnostic rows": funnel(
        steps=[event()] * 20 + [event("d", diagnostic=True)] * 10
    ),
    "two identical steps": funnel(steps=[event(), event()]),
    "256 matches": funnel(steps=[event(or_=[event()] * 20)] * 12 + [event(or_=[event()] * 3)]),
    "identical options of a plain step": funnel(steps=[event(), event(or_=[event()])]),
    "parts that differ in a filter": then(group(event("p", filters=[where("x", "is_set")]))),
    "diagnostic row with options": then(event("d", diagnostic=True, or_=[event("e")]), event()),
    "every type": funnel(
        steps=[
            event("/x", type=kind) for kind in ("Pageview", "Screen view", "Event", "Transaction")
        ]
    ),
    "paths that may match": funnel(
        steps=[page(value) for value in ("/", "/a?b", "?a", "**/done", "*/done")]
    ),
    "quotes and emoji": funnel(
        name='"A" & <b> 🚀', steps=[event('it\'s "so" `good` {x:String} 🛒'), event("b; --")]
    ),
    "any property key": attempts(
        sequenceProperty="`n`.'x'", breakdownProperties=['a "b"', "a.b:c", "ключ 🔑"]
    ),
    "longest property key": attempts(sequenceProperty="ä" * 100),
    "built-in breakdowns": funnel(
        breakdownProperties=["$path", "$utm_source", "$external_session_id"]
    ),
    "sequence on visitors": funnel(sequenceProperty="n"),
    "unlimited visitors": funnel(conversionWindowSeconds=None),
    "window with a fraction of zero": funnel(conversionWindowSeconds=3600.0),
    "a window of one minute": window(1, "minute", **ATTEMPTS),
    "a window of 366 days": window(366, "day"),
    "a window of 36 hours": window(36, "hour"),
    "nulls where nothing is set": funnel(attemptProperty=None, sequenceProperty=None),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_definition_within_the_rules_is_stored_as_sent(client: httpx.Client, name: str) -> None:
    body = ACCEPTED[name]
    answer = client.post("/api/funnels", json=body)
    assert answer.status_code == 201, answer.text
    record = answer.json()
    assert {field: record[field] for field in body} | {"steps": None} == body | {"steps": None}
    for sent, stored in zip(body["steps"], record["steps"], strict=True):
        assert pick(stored, "type", "value") == pick(sent, "type", "value")
        assert len(stored["or"]) == len(sent.get("or", []))
    again = {field: record[field] for field in record.keys() - set(READ_ONLY)}
    replaced = client.put(f"/api/funnels/{record['id']}", json=again).json()
    assert replaced == {**record, "replacedRevision": 1}


@pytest.mark.parametrize("seconds", [3600, 86400, 604800, 1209600, 2592000, 7776000])
def test_the_six_windows(client: httpx.Client, seconds: int) -> None:
    record = client.post("/api/funnels", json=attempts(conversionWindowSeconds=seconds)).json()
    assert record["conversionWindowSeconds"] == seconds


def test_a_record_has_only_the_window_field_that_was_sent(client: httpx.Client) -> None:
    window = {"value": 60, "unit": "minute"}
    record = client.post("/api/funnels", json=attempts(conversionWindow=window)).json()
    assert record["conversionWindow"] == window
    assert "conversionWindowSeconds" not in record
    path = f"/api/funnels/{record['id']}"
    assert client.get(path).json() == record
    changed = client.put(path, json=attempts(conversionWindowSeconds=3600)).json()
    assert changed["conversionWindowSeconds"] == 3600
    assert "conversionWindow" not in changed
    latest, first = client.get(f"{path}/revisions").json()["data"]
    assert latest["changes"] == ["Conversion window 60 minutes -> 1 hour"]
    assert first["definition"]["conversionWindow"] == window
    assert "conversionWindowSeconds" not in first["definition"]
    without = client.post("/api/funnels", json=funnel(conversionWindow=None)).json()
    assert without["conversionWindowSeconds"] is None
    assert "conversionWindow" not in without


def test_defaults_are_filled_in(client: httpx.Client) -> None:
    record = client.post("/api/funnels", json=funnel()).json()
    step = {"type": "Event", "filters": [], "or": [], "mode": None, "diagnostic": False}
    assert record == {
        "id": record["id"],
        "name": "Checkout",
        "steps": [{**step, "value": "a"}, {**step, "value": "b"}],
        "countingUnit": "visitor",
        "attemptProperty": None,
        "sequenceProperty": None,
        "breakdownProperties": [],
        "conversionWindowSeconds": None,
        "revision": 1,
        "createdAt": record["createdAt"],
        "updatedAt": record["createdAt"],
    }
    assert client.post("/api/funnels", json=attempts()).json()["conversionWindowSeconds"] == 604_800


def test_names_and_paths_can_be_as_long_as_in_events(tmp_path: Path, warehouse: Warehouse) -> None:
    services = migrated_services(Settings(data=tmp_path, public_url=BASE_URL), warehouse)
    with TestClient(application(services), base_url=BASE_URL) as server:
        client = sign_up(server, services.accounts.setup_token).client
        name, path = "e" * MAX_NAME_CHARS, "/" + "p" * (MAX_PATH_CHARS - 1)
        longest = funnel(steps=[event(name), page(path)])
        assert client.post("/api/funnels", json=longest).status_code == 201
        longer = funnel(steps=[event(name + "e"), page(path + "p")])
        assert refused(client, longer) == ["steps[0].value too_long", "steps[1].value too_long"]


def test_a_resolved_definition_has_the_goals_match_and_the_filters_of_both() -> None:
    ok = SavedFilter(property="ok", operator="is_true", value="")
    match = SavedMatch(type="Event", value="paid", filters=[ok])
    goal = GoalRecord(
        id="goal_1", name="Paid", match=match, revision=4, created_at="then", updated_at="now"
    )
    of_plan = event("Paid", type="Goal", filters=[where("plan", value="pro")])
    steps = [
        page("/cart/?x=1"),
        event("x", mode="all_of", or_=[of_plan]),
        event("d", diagnostic=True),
    ]
    sent = parse_model(
        json.dumps(attempts(steps=steps, breakdownProperties=["plan"])).encode(),
        FunnelIn,
        ValidationContext({"Paid": match}, any_regex),
    )
    filters = (
        Filter("ok", Comparison(Operator.IS_TRUE, None)),
        Filter("plan", Comparison(Operator.EQUALS, "pro")),
    )
    paid = Match(MatchType.EVENT, "paid", filters)
    resolved = resolve(sent.saved(), {"Paid": goal}, any_regex)
    assert resolved == Definition(
        rows=(
            Row((Match(MatchType.PAGEVIEW, "/cart"),), saved_as=("Pageview", "/cart/?x=1")),
            Row((Match(MatchType.EVENT, "x"), paid), all_of=True, saved_as=("Event", "x")),
            Row((Match(MatchType.EVENT, "d"),), diagnostic=True, saved_as=("Event", "d")),
        ),
        counting_unit=resolved.counting_unit,
        window_s=604_800,
        attempt_keys=("attempt_id",),
        breakdown_properties=("plan",),
        goals=(GoalUse("Paid", "goal_1", 4),),
    )


def test_a_page_path_is_compared_without_query_fragment_and_trailing_slash() -> None:
    for value, path in (
        ("/cart/#pay?x", "/cart"),
        ("/", "/"),
        ("/?x", "/"),
        ("/blog/*", "/blog/*"),
        ("/blog/**/", "/blog/**"),
    ):
        seen = SavedMatch(type="Pageview", value=value, filters=[])
        assert resolve_match(seen, {}, any_regex) == Match(MatchType.PAGEVIEW, path)
    screen = SavedMatch(type="Screen view", value="/cart/", filters=[])
    assert resolve_match(screen, {}, any_regex).value == "/cart/"


def any_regex(pattern: str) -> None:
    """Accepts every pattern."""


COMPARISONS = [
    ("greater_than", "-1.5e2", Comparison(Operator.GREATER_THAN, -150.0)),
    ("between", "[1, 2.5]", Comparison(Operator.BETWEEN, NumberRange(1.0, 2.5))),
    ("in", '["a", 5, 5.0, true]', Comparison(Operator.IN, ("a", "5", "5", "true"))),
    ("before", "1970-01-02", Comparison(Operator.BEFORE, 86_400_000)),
    ("before", "1970-01-01T01:00", Comparison(Operator.BEFORE, 3_600_000)),
    ("after", "1970-01-01T01:00:00.5+01:00", Comparison(Operator.AFTER, 500)),
    ("after", "-7", Comparison(Operator.AFTER, -7)),
    ("is_set", "", Comparison(Operator.IS_SET, None)),
]


@pytest.mark.parametrize(("operator", "value", "comparison"), COMPARISONS)
def test_a_filter_value_is_parsed_to_its_type(
    operator: str, value: str, comparison: Comparison
) -> None:
    assert parse_comparison(Operator(operator), value, any_regex) == comparison


@pytest.mark.parametrize(
    ("operator", "advice"),
    [("contain", "Did you mean contains, not_contains or"), ("~", "Use a value such as equals,")],
)
def test_an_operator_that_does_not_exist_names_the_closest(client, operator, advice):
    answer = client.post("/api/funnels", json=filtered(operator, "pro"))
    message = answer.json()["errors"][0]["message"]
    assert advice in message
    assert len(message) < 200
