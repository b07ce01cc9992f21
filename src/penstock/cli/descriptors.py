"""Limits on file descriptors. The embedded engine opens several for each part that it reads or
merges.
"""

import resource

import structlog

from penstock.cli.options import fail
from penstock.settings import Settings

log = structlog.get_logger()

NEEDED = 4096
"""Number of file descriptors that are enough for a merge of ten parts with many columns, for
sockets, and as a reserve.
"""


def raise_descriptor_limit() -> None:
    """Raise the soft limit on open files to the hard limit. Ends the command if the hard limit is
    too low.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < NEEDED:
        fail(
            f"this process may open {hard:,} files, but the embedded event store needs "
            f"{NEEDED:,}; raise the limit with `ulimit -Hn {NEEDED}` as root, LimitNOFILE= in a "
            "systemd unit, or `--ulimit nofile` of Docker"
        )
    _raise_soft_limit()


def fit_connections(settings: Settings) -> Settings:
    """Lower the number of connections if necessary, to leave enough descriptors for the stores'
    files.
    """
    soft = _raise_soft_limit()
    possible = max(1, soft - min(NEEDED, soft // 2))
    if soft == resource.RLIM_INFINITY or possible >= settings.connections:
        return settings
    log.warning("fewer_connections", connections=possible, open_files=soft)
    return settings.model_copy(update={"connections": possible})


def _raise_soft_limit() -> int:
    """Raise the soft limit on open files, and return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # macOS allows fewer open files than its "unlimited" suggests
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, NEEDED), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
