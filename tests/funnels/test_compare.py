"""Cohorts of a breakdown property are compared with a baseline.

The numbers are checked against textbooks and formulas.
"""

import json
import math
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from scipy import integrate, stats

from penstock.base.rates import Share
from penstock.funnels.comparisons.proportions import (
    Comparison,
    Method,
    holm,
    newcombe_interval,
    p_value,
    probability_to_beat,
    wilson_interval,
)
from penstock.funnels.comparisons.words import summary
from tests.cases import cases
from tests.conftest import ShiftedClock
from tests.funnels.answers import code, faults
from tests.funnels.scenario import ATTEMPTS, DAY_S, HOUR_S, Json, Scene, column, pick, rows_of
from tests.tenant import Tenant

pytestmark = pytest.mark.usefixtures("warehouse")

Z_975 = 1.959963984540054
NOT_A_SCALAR, UNKNOWN_COHORT = "baseline not_a_scalar", "baseline unknown_cohort"


def wilson(part: int, whole: int) -> tuple[float, float]:
    """Wilson's interval by the formula of textbooks."""
    rate, z2 = part / whole, Z_975**2
    centre, spread = (
        rate + z2 / (2 * whole),
        Z_975 * math.sqrt(rate * (1 - rate) / whole + z2 / (4 * whole**2)),
    )
    return (centre - spread) / (1 + z2 / whole), (centre + spread) / (1 + z2 / whole)


def z_test(part: int, whole: int, base_part: int, base_whole: int) -> float:
    pooled = (part + base_part) / (whole + base_whole)
    z = (part / whole - base_part / base_whole) / math.sqrt(
        pooled * (1 - pooled) * (1 / whole + 1 / base_whole)
    )
    return math.erfc(abs(z) / math.sqrt(2))


def fisher(part: int, whole: int, base_part: int, base_whole: int) -> float:
    """Sum of the probabilities of all tables with these margins that are at most as likely."""
    total = part + base_part
    tables = [math.comb(whole, k) * math.comb(base_whole, total - k) for k in range(total + 1)]
    return sum(probability for probability in tables if probability <= tables[part]) / math.comb(
        whole + base_whole, total
    )


def beats(part: int, whole: int, base_part: int, base_whole: int) -> float:
    """The closed form for integers, in exact fractions."""
    a, b, c, d = part + 1, whole - part + 1, base_part + 1, base_whole - base_part + 1

    def beta(x: int, y: int) -> Fraction:
        return Fraction(math.factorial(x - 1) * math.factorial(y - 1), math.factorial(x + y - 1))

    return float(
        sum(beta(c + i, d + b) / ((b + i) * beta(1 + i, b) * beta(c, d)) for i in range(a))
    )


def arm(scene: Scene, value: Any, entered: int, completed: int, later: Any = None) -> None:
    """Track attempts whose entry has this value of `variant`, unless it is None.

    later: a different variant in the completing events.
    """
    items = []
    for number in range(entered):
        own = {"attempt": f"{json.dumps(value)}-{number}"}
        own |= {} if value is None else {"variant": value}
        items.append(scene.item(0, "A", **own))
        if number < completed:
            own |= {} if later is None else {"variant": later}
            items.append(scene.item(60, "B", **own))
    for start in range(0, len(items), 500):
        scene.track(items[start : start + 500])


def funnel(scene: Scene, **definition: Any) -> str:
    return scene.attempts(
        "A",
        "B",
        **{"sequenceProperty": None, "breakdownProperties": ["variant", "plan"], **definition},
    )


def compare(scene: Scene, funnel_id: str, **query: Any) -> Json:
    return scene.report(funnel_id, "compare", **{"property": "variant", **query})


def by_value(record: Json) -> dict[Any, Json]:
    return {row["cohort"]["variant"]: row for row in record["cohorts"]}


def refused(scene: Scene, funnel_id: str, **query: Any) -> list[str]:
    answer = scene.request(funnel_id, "compare", **query)
    assert code(answer, 400) == "bad_parameter"
    return faults(answer, 400)


def interval(low: float, high: float, error: float = 1e-6) -> Json:
    return {"lower": pytest.approx(low, abs=error), "upper": pytest.approx(high, abs=error)}


def settled(value: str, completed: int, entered: int, against: Json | None) -> Json:
    """The row of a variant whose windows have all ended."""
    rate, rate_interval = completed / entered, interval(*wilson(completed, entered))
    return {
        "cohort": {"variant": value},
        "label": {"variant": value},
        "entered": entered,
        "completed": completed,
        "pending": 0,
        "excluded": 0,
        "conversionRate": rate,
        "rateInterval": rate_interval,
        "finalRate": {"lower": rate, "upper": rate},
        "conflictingEntryValues": 0,
        "tooFew": False,
        "againstBaseline": against,
        "settled": entered,
        "settledRate": rate,
        "earlyCompletions": 0,
        "settledRateInterval": rate_interval,
        "settledTooFew": False,
        "settledAgainstBaseline": against,
    }


def test_a_whole_comparison(scene: Scene) -> None:
    """Check 56 of 70 against 48 of 80. Newcombe 1998, method 10, gives 0.0524 to 0.3339."""
    funnel_id = funnel(scene)
    arm(scene, "old", 80, 48)
    arm(scene, "new", 70, 56)
    record = compare(scene, funnel_id)
    assert record["coverage"]["openWindows"] == 0
    against = {
        "difference": 0.2,
        "differenceInterval": interval(0.0524, 0.3339, 5e-5),
        "test": "z",
        "pValue": pytest.approx(z_test(56, 70, 48, 80)),
        "pValueCorrected": pytest.approx(z_test(56, 70, 48, 80)),
        "probabilityToBeat": pytest.approx(beats(56, 70, 48, 80), abs=1e-6),
    }
    assert record == {
        "funnelId": funnel_id,
        "definitionRevision": 1,
        "goals": [],
        "countingUnit": "attempt",
        "evaluatedAt": record["evaluatedAt"],
        "computedAt": record["computedAt"],
        "directReason": None,
        "servedFrom": "query",
        "lastKnownEventAt": record["coverage"]["lastEventAt"],
        "period": {"startAt": None, "endAt": None},
        "websiteId": None,
        "asked": None,
        "property": "variant",
        "summary": "variant = new converts 20.0 points better than old (95%: 5.2 to 33.4).",
        "baseline": {"cohort": {"variant": "old"}, "label": {"variant": "old"}},
        "confidenceLevel": 0.95,
        "total": 2,
        "leftOut": 0,
        "cohorts": [settled("old", 48, 80, None), settled("new", 56, 70, against)],
        "warnings": [],
        "coverage": record["coverage"],
    }


def test_numbers_are_those_of_the_results(scene: Scene) -> None:
    funnel_id = funnel(scene, breakdownProperties=["variant"])
    arm(scene, "a", 40, 10)
    arm(scene, None, 35, 5)
    results = scene.results(funnel_id)["cohorts"]["data"]
    shared = ("cohort", "label", "entered", "completed", "pending", "conversionRate")
    cohorts = compare(scene, funnel_id)["cohorts"]
    assert [pick(row, *shared) for row in cohorts] == [pick(row, *shared) for row in results]


def test_small_counts_are_tested_exactly(scene: Scene) -> None:
    funnel_id = funnel(scene)
    arm(scene, "a", 40, 1)
    arm(scene, "b", 30, 4)
    against = by_value(compare(scene, funnel_id))["b"]["againstBaseline"]
    assert pick(against, "test", "pValue") == ("fisher", pytest.approx(fisher(4, 30, 1, 40)))


def test_comparisons_are_corrected_without_cohorts_that_have_too_few_units(
    scene: Scene,
) -> None:
    funnel_id = funnel(scene)
    arm(scene, "a", 100, 40)
    arm(scene, "b", 90, 50)
    arm(scene, "c", 80, 45)
    arm(scene, "few", 29, 20)
    record = compare(scene, funnel_id)
    rows = by_value(record)
    assert {value: row["tooFew"] for value, row in rows.items()} == {
        value: value == "few" for value in ("a", "b", "c", "few")
    }
    [warning] = record["warnings"]
    assert warning["code"] == "too_few"
    assert warning["message"].startswith("1 cohort has fewer than 30 settled attempts")
    p_values = {"b": z_test(50, 90, 40, 100), "c": z_test(45, 80, 40, 100)}
    least = min(p_values.values())
    for value, p in p_values.items():
        assert rows[value]["againstBaseline"]["pValueCorrected"] == pytest.approx(
            2 * p if p == least else max(p, 2 * least)
        )
    assert rows["few"]["againstBaseline"]["pValue"] == pytest.approx(z_test(20, 29, 40, 100))
    assert rows["few"]["againstBaseline"]["pValueCorrected"] is None

    few = by_value(compare(scene, funnel_id, baseline='"few"'))
    others = [row["againstBaseline"] for value, row in few.items() if value != "few"]
    assert column(others, "pValueCorrected") == [None] * 3
    assert few["few"]["againstBaseline"] is None
    assert few["a"]["againstBaseline"]["difference"] == pytest.approx(0.4 - 20 / 29, abs=1e-6)


def test_a_baseline_is_selected_by_value_and_type(scene: Scene) -> None:
    funnel_id = funnel(scene)
    values = ("1", 1, True, None, "null", 1.5, "")
    for index, value in enumerate(values):
        arm(scene, value, 10 + index, 2)
    assert compare(scene, funnel_id)["baseline"]["cohort"] == {"variant": ""}, "the most entered"
    for value in values:
        record = compare(scene, funnel_id, baseline=json.dumps(value))
        assert json.dumps(record["baseline"]["cohort"]) == json.dumps({"variant": value})
        assert [
            json.dumps(row["cohort"]["variant"])
            for row in record["cohorts"]
            if row["againstBaseline"] is None
        ] == [json.dumps(value)]
    assert compare(scene, funnel_id, baseline="null")["baseline"]["label"] == {"variant": "Unknown"}
    assert compare(scene, funnel_id, baseline="1.0")["baseline"]["cohort"] == {"variant": 1}, (
        "JSON has one kind of number"
    )


def test_an_invalid_comparison_names_its_parameter(scene: Scene) -> None:
    funnel_id = funnel(scene)
    arm(scene, "a", 2, 1)
    assert refused(scene, funnel_id) == ["property required"]
    assert refused(scene, funnel_id, property="other") == ["property not_a_breakdown"]
    assert refused(scene, funnel_id, property="other", baseline="a", page=1) == [
        "baseline not_a_scalar",
        "page unknown_field",
    ]
    variant = {"property": "variant"}
    for text in ("a", "", "[]", "{}", "NaN", "Infinity", '"a', '"\\ud800"', "1e999"):
        assert refused(scene, funnel_id, **variant, baseline=text) == [NOT_A_SCALAR], text
    for text in ('"b"', "null", "1", '"\\u0000"', str(10**400)):
        assert refused(scene, funnel_id, **variant, baseline=text) == [UNKNOWN_COHORT], text
    assert refused(scene, funnel_id, **variant, startAt=scene.at(0)) == ["endAt needs_end"]
    assert refused(scene, funnel_id, **variant, revision=2) == ["revision unknown_revision"]
    assert refused(scene, scene.attempts("A", "B"), **variant) == ["property not_a_breakdown"]


def test_a_comparison_without_units(scene: Scene) -> None:
    funnel_id = funnel(scene)
    record = compare(scene, funnel_id)
    shown = pick(record, "baseline", "cohorts", "total", "leftOut", "warnings")
    assert shown == (None, [], 0, 0, [])
    assert refused(scene, funnel_id, property="variant", baseline="null") == [UNKNOWN_COHORT]


def test_the_fifty_largest_cohorts_and_the_baseline_are_compared(scene: Scene) -> None:
    funnel_id = funnel(scene)
    scene.track(
        [
            scene.item(0, "A", attempt=f"{value}-{n}", variant=value)
            for value in range(60)
            for n in range(1 + (value < 5))
        ]
    )
    record = compare(scene, funnel_id)
    assert (record["total"], record["leftOut"], len(record["cohorts"])) == (60, 10, 50)
    listed = list(by_value(record))
    assert listed[:5] == [0, 1, 2, 3, 4]
    [missing, *_] = set(range(60)) - set(listed)
    record = compare(scene, funnel_id, baseline=missing)
    assert (record["total"], record["leftOut"]) == (60, 9)
    assert list(by_value(record)) == [*listed, missing]
    assert record["cohorts"][-1]["againstBaseline"] is None
    assert record["baseline"]["cohort"] == {"variant": missing}
    for text in ("60", '"0"', '"\\u0000"', "null", str(10**400)):
        query = {"property": "variant", "baseline": text}
        assert refused(scene, funnel_id, **query) == [UNKNOWN_COHORT], text


def test_built_in_fields_are_compared(scene: Scene) -> None:
    funnel_id = funnel(scene, breakdownProperties=["$source"])
    arm(scene, "a", 3, 1)
    record = compare(scene, funnel_id, property="$source", baseline='"browser"')
    assert column(record["cohorts"], "cohort") == [{"$source": "browser"}]


def test_units_assigned_after_entry_cause_a_warning(scene: Scene) -> None:
    funnel_id = funnel(scene, breakdownProperties=["plan", "variant"])
    arm(scene, "a", 40, 20)
    arm(scene, "b", 35, 7, later="a")
    record = compare(scene, funnel_id)
    [warning] = record["warnings"]
    assert warning["code"] == "assigned_after_entry"
    assert warning["message"].startswith("7 attempts have a different value of variant")
    conflicts = {value: row["conflictingEntryValues"] for value, row in by_value(record).items()}
    assert conflicts == {"a": 0, "b": 7}
    assert scene.results(funnel_id)["dataQuality"]["conflictingEntryValues"]["variant"] == 7


def _clear(low: float, difference: float, high: float) -> Comparison:
    return Comparison(difference, (low, high), Method.Z, p_value=0.01, corrected=0.02)


@cases(
    ("clear", "tested", "expected"),
    [
        ([], 0, "There are too few visitors to compare values of ad."),
        ([], 1, "The other value does not differ clearly from a."),
        ([], 4, "None of the 4 other values differs clearly from a."),
        (
            [("b", _clear(0.04, 0.08, 0.12))],
            4,
            "ad = b converts 8.0 points better than a (95%: 4.0 to 12.0).",
        ),
        (
            [("b", _clear(0.04, 0.08, 0.12)), (None, _clear(-0.3, -0.2, -0.1))],
            4,
            "ad = Unknown converts 20.0 points worse than a (95%: 10.0 to 30.0). 1 other value "
            "differs clearly from a as well.",
        ),
    ],
)
def test_a_summary_names_the_largest_clear_difference(
    clear: list[tuple[Any, Comparison]], tested: int, expected: str
) -> None:
    assert summary("ad", "a", clear, tested, "visitors") == expected


def test_open_windows_cause_a_warning_and_limit_the_final_rate(
    workspace: Tenant, clock: ShiftedClock
) -> None:
    scene = Scene(workspace, clock, ago_s=600)
    funnel_id = funnel(scene)
    arm(scene, "a", 40, 20)
    arm(scene, "b", 32, 8)
    record = compare(scene, funnel_id)
    assert column(record["warnings"], "code") == ["too_few", "open_windows"]
    assert record["warnings"][0]["message"].startswith("2 cohorts have fewer than 30 settled")
    assert record["warnings"][1]["message"].startswith("44 attempts may still complete")
    assert record["summary"] == "There are too few settled attempts to compare values of variant."
    assert record["coverage"]["openWindows"] == 44
    rows = by_value(record)
    assert (rows["b"]["pending"], rows["b"]["finalRate"]) == (24, {"lower": 0.25, "upper": 1.0})
    clock.advance(seconds=HOUR_S)
    assert column(compare(scene, funnel_id)["cohorts"], "finalRate") == [
        {"lower": 0.5, "upper": 0.5},
        {"lower": 0.25, "upper": 0.25},
    ]
    record = compare(scene, funnel_id)
    assert record["warnings"] == []
    assert record["summary"] == "variant = b converts 25.0 points worse than a (95%: 2.4 to 43.9)."


def test_a_comparison_accepts_period_website_and_revision(scene: Scene) -> None:
    funnel_id = funnel(scene)
    arm(scene, "a", 3, 1)
    scene.story("200000/A 200010/B", attempt="late", variant="z")
    first = scene.period(0, DAY_S)
    rows = by_value(compare(scene, funnel_id, **first))
    assert {value: row["entered"] for value, row in rows.items()} == {"a": 3}
    missing = {"property": "variant", "baseline": '"z"', **first}
    assert refused(scene, funnel_id, **missing) == [UNKNOWN_COHORT]
    other = scene.website("Blog")
    assert compare(scene, funnel_id, websiteId=other)["total"] == 0
    changed = {"name": "B", **ATTEMPTS, "steps": rows_of("AC")}
    assert scene.client.put(f"/api/funnels/{funnel_id}", json=changed).status_code == 200
    assert refused(scene, funnel_id, property="variant") == ["property not_a_breakdown"]
    then = compare(scene, funnel_id, revision=1)
    assert (then["definitionRevision"], then["cohorts"][0]["completed"]) == (1, 1)


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_intervals_of_a_rate_match_the_literature(
    part: int, whole: int, low: float, high: float
) -> None:
    """Table I, method 3.

    Source: Newcombe 1998, Two-sided confidence intervals for the single proportion.
    """
    assert wilson_interval(Share(part, whole)) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("share", "baseline", "low", "high"),
    [
        (Share(56, 70), Share(48, 80), 0.0524, 0.3339),
        (Share(9, 10), Share(3, 10), 0.1705, 0.8090),
        (Share(5, 56), Share(0, 29), -0.0381, 0.1926),
        (Share(0, 10), Share(0, 20), -0.1611, 0.2775),
        (Share(10, 10), Share(0, 10), 0.6075, 1.0),
    ],
)
def test_intervals_of_a_difference_match_the_literature(
    share: Share, baseline: Share, low: float, high: float
) -> None:
    """Table II, method 10.

    Source: Newcombe 1998, Interval estimation for the difference between independent proportions.
    """
    assert newcombe_interval(share, baseline) == pytest.approx((low, high), abs=5e-5)


def test_p_values_match_the_formulas() -> None:
    assert p_value(Share(3, 4), Share(1, 4)) == (Method.FISHER, pytest.approx(34 / 70)), (
        "Fisher's lady tasting tea"
    )
    assert p_value(Share(0, 50), Share(0, 60)) == (Method.FISHER, 1.0)
    assert p_value(Share(50, 50), Share(60, 60)) == (Method.FISHER, 1.0)
    assert p_value(Share(2, 900), Share(9, 1_200)) == (
        Method.FISHER,
        pytest.approx(fisher(2, 900, 9, 1_200)),
    )
    assert p_value(Share(10, 20), Share(10, 20)) == (Method.Z, 1.0)
    assert p_value(Share(5_100, 10_000), Share(4_900, 10_000)) == (
        Method.Z,
        pytest.approx(z_test(5_100, 10_000, 4_900, 10_000)),
    )


def test_holms_correction_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@cases(
    ("share", "baseline"),
    [
        (Share(0, 1), Share(0, 1)),
        (Share(0, 30), Share(30, 30)),
        (Share(12, 100), Share(10, 100)),
        (Share(3, 30), Share(200, 2_000)),
        (Share(505, 1_000), Share(470, 1_000)),
        (Share(1_000, 1_000), Share(30, 30)),
    ],
)
def test_the_probability_to_beat_matches_the_closed_form(share: Share, baseline: Share) -> None:
    expected = beats(share.part, share.whole, baseline.part, baseline.whole)
    assert probability_to_beat(share, baseline) == pytest.approx(expected, abs=1e-7)
    assert probability_to_beat(baseline, share) == pytest.approx(1 - expected, abs=1e-7)


def test_the_probability_to_beat_holds_for_millions() -> None:
    """With millions of units, the posteriors are almost normal."""
    rates, whole = (0.0512, 0.0510), 5_000_000
    shares = [Share(round(rate * whole), whole) for rate in rates]
    z = (rates[0] - rates[1]) / math.sqrt(sum(rate * (1 - rate) / whole for rate in rates))
    assert probability_to_beat(*shares) == pytest.approx(math.erfc(-z / math.sqrt(2)) / 2, abs=1e-4)


def test_statistics_are_those_of_scipy() -> None:
    random = Random(1)
    for _ in range(150):
        share, baseline = (_random_share(random) for _ in range(2))
        interval = stats.binomtest(share.part, share.whole).proportion_ci(method="wilson")
        assert wilson_interval(share) == pytest.approx((interval.low, interval.high), abs=1e-12)
        method, probability = p_value(share, baseline)
        if method is Method.FISHER:
            table = [[side.part, side.whole - side.part] for side in (share, baseline)]
            expected = stats.fisher_exact(table, alternative="two-sided").pvalue
            assert probability == pytest.approx(expected, abs=1e-9)
        posteriors = (
            stats.beta(side.part + 1, side.whole - side.part + 1) for side in (share, baseline)
        )
        beats_baseline = _probability_above(*posteriors)
        assert probability_to_beat(share, baseline) == pytest.approx(beats_baseline, abs=1e-6)


def _random_share(random: Random) -> Share:
    whole = random.randint(1, random.choice([1, 5, 20, 100, 3_000, 1_000_000]))
    part = random.choice([0, whole, random.randint(0, whole), min(whole, random.randint(0, 5))])
    return Share(part, whole)


def _probability_above(own: Any, other: Any) -> float:
    """P(own > other) by quadrature between quantiles of both, where the product is smooth."""
    levels = (1e-12, 1e-9, 1e-6, 1e-3, 0.05, 0.25, 0.5, 0.75, 0.95, 1 - 1e-3, 1 - 1e-6, 1 - 1e-9)
    first, last = own.ppf(levels[0]), own.isf(levels[0])
    inner = {cut for side in (own, other) for cut in side.ppf(levels) if first < cut < last}
    cuts = [first, *sorted(inner), last]
    return sum(
        float(integrate.fixed_quad(lambda x: own.pdf(x) * other.cdf(x), start, end, n=30)[0])
        for start, end in pairwise(cuts)
    )
