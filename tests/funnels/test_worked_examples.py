"""The examples of docs/worked-examples.md give the figures that the page states."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.funnels.scenario import HOUR_S, Json, Scene

pytestmark = pytest.mark.usefixtures("warehouse")

PAGE = (Path(__file__).parents[2] / "docs/worked-examples.md").read_text("utf-8")
EXAMPLES = re.findall(
    r"^##+ ([^\n]+)\n(?:(?!^##).)*?```yaml\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE
)


def part_of(record: Any, stated: Any) -> Any:
    """Return the part of a record that has the shape of what the page states."""
    if isinstance(stated, dict):
        return {name: part_of(record[name], value) for name, value in stated.items()}
    if isinstance(stated, list):
        return [part_of(*pair) for pair in zip(record, stated, strict=False)]
    return record


def test_every_example_is_read() -> None:
    assert len(EXAMPLES) == PAGE.count("```yaml") == 16


@pytest.mark.parametrize("text", [text for _, text in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_an_example_gives_the_stated_figures(scene: Scene, text: str) -> None:
    example = yaml.safe_load(text)
    for line in example["events"]:
        own = {name: value for name, value in line.items() if name not in ("visitor", "story")}
        scene.story(line["story"], visitor=line["visitor"], attempt=None, **own)
    for visitor, traits in example.get("traits", {}).items():
        scene.identify(f"user-{visitor}", visitor, traits=traits)
    funnel_id = scene.funnel(
        *example["funnel"].pop("steps"), conversionWindowSeconds=HOUR_S, **example["funnel"]
    )
    if "cohort" in example:
        saved = saved_cohort(scene, funnel_id, example["cohort"])
        example = yaml.safe_load(text.replace("coh_lost", saved))
    answer = scene.client.get(f"/api/funnels/{funnel_id}/{example['request']}")
    assert answer.status_code == 200, answer.text
    assert part_of(answer.json(), example["response"]) == example["response"]


def saved_cohort(scene: Scene, funnel_id: str, parameters: Json) -> str:
    body = {"name": "Lost", "kind": "rule", "funnelId": funnel_id, "parameters": parameters}
    answer = scene.client.post("/api/cohorts", json=body)
    assert answer.status_code == 201, answer.text
    cohort_id: str = answer.json()["id"]
    return cohort_id
