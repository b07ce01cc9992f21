"""First and last touches as breakdowns and filters, over HTTP. See docs/funnels.md."""

from typing import Any

import pytest

from penstock.warehouse.client import Warehouse
from tests.funnels.answers import code
from tests.funnels.scenario import DAY_S, Json, Scene, by_cohort, column, pick, step, where
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

FIRST, LAST = "$first_utm_source", "$last_utm_source"


def view(scene: Scene, seconds: float, query: str, visitor: str = "ann") -> Json:
    """Send a page view with this query in its URL."""
    return {**scene.pageview(seconds, "/", visitor), "url": f"https://shop.example/?{query}"}


def source(scene: Scene, seconds: float, name: str, visitor: str = "ann") -> Json:
    return view(scene, seconds, f"utm_source={name}", visitor)


def signed_up(scene: Scene, **definition: Any) -> str:
    usual: Json = {"conversionWindowSeconds": DAY_S, "breakdownProperties": [FIRST, LAST]}
    return scene.funnel("A", "B", **{**usual, **definition})


@pytest.fixture
def campaigns(scene: Scene) -> Scene:
    """Ann has touches before and after her entry, Bob only after, and Cid at his entry."""
    scene.track(
        [
            source(scene, 0, "mail"),
            view(scene, 10, "utm_source=ads&utm_campaign=may"),
            scene.item(20, "A"),
            source(scene, 30, "tv"),
            scene.item(40, "B"),
            scene.item(20, "A", "bob"),
            source(scene, 30, "tv", "bob"),
            {**scene.item(50, "A", "cid"), "url": "https://shop.example/?utm_source=ads"},
            scene.item(60, "B", "cid"),
        ]
    )
    return scene


def test_the_cohort_is_the_touch_at_the_entry(campaigns: Scene) -> None:
    report = campaigns.results(signed_up(campaigns))
    assert by_cohort(report, FIRST, LAST) == {
        ("mail", "ads"): 1,
        ("ads", "ads"): 1,
        (None, None): 1,
    }
    assert report["dataQuality"]["unknownEntryValues"] == {FIRST: 1, LAST: 1}
    # Ann's B has a different last touch.
    assert report["dataQuality"]["conflictingEntryValues"] == {FIRST: 0, LAST: 1}


def test_which_touches_an_entry_has(scene: Scene) -> None:
    """Each visitor enters at 5 seconds, with a first source, last source and last campaign."""
    mail = "utm_source=mail"
    touches = {
        "one touch gives all fields": [(0, mail), (1, "utm_campaign=may")],
        "any parameter makes a touch": [(0, mail), (1, "utm_term=shoes")],
        "the entry's millisecond counts": [(5, mail), (5, "utm_source=ads")],  # IDs rise
        "a millisecond later does not": [(5.001, mail)],
        "an empty parameter is none": [(0, "utm_source=&page=2")],
    }
    for visitor, views in touches.items():
        items = [view(scene, seconds, query, visitor) for seconds, query in views]
        scene.track([scene.item(5, "A", visitor), *items])
    names = [FIRST, LAST, "$last_utm_campaign"]
    funnel_id = signed_up(scene, breakdownProperties=names)
    units = scene.report(funnel_id, "units")["data"]
    assert {unit["unit"]: tuple(unit["cohort"].values()) for unit in units} == {
        "one touch gives all fields": ("mail", None, "may"),
        "any parameter makes a touch": ("mail", None, None),
        "the entry's millisecond counts": ("mail", "ads", None),
        "a millisecond later does not": (None, None, None),
        "an empty parameter is none": (None, None, None),
    }


def test_touches_that_arrive_late_or_by_a_merge_count_in_the_next_report(scene: Scene) -> None:
    scene.track([source(scene, 1, "tv", "stranger"), scene.item(5, "A", "after-login")])
    funnel_id = signed_up(scene)
    assert by_cohort(scene.results(funnel_id), FIRST, LAST) == {(None, None): 1}
    scene.track([source(scene, 2, "ads", "after-login")])
    assert by_cohort(scene.results(funnel_id), FIRST, LAST) == {("ads", "ads"): 1}
    scene.track([source(scene, 0, "mail", "before-login")])
    scene.identify("ann", "before-login", "after-login")
    assert by_cohort(scene.results(funnel_id), FIRST, LAST) == {("mail", "ads"): 1}


def test_touches_on_another_website_count_if_the_request_covers_it(
    scene: Scene, workspace: Tenant
) -> None:
    body = {"kind": "web", "identityScope": "people"}
    site, blog = (
        scene.client.post("/api/settings/websites", json=body | {"name": name}).json()["id"]
        for name in ("Shop", "Blog")
    )
    for website_id, item in ((blog, source(scene, 0, "mail")), (site, scene.item(5, "A"))):
        scene.client.post("/api/track", json={"websiteId": website_id, **item})
    funnel_id = signed_up(scene)
    assert by_cohort(scene.results(funnel_id), FIRST, LAST) == {("mail", "mail"): 1}
    report = scene.results(funnel_id, websiteId=site)
    assert by_cohort(report, FIRST, LAST) == {(None, None): 1}


def test_an_attempt_has_the_touches_of_the_visitor_of_its_entry(scene: Scene) -> None:
    for visitor, name in (("ann", "mail"), ("bob", "tv")):
        scene.track([source(scene, 0, name, visitor), source(scene, 1, "ads", visitor)])
        scene.story("5/A", visitor=visitor, attempt="tied")
    scene.story("5/A", visitor="ann", attempt="handed over")
    scene.story("6/B", visitor="bob", attempt="handed over")
    funnel_id = scene.attempts("A", "B", breakdownProperties=[FIRST, LAST])
    # Tied entries keep the values on which they agree.
    assert {unit["unit"]: unit["cohort"] for unit in scene.report(funnel_id, "units")["data"]} == {
        "tied": {FIRST: None, LAST: "ads"},
        "handed over": {FIRST: "mail", LAST: "ads"},
    }


def test_a_filter_of_step_1_reads_the_touch_at_the_entry(campaigns: Scene) -> None:
    for filters, expected in (
        (where(LAST, value="ads"), [2, 2]),
        (where(FIRST, value="mail"), [1, 1]),
        (where(LAST, value="tv"), [0, 0]),
        (where(LAST, "is_not_set", ""), [1, 0]),
    ):
        first = step("A", filters=[filters])
        funnel_id = campaigns.funnel(first, "B", conversionWindowSeconds=DAY_S)
        assert campaigns.counts(funnel_id) == expected


def test_a_filter_of_a_later_step_or_a_goal_reads_the_touch_at_that_event(
    campaigns: Scene,
) -> None:
    paid = step("B", filters=[where(LAST, value="tv")])
    campaigns.goal("Paid after TV", paid)
    for later in (paid, {"type": "Goal", "value": "Paid after TV"}):
        funnel_id = campaigns.funnel("A", later, conversionWindowSeconds=DAY_S)
        assert campaigns.counts(funnel_id) == [3, 1]


@pytest.mark.slow("asks every kind of report")
def test_all_other_queries_have_the_same_cohorts(campaigns: Scene) -> None:
    funnel_id = signed_up(campaigns, breakdownProperties=[LAST])
    ads = {"cohort": {LAST: "ads"}}
    assert campaigns.results(funnel_id, **ads)["aggregate"]["entered"] == 2
    assert sorted(campaigns.names(funnel_id, **ads)) == ["ann", "cid"]
    trend = campaigns.report(funnel_id, "trend", **ads)["data"]
    assert sum(bucket["entered"] for bucket in trend) == 2
    assert campaigns.report(funnel_id, "timing", **ads)["overall"]["units"] == 2
    assert campaigns.report(funnel_id, "next", step=1, cohort={LAST: None})["data"]
    compared = campaigns.report(funnel_id, "compare", property=LAST, baseline='"ads"')
    entered = [(row["cohort"][LAST], row["entered"]) for row in compared["cohorts"]]
    assert entered == [("ads", 2), (None, 1)]
    rows = campaigns.table(funnel_id, "export")
    assert list(rows[0])[:3] == ["row", LAST, "entered"]
    assert [pick(row, "row", LAST, "entered") for row in rows] == [
        ("total", "", "3"),
        ("cohort", "ads", "2"),
        ("cohort", "Unknown", "1"),
    ]
    traced = campaigns.report(funnel_id, "units/ann")
    assert traced["entryValues"][LAST]["value"] == "ads"
    assert column(traced["conflicts"], "value") == ["tv"]


def test_a_preview_breaks_down_by_touch(campaigns: Scene) -> None:
    body = {"steps": [step("A"), step("B")], "breakdownProperties": [FIRST]}
    report = campaigns.client.post("/api/funnels/preview", json=body).json()
    assert by_cohort(report, FIRST) == {"mail": 1, "ads": 1, None: 1}


def test_events_missing_long_before_the_period_make_a_report_incomplete(campaigns: Scene) -> None:
    campaigns.delete(**{"from": campaigns.at(-DAY_S), "to": campaigns.at(5)})
    period = campaigns.period(15, DAY_S)
    for properties, gaps in (([LAST], 1), (["plan"], 0)):
        funnel_id = signed_up(campaigns, breakdownProperties=properties)
        assert len(campaigns.results(funnel_id, **period)["coverage"]["gaps"]) == gaps


_MANY_TOUCHES = """
INSERT INTO events (website_id, kind, name, occurred_at, event_id, received_at, stated_at, scope_id,
                    visitor_id, source, utm_source, properties, scalars, hashes)
SELECT {website:String}, 'pageview', '/', toDateTime64('2026-01-01 00:00:00', 3) + number / 1000,
       concat('evt_', leftPad(toString(number), 26, '0')), now64(), now64(), {website:String},
       toString(number % 1000), 'browser', concat('campaign-', toString(number % 50)), '{}',
       '{}'::JSON, '{}'::JSON
FROM numbers({count:UInt32})"""


@pytest.mark.full("600,000 events; tests/jobs/test_query_limits.py has the same limit")
@pytest.mark.slow("stores 600,000 events")
def test_too_many_touches_for_the_memory_limit_are_an_error_that_names_it(
    scene: Scene, warehouse: Warehouse
) -> None:
    funnel_id, website = signed_up(scene), scene.tenant.website_id
    limit = {"queryMemoryBytes": 100 * 1024**2}
    scene.tenant.browser.patch("/api/settings/workspace", json=limit).raise_for_status()
    warehouse.command(_MANY_TOUCHES, {"website": website, "count": 600_000})
    answer = scene.client.get("/api/attribution", params={"funnelId": funnel_id})
    assert code(answer, 503) == "query_too_large"
    assert "104,857,600 bytes of memory, the limit queryMemoryBytes" in answer.json()["detail"]
