"""`penstock import --dry-run`: what a file contains, and a first funnel, without a service."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from penstock.accounts.model import Website, WebsiteKind
from penstock.base.clock import parse_time, system_clock
from penstock.base.event_limits import MAX_EVENT_BYTES, MAX_NAME_CHARS
from penstock.base.hidden_text import printable
from penstock.base.ids import ScopeId, WebsiteId, WorkspaceId
from penstock.base.wording import count_of, utc_time
from penstock.cli.options import warn
from penstock.cli.progress import Progress, progress
from penstock.events.imports.dry_runs.schema import ImportSummaryRecord
from penstock.events.imports.dry_runs.summaries import summarise
from penstock.events.imports.formats.reader import Reader, ReaderLimits, Row
from penstock.events.imports.formats.schema import ImportMapping
from penstock.settings import Limits
from penstock.web.pages.funnels.first_funnel import equal_times_note, first_funnel

_MAX_LISTED = 20
_FEWEST_STEPS = 2
_WEBSITE = Website(
    id=WebsiteId("dry-run"),
    workspace_id=WorkspaceId("dry-run"),
    name="Dry run",
    kind=WebsiteKind.WEB,
    domain=None,
    identity_scope=None,
    scope_id=ScopeId("dry-run"),
    created_at_ms=0,
    updated_at_ms=0,
)
"""A placeholder for the website that the events would belong to."""


def try_file(file: Path, reader: Reader, mapping: ImportMapping | None, timezone: str) -> bool:
    """Print what an import of the file would do. Returns whether every line would be accepted.

    mapping: the uses of the columns of a table. timezone: time zone of local times of a product.
    """
    limits = ReaderLimits(
        MAX_EVENT_BYTES, Limits().max_import_inflated_bytes, is_dry_run=True, timezone=timezone
    )
    with progress() as bar:
        rows = with_progress(reader.rows(file, limits), bar, file.stat().st_size)
        summary = summarise(rows, _WEBSITE, system_clock(), mapping)
    _print_summary(summary)
    return summary.error is None and not summary.rejected


def with_progress(rows: Iterator[Row], bar: Progress, total: int) -> Iterator[Row]:
    for row in rows:
        bar.update("Reading", row.bytes_read, total)
        yield row


def _print_summary(summary: ImportSummaryRecord) -> None:
    of_visitors = "" if summary.visitors is None else f" of {count_of(summary.visitors, 'visitor')}"
    print(f"Dry run, nothing was stored. {count_of(summary.events, 'event')}{of_visitors}.")
    if summary.first_event_at is not None:
        times = (summary.first_event_at, summary.last_event_at)
        first, last = (utc_time(parse_time(time)) for time in times)
        print(f"They occurred from {first} to {last}.")
    for number, outcome in (
        (summary.duplicates, "repeated an earlier event"),
        (summary.identify_lines, "linked visitors to users"),
        (summary.identity_conflicts, "named a visitor of another user; nothing would be merged"),
        (summary.ignored_lines, "skipped, with nothing to store"),
        (summary.empty_lines, "empty"),
        (summary.rejected, "rejected"),
    ):
        if number:
            print(f"{count_of(number, 'line')}: {outcome}.")
    for reason in summary.reasons:
        field = f"{reason.field}: " if reason.field else ""
        lines = count_of(reason.lines, "line")
        print(f"  {lines}, the first is line {reason.first_line:,}. {field}{reason.message}")
    for warning in summary.warnings:
        print(f"Warning, {count_of(warning.lines or 0, 'line')}: {warning.message}")
    if summary.other_date_format:
        print(
            "Warning: Every date can be read with the day or the month first. If they are "
            f"{summary.other_date_format}, correct the format in the mapping."
        )
    for sentence in summary.left_out:
        print(f"The file is large. {sentence}")
    if summary.event_names:
        print("Events by type and name:")
    for event in summary.event_names[:_MAX_LISTED]:
        print(f"  {event.events:>12,}  {event.type:<11}  {printable(event.name)}")
    if summary.event_name_count > _MAX_LISTED:
        print(f"  and {summary.event_name_count - _MAX_LISTED:,} more")
    for each in summary.attempt_properties:
        print(f"Looks like an attempt ID: {printable(each.sentence)}")
    _print_first_funnel(summary)
    if summary.error is not None:
        warn(f"the import would fail after line {summary.lines_read:,}: {summary.error}")


def _print_first_funnel(summary: ImportSummaryRecord) -> None:
    """Print the funnel that the page of a dry run suggests, as a file for `penstock apply`."""
    attempt = summary.attempt_properties[0].name if summary.attempt_properties else None
    definition = first_funnel(summary, attempt)
    if len(definition["steps"]) < _FEWEST_STEPS:
        return
    values = {name: value for name, value in definition.items() if value is not None}
    first, *_, last = (step["value"] for step in definition["steps"])
    name = f"{first} to {last}"[:MAX_NAME_CHARS]
    values |= {"name": name, "countingUnit": str(definition["countingUnit"])}
    print("A first funnel. After the import, save it as funnels.yml, and run: ", end="")
    print("penstock apply funnels.yml")
    if note := equal_times_note(summary, attempt):
        print(f"# {printable(note)}")
    print(yaml.safe_dump({"funnels": [values]}, sort_keys=False, allow_unicode=False), end="")
