"""What a report says in sentences: only what its data support, with what shows it."""

import re
from typing import Any

import pytest

from penstock.funnels.results.schema import DataQualityRecord, ResultsRecord
from penstock.funnels.verdicts import SentenceRecord, largest_loss, segments_of, verdict
from tests.conftest import ShiftedClock
from tests.funnels.scenario import DAY_S, HOUR_S, Json, Scene, column, pick


def aggregate(reached: list[int], *, pending: int = 0, early: int = 0) -> Json:
    """The figures of units. reached: settled units that reached each step.

    pending: more units, which are open after step 1. early: more units, which completed early.
    """
    counts = [count + early for count in reached]
    counts[0] += pending
    n = len(reached)
    steps: list[Json] = [
        {
            "step": k + 1,
            "row": k,
            "type": "Event",
            "value": f"step {k + 1}",
            "count": counts[k],
            "pending": 0 if k else pending,
            "excluded": 0,
            "droppedOff": reached[k] - reached[k + 1] if k + 1 < n else 0,
            "conversionFromStart": None,
            "conversionFromPrevious": None,
            "settled": reached[k],
            "settledFromStart": None,
            "settledFromPrevious": None,
            "options": [],
        }
        for k in range(n)
    ]
    return {
        "entered": counts[0],
        "completed": counts[-1],
        "pending": pending,
        "excluded": 0,
        "droppedOff": reached[0] - reached[-1],
        "conversionRate": None,
        "finalRate": None,
        "medianCompletionMinutes": None,
        "settled": reached[0],
        "settledRate": None,
        "earlyCompletions": early,
        "steps": steps,
        "diagnostics": [],
    }


def report(
    reached: list[int],
    *,
    pending: int = 0,
    early: int = 0,
    cohorts: list[tuple[Json, list[int]]] = [],  # noqa: B006
    disordered: int = 0,
    period: tuple[str, str] = ("2026-03-01T00:00:00.000Z", "2026-03-31T00:00:00.000Z"),
    before_history: bool = False,
) -> ResultsRecord:
    quality: Json = {
        str(field.alias): 0 if field.annotation is int else {}
        for field in DataQualityRecord.model_fields.values()
    }
    body: dict[str, Any] = {
        "funnelId": "f",
        "definitionRevision": 1,
        "goals": [],
        "countingUnit": "attempt",
        "evaluatedAt": "2026-05-01T00:00:00.000Z",
        "computedAt": "2026-05-01T00:00:00.000Z",
        "servedFrom": "query",
        "directReason": None,
        "lastKnownEventAt": None,
        "period": {"startAt": period[0], "endAt": period[1]},
        "websiteId": None,
        "asked": None,
        "aggregate": aggregate(reached, pending=pending, early=early),
        "cohorts": {
            "page": 1,
            "pageSize": 100,
            "total": len(cohorts),
            "data": [
                {"cohort": key, "label": dict.fromkeys(key, "-"), **aggregate(part)}
                for key, part in cohorts
            ],
        },
        "dataQuality": {**quality, "unitsWithOrderingIssues": disordered},
        "impossibleSteps": [],
        "coverage": {
            "complete": True,
            "firstEventAt": None,
            "lastEventAt": None,
            "periodBeginsBeforeHistory": before_history,
            "openWindows": pending,
            "gaps": [],
            "notes": [],
            "noteCodes": [],
        },
    }
    return ResultsRecord.model_validate(body)


def named(names: tuple[str, ...], cases: dict[str, Any]) -> pytest.MarkDecorator:
    """Run a test once for each case, under the case's name."""
    return pytest.mark.parametrize(names, list(cases.values()), ids=list(cases))


def said(now: ResultsRecord, earlier: ResultsRecord | None = None) -> list[str]:
    return [sentence.text for sentence in verdict_of(now, earlier)]


def verdict_of(now: ResultsRecord, earlier: ResultsRecord | None) -> list[SentenceRecord]:
    cohorts = now.cohorts.data
    segments = [] if earlier is None else segments_of(now, cohorts, earlier)
    sentences = verdict(now, earlier, cohorts, segments)
    for phrase in (phrase for sentence in sentences for phrase in sentence.phrases):
        assert list(phrase.properties) == re.findall(r"(\S+) = ", phrase.text), phrase
    return sentences


BEFORE = ("2026-01-30T00:00:00.000Z", "2026-03-01T00:00:00.000Z")
COMPLETED_62_OF_100 = "62.0% of 100 settled attempts completed."
LOST_38 = "38 attempts were lost on the way from step 1 to step 2."


@named(
    ("now", "expected"),
    {
        "nothing entered": (report([0, 0]), []),
        "too few are settled": (report([29, 10]), []),
        "all are open": (report([0, 0], pending=5000), []),
        "two steps": (report([100, 62]), [COMPLETED_62_OF_100, LOST_38]),
        "early and open units do not count": (
            report([100, 62], pending=900, early=800),
            [COMPLETED_62_OF_100, LOST_38],
        ),
        "the largest of several losses": (
            report([1000, 900, 400, 350]),
            [
                "35.0% of 1,000 settled attempts completed.",
                "The largest loss is from step 2 to step 3: 500 attempts.",
            ],
        ),
        "one lost": (
            report([1000, 999]),
            [
                "99.9% of 1,000 settled attempts completed.",
                "1 attempt was lost on the way from step 1 to step 2.",
            ],
        ),
        "no loss": (report([100, 100]), ["100.0% of 100 settled attempts completed."]),
        "uncertain order": (
            report([100, 100], disordered=46),
            [
                "100.0% of 100 settled attempts completed.",
                "46 attempts have uncertain event order.",
            ],
        ),
        "uncertain order with too few units": (
            report([3, 3], disordered=1),
            ["1 attempt has uncertain event order."],
        ),
    },
)
def test_a_report_without_cohorts(now: ResultsRecord, expected: list[str]) -> None:
    assert said(now) == expected


@named(
    ("reached", "earlier", "change"),
    {
        "fewer": (
            [1000, 620],
            report([1000, 700], period=BEFORE),
            ", 8.0 points down from 70.0% in the 30 days before (95%: 3.8 to 12.1).",
        ),
        "more": (
            [1000, 700],
            report([1000, 620], period=BEFORE),
            ", 8.0 points up from 62.0% in the 30 days before (95%: 3.8 to 12.1).",
        ),
        "no clear change": (
            [100, 62],
            report([100, 65], period=BEFORE),
            ", not clearly different from 65.0% in the 30 days before.",
        ),
        "too few before": ([1000, 620], report([29, 29], period=BEFORE), "."),
        "history begins later": (
            [1000, 620],
            report([1000, 700], period=BEFORE, before_history=True),
            ".",
        ),
        "the day before": (
            [100, 62],
            report([100, 65], period=("2026-03-01T23:00:00.000Z", "2026-03-02T22:00:00.000Z")),
            ", not clearly different from 65.0% on the day before.",
        ),
        "a part of a day": (
            [100, 62],
            report([100, 65], period=("2026-03-01T20:00:00.000Z", "2026-03-02T00:30:00.000Z")),
            ", not clearly different from 65.0% in the period before.",
        ),
    },
)
def test_the_change_against_the_period_before(
    reached: list[int], earlier: ResultsRecord, change: str
) -> None:
    entered, completed = reached
    rate = f"{completed / entered:.1%} of {entered:,} settled attempts completed"
    now = report(reached, period=(str(earlier.period.end_at), "2026-05-01T00:00:00.000Z"))
    assert said(now, earlier)[0] == rate + change


Cohorts = list[tuple[Json, list[int]]]


def plans(**reached: list[int]) -> Cohorts:
    return [({"plan": plan}, counts) for plan, counts in reached.items()]


def variants(a: list[int], b: list[int], *others: list[int]) -> Cohorts:
    """Cohorts of the variants a and b, and of others, which have numbers."""
    return [
        ({"variant": variant}, counts)
        for variant, counts in (("a", a), ("b", b), *enumerate(others))
    ]


PLANS = plans(basic=[500, 200], pro=[500, 400])


@named(
    ("cohorts", "expected"),
    {
        "most of the loss has one value": (
            PLANS,
            "400 attempts were lost on the way from step 1 to step 2, mostly with plan = basic.",
        ),
        "the most frequent value loses no more than others": (
            plans(basic=[900, 540], pro=[100, 60]),
            "400 attempts were lost on the way from step 1 to step 2.",
        ),
        "no value has more than half of the loss": (
            plans(basic=[100, 0], pro=[450, 300], max=[450, 300]),
            "400 attempts were lost on the way from step 1 to step 2.",
        ),
        "the others are too few": (
            plans(basic=[971, 571], pro=[29, 29]),
            "400 attempts were lost on the way from step 1 to step 2.",
        ),
        "a missing value": (
            [({"plan": None}, [500, 200]), ({"plan": "pro"}, [500, 400])],
            "400 attempts were lost on the way from step 1 to step 2, mostly with plan = Unknown.",
        ),
        "cohorts of two properties are added up": (
            [
                ({"plan": "basic", "ad": "a"}, [250, 100]),
                ({"plan": "basic", "ad": "b"}, [250, 100]),
                ({"plan": "pro", "ad": "a"}, [250, 200]),
                ({"plan": "pro", "ad": "b"}, [250, 200]),
            ],
            "400 attempts were lost on the way from step 1 to step 2, mostly with plan = basic.",
        ),
    },
)
def test_what_most_of_the_loss_has_in_common(cohorts: Cohorts, expected: str) -> None:
    total = [sum(part[k] for _, part in cohorts) for k in (0, 1)]
    assert said(report(total, cohorts=cohorts))[1] == expected


@named(
    ("cohorts", "expected"),
    {
        "ahead": (
            variants([600, 300], [500, 300]),
            ["variant = b converts 10.0 points better than a (95%: 4.1 to 15.8)."],
        ),
        "behind": (
            variants([600, 360], [500, 250]),
            ["variant = b converts 10.0 points worse than a (95%: 4.1 to 15.8)."],
        ),
        "not clear": (variants([600, 300], [500, 270]), []),
        "not clear among many": (variants([600, 300], [500, 290], *[[500, 250]] * 20), []),
        "too few": (variants([600, 300], [29, 29]), []),
        "typed values": (
            [({"variant": 1}, [600, 300]), ({"variant": True}, [500, 400])],
            ["variant = true converts 30.0 points better than 1 (95%: 24.5 to 35.2)."],
        ),
    },
)
def test_a_clear_difference_between_values(cohorts: Cohorts, expected: list[str]) -> None:
    total = [sum(part[k] for _, part in cohorts) for k in (0, 1)]
    assert said(report(total, cohorts=cohorts))[2:] == expected


@named(
    ("reached", "before", "expected"),
    {
        "one step has most of it": (
            [1000, 800, 400],
            [1000, 820, 615],
            "Most of it is from step 2 to step 3, 25.0 points down.",
        ),
        "several steps have it": (
            [1000, 800, 600, 470],
            [1000, 860, 720, 620],
            "The largest part of it is from step 2 to step 3, 8.7 points down.",
        ),
        "a step that changed otherwise": (
            [1000, 700, 690],
            [1000, 800, 450],
            "Most of it is from step 2 to step 3, 42.3 points up.",
        ),
        "nobody completed": (
            [1000, 700, 0],
            [1000, 700, 450],
            "The largest loss is from step 2 to step 3: 700 attempts.",
        ),
        "no clear change": (
            [1000, 700, 450],
            [1000, 710, 445],
            "The largest loss is from step 1 to step 2: 300 attempts.",
        ),
        "two steps": (
            [1000, 500],
            [1000, 700],
            "500 attempts were lost on the way from step 1 to step 2.",
        ),
    },
)
def test_a_clear_change_names_the_step_with_the_largest_part_of_it(
    reached: list[int], before: list[int], expected: str
) -> None:
    assert said(report(reached), report(before, period=BEFORE))[1] == expected


@named(
    ("now", "before", "expected"),
    {
        "one value moved": (
            plans(basic=[500, 340], pro=[500, 150]),
            plans(basic=[500, 350], pro=[500, 250]),
            ["plan = pro fell by 20.0 points (95%: 14.0 to 25.8); the others are not clearly "
            "different."],
        ),
        "the others moved less": (
            plans(basic=[500, 300], pro=[500, 150]),
            plans(basic=[500, 350], pro=[500, 300]),
            ["plan = pro fell by 30.0 points (95%: 24.0 to 35.7); the others fell by 10.0 points."],
        ),
        "a missing value rose": (
            [({"plan": None}, [500, 400]), ({"plan": "pro"}, [500, 250])],
            [({"plan": None}, [500, 250]), ({"plan": "pro"}, [500, 250])],
            ["plan = Unknown rose by 30.0 points (95%: 24.3 to 35.5); the others are not clearly "
            "different."],
        ),
        "all moved alike": (
            plans(basic=[500, 200], pro=[500, 200]),
            plans(basic=[500, 300], pro=[500, 300]),
            [],
        ),
        "too few before": (
            plans(basic=[970, 400], pro=[30, 0]),
            plans(basic=[971, 700], pro=[29, 29]),
            ["plan = pro converts 41.2 points worse than basic (95%: 29.5 to 44.4)."],
        ),
    },
)  # fmt: skip
def test_a_value_that_moved_otherwise_than_the_others_is_named(
    now: Cohorts, before: Cohorts, expected: list[str]
) -> None:
    totals = [[sum(part[k] for _, part in cohorts) for k in (0, 1)] for cohorts in (now, before)]
    report_now = report(totals[0], cohorts=now)
    report_before = report(totals[1], cohorts=before, period=BEFORE)
    assert said(report_now, report_before)[2:] == expected


def test_each_phrase_names_what_shows_it() -> None:
    now = report([1000, 600], cohorts=PLANS, disordered=2)
    earlier = report([1000, 800], period=BEFORE)
    sentences = verdict_of(now, earlier)
    shown = [
        (phrase.shows.by, phrase.shows.parameters)
        for sentence in sentences
        for phrase in sentence.phrases
        if phrase.shows
    ]
    assert shown == [
        ("units", {"outcome": "completed"}),
        ("periods", {"compareStartAt": BEFORE[0], "compareEndAt": BEFORE[1]}),
        ("units", {"step": 1, "outcome": "droppedOff"}),
        ("drivers", {"step": 1}),
        ("results", {"cohort": {"plan": "basic"}}),
        ("compare", {"property": "plan", "baseline": "basic"}),
        ("units", {"quality": "orderingIssue"}),
    ]


def test_a_long_value_is_cut() -> None:
    cohorts = plans(**{"x" * 500: [500, 200], "pro": [500, 400]})
    [_, loss, _] = said(report([1000, 600], cohorts=cohorts))
    assert loss.endswith(f"plan = {'x' * 60}….")


def test_the_largest_loss_is_the_first_of_equals() -> None:
    loss = largest_loss(report([100, 60, 20]).aggregate)
    assert loss is not None
    assert loss.step == 1


# Over HTTP


def read_verdict(scene: Scene, funnel_id: str, **query: Any) -> Json:
    return scene.report(funnel_id, "verdict", **query)


def many(scene: Scene, start_s: float, name: str, count: int, completed: int, **more: Any) -> None:
    """Track attempts, one a minute, of which the first ones complete."""
    items = []
    for number in range(count):
        at_s, attempt = start_s + 60 * number, f"{name}{number}"
        items.append(scene.item(at_s, "A", attempt, attempt=attempt, **more))
        if number < completed:
            items.append(scene.item(at_s + 10, "B", attempt, attempt=attempt, **more))
    scene.track(items)


@pytest.mark.usefixtures("warehouse")
def test_the_verdict_compares_with_the_period_before(scene: Scene) -> None:
    many(scene, -DAY_S, "old", 1, 1)
    many(scene, 0, "before", 100, 80)
    many(scene, DAY_S, "basic", 60, 20, plan="basic")
    many(scene, DAY_S, "pro", 60, 55, plan="pro")
    funnel_id = scene.attempts("A", "B", breakdownProperties=["plan"])
    period = scene.period(DAY_S, 2 * DAY_S)
    record = read_verdict(scene, funnel_id, **period)
    assert column(record["sentences"], "text") == [
        "62.5% of 120 settled attempts completed, 17.5 points down from 80.0% on the day before "
        "(95%: 5.4 to 28.6).",
        "45 attempts were lost on the way from A to B, mostly with plan = basic.",
        "plan = pro converts 58.3 points better than basic (95%: 42.4 to 69.9).",
    ]
    assert record["largestLoss"] == 1
    assert record["period"] == scene.results(funnel_id, **period)["period"]
    days_before = scene.period(-DAY_S, HOUR_S)
    compared = {f"compare{name[0].upper()}{name[1:]}": at for name, at in days_before.items()}
    assert read_verdict(scene, funnel_id, **period, **compared)["sentences"][0]["text"] == (
        "62.5% of 120 settled attempts completed, 37.5 points down from 100.0% in the earlier "
        "period (95%: 27.4 to 46.4)."
    )
    pro = read_verdict(scene, funnel_id, cohort={"plan": "pro"}, **period)
    assert pro["sentences"][0]["text"].startswith("91.7% of 60 settled attempts completed")


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("unit", ["attempt", "visitor"])
def test_without_a_breakdown_a_property_of_the_entry_says_who_changed(
    scene: Scene, unit: str
) -> None:
    many(scene, 0, "basic before", 80, 60, plan="basic")
    many(scene, 0, "pro before", 80, 60, plan="pro")
    many(scene, DAY_S, "basic", 80, 60, plan="basic")
    many(scene, DAY_S, "pro", 80, 10, plan="pro")
    window = {"conversionWindow": {"value": 6, "unit": "hour"}}
    funnel_id = (scene.attempts if unit == "attempt" else scene.funnel)("A", "B", **window)
    record = read_verdict(scene, funnel_id, **scene.period(DAY_S, 2 * DAY_S))
    assert column(record["sentences"], "text")[2:] == [
        "plan = pro fell by 62.5 points (95%: 48.7 to 72.4); the others are not clearly different."
    ]


@pytest.mark.usefixtures("warehouse")
@pytest.mark.parametrize("unit", ["attempt", "visitor"])
def test_the_period_before_is_compared_at_the_same_age(
    scene: Scene, clock: ShiftedClock, unit: str
) -> None:
    scene.start_ms = clock() - round((DAY_S + 18.5 * HOUR_S) * 1000)
    many(scene, 0, "morning", 40, 20)
    many(scene, 13 * HOUR_S, "afternoon", 40, 40)
    many(scene, DAY_S, "today", 40, 20)
    window = {"conversionWindow": {"value": 6, "unit": "hour"}}
    new = scene.attempts if unit == "attempt" else scene.funnel
    period = scene.period(DAY_S, 2 * DAY_S)
    record = read_verdict(scene, new("A", "B", **window), **period)
    assert record["sentences"][0]["text"] == (
        f"50.0% of 40 settled {unit}s completed, not clearly different from 50.0% on the day "
        "before."
    )


@pytest.mark.usefixtures("warehouse")
def test_open_and_endless_windows_give_no_verdict(scene: Scene, clock: ShiftedClock) -> None:
    many(scene, 0, "old", 40, 20)
    endless = scene.funnel("A", "B", conversionWindowSeconds=None)
    assert read_verdict(scene, endless)["sentences"] == []
    scene.start_ms = clock() - 40 * 60_000
    many(scene, 0, "new", 40, 20)
    open_ = scene.attempts("A", "B", conversionWindowSeconds=7 * DAY_S)
    period = scene.period(0, HOUR_S)
    record = read_verdict(scene, open_, **period)
    assert pick(record, "sentences", "largestLoss") == ([], None)


def test_a_wrong_parameter_is_refused(scene: Scene) -> None:
    funnel_id = scene.attempts("A", "B")
    for query in (
        {"page": "2"},
        {"cohort": '{"plan": 1}'},
        {"startAt": "x"},
        {"compareStartAt": 10**12},
    ):
        answer = scene.request(funnel_id, "verdict", **query)
        assert answer.status_code in (400, 422), answer.text
