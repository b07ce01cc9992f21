"""Says in words what changed since a receipt was made. No I/O. Days are in UTC."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import MISSING

from penstock import __version__
from penstock.base.clock import parse_time
from penstock.base.rates import percent
from penstock.base.restores import Restore
from penstock.base.wording import count_of, day_words, listed, utc_time
from penstock.funnels.definitions.schema import SavedDefinition
from penstock.funnels.queries.schema import GapRecord
from penstock.receipts.schema import (
    ChangeKind,
    ReceiptChangeRecord,
    ReceiptDocument,
    ReceiptFiguresRecord,
    SumsRecord,
    UseRecord,
)

_MAX_SOURCES = 3
_KINDS = {
    "goal": "the goal",
    "segment": "the segment",
    "cohort": "the saved cohort",
    "internalTraffic": "the filters of",
}


def change(kind: ChangeKind, text: str, number: int | None = None) -> ReceiptChangeRecord:
    return ReceiptChangeRecord(kind=kind, text=text, number=MISSING if number is None else number)


class Wording:
    """Formats days and rates of a receipt. now_ms: decides whether days have a year."""

    def __init__(self, document: ReceiptDocument, now_ms: int) -> None:
        self._document, self._now_ms = document, now_ms
        self._at_ms = parse_time(document.at)

    def day(self, at: str) -> str:
        """at: an ISO 8601 time, or its day."""
        at_ms = parse_time(at if "T" in at else f"{at}T00:00:00Z")
        return day_words(at_ms, UTC, self._now_ms)

    def days(self, first: str, last: str) -> str:
        return self.day(first) if first == last else f"{self.day(first)} to {self.day(last)}"

    def is_later(self, at: str) -> bool:
        return parse_time(at) > self._at_ms

    def source(self, row: Mapping[str, Any]) -> str:
        """How events arrived. row: see `content_sums.arrivals`."""
        received = row["received"]
        if not row["import"]:
            return f"received on {self.day(received)}"
        at = datetime.fromtimestamp(self._at_ms / 1000, UTC).date().isoformat()
        if received < at:
            return "import of events with earlier times of receipt"
        return f"import of {self.day(received)}"


def definition_changes(
    document: ReceiptDocument,
    revision: int | None,
    definition: SavedDefinition,
    uses: Sequence[UseRecord],
) -> Iterator[ReceiptChangeRecord]:
    """Yield what the question reads otherwise than the receipt did."""
    before = document.funnel.revision
    if not definition.counts_like(document.definition):
        # After a restore, the next revisions have the numbers of lost ones.
        now = " is now another" if revision == before else f", now {revision}"
        text = f"the funnel's definition changed (revision {before}{now})"
        yield change(ChangeKind.DEFINITION, text)
    earlier = {(use.kind, use.id): use for use in document.uses}
    current = {(use.kind, use.id): use for use in uses}
    for key, use in {**earlier, **current}.items():
        name = f"{_KINDS[use.kind]} {use.name}"
        if key not in current or key not in earlier:
            verb = "is no longer" if key in earlier else "is now"
            yield change(ChangeKind.DEFINITION, f"{name} {verb} part of the question")
        elif earlier[key].revision != use.revision:
            revisions = f" (revision {earlier[key].revision}, now {use.revision})"
            yield change(
                ChangeKind.DEFINITION,
                f"{name} changed{'' if use.kind == 'cohort' else revisions}",
            )


def website_changes(document: ReceiptDocument, website_ids: Iterable[str]) -> Iterator[Any]:
    """Yield the websites that the question reads beside or instead of those of the receipt."""
    own, current = {each.id for each in document.websites}, set(website_ids)
    for ids, verb in ((current - own, "added"), (own - current, "deleted")):
        if ids:
            was = "was" if len(ids) == 1 else "were"
            text = f"{count_of(len(ids), 'website')} {was} {verb}"
            yield change(ChangeKind.WEBSITES, text, len(ids))


def arrival_changes(rows: Sequence[Mapping[str, Any]], wording: Wording) -> Iterator[Any]:
    """Yield the events that the receipt did not know. rows: see `content_sums.arrivals`."""
    endings = {
        "late": (ChangeKind.LATE, "arrived after it"),
        "next": (ChangeKind.LATER, "occurred after it, while windows were open"),
        "earlier": (ChangeKind.EARLIER, "from before its period arrived after it"),
    }
    for group, (kind, ending) in endings.items():
        groups = [row for row in rows if row["arrival"] == group]
        if not groups:
            continue
        number = sum(row["events"] for row in groups)
        first, last = min(row["first"] for row in groups), max(row["last"] for row in groups)
        days = "" if group == "earlier" else f" of {wording.days(first, last)}"
        text = f"{count_of(number, 'event')}{days} {ending}"
        if group != "next":
            sources = list(dict.fromkeys(map(wording.source, groups)))
            more = len(sources) - _MAX_SOURCES
            shown = [*sources[:_MAX_SOURCES], *([f"{more} more"] if more > 0 else [])]
            text += f" ({', '.join(shown)})"
        yield change(kind, text, number)


def visitor_changes(row: Mapping[str, Any]) -> Iterator[ReceiptChangeRecord]:
    """Yield the merges of visitors and changes of traits. row: see `changed_visitors`."""
    texts = {
        "merged": (ChangeKind.MERGES, "{} {} merged into {}"),
        "separated": (ChangeKind.SEPARATIONS, "{} {} separated again"),
        "traits": (ChangeKind.TRAITS, "the traits of {} changed"),
    }
    for name, (kind, text) in texts.items():
        if number := row[name]:
            visitors = count_of(number, "visitor")
            was, others = ("was", "another") if number == 1 else ("were", "others")
            yield change(kind, text.format(visitors, was, others), number)


def content_changes(
    sums: SumsRecord, stored: SumsRecord, gaps: Sequence[GapRecord], wording: Wording
) -> Iterator[ReceiptChangeRecord]:
    """Yield what is not stored any more as the receipt counted it."""
    before = {(each.website, each.day): each for each in sums.events}
    now = {(each.website, each.day): each for each in stored.events}
    gone = more = 0
    days: list[str] = []
    altered = []
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        difference = (new.number if new else 0) - (old.number if old else 0)
        gone, more = gone + max(0, -difference), more + max(0, difference)
        if difference < 0:
            days.append(key[1])
        elif not difference and old and new and old.sum != new.sum:
            altered.append(key[1])
    earlier = {each.website: each.number for each in sums.earlier}
    for each in stored.earlier:
        earlier[each.website] = earlier.get(each.website, 0) - each.number
    gone_earlier = sum(max(0, number) for number in earlier.values())
    more += sum(max(0, -number) for number in earlier.values())
    reasons = _reasons(gaps, wording)
    if gone:
        text = f"{count_of(gone, 'event')} of {wording.days(min(days), max(days))}"
        yield change(ChangeKind.GONE, f"{text} that it counted {_are(gone)} gone{reasons}", gone)
    if gone_earlier:
        text = f"{count_of(gone_earlier, 'event')} from before its period"
        yield change(ChangeKind.GONE, f"{text} {_are(gone_earlier)} gone{reasons}", gone_earlier)
    if altered:
        days_words = wording.days(min(altered), max(altered))
        yield change(ChangeKind.ALTERED, f"the content of events of {days_words} changed")
    if more:
        text = (
            f"{count_of(more, 'event')} {_are(more)} stored that were received before it by their "
            "times of receipt, but were not stored then"
        )
        yield change(ChangeKind.UNKNOWN, text, more)
    if sums.merges != stored.merges:
        yield change(ChangeKind.ALTERED, "the merges that it counted are not stored as they were")
    if sums.traits != stored.traits:
        yield change(ChangeKind.ALTERED, "the traits that it counted are not stored as they were")


def restore_changes(restored: Iterable[Restore], wording: Wording) -> Iterator[ReceiptChangeRecord]:
    for each in restored:
        if wording.is_later(each.at):
            text = (
                f"the service was restored on {wording.day(each.at)} from a backup of "
                f"{utc_time(parse_time(each.backup_at))}"
            )
            yield change(ChangeKind.RESTORED, text)


def version_changes(document: ReceiptDocument) -> Iterator[ReceiptChangeRecord]:
    if document.penstock != __version__:
        yield change(
            ChangeKind.VERSION,
            f"the version of Penstock changed ({document.penstock}, now {__version__})",
        )


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _reasons(gaps: Sequence[GapRecord], wording: Wording) -> str:
    """Name the deletions and losses since the receipt, in brackets."""
    reasons = dict.fromkeys(
        {
            "retention": "retention",
            "deletion": f"deletion of {wording.day(gap.at)}",
            "loss": f"loss in the event store, found on {wording.day(gap.at)}",
        }[gap.kind]
        for gap in gaps
        if gap.kind == "retention"
        or (gap.kind in ("deletion", "loss") and wording.is_later(gap.at))
    )
    return f" ({', '.join(reasons)})" if reasons else ""


def sentences_of(
    document: ReceiptDocument,
    changes: Sequence[ReceiptChangeRecord],
    now: ReceiptFiguresRecord | None,
    recount: ReceiptFiguresRecord | None,
    gone_units: int | None,
) -> Iterator[str]:
    """Yield what an opened receipt says."""
    original, clauses = document.figures, [each.text for each in changes]
    if now is None:
        yield f"{_sentence(listed(clauses))}."
        return
    if original.holds_in(now):
        at = utc_time(parse_time(document.at))
        yield f"Unchanged: {rate_words(original, document.unit)}, as on {at}."
        if clauses:
            yield f"{_sentence(listed(clauses))}; the figures are the same."
        return
    before, after = short_rate(original), short_rate(now)
    if not clauses:
        clauses = [f"windows have ended since: {_settled(original, now, document.unit)}"]
    becomes = "stays" if before == after else "becomes"
    text = f"{_sentence(listed(clauses))}: {before} {becomes} {after}"
    if before == after:
        text = f"{_sentence(listed(clauses))}: the rate stays {before}, other figures change"
    if recount is None:
        yield f"{text}."
        if gone_units:
            yield f"{count_of(gone_units, document.unit)} that it counted {_are(gone_units)} gone."
        reason = "what it counted is not stored as it was"
        if any(each.kind is ChangeKind.DEFINITION for each in changes):
            reason = "the definition changed"
        yield f"Nothing is counted again without these changes, because {reason}."
    elif original.holds_in(recount):
        yield f"{text}; without what came later it is {before} again."
    else:
        reason = "something changed that its sums do not contain"
        if any(each.kind is ChangeKind.VERSION for each in changes):
            reason = "another version counts"
        again = short_rate(recount)
        yield f"{text}; without what came later it would be {again}, because {reason}."


def _settled(original: ReceiptFiguresRecord, now: ReceiptFiguresRecord, unit: str) -> str:
    number = max(0, now.settled - original.settled)
    return f"{count_of(number, unit)} settled"


def short_rate(figures: ReceiptFiguresRecord) -> str:
    rate = figures.rate
    return "no rate" if rate is None else percent(rate)


def rate_words(figures: ReceiptFiguresRecord, unit: str) -> str:
    """Return a rate in words: `61.3% of 1,200 settled visitors completed`."""
    if figures.rate is None:
        return f"no {unit} entered"
    so_far = "so far " if figures.is_so_far else ""
    settled = "settled " if figures.of == "settled" else ""
    nouns = unit if figures.whole == 1 else f"{unit}s"
    return f"{so_far}{percent(figures.rate)} of {figures.whole:,} {settled}{nouns} completed"


def step_words(figures: ReceiptFiguresRecord) -> str:
    """Return the steps with their units in words: `viewed 120 (100.0%), bought 60 (50.0%)`.

    Receipts of form 1 do not have the units of each step's rate.
    """
    return ", ".join(
        f"{step.name} {step.count:,}"
        if step.part is MISSING or not figures.whole
        else f"{step.name} {step.part:,} ({percent(step.part / figures.whole)})"
        for step in figures.steps
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
