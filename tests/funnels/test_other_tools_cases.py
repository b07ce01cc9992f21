"""The cases of PostHog's and ClickHouse's own tests, counted by the service."""

from collections.abc import Sequence
from itertools import count

import pytest

from tests.cases import cases
from tests.funnels.scenario import EVENT, Json, Scene, step
from tests.funnels.test_other_tools_reference import CLICKHOUSE, DAYS_14, POSTHOG_IN_ORDER

pytestmark = [
    pytest.mark.usefixtures("warehouse"),
    pytest.mark.slow("counts many funnels"),
]

MINUTE_S = 60
_NUMBERS = count()


def completed(
    scene: Scene, steps: str, window_s: int, stories: Sequence[str], tool: Json, scale: int = 1
) -> list[int]:
    """Return how many units enter, complete the first two steps, and complete all of them.

    scale: factor of all times, because a window has at least a minute.
    """
    number = next(_NUMBERS)
    items = [
        scene.item(float(seconds) * scale, f"{number} {name}", f"{number} {who}")
        for who, story in enumerate(stories)
        for seconds, name, _ in EVENT.findall(story)
    ]
    scene.track(items)
    rows = [step(*(f"{number} {name}" for name in each.split("|"))) for each in steps.split()]
    window = {"value": window_s * scale // MINUTE_S, "unit": "minute"}
    figures = []
    for last in (2, len(rows)):
        funnel = scene.funnel(*rows[:last], conversionWindow=window)
        counted = scene.results(funnel, countLike=tool["tool"], **tool["mode"])["countLike"]
        figures += [counted["completed"]] if figures else [counted["entered"], counted["completed"]]
    return figures


@cases(("name", "steps", "stories", "expected"), POSTHOG_IN_ORDER)
def test_posthogs_cases(
    scene: Scene, name: str, steps: str, stories: Sequence[str], expected: Sequence[int]
) -> None:
    tool: Json = {"tool": "posthog", "mode": {}}
    counted = completed(scene, steps, DAYS_14, stories, tool)
    assert counted == [expected[0], expected[1], expected[-1]]


@cases(
    ("steps", "window_s", "modes", "stories", "reached"),
    [case for case in CLICKHOUSE if " " in case[0]],
)
def test_clickhouses_cases(
    scene: Scene,
    steps: str,
    window_s: int,
    modes: str,
    stories: Sequence[str],
    reached: Sequence[int],
) -> None:
    tool: Json = {
        "tool": "windowfunnel",
        "mode": {"mode": modes.replace(" ", ",")} if modes else {},
    }
    last = len(steps.split())
    counted = completed(scene, steps, window_s, stories, tool, scale=MINUTE_S)
    figures = [sum(each >= number for each in reached) for number in (1, 2, last)]
    if "strict_order" in modes:  # Events of later steps are none of a shorter funnel.
        counted, figures = counted[-1:], figures[-1:]
    assert counted == figures
