"""The decisions of a trace in plain words."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.base.clock import iso
from penstock.funnels.definitions.model import CountingUnit, Definition, Row
from penstock.funnels.units.trace import Decision, Journey, Reading, Verdict, required_rows, seen_by_diagnostics


class Explained(NamedTuple):
    """What became of one event. step, row: which required step or diagnostic row it concerned. diagnostic_rows: those that counted it."""

    decision: Decision
    step: int | None
    row: int | None
    diagnostic_rows: tuple[int, ...]
    sentence: str


LEFT_OUT = (
    "Left out: a payment provider's event counts only when its link to a visitor is verified "
    "and another event of this attempt has that visitor."
)


def explained(definition: Definition, journey: Journey | None, readings: Sequence[Reading]) -> dict[str, Explained]:
    """Every event of a unit by its ID. journey: the one that counts; None when the unit never completed step 1."""
    seen: dict[str, list[int]] = {}
    if journey is not None:
        for place, events in seen_by_diagnostics(definition, journey).items():
            for reading in events:
                seen.setdefault(reading.event_id, []).append(place)
    return {reading.event_id: _explained(definition, journey, reading, tuple(seen.get(reading.event_id, ()))) for reading in readings}


def _explained(definition: Definition, journey: Journey | None, reading: Reading, diagnostic_rows: tuple[int, ...]) -> Explained:
    verdict = None if journey is None else journey.verdicts.get(reading.event_id)
    if journey is not None and verdict is not None:
        place, row = required_rows(definition)[verdict.step - 1]
        return Explained(verdict.decision, verdict.step, place, diagnostic_rows, _of_verdict(row, journey, reading, verdict))
    if diagnostic_rows:
        place = diagnostic_rows[0]
        return Explained(Decision.DIAGNOSTIC, None, place, diagnostic_rows, f"Counted by the diagnostic row {place}, which gates nothing.")
    return Explained(Decision.NO_MATCH, None, None, (), _not_wanted(definition, journey, reading))


def _of_verdict(row: Row, journey: Journey, reading: Reading, verdict: Verdict) -> str:
    step = f"step {verdict.step}"
    match verdict.decision:
        case Decision.ENTRY:
            if journey.window_end_ms is None:
                return "Completes step 1: the entry. The window never ends."
            return f"Completes step 1: the entry. The window lasts until {iso(journey.window_end_ms)}, inclusive."
        case Decision.ACCEPTED if verdict.completes:
            return f"Accepted: completes {step}."
        case Decision.ACCEPTED:
            parts = _joined([str(part + 1) for part in sorted(verdict.parts)])
            return f"Accepted: fills part {parts} of {len(row.matches)} of {step}."
        case Decision.SEQUENCE_SKIP:
            return f"Skipped: sequence number {reading.number} is not greater than {verdict.number}, the last accepted."
        case Decision.OUTSIDE_WINDOW:
            assert journey.window_end_ms is not None
            return f"Matches {step}, but comes after the window, which ended at {iso(journey.window_end_ms)}."
        case _:
            return f"Not accepted for {step}: {_why_tied(reading, verdict)}"


def _why_tied(reading: Reading, verdict: Verdict) -> str:
    assert verdict.against is not None
    same = f"it has the same timestamp as the event that completed step {verdict.step - 1}, and "
    if reading.number is None or verdict.against.number is None:
        return same + "no sequence numbers on both prove which came first."
    return same + f"its sequence number {reading.number} is not greater than {verdict.against.number}."


def _not_wanted(definition: Definition, journey: Journey | None, reading: Reading) -> str:
    steps = [number for number, (place, _) in enumerate(required_rows(definition), start=1) if reading.matched[place]]
    matches = f"Matches step {_joined([str(step) for step in steps])}, but " if steps else "Matches no step: "
    if journey is None:
        return f"{matches}step 1 was never completed, so nothing counts." if steps else "Matches no step."
    n = len(required_rows(definition))
    if reading.order < journey.entry.order:
        if 1 in steps and definition.counting_unit is CountingUnit.VISITOR:
            return "Matches step 1, but another entry of this visitor counts: the one that leads furthest, the earliest among equals."
        return f"{matches}it comes before the entry." if steps else "Matches no step."
    if journey.reached == n and reading.order > journey.completed[-1].order:
        return f"{matches}the funnel was completed before." if steps else "Matches no step."
    if not steps:
        return "Matches no step."
    wanted = 1 + sum(done.order < reading.order for done in journey.completed)
    if steps == [1] and definition.counting_unit is CountingUnit.ATTEMPT:
        return f"Matches step 1, but an attempt enters once; step {wanted} was wanted."
    if wanted in steps:
        return f"Matches step {wanted}, but its part of the group was filled before."
    return f"{matches}step {wanted} was wanted."


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
