"""The words for a comparison with another tool: rules, settings and sentences. No I/O."""

from collections.abc import Mapping, Sequence
from datetime import UTC

from penstock.base.wording import day_words, listed, utc_time
from penstock.funnels.definitions.model import CountingUnit
from penstock.funnels.definitions.windows import UNIT_S, window_in_words
from penstock.funnels.other_tools.rules import Comparison, Switch, Tool
from penstock.funnels.other_tools.schema import DifferenceRecord, SettingRecord, ShownRecord
from penstock.funnels.queries.context import QueryContext
from penstock.funnels.statements.other_tools import EXCLUDED

_DAY_MS = 86_400_000
_RULES_OF = "November 2026"
_SEVERAL = "more than two rules together make the difference"

_PHRASES: Mapping[tuple[Switch, str], str] = {
    (Switch.ENTRIES, "best"): "any entry of the period counts, not only the first one ever",
    (Switch.ENTRIES, "first"): "only the first entry of the period counts",
    (Switch.ENTRIES, "everyInPeriod"): "runs are counted from the start of the period",
    (Switch.TIES, "within"): "events within 2 seconds of each other count in either order",
    (Switch.TIES, "inStepOrder"): "equal times count in the order of the steps",
    (Switch.TIES, "second"): "events of the same second count in the order of the steps",
    (Switch.TIES, "provenBySecond"): "events of the same second never count one after the other",
    (Switch.TIES, "proven"): "events with equal times never count one after the other",
    (Switch.NUMBERS, "ignored"): "sequence numbers are ignored",
    (Switch.ONE_EVENT, "onePerTime"): "equal events at the same time count as one",
    (Switch.ONE_EVENT, "every"): "one event counts for every step that it matches",
    (Switch.EXCLUDED, "gone"): "an exclusion takes the unit out, but a later try may replace it",
    (Switch.EXCLUDED, "atStep"): "an excluded unit counts at the step that it reached",
    (Switch.STRICT, "dropOff"): "any event between two steps ends the try",
    (Switch.EXCLUDED, "ignored"): "nothing excludes a unit",
    (Switch.STRICT, "strict_order"): "any event between two steps breaks the order",
    (Switch.STRICT, "strict_deduplication"): "a repeated step breaks the order",
    (Switch.STRICT, "exact"): "an event of another second between two steps ends the try",
    (Switch.ANY_ORDER, "withStep1"): "one of the steps must be step 1",
    (Switch.COHORT_FROM, "first"): "the first value of a step in the period counts",
    (Switch.COHORT_FROM, "eachEntry"): "the value of each entry counts, not only that of one",
}


def unit_words(
    comparison: Comparison, here: int, there: int, sets: Sequence[Sequence[Switch]] | None
) -> str:
    """Return how far a unit gets by the tool's rules and by ours, and why.

    here, there: results as in `compared`. sets: see `reason_words`; None if the results are equal.
    """
    name, n = comparison.row.name, len(comparison.definition.steps)
    text = f"By {name}'s rules it {_result_words(there, n)}"
    if sets is None:
        return f"{text}, as here."
    return f"{text}; here it {_result_words(here, n)}: {reason_words(comparison, sets)}."


def _result_words(result: int, n: int) -> str:
    if not result:
        return "does not enter"
    if result > EXCLUDED:
        return f"is excluded after step {result - EXCLUDED}"
    return "completes" if result == n else f"stops after step {result}"


def reason_words(
    comparison: Comparison, sets: Sequence[Sequence[Switch]], completed: int = 0
) -> str:
    """Return the reason as the rest of a sentence: sets of rules, each of which explains it.

    completed: number of units if all of them completed here, and not there.
    """
    if not sets:
        return _SEVERAL
    each = [
        listed([_phrase(comparison, switch, completed) for switch in switches]) for switches in sets
    ]
    return each[0] if len(each) == 1 else f"either {listed(each, 'or')}"


def _phrase(comparison: Comparison, switch: Switch, completed: int) -> str:
    end_ms = comparison.params.end_ms
    if switch is Switch.AFTER_END and end_ms is not None:
        end = _end_words(comparison, end_ms)
        if not completed:
            return f"events after {end} do not count"
        return f"{'it' if completed == 1 else 'they'} completed after {end}"
    return _PHRASES[switch, comparison.there[switch]]


def _end_words(comparison: Comparison, end_ms: int) -> str:
    """Return the last day of a period that ends at midnight UTC, or else the time of its end."""
    if end_ms % _DAY_MS:
        return utc_time(end_ms)
    return day_words(end_ms - 1, UTC, comparison.params.evaluated_at_ms)


def definition_record(comparison: Comparison) -> dict[str, str]:
    """Return the rules that the tool counts by: unit, window, and a value for each switch."""
    switches = {switch.value: str(value) for switch, value in comparison.there.items()}
    return {"unit": _unit(comparison), "window": _window(comparison), **switches}


def _unit(comparison: Comparison) -> str:
    keys = comparison.definition.attempt_keys
    return listed(keys) if keys else "visitor"


def _window(comparison: Comparison) -> str:
    return _length(comparison.definition.window_s)


def _length(seconds: int | None) -> str:
    if seconds is None:
        return "none"
    unit, length = max(
        (item for item in UNIT_S.items() if seconds % item[1] == 0), key=lambda item: item[1]
    )
    return window_in_words(seconds // length, unit)


def assumed(comparison: Comparison, context: QueryContext) -> list[str]:
    """Return what the tool does not document, or what cannot be known here."""
    texts = list(comparison.row.assumed)
    if comparison.definition.attempt_keys:
        texts.append(f"units are the values of {_unit(comparison)}, as here")
    if context.profile.has_provider_events:
        where = "as here"
        if comparison.tool in (Tool.MIXPANEL, Tool.WINDOWFUNNEL):
            where = "at their start"
        texts.append(f"whole seconds of payment providers count {where}")
    if comparison.there[Switch.TIES] == "second":
        texts.append("times, and the ends of the period, are rounded down to seconds")
    if comparison.there[Switch.EXCLUDED] == "atStep":
        texts.append("an exclusion at the time of the next step does not count")
    if comparison.there[Switch.STRICT] == "dropOff":
        texts.append("an event at the time of the next step ends the try, as here")
    if comparison.parts.edges_ms:
        texts.append("a unit counts once in each bucket that it enters in, as visitors do here")
    if comparison.definition.window_s is None:
        texts.append("there is no conversion window, as here")
    return texts


def settings(comparison: Comparison, context: QueryContext) -> list[SettingRecord]:
    """Return the settings to compare first, because they are not the tool's defaults."""
    row, definition, params = comparison.row, comparison.definition, comparison.params
    records = []

    def add(setting: str, here: str, there: str, sentence: str) -> None:
        records.append(SettingRecord(setting=setting, here=here, there=there, sentence=sentence))

    window = _window(comparison)
    if row.window_s is None:
        add("window", window, "of the query", f"The window here is {window}; compare the query.")
    elif row.window_s != definition.window_s:
        default = _length(row.window_s)
        sentence = f"The window here is {window}; {row.name}'s default is {default}."
        add("window", window, default, sentence)
    if definition.counting_unit is CountingUnit.ATTEMPT:
        unit = _unit(comparison)
        sentence = f"Units here are values of {unit}; {row.name}'s default is {row.counts_units}."
        add("unit", unit, row.counts_units, sentence)
    if params.start_ms is not None and params.end_ms is not None:
        times = f"{utc_time(params.start_ms)} to {utc_time(params.end_ms)}"
        if params.start_ms % _DAY_MS or params.end_ms % _DAY_MS:
            sentence = f"The period here is {times}; compare the time zone of {row.name}'s days."
            add("timezone", times, "whole days", sentence)
        if params.end_ms > params.evaluated_at_ms:
            sentence = "The period is not over: compare both numbers at the same time."
            add("periodEnd", utc_time(params.end_ms), "now", sentence)
    if context.internal_traffic is not None:
        is_counted = context.ad_hoc.internal
        here = "counted" if is_counted else "left out"
        sentence = (
            f"Test traffic is {here} here; whether {row.name} leaves it out depends on its filters."
        )
        add("testTraffic", here, "depends on filters", sentence)
    return records


def sentences(
    comparison: Comparison,
    figures: Mapping[str, int],
    reasons: Sequence[DifferenceRecord],
) -> list[str]:
    """Return what the comparison says, in sentences."""
    entered, entered_here = figures["entered"], figures["entered_here"]
    here = f"{figures['completed_here']:,}"
    if entered != entered_here:
        here += f" of {entered_here:,}"
    name = comparison.row.name
    units = comparison.definition.units(entered)
    completed = f"{figures['completed']:,} of {units} completed"
    texts = [f"By {name}'s rules ({_RULES_OF}) {completed}, here {here}."]
    for where, counts in (
        ("there", [(reason.only_there, reason) for reason in reasons]),
        ("here", [(reason.only_here, reason) for reason in reasons]),
    ):
        counted = [(count, reason.sentence) for count, reason in counts if count]
        if not counted:
            continue
        total = sum(count for count, _ in counted)
        verb = "counts" if total == 1 else "count"
        because = counted[0][1]
        if len(counted) > 1:
            because = listed([f"{count:,} because {text}" for count, text in counted])
        texts.append(f"{total:,} {verb} only {where}: {because}.")
    others = sum(reason.units - reason.only_there - reason.only_here for reason in reasons)
    if others:
        texts.append(
            f"{others:,} more reached another step there, but completed in both or in neither."
        )
    return texts


def shown_words(shown: ShownRecord) -> str:
    """Return how far the rules explain the number that the tool shows."""
    if shown.unexplained == 0:
        return f"{shown.shown:,} is what the rules give: nothing is left to explain."
    sign = "+" if shown.unexplained > 0 else "−"
    return (
        f"{shown.shown:,} = {shown.by_rules:,} by rules {sign} {abs(shown.unexplained):,} that "
        "rules do not explain (people, filters, missing events)."
    )
