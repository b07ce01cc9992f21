"""Results of the Python client as tables and as bars."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock_sdk import Results

EXAMPLES = Path(__file__).parents[2] / "docsite/examples.json"
COLUMNS = [
    *("row", "plan", "step", "step_name", "count", "pending", "dropped_off", "excluded"),
    *("conversion_from_start", "conversion_from_previous"),
]


@pytest.fixture
def response() -> dict[str, Any]:
    """A real response: two carts, one of which was paid."""
    examples = json.loads(EXAMPLES.read_text("utf-8"))
    [recorded] = [
        example["response"]
        for example in examples
        if example["operation"] == "GET /api/funnels/{funnel_id}/results"
    ]
    return dict(recorded)


def test_the_response_stays_a_dictionary(response: dict[str, Any]) -> None:
    assert Results(response) == response
    assert Results(response)["aggregate"]["entered"] == 2


def test_a_table_has_each_step_of_the_total_and_of_each_cohort(response: dict[str, Any]) -> None:
    table = Results(response).to_arrow()
    assert table.column_names == COLUMNS
    assert [tuple(row.values())[:5] for row in table.to_pylist()] == [
        ("total", None, 1, "checkout_started", 2),
        ("total", None, 2, "Paid", 1),
        ("cohort", "pro", 1, "checkout_started", 1),
        ("cohort", "pro", 2, "Paid", 1),
        ("cohort", "Unknown", 1, "checkout_started", 1),
        ("cohort", "Unknown", 2, "Paid", 0),
    ]
    assert table["conversion_from_previous"].to_pylist()[:2] == [None, 0.5]


def test_a_table_without_cohorts_has_the_same_types(response: dict[str, Any]) -> None:
    types = Results(response).to_arrow().drop_columns("plan").schema
    empty = {**response, "cohorts": {**response["cohorts"], "data": []}}
    assert Results(empty).to_arrow().schema == types


def test_a_property_with_the_name_of_a_column_gets_a_prefix(response: dict[str, Any]) -> None:
    for cohort in response["cohorts"]["data"]:
        cohort["label"] = {"step": True}
    table = Results(response).to_arrow()
    assert table.column_names[1:3] == ["cohort_step", "step"]
    assert table["cohort_step"].to_pylist()[-1] == "true"


@pytest.mark.parametrize("name", ["polars", "pandas"])
def test_data_frames_have_the_same_rows(response: dict[str, Any], name: str) -> None:
    results = Results(response)
    frame = getattr(results, f"to_{name}")()
    assert list(frame.columns) == COLUMNS
    assert list(frame["count"]) == results.to_arrow()["count"].to_pylist()


@pytest.mark.parametrize(
    ("method", "library"),
    [("to_arrow", "pyarrow"), ("to_polars", "polars"), ("to_pandas", "pandas")],
)
def test_a_missing_library_is_named_with_what_to_do(
    response: dict[str, Any], monkeypatch: pytest.MonkeyPatch, method: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"{method}\(\) needs {library}.* pip install {library}"):
        getattr(Results(response), method)()


def test_a_notebook_shows_bars_and_escapes_names(response: dict[str, Any]) -> None:
    response["aggregate"]["steps"][0]["value"] = "<script>alert(1)</script>"
    shown = Results(response)._repr_html_()
    assert "<script>" not in shown
    assert "2 entered, 50.0% completed" in shown
    assert "width:100.0%" in shown
    assert "width:50.0%" in shown
    assert response["coverage"]["notes"][0] in shown
    heads = [name.partition("<")[0] for name in shown.split('scope="col"')[1:]]
    assert [name.partition(">")[2] for name in heads] == [
        *("Step", "Reached", "Of entered", "Pending", "Dropped off")
    ]


def test_a_notebook_shows_a_funnel_that_nobody_entered(response: dict[str, Any]) -> None:
    response["aggregate"]["conversionRate"] = None
    for step in response["aggregate"]["steps"]:
        step.update(count=0, conversionFromStart=None)
    assert "0 entered, - completed" in Results(response)._repr_html_()
