"""Decides which messages the verdicts of a check need: one for each change."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.alerts.checks import Period
from penstock.alerts.model import Finding, MessageKind, Verdict


class Change(NamedTuple):
    """A new verdict on a period. message: the message that it needs; None if it needs none.

    corrects: ID of the message that a correction names.
    """

    period: Period
    message: MessageKind | None = None
    corrects: str | None = None


def changes_of(findings: Sequence[Finding], periods: Sequence[Period]) -> list[Change]:
    """Return the verdicts that differ from the stored findings, with the messages that they need.

    Alarming periods next to each other, without a fine one between them, are one change. It gets
    one alarm, even if its periods are decided in another order, and one recovery: about the newest
    period, if that is fine. An alarm that was sent and does not hold any more gets a correction;
    if other periods of its change still alarm, they get a new alarm.
    """
    stored = {finding.start_at_ms: finding for finding in findings}
    verdicts = {start_ms: finding.verdict for start_ms, finding in stored.items()}
    changed: dict[int, Change] = {}
    for period in periods:
        before = verdicts.get(period.start_ms, Verdict.UNDECIDED)
        if period.verdict is before:
            continue
        verdicts[period.start_ms] = period.verdict
        finding = stored.get(period.start_ms)
        if finding is not None and before is Verdict.ALARMING and finding.message_id is not None:
            corrected = Change(period, MessageKind.CORRECTION, finding.message_id)
            changed[period.start_ms] = corrected
        else:
            changed[period.start_ms] = Change(period)
    by_start = {period.start_ms: period for period in periods}
    for run in _runs(verdicts):
        if any(
            start in stored and stored[start].message_id and start not in changed for start in run
        ):
            continue
        first = next((start for start in run if start in by_start), None)
        if first is not None:
            changed[first] = Change(by_start[first], MessageKind.ALARM)
    recovered = _recovered(verdicts)
    if recovered in changed and changed[recovered].message is None:
        changed[recovered] = Change(by_start[recovered], MessageKind.RECOVERY)
    return [changed[start] for start in sorted(changed)]


def _decided(verdicts: Mapping[int, Verdict]) -> list[tuple[int, Verdict]]:
    return sorted(each for each in verdicts.items() if each[1] is not Verdict.UNDECIDED)


def _runs(verdicts: Mapping[int, Verdict]) -> Iterator[list[int]]:
    """Yield the starts of alarming periods without a fine one between them."""
    run: list[int] = []
    for start, verdict in _decided(verdicts):
        if verdict is Verdict.ALARMING:
            run.append(start)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _recovered(verdicts: Mapping[int, Verdict]) -> int | None:
    """Return the start of the newest decided period if it is the first fine one after an alarm."""
    last = _decided(verdicts)[-2:]
    if [verdict for _, verdict in last] != [Verdict.ALARMING, Verdict.FINE]:
        return None
    return last[1][0]
