"""The `penstock` command."""

from penstock.base.optional_packages import without_package

# structlog uses rich only for coloured traces, which Penstock does not print (`penstock.cli.logs`).
with without_package("rich"):
    import structlog  # noqa: F401
