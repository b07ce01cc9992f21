"""Random funnels and histories for the property tests.

The alphabet is small, so that ties, repeats and edge cases are common. Events loosely follow the
definition's rows, with noise, so that many units get far. Most choices for an event are drawn
together, as a tuple of indexes, which keeps examples cheap.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from random import Random
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st
from pydantic import ValidationError

from penstock.base.paging import Page
from penstock.base.scalar import Scalar
from penstock.funnels.definitions.ad_hoc import AdHocChanges
from penstock.funnels.definitions.builtins import TOUCH_FIELDS
from penstock.funnels.definitions.matches import load_filters
from penstock.funnels.definitions.model import CountingUnit, Definition
from penstock.funnels.definitions.operands import (
    LIST,
    NONE,
    NUMBER,
    PART,
    RANGE,
    REGEX,
    TEXT,
    TIME,
    Operand,
)
from penstock.funnels.definitions.operators import Operator
from penstock.funnels.definitions.schema import SavedFilter
from penstock.funnels.statements.query import Strategy
from penstock.http.schema import faults_of
from tests.funnels.definitions import resolved
from tests.funnels.reference import Event, History
from tests.funnels.reference.matching import KINDS, Json, as_json, holds, scalar, value_of
from tests.funnels.reference.matching import matches as matches_event
from tests.funnels.reference.report import with_defaults

START_MS = 1_704_164_640_000
"""2024-01-02T03:04:00Z, close to the dates among the property values."""

YEARS_MS = 12 * 366 * 86_400_000
WINDOWS_S = (3600, 86_400, 604_800, 1_209_600, 2_592_000, 7_776_000)
WINDOWS: Sequence[Json] = (
    *({"conversionWindowSeconds": seconds} for seconds in WINDOWS_S),
    *(
        {"conversionWindow": {"value": value, "unit": unit}}
        for value, unit in ((1, "minute"), (36, "hour"), (366, "day"))
    ),
)
UNLIMITED: Sequence[Json] = ({"conversionWindowSeconds": None},) * 2
EQUAL_TIMES: Sequence[Json] = ({}, {"equalTimes": "inStepOrder"})
REPEAT: Sequence[Json] = ({}, {}, {"repeat": True})
"""Whether every run of a visitor counts, in funnels with a window."""
KEYS = (
    "plan",
    "Plan",
    "a.b",
    'it\'s "q" `b` \\ :{}',
    "ключ 😀",
    "a%2Eb",
    "Unknown",
    "n",
    "attempt",
)
BUILTINS = ("$country", "$referrer_host", "$source", "$path")
COHORTS = ("coh_1", "coh_2")
OF_VISITORS = ("$trait.plan", "$trait.n", *(f"$cohort.{cohort_id}" for cohort_id in COHORTS))
"""Fields that depend on what is known about the visitor of an event, for breakdowns."""
TOUCHES = ("$first_utm_source", "$last_utm_source", "$first_link", "$last_utm_campaign")
TEXTS = (
    "1",
    "true",
    "Unknown",
    "pro",
    "",
    "Pro",
    "é😀",
    "it's",
    "1.0",
    "-3",
    "1e3",
    "a\\b",
    "5",
    "false",
    "É😀",
    "straße",
    "ΟΔΟΣ",
    "Σ",
)
DATES = (
    "2024-01-02",
    "2024-01-02T03:04:05Z",
    "2024-01-02T03:04:05.123+02:00",
    "2024-01-02T01:04:05",
    "2024-01-02T03:04Z",
    "1965-03-04",
    "2024-01-02 03:04:05.9999",
    "9999-12-31T23:59:59Z",
    "0001-01-01",
)
BEYOND_DATES = ("9999-12-31T23:59:59-23:59",)
"""Values that a property may have but a filter may not."""
NOT_DATES = (
    *("2024-02-30", "2024", "soon", "2024-1-2", "1704164645000"),
    *("2024-00-10", "2024-01-00", "0000-01-02", "2024-01-02T03:04+05:75", "2024-01-02T24:00Z"),
)
VALUES: tuple[Any, ...] = (
    *(
        "pro",
        "1",
        1,
        1.0,
        True,
        "true",
        "Unknown",
        "",
        None,
        {},
        [],
        "Pro",
        2,
        1.5,
        -3,
        1e3,
        False,
        "é😀",
        "1.0",
        "1e3",
        "false",
        "STRASSE",
        "οδος",
    ),
    *(
        {"a": 1},
        ["pro"],
        "it's",
        'say "x"',
        "a\\b",
        2**53 + 1,
        1e300,
        1704164645123,
        1704153600000,
        *DATES,
        *BEYOND_DATES,
        *NOT_DATES,
    ),
)
PATTERNS = ("p.o", "^[pP]ro$", "[0-9]", "^$", "(?i)PRO", "1|true", "\\.", "é")
LISTS = ('["1", "pro"]', "[1, true]", '["", "Unknown", "Pro"]', "[1.5, -3, false]")
RANGES = ("[1, 5]", "[-3, 1.5]", "[1e2, 1e4]", "[1, 1]")
VALUES_OF: Mapping[Operand[Any], Sequence[str]] = {
    TEXT: TEXTS,
    PART: TEXTS,
    LIST: LISTS,
    RANGE: RANGES,
    REGEX: PATTERNS,
    NONE: ("",),
    NUMBER: ("1", "1.5", "-3", "1e3", "0"),
    TIME: DATES,
}
"""Operands for filters, by kind of operand."""

PATH_VALUES: Mapping[Operand[Any], Sequence[str]] = {
    **VALUES_OF,
    TEXT: ("/p", "/p/?x=1", "/p/x#y", "/", "pro"),
    PART: ("/p", "/x/", "x", "/p/x/y"),
    LIST: ('["/p/", "/q/x#y"]', '["pro", "/", 1]'),
}
"""Operands for filters on page paths, by kind of operand."""

NAMES: Mapping[str, tuple[str, ...]] = {
    "Event": ("a", "b", "c", 'it\'s "q" 😀', "*"),
    "Screen view": ("a", "b"),
    "Transaction": ("a", "purchase"),
    "Pageview": ("/", "/p", "/p/x", "/p/*", "/p/**", "/*/x", "/**", "/p.x", "/p/x/*", "/*"),
}
STRANGERS: Sequence[Json] = (
    {"type": "Event", "value": "stranger", "filters": ()},
    {"type": "Event", "value": "open", "filters": ()},
    {"type": "Screen view", "value": "stranger", "filters": ()},
    {"type": "Transaction", "value": "stranger", "filters": ()},
)
"""Matches of events that no funnel names. Penstock writes some of those that are called open."""
PATHS = ("/p", "/p/x", "/p/x/y", "/", "/pxx", "/p.x", "/q/x", "/p/x/y/z")
"""Paths in the form that the intake stores: without query, fragment or trailing slash."""

NUMBERS: tuple[tuple[Any, ...], ...] = (
    (0, 1, 2, 3, 4, 5, 6, None),
    (None,),
    (1, 1, 2, 3, -1, 1.5, "3", 2.0, True, {}, [], 2**63, None),
    (
        0,
        2**20 - 1,
        2**20,
        2**32,
        2**53 + 1,
        2**53 + 2,
        2**62 + 1,
        2**62 + 2,
        2**63 - 1,
        2**63,
        2**60 - 1,
        2**60,
    ),
)
"""Sequence numbers: small, missing, unusable and large ones."""

CAMPAIGNS: tuple[Mapping[str, str], ...] = (
    {},
    {"utm_source": "pro"},
    {"utm_source": "1", "utm_campaign": "Pro"},
    {"link": "pro"},
    {"utm_term": "pro"},
    {},
    {"utm_source": "true", "utm_medium": "1", "link": "1"},
    {},
)
"""Campaign and link fields of an event."""

ATTEMPTS: tuple[tuple[Any, ...], ...] = (
    ("x",),
    (5, "5", 5.0),
    (-5, "-5"),
    ("ы 😀",),
    ("007",),
    (2**61 + 1, str(2**61 + 1)),
)
"""Different spellings of the same attempt ID, for each attempt."""
ATTEMPT_KEYS: Sequence[Json] = (
    *({"attemptProperty": "attempt"},) * 4,
    {"attemptProperties": ["attempt", "plan"]},
    {"attemptProperties": ["$visitor"]},
    {"attemptProperties": ["$session"]},
    {"attemptProperties": ["$visitor", "attempt"]},
    {"attemptProperties": ["attempt", "$session"]},
    {"attemptProperties": ["$trait.plan"]},
    {"attemptProperties": ["$trait.plan", "attempt"]},
    {"attemptProperties": ["$trait.plan", "$session"]},
)
SESSIONS = ("s1", "s1", "s2", "")
BLANK = (" ", "   ", "null", "NULL", "undefined", "Undefined")
NO_ATTEMPT: tuple[Any, ...] = (*(None, "", True, 1.5, {}, ["x"]), *BLANK)


@dataclass(frozen=True, slots=True)
class Case:
    """One example: a funnel, a history, and the parameters of a query.

    funnel: in the API's format. goals: the match of each goal by name. definition: the funnel as
    read by the service, with the filters of the request. filters, settled: parameters of the
    request. internal: the filters of internal traffic.
    """

    funnel: Json
    goals: Mapping[str, Json]
    definition: Definition
    history: History
    website_ids: tuple[str, ...]
    evaluated_at_ms: int
    start_ms: int | None
    end_ms: int | None
    cohort: Mapping[str, Scalar | None]
    page: Page
    inserts: int
    strategy: Strategy
    filters: Sequence[Json] = ()
    settled: bool = False
    internal: Sequence[Json] = ()

    @property
    def settled_at_ms(self) -> int | None:
        """The time at which windows must have ended; None if it does not matter."""
        return self.evaluated_at_ms if self.settled else None


def filter_of(key: str, operator: Operator, choice: int) -> Json:
    values = (PATH_VALUES if key == "$path" else VALUES_OF)[operator.traits.operand]
    return {"property": key, "operator": operator.value, "value": values[choice % len(values)]}


def match_of(kind: str, choice: int, conditions: Sequence[Json]) -> Json:
    return {
        "type": kind,
        "value": NAMES[kind][choice % len(NAMES[kind])],
        "filters": list(conditions),
    }


choices = st.integers(0, 255)
filters = st.builds(
    filter_of,
    st.sampled_from(KEYS[:4] * 3 + BUILTINS + TOUCHES[:2] + OF_VISITORS[:1]),
    st.sampled_from(Operator),
    st.integers(0, len(TEXTS) - 1),
)
of_cohorts: st.SearchStrategy[Json] = st.builds(
    lambda operator, cohort_id: {"property": "$cohort", "operator": operator, "value": cohort_id},
    st.sampled_from(["equals", "not_equals"]),
    st.sampled_from(COHORTS),
)
matches = st.builds(
    match_of,
    st.sampled_from(["Event"] * 3 + ["Transaction"] * 2 + list(KINDS)),
    st.integers(0, 9),
    st.sampled_from([0, 0, 0, 0, 1, 2]).flatmap(
        lambda size: st.lists(
            st.one_of(filters, filters, filters, of_cohorts), min_size=size, max_size=size
        )
    ),
)


class Rule(StrEnum):
    """Rules with separate random cases."""

    NOTHING_ELSE = "nothing else before a step"
    ANY_ORDER = "any order"
    BREAKDOWN_AT = "breakdown by another step"


@st.composite
def funnels(
    draw: Callable[..., Any], unit: CountingUnit, rule: Rule | None = None
) -> tuple[Json, Mapping[str, Json]]:
    """Draw a funnel and its goals' matches by name, in the API's format.

    rule: None for any funnel.
    """
    pool = draw(st.lists(matches, min_size=1, max_size=5, unique_by=repr))
    smallest, largest = draw(st.sampled_from([(2, 4), (1, 3), (3, 6), (2, 5), (5, 8), (6, 28)]))
    in_any_order = rule is Rule.ANY_ORDER or (rule is None and draw(choices) < 16)
    shapes = draw(
        st.lists(
            st.tuples(
                st.sampled_from(
                    ["plain", "or", "plain", "group", "diagnostic", "group", "diagnostic group"]
                ),
                st.lists(st.integers(0, len(pool) - 1), min_size=1, max_size=3),
            ),
            min_size=smallest,
            max_size=largest,
        )
    )
    goals = {}
    for position in draw(st.sampled_from([(), (), (), (), (0,), (0, 1)])):
        if position < len(pool):
            goals[f"Goal {position}"] = {**pool[position], "filters": pool[position]["filters"][:1]}
            others = pool[position]["filters"][1:]
            pool[position] = {"type": "Goal", "value": f"Goal {position}", "filters": others}
    if in_any_order:
        shapes = [("or" if shape == "group" else shape, chosen) for shape, chosen in shapes]
    rows = [row_of(shape, chosen, pool) for shape, chosen in shapes]
    if in_any_order and draw(choices) % 2:  # Steps that share no events.
        rows = list({(match["type"], match["value"]): match for match in pool}.values())
        rows = [row for row in rows if "*" not in row["value"]]
        pool = rows or pool
    while sum("diagnostic" not in row for row in rows) < 2:
        rows.append(pool[-1])
    rows = [
        row
        for index, row in enumerate(rows)
        if "diagnostic" in row or sum("diagnostic" not in earlier for earlier in rows[:index]) < 20
    ][:30]
    exclusions = {None: (0, 0, 1, 2, 3, 6), Rule.NOTHING_ELSE: (6, 7)}.get(rule, (0, 0, 1))
    if in_any_order:
        exclusions = (0, 0, 1)
    rows = with_exclusions(rows, pool, draw(st.sampled_from(exclusions)), draw(choices))
    attempts = unit is CountingUnit.ATTEMPT
    window = draw(st.sampled_from(WINDOWS if attempts else (*WINDOWS, *UNLIMITED)))
    has_window = window.get("conversionWindowSeconds", 0) is not None
    is_ordered = not in_any_order
    funnel = {
        "countingUnit": unit.value,
        **({} if is_ordered else {"order": "any"}),
        **(draw(st.sampled_from(ATTEMPT_KEYS)) if attempts else {}),
        "sequenceProperty": draw(st.sampled_from(["n", "n", None])) if is_ordered else None,
        "breakdownProperties": draw(
            st.lists(
                st.sampled_from(KEYS + BUILTINS + TOUCHES + OF_VISITORS),
                min_size=int(rule is Rule.BREAKDOWN_AT),
                max_size=3,
                unique=True,
            )
        ),
        **window,
        **(draw(st.sampled_from(EQUAL_TIMES)) if is_ordered and not attempts else {}),
        **(draw(st.sampled_from(REPEAT)) if is_ordered and has_window and not attempts else {}),
        "steps": rows,
    }
    if rule is Rule.BREAKDOWN_AT or (rule is None and draw(choices) < 24):
        steps = sum(not (row.get("diagnostic") or row.get("exclude")) for row in rows)
        funnel["breakdownAt"] = draw(
            st.sampled_from(["first", "last", *range(2, steps + 1), 2, steps])
        )
    return funnel, goals


def with_exclusions(
    rows: Sequence[Json], pool: Sequence[Json], kinds: int, choice: int
) -> list[Json]:
    """Add exclusion rows (bit 1 of `kinds`) and strict steps (bit 2). With bit 4, nothing else may
    lie before most of the strict steps.

    An exclusion row stands between two steps. Its matches are of the pool, so they are often
    matches of a step as well, or of no other row if the step is another one.
    """
    random, changed, steps = Random(choice), list[Json](), 0
    required = sum("diagnostic" not in row for row in rows)
    for row in rows:
        if "diagnostic" in row:
            changed.append(row)
            continue
        if kinds & 1 and steps and random.random() < 0.6 and len(rows) + len(changed) < 30:
            parent, *others = random.sample(pool, min(len(pool), random.choice((1, 1, 2))))
            exclusion = {**parent, "exclude": True, **({"or": others} if others else {})}
            # Diagnostic rows may stand on both sides.
            index = len(changed) if random.random() < 0.5 else last_step(changed) + 1
            changed.insert(index, exclusion)
        is_strict = kinds & 2 and steps and random.random() < (0.8 if kinds & 4 else 0.6)
        strict = "all" if kinds & 4 and random.random() < 0.8 else True
        changed.append({**row, "strict": strict} if is_strict else row)
        steps += 1
    assert steps == required
    return changed


def last_step(rows: Sequence[Json]) -> int:
    """Position of the last step."""
    return max(
        index for index, row in enumerate(rows) if not row.keys() & {"diagnostic", "exclude"}
    )


def row_of(shape: str, chosen: Sequence[int], pool: Sequence[Json]) -> Json:
    """Build a row from the matches at the chosen positions of the pool."""
    is_group = shape.endswith("group") and len(set(chosen)) > 1
    indexes = list(dict.fromkeys(chosen)) if is_group else chosen[: 1 if shape == "plain" else 3]
    parent, *others = [pool[index] for index in indexes]
    row = dict(parent)
    if others:
        row["or"] = others
    if is_group:
        row["mode"] = "all_of"
    if shape.startswith("diagnostic"):
        row["diagnostic"] = True
    return row


def accepted(funnel: Json, goals: Mapping[str, Json]) -> Definition:
    """Return the funnel as read by the service. Discards the few examples that the API would
    reject.
    """
    try:
        return resolved(funnel, goals)
    except ValidationError as error:
        if {fault.code for fault in faults_of(error)} <= {"too_costly", "identical_parts"}:
            reject()
        raise


@st.composite
def cases(draw: Callable[..., Any], unit: CountingUnit, rule: Rule | None = None) -> Case:
    funnel, goals = draw(funnels(unit, rule))
    definition = accepted(funnel, goals)
    window_ms = (definition.window_s or 3600) * 1000
    script = Script(funnel, goals, draw(st.sampled_from(NUMBERS)), window_ms)
    choice = st.integers(0, 255)
    picks = st.builds(EventChoice, *[choice] * 8, values=st.tuples(*[choice] * len(script.keys)))
    least = draw(st.sampled_from([1, len(script.targets), len(script.targets)]))
    events: list[Event] = []
    for who in range(draw(st.sampled_from([3, 2, 1, 4, 6]))):
        start_ms = START_MS + draw(
            st.sampled_from([0, 0, 0, 1, 3, 60_000, window_ms, -YEARS_MS, YEARS_MS])
        )
        rounds = 2 if definition.repeat else 1  # so that visitors have several runs
        chosen = draw(
            st.lists(
                picks,
                min_size=min(rounds * least, 14),
                max_size=rounds * len(script.targets) + 5,
            )
        )
        events += script.events(who, start_ms, chosen)
    times_ms = sorted(
        START_MS + ms
        for ms in (0, 1, 2, 60_000, *script.edges, 2 * window_ms, 9 * window_ms, 2 * YEARS_MS)
    )
    asks_filters, asks_settled = draw(
        st.sampled_from([(False, False)] * 3 + [(True, False)] * 2 + [(False, True), (True, True)])
    )
    history = known_history(events, draw(choice))
    known = history.read(("shop", "app", "foreign"), max(event.at_ms for event in events))
    conditions = entry_filters(script, known, draw(choice)) if asks_filters else []
    if asks_filters and draw(choice) % 4 == 3:
        conditions.append(draw(of_cohorts))
    has_internal = draw(st.sampled_from([False] * 4 + [True]))
    internal = entry_filters(script, known, draw(choice)) if has_internal else []
    settled = asks_settled and definition.window_s is not None
    evaluated_at_ms = draw(st.sampled_from(times_ms[:3:-1] * 2 + times_ms[1:]))
    at_an_end = settled or (definition.window_s is not None and draw(choice) % 3 == 0)
    if at_an_end and events:  # at the end of the window of one event, or just after it
        end, after = divmod(draw(choice), 2)
        evaluated_at_ms = events[end % len(events)].at_ms + window_ms + after
    return Case(
        funnel=funnel,
        goals=goals,
        definition=with_filters(definition, conditions, internal),
        filters=conditions,
        internal=internal,
        settled=settled,
        history=replace(history, events=arrived(events, draw(choice))),
        website_ids=draw(st.sampled_from([("shop", "app"), ("shop", "app"), ("shop",)])),
        evaluated_at_ms=evaluated_at_ms,
        **dict(
            zip(
                ("start_ms", "end_ms"),
                draw(st.sampled_from([(None, None)] * 50 + list(combinations(times_ms, 2)))),
                strict=True,
            )
        ),
        cohort=cohort_filter(script.definition, known, draw(choice)),
        page=draw(st.sampled_from([Page(), Page(), Page(1, 1), Page(2, 1), Page(2, 3)])),
        inserts=draw(st.sampled_from([1, 1, 1, 2])),
        strategy=draw(st.sampled_from([Strategy.PACKED, Strategy.PACKED, Strategy.GENERAL])),
    )


@dataclass(frozen=True, slots=True)
class EventChoice:
    """Choices for one event, each from 0 to 255. In the simplest example all are 0, which stands
    for the usual case.
    """

    target_choice: int
    option: int
    delay: int
    number: int
    visitor: int
    website: int
    source: int
    spelling: int
    values: tuple[int, ...]


class Script:
    """Turns choices into events that roughly follow a definition's steps."""

    def __init__(
        self, funnel: Json, goals: Mapping[str, Json], numbers: Sequence[Any], window_ms: int
    ) -> None:
        self.definition, self.numbers = with_defaults(funnel, goals), numbers
        self.keys = _property_keys(self.definition)
        self.edges = (window_ms, window_ms + 1, window_ms - 1)
        self.pool = [match for row in self.definition["steps"] for match in row["matches"]]
        self.targets = _targets(self.definition)
        # Of 16 events, the number that follow the steps: fewer where other events exclude units.
        excludes = any(row["exclude"] or row["strict"] for row in self.definition["steps"])
        self.has_strangers = any(row["strict"] == "all" for row in self.definition["steps"])
        self.on_target = 13 if self.has_strangers else 11 if excludes else 14

    def events(self, who: int, start_ms: int, chosen: Sequence[EventChoice]) -> list[Event]:
        events, at_ms, target = [], start_ms, 0
        for index, picks in enumerate(chosen):
            before_ms = at_ms
            if index and picks.delay > 245:
                at_ms = max(at_ms, start_ms + self.edges[picks.delay % 3])
            elif index:
                at_ms += (1, 0, 1, 2, 60_000, 0, 1, -1)[picks.delay % 8]
            if picks.target_choice % 16 < self.on_target:
                options = self.targets[target % len(self.targets)]
                match = options[picks.option % len(options)]
                if self.definition["order"] == "any":
                    target = picks.spelling
                target += picks.target_choice % 16 < self.on_target - 2 and (
                    index == 0 or at_ms > before_ms or picks.target_choice < 64
                )
            elif self.has_strangers and picks.option % 3:
                match = STRANGERS[picks.option % len(STRANGERS)]
            else:
                match = self.pool[picks.option % len(self.pool)]
            events.append(self._event(who, index, at_ms, match, picks))
        return events

    def _event(self, who: int, index: int, at_ms: int, match: Json, picks: EventChoice) -> Event:
        attempts = self.definition["countingUnit"] == "attempt"
        values = zip(self.keys, picks.values, strict=True)
        properties = {key: VALUES[value % len(VALUES)] for key, value in values if value < 230}
        fields = {
            "country": ("DE", "", "Unknown", "5", "DE")[picks.spelling % 5],
            "referrer_host": ("pro", "", "1")[picks.website % 3],
            **CAMPAIGNS[picks.delay // 8 % len(CAMPAIGNS)],
            **({"link_method": "url"} if self.has_strangers and picks.visitor % 32 == 31 else {}),
        }
        if picks.spelling % 16 < 15:
            satisfy(match, properties, fields, picks.option)
        if self.definition["sequenceProperty"]:
            properties["n"] = (
                index
                if picks.number < 100 and self.numbers is NUMBERS[0]
                else self.numbers[picks.number % len(self.numbers)]
            )
        if attempts:
            spellings = ATTEMPTS[who] if picks.spelling < 240 else NO_ATTEMPT
            properties["attempt"] = spellings[picks.visitor % len(spellings)]
        name, kind = match["value"], match["type"]
        if kind == "Pageview":
            name = fields["path"] = PATHS[picks.option % len(PATHS)] if "*" in name else name
        elif name == "*":
            name = NAMES[kind][picks.option % 4]
        in_first_website = picks.website < 220
        # Payment providers send transaction events, some of them with whole seconds.
        provider = picks.source % 4 == 3 and (attempts or kind == "Transaction")
        if provider and kind == "Transaction":
            properties["provider"] = ("stripe", "stripe", "polar")[picks.source // 4 % 3]
            if properties["provider"] == "stripe" and picks.delay % 16 < 15:
                at_ms -= at_ms % 1000
        return Event(
            event_id="",
            website_id="shop" if in_first_website else ("app", "app", "foreign")[picks.website % 3],
            kind=KINDS[kind],
            name=name,
            at_ms=at_ms,
            visitor_id=f"v{picks.visitor % 3 if picks.visitor > 200 else who}"
            if attempts
            else f"v{who}{picks.visitor % 2}",
            scope_id="people" if in_first_website or attempts else "app",
            session_id="" if provider else SESSIONS[picks.website % len(SESSIONS)],
            source="provider"
            if provider
            else ("browser", "server", "app", "import")[picks.source // 4 % 4],
            verified=provider and picks.source < 170,
            properties=properties,
            fields=fields,
        )


def _targets(definition: Json) -> list[list[Json]]:
    """Return the matches that a unit must satisfy, in order: every part of a group, and one option
    of any other row. Exclusion rows are left to the noise.
    """
    targets: list[list[Json]] = []
    for row in definition["steps"]:
        if row["exclude"]:
            continue
        targets += [[part] for part in row["matches"]] if row["mode"] else [row["matches"]]
    return targets


def _property_keys(definition: Json) -> list[str]:
    named = [
        condition["property"]
        for row in definition["steps"]
        for match in row["matches"]
        for condition in match["filters"]
    ]
    return [
        key
        for key in dict.fromkeys(
            [*definition["breakdownProperties"], *definition["attemptProperties"], *named]
        )
        if key not in (None, "attempt") and not key.startswith("$")
    ]


def satisfy(match: Json, properties: dict[str, Any], fields: dict[str, str], first: int) -> None:
    """Set values that satisfy the filters of the match, where possible."""
    for condition in match["filters"]:
        key = condition["property"]
        if key in ("$country", "$referrer_host", *TOUCHES):
            texts = [text for text in ("", *TEXTS) if holds(condition, scalar(text or None))]
            if texts:
                fields[_own_field(key)[1:]] = texts[first % len(texts)]
        elif not key.startswith("$"):
            fitting = [value for value in VALUES if holds(condition, scalar(value))]
            if fitting:
                properties[key] = fitting[first % len(fitting)]


def _own_field(key: str) -> str:
    """Return the event's own field that a touch field is taken from. Any other key is returned
    unchanged.
    """
    return f"${TOUCH_FIELDS[key][1]}" if key in TOUCH_FIELDS else key


def arrived(events: Sequence[Event], seed: int) -> tuple[Event, ...]:
    """Return the events in a random order of arrival. Their IDs follow that order."""
    shuffled = list(events)
    if seed:
        Random(seed).shuffle(shuffled)
    return tuple(_with_id(event, f"evt_{index:03}") for index, event in enumerate(shuffled))


def _with_id(event: Event, event_id: str) -> Event:
    values = {name: getattr(event, name) for name in Event.__slots__}
    return Event(**{**values, "event_id": event_id})


def known_history(events: Sequence[Event], seed: int) -> History:
    """Draw merges, and then traits and saved cohorts of some visitors, canonical or not."""
    random, merges = Random(seed), merges_of(events, seed)
    visitors = sorted(
        {(event.scope_id, event.visitor_id) for event in events}
        | {(scope, canonical) for (scope, _), canonical in merges.items()}
    )
    values = [*(value for value in VALUES if scalar(value)), *("pro", "free", 5, "5") * 8, *BLANK]
    traits = {
        visitor: {name: random.choice(values) for name in ("plan", "n") if random.random() < 0.8}
        for visitor in visitors
        if visitor not in merges and random.random() < 0.7
    }
    cohorts = {
        cohort_id: [visitor for visitor in visitors if random.random() < 0.4]
        for cohort_id in COHORTS
    }
    return History(tuple(events), merges, traits, cohorts)


def merges_of(events: Sequence[Event], seed: int) -> dict[tuple[str, str], str]:
    """Draw random merges within scopes. Canonical visitors are never absorbed."""
    random, merges = Random(seed), dict[tuple[str, str], str]()
    for scope in sorted({event.scope_id for event in events}):
        visitors = sorted({event.visitor_id for event in events if event.scope_id == scope})
        canonical = visitors[: 1 + seed % 3]
        for visitor in visitors[1 + seed % 3 :]:
            if random.random() < 0.6:
                merges[scope, visitor] = random.choice([*canonical, "never-seen"])
    return merges


def with_filters(
    definition: Definition, filters: Sequence[Json], internal: Sequence[Json]
) -> Definition:
    """Return the definition with the filters of a request and of internal traffic, as the service
    reads them.
    """
    saved, saved_internal = (
        tuple(SavedFilter(**item) for item in items) for items in (filters, internal)
    )
    left_out = tuple(load_filters(saved_internal, lambda _: None, []))
    changes = AdHocChanges(filters=saved)
    return changes.change(definition, lambda _: None, internal_traffic=left_out)


def entry_filters(script: Script, events: Sequence[Event], seed: int) -> list[Json]:
    """Draw one or two filters that some entries pass and others do not, where possible."""
    random = Random(seed)
    starts = entry_events(script.definition, events)
    breakdowns = script.definition["breakdownProperties"]
    own = [key for key in breakdowns if not key.startswith("$cohort.")]
    keys = [*script.keys, *own, *BUILTINS[:3], *OF_VISITORS[:1]]
    drawn: list[Json] = []
    for key in random.sample(keys, random.choice([1, 1, 1, 2])):
        operators = [Operator.EQUALS, Operator.NOT_EQUALS, Operator.IS_SET, Operator.IS_NOT_SET]
        operators += [random.choice(list(Operator))]
        candidates = [
            filter_of(key, operator, random.randrange(len(TEXTS))) for operator in operators
        ]
        for value in {value_of(event, _own_field(key)) for event in starts} - {None}:
            assert value is not None
            candidates += [
                {"property": key, "operator": operator.value, "value": value[1]}
                for operator in (Operator.EQUALS, Operator.NOT_EQUALS)
            ]
        random.shuffle(candidates)
        divides = (
            item
            for item in candidates
            if len({holds(item, value_of(event, _own_field(key))) for event in starts}) > 1
        )
        drawn.append(next(divides, candidates[0]))
    return drawn


def entry_events(definition: Json, events: Sequence[Event]) -> list[Event]:
    """Return the events that match step 1."""
    steps = [row for row in definition["steps"] if not (row["diagnostic"] or row["exclude"])]
    entry_rows = steps if definition["order"] == "any" else steps[:1]
    return [
        event
        for event in events
        if any(matches_event(match, event) for row in entry_rows for match in row["matches"])
    ]


def cohort_filter(definition: Json, events: Sequence[Event], seed: int) -> dict[str, Scalar | None]:
    """Draw a cohort filter for a quarter of the examples.

    It covers some of the properties, mostly with values of an entry event.
    """
    breakdowns = definition["breakdownProperties"]
    if seed % 4 != 3 or not breakdowns:
        return {}
    random = Random(seed)
    example = random.choice(entry_events(definition, events)[:1] or events)
    keys = random.sample(breakdowns, random.randint(1, len(breakdowns)))
    cohort = {key: as_json(value_of(example, _own_field(key))) for key in keys}
    return (
        cohort
        if seed % 16 > 3
        else cohort | {keys[0]: random.choice([None, "Unknown", "", 1, "1", True])}
    )
