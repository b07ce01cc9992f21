"""Free space on the disk of the data folder. The last part of it is reserved for events."""

import shutil
from pathlib import Path
from typing import NamedTuple

from penstock.base.errors import OutOfDisk

FULL_BYTES = 16 * 1024**2
"""Free bytes below which a disk counts as full."""


class DiskSpace(NamedTuple):
    """The disk of a folder. Methods block, and raise `OSError` if the disk fails.

    min_free_bytes: free bytes below which only events, log-ins, cancellations and deletions may
    write.
    """

    folder: Path
    min_free_bytes: int

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.folder).free

    def is_low(self) -> bool:
        return self.free_bytes() < self.min_free_bytes

    def is_full(self) -> bool:
        """Whether a store may be unable to write."""
        return self.free_bytes() < FULL_BYTES

    def require(self, work: str) -> None:
        """Raise `OutOfDisk` if the disk is low. work: plural noun for the work that stops."""
        free = self.free_bytes()
        if free >= self.min_free_bytes:
            return
        raise OutOfDisk(
            f"The disk of this service has {_megabytes(free)} MB free. Below "
            f"{_megabytes(self.min_free_bytes)} MB, {work} stop, so that events can still be "
            "stored. Cancel imports that nobody needs, or ask the operator for more disk space; "
            "then send the request again.",
            code="disk_low",
        )


def _megabytes(size: int) -> str:
    return f"{size // 1_000_000:,}"
