"""Temporary files that are written first and sent later. They disappear when they are closed."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, NamedTuple


class NamedFile(NamedTuple):
    """A file to download. file: an open temporary file, rewound. name: its name for the reader."""

    file: IO[bytes]
    name: str


@contextmanager
def temporary_file() -> Iterator[IO[bytes]]:
    """Open a temporary file for writing.

    The file is rewound at the end of the context, and the caller closes it. An error in the context
    closes it.
    """
    file = TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        yield file
    except BaseException:
        file.close()
        raise
    file.seek(0)
