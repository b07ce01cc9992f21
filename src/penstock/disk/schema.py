"""Wire types for the use of the disk."""

from penstock.disk.model import DiskUse, FileKind
from penstock.http.schema import Record


class FileUseRecord(Record):
    kind: FileKind
    """uploads: import files that are arriving on this node. dry_runs: import files before their
    start. imports: files of started imports. import_mappings: saved mappings. job_results: results
    of jobs.
    """
    files: int
    bytes: int


class DiskUseRecord(Record):
    used_bytes: int
    max_bytes: int
    """Maximum size of all these files together."""
    files: list[FileUseRecord]
    """The use by kind of file."""
    is_disk_low: bool
    """Whether the disk of the service has so little free space that uploads, dry runs, imports and
    exports stop.
    """

    @classmethod
    def from_use(cls, use: DiskUse) -> "DiskUseRecord":
        return cls.from_object(use, used_bytes=use.bytes)
