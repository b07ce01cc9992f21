"""Draws the pictures of docs/counting.md from traces and reports of the engine."""

from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

from tests.funnels.scenario import HOUR_S, Scene

Json = dict[str, Any]

CHECKOUT = ("checkout_started", "address_entered", "order_placed")
_WIDTH, _SLOT, _LANE, _TOP = 520, 126, 122, 14
_WORDS = {
    "entry": ("entry", "good"),
    "accepted": ("counts", "good"),
    "sequenceSkip": ("sequence skip", "bad"),
    "unorderedTie": ("unordered tie", "bad"),
    "outsideWindow": ("outside the window", "bad"),
    "noMatch": ("does not count", "soft"),
}
_OUTCOMES = {"completed": "completed", "droppedOff": "dropped off", "pending": "pending"}
_STYLE = """
  svg { --ground: #f6f7f9; --ink: #17202b; --soft: #556070; --line: #818b99;
        --good: #17683b; --bad: #ae2119; }
  @media (prefers-color-scheme: dark) {
    svg { --ground: #171d25; --ink: #e6eaf0; --soft: #a3aebd; --line: #6d7a8a;
          --good: #6fd49d; --bad: #ff9a90; }
  }
  text { font: 13px system-ui, sans-serif; fill: var(--ink); text-anchor: middle; }
  .unit, .total { text-anchor: start; font-weight: 600; }
  .time, .decision { fill: var(--soft); font-size: 12px; }
  .decision.good { fill: var(--good); }
  .decision.bad { fill: var(--bad); }
  line { stroke: var(--line); stroke-width: 1.5; }
  circle { stroke: var(--line); stroke-width: 1.5; fill: var(--ground); }
  circle.good { stroke: var(--good); fill: var(--good); }
  circle.bad { stroke: var(--bad); }
"""


@dataclass(frozen=True)
class Lane:
    """One unit in a picture. story: its events, in the notation of `Scene.story`.

    words: the name of the unit in the picture. running: whether the unit entered only a minute ago.
    """

    words: str
    story: str
    attempt: str
    running: bool = False


ATTEMPTS: dict[str, list[Lane]] = {
    "attempts": [
        Lane(
            "checkout c-1", "0/checkout_started 80/address_entered 200/order_placed", attempt="c-1"
        ),
        Lane("checkout c-2", "0/checkout_started 90/address_entered", attempt="c-2"),
        Lane("checkout c-3", "0/checkout_started 40/address_entered", attempt="c-3", running=True),
    ],
    "entry": [
        Lane(
            "checkout c-1",
            "0/address_entered 30/checkout_started 60/checkout_started 90/address_entered",
            attempt="c-1",
        )
    ],
    "numbers": [
        Lane(
            "checkout c-1",
            "0/checkout_started(5) 10/address_entered(4) 20/address_entered(6) 30/order_placed(7)",
            attempt="c-1",
        )
    ],
    "ties": [
        Lane(
            "without numbers", "0/checkout_started 0/address_entered 60/order_placed", attempt="c-1"
        ),
        Lane(
            "with numbers",
            "0/checkout_started(1) 0/address_entered(2) 60/order_placed(3)",
            attempt="c-2",
        ),
    ],
    "window": [
        Lane("checkout c-1", f"0/checkout_started {HOUR_S}/address_entered", attempt="c-1"),
        Lane("checkout c-2", f"0/checkout_started {HOUR_S + 1}/address_entered", attempt="c-2"),
    ],
}
"""The units of a picture, by file name. They belong to an attempt funnel over `CHECKOUT` with a
window of an hour.
"""

VISITOR = [
    Lane("checkout c-1", "0/checkout_started 60/address_entered", attempt="c-1"),
    Lane(
        "checkout c-2",
        "600/checkout_started 660/address_entered 700/order_placed",
        attempt="c-2",
    ),
]
"""Two checkouts by one visitor."""


def attempts_picture(past: Scene, recent: Scene, lanes: list[Lane]) -> str:
    """Send the events of the attempts, and draw each attempt's trace and the report on all of
    them.
    """
    for lane in lanes:
        scene = recent if lane.running else past
        scene.story(lane.story, visitor=f"visitor of {lane.attempt}", attempt=lane.attempt)
    funnel = past.attempts(*CHECKOUT, name="Checkout")
    traces = [(lane.words, _trace(past, funnel, lane.attempt)) for lane in lanes]
    report = past.results(funnel, websiteId=past.tenant.website_id)
    return _drawing(traces, [_total("Attempts", report)])


def visitor_picture(scene: Scene) -> str:
    """Draw the same events, counted as two attempts and as one visitor."""
    for lane in VISITOR:
        scene.story(lane.story, visitor="ann", attempt=lane.attempt)
    by_attempt = scene.attempts(*CHECKOUT)
    by_visitor = scene.funnel(*CHECKOUT, conversionWindowSeconds=HOUR_S)
    traces = [(lane.words, _trace(scene, by_attempt, lane.attempt)) for lane in VISITOR]
    query = {"websiteId": scene.tenant.website_id}
    totals = [
        _total("Attempts", scene.results(by_attempt, **query)),
        _total("Visitors", scene.results(by_visitor, **query)),
    ]
    return _drawing(traces, totals)


def _trace(scene: Scene, funnel: str, unit: str) -> Json:
    query = {"websiteId": scene.tenant.website_id}
    answer = scene.client.get(f"/api/funnels/{funnel}/units/{unit}", params=query)
    assert answer.status_code == 200, answer.text
    trace: Json = answer.json()
    return trace


def _total(words: str, report: Json) -> str:
    figures = report["aggregate"]
    shown = {"entered": "entered", **_OUTCOMES}
    counts = [f"{figures[name]} {text}" for name, text in shown.items() if figures[name]]
    return f"{words}: {', '.join(counts)}"


def _drawing(traces: list[tuple[str, Json]], totals: list[str]) -> str:
    height = _TOP + _LANE * len(traces) + 26 * len(totals) + 14
    parts = [_lane(words, trace, row) for row, (words, trace) in enumerate(traces)]
    for number, total in enumerate(totals):
        y = _TOP + _LANE * len(traces) + 26 * number + 18
        parts.append(f'<text class="total" x="16" y="{y}">{escape(total)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" '
            f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">',
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDTH}" height="{height}" rx="6" fill="var(--ground)"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _lane(words: str, trace: Json, row: int) -> str:
    """Draw one unit: its events from left to right, not to scale, and its outcome."""
    y = _TOP + _LANE * row + 60
    start = _milliseconds(trace["events"][0]["occurredAt"])
    end = _SLOT * len(trace["events"])
    title = f"{words}: {_OUTCOMES[trace['outcome']]}"
    parts = [
        f'<text class="unit" x="16" y="{y - 44}">{escape(title)}</text>',
        f'<line x1="16" y1="{y}" x2="{end}" y2="{y}"/>',
    ]
    for index, event in enumerate(trace["events"]):
        x = _SLOT * index + 66
        seconds = (_milliseconds(event["occurredAt"]) - start) // 1000
        number = event["sequenceNumber"]
        time = f"{seconds:,} s" + ("" if number is None else f", number {number}")
        decision, kind = _WORDS[event["decision"]]
        parts += [
            f'<circle class="{kind}" cx="{x}" cy="{y}" r="7"/>',
            f'<text x="{x}" y="{y - 16}">{escape(event["name"])}</text>',
            f'<text class="time" x="{x}" y="{y + 22}">{time}</text>',
            f'<text class="decision {kind}" x="{x}" y="{y + 38}">{decision}</text>',
        ]
    return "\n".join(parts)


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)
