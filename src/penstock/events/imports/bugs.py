"""Logs errors in the code that reads files."""

from traceback import format_tb

import structlog

from penstock.base.ids import ImportId

log = structlog.get_logger()


def log_bug(event: str, import_id: ImportId, error: Exception) -> None:
    """Log an error without its message, which may contain values of the file."""
    log.error(
        event,
        import_id=import_id,
        error=type(error).__name__,
        traceback="".join(format_tb(error.__traceback__)),
    )
