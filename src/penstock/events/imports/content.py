"""Checks the start of an upload against its format before anything is stored."""

import zlib
from collections.abc import AsyncIterator

from penstock.base.errors import UnsupportedMedia
from penstock.base.wording import listed
from penstock.events.imports.formats.reader import HEAD_BYTES, Reader
from penstock.events.imports.formats.table import READERS
from penstock.events.imports.formats.text_lines import GZIP_MAGIC


async def require_format(chunks: AsyncIterator[bytes], reader: Reader) -> AsyncIterator[bytes]:
    """Yield the chunks unchanged. Raises `UnsupportedMedia` if they start like a file of another
    format.
    """
    head = b""
    async for chunk in chunks:
        head += chunk
        if len(head) >= HEAD_BYTES:
            break
    problem = reader.head_problem(_inflated(head))
    if problem is not None:
        raise UnsupportedMedia(f"{problem} {_other_formats(reader)}", code=f"not_{reader.name}")
    yield head
    async for chunk in chunks:
        yield chunk


def _inflated(head: bytes) -> bytes:
    if not head.startswith(GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""  # The damage is reported later, when the file is read.


def _other_formats(reader: Reader) -> str:
    others = [
        f"{other.name} with Content-Type: {other.media_types[0]}"
        for other in READERS
        if other is not reader
    ]
    return f"You can also send {listed(others, 'or')}."
