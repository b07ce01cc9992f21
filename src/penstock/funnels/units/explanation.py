"""Explains the decisions of a trace in plain words."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.clock import iso
from penstock.funnels.definitions.model import CountingUnit, Definition, Row
from penstock.funnels.units.path import (
    Decision,
    FunnelPath,
    MatchedEvent,
    Verdict,
    exclusion_row,
    required_rows,
    seen_by_diagnostics,
)


class Explanation(NamedTuple):
    """The decision on one event.

    step: number of the required step that the decision is about. row: position of its row, or of
    the first diagnostic row that counted the event. diagnostic_rows: positions of all diagnostic
    rows that counted the event.
    """

    decision: Decision
    step: int | None
    row: int | None
    diagnostic_rows: tuple[int, ...]
    sentence: str


def explain_left_out(*, verified: bool) -> Explanation:
    """Explain why a payment provider's event does not count in its attempt (R18).

    verified: whether the event has a verified link to a visitor.
    """
    reason = (
        "its visitor has none of the attempt's other events"
        if verified
        else "it has no verified link to a visitor"
    )
    sentence = f"Left out: the event comes from a payment provider, and {reason}."
    return Explanation(Decision.UNVERIFIED_PROVIDER, None, None, (), sentence)


def explain_events(
    definition: Definition, path: FunnelPath | None, events: Sequence[MatchedEvent]
) -> dict[str, Explanation]:
    """Return the decision on each event of a unit, by event ID.

    path: the counted path; None if the unit never completed step 1.
    """
    rows_of: dict[str, list[int]] = {}
    if path is not None:
        for row_index, seen in seen_by_diagnostics(definition, path).items():
            for event in seen:
                rows_of.setdefault(event.event_id, []).append(row_index)
    return {
        event.event_id: _explain(definition, path, event, tuple(rows_of.get(event.event_id, ())))
        for event in events
    }


def _explain(
    definition: Definition,
    path: FunnelPath | None,
    event: MatchedEvent,
    diagnostic_rows: tuple[int, ...],
) -> Explanation:
    verdict = None if path is None else path.verdicts.get(event.event_id)
    if path is not None and verdict is not None:
        if verdict.decision is Decision.EXCLUSION:
            row_index, sentence = _explain_exclusion(definition, event, verdict.step)
        else:
            row_index, row = required_rows(definition)[verdict.step - 1]
            if verdict.row is not None:
                row_index, row = verdict.row, definition.rows[verdict.row]
            sentence = _explain_verdict(definition, row, path, event, verdict)
            if event in path.assumed:
                sentence += " Its order is assumed: equal times count in the order of the steps."
        if event.coarse:
            end = "start" if verdict.step == 1 else "end"
            sentence += f" Its provider sends whole seconds; it counts at the {end} of its second."
        return Explanation(verdict.decision, verdict.step, row_index, diagnostic_rows, sentence)
    if diagnostic_rows:
        row_index = diagnostic_rows[0]
        sentence = f"Counted by diagnostic row {row_index}, which doesn't affect conversion."
        return Explanation(Decision.DIAGNOSTIC, None, row_index, diagnostic_rows, sentence)
    return Explanation(Decision.NO_MATCH, None, None, (), _explain_ignored(definition, path, event))


def _explain_exclusion(definition: Definition, event: MatchedEvent, step: int) -> tuple[int, str]:
    """Return the row that excludes the unit, and why. step: the last completed step."""
    exclusion = exclusion_row(definition, step)
    unit = definition.unit_word
    if exclusion is not None and event.matched[exclusion]:
        reason = f"it matches the exclusion row after step {step}"
        row_index = exclusion
    else:
        is_of_step = any(event.matched[row] for row, _ in required_rows(definition))
        belongs = "the event belongs to another step" if is_of_step else "no other event may occur"
        reason = f"step {step + 1} is strict, and {belongs}"
        row_index = required_rows(definition)[step][0]
    return row_index, f"Excludes the {unit} after step {step}: {reason}. Nothing later counts."


def _explain_verdict(
    definition: Definition, row: Row, path: FunnelPath, event: MatchedEvent, verdict: Verdict
) -> str:
    step = f"step {verdict.step}"
    match verdict.decision:
        case Decision.ENTRY:
            does = "Completes step 1: the entry."
            if verdict.row is not None:
                does = f"Does {_step_of_row(definition, verdict.row)}, the first: the entry."
            if path.window_end_ms is None:
                return f"{does} The window never ends."
            return f"{does} The window lasts until {iso(path.window_end_ms)}, inclusive."
        case Decision.ACCEPTED if verdict.row is not None:
            does = _step_of_row(definition, verdict.row)
            return f"Accepted: does {does}. {verdict.step} of {len(definition.steps)} are done."
        case Decision.ACCEPTED if verdict.completes:
            return f"Accepted: completes {step}."
        case Decision.ACCEPTED:
            parts = _join_words([str(part + 1) for part in sorted(verdict.parts)])
            return f"Accepted: fills part {parts} of {len(row.matches)} of {step}."
        case Decision.SEQUENCE_SKIP:
            return (
                f"Skipped: sequence number {event.number} is not greater than {verdict.number}, "
                "the last accepted."
            )
        case Decision.OUTSIDE_WINDOW:
            assert path.window_end_ms is not None
            end = iso(path.window_end_ms)
            return f"Matches {step}, but comes after the window, which ended at {end}."
        case _:
            is_rival = path.excluded_by is not None and path.excluded_by is verdict.against
            excluded = f"excluded the {'run' if definition.repeat else 'unit'}"
            did = excluded if is_rival else f"completed step {verdict.step - 1}"
            refused = "Excludes nothing" if verdict.excludes else f"Not accepted for {step}"
            return f"{refused}: {_explain_tie(event, verdict, did)}"


def _step_of_row(definition: Definition, row_index: int) -> str:
    numbers = {index: number for number, (index, _) in enumerate(required_rows(definition), 1)}
    return f"step {numbers[row_index]}"


def _explain_tie(event: MatchedEvent, verdict: Verdict, did: str) -> str:
    """Explain a tie. did: words for what the other event did."""
    assert verdict.against is not None
    same = f"it has the same timestamp as the event that {did}, and "
    if event.number is None or verdict.against.number is None:
        return same + "no sequence numbers on both prove which came first."
    return (
        same + f"its sequence number {event.number} is not greater than {verdict.against.number}."
    )


def _explain_ignored(definition: Definition, path: FunnelPath | None, event: MatchedEvent) -> str:
    """Explain why neither a step nor a diagnostic row counted an event."""
    steps = [
        number
        for number, (row_index, _) in enumerate(required_rows(definition), start=1)
        if event.matched[row_index]
    ]
    if not steps:
        if any(
            row.exclude and event.matched[row_index]
            for row_index, row in enumerate(definition.rows)
        ):
            return "Matches an exclusion row, but not between the two steps around it."
        return "Matches no step."
    matches = f"Matches step {_join_words([str(step) for step in steps])}, but "
    if definition.in_any_order:
        return f"{matches}{_reason_in_any_order(definition, path, event)}."
    if path is None:
        return f"{matches}step 1 was never completed, so nothing counts."
    n = len(required_rows(definition))
    if event.late_order < path.entry.order:
        if 1 in steps and not all(event.met):
            return f"Matches step 1, but {reason_not_to_enter(definition)}."
        if definition.repeat:
            return f"{matches}it comes before the entry of this run."
        if 1 in steps and definition.counting_unit is CountingUnit.VISITOR:
            return (
                "Matches step 1, but another entry of this visitor counts: the one that leads "
                "furthest, the earliest among equals."
            )
        return f"{matches}it comes before the entry."
    exclusion = path.excluded_by
    if exclusion is not None and event.late_order > exclusion.late_order:
        return f"{matches}the {definition.unit_word} was already excluded."
    if path.reached == n and event.late_order > path.done[-1]:
        return f"{matches}the {'run' if definition.repeat else 'funnel'} was already completed."
    if definition.repeat and not path.in_window(event.at_ms):
        return f"{matches}it comes after the window of this run."
    next_step = 1 + sum(done < event.late_order for done in path.done)
    if steps == [1] and definition.counting_unit is CountingUnit.ATTEMPT:
        return f"Matches step 1, but an attempt enters only once; step {next_step} was next."
    if steps == [1] and definition.repeat:
        return f"Matches step 1, but a run is open; step {next_step} was next."
    if next_step in steps and required_rows(definition)[next_step - 1][1].all_of:
        return f"Matches step {next_step}, but its part of the group was already filled."
    if next_step in steps:
        return f"Matches step {next_step}, but another event of the same time completed it."
    return f"{matches}step {next_step} was next."


def _reason_in_any_order(
    definition: Definition, path: FunnelPath | None, event: MatchedEvent
) -> str:
    """Return in words why an event of a step does not count, if steps count in any order."""
    if path is None or not all(event.met):
        return f"it {reason_not_to_enter(definition)}"
    if event.at_ms < path.entry_ms:
        return "another entry of this visitor counts: the one that leads furthest"
    if not path.in_window(event.at_ms):
        return "it comes after the window"
    exclusion = path.excluded_by
    if exclusion is not None and event.late_order > exclusion.late_order:
        return f"the {definition.unit_word} was already excluded"
    return "other events do all steps that it could do"


def reason_not_to_enter(definition: Definition) -> str:
    """Return in words why an event does not pass the filters on entries."""
    reasons = []
    if definition.entry_filters:
        reasons.append("does not pass the filters of the request")
    if definition.internal_traffic:
        reasons.append("is internal traffic")
    return " or ".join(reasons)


def _join_words(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
