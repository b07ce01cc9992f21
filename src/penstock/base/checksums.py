"""Checksums of files."""

from hashlib import file_digest
from pathlib import Path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex. Raises `OSError`."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
