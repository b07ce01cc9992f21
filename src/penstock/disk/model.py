"""Plain types for the use of the disk. Sizes are in bytes."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class FileKind(StrEnum):
    """Kinds of files that wait on the disk.

    uploads: import files that are arriving on this node. dry_runs: files whose import has not
    started. imports: files of started imports. import_mappings: saved mappings. job_results:
    results that a client has not removed yet.
    """

    UPLOADS = "uploads"
    DRY_RUNS = "dry_runs"
    IMPORTS = "imports"
    IMPORT_MAPPINGS = "import_mappings"
    JOB_RESULTS = "job_results"


class FileUse(NamedTuple):
    """Number and size of the files of one kind."""

    kind: FileKind
    files: int
    bytes: int


class DiskUse(NamedTuple):
    """Use of the disk by the waiting files of a workspace.

    max_bytes: the budget. is_disk_low: whether the whole disk has too little free space.
    """

    files: Sequence[FileUse]
    max_bytes: int
    is_disk_low: bool

    @property
    def bytes(self) -> int:
        return sum(use.bytes for use in self.files)
