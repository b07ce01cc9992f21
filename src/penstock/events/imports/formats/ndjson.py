"""NDJSON: each line is the JSON text of an event."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

from penstock.events.imports.formats.exports import MAX_EXPORT_LINE_BYTES
from penstock.events.imports.formats.objects import (
    object_rows,
    path_problem,
    read_object_by,
    sample_objects,
)
from penstock.events.imports.formats.reader import (
    Guide,
    Reader,
    ReaderLimits,
    Row,
    Sample,
    UnreadableFile,
    within_time,
)
from penstock.events.imports.formats.schema import ImportMapping
from penstock.events.imports.formats.text_lines import text_lines
from penstock.events.imports.formats.times import FileTimes

_MAX_EMPTY_AT_START = 1_000_000
_MAX_SAMPLE_S = 1.0
"""Time limit for finding the first objects of a file, in seconds."""
_TYPES = ("pageview", "screenview", "event", "transaction", "identify", "stored")
_IDS = {"visitorId", "userId"}
"""Fields of which an event has one."""
_EXPECTED = "Send NDJSON: text with one JSON object per line."


def _rows(path: Path, limits: ReaderLimits) -> Iterator[Row]:
    """Yield every line. Raises `UnreadableFile` if reading cannot continue."""
    empty_lines = 0
    for row in text_lines(path, limits):
        empty_lines += row.empty_lines
        if row.lines_read == empty_lines >= _MAX_EMPTY_AT_START:
            raise UnreadableFile(f"The first {_MAX_EMPTY_AT_START:,} lines are empty.")
        yield row


def _head_problem(head: bytes) -> str | None:
    lines = head.lstrip().splitlines()
    if not lines:
        return None
    first = lines[0].strip()
    if first.startswith(b"["):
        return (
            "The file is a JSON array. Convert it, for example with "
            f"jq -c '.[]' events.json > events.ndjson. {_EXPECTED}"
        )
    if first == b"{":
        return (
            "The file has JSON objects over several lines. Convert it, for example with "
            f"jq -c . events.json > events.ndjson. {_EXPECTED}"
        )
    if not first.startswith(b"{"):
        return f"The file does not begin with a JSON object. {_EXPECTED}"
    return None


def _mapped(mapping: ImportMapping) -> Reader:
    """Return the reader of JSON lines of any shape with this mapping."""

    def rows(path: Path, limits: ReaderLimits) -> Iterator[Row]:
        limits = limits._replace(max_row_bytes=MAX_EXPORT_LINE_BYTES)
        times = FileTimes(ZoneInfo(mapping.timezone), compares_dates=limits.is_dry_run)
        read_object = read_object_by(mapping, times)
        yield from times.noted(object_rows(_rows(path, limits), read_object))

    return replace(
        NDJSON,
        head_problem=lambda head: path_problem(mapping) or _head_problem(head),
        read_rows=rows,
    )


def _sample(path: Path, limits: ReaderLimits) -> Sample:
    """Read the first objects. Raises `UnreadableFile` if the file has none near its beginning."""
    limits = limits._replace(max_row_bytes=MAX_EXPORT_LINE_BYTES)
    sample = sample_objects(within_time(_rows(path, limits), _MAX_SAMPLE_S))
    if not sample.columns:
        raise UnreadableFile("The file does not begin with JSON objects.")
    types = sample.columns.index("type") if "type" in sample.columns else None
    is_mapped = types is not None and any(row[types] in _TYPES for row in sample.rows)
    return sample._replace(is_mapped=is_mapped and not _IDS.isdisjoint(sample.columns))


NDJSON = Reader(
    name="ndjson",
    description="NDJSON: one JSON object per line, with the fields of an event, or any with a "
    "mapping",
    media_types=("application/x-ndjson", "application/ndjson", "application/jsonl"),
    endings=(".ndjson", ".jsonl", ".json"),
    guide=Guide(
        "One JSON object per line. You choose what its parts mean after the upload, unless they "
        "are the fields of an event.",
        "Fields of a line",
        "/api/docs#post-api-imports",
    ),
    head_problem=_head_problem,
    read_rows=_rows,
    sample=_sample,
    mapped=_mapped,
)
