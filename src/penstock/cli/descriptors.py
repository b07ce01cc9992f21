"""File descriptors: the embedded engine opens several for each part that it reads or merges."""

import resource

from penstock.cli.options import fail

NEEDED = 4096
"""A merge of ten parts with many columns, sockets, and room to spare."""


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard one. Ends the command when that is too few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < NEEDED:
        fail(
            f"this process may open {hard:,} files, but the embedded event store needs "
            f"{NEEDED:,}; raise the limit with `ulimit -Hn {NEEDED}` as root, LimitNOFILE= in a "
            "systemd unit, or `--ulimit nofile` of Docker"
        )
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # macOS allows less than its "unlimited"
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, NEEDED), hard))
