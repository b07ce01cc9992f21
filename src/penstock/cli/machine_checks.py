"""The checks of `penstock doctor` that need only this machine and the settings."""

import ctypes
import os
import platform
import stat
import sys
from collections.abc import Iterator
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from penstock import __version__
from penstock.base.disk_space import DiskSpace
from penstock.cli.configuration import Configuration
from penstock.cli.pages import page_path
from penstock.metadb.secret_box import KEY_FILE
from penstock.settings import Settings

_LITTLE_DISK = 100 * 1024**2
_BASE_BYTES = 500_000_000
"""Memory that the service uses apart from queries and request bodies, in bytes."""
_CLOCK_ERROR = 5
"""Return value of adjtimex(2) for an unsynchronised clock."""
_CGROUP = Path("/sys/fs/cgroup/memory.max")


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


class Check(NamedTuple):
    """The result of one check. advice: how to fix the problem; empty if the check passed."""

    name: str
    status: Status
    message: str
    advice: str = ""


def ok(name: str, message: str) -> Check:
    return Check(name, Status.OK, message)


def warning(name: str, message: str, advice: str) -> Check:
    return Check(name, Status.WARNING, message, advice)


def failure(name: str, message: str, advice: str) -> Check:
    return Check(name, Status.FAILURE, message, advice)


def machine_checks(configuration: Configuration) -> Iterator[Check]:
    """Check versions, settings, disk, memory, clock and permissions."""
    settings = configuration.settings
    yield ok(
        "versions",
        f"Penstock {__version__}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.release()}",
    )
    yield from _packages()
    yield from _settings(configuration)
    yield _disk(settings.disk_space)
    yield _memory(settings)
    yield _clock()
    yield _permissions(configuration)


def _packages() -> Iterator[Check]:
    """Check that no package overwrites files of this one. Up to version 0.2.0, this package was
    called `penstock`, as is another project on the Python Package Index.
    """
    for other in metadata.distributions(name="penstock"):
        if any(str(file) == "penstock/__init__.py" for file in other.files or ()):
            yield warning(
                "packages",
                f"The package penstock {other.version} is installed too. It has files of the same "
                "names as penstock-server.",
                "Uninstall both, for example with `pip uninstall penstock penstock-server`, and "
                "install penstock-server again.",
            )


def _settings(configuration: Configuration) -> Iterator[Check]:
    origin = configuration.file.absolute() if configuration.file else "no settings file"
    yield ok("settings", f"Valid ({origin}).")
    for _, fields in configuration.warnings():
        yield warning(
            "settings",
            fields["message"],
            "Remove or correct the variables, or set PENSTOCK_DATA. "
            "`penstock config` shows the settings in force.",
        )


def _disk(space: DiskSpace) -> Check:
    data = space.folder.absolute()
    folder = next(path for path in (data, *data.parents) if path.is_dir())
    free = space._replace(folder=folder).free_bytes()
    message = f"{free / 1e9:,.1f} GB are free for {space.folder}."
    advice = "Free some space, or move the data folder to a larger disk."
    if free < _LITTLE_DISK:
        return failure("disk", message, advice)
    if free < space.min_free_bytes:
        message += " Uploads, imports and exports stop (PENSTOCK_MIN_FREE_DISK_BYTES)."
    return (
        warning("disk", message, advice) if free < 2 * space.min_free_bytes else ok("disk", message)
    )


def _memory(settings: Settings) -> Check:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if _CGROUP.is_file() and (limit := _CGROUP.read_text("ascii").strip()).isdigit():
        total = min(total, int(limit))
    queries = settings.queries_at_once * settings.query_memory_bytes
    needed = _BASE_BYTES + queries + 4 * settings.bodies_bytes
    message = f"{total / 1e9:,.1f} GB; queries and requests may use up to {needed / 1e9:,.1f} GB."
    if needed <= total:
        return ok("memory", message)
    return warning(
        "memory",
        message,
        "Lower PENSTOCK_QUERY_MEMORY_BYTES, PENSTOCK_QUERIES_AT_ONCE or PENSTOCK_BODIES_BYTES; "
        f'{page_path("operating.md")} has values under "Small machines".',
    )


def _clock() -> Check:
    if sys.platform != "linux":
        return ok("clock", "Not checked on this system.")
    # The buffer is larger than struct timex; zeros only read the clock.
    reading = ctypes.create_string_buffer(512)
    if ctypes.CDLL(None).adjtimex(reading) != _CLOCK_ERROR:
        return ok("clock", "Synchronised.")
    return warning(
        "clock",
        "Nothing synchronises the clock of this machine.",
        "Turn on NTP, such as with `timedatectl set-ntp true`: events get the time of receipt.",
    )


def _permissions(configuration: Configuration) -> Check:
    settings, file = configuration.settings, configuration.file
    data = settings.data
    if data.exists() and not (data.is_dir() and os.access(data, os.R_OK | os.W_OK | os.X_OK)):
        return failure(
            "permissions",
            f"This user may not write to {data}.",
            f"Run the command as the service's user, or give it the folder: chown -R USER {data}",
        )
    key_file = settings.secret_key_file or data / KEY_FILE
    private = [path for path in (data, key_file, file) if path and path.exists()]
    if exposed := [str(path) for path in private if stat.S_IMODE(path.stat().st_mode) & 0o077]:
        return warning(
            "permissions",
            f"Other users may read {', '.join(exposed)}.",
            f"chmod go= {' '.join(exposed)}",
        )
    return ok("permissions", "Only this user may read the data folder, keys and settings file.")
