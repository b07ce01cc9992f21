"""Events of other products that exceed a limit keep what fits, and what did not is counted."""

import json

import pytest

from penstock.base.event_limits import (
    MAX_EVENT_VALUES,
    MAX_NAME_CHARS,
    MAX_PROPERTY_KEYS,
    MAX_STRING_BYTES,
)
from tests.answers import body_of
from tests.events.conftest import imported, ndjson, upload
from tests.events.imports.conftest import counts, rejects, stored
from tests.events.imports.exported import parquet
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

AT = "2024-05-01T10:00:00Z"
PRODUCTS = {
    "posthog": lambda own, name="e": {
        "event": name, "distinct_id": "v", "timestamp": AT, "properties": own,
    },
    "mixpanel": lambda own, name="e": {
        "event": name, "properties": {"time": 1714557600, "distinct_id": "v", **own},
    },
    "amplitude": lambda own, name="e": {
        "event_type": name, "device_id": "v", "event_time": "2024-05-01 10:00:00",
        "event_properties": own,
    },
    "segment": lambda own, name="e": {
        "type": "track", "event": name, "anonymousId": "v", "timestamp": AT, "properties": own,
    },
}  # fmt: skip


@pytest.fixture(params=PRODUCTS)
def product(request):
    return request.param


@pytest.fixture
def properties_of(workspace, services, product):
    """Import an event, and return its properties, its name and the codes of its warnings."""

    def read(own, name="e"):
        job = imported(workspace, ndjson([PRODUCTS[product](own, name)]), format=product)
        assert counts(job) == (1, 1, 0, 0), rejects(workspace.client, job)
        [(text, stored_name)] = stored(services, workspace.website_id, "properties, name")
        assert {warning["lines"] for warning in job["warnings"]} <= {1}
        codes = [warning["code"] for warning in job["warnings"]]
        return json.loads(text or "{}"), stored_name, codes

    return read


def nested(levels, inner="x"):
    value = inner
    for _ in range(levels):
        value = {"a": value}
    return value


def test_parts_that_are_nested_too_deeply_become_json_text(properties_of):
    own = {"ok": nested(4), "deep": nested(6), "list": [[[[[[1]]]]]], "plan": "pro"}
    sent, _, codes = properties_of(own)
    assert sent == {
        "ok": nested(4),
        "deep": nested(4, '{"a":{"a":"x"}}'),
        "list": [[[["[[1]]"]]]],
        "plan": "pro",
    }
    assert codes == ["nested_as_text"]


def test_texts_that_are_too_long_are_cut(properties_of):
    sent, name, codes = properties_of({"a": "ä" * 5_000, "b": ["x" * 9_000]}, "n" * 300)
    assert sent["a"] == "ä" * ((MAX_STRING_BYTES - 3) // 2) + "…"
    assert sent["b"] == ["x" * (MAX_STRING_BYTES - 3) + "…"]
    assert name == "n" * (MAX_NAME_CHARS - 1) + "…"
    assert codes == ["text_cut"]


def test_nul_characters_go_and_integers_beyond_64_bits_become_text(properties_of):
    own = {
        "a": "x\0y",
        "k\0": ["\0", {"deep": -(10**30)}],
        "too large": 2**64,
        "too small": -(2**63) - 1,
        "largest": 2**64 - 1,
    }
    sent, name, codes = properties_of(own, "pa\0id")
    assert sent == {
        "a": "xy",
        "k": ["", {"deep": str(-(10**30))}],
        "too large": "18446744073709551616",
        "too small": "-9223372036854775809",
        "largest": 2**64 - 1,
    }
    assert name == "paid"
    assert codes == ["integer_as_text", "nul_removed"]


@pytest.mark.parametrize("own", [{"a": "x\0"}, {"a": 2**64}, {"a": nested(6, 10**30)}])
def test_each_of_them_is_noticed_alone(properties_of, own):
    sent, _, codes = properties_of(own)
    assert (len(sent), len(codes)) == (1, 1)


def test_an_id_with_a_nul_character_rejects_its_line(workspace):
    line = PRODUCTS["posthog"]({}) | {"distinct_id": "v\0"}
    job = imported(workspace, ndjson([line]), format="posthog")
    assert counts(job) == (1, 0, 0, 1)


def test_feature_flags_and_then_the_last_keys_are_left_out(properties_of, product):
    flags = {f"$feature/{number}": True for number in range(260)}
    own = {f"own {number}": number for number in range(100)}
    sent, _, codes = properties_of({**flags, **own, "$lib": "web"})
    assert len(sent) == MAX_PROPERTY_KEYS
    assert own.items() <= sent.items()
    assert sent["lib"] == "web"
    assert [key for key in sent if "/" in key] == [f"feature/{number}" for number in range(154)]
    assert codes == ["keys_left_out"]


def test_own_keys_are_left_out_from_the_end_after_objects_became_text(properties_of):
    own = {f"own {number}": number for number in range(300)}
    flags = {"$feature/a": True}
    sent, _, codes = properties_of({"cart": {"a": 1, "b": [{"c": 2}]}, **own, **flags})
    assert sent["cart"] == '{"a":1,"b":[{"c":2}]}'
    assert list(sent) == ["cart", *(f"own {number}" for number in range(254))]
    assert codes == ["keys_left_out", "nested_as_text"]


def test_an_object_with_too_many_keys_becomes_text_and_costs_no_other_key(properties_of):
    items = [{"sku": number, "price": 1} for number in range(200)]
    sent, _, codes = properties_of({"plan": "pro", "items": items, "step": 2})
    assert (sent["plan"], sent["step"]) == ("pro", 2)
    assert json.loads(sent["items"]) == items
    assert codes == ["nested_as_text"]


def test_large_objects_of_a_large_event_become_text_that_is_cut(properties_of):
    frames = [{"file": "f" * 400, "line": number} for number in range(100)]
    own = {f"text {number}": "t" * 7_900 for number in range(6)}
    sent, _, codes = properties_of({"plan": "pro", "frames": frames, **own})
    assert sent["frames"].startswith('[{"file":"fff')
    assert sent["frames"].endswith("…")
    del sent["frames"]
    assert sent == {"plan": "pro", **own}
    assert codes == ["nested_as_text", "text_cut"]


def test_the_largest_properties_of_a_large_event_are_left_out(properties_of):
    own = {f"text {number}": "t" * (7_900 + number) for number in range(9)}
    sent, _, codes = properties_of({**own, "plan": "pro"})
    assert sent == {name: own[name] for name in list(own)[:8]} | {"plan": "pro"}
    assert codes == ["values_left_out"]


def test_what_fits_stays_as_it_is(properties_of):
    own = {
        "long": "x" * MAX_STRING_BYTES,
        "deep": nested(4),
        **{f"{number}": ":" for number in range(MAX_PROPERTY_KEYS - 6)},
    }
    assert properties_of(own) == (own, "e", [])


def test_properties_of_amplitude_users_are_left_out_before_those_of_the_event(workspace, services):
    line = PRODUCTS["amplitude"]({f"own {number}": number for number in range(250)})
    line |= {"platform": "Web", "user_properties": {f"u{number}": 1 for number in range(100)}}
    job = imported(workspace, ndjson([line]), format="amplitude")
    [text] = stored(services, workspace.website_id, "properties")
    assert list(json.loads(text))[249:] == [
        "own 249",
        "platform",
        *(f"user.u{n}" for n in range(4)),
    ]
    assert [each["code"] for each in job["warnings"]] == ["keys_left_out"]


def test_traits_keep_what_fits(workspace):
    line = {
        "event": "$identify", "distinct_id": "u", "timestamp": AT,
        "properties": {"$anon_distinct_id": "v"},
        "person_properties": {"plan": "pro", "deep": nested(7), "bio": "b" * 9_000},
    }  # fmt: skip
    job = imported(workspace, ndjson([line, PRODUCTS["posthog"]({})]), format="posthog")
    assert (job["identifyLines"], job["rejected"]) == (1, 0)
    assert [each["code"] for each in job["warnings"]] == ["nested_as_text", "text_cut"]
    traits = workspace.client.get("/api/visitors/u").json()["user"]["traits"]
    assert (traits["plan"], traits["bio"][-1]) == ("pro", "…")
    assert traits["deep"] == nested(4, '{"a":{"a":{"a":"x"}}}')


def test_events_in_parquet_and_csv_of_posthog_keep_what_fits(workspace, services):
    own = {"list": nested(6), "title": "t" * 9_000}
    line = PRODUCTS["posthog"](own) | {"uuid": "u", "properties": json.dumps(own)}
    cell = line["properties"].replace('"', '""')
    table = f'event,distinct_id,timestamp,uuid,properties\ne,v,{AT},u,"{cell}"\n'.encode()
    for content in (parquet({name: [value] for name, value in line.items()}), table):
        job = imported(workspace, content, "text/plain", format="posthog")
        codes = {warning["code"]: warning["lines"] for warning in job["warnings"]}
        assert (job["rejected"], codes) == (0, {"nested_as_text": 1, "text_cut": 1})
    [text] = stored(services, workspace.website_id, "properties")
    assert json.loads(text)["list"] == nested(4, '{"a":{"a":"x"}}')


def test_a_line_beyond_the_budget_of_values_is_rejected_unread(workspace, product):
    many = {"p": [[]] * MAX_EVENT_VALUES, "deep": nested(9)}
    job = imported(workspace, ndjson([PRODUCTS[product](many)]), format=product)
    assert (job["rejected"], job["warnings"]) == (1, [])
    [reject] = rejects(workspace.client, job)
    assert reject["errors"][0]["code"] == "too_many_values"


@pytest.mark.parametrize("name", [5, ["a"], {"a": "b" * 9_000}, None])
def test_what_is_no_name_rejects_its_line_only(workspace, product, name):
    line = PRODUCTS[product]({}, name)
    job = imported(workspace, ndjson([line, PRODUCTS[product]({})]), format=product)
    assert (job["state"], job["accepted"], job["rejected"]) == ("done", 1, 1)


def test_ids_are_never_cut(workspace):
    line = PRODUCTS["posthog"]({}) | {"distinct_id": "v" * 201}
    job = imported(workspace, ndjson([line]), format="posthog")
    assert counts(job) == (1, 0, 0, 1)


EXCEPTIONS = [
    PRODUCTS["posthog"]({"number": number, "$exception_list": nested(7)}, "$exception")
    for number in range(3)
]


def test_the_dry_run_and_the_page_count_what_does_not_fit(workspace):
    good = PRODUCTS["posthog"]({"number": 9})
    job = body_of(
        upload(workspace, ndjson([*EXCEPTIONS, good]), format="posthog", dryRun="true"), 201
    )
    path = f"/api/imports/{job['id']}"
    eventually(lambda: workspace.client.get(path).json()["state"] == "checked")
    summary = body_of(workspace.client.get(f"{path}/summary"), 200)
    assert (summary["events"], summary["rejected"]) == (4, 0)
    [warning] = summary["warnings"]
    assert (warning["code"], warning["lines"]) == ("nested_as_text", 3)
    page = workspace.browser.get(f"/imports/{job['id']}").text
    assert warning["message"] in page
    body_of(workspace.client.post(f"{path}/start"), 200)
    eventually(lambda: workspace.client.get(path).json()["state"] == "done")
    assert workspace.client.get(path).json()["warnings"] == summary["warnings"]
    assert warning["message"] in workspace.browser.get(f"/imports/{job['id']}").text
