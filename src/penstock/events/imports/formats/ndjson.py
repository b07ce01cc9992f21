"""NDJSON: each line is the JSON text of an event."""

from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from penstock.events.imports.formats.reader import Guide, Reader, ReaderLimits, Row, UnreadableFile
from penstock.events.imports.formats.text_lines import text_lines

_MAX_EMPTY_AT_START = 1_000_000
_OBJECT = Decoder(dict[str, Raw])
_FIELDS_OF_OTHERS = {
    "event_type": "amplitude",
    "distinct_id": "posthog",
    "anonymousId": "segment",
    "messageId": "segment",
}
_FIELDS_OF_MIXPANEL = {"event", "properties"}
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
    lines = head.removeprefix(BOM_UTF8).lstrip().splitlines()
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
    return _other_format(first)


def _other_format(line: bytes) -> str | None:
    """Return which format to use instead if a line has fields of another product's export."""
    try:
        fields = set(_OBJECT.decode(line))
    except (DecodeError, RecursionError, UnicodeError):
        return None  # The line is cut off, or rejected when it is read.
    name = next((name for field, name in _FIELDS_OF_OTHERS.items() if field in fields), None)
    if name is None and fields == _FIELDS_OF_MIXPANEL:
        name = "mixpanel"
    return name and (
        f"The first line looks like an export in the format {name}; send format={name}, or add "
        f"--from {name} to penstock import."
    )


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
