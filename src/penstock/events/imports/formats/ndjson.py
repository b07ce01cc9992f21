"""NDJSON: each line is the JSON text of an event."""

from collections.abc import Iterator
from pathlib import Path

from penstock.events.imports.formats.reader import Guide, Reader, ReaderLimits, Row, UnreadableFile
from penstock.events.imports.formats.text_lines import text_lines

_MAX_EMPTY_AT_START = 1_000_000
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


NDJSON = Reader(
    name="ndjson",
    description="NDJSON: one JSON object per line",
    media_types=("application/x-ndjson", "application/ndjson", "application/jsonl"),
    endings=(".ndjson", ".jsonl", ".json"),
    guide=Guide(
        "One JSON object per line, with the fields of an event.",
        "Fields of a line",
        "/api/docs#post-api-imports",
    ),
    head_problem=_head_problem,
    read_rows=_rows,
)
