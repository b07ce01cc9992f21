"""The packed fold: units in plain order, counted from one number a step, without sorting their events.

A unit's first event of each step is kept as one packed position (time, sequence number). Where these positions rise from step to step, they
are exactly the events that the general fold would accept: nothing lies before them that could match, be refused or disagree. Such a unit is
*plain* and finished here. Every other unit is *odd*: its events go through the general fold. What makes a unit odd:

    - a first occurrence that is not provably after the step before (ties, repeats of earlier steps, numbers that fall)
    - several events of step 1 at the entry's timestamp, or two options of one step at one position
    - entry values that a later event may disagree with
    - an event of a diagnostic row, or of a payment provider, or with a sequence value that is none
    - of a visitor: a window that closed before the next step, for a later entry may lead further

The answer is the same as the general fold's (the property test runs both); only the time differs: docs/decisions/0003-packed-fold.md.
"""

from dataclasses import dataclass

from penstock.funnels.statements.query import Plan, small_number

_POSITION_BITS = 64
_FEWEST_NUMBER_BITS = 8

PLAIN, ODD, UNITLESS, ABSENT = range(4)
"""What a unit is: finished here; for the general fold; the events without an attempt ID; without an entry in the period."""

_MISSING, _DISORDERED, _LATE = 1, 2, 3
"""Why a unit's first event of a step does not continue it: there is none; not provably after the step before; after the window."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a position is packed into 64 bits, from the highest: time after `base_ms`, unusable flag, number, option, entry flag.

    number_bits: 0 without a sequence property, and then there is no unusable flag either. option_bits: enough for the longest OR step.
    The entry flag, the lowest bit, says whether the event carries any entry value.
    """

    base_ms: int
    number_bits: int
    option_bits: int

    @property
    def low_bits(self) -> int:
        """The bits below those that order events."""
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

    def unusable(self, position: str) -> str:
        return f"bitTest({position}, {self.low_bits + self.number_bits})"

    def option(self, position: str) -> str:
        return f"bitAnd(bitShiftRight({position}, 1), {2**self.option_bits - 1})"


def layout_of(plan: Plan) -> Layout | None:
    """A layout that holds every event of the question; None where there is none: a group, no events, or too long a time for the bits."""
    facts = plan.facts
    if facts.first_event_ms is None or facts.last_event_ms is None or any(step.row.all_of for step in plan.steps):
        return None
    base_ms = facts.first_event_ms - 1  # position 0 is kept for "no event"
    option_bits = (max(len(step.each) for step in plan.steps) - 1).bit_length()
    left = _POSITION_BITS - (facts.last_event_ms - base_ms).bit_length() - option_bits - 1
    if plan.definition.sequence_property is None:
        return Layout(base_ms, 0, option_bits) if left >= 0 else None
    number_bits = min(left - 1, 62)
    return Layout(base_ms, number_bits, option_bits) if number_bits >= _FEWEST_NUMBER_BITS else None


def unit_chains(plan: Plan, layout: Layout) -> str:
    """One row for each unit of `matched` that is not absent, with its class, and for a plain one how far it came.

    firsts: position of the first event of each step, 0 for none. rivals: the same for OR steps with their options in reverse order.
    value: hash of all entry values together, 0 when all are missing.
    """
    positions = f"""
        SELECT unit, ts, visitor, mask, {_values_hash(plan)} AS value,
               {_position(plan, layout)} AS position, {_oddity(plan, layout)} AS oddity
        FROM matched"""
    firsts = f"""
        SELECT unit, [{", ".join(_firsts(plan, reverse=False))}] AS firsts,
               CAST([{", ".join(_firsts(plan, reverse=True))}], 'Array(UInt64)') AS rivals,
               countArgMinIf(bitShiftRight(position, {layout.time_shift}), {_starts(plan)}) AS starts,
               uniqUpToIf(1)(value, value != 0) AS values, max(value) AS any_value, uniqUpTo(1)(visitor) AS visitors,
               max(oddity) AS oddity, {_unitless(plan)} AS unitless
        FROM ({positions}) GROUP BY unit"""
    open_reasons = f"({_DISORDERED})" if plan.by_attempt else f"({_DISORDERED}, {_LATE})"
    return f"""
    SELECT unit, unitless, firsts, visitors > 1 AS several, bitTest(firsts[1], 0) AS carries,
           {layout.time("firsts[1]")} AS entry_ts, {plan.window_end("entry_ts")} AS window_end,
           arrayMap((p, q) -> {_fate(layout)}, arrayPopFront(firsts), arrayPopBack(firsts)) AS fates,
           arrayFirstIndex(fate -> fate != 0, fates) AS stop,
           multiIf(unit = 0, {UNITLESS}, oddity = 2, {ODD}, firsts[1] = 0 OR NOT {plan.in_period("entry_ts")}, {ABSENT},
                   oddity = 1 OR starts > 1 OR (carries AND values > 1) OR fates[stop] IN {open_reasons}
                       OR {_rivalry(plan, layout)}, {ODD},
                   {PLAIN}) AS class,
           if(class = {PLAIN} AND carries, any_value, 0) AS value,
           if(class = {PLAIN}, if(stop = 0, {len(plan.steps)}, stop), 0) AS reached, {layout.time("firsts[reached]")} AS done_ts
    FROM ({firsts}) WHERE class != {ABSENT}"""


def _values_hash(plan: Plan) -> str:
    keys = [f"key_{j}" for j in range(1, plan.breadth + 1)]
    return combined(keys)


def combined(keys: list[str]) -> str:
    """Several value hashes as one, 0 when all are 0."""
    if len(keys) < 2:
        return keys[0] if keys else "toUInt64(0)"
    return f"if({' AND '.join(f'{key} = 0' for key in keys)}, 0, cityHash64({', '.join(keys)}))"


def _position(plan: Plan, layout: Layout) -> str:
    parts = [f"bitShiftLeft(toUInt64(ts - {layout.base_ms}), {layout.time_shift})"]
    if layout.number_bits:
        number = f"bitShiftLeft(bitAnd(bitShiftRight(number, 3), {2**layout.number_bits - 1}), {layout.low_bits})"
        unusable = 1 << (layout.low_bits + layout.number_bits)
        parts.append(f"if({small_number('number')}, {number}, {unusable})")
    return " + ".join([*parts, "(value != 0)"])


def _oddity(plan: Plan, layout: Layout) -> str:
    """2: makes its unit odd, entered or not. 1: makes an entered unit odd."""
    diagnostic = sum(bits.all for bits in plan.rows if bits.row.diagnostic)
    odd = [plan.overlaps("mask", diagnostic)] if diagnostic else []
    if layout.number_bits:
        fits = f"{small_number('number')} AND number < {2 ** (layout.number_bits + 3)}"
        odd.append(f"(number_sent AND NOT ({fits}))")  # a number too large for its bits, or something that is no number
    simple = " OR ".join(odd) or "0"
    return f"multiIf(provider, 2, {simple}, 1, 0)" if plan.by_attempt and plan.facts.has_provider_events else f"toUInt8({simple})"


def _unitless(plan: Plan) -> str:
    """Events of the period that match a required step; they matter where they carry no attempt ID."""
    conditions = []
    if any(bits.row.diagnostic for bits in plan.rows):
        conditions.append(plan.overlaps("mask", plan.required))
    if plan.question.start_ms is not None:
        conditions.append(plan.in_period("ts"))
    return f"countIf({' AND '.join(conditions)})" if conditions else "count()"


def _starts(plan: Plan) -> str:
    """Whether an event can be a unit's entry. A visitor may enter anew inside the period, an attempt only once at all."""
    condition = plan.overlaps("mask", plan.steps[0].all)
    return condition if plan.by_attempt else f"{condition} AND {plan.in_period('ts')}"


def _firsts(plan: Plan, *, reverse: bool) -> list[str]:
    """The least position of each step. reverse: of OR steps only, options counted from the last."""
    found = []
    for index, step in enumerate(plan.steps):
        condition = plan.overlaps("mask", step.all) if index else _starts(plan)
        if len(step.each) == 1:
            if not reverse:
                found.append(f"minIf(position, {condition})")
            continue
        last = len(step.each) - 1
        choices = ", ".join(
            f"{plan.overlaps('mask', bit)}, {2 * (last - option if reverse else option)}" for option, bit in enumerate(step.each)
        )
        found.append(f"minIf(position + multiIf({choices}, 0), {condition})")
    return found


def _fate(layout: Layout) -> str:
    """What becomes of position p of a step, q being that of the step before. 0: accepted. Rules 1 to 4 of "Progress after entry"."""
    if layout.number_bits:
        after = (
            f"{layout.unusable('p')} = {layout.unusable('q')} AND if({layout.unusable('p')}, {layout.time('p')} > {layout.time('q')}, "
            f"{layout.order('p')} > {layout.order('q')} AND {layout.number('p')} > {layout.number('q')})"
        )
    else:
        after = f"{layout.order('p')} > {layout.order('q')}"
    return f"multiIf(p = 0, {_MISSING}, NOT ({after}), {_DISORDERED}, {layout.time('p')} > window_end, {_LATE}, 0)"


def _rivalry(plan: Plan, layout: Layout) -> str:
    """Whether two events at one position stand for different options of an OR step."""
    conditions, rival = ["0"], 0
    for index, step in enumerate(plan.steps, start=1):
        if len(step.each) > 1:
            rival += 1
            first, last = layout.option(f"firsts[{index}]"), layout.option(f"rivals[{rival}]")
            conditions.append(f"(firsts[{index}] != 0 AND {first} + {last} != {len(step.each) - 1})")
    return " OR ".join(conditions)


def tallies(plan: Plan, layout: Layout) -> str:
    """Plain units counted by their entry values; odd ones by name, for the general fold. Reads `chains`."""
    n = len(plan.steps)
    waiting = f"{plan.evaluated_at()} <= window_end"
    counts = ", ".join(f"countIf(reached >= {k})" for k in range(1, n + 1))
    pendings = ", ".join(f"countIf(reached = {k} AND {waiting})" for k in range(1, n))
    options = ", ".join(
        f"countIf(reached >= {k}" + (f" AND {layout.option(f'firsts[{k}]')} = {option})" if len(step.each) > 1 else ")")
        for k, step in enumerate(plan.steps, start=1)
        for option in range(len(step.each))
    )
    return f"""
    SELECT class, value, groupArrayIf(unit, class = {ODD}) AS units, sumIf(unitless, class = {UNITLESS}) AS unitless,
           countIf(class = {PLAIN}) AS entered, [{counts}] AS counts, [{pendings}] AS pendings, [{options}] AS options,
           quantileExactInclusiveStateIf(0.5)(done_ts - entry_ts, reached = {n}) AS completion,
           countIf(several AND class = {PLAIN}) AS several
    FROM chains GROUP BY class, value"""
