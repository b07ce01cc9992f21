"""Checks the start of an upload against its format before anything is stored."""

from collections.abc import AsyncIterator

from penstock.base.errors import UnsupportedMedia
from penstock.base.wording import listed
from penstock.events.imports.formats.reader import HEAD_BYTES, Reader
from penstock.events.imports.formats.table import READERS, how_to_send
from penstock.events.imports.formats.unpacking import unpacked_head


async def require_format(chunks: AsyncIterator[bytes], reader: Reader) -> AsyncIterator[bytes]:
    """Yield the chunks unchanged. Raises `UnsupportedMedia` if they start like a file of another
    format.
    """
    head = b""
    async for chunk in chunks:
        head += chunk
        if len(head) >= 2 * HEAD_BYTES:  # An archive begins with the name of its first file.
            break
    problem = problem_of_head(head, reader)
    if problem is not None:
        raise UnsupportedMedia(f"{problem} {_other_formats(reader)}", code=f"not_{reader.name}")
    yield head
    async for chunk in chunks:
        yield chunk


def problem_of_head(head: bytes, reader: Reader) -> str | None:
    """Return why a file that begins with these bytes, as sent, is not in the reader's format."""
    return reader.head_problem(unpacked_head(head))


def _other_formats(reader: Reader) -> str:
    others = [f"{each.name} with {how_to_send(each)}" for each in READERS if each is not reader]
    return f"You can also send {listed(others, 'or')}."
