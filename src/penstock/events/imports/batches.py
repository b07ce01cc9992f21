"""Batches of an import: what was read, and how it changes the import's progress."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.base.errors import Fault, Invalid
from penstock.base.ids import ImportId
from penstock.events.fields import EventValidationContext
from penstock.events.imports.entries import RowReader, line_excerpt, stated_ms, warning_codes
from penstock.events.imports.formats.reader import Row
from penstock.events.imports.model import ImportJob, Reject
from penstock.events.model import NewEvent, Receipt, Rejected, Status
from penstock.events.transaction import Outcome
from penstock.identity.model import CONFLICT, Claim, Notice, Resolution


@dataclass(slots=True)
class Batch:
    """The events, identity claims and rejected lines in some rows.

    items: events and claims, in the order of the file. item_rows: the row of each item. lines_read,
    bytes_read: how much of the file has been read by the end of the batch. identify_lines: number
    of lines with claims and no event. empty_lines, ignored_lines: numbers of lines skipped.
    """

    items: list[NewEvent | Claim] = field(default_factory=list)
    item_rows: list[Row] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    lines_read: int = 0
    bytes_read: int = 0
    identify_lines: int = 0
    empty_lines: int = 0
    ignored_lines: int = 0

    def add(self, row: Row, reader: RowReader, context: EventValidationContext) -> int:
        """Read the next row. Returns the number of its events and claims, or of its faults."""
        self.lines_read, self.bytes_read = row.lines_read, row.bytes_read
        self.empty_lines += row.empty_lines
        self.ignored_lines += row.ignored_lines
        try:
            items = reader.read(row, context)
        except Invalid as error:
            self.rejects.append(_rejected_row(row, error.faults))
            return len(error.faults)
        self.identify_lines += bool(items) and isinstance(items[-1], Claim)
        self.items += items
        self.item_rows += [row] * len(items)
        return len(items)


def _rejected_row(row: Row, faults: Sequence[Fault]) -> Reject:
    """Return the rejected line of a row, with an excerpt of its content."""
    if not row.content:
        return Reject(row.line, faults)
    return Reject(row.line, faults, stated_ms(row.content), line_excerpt(row.content))


def without_rejected(batch: Batch, outcomes: Sequence[Outcome]) -> tuple[Batch, list[Outcome]]:
    """Move events that the intake refused to the batch's rejects.

    Returns the batch and the remaining outcomes.
    """
    if not any(isinstance(outcome, Rejected) for outcome in outcomes):
        return batch, list(outcomes)
    items, item_rows, rejects = list[NewEvent | Claim](), list[Row](), list(batch.rejects)
    remaining = list[Outcome]()
    for item, row, outcome in zip(batch.items, batch.item_rows, outcomes, strict=True):
        if isinstance(outcome, Rejected):
            assert isinstance(item, NewEvent)
            excerpt = line_excerpt(row.content)
            rejects.append(Reject(row.line, (outcome.fault,), item.occurred_at_ms, excerpt))
        else:
            items.append(item)
            item_rows.append(row)
            remaining.append(outcome)
    return replace(batch, items=items, item_rows=item_rows, rejects=rejects), remaining


def advance(job: ImportJob, batch: Batch, outcomes: Sequence[Outcome]) -> ImportJob:
    """Return the job after a batch. outcomes: one per item of the batch."""
    events = [item for item in batch.items if isinstance(item, NewEvent)]
    receipts = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
    times_ms = [event.occurred_at_ms for event in events]
    affected_ms = times_ms + [
        at_ms for reject in batch.rejects for at_ms in _possible_times(reject, job)
    ]
    warned = {
        (row.line, code)
        for row, item in zip(batch.item_rows, batch.items, strict=True)
        for code in warning_codes(row, [item])
    }
    repeated = sum(receipt.status is Status.DUPLICATE for receipt in receipts)
    conflicts = {
        row.line
        for row, outcome in zip(batch.item_rows, outcomes, strict=True)
        if (notices := _notices(outcome)) and CONFLICT in notices
    }
    first_event_at_ms, last_event_at_ms = _widen(
        job.first_event_at_ms, job.last_event_at_ms, times_ms
    )
    affected_from_ms, affected_to_ms = _widen(job.affected_from_ms, job.affected_to_ms, affected_ms)
    return replace(
        job,
        lines_read=batch.lines_read,
        bytes_read=batch.bytes_read,
        identify_lines=job.identify_lines + batch.identify_lines,
        empty_lines=job.empty_lines + batch.empty_lines,
        ignored_lines=job.ignored_lines + batch.ignored_lines,
        identity_conflicts=job.identity_conflicts + len(conflicts),
        accepted=job.accepted + len(receipts) - repeated,
        duplicates=job.duplicates + repeated,
        rejected=job.rejected + len(batch.rejects),
        first_event_at_ms=first_event_at_ms,
        last_event_at_ms=last_event_at_ms,
        warning_lines=Counter(job.warning_lines) + Counter(code for _, code in warned),
        affected_from_ms=affected_from_ms,
        affected_to_ms=affected_to_ms,
    )


def repeated_lines(import_id: ImportId, outcomes: Sequence[Outcome]) -> Mapping[ImportId, int]:
    """Return the number of lines whose event another import had stored, by that import."""
    firsts = (outcome.first_import for outcome in outcomes if isinstance(outcome, Receipt))
    return Counter(each for each in firsts if each is not None and each != import_id)


def _notices(outcome: Outcome) -> Sequence[Notice]:
    if isinstance(outcome, Receipt):
        return outcome.warnings
    return outcome.notices if isinstance(outcome, Resolution) else ()


def _widen(
    first_ms: int | None, last_ms: int | None, times_ms: list[int]
) -> tuple[int | None, int | None]:
    """Extend a period to include more times. An empty period is `None, None`."""
    known = [at_ms for at_ms in (first_ms, last_ms, *times_ms) if at_ms is not None]
    return min(known, default=None), max(known, default=None)


def _possible_times(reject: Reject, job: ImportJob) -> list[int]:
    """Return the time of a rejected line. If the time is unknown, returns its earliest and latest
    possible times.
    """
    return [0, job.created_at_ms] if reject.stated_ms is None else [reject.stated_ms]
