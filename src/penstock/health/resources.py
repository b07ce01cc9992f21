"""Resources that this process uses: descriptors, memory and disk."""

import resource
import shutil
from pathlib import Path

from penstock.base.disk_space import DiskSpace
from penstock.base.metrics import PolledGauge
from penstock.health.model import Resources

_DESCRIPTORS = Path("/proc/self/fd") if Path("/proc/self/fd").is_dir() else Path("/dev/fd")
_MEMORY = Path("/proc/self/statm")


def read_resources(space: DiskSpace) -> Resources:
    """Read current resource use. space: the disk to check."""
    disk = shutil.disk_usage(space.folder)
    return Resources(
        open_descriptors=sum(1 for _ in _DESCRIPTORS.iterdir()),
        descriptor_limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        memory=_resident_bytes(),
        disk_free=disk.free,
        disk_total=disk.total,
        min_disk_free=space.min_free_bytes,
    )


def _resident_bytes() -> int:
    """Return the memory in use, in bytes. On systems without /proc, returns the peak so far."""
    try:
        pages = int(_MEMORY.read_text("ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * resource.getpagesize()


def resource_gauges(space: DiskSpace) -> list[PolledGauge]:
    """Gauges for disk space. The client library adds gauges for the process's descriptors and
    memory.
    """
    return [
        PolledGauge(
            "penstock_disk_free_bytes",
            "Free space on the disk of the data folder.",
            space.free_bytes,
        ),
        PolledGauge(
            "penstock_disk_low",
            "1 while the disk has so little free space that uploads, imports and exports stop.",
            space.is_low,
        ),
    ]
