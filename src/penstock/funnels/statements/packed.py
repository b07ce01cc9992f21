"""The packed fold: counts simple units from one number per step, without sorting their events.

The fold packs a unit's first event of each step into one position (time, sequence number). Where
these positions rise from step to step, they are exactly the events that the general fold would
accept: no event before them could match, be refused, or disagree. Such a unit is *simple* and is
counted here. Every other unit is *complex*: its events go through the general fold. A unit is
complex if it has

    - a first event of a step that is not provably after the step before (ties, repeats of earlier
      steps, falling numbers)
    - several events of step 1 at the entry's timestamp, or two options of a step at one position
    - entry values that a later event may disagree with
    - more events than the general fold reads
    - in any order: a first event of a step that may also be the first of another step
    - more events than completed steps, if a step is strict; where nothing else may lie before a
      step, events that match no row are among them
    - an event of a diagnostic or exclusion row, of a payment provider (for a visitor: if its time
      is a whole second), or with an unusable sequence value
    - events of several visitors, if the plan keeps a unit's visitors
    - for a visitor: an event of step 1 that does not pass the query's entry filters, at the time of
      the entry or before
    - for a visitor: a window that closed before the next step, since a later entry may lead
      further; and entries in several spans, if the plan has any

Both folds give the same results, which the property tests verify; only the time differs. Source of
the design: docs/decisions/0003-packed-fold.md.
"""

from dataclasses import dataclass

from penstock.funnels.statements import figures
from penstock.funnels.statements.entries import MAX_COMPARISONS, MAX_UNIT_EVENTS, is_ordered_by_time
from penstock.funnels.statements.events import (
    small_number,
)
from penstock.funnels.statements.query import Plan

_POSITION_BITS = 64
_MIN_NUMBER_BITS = 8

SIMPLE, COMPLEX, UNITLESS, ABSENT = range(4)
"""Classes of units: counted by the packed fold, left to the general fold, the group of events
without an attempt ID, and units without an entry in the period."""

_MISSING, _DISORDERED, _LATE = 1, 2, 3
"""Reasons why a unit stops before a step: the step has no event, its first event is not provably
after the previous step, or that event is after the end of the window.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a position in 64 bits.

    From the highest bit: time after `base_ms`, unusable flag, sequence number, option, entry flag.
    number_bits: 0 without a sequence property; then there is no unusable flag either. option_bits:
    enough for the OR step with the most options. Entry flag: whether the event carries any entry
    value.
    """

    base_ms: int
    number_bits: int
    option_bits: int

    @property
    def low_bits(self) -> int:
        """Number of bits below the bits that order events."""
        return self.option_bits + 1

    @property
    def time_shift(self) -> int:
        return self.low_bits + self.number_bits + bool(self.number_bits)

    def time(self, position: str) -> str:
        return f"toInt64(bitShiftRight({position}, {self.time_shift})) + {self.base_ms}"

    def order(self, position: str) -> str:
        return f"bitShiftRight({position}, {self.low_bits})"

    def number(self, position: str) -> str:
        return f"bitAnd({self.order(position)}, {2**self.number_bits - 1})"

    def is_unusable(self, position: str) -> str:
        return f"bitTest({position}, {self.low_bits + self.number_bits})"

    def option(self, position: str) -> str:
        return f"bitAnd(bitShiftRight({position}, 1), {2**self.option_bits - 1})"


def layout_of(plan: Plan) -> Layout | None:
    """Return a layout with room for every event of the query.

    Returns None if the funnel contains a group or counts every run, if there are no events, or if
    their time span does not fit into 64 bits.
    """
    profile = plan.profile
    if (
        profile.first_event_ms is None
        or profile.last_event_ms is None
        or any(step.row.all_of for step in plan.steps)
        or plan.repeats
        or not plan.definition.is_by_entry
    ):
        return None
    base_ms = profile.first_event_ms - 1  # position 0 stands for "no event"
    option_bits = (max(len(step.each) for step in plan.steps) - 1).bit_length()
    left = _POSITION_BITS - (profile.last_event_ms - base_ms).bit_length() - option_bits - 1
    if plan.definition.sequence_property is None:
        return Layout(base_ms, 0, option_bits) if left >= 0 else None
    number_bits = min(left - 1, 62)
    return Layout(base_ms, number_bits, option_bits) if number_bits >= _MIN_NUMBER_BITS else None


def unit_chains(plan: Plan, layout: Layout) -> str:
    """Select each unit of `matched` that is not absent: its class and, if simple, its progress.

    firsts: position of the first event of each step, 0 for none. In any order, it is also 0 for an
    event after the window, and for each step of a unit that is not simple. last_options: position
    of the first event of OR steps, with options numbered from the last. value: hash of all entry
    values together, 0 when all are missing.
    """
    passes = ", passes" if plan.has_entry_filters else ""
    positions = f"""
        SELECT unit, ts, visitor, mask{passes}, {_values_hash(plan)} AS value,
               {_position(layout)} AS position, {_complexity(plan, layout)} AS complexity
        FROM matched"""
    first_ts, passed = ("min(ts) AS first_ts,", " first_ts,") if plan.keeps_visitors else ("", "")
    last_start = other_span = events = repeats = open_entry = later_entries = ""
    is_open = "waiting"
    if plan.reopens and plan.window_ms is not None:
        open_entry = f" max({_starts(plan)} AND {plan.evaluated_at()} <= ts + {plan.window_ms})"
        open_entry += " AS has_open_entry,"
        is_open = "has_open_entry"
        if plan.has_entry_filters:  # Later entries may be tied with events that do not pass.
            later_entries = f" OR has_open_entry != ({plan.evaluated_at()} <= window_end)"
    stop = f"arrayFirstIndex(verdict -> verdict != 0, arrayPushBack(verdicts, {_MISSING}))"
    first, done = "firsts[1]", "firsts[reached]"
    verdicts = f"""arrayMap((p, q) -> {_verdict(layout)},
                           arrayPopFront(firsts), arrayPopBack(firsts))"""
    open_reasons = f"({_DISORDERED})" if plan.by_attempt else f"({_DISORDERED}, {_LATE})"
    may_lead_further = f"arrayFirst(verdict -> verdict != 0, verdicts) IN {open_reasons}"
    own_firsts = "firsts"
    if plan.definition.in_any_order:
        first = "arrayMin(arrayFilter(p -> p != 0, firsts))"
        verdicts = f"""arrayMap(p -> multiIf(p = 0, {_MISSING},
                           {layout.time("p")} > window_end, {_LATE}, 0), firsts)"""
        stop = "arrayCount(verdict -> verdict = 0, verdicts)"
        may_lead_further = "0" if plan.by_attempt else f"has(verdicts, {_LATE})"
        own_firsts = f"""arrayMap((p, verdict) -> if(class = {SIMPLE} AND verdict = 0, p, 0),
                    firsts, verdicts)"""
        done = f"{sorted_firsts('positions')}[reached]"
    if any(step.row.strict for step in plan.steps):
        events, repeats = " count() AS events,", f" OR events != {stop}"
    if plan.spans is not None:
        last_start = f"maxIf(ts, {_starts(plan)}) AS last_start_ts,"
        other_span = f" OR {plan.span('entry_ts')} != {plan.span('last_start_ts')}"
    filtered, shared_time = _filtered_entries(plan, layout), _shares_entry_time(plan, layout)
    firsts = f"""
        SELECT unit, [{", ".join(_firsts(plan, reverse=False))}] AS firsts,
               CAST([{", ".join(_firsts(plan, reverse=True))}], 'Array(UInt64)') AS last_options,
               countArgMinIf(bitShiftRight(position, {layout.time_shift}),
                             {_starts(plan)}) AS starts,
               uniqUpToIf(1)(value, value != 0) AS values, max(value) AS any_value,
               uniqUpTo(1)(visitor) AS visitors,
               {_over_limit(plan)} AS over_limit,{first_ts}{events}{last_start}{filtered}
              {open_entry} max(complexity) AS complexity, {_unitless(plan)} AS unitless
        FROM ({positions}) GROUP BY unit"""
    several = " OR visitors > 1" if plan.keeps_visitors else ""
    # Each name is defined in a separate subquery. Otherwise, the engine would analyse a copy of
    # its expression wherever it is used.
    entries = f"""
        SELECT *, {layout.time("first")} AS entry_ts,
               {plan.window_end(layout.time("first"))} AS window_end,
               bitTest(first, 0) AS carries
        FROM (SELECT *, {first} AS first FROM ({firsts}))"""
    # Short circuits are off because a verdict needs only a few comparisons. Picking elements for
    # each of them would take longer.
    verdicts = f"""
        SELECT *, {verdicts} AS verdicts
        FROM ({entries})
        SETTINGS short_circuit_function_evaluation = 'disable'"""
    classes = f"""
        SELECT *, multiIf(
                   unit = 0, {UNITLESS}, complexity = 2 OR over_limit{_may_agree(plan)}, {COMPLEX},
                   first = 0 OR NOT {plan.in_period("entry_ts")}{_is_refused(plan)}, {ABSENT},
                   complexity = 1 OR starts > 1 OR (carries AND values > 1){several}
                       OR {may_lead_further}
                       OR {_tied_options(plan, layout)}{other_span}{shared_time}{repeats}
                       {_shares_events(plan, layout)}
                       {later_entries},
                   {COMPLEX}, {SIMPLE}) AS class
        FROM ({verdicts})"""
    unsettled = f" AND NOT (class = {SIMPLE} AND (waiting OR open))" if plan.params.settled else ""
    return f"""
    SELECT unit, unitless, {own_firsts} AS positions,{passed} visitors > 1 AS several, entry_ts,
           window_end, class,
           if(class = {SIMPLE} AND carries, any_value, 0) AS value,
           if(class = {SIMPLE}, {stop}, 0) AS reached,
           {layout.time(done)} AS done_ts,
           {plan.evaluated_at()} <= window_end AS waiting,
           class = {SIMPLE} AND reached < {len(plan.steps)} AND {is_open} AS open
    FROM ({classes}) WHERE class != {ABSENT}{unsettled}"""


def _over_limit(plan: Plan) -> str:
    """Whether a unit has more events or entries than the general fold reads."""
    events = f"count() > {MAX_UNIT_EVENTS}"
    if is_ordered_by_time(plan) or plan.by_attempt:
        return events
    limit = f"intDiv({MAX_COMPARISONS}, count() * {plan.definition.max_readings})"
    return f"{events} OR countIf({_starts(plan)}) > greatest(1, {limit})"


def _values_hash(plan: Plan) -> str:
    keys = [f"key_{j}" for j in range(1, plan.breadth + 1)]
    return combine_hashes(keys)


def combine_hashes(keys: list[str]) -> str:
    """Return one hash for several value hashes; 0 if all of them are 0."""
    if len(keys) < 2:
        return keys[0] if keys else "toUInt64(0)"
    return f"if({' AND '.join(f'{key} = 0' for key in keys)}, 0, cityHash64({', '.join(keys)}))"


def _position(layout: Layout) -> str:
    parts = [f"bitShiftLeft(toUInt64(ts - {layout.base_ms}), {layout.time_shift})"]
    if layout.number_bits:
        low_number = f"bitAnd(bitShiftRight(number, 3), {2**layout.number_bits - 1})"
        number = f"bitShiftLeft({low_number}, {layout.low_bits})"
        unusable = 1 << (layout.low_bits + layout.number_bits)
        parts.append(f"if({small_number('number')}, {number}, {unusable})")
    return " + ".join([*parts, "(value != 0)"])


def _complexity(plan: Plan, layout: Layout) -> str:
    """Return 2 if the event makes any unit complex, 1 if only units that entered, or else 0."""
    others = sum(bits.all for bits in plan.rows if not bits.row.required)
    conditions = [plan.overlaps("mask", others)] if others else []
    if layout.number_bits:
        fits = f"{small_number('number')} AND number < {2 ** (layout.number_bits + 3)}"
        # The number is unusable or does not fit into its bits.
        conditions.append(f"(number_sent AND NOT ({fits}))")
    entered = " OR ".join(conditions) or "0"
    if plan.definition.attempt_keys and plan.profile.has_provider_events:
        return f"multiIf(provider, 2, {entered}, 1, 0)"
    if plan.has_whole_seconds:
        return f"multiIf(coarse, 2, {entered}, 1, 0)"
    return f"toUInt8({entered})"


def _unitless(plan: Plan) -> str:
    """Count the events in the period that match a required step. Used for events without a unit."""
    conditions = []
    if plan.any_event or not all(bits.row.required for bits in plan.rows):
        conditions.append(plan.overlaps("mask", plan.required))
    if plan.params.start_ms is not None:
        conditions.append(plan.in_period("ts"))
    return f"countIf({' AND '.join(conditions)})" if conditions else "count()"


def _starts(plan: Plan) -> str:
    """Whether an event can be an entry.

    For a visitor only in the period and if it passes the query's filters, for an attempt always.
    """
    condition = plan.overlaps("mask", plan.entry_bits)
    if plan.by_attempt:
        return condition
    return f"{condition} AND {plan.in_period('ts')}{plan.may_enter()}"


def _completes(plan: Plan, index: int) -> str:
    """Whether an event can complete a step. index: index of the step.

    In any order, events before the period complete none, because no visitor enters with them.
    """
    if not plan.definition.in_any_order:
        return plan.overlaps("mask", plan.steps[index].all) if index else _starts(plan)
    condition = plan.overlaps("mask", plan.steps[index].all)
    if plan.by_attempt or plan.params.start_ms is None:
        return condition
    return f"{condition} AND ts >= {plan.binder.bind('Int64', plan.params.start_ms)}"


def sorted_firsts(positions: str) -> str:
    """Return the positions of the steps that a unit did, in order of time."""
    return f"arraySort(arrayFilter(p -> p != 0, {positions}))"


def _filtered_entries(plan: Plan, layout: Layout) -> str:
    """Select what the query's entry filters say about a unit's possible entries, if there are any.

    may_enter: whether the first event of step 1 passes, for an attempt. refused: position in time
    of the first event of step 1 that does not pass, for a visitor; 0 for none.
    """
    if not plan.has_entry_filters:
        return ""
    if plan.by_attempt:
        return f" argMinIf(passes, position, {_starts(plan)}) AS may_enter,"
    starts = f"{plan.overlaps('mask', plan.entry_bits)} AND {plan.in_period('ts')}"
    time = f"bitShiftRight(position, {layout.time_shift})"
    refused = f" minIf({time}, {starts} AND NOT passes) AS refused,"
    return f"{refused} countIf({starts} AND NOT passes) AS refusals,"


def _is_refused(plan: Plan) -> str:
    """Whether the only possible entry of an attempt does not pass the entry filters."""
    has_filters = plan.has_entry_filters and plan.by_attempt
    return " OR (starts = 1 AND NOT may_enter)" if has_filters else ""


def _may_agree(plan: Plan) -> str:
    """Whether entries of a visitor that do not pass may be tied and pass together, because the
    property on which they disagree is missing then.
    """
    conditions = plan.definition.entry_conditions
    if plan.by_attempt or not any(condition.if_missing for condition in conditions):
        return ""
    return " OR refusals > 1"


def _shares_entry_time(plan: Plan, layout: Layout) -> str:
    """Whether a visitor's entry may share its time with an event of step 1 that does not pass.

    Such an event helps to decide the entry values. Source: semantics, "Entry values".
    """
    if plan.by_attempt or not plan.has_entry_filters:
        return ""
    return f" OR (refused != 0 AND refused <= bitShiftRight(first, {layout.time_shift}))"


def _firsts(plan: Plan, *, reverse: bool) -> list[str]:
    """Return the first position of each step.

    reverse: return only OR steps, with their options numbered from the last.
    """
    positions = []
    for index, step in enumerate(plan.steps):
        condition = _completes(plan, index)
        if len(step.each) == 1:
            if not reverse:
                positions.append(f"minIf(position, {condition})")
            continue
        last = len(step.each) - 1
        choices = ", ".join(
            f"{plan.overlaps('mask', bit)}, {2 * (last - option if reverse else option)}"
            for option, bit in enumerate(step.each)
        )
        positions.append(f"minIf(position + multiIf({choices}, 0), {condition})")
    return positions


def _verdict(layout: Layout) -> str:
    """Return 0 if position p of a step may follow position q of the previous step, or the reason.

    Source: semantics, "Progress after entry", rules 1 to 4.
    """
    after = f"{layout.order('p')} > {layout.order('q')}"
    if layout.number_bits:
        later = f"{layout.time('p')} > {layout.time('q')}"
        greater = f"{layout.number('p')} > {layout.number('q')}"
        after = (
            f"{layout.is_unusable('p')} = {layout.is_unusable('q')}"
            f" AND if({layout.is_unusable('p')}, {later}, {after} AND {greater})"
        )
    late = f"{layout.time('p')} > window_end"
    return f"multiIf(p = 0, {_MISSING}, NOT ({after}), {_DISORDERED}, {late}, {_LATE}, 0)"


def _tied_options(plan: Plan, layout: Layout) -> str:
    """Whether two events at the same position match different options of an OR step."""
    conditions, or_step = ["0"], 0
    for index, step in enumerate(plan.steps, start=1):
        if len(step.each) > 1:
            or_step += 1
            first = layout.option(f"firsts[{index}]")
            last = layout.option(f"last_options[{or_step}]")
            same = f"{first} + {last} = {len(step.each) - 1}"
            conditions.append(f"(firsts[{index}] != 0 AND NOT ({same}))")
    return " OR ".join(conditions)


def _shares_events(plan: Plan, layout: Layout) -> str:
    """Whether one event may be the first of several steps that count in any order.

    Otherwise the first events of the steps are different events, so that each serves its step.
    """
    if not (plan.definition.in_any_order and plan.definition.has_shared_events):
        return ""
    times = f"arrayMap(p -> bitShiftRight(p, {layout.time_shift}), {sorted_firsts('firsts')})"
    return f" OR length(arrayCompact({times})) < arrayCount(p -> p != 0, firsts)"


def is_done(plan: Plan, step: int, positions: str) -> str:
    """Whether a simple unit did a step."""
    return f"{positions}[{step}] != 0" if plan.definition.in_any_order else f"reached >= {step}"


def tallies(plan: Plan, layout: Layout) -> str:
    """Sum up simple units by entry values, and list complex units for the general fold.

    The relation reads `chains`.
    """
    n = len(plan.steps)
    counted = [f"countIf(reached >= {k})" for k in range(1, n + 1)]
    counted += [f"countIf(reached = {k} AND waiting)" for k in range(1, n + 1)]
    if plan.excludes:  # Excluded units are complex.
        counted += ["toUInt64(0)"] * (n - 1)
    if plan.reopens:
        counted += [f"countIf(reached = {k} AND open AND NOT waiting)" for k in range(1, n)]
        counted += ["toUInt64(0)"] * plan.excludes
    if plan.definition.has_options:
        counted += [
            f"countIf({is_done(plan, k, 'positions')}"
            + (
                f" AND {layout.option(f'positions[{k}]')} = {option})"
                if len(step.each) > 1
                else ")"
            )
            for k, step in enumerate(plan.steps, start=1)
            for option in range(len(step.each))
        ]
    quality = {
        "unitless": f"sumIf(unitless, class = {UNITLESS})",
        "several": f"countIf(several AND class = {SIMPLE})",
        "open_windows": "countIf(open)",
    }
    return f"""
    SELECT class, value, groupArrayIf(unit, class = {COMPLEX}) AS units,
           [{", ".join(counted)}] AS counted, {figures.quality_list(quality)} AS quality,
           {figures.median_state("done_ts - entry_ts", f"reached = {n}")} AS completion
           {figures.waiting_ages(plan, f"class = {SIMPLE} AND waiting AND reached < {n}")}
    FROM chains GROUP BY class, value"""
