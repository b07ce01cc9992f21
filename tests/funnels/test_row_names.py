"""Names of rows: shown in reports, and without effect on what is counted or stored."""

import csv
import io
from typing import Any

import pytest

from tests.cases import cases
from tests.funnels.scenario import Json, Scene, step

pytestmark = pytest.mark.usefixtures("warehouse")

ROWS = (
    step("A", name="Cart"),
    step("failed", diagnostic=True, name="Card declined"),
    step("B", "C"),
    step("D", name="Paid"),
)


def record(scene: Scene, funnel_id: str) -> Json:
    body: Json = scene.client.get(f"/api/funnels/{funnel_id}").json()
    return body


def put(scene: Scene, funnel_id: str, *rows: Json) -> Json:
    body = record(scene, funnel_id) | {"steps": rows}
    answer = scene.client.put(f"/api/funnels/{funnel_id}", json=body)
    assert answer.status_code == 200, answer.text
    changed: Json = answer.json()
    return changed


def names(rows: list[Json]) -> list[str | None]:
    return [row.get("name") for row in rows]


def test_a_row_keeps_its_name_and_a_row_without_one_has_no_such_field(scene: Scene) -> None:
    saved = record(scene, scene.attempts(*ROWS))
    assert names(saved["steps"]) == ["Cart", "Card declined", None, "Paid"]
    assert "name" not in saved["steps"][2]


@cases(
    ("name", "code"),
    [
        ("n" * 201, "too_long"),
        (" ", "too_short"),
        ("a\nb", "control_character"),
        (1, "wrong_type"),
    ],
)
def test_a_name_has_1_to_200_characters_on_one_line(scene: Scene, name: Any, code: str) -> None:
    funnel = {"name": "f", "steps": [step("A"), step("B", name=name)]}
    for path in ("/api/funnels", "/api/funnels/validate", "/api/funnels/preview"):
        answer = scene.client.post(path, json=funnel)
        assert answer.status_code == 422, answer.text
        [fault] = answer.json()["errors"]
        assert (fault["field"], fault["code"]) == ("steps[1].name", code)
    longest = {"name": "f", "steps": [step("A"), step("B", name="n" * 200)]}
    assert scene.client.post("/api/funnels", json=longest).status_code == 201


def test_results_and_previews_show_names(scene: Scene) -> None:
    scene.story("0/A 5/failed 10/B 20/D")
    funnel_id = scene.attempts(*ROWS)
    draft = {name: value for name, value in record(scene, funnel_id).items() if name != "id"}
    for name in ("revision", "createdAt", "updatedAt"):
        del draft[name]
    preview = scene.client.post("/api/funnels/preview", json=draft)
    assert preview.status_code == 200, preview.text
    for report in (scene.results(funnel_id), preview.json()):
        for part in (report["aggregate"], report["cohorts"]["data"][0]):
            assert names(part["steps"]) == ["Cart", None, "Paid"]
            assert names(part["diagnostics"]) == ["Card declined"]


def test_an_export_has_the_name_or_else_the_value(scene: Scene) -> None:
    text = scene.client.get(f"/api/funnels/{scene.attempts(*ROWS)}/export").text
    [row] = [row for row in csv.DictReader(io.StringIO(text)) if row["row"] == "total"]
    assert [row[f"step_{number}_name"] for number in (1, 2, 3)] == ["Cart", "B", "Paid"]
    assert row["diagnostic_1_name"] == "Card declined"


def test_an_impossible_step_is_named(scene: Scene) -> None:
    scene.story("0/A")
    [diagnostic, middle, last] = scene.results(scene.attempts(*ROWS))["impossibleSteps"]
    assert middle["message"].endswith("so step 2 can never be reached.")
    assert last["message"].endswith("so step 3 (Paid) can never be reached.")
    assert diagnostic["message"].endswith(
        "so the diagnostic row after step 1 (Card declined) counts nothing."
    )


@cases(
    ("rows", "words"),
    [
        (("A", step("B", name="Paid"), "C"), "from A to Paid"),
        ((step("A", name="Cart"), step("B", name="Paid"), "C"), "from Cart to Paid"),
        ((step("A", name="Cart"), "B"), "from Cart to B"),
        (("A", "B"), "on the way from A to B"),
    ],
)
def test_the_verdict_names_the_steps_of_the_largest_loss(
    scene: Scene, rows: Any, words: str
) -> None:
    for number in range(40):
        scene.story("0/A 10/B 20/C" if number < 10 else "0/A", attempt=f"a{number}")
    funnel_id = scene.attempts(*rows)
    verdict = scene.report(funnel_id, "verdict")
    assert any(words in sentence["text"] for sentence in verdict["sentences"]), verdict


def test_a_change_of_names_keeps_the_revision_and_is_shown_at_once(scene: Scene) -> None:
    scene.story("0/A 10/B")
    funnel_id = scene.attempts("A", "B")
    scene.results(funnel_id)
    changed = put(scene, funnel_id, step("A", name="Cart"), step("B"))
    assert (changed["revision"], names(changed["steps"])) == (1, ["Cart", None])
    assert scene.results(funnel_id)["servedFrom"] == "cache"
    assert names(scene.results(funnel_id)["aggregate"]["steps"]) == ["Cart", None]
    assert scene.client.get(f"/api/funnels/{funnel_id}/revisions").json()["total"] == 1
    changed = put(scene, funnel_id, step("A"), step("B"))
    assert (changed["revision"], names(changed["steps"])) == (1, [None, None])


def test_the_next_revision_lists_the_names_that_changed(scene: Scene) -> None:
    funnel_id = scene.attempts("A", "B")
    put(scene, funnel_id, step("A", name="Cart"), step("B"))
    put(scene, funnel_id, step("A", name="Cart"), step("B"), step("C"))
    newest, first = scene.client.get(f"/api/funnels/{funnel_id}/revisions").json()["data"]
    assert newest["changes"] == ["Step 1: name none -> Cart", "Step 3 added after step 2: Event C"]
    assert names(first["definition"]["steps"]) == [None, None]
