"""Recognising NDJSON by the beginning of an upload, before anything of it is stored."""

import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import AsyncIterator

from penstock.base.errors import UnsupportedMedia

GZIP_MAGIC = b"\x1f\x8b"
_HEAD_BYTES = 4096
_EXPECTED = "Send NDJSON: UTF-8 text with one JSON object per line."
_CONVERT_CSV = (
    'python3 -c \'import csv,json; [print(json.dumps({"type":"event"}|'
    "{k:v for k,v in row.items() if v})) "
    'for row in csv.DictReader(open("events.csv",encoding="utf-8-sig"))]\' > events.ndjson'
)


async def require_ndjson(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks. `UnsupportedMedia` when the first ones cannot be NDJSON, plain or gzip."""
    head = b""
    async for chunk in chunks:
        head += chunk
        if len(head) >= _HEAD_BYTES:
            break
    problem = _problem_with(_inflated(head))
    if problem is not None:
        raise UnsupportedMedia(f"{problem} {_EXPECTED}", code="not_ndjson")
    yield head
    async for chunk in chunks:
        yield chunk


def _inflated(head: bytes) -> bytes:
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD_BYTES)
    except zlib.error:
        return b""  # reading the file will say that it is damaged


def _problem_with(head: bytes) -> str | None:
    """Why a file that begins like this is not NDJSON, and how to convert it; else None."""
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "The file is UTF-16; save it as UTF-8."
    lines = head.removeprefix(BOM_UTF8).lstrip().splitlines()
    if not lines:
        return None
    first = lines[0].strip()
    if first.startswith(b"["):
        return (
            "The file is a JSON array. Convert it, for example with "
            "jq -c '.[]' events.json > events.ndjson."
        )
    if first == b"{":
        return (
            "The file has JSON objects over several lines. Convert it, for example with "
            "jq -c . events.json > events.ndjson."
        )
    if not first.startswith(b"{"):
        return (
            "The file does not begin with a JSON object. In the first line of a CSV file, name the "
            "columns as the fields of an event, such as timestamp, name and visitorId or userId; "
            f"then convert it with {_CONVERT_CSV} ."
        )
    return None
