"""Exports of reports over HTTP, as CSV, JSON and Parquet."""

import csv
import io
import json
import re
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.cases import cases, full_except
from tests.conftest import ShiftedClock
from tests.funnels.answers import fields
from tests.funnels.scenario import Scene, column
from tests.tenant import Tenant
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("warehouse")

FORMS = ("csv", "json", "parquet")
GOLDEN = '''\
"row","plan","entered",\
"step_1_name","step_1_count","step_1_pending","step_1_dropped_off","step_1_excluded",\
"step_2_name","step_2_count","step_2_pending","step_2_dropped_off","step_2_excluded",\
"completed","pending","dropped_off","excluded","conversion_rate","median_completion_minutes",\
"settled","settled_rate","early_completions"
"total",,5,"A",5,0,4,0,"B",1,0,0,0,1,0,4,0,0.2,1.5,5,0.2,0
"cohort","-5",1,"A",1,0,1,0,"B",0,0,0,0,0,0,1,0,0,,1,0,0
"cohort","""5""",1,"A",1,0,1,0,"B",0,0,0,0,0,0,1,0,0,,1,0,0
"cohort","'=1+1",1,"A",1,0,1,0,"B",0,0,0,0,0,0,1,0,0,,1,0,0
"cohort","pro",1,"A",1,0,0,0,"B",1,0,0,0,1,0,0,0,1,1.5,1,1,0
"cohort","Unknown",1,"A",1,0,1,0,"B",0,0,0,0,0,0,1,0,0,,1,0,0
'''
"""Leave out the columns of data quality and coverage, which only the total has."""


@pytest.fixture
def scene(workspace: Tenant, clock: ShiftedClock) -> Scene:
    scene = Scene(workspace, clock)
    scene.story("0/A 90/B", attempt="1", plan="pro")
    scene.story("0/A", attempt="2", plan="=1+1")
    scene.story("0/A", attempt="3", plan=-5)
    scene.story("0/A", attempt="4")
    scene.story("0/A", attempt="5", plan="5")
    return scene


@pytest.fixture
def funnel_id(scene: Scene) -> str:
    return scene.attempts("A", "B", breakdownProperties=["plan"])


def export(scene: Scene, funnel_id: str, **query: Any) -> bytes:
    answer = scene.client.get(f"/api/funnels/{funnel_id}/export", params=query)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_csv_equals_the_golden_file(scene: Scene, funnel_id: str) -> None:
    answer = scene.client.get(f"/api/funnels/{funnel_id}/export", params={"format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    head, total, *cohorts = answer.text.splitlines()
    figures, facts = head.split(',"definition_revision"')
    assert facts.startswith(',"period_start_at","period_end_at","asked_')
    blanks = "," * (facts.count(",") + 1)
    lines = [figures, *(line.removesuffix(blanks) for line in cohorts)]
    head, golden_total, *golden = GOLDEN.splitlines()
    assert lines == [head, *golden]
    assert total.startswith(f"{golden_total},1,")


@cases(
    ("name", "period", "expected"),
    [
        ("Checkout: plans / 2025", {}, 'filename="checkout-plans-2025-all-time.csv"'),
        (
            "Checkout",
            {"startAt": "2025-03-01T00:00:00Z", "endAt": "2025-04-01T00:00:00Z"},
            'filename="checkout-2025-03-01-to-2025-03-31.csv"',
        ),
        (
            "Checkout",
            {"startAt": "2025-03-01T00:00:00Z", "endAt": "2025-03-02T00:00:00Z"},
            'filename="checkout-2025-03-01.csv"',
        ),
        ('"=/', {}, 'filename="funnel-all-time.csv"'),
        (
            "Käufe",
            {},
            "filename=\"kufe-all-time.csv\"; filename*=UTF-8''k%C3%A4ufe-all-time.csv",
        ),
    ],
)
def test_a_file_is_named_after_its_funnel_and_period(
    scene: Scene, name: str, period: dict[str, str], expected: str
) -> None:
    funnel_id = scene.attempts("A", "B", name=name)
    answer = scene.client.get(f"/api/funnels/{funnel_id}/export", params=period)
    assert answer.headers["content-disposition"] == f"attachment; {expected}"


@pytest.mark.parametrize("form", full_except(["csv"], FORMS, "the same figures in other formats"))
def test_an_export_has_every_figure_of_the_report(scene: Scene, form: str) -> None:
    scene.story("0/A 30/F 60/F 90/B", attempt="6", plan="pro")
    scene.story("0/A", attempt=None)
    goal = {"name": "=Bought", "match": {"type": "Event", "value": "B"}}
    assert scene.client.post("/api/goals", json=goal).status_code == 201
    steps = [
        {"type": "Event", "value": "A"},
        {"type": "Event", "value": "F", "diagnostic": True},
        {"type": "Goal", "value": "=Bought"},
    ]
    funnel_id = scene.funnel(
        *steps, countingUnit="attempt", attemptProperty="attempt", breakdownProperties=["plan"]
    )
    period = scene.period(-60, 3600)
    content = export(scene, funnel_id, format=form, **period)
    report = scene.results(funnel_id, **period)
    read: Any = {
        "csv": lambda: list(csv.DictReader(io.StringIO(content.decode()))),
        "json": lambda: json.loads(content),
        "parquet": lambda: parquet.read_table(io.BytesIO(content)).to_pylist(),
    }[form]
    total, *cohorts = read()
    assert column((total, *cohorts), "row") == ["total", *["cohort"] * len(cohorts)]

    name = "'=Bought" if form == "csv" else "=Bought"
    assert {(row["step_1_name"], row["step_2_name"]) for row in (total, *cohorts)} == {("A", name)}
    names = {(row["diagnostic_1_name"], row["diagnostic_1_where"]) for row in (total, *cohorts)}
    assert names == {("F", "between steps 1 and 2")}
    for row, counts in zip(
        (total, *cohorts), [report["aggregate"], *report["cohorts"]["data"]], strict=True
    ):
        [seen] = counts["diagnostics"]
        figures = [row["diagnostic_1_units"], row["diagnostic_1_events"]]
        assert [int(figure) for figure in figures] == [seen["units"], seen["events"]]

    def plain(value: Any) -> Any:
        """The JSON value of a CSV cell."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            return value or None

    for row, counts in zip(
        (total, *cohorts), [report["aggregate"], *report["cohorts"]["data"]], strict=True
    ):
        own = {
            snake_case(name): value
            for name, value in counts.items()
            if not isinstance(value, list | dict) and name != "finalRate"
        }
        assert len(own) > 9
        assert {name: plain(row[name]) for name in own} == own

    quality = {snake_case(f"quality_{key}"): value for key, value in report["dataQuality"].items()}
    assert quality["quality_events_without_attempt_id"] == 1
    assert {name: plain(total[name]) for name in quality} == quality
    coverage = {snake_case(f"coverage_{key}"): value for key, value in report["coverage"].items()}
    assert coverage["coverage_complete"] is False
    assert {name: plain(total[name]) for name in coverage} == coverage
    assert total["period_start_at"] == report["period"]["startAt"]
    assert total["period_end_at"] == report["period"]["endAt"]
    assert int(total["definition_revision"]) == 1
    for row in cohorts:
        assert not any(row[name] for name in (*quality, *coverage))


def snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name)


def test_csv_of_texts_that_need_quotes_reads_back(scene: Scene) -> None:
    texts_to_quote = ['say "hi"', "a,b", "line\nbreak", "@cmd", "+1", "\ttab", "ünï 🎉", ""]
    for number, text in enumerate(texts_to_quote):
        scene.story("0/A", attempt=f"odd-{number}", **{'k"e,y': text})
    [head, _, *rows] = csv.reader(
        io.StringIO(export(scene, scene.attempts("A", "B", breakdownProperties=['k"e,y'])).decode())
    )
    assert head[1] == 'k"e,y'
    assert {row[1] for row in rows} == {
        'say "hi"',
        "a,b",
        "line\nbreak",
        "'@cmd",
        "'+1",
        "'\ttab",
        "ünï 🎉",
        '""',
        "Unknown",
    }


def test_csv_spells_each_value_in_its_own_way(scene: Scene) -> None:
    values = [
        None, "Unknown", '"Unknown"', 1, "1", 1.5, "1.5", True, "true", "TRUE", "", " ", "007",
        "-5", -5, "=1", "'=1", "1e5", "v1", "pro",
    ]  # fmt: skip
    for number, value in enumerate(values):
        scene.story("0/A", attempt=f"value-{number}", tier=value)
    funnel = scene.attempts("A", "B", breakdownProperties=["tier"])
    [_, _, *rows] = csv.reader(io.StringIO(export(scene, funnel).decode()))
    assert sorted(row[1] for row in rows) == sorted([
        "Unknown", '"Unknown"', '"\\"Unknown\\""', "1", '"1"', "1.5", '"1.5"', "true", '"true"',
        '"TRUE"', '""', '" "', '"007"', '"-5"', "-5", "'=1", '"\'=1"', '"1e5"', "v1", "pro",
    ])  # fmt: skip
    assert len({row[1] for row in rows}) == len(values)


def test_csv_disarms_every_spelling_of_a_formula(scene: Scene) -> None:
    texts = [
        " =1", "\u3000=1", "\ufeff=1", "\t+1", "\n@a", "\x01x", "\x1b=", "＝1", "＋1", "－1", "＠a",
        "\u00a0-a", "\u200b=1", "\u00ad=1", "\u061c+1", "\u180e-1", "\u202e@a", "\u2066=1",
        "\u2800=1", "\u3164=1", "\ufe0f=1", "\U000e0041=1", "\u200b\t=1",
    ]  # fmt: skip
    for number, text in enumerate([*texts, "a=1", "ａ"]):
        scene.story("0/A", attempt=f"formula-{number}", tier=text)
    funnel = scene.attempts("A", "B", breakdownProperties=["tier"])
    [_, _, *rows] = csv.reader(io.StringIO(export(scene, funnel).decode(), newline=""))
    assert {row[1] for row in rows} - {"Unknown"} == {*(f"'{text}" for text in texts), "a=1", "ａ"}


def test_an_export_accepts_the_parameters_of_results_and_ignores_them(
    scene: Scene, funnel_id: str
) -> None:
    results = {"page": 2, "pageSize": 1, "sort": "completed", "order": "asc"}
    assert export(scene, funnel_id, **results) == export(scene, funnel_id)


def test_json_keeps_the_types_of_entry_values(scene: Scene, funnel_id: str) -> None:
    total, *cohorts = json.loads(export(scene, funnel_id, format="json"))
    assert (total["cohort"], total["entered"], total["median_completion_minutes"]) == (None, 5, 1.5)
    assert [row["cohort"]["plan"] for row in cohorts] == [-5, "5", "=1+1", "pro", None]
    assert column(cohorts, "median_completion_minutes") == [None, None, None, 1.5, None]


def test_parquet_keeps_the_types_of_entry_values(scene: Scene, funnel_id: str) -> None:
    rows = parquet.read_table(io.BytesIO(export(scene, funnel_id, format="parquet"))).to_pylist()
    assert [(row["plan"], row["plan_type"]) for row in rows] == [
        (None, "total"), ("-5", "number"), ("5", "string"), ("=1+1", "string"),
        ("pro", "string"), (None, "missing"),
    ]  # fmt: skip
    assert (
        rows[0]["entered"],
        rows[4]["conversion_rate"],
        rows[5]["median_completion_minutes"],
    ) == (5, 1.0, None)


def test_every_number_matches_the_report(scene: Scene, funnel_id: str) -> None:
    report = scene.results(funnel_id)
    rows = json.loads(export(scene, funnel_id, format="json"))
    for row, counts in zip(rows, [report["aggregate"], *report["cohorts"]["data"]], strict=True):
        assert (row["entered"], row["completed"], row["pending"], row["dropped_off"]) == tuple(
            counts[name] for name in ("entered", "completed", "pending", "droppedOff")
        )
        assert row["conversion_rate"] == counts["conversionRate"]
        for step in counts["steps"]:
            names = ("count", "pending", "dropped_off", "excluded")
            assert [row[f"step_{step['step']}_{name}"] for name in names] == [
                step["count"],
                step["pending"],
                step["droppedOff"],
                step["excluded"],
            ]


def test_an_export_has_the_cohorts_of_all_pages(scene: Scene, funnel_id: str) -> None:
    scene.track(
        scene.item(10, "A", attempt=f"many-{number}", plan=f"plan {number}")
        for number in range(150)
    )
    assert len(json.loads(export(scene, funnel_id, format="json"))) == 1 + 5 + 150


def test_an_export_follows_period_and_cohort(scene: Scene, funnel_id: str) -> None:
    [total, cohort] = json.loads(export(scene, funnel_id, format="json", cohort='{"plan": "pro"}'))
    assert (total["entered"], cohort["cohort"]) == (1, {"plan": "pro"})
    [total] = json.loads(
        export(scene, funnel_id, format="json", startAt=scene.at(10), endAt=scene.at(20))
    )
    assert total["entered"] == 0


@cases("form", FORMS)
def test_an_export_of_nothing_has_a_total_of_zeros(scene: Scene, form: str) -> None:
    content = export(scene, scene.funnel("nothing", "at all"), format=form)
    rows = {
        "csv": lambda: list(csv.DictReader(io.StringIO(content.decode()))),
        "json": lambda: json.loads(content),
        "parquet": lambda: parquet.read_table(io.BytesIO(content)).to_pylist(),
    }[form]()
    assert [int(row["entered"]) for row in rows] == [0]
    assert not rows[0]["conversion_rate"]


def test_a_property_with_the_name_of_a_figure_gets_a_prefix(scene: Scene) -> None:
    scene.story("0/A", attempt="x", entered="yes")
    funnel_id = scene.attempts("A", "B", breakdownProperties=["entered"])
    assert export(scene, funnel_id).decode().startswith('"row","cohort_entered","entered"')


def test_an_unknown_format_is_refused(scene: Scene, funnel_id: str) -> None:
    answer = scene.client.get(f"/api/funnels/{funnel_id}/export", params={"format": "xlsx"})
    assert fields(answer) == ["format"]


def test_columns_have_unique_names_for_any_property_names(scene: Scene) -> None:
    scene.story("0/A", attempt="x", plan="a", plan_type="b", step_1_count="c")
    funnel_id = scene.attempts("A", "B", breakdownProperties=["plan", "plan_type", "step_1_count"])
    columns = parquet.read_table(
        io.BytesIO(export(scene, funnel_id, format="parquet"))
    ).column_names
    assert len(columns) == len(set(columns))
    assert columns[1:7] == [
        "plan",
        "plan_type",
        "cohort_plan_type",
        "cohort_plan_type_type",
        "cohort_step_1_count",
        "cohort_step_1_count_type",
    ]


@cases("form", full_except(["csv"], FORMS, "jobs with files of other formats"))
def test_an_export_can_be_a_job_whose_file_is_fetched_several_times(
    scene: Scene, funnel_id: str, form: str
) -> None:
    answer = scene.client.get(
        f"/api/funnels/{funnel_id}/export",
        params={"format": form},
        headers={"Prefer": "respond-async"},
    )
    assert answer.status_code == 202
    job = answer.headers["location"]
    eventually(lambda: scene.client.get(job).json()["state"] == "done")
    first, again = (scene.client.get(f"{job}/result") for _ in range(2))
    assert first.content == again.content
    assert first.headers["content-disposition"].startswith('attachment; filename="')
    assert first.headers["content-disposition"].endswith(f'-all-time.{form}"')
    if form != "parquet":
        assert first.content == export(scene, funnel_id, format=form)
