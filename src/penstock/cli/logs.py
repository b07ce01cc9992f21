"""Logs of Penstock and its libraries, written to stderr: as text on a terminal, otherwise as JSON
lines.
"""

import logging
import sys
from typing import Any

import structlog

from penstock.base.request_ids import add_request_id
from penstock.cli.log_limits import LineLimiter

_SECRET_NAMES = frozenset(
    {"authorization", "cookie", "key", "password", "secret", "setup_token", "token"}
)


def configure_logs(level: str) -> None:
    """Set up logging for this process. level: debug, info, warning or error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        add_request_id,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _mask_secrets,
    ]
    if sys.stderr.isatty():
        # Omit local variables from traces, because they may contain passwords and keys.
        rendering: list[Any] = [
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        ]
    else:
        rendering = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(LineLimiter())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "alembic", "httpx", "httpcore", "clickhouse_connect", "mcp"):
        logging.getLogger(name).setLevel("DEBUG" if level == "debug" else "WARNING")
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _mask_secrets(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Mask secrets. This is a safety net, because no code logs secrets on purpose."""
    return {name: "***" if name in _SECRET_NAMES else value for name, value in event.items()}
